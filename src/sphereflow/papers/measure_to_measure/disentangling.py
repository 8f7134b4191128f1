"""Disentangling by attention: others come back exactly, hulls become disjoint, and one direction replaces a basis."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from sphereflow.claims import Check, Run
from sphereflow.claims.basis import Derived
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.sources import theorem
from sphereflow.papers.measure_to_measure.test_measures import chords, dirac, overlapping_caps, points
from sphereflow.transport.sphere.cap import into_cap
from sphereflow.transport.sphere.construction import ConstructionState
from sphereflow.transport.sphere.disentangling import choose_direction, shrink, smallest_sine
from sphereflow.transport.sphere.flows import gate_times
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.pieces import Gate, Gathering, RankOne

SIZES = ((3, 3), (5, 4), (3, 6), (4, 6), (8, 8))
QUICK_SIZES = ((3, 3), (8, 5))
BASIS_TIME = 6.0
ROUNDING = "rounding grown by e^|tau| with |tau| at most 14"


def in_cap(d: int, N: int, n: int, seed: int) -> ConstructionState:
    clouds = overlapping_caps(d, N, n, seed)
    route = ConstructionState(clouds, [np.full(n, 1 / n)] * N)
    into_cap(route, np.random.default_rng(seed))
    return route


def after_shrinking(route: ConstructionState, j: int, other: ConstructionState) -> tuple[float, float]:
    """(farthest that another measure ends from where it was, radius of measure j about its old barycentre)."""
    moved = [np.abs(a - b).max() for i, (a, b) in enumerate(zip(route.clouds, other.clouds, strict=True)) if i != j]
    return float(max(moved)), float(angles(other.clouds[j], unit(route.means[j])).max())


def pooled_shrinking(route: ConstructionState, j: int, radius: float) -> float:
    """How far the others end from where they were when attention averages over all measures together."""
    alpha, time, a, level = choose_direction(route.branch(), j, np.random.default_rng(j))
    there, ends = np.concatenate(route.clouds), np.cumsum([len(x) for x in route.clouds])[:-1]
    equal = np.full(len(there), 1 / len(there))
    for piece in (
        RankOne(duration=time, alpha=alpha),
        Gate(duration=20.0, a=a, beta=-level, omega=a),
        RankOne(duration=time, alpha=alpha).inverse(),
    ):
        there = piece.flow(there, equal)
    back = np.split(there, ends)
    return max(float(np.abs(x - y).max()) for i, (x, y) in enumerate(zip(back, route.clouds, strict=True)) if i != j)


@PAPER.claim(
    "others-restored",
    says=r"One measure is shrunk into a ball about its barycentre while every other one, overlapping it, returns to "
    r"where it was; one direction $\alpha$ is enough, in dimensions 3, 5 and 8.",
    basis=theorem("Lemma 3.3"),
    formula=r"\alpha\perp m_j,\ \langle\alpha,m_i\rangle\ne0:\quad \Phi\mu_i=\mu_i\ (i\ne j),\quad"
    r" \operatorname{supp}\Phi\mu_j\subset B(m_j/|m_j|,\varepsilon)",
)
def others_restored(run: Run) -> Check:
    sizes = ((3, 3), (5, 4), (8, 8)) if run.quick else (*SIZES, (6, 7), (7, 5))
    check = Check()
    pooled, start = {}, {}
    for d, N in sizes:
        route = in_cap(d, N, 60 if run.quick else 200, run.seed)
        radius = 0.4 * float(np.arcsin(smallest_sine(route.means)))
        for j in (0, N - 1) if run.quick else range(N):
            trial = route.branch()
            shrink(trial, j, radius, np.random.default_rng(j))
            moved, own = after_shrinking(route, j, trial)
            name = f"$d={d}$, $N={N}$, $j={j + 1}$"
            check.row(f"others moved, {name}", predicted=0.0, measured=moved, tolerance=1e-9, because=ROUNDING)
            row = f"radius over the allowed one, {name}"
            check.at_most(row, bound=1.0, measured=own / radius, tolerance=1e-9, because=ROUNDING)
            start[f"radius over the allowed one, {name}"] = after_shrinking(route, j, route)[1] / radius
            if j == 0:
                pooled[f"others moved, {name}"] = pooled_shrinking(route, j, radius)
    check.null("attention averages over all measures together", pooled)
    check.null("nothing done", start)
    return check


def separable(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether some h has Xh >= 1 and Yh <= -1, by linear programming."""
    rows = np.concatenate([-x, y])
    solved = linprog(np.zeros(x.shape[1]), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None), method="highs")
    return bool(solved.status == 0)


