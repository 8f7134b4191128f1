r"""Laws with densities: what schedules carry, and what they should make of it.

Every law has `d`, `log_density(x)` for points of shape (..., d), `sample(n, seed)`, its `second_moment` (infinite for
heavy tails: asked for, never guessed from samples) and its `support`. Laws on the line also give the logarithms of both
tails, so that quantiles are exact far out on either side.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import special, stats

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.roots import increasing_roots
from sphereflow.reading import real_array
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.schedule import Schedule

_LOG_2PI = math.log(2 * math.pi)


class Law(abc.ABC):
    """A probability law on R^d with a density."""

    d: int
    second_moment: float = math.inf
    gaussian_tails: bool = False
    support: tuple[float, float] = (-math.inf, math.inf)
    breaks: tuple[float, ...] = ()  # where a density on the line jumps

    @abc.abstractmethod
    def log_density(self, x: ArrayLike) -> Any:
        """log rho at points of shape (..., d); NumPy in, NumPy out, and traceable by JAX where the law is smooth."""

    @abc.abstractmethod
    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        """Independent points."""

    def log_cdf(self, y: ArrayLike) -> np.ndarray:
        raise SphereflowError(f"{self} has no distribution function: that needs d = 1, here d = {self.d}.")

    def log_sf(self, y: ArrayLike) -> np.ndarray:
        raise SphereflowError(f"{self} has no survival function: that needs d = 1, here d = {self.d}.")

    def score(self, y: ArrayLike) -> np.ndarray:
        """The derivative of log rho on the line."""
        raise SphereflowError(f"the score of {self} is known on the line only.")

    def quantile(self, log_lower: ArrayLike, log_upper: ArrayLike) -> np.ndarray:
        """The points with these logarithms of the mass below and above, from whichever side is the smaller.

        By Newton's method on the logarithm of that tail; 1 - cdf would lose everything beyond 8 standard deviations.
        """
        log_lower, log_upper = np.broadcast_arrays(np.asarray(log_lower, float), np.asarray(log_upper, float))
        low, high = (np.broadcast_to(side, log_lower.shape).ravel() for side in self._bracket(log_lower, log_upper))
        below, above = log_lower.ravel(), log_upper.ravel()

        def excess(point: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            left = below[rows] < above[rows]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                tail = np.where(left, self.log_cdf(point), self.log_sf(point))
                value = np.where(left, tail - below[rows], above[rows] - tail)
                inverse_hazard = np.exp(tail - self.log_density(point[..., None]))
                rounding = np.maximum(np.maximum(np.abs(point), 1e-6), (1 + np.abs(tail)) * inverse_hazard)
                return value, value * inverse_hazard, 1e-15 * rounding

        return increasing_roots(excess, low, high).reshape(log_lower.shape)

    def _bracket(self, log_lower: np.ndarray, log_upper: np.ndarray) -> tuple[Any, Any]:
        """Points between which the quantiles lie."""
        return self.support

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d})"


class Mixture(Law):
    r"""$\sum_i p_i\,N(m_i,\Sigma_i)$; one component is a Gaussian.

    **Arguments:** `means` (m, d); `scales`, the standard deviation of each component, or one per component and axis,
    of shape (m,) or (m, d); or `covariances` (m, d, d) instead; `weights` (m,), equal unless given.
    """

    gaussian_tails = True

    def __init__(
        self,
        means: ArrayLike,
        scales: ArrayLike = 1.0,
        weights: ArrayLike | None = None,
        *,
        covariances: ArrayLike | None = None,
    ):
        self.means = np.atleast_2d(_moderate("means", means))
        if self.means.ndim != 2 or not self.means.size:
            raise SphereflowError(f"means must have the shape (m, d), got {np.shape(means)}.")
        count, self.d = self.means.shape
        self.weights = np.full(count, 1 / count) if weights is None else real_array("weights", weights)
        if self.weights.shape != (count,) or (self.weights <= 0).any() or not np.isclose(self.weights.sum(), 1):
            raise SphereflowError("weights of a mixture must be positive, one per component, and add up to 1.")
        self.scales: np.ndarray | None = None
        if covariances is None:
            scales = _moderate("scales", scales)
            try:
                self.scales = np.broadcast_to(scales[:, None] if scales.ndim == 1 else scales, self.means.shape)
            except ValueError:
                raise SphereflowError(
                    f"scales must be one number, one per component, or one per component and axis; got {scales.shape}."
                ) from None
            roots = np.stack([np.diag(row) for row in self.scales])
        else:
            try:
                roots = np.linalg.cholesky(_moderate("covariances", covariances))
            except np.linalg.LinAlgError:
                raise SphereflowError(
                    "a covariance is singular or not positive: its law has no density, so relative entropy is infinite."
                ) from None
        if not (np.isfinite(self.means).all() and (np.diagonal(roots, axis1=1, axis2=2) > 0).all()):
            raise SphereflowError("a mixture needs finite means and positive scales.")
        self._roots = roots
        self._whiten = np.linalg.inv(roots)
        self._log_front = (
            np.log(self.weights) - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1) - 0.5 * self.d * _LOG_2PI
        )
        self.second_moment = float(self.weights @ ((self.means**2).sum(1) + (roots**2).sum((1, 2))))

    def log_density(self, x: ArrayLike) -> Any:
        xp: Any = jnp if isinstance(x, jax.Array) else np
        return _log_sum(xp.stack([self._log_component(x, i, xp) for i in range(len(self.weights))], axis=-1), xp)

    def _log_component(self, x: Any, i: int, xp: Any) -> Any:
        white = (xp.asarray(x) - self.means[i]) @ self._whiten[i].T
        return self._log_front[i] - 0.5 * (white**2).sum(axis=-1)

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        rng = rng_from(seed)
        chosen = rng.choice(len(self.weights), size=n, p=self.weights)
        noise = rng.standard_normal((n, self.d))
        return self.means[chosen] + np.einsum("nij,nj->ni", self._roots[chosen], noise)

    def log_cdf(self, y: ArrayLike) -> np.ndarray:
        return self._log_tail(y, +1)

    def log_sf(self, y: ArrayLike) -> np.ndarray:
        return self._log_tail(y, -1)

    def _log_tail(self, y: Any, sign: int) -> np.ndarray:
        if self.d != 1:
            return super().log_cdf(y)
        standard = sign * (np.asarray(y, dtype=float)[..., None] - self.means[:, 0]) / self._roots[:, 0, 0]
        return np.asarray(_log_sum(special.log_ndtr(standard) + np.log(self.weights)))

    def quantile(self, log_lower: ArrayLike, log_upper: ArrayLike) -> np.ndarray:
        if len(self.weights) > 1:
            return super().quantile(log_lower, log_upper)
        return self._bracket(*np.broadcast_arrays(np.asarray(log_lower, float), np.asarray(log_upper, float)))[0]

    def _bracket(self, log_lower: np.ndarray, log_upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The quantile of a mixture lies between the smallest and the largest of its components'."""
        standard = np.where(log_lower < log_upper, special.ndtri_exp(log_lower), -special.ndtri_exp(log_upper))
        each = self.means[:, 0] + self._roots[:, 0, 0] * standard[..., None]
        return each.min(axis=-1), each.max(axis=-1)

    def score(self, y: ArrayLike) -> np.ndarray:
        y = np.asarray(y, dtype=float)[..., None]
        centre, variance = self.means[:, 0], self._roots[:, 0, 0] ** 2
        share = special.softmax(self._log_front - 0.5 * (y - centre) ** 2 / variance, axis=-1)
        return (share * (centre - y) / variance).sum(axis=-1)

    @property
    def is_standard(self) -> bool:
        """Whether this is N(0, I)."""
        return len(self.weights) == 1 and not self.means.any() and np.array_equal(self._roots[0], np.eye(self.d))

    def marginal(self, direction: ArrayLike) -> Mixture:
        """The law of u.x for a unit vector u, or of one coordinate for an index."""
        u = np.eye(self.d)[direction] if isinstance(direction, (int, np.integer)) else np.asarray(direction, float)
        spread = np.sqrt(((u @ self._roots) ** 2).sum(axis=1))
        return Mixture((self.means @ u)[:, None], spread, self.weights)


