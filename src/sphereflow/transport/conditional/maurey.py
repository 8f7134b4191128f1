r"""Maurey's construction: a velocity that is an average of neurons, played one neuron at a time.

If $v(x)=\sum_j c_j\,(a_j\cdot x+b_j)_+$ and neuron j is drawn with probability $p_j$ and played alone with
$w=c_j/p_j$ for a time 1/n, every step is an unbiased estimate of v and of its divergence, so that

$$E\,|X^n-X|^2\le\frac Cn,\qquad E\,|L^n-L|^2\le\frac Cn,$$

where C knows moments of the neurons and Lipschitz constants, and nothing of the dimension besides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.numerics.unit_vectors import unit
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.flow import gain
from sphereflow.transport.euclidean.schedule import Schedule

SAMPLINGS = ("iid", "systematic", "shuffled", "swept")


@dataclasses.dataclass(frozen=True)
class Neurons:
    """The velocity sum_j c_j (a_j.x + b_j)_+, with c and a of shape (m, d) and b of shape (m,)."""

    c: Float[np.ndarray, "m d"]
    a: Float[np.ndarray, "m d"]
    b: Float[np.ndarray, " m"]

    @property
    def d(self) -> int:
        return self.c.shape[1]

    @property
    def mass(self) -> float:
        """The Barron mass, sum_j |c_j|."""
        return float(np.linalg.norm(self.c, axis=1).sum())

    @property
    def chances(self) -> Float[np.ndarray, " m"]:
        """p_j in proportion to |c_j|; all equal if there is nothing to play."""
        sizes = np.linalg.norm(self.c, axis=1)
        return sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(sizes), 1 / len(sizes))

    def velocity(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return np.maximum(x @ self.a.T + self.b, 0.0) @ self.c

    def divergence(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return (x @ self.a.T + self.b > 0) @ (self.a * self.c).sum(axis=1)

    def variance(self, x: Float[np.ndarray, "n d"]) -> float:
        """Mean over x of the variance of one draw, sum_j |c_j|^2 s_j^2 / p_j - |v|^2."""
        size, p = (self.c**2).sum(axis=1), self.chances
        draws = np.maximum(x @ self.a.T + self.b, 0.0) ** 2 @ np.divide(size, p, out=np.zeros_like(p), where=p > 0)
        return float(np.mean(draws - (self.velocity(x) ** 2).sum(axis=1)))


def sample_schedule(fields: Neurons | Sequence[Neurons], n: int, *, sampling: str = "iid", seed: Seed = 0) -> Schedule:
    """n pieces over a unit of time, split evenly among the fields, which follow each other in time.

    "iid" draws every neuron afresh; "systematic" gives each its share of the plays up to rounding, in random order;
    "shuffled" plays all neurons once per round, in a new random order; "swept" plays them all in whole rounds, there
    and back in turn, with no chance at all, and so with as many pieces as whole rounds allow (at least one per field).
    """
    blocks = [fields] if isinstance(fields, Neurons) else list(fields)
    one_of("sampling", sampling, SAMPLINGS)
    if not blocks:
        raise SphereflowError("there is no field of neurons to play.")
    n = whole_number("the number of pieces", n, least=len(blocks))
    rng = rng_from(seed)
    counts = np.diff(np.round(np.linspace(0, n, len(blocks) + 1)).astype(int))
    parts: list[Schedule] = []
    for block, count in zip(blocks, counts, strict=True):
        m = len(block.b)
        p = np.full(m, 1 / m) if sampling in ("shuffled", "swept") else block.chances
        drawn = _draw(p, int(count), sampling, rng)
        if sampling == "swept" and len(parts) % 2:
            drawn = drawn[::-1]  # there in one field, back in the next: first errors of the splitting cancel
        tau = np.full(len(drawn), 1 / (len(blocks) * len(drawn)))
        parts.append(Schedule(block.c[drawn] / p[drawn, None], block.a[drawn], block.b[drawn], tau))
    return Schedule.join(parts)


def ensemble(
    fields: Neurons | Sequence[Neurons],
    n: int,
    x: Float[np.ndarray, "points d"],
    repetitions: int,
    *,
    sampling: str = "iid",
    seed: Seed = 0,
) -> tuple[Float[np.ndarray, "reps points d"], Float[np.ndarray, "reps points"]]:
    """(images, log-determinants) of the points under independent playbacks, all carried at once, piece by piece."""
    rng = rng_from(seed)
    drawn = [
        sample_schedule(fields, n, sampling=sampling, seed=int(rng.integers(2**31)))
        for _ in range(whole_number("repetitions", repetitions))
    ]
    w, a, b, tau = (np.stack([getattr(s, name) for s in drawn], axis=1) for name in ("w", "a", "b", "tau"))
    rate = (a * w).sum(axis=2)
    step, stretch = w * gain(rate, tau)[..., None], (rate * tau)[..., None]
    moved = np.repeat(x[None], len(drawn), axis=0)
    log_det = np.zeros(moved.shape[:2])
    for k in range(len(w)):
        s = (moved @ a[k][:, :, None])[..., 0] + b[k][:, None]
        moved += np.maximum(s, 0.0)[..., None] * step[k][:, None]
        log_det += np.where(s > 0, stretch[k], 0.0)
    return moved, log_det


def _draw(p: np.ndarray, count: int, sampling: str, rng: np.random.Generator) -> np.ndarray:
    if sampling == "iid":
        return rng.choice(len(p), size=count, p=p)
    if sampling == "systematic":
        levels = (np.arange(count) + rng.uniform()) / count
        return rng.permutation(np.minimum(np.searchsorted(np.cumsum(p), levels), len(p) - 1))
    if sampling == "swept":
        there = np.arange(len(p))
        return np.concatenate([there[:: (-1) ** turn] for turn in range(max(1, count // len(p)))])
    rounds = -(-count // len(p))
    return np.concatenate([rng.permutation(len(p)) for _ in range(rounds)])[:count]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VelocityFit(Result):
    """Fields of neurons that carry `start` to `end`; `residual` is the root mean square of what they miss of it.

    `mass` is the largest Barron mass, and `spread` the mean variance of one draw: n draws leave an error of about
    sqrt(spread / n).
    """

    fields: tuple[Neurons, ...]
    residual: float
    mass: float
    spread: float

    def variables(self) -> Variables:
        return {"barron_mass": ("moment", np.array([field.mass for field in self.fields]))}

    def facts(self) -> list[str]:
        return [
            f"{len(self.fields)} fields of {len(self.fields[0].b)} neurons miss {self.residual:.4g}",
            f"Barron mass {self.mass:.4g}, variance of one draw {self.spread:.4g}",
        ]


@recorded_call
def fit_velocities(
    start: ArrayLike,
    end: ArrayLike,
    *,
    neurons: int = 150,
    times: int = 10,
    ridge: float = 1e-6,
    reach: float = 3.0,
    seed: Seed = 0,
) -> VelocityFit:
    """The velocity end - start along straight lines, as a function of place, at `times` moments.

    Rows of `start` and `end` belong together. Each moment has its own least squares over random ReLU neurons, the
    coordinates and a constant. Coordinates in which nothing moves get the weight zero exactly.
    """
    x, y = checked_cloud(start, "start"), checked_cloud(end, "end")
    if x.shape != y.shape:
        raise SphereflowError(f"start and end must be rows of pairs: their shapes are {x.shape} and {y.shape}.")
    neurons, times = whole_number("neurons", neurons), whole_number("times", times)
    ridge, reach = real_number("ridge", ridge, above=0, most=1e100), real_number("reach", reach, above=0, most=1e6)
    rng = rng_from(seed)
    d = x.shape[1]
    normals = unit(rng.standard_normal((neurons, d)))
    offsets = rng.uniform(-reach, reach, neurons)
    still = (x == y).all(axis=0)
    fields, missed, spread = [], [], []
    for moment in (np.arange(times) + 0.5) / times:
        z = np.where(still, x, (1 - moment) * x + moment * y)
        centre, scale = z.mean(axis=0), z.std(axis=0)
        white = (z - centre) / scale
        features = np.column_stack([np.maximum(white @ normals.T + offsets, 0.0), white, np.ones(len(z))])
        gram = features.T @ features
        weights = np.linalg.solve(gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram)), features.T @ (y - x))
        field = _expanded(weights, normals, offsets, centre, scale)
        missed.append(((features @ weights - (y - x)) ** 2).sum(axis=1).mean())
        spread.append(field.variance(z[:2000]))
        fields.append(field)
    return VelocityFit(
        tuple(fields), float(np.sqrt(np.mean(missed))), max(f.mass for f in fields), float(np.mean(spread))
    )


def _expanded(
    weights: np.ndarray, normals: np.ndarray, offsets: np.ndarray, centre: np.ndarray, scale: np.ndarray
) -> Neurons:
    """Neurons in the original coordinates; a coordinate is the difference of two neurons, a constant is one."""
    d, m = len(centre), len(offsets)
    axes = np.eye(d)
    a = np.concatenate([normals, axes, -axes, np.zeros((1, d))])
    b = np.concatenate([offsets, np.zeros(2 * d), np.ones(1)])
    c = np.concatenate([weights[:m], weights[m : m + d], -weights[m : m + d], weights[-1:]])
    a = a / scale
    return Neurons(c, a, b - a @ centre)
