r"""Conditional sampling: from samples of (x, y), a schedule that samples y given any x.

A block-triangular map $S(x,z)=(x,S_2(x,z))$ with $S_\#(\text{law of }x\otimes N(0,I))=\text{law of }(x,y)$ gives
$y=S_2(x_0,z)$, $z\sim N(0,I)$, at any $x_0$. Here every piece has w = 0 in the block of x, so x is frozen to the last
bit, and with $e_2$ the L2 error of the map $E_x W_2^2(\text{conditional}_\theta(x),\text{conditional}(x))\le e_2^2$. A
schedule that only makes the joint law right promises nothing of the kind.

The coupling of y with z is that of Knothe and Rosenblatt: z is the normal quantile of the rank of y among samples with
nearly the same x, coordinate after coordinate. The velocity $E[y-z\mid x,(1-t)z+ty]$ carries N(0, I) to the law of y
given x whatever the coupling; this one makes the paths short. The affine part of y given x is removed first and put
back by exact pieces.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.special import ndtr, ndtri

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.observables import energy_distance
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import LARGEST, Seed, number_from, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.abstract import MOST_PIECES
from sphereflow.transport.conditional.maurey import SAMPLINGS, VelocityFit, fit_velocities, sample_schedule
from sphereflow.transport.euclidean.affine import affine_schedule, shear, translation
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEWEST = 200
_HELD_OUT = 5  # one pair in five is kept for judging
_MOST_FITTED = 20_000
_FEWEST_NEURONS, _MOST_NEURONS = 8, 200


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ConditionalSampler(Result):
    """A schedule on (x, z) whose first `dx` coordinates condition the rest."""

    schedule: Schedule
    dx: int

    def __post_init__(self) -> None:
        whole_number("dx", self.dx, least=1, most=self.schedule.d - 1)

    @property
    def dy(self) -> int:
        return self.schedule.d - self.dx

    @property
    def frozen(self) -> bool:
        """Whether no piece moves x at all, as a conditional sampler must not."""
        return not np.any(np.asarray(self.schedule.w)[:, : self.dx])

    def sample(self, x0: ArrayLike, m: int, seed: Seed = 0) -> Float[np.ndarray, "m dy"]:
        """m samples of y given x = x0."""
        z = rng_from(seed).standard_normal((whole_number("m", m), self.dy))
        return self.push(x0, z)

    def push(self, x0: ArrayLike, z: ArrayLike) -> Float[np.ndarray, "m dy"]:
        """S_2(x0, z) for rows z; x0 is one point, or one for every row."""
        z = real_array("z", z)
        z = z.reshape(-1, 1) if self.dy == 1 and z.ndim < 2 else np.atleast_2d(z)
        if z.ndim != 2 or z.shape[1] != self.dy:
            raise SphereflowError(f"z must be rows of {self.dy} numbers, got shape {z.shape}.")
        return np.asarray(self.schedule.apply(np.column_stack([self._beside(x0, len(z)), z])))[:, self.dx :]

    def drift(self, x0: ArrayLike, m: int = 1000, seed: Seed = 0) -> float:
        """Largest |first block - x0| over m samples: zero for a frozen schedule, the alarm for any other."""
        z = rng_from(seed).standard_normal((whole_number("m", m), self.dy))
        x = self._beside(x0, m)
        return float(np.abs(np.asarray(self.schedule.apply(np.column_stack([x, z])))[:, : self.dx] - x).max())

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Float[np.ndarray, " m"]:
        r"""log of the density of y given x: $\log N(z)-L$ at $(x,z)$, the exact pull-back of (x, y)."""
        if not self.frozen:
            raise SphereflowError("this schedule moves x, so what it makes of (x0, z) is no conditional law given x0.")
        y = real_array("y", y)
        if y.size % self.dy or (y.ndim > 1 and y.shape[-1] != self.dy):
            raise SphereflowError(f"y must be rows of {self.dy} numbers, got shape {y.shape}.")
        y = y.reshape(-1, self.dy)
        back, log_det = self.schedule.pullback(np.column_stack([self._beside(x, len(y)), y]))
        z = np.asarray(back)[:, self.dx :]
        return -0.5 * (z**2).sum(axis=1) - 0.5 * self.dy * np.log(2 * np.pi) - np.asarray(log_det)

    def variables(self) -> Variables:
        rows = self.schedule.arrays()
        return {name: (("piece", *(("component",) * (values.ndim - 1))), values) for name, values in rows.items()}

    def facts(self) -> list[str]:
        frozen = "x frozen exactly" if self.frozen else "x NOT FROZEN"
        pieces = f"{self.schedule.n_pieces} pieces, {self.schedule.n_switches} switches"
        return [f"y of dimension {self.dy} given x of dimension {self.dx}: {pieces}, {frozen}"]

    def _beside(self, x0: Any, m: int) -> np.ndarray:
        point = np.asarray(x0, dtype=float)
        point = point.reshape(-1, 1) if self.dx == 1 and point.ndim < 2 else np.atleast_2d(point)
        if point.ndim != 2 or point.shape[1] != self.dx or len(point) not in (1, m) or not np.isfinite(point).all():
            raise SphereflowError(
                f"x must be one finite point of {self.dx} coordinates, or one per sample; got shape {np.shape(x0)}."
            )
        return np.broadcast_to(point, (m, self.dx))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ConditionalFit(ConditionalSampler):
    """The sampler that was fitted, and how well it does on pairs that it has not seen.

    `log_loss` is the mean of -log density of y given x there, in nats, `gaussian_loss` that of the best Gaussian with
    a mean linear in x; `energy` the energy distance between sampled and held-out pairs; `rank_gap` the largest gap
    between the distribution of the ranks of y given x and the uniform one, in thirds of the first coordinate of x.
    `velocity` tells the Barron mass and what the neurons miss. `number` is the whole number of the seed.
    """

    velocity: VelocityFit
    held_out: Float[np.ndarray, "n d"]
    gaussian_loss: float
    number: int

    @cached_property
    def log_loss(self) -> Estimate:
        return mean(-self.log_density(self.held_out[:, self.dx :], self.held_out[:, : self.dx]))

    @cached_property
    def energy(self) -> float:
        x = self.held_out[:, : self.dx]
        z = np.random.default_rng(self.number + 1).standard_normal((len(x), self.dy))
        return energy_distance(np.column_stack([x, self.push(x, z)]), self.held_out, unbiased=False, most=3000)

    @cached_property
    def rank_gap(self) -> float:
        x, y = self.held_out[:, : self.dx], self.held_out[:, self.dx :]
        z = np.asarray(self.schedule.pullback(np.column_stack([x, y]))[0])[:, self.dx :]
        thirds = np.array_split(np.argsort(x[:, 0], kind="stable"), 3)
        gaps = []
        for ranks in (np.sort(ndtr(z[part]), axis=0) for part in thirds):
            level = np.arange(len(ranks) + 1)[:, None] / len(ranks)
            gaps.append(max((ranks - level[:-1]).max(), (level[1:] - ranks).max()))
        return float(max(gaps))

    @property
    def rank_gap_by_chance(self) -> float:
        """What the gap stays below with 99 % if every rank is uniform: Kolmogorov's bound, for all tests together."""
        return float(np.sqrt(np.log(2 * 3 * self.dy / 0.01) / (2 * (len(self.held_out) // 3))))

    derived = ("pieces", "log_loss", "energy", "rank_gap", "rank_gap_by_chance")

    @property
    def pieces(self) -> int:
        return self.schedule.n_pieces

    def variables(self) -> Variables:
        return super().variables() | {"held_out": (("pair", "component"), self.held_out)}

    def facts(self) -> list[str]:
        drawn = np.sqrt(self.velocity.spread / max(self.schedule.n_pieces, 1))
        return [
            *super().facts(),
            f"mean of -log density of held-out y given x: {self.log_loss} (Gaussian with linear mean: "
            f"{self.gaussian_loss:.4g})",
            f"energy distance between sampled and held-out pairs: {self.energy:.3g}",
            f"ranks of held-out y given x are uniform up to {self.rank_gap:.2g} (by chance up to "
            f"{self.rank_gap_by_chance:.2g})",
            f"Barron mass {self.velocity.mass:.3g}, error of playing n neurons about {drawn:.2g} if drawn one by one",
        ]

    def plot(self) -> Figure:
        """The first coordinates of held-out and of sampled pairs."""
        from sphereflow.transport.pictures import draw_conditional

        return draw_conditional(self)


@recorded_call
def fit_conditional(
    samples_x: ArrayLike,
    samples_y: ArrayLike,
    pieces: int = 1200,
    *,
    neurons: int | None = None,
    times: int = 6,
    neighbours: int | None = None,
    sampling: str = "swept",
    ridge: float = 1e-3,
    seed: Seed = 0,
) -> ConditionalFit:
    """A schedule of about `pieces` pieces that samples y given x, from pairs: rows of `samples_x` and `samples_y`.

    `neighbours` is how many samples count as having the same x (from the number of samples unless given); `neurons`
    and `times` size the velocity that is fitted (as many neurons as the pieces can play, unless given); `sampling`
    says how they are played.

    ```python
    sampler = fit_conditional(x, y)          # pairs, as rows
    print(sampler)                           # how well it does on pairs kept aside
    sampler.sample(x0=1.5, m=1000)           # y given x = 1.5
    ```
    """
    x, y = _pairs(samples_x, samples_y)
    one_of("sampling", sampling, SAMPLINGS)
    times = whole_number("times", times)
    others = 2 * (x.shape[1] + y.shape[1]) + 1  # neurons that make the coordinates and the constant
    pieces = whole_number("pieces", pieces, least=times * (others + _FEWEST_NEURONS), most=MOST_PIECES)
    number = number_from(seed, most=LARGEST - 1)
    neurons = min(pieces // times - others, _MOST_NEURONS) if neurons is None else whole_number("neurons", neurons)
    order = rng_from(number).permutation(len(x))
    held = np.arange(len(x)) % _HELD_OUT == 0
    kept, judged = order[~held][:_MOST_FITTED], order[held]
    dx, dy = x.shape[1], y.shape[1]
    linear, root = _regression(x[kept], y[kept])
    plain = _residual(x, y, linear, root)
    k = int(2 * len(kept) ** 0.6) if neighbours is None else whole_number("neighbours", neighbours, least=4 * (dx + dy))
    k = min(k, len(kept))
    z = _conditional_normals(x[kept], plain[kept], k, rng_from(number + 1))
    velocity = fit_velocities(
        np.column_stack([x[kept], z]),
        np.column_stack([x[kept], plain[kept]]),
        neurons=neurons,
        times=times,
        ridge=ridge,
        seed=number,
    )
    played = sample_schedule(velocity.fields, pieces, sampling=sampling, seed=number)
    log_gauss = -0.5 * (plain[judged] ** 2).sum(axis=1) - 0.5 * dy * np.log(2 * np.pi) - np.linalg.slogdet(root)[1]
    return ConditionalFit(
        schedule=played + _put_back(linear, root, dx),
        dx=dx,
        velocity=velocity,
        held_out=np.column_stack([x, y])[judged],
        gaussian_loss=float(-log_gauss.mean()),
        number=number,
    )


def _pairs(samples_x: Any, samples_y: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = checked_cloud(samples_x, "samples_x"), checked_cloud(samples_y, "samples_y")
    if len(x) != len(y):
        raise SphereflowError(f"samples_x and samples_y must be rows of pairs, got {len(x)} and {len(y)} rows.")
    if len(x) < _FEWEST:
        raise SphereflowError(f"{len(x)} pairs are too few to learn a conditional law from; give at least {_FEWEST}.")
    refuse_atoms(y)
    return x, y


def refuse_atoms(y: Float[np.ndarray, "n dy"]) -> None:
    """One sentence where a coordinate of y repeats its values: such a law has no density."""
    values = min(len(np.unique(column)) for column in y.T)
    if values < len(y) / 2:
        raise SphereflowError(
            f"a coordinate of y takes only {values} different values in {len(y)} samples: its law given x has atoms "
            "and no density, which no flow makes of N(0, I); add noise or count the values instead."
        )


def _regression(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """y = (x, 1) linear + root r with r of mean 0 and covariance I; root is lower triangular."""
    ones = np.column_stack([x, np.ones(len(x))])
    linear = np.linalg.lstsq(ones, y, rcond=None)[0]
    rest = y - ones @ linear
    if np.linalg.svd(rest, compute_uv=False)[-1] < 1e-9 * np.linalg.svd(y - y.mean(axis=0), compute_uv=False)[0]:
        raise SphereflowError(
            "y (or a combination of its coordinates) is a linear function of x: given x it has no density, so there is "
            "nothing to sample; use that function instead."
        )
    return linear, np.linalg.cholesky(np.atleast_2d(np.cov(rest.T)))


def _residual(x: np.ndarray, y: np.ndarray, linear: np.ndarray, root: np.ndarray) -> np.ndarray:
    return np.linalg.solve(root, (y - np.column_stack([x, np.ones(len(x))]) @ linear).T).T


def _put_back(linear: np.ndarray, root: np.ndarray, dx: int) -> Schedule:
    """(x, r) to (x, root r + linear mean of y given x), exactly; no piece moves x."""
    dy = len(root)
    d = dx + dy
    inner = affine_schedule(root)
    pad = np.zeros((inner.n_pieces, dx))
    parts = [Schedule(np.hstack([pad, inner.w]), np.hstack([pad, inner.a]), inner.b)]
    parts += [shear(dx + i, j, float(linear[j, i]), d) for j in range(dx) for i in range(dy) if linear[j, i]]
    return Schedule.join([*parts, translation(np.concatenate([np.zeros(dx), linear[-1]]))])


def _conditional_normals(x: np.ndarray, y: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """z of the shape of y: coordinate by coordinate, the normal quantile of the rank of y given x and what precedes.

    Ranks are among the k nearest samples, after a linear regression there, so that a slope does not look like spread.
    The uniform share of its own rank makes z exactly normal where ranks are uniform.
    """
    n = len(y)
    z = np.empty_like(y)
    known = (x - x.mean(axis=0)) / x.std(axis=0)
    for i in range(y.shape[1]):
        near = cKDTree(known).query(known, k=k)[1]
        local = np.concatenate([known[near] - known[:, None], np.ones((n, k, 1))], axis=2)
        gram = np.einsum("nki,nkj->nij", local, local) + 1e-6 * k * np.eye(local.shape[2])
        slope = np.linalg.solve(gram, np.einsum("nki,nk->ni", local, y[near, i])[..., None])
        rest = y[near, i] - (local @ slope)[..., 0]
        own = y[:, i] - slope[:, -1, 0]
        below = (rest < own[:, None] - 1e-12).sum(axis=1)
        z[:, i] = ndtri(np.clip((below + rng.uniform(size=n)) / k, 1e-6, 1 - 1e-6))
        known = np.column_stack([known, y[:, i]])
    return z