def _log_sum(terms: Any, xp: Any = np) -> Any:
    """log sum exp over the last axis, of NumPy's arrays or JAX's; SciPy's takes ten times as long for 8 x 20,000."""
    top = terms.max(axis=-1)
    return top + xp.log(xp.exp(terms - top[..., None]).sum(axis=-1))


def gaussian(d: int = 1, mean: ArrayLike = 0.0, scale: float = 1.0) -> Mixture:
    """N(mean, scale^2 I) in R^d."""
    d, centre = whole_number("d", d, most=10**6), _moderate("mean", mean)
    if centre.shape not in ((), (d,), (1, d)):
        raise SphereflowError(f"mean must be one number or {d} of them, got the shape {centre.shape}.")
    return Mixture(np.broadcast_to(centre, (1, d)), real_number("scale", scale, above=0))


def _moderate(name: str, value: Any) -> np.ndarray:
    """Numbers whose squares are numbers."""
    array = real_array(name, value)
    if np.abs(array).max(initial=0.0) > 1e100:
        raise SphereflowError(f"{name} must be within [-1e100, 1e100].")
    return array


class StudentT(Law):
    r"""Student's law in R^d: density $\propto(1+|x|^2/\nu)^{-(\nu+d)/2}$; its second moment is infinite if nu <= 2.

    On the line distribution functions are SciPy's. Its density in R^d cannot be traced; ours agrees to 1e-15.
    """

    def __init__(self, nu: float, d: int = 1):
        self.nu, self.d = real_number("nu", nu, above=0, most=1e12), whole_number("d", d, most=10**6)
        self.second_moment = d * nu / (nu - 2) if nu > 2 else math.inf

    def log_density(self, x: ArrayLike) -> Any:
        xp: Any = jnp if isinstance(x, jax.Array) else np
        half = (self.nu + self.d) / 2
        front = special.gammaln(half) - special.gammaln(self.nu / 2) - 0.5 * self.d * math.log(self.nu * math.pi)
        return front - half * xp.log1p((xp.asarray(x) ** 2).sum(axis=-1) / self.nu)

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        rng = rng_from(seed)
        return rng.standard_normal((n, self.d)) / np.sqrt(rng.chisquare(self.nu, (n, 1)) / self.nu)

    def log_cdf(self, y: ArrayLike) -> np.ndarray:
        return np.asarray(stats.t.logcdf(np.asarray(y), self.nu)) if self.d == 1 else super().log_cdf(y)

    def log_sf(self, y: ArrayLike) -> np.ndarray:
        return np.asarray(stats.t.logsf(np.asarray(y), self.nu)) if self.d == 1 else super().log_sf(y)

    def quantile(self, log_lower: ArrayLike, log_upper: ArrayLike) -> np.ndarray:
        log_lower, log_upper = np.broadcast_arrays(np.asarray(log_lower, float), np.asarray(log_upper, float))
        side = np.where(log_lower < log_upper, 1.0, -1.0)
        return side * stats.t.ppf(np.exp(np.minimum(log_lower, log_upper)), self.nu)

    def score(self, y: ArrayLike) -> np.ndarray:
        y = np.asarray(y, dtype=float)
        return -(self.nu + 1) * y / (self.nu + y**2)


