r"""Saddle to saddle: index and unstable direction of each plateau, and the distance to the limit orbit in between.

A plateau of k clusters is almost a critical point of the energy on the k-cluster configurations. Its index counts the
directions in which $E=\frac1\beta\sum_{i<j}m_im_jK_{ij}$, which grows along the flow, is convex:

$$\nabla^2E[y,y]=\sum_{i<j}m_im_jK_{ij}\big(\beta\,\dot c_{ij}^2-c_{ij}(|y_i|^2+|y_j|^2)+2\langle y_i,y_j\rangle\big),
  \quad \dot c_{ij}=\langle y_i,x_j\rangle+\langle x_i,y_j\rangle .$$

On the circle this is a graph Laplacian with weights $\beta\sin^2u-\cos u$: if they are all positive the index is k-1,
and the rotation is left over. The terms are graded over $\beta(\cos u_{\min}-\cos u_{\max})$ e-folds, so the
signs are counted in decimals of as many digits. In higher dimension the index depends on the places of the clusters.

The limit orbit for $\beta\to\infty$ is a polygon: in its k-th side the pair that meets goes along its great circle to
the mean by mass (USA) or by squared mass (SA), and all others stand still. The distance of a run to a side is the
largest of $(\sum_im_ir_i^2)^{1/2}$, $r_i$ the angles to the nearest configuration on the side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext

import numpy as np
from jaxtyping import Float, Int

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, real_number
from sphereflow.metastability.atoms import Atoms, exponents, real_tokens
from sphereflow.metastability.coarsen import Rules, advance, begin
from sphereflow.metastability.history import Merge
from sphereflow.metastability.modes import linearisation
from sphereflow.metastability.slow import DOMINANT, nearest_pair
from sphereflow.metastability.staircases import meeting_point
from sphereflow.numerics.unit_vectors import angles, on_the_way, tangent_frames, unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

_MOST_DIGITS = 20_000
_MOST_COORDINATES = 64
_SPARE = 40  # digits beyond the grading
_STEPS = 4  # of the projection on a side, which is exact after one on the circle


@dataclass(frozen=True, eq=False, repr=False)
class SaddlePath(Result):
    """One entry per plateau, from the first to the last: that of two clusters.

    `count` is the number of clusters, `index` the number of unstable directions, `log_rate` the logarithm of the
    largest rate, `alignment` the cosine between its direction and that in which the pair that merges next moves;
    `log_times` the logarithm of the time at which it has merged, `distance` that of the run from the side of the limit
    orbit; `closest` whether the pair was the closest of the limit orbit.
    """

    model: str
    beta: float
    count: Int[np.ndarray, " s"]
    index: Int[np.ndarray, " s"]
    log_rate: Float[np.ndarray, " s"]
    alignment: Float[np.ndarray, " s"]
    log_times: Float[np.ndarray, " s"]
    distance: Float[np.ndarray, " s"]
    closest: tuple[bool, ...]

    def variables(self) -> Variables:
        columns = {
            "count": self.count,
            "index": self.index,
            "log_rate": self.log_rate,
            "alignment": self.alignment,
            "log_time": self.log_times,
            "distance": self.distance,
            "closest": np.array(self.closest),
        }
        return {name: ("plateau", values) for name, values in columns.items()}

    def facts(self) -> list[str]:
        indices = ", ".join(str(i) for i in self.index)
        return [
            f"{len(self.count)} plateaus, {self.model.upper()}, beta = {self.beta:g}, of indices {indices}",
            f"at most {self.distance.max():.3g} from the limit orbit",
        ]


@recorded_call
def saddle_path(
    x0: ArrayLike, beta: float, model: str | Dynamics = "usa", *, masses: ArrayLike | None = None, tol: float = 1e-9
) -> SaddlePath:
    """Follow few tokens to the single cluster and look at every saddle on the way.

    Tokens (n, d) with n(d-1) at most 64; a symmetric start that balances exactly is refused.
    """
    beta = real_number("beta", beta, above=1, most=1e6)
    kind = attention_name(model, beta)
    x = unit(real_tokens("x0", x0))
    a = np.ones(len(x)) if masses is None else real_array("masses", masses)
    if a.shape != (len(x),) or not (a > 0).all():
        raise SphereflowError(f"masses must be {len(x)} positive numbers, one per token.")
    if len(x) < 2 or x.shape[1] < 2 or len(x) * (x.shape[1] - 1) > _MOST_COORDINATES:
        raise SphereflowError(f"x0 must be (n, d) with n at least 2 and n(d-1) at most 64, got {x.shape}.")
    rules = Rules(kind, beta, 1e-3 / math.sqrt(beta), real_number("tol", tol, least=1e-12, most=1e-3))
    moment, _, _ = begin(Atoms(x, a / a.sum(), np.arange(len(x))), rules)
    if len(moment.atoms) < 2:
        raise SphereflowError("all tokens of x0 are at one place: there is no saddle to leave.")
    places = {int(name): point for name, point in zip(moment.atoms.names, moment.atoms.positions, strict=True)}
    whole: list[tuple[int, int]] = []
    rows: list[tuple[float, ...]] = []
    closest: list[bool] = []
    while len(moment.atoms) > 1:
        atoms = moment.atoms
        frames: list[np.ndarray] = []
        merges: list[Merge] = []
        while not merges:
            watched = nearest_pair(moment.atoms, beta)[2] <= DOMINANT
            moment, merges, _ = advance(moment, rules, _recorder(frames) if watched else None)
            if merges and watched:
                frames.pop()  # the end of the last step, beyond the meeting
            if moment.outcome is not None and not merges:
                raise SphereflowError("x0 balances exactly and never leaves its saddle: move a token a little.")
        met = merges[0]
        i, j = (int(np.flatnonzero(atoms.names == name)[0]) for name in (met.left, met.right))
        frames.append(_meeting(atoms, moment.atoms, np.array(met.position), i, j))
        fixed = np.stack([places[int(name)] for name in atoms.names])
        landing = meeting_point(fixed[i], fixed[j], float(atoms.masses[i]), float(atoms.masses[j]), kind)
        apart = max(_to_side(points, fixed, atoms.masses, (i, j), landing) for points in frames)
        log_rate, alignment = _leaving(atoms, beta, kind, i, j)
        index = hessian_index(atoms.positions, atoms.masses, beta)[0]
        whole.append((len(atoms), index))
        rows.append((log_rate, alignment, met.log_time, apart))
        closest.append(nearest_pair(Atoms(fixed, atoms.masses, atoms.names), beta)[:2] == (min(i, j), max(i, j)))
        for merge in merges:  # usually one
            left, right = places.pop(merge.left), places.pop(merge.right)
            places[merge.node] = meeting_point(left, right, merge.mass_left, merge.mass_right, kind)
    counts, indices = np.array(whole, dtype=int).T
    rates, cosines, log_times, distances = np.array(rows).T
    return SaddlePath(kind, beta, counts, indices, rates, cosines, log_times, distances, tuple(closest))


def hessian_index(x: Float[np.ndarray, "k d"], masses: Float[np.ndarray, " k"], beta: float) -> tuple[int, int]:
    """(unstable directions, directions in which nothing changes) of the energy of clusters, by signs of pivots."""
    table = exponents(x, beta)
    off = table[np.isfinite(table)]
    digits = int((off.max() - off.min()) / math.log(10)) + _SPARE
    if digits > _MOST_DIGITS:
        raise SphereflowError(f"the index at beta={beta:g} takes {digits} digits: choose a smaller beta.")
    with localcontext(Context(prec=digits)):
        matrix = _hessian(x, masses, beta)
        size = min(Decimal(float(a * b)) for a in masses for b in masses) * Decimal(float(off.min())).exp()
        return _inertia(matrix, size * Decimal("1e-12"))


def _hessian(x: np.ndarray, masses: np.ndarray, beta: float) -> list[list[Decimal]]:
    k, d = x.shape
    points = []
    for row in x:
        exact = [Decimal(float(v)) for v in row]
        norm = _dot(exact, exact).sqrt()
        points.append([v / norm for v in exact])
    frames = [_frame(p) for p in points]
    width = d - 1
    matrix = [[Decimal(0)] * (k * width) for _ in range(k * width)]
    sharp = Decimal(float(beta))
    for i in range(k):
        for j in range(i):
            inner = _dot(points[i], points[j])
            weight = Decimal(float(masses[i] * masses[j])) * (sharp * (inner - 1)).exp()
            turn = {i: [_dot(e, points[j]) for e in frames[i]], j: [_dot(e, points[i]) for e in frames[j]]}
            for p in (i, j):
                for q in (i, j):
                    for a in range(width):
                        for b in range(width):
                            entry = sharp * turn[p][a] * turn[q][b]
                            if p != q:
                                entry += _dot(frames[p][a], frames[q][b])
                            elif a == b:
                                entry -= inner
                            matrix[p * width + a][q * width + b] += weight * entry
    return matrix


def _dot(a: list[Decimal], b: list[Decimal]) -> Decimal:
    return sum((u * v for u, v in zip(a, b, strict=True)), Decimal(0))


def _frame(x: list[Decimal]) -> list[list[Decimal]]:
    """An orthonormal basis of the tangent space: columns of the reflection that takes x to a coordinate axis."""
    if len(x) == 2:
        return [[-x[1], x[0]]]
    mirror = [x[0] + (1 if x[0] >= 0 else -1), *x[1:]]
    square = _dot(mirror, mirror)
    size = range(len(x))
    return [[(1 if r == c else 0) - 2 * mirror[r] * mirror[c] / square for r in size] for c in size][1:]


def _inertia(matrix: list[list[Decimal]], zero: Decimal) -> tuple[int, int]:
    """(positive pivots, zero pivots) of a symmetric matrix, eliminated by its largest diagonal entries."""
    left, positive, flat = list(range(len(matrix))), 0, 0
    while left:
        p = max(left, key=lambda r: abs(matrix[r][r]))
        left.remove(p)
        pivot = matrix[p][p]
        if abs(pivot) <= zero:
            flat += 1
            continue
        positive += pivot > 0
        for r in left:
            factor = matrix[r][p] / pivot
            for c in left:
                matrix[r][c] -= factor * matrix[p][c]
    return positive, flat


def _recorder(frames: list[np.ndarray]) -> Callable[[np.ndarray], float]:
    """A stop condition that is never met, and records the positions at which it is evaluated."""

    def keep(x: np.ndarray) -> float:
        frames.append(x)
        return 1.0

    return keep


def _meeting(before: Atoms, after: Atoms, at: np.ndarray, i: int, j: int) -> np.ndarray:
    """The end of a stage: the pair at its meeting point, the others where they are then."""
    there = {int(name): point for name, point in zip(after.names, after.positions, strict=True)}
    rows = zip(before.names, before.positions, strict=True)
    ends = np.stack([there.get(int(name), point) for name, point in rows])
    ends[i] = ends[j] = at
    return ends


def _to_side(x: np.ndarray, fixed: np.ndarray, masses: np.ndarray, pair: tuple[int, int], landing: np.ndarray) -> float:
    """The mass-weighted distance of a configuration from a side, by a few steps of its orthogonal projection."""
    rows = list(pair)
    spans = angles(fixed[rows], landing[None])
    s = 0.0
    side = fixed.copy()
    for _ in range(_STEPS):
        side[rows] = [on_the_way(fixed[r], landing, s * u) for r, u in zip(rows, spans, strict=True)]
        ahead = np.array([on_the_way(fixed[r], landing, s * u + 1e-3) for r, u in zip(rows, spans, strict=True)])
        velocity = _log(side[rows], ahead) * (spans / 1e-3)[:, None]
        miss = _log(side[rows], x[rows])
        weigh = masses[rows]
        speed = float(weigh @ np.sum(velocity**2, axis=1))
        s = min(max(s + float(weigh @ np.sum(miss * velocity, axis=1)) / speed, 0.0), 1.0)
    side[rows] = [on_the_way(fixed[r], landing, s * u) for r, u in zip(rows, spans, strict=True)]
    return math.sqrt(float(masses @ angles(x, side) ** 2))


def _log(base: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Tangent vectors at `base` whose geodesics reach x after unit time."""
    tangent = x - np.sum(base * x, axis=1, keepdims=True) * base
    size = np.linalg.norm(tangent, axis=1, keepdims=True)
    return np.asarray(tangent / np.where(size > 0, size, 1) * angles(base, x)[:, None])


def _leaving(atoms: Atoms, beta: float, kind: str, i: int, j: int) -> tuple[float, float]:
    """(log of the largest rate, cosine of its direction with that of the pair i, j)."""
    x, m = atoms.positions, atoms.masses
    scale, matrix = linearisation(x, m, beta, kind)
    values, vectors = np.linalg.eig(matrix)
    top = int(np.argmax(values.real))
    frames = tangent_frames(x)
    expected = np.zeros((len(x), x.shape[1] - 1))
    power = 1 if kind == "usa" else 2
    for a, b in ((i, j), (j, i)):
        pull = frames[a].T @ x[b]
        expected[a] = m[b] ** power * unit(pull)
    direction, wanted = vectors[:, top].real, expected.ravel()
    cosine = abs(direction @ wanted) / (np.linalg.norm(direction) * np.linalg.norm(wanted))
    rate = float(values[top].real)
    return (scale + math.log(rate) if rate > 0 else -math.inf), float(cosine)