@PAPER.claim(
    "disjoint-hulls",
    says="After disentangling, the geodesic hulls of all pairs of sampled caps are disjoint, where on the two-sphere "
    "every pair met before; a linear programme for a separating plane decides.",
    basis=theorem("Proposition 3.1"),
    formula=r"\operatorname{conv}_g\operatorname{supp}\mu^i\cap\operatorname{conv}_g\operatorname{supp}\mu^j=\emptyset",
)
def disjoint_hulls(run: Run) -> Check:
    check = Check()
    moved_only = {}
    for d, N in QUICK_SIZES if run.quick else SIZES:
        found = dirac(d, N, 50 if run.quick else 150, run.seed)
        starts = dict(found.phases)

        def pairs(piece: int, clouds: int = N, found: object = found) -> int:
            x = found.clouds_at(piece)  # type: ignore[attr-defined]
            return sum(separable(x[i], x[j]) for i in range(clouds) for j in range(i))

        name = f"pairs apart once disentangled, $d={d}$, $N={N}$"
        check.same(name, predicted=N * (N - 1) // 2, measured=pairs(starts["cluster"]), because="a number of pairs")
        if d == 3:
            check.same(f"pairs apart at the start, $d={d}$, $N={N}$", predicted=0, measured=pairs(0))
        moved_only[name] = pairs(starts["disentangle"])
    check.null("one drift, the same for all measures, in place of attention", moved_only)
    return check


def shrink_with_basis(
    route: ConstructionState, j: int, radius: float, rng: np.random.Generator, *, ordered: bool = True
) -> None:
    """Lemma 3.3 as printed: attention along each vector of an orthonormal basis of m_j^perp, one after another."""
    a = unit(route.means[j])
    basis = np.linalg.qr(np.column_stack([a, rng.normal(size=(route.d, route.d - 1))]))[0][:, 1:].T
    away = [RankOne(duration=BASIS_TIME, alpha=unit(v - (v @ a) * a)) for v in basis]
    for piece in away:
        route.emit(piece)
    level = float((route.clouds[j] @ a).min()) / 2
    time = float(gate_times(route.clouds[j], a, -level, a, 0.9 * radius).max())  # coming back displaces it a little
    route.emit(Gate(duration=time, a=a, beta=-level, omega=a))
    for piece in reversed(away) if ordered else away:
        route.emit(piece.inverse())


@PAPER.claim(
    "one-direction-is-enough",
    says="Disentangling with a single direction takes 3 pieces per measure where the basis of the lemma takes "
    r"$2(d-1)+1$; both restore the others and shrink the measure alike, so the switches need not grow with $d$.",
    basis=Derived("Lemma 3.3 with a generic direction orthogonal to the barycentre"),
    formula=r"N(2(d-1)+1)\ \to\ 3N",
)
def one_direction_is_enough(run: Run) -> Check:
    check = Check()
    needed, unordered = {}, {}
    for d, N in ((3, 3), (5, 3)):
        start = in_cap(d, N, 30 if run.quick else 150, run.seed)
        radius = 0.4 * float(np.arcsin(smallest_sine(start.means)))
        for name, way in (("basis", shrink_with_basis), ("one direction", shrink)):
            route, error = start.branch(), 0.0
            base, rng = len(route.pieces), np.random.default_rng(run.seed)
            for j in range(N):
                before = route.branch()
                way(route, j, radius, rng)
                moved, own = after_shrinking(before, j, route)
                error = max(error, moved, own - radius)
            label = f"{name}, $d={d}$, $N={N}$"
            row = f"not restored or shrunk, {label}"
            check.row(row, predicted=0.0, measured=error, tolerance=1e-9, because=ROUNDING)
            count = N * (2 * (d - 1) + 1 if name == "basis" else 3)
            check.same(f"pieces, {label}", predicted=count, measured=len(route.pieces) - base)
            if name == "one direction":
                needed[f"pieces, {label}"] = N * (2 * (d - 1) + 1)
            else:
                trial = start.branch()
                shrink_with_basis(trial, 0, radius, np.random.default_rng(run.seed), ordered=False)
                unordered[f"not restored or shrunk, {label}"] = after_shrinking(start, 0, trial)[0]
    check.rival("a basis of directions is needed", needed)
    check.null("the basis undone in forward order", unordered)
    return check


@PAPER.claim(
    "colinear-barycentres",
    says="Two crossing chords, whose barycentres have the same direction, are told apart by one perceptron gate over "
    "part of their supports; the whole construction then goes through with one piece more.",
    basis=theorem("Lemma 3.4"),
    formula=r"\sin\angle(m_1,m_2)=0\ \to\ >0",
)
def colinear_barycentres(run: Run) -> Check:
    check = Check(parameters={"N": 2, "d": 3})
    attended = {}
    for first, second in ((0.4, 0.4), (0.4, 0.5)):
        clouds = chords(first, second)
        found = interpolate(clouds, points(2, 3, run.seed), seed=run.seed, margins=False)
        parted = dict(found.phases)["disentangle"]
        label = f"chords {first:g} and {second:g}"

        def sine(x: list[np.ndarray]) -> float:
            return smallest_sine(np.stack([each.mean(axis=0) for each in x]))

        row = f"sine before, {label}"
        check.row(row, predicted=0.0, measured=sine(clouds), tolerance=1e-12, because="rounding")
        check.at_least(
            f"sine after the gate, {label}",
            bound=0.03,
            measured=sine(found.clouds_at(parted)),
            tolerance=1e-12,
            because="an angle that the next phase can use, a tenth of the chords; rounding",
        )
        row, because = f"$W_2$ at the end, {label}", "the tolerance asked for"
        check.row(row, predicted=0.0, measured=found.w2.max(), tolerance=1e-5, because=because)
        check.at_most(
            f"pieces, {label}", bound=8 * 2 + 3 + 1, measured=found.n_pieces, because="2+3N+1+5N and one more"
        )
        gathered = [Gathering(duration=1.0, d=3).flow(x, np.full(len(x), 1 / len(x))) for x in clouds]
        attended[f"sine after the gate, {label}"] = sine(gathered)
    check.null("attention with $V=I$ in place of the gate", attended)
    return check