class Histogram(Law):
    """Constant density on each bin of the line: `edges` (m + 1,), `masses` (m,); one bin is a uniform law."""

    d = 1

    def __init__(self, edges: ArrayLike, masses: ArrayLike = (1.0,)):
        self.edges, self.masses = _moderate("edges", edges), real_array("masses", masses, shape=("m",))
        if self.edges.shape != (len(self.masses) + 1,) or not (np.diff(self.edges) > 0).all():
            raise SphereflowError("a histogram needs increasing edges, one more than it has bins.")
        if (self.masses <= 0).any() or not np.isclose(self.masses.sum(), 1):
            raise SphereflowError("masses of a histogram must be positive and add up to 1: no map fills an empty bin.")
        self.support = (float(self.edges[0]), float(self.edges[-1]))
        self.breaks = tuple(self.edges)
        self._below = np.concatenate([[0.0], np.cumsum(self.masses)])
        self._above = np.concatenate([np.cumsum(self.masses[::-1])[::-1], [0.0]])
        left, right = self.edges[:-1], self.edges[1:]
        self.second_moment = float(self.masses @ ((left**2 + left * right + right**2) / 3))

    def log_density(self, x: ArrayLike) -> np.ndarray:
        y = np.asarray(x)[..., 0]
        bins = np.clip(np.searchsorted(self.edges, y, side="right") - 1, 0, len(self.masses) - 1)
        inside = (y >= self.edges[0]) & (y <= self.edges[-1])
        return np.where(inside, np.log(self.masses / np.diff(self.edges))[bins], -np.inf)

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        mass = rng_from(seed).random(n)
        return np.interp(mass, self._below, self.edges)[:, None]

    def quantile(self, log_lower: ArrayLike, log_upper: ArrayLike) -> np.ndarray:
        log_lower, log_upper = np.broadcast_arrays(np.asarray(log_lower, float), np.asarray(log_upper, float))
        from_left = np.interp(np.exp(log_lower), self._below, self.edges)
        from_right = np.interp(-np.exp(log_upper), -self._above, self.edges)
        return np.where(log_lower < log_upper, from_left, from_right)

    def score(self, y: ArrayLike) -> np.ndarray:
        return np.zeros_like(np.asarray(y, dtype=float))

    def log_cdf(self, y: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.interp(np.asarray(y), self.edges, self._below)))

    def log_sf(self, y: ArrayLike) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.interp(np.asarray(y), self.edges, self._above)))


class Pushed(Law):
    r"""The law of $\phi(X)$ for a schedule $\phi$ and X of law `base`: exact density, exact samples."""

    def __init__(self, schedule: Schedule, base: Law):
        if schedule.d != base.d:
            raise SphereflowError(f"the schedule acts on R^{schedule.d}, but the base law lives on R^{base.d}.")
        self.schedule, self.base, self.d = schedule, base, base.d
        self.second_moment = math.inf if math.isinf(base.second_moment) else math.nan
        self.gaussian_tails = base.gaussian_tails

    def log_density(self, x: ArrayLike) -> Any:
        origin, log_det = self.schedule.pullback(x)
        return self.base.log_density(origin) - log_det

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        return np.asarray(self.schedule.apply(self.base.sample(n, seed)))
