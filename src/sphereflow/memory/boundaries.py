r"""Where retrieval ends at a finite size, by drawing states and patterns from their exact laws, with error bars.

$$Z=E_x\,S(x)^p,\quad S=\sum_\mu k(\phi^\mu),\qquad
  \text{LSE: }k=e^{-\beta N(1-\phi)},\ p=\tfrac1{\beta T},\qquad
  \text{LSR: }k=[1-b(1-\phi)]_+,\ p=\tfrac N{bT}.$$

A uniform state sees independent patterns, so its sum S is drawn without storing them, at any N and load. Half of the
draws have one pattern more, from its Boltzmann law; the mixture gives weights that stay bounded on both sides. In
equilibrium states have the density $S^p/Z$ against uniform ones, and the share of the equilibrium that is not that of
a uniform state is $\tfrac12E_x|S^p/Z-1|$. The boundary is the load at which this share is one half.

For LSE above $T=1/\beta$ the transition is continuous and this share does not jump. There the boundary is the load
at which half of the states drawn around a pattern still have it as their nearest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import logsumexp

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.memory import compact, spherical
from sphereflow.memory.lines import check_plane
from sphereflow.memory.overlaps import Values, log_density, log_tail
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELLS = 8000
_NEAREST = 100  # patterns with an overlap of their own; the others enter by their mean and variance


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalBoundary(Result):
    """Loads at which retrieval ends at `sizes`, their standard errors, and their limit for large N.

    `line` is the exact line of the spherical layer for N to infinity: what the limit should be.
    """

    kernel: str
    sharpness: float
    temperature: float
    criterion: str
    sizes: Int[np.ndarray, " s"]
    load: Estimate
    limit: Estimate
    line: float

    def variables(self) -> Variables:
        return {
            "size": ("size", self.sizes),
            "load": ("size", self.load.value),
            "error": ("size", self.load.error),
        }

    def facts(self) -> list[str]:
        return [
            f"{self.kernel} kernel, sharpness {self.sharpness:.5g}, temperature {self.temperature:g}",
            "boundary at "
            + ", ".join(
                f"N = {n}: {v:.4f} +- {e:.1g}"
                for n, v, e in zip(self.sizes, self.load.value, self.load.error, strict=True)
            ),
            f"limit {self.limit}; exact line {self.line:.5g}",
            self.criterion,
        ]

    def plot(self) -> Figure:
        """Loads against 1/N with error bars, their limit and the exact line."""
        from sphereflow.memory.pictures import draw_boundary

        return draw_boundary(self)


@recorded_call
def boundary(
    kernel: str = "lse",
    sharpness: float = 1.0,
    *,
    temperature: float,
    sizes: tuple[int, ...] = (50, 100, 200, 400),
    states: int = 800,
    repeats: int = 12,
    seed: Seed = 0,
) -> RetrievalBoundary:
    r"""The load at which retrieval ends, at each of `sizes`, with its error and its limit.

    **Arguments:**

    - `kernel`, `sharpness`: "lse" with beta, or "lsr" with b.
    - `temperature`: of the bath.
    - `states`: drawn per repeat, from either law; `repeats` independent searches give the error.

    The limit is a fit in $1/N$, after the known term $c\,\ln N/N$ (c = 0, 1/2 and 5/2 for LSE below and above
    $T=1/\beta$ and for LSR) is taken off; its error grows with the misfit.
    """
    sharpness = check_plane(kernel, sharpness)
    temperature = real_number("temperature", temperature, least=0.01, most=50)
    sizes = tuple(whole_number("each of sizes", n, least=10, most=100_000) for n in np.atleast_1d(np.asarray(sizes)))
    if len(set(sizes)) < 2:
        raise SphereflowError(f"sizes must name at least two sizes, for the limit, got {sizes}.")
    states, repeats = whole_number("states", states, least=20, most=10**6), whole_number("repeats", repeats, least=2)
    hot = kernel == "lse" and sharpness * temperature > 1
    rng = rng_from(seed)
    found = np.empty((repeats, len(sizes)))
    for place, n in enumerate(sizes):
        law = _Law(kernel, sharpness, n, temperature)
        for row in range(repeats):
            found[row, place] = _nearest_half(law, states, rng) if hot else _equal_shares(law, states, rng)
    load = mean(found)
    log_term = 0.5 if hot else 0.0 if kernel == "lse" else 2.5
    line = float(spherical.static(temperature, sharpness)) if kernel == "lse" else compact.threshold(sharpness)
    told = (
        "half of the states around a pattern have it as their nearest"
        if hot
        else "half of the equilibrium is not that of a uniform state"
    )
    order = np.array(sizes)
    return RetrievalBoundary(kernel, sharpness, temperature, told, order, load, _limit(order, load, log_term), line)


def equilibrium_share(
    n: int,
    alpha: float,
    temperature: float,
    kernel: str = "lse",
    sharpness: float = 1.0,
    *,
    states: int = 2000,
    repeats: int = 8,
    seed: Seed = 0,
) -> Estimate:
    r"""$\tfrac12E_x|S^p/Z-1|$ at load alpha: near 1 where the patterns hold the state, 0 where it is a uniform one.

    That is so for T below 1/beta; above it the two are not told apart by this number (`boundary` uses another one).
    """
    sharpness = check_plane(kernel, sharpness)
    alpha = real_number("alpha", alpha, above=0, most=100)
    temperature = real_number("temperature", temperature, least=0.01, most=1e3)
    law = _Law(kernel, sharpness, whole_number("n", n, least=10, most=100_000), temperature)
    states, repeats = whole_number("states", states, least=20), whole_number("repeats", repeats, least=2)
    rng = rng_from(seed)
    return mean(np.array([law.share(alpha, _draw(rng, states)) for _ in range(repeats)]))


Draws = tuple[np.ndarray, np.ndarray, np.ndarray]


def _draw(rng: np.random.Generator, count: int) -> Draws:
    """Arrivals of the nearest patterns, normal numbers for the sum of the others, and uniform ones for the extra one.

    The same draws serve every load, so that a share is a smooth function of the load.
    """
    arrivals = np.cumsum(rng.exponential(size=(count, _NEAREST)), axis=1)
    return arrivals, rng.standard_normal(count), rng.random(count)


class _Law:
    """Tables of one kernel, size and temperature along the angle of an overlap."""

    def __init__(self, kernel: str, sharpness: float, n: int, temperature: float):
        self.kernel, self.sharpness, self.n = kernel, sharpness, n
        self.power = (1 if kernel == "lse" else n) / (sharpness * temperature)
        theta = np.linspace(0, np.pi, _CELLS + 1)[1:-1][::-1]
        self.phi = np.cos(theta)
        log_h = log_density(self.phi, n) + np.log(np.sin(theta)) + np.log(np.pi / _CELLS)
        score = self.log_kernel(self.phi)
        # Moments of the kernel below a cut: the sum S and its variance, and the same for the power p of the kernel.
        self.below = {m: np.logaddexp.accumulate(log_h + m * score) for m in (1.0, 2.0, self.power, 2 * self.power)}
        self.log_one = float(self.below[self.power][-1])  # ln E k^p: one pattern alone
        self.one = np.cumsum(np.exp(log_h + self.power * score - self.log_one))
        upper = self.phi > 0
        self.tails = log_tail(self.phi[upper], n)[::-1]
        self.overlap_of = PchipInterpolator(self.tails, self.phi[upper][::-1])

    def log_kernel(self, phi: np.ndarray) -> Values:
        if self.kernel == "lse":
            return self.sharpness * self.n * (phi - 1)
        inside = 1 - self.sharpness * (1 - phi)
        return np.where(inside > 0, np.log(np.where(inside > 0, inside, 1.0)), -np.inf)

    def around(self, u: np.ndarray) -> np.ndarray:
        """Overlaps of the Boltzmann law of one pattern, from uniform numbers."""
        return np.interp(u, self.one, self.phi)

    def log_sum(self, nearest: np.ndarray, alpha: float, power: float, normal: np.ndarray) -> np.ndarray:
        """ln of the sum of k^power over all patterns, of which only the nearest are known one by one."""
        cut = nearest[:, -1]
        count = alpha * self.n
        with np.errstate(invalid="ignore"):
            rest, square = (np.interp(cut, self.phi, self.below[m]) + count for m in (power, 2 * power))
            spread = np.where(np.isfinite(rest), np.exp(square / 2 - rest), 0.0)
        # Nothing is left of a compact kernel beyond its edge.
        rest = np.where(np.isfinite(rest), rest, -np.inf) + np.log(np.maximum(1 + spread * normal, 1e-12))
        return np.logaddexp(logsumexp(power * self.log_kernel(nearest), axis=1), rest)

    def share(self, alpha: float, draws: Draws) -> float:
        arrivals, normal, u = draws
        lowest = np.log(arrivals) - alpha * self.n
        nearest = self.overlap_of(np.clip(lowest, self.tails[0], self.tails[-1]))
        others, powers = (self.log_sum(nearest, alpha, m, normal) for m in (1.0, self.power))
        own = self.log_kernel(self.around(u))
        log_s = np.concatenate([others, np.logaddexp(others, own)])
        log_powers = np.concatenate([powers, np.logaddexp(powers, self.power * own)])
        # The density of the draws against uniform states.
        log_q = np.logaddexp(0.0, log_powers - alpha * self.n - self.log_one) - np.log(2)
        log_weight = self.power * log_s - log_q
        log_z = logsumexp(log_weight) - np.log(len(log_s))
        return float(np.mean(np.abs(np.exp(log_weight - log_z) - np.exp(-log_q))) / 2)


def _equal_shares(law: _Law, count: int, rng: np.random.Generator) -> float:
    draws = _draw(rng, count)
    # From few patterns, where they hold everything, upwards until they do not.
    low, high = np.log(2 * _NEAREST) / law.n, np.log(2 * _NEAREST) / law.n + 0.1
    if law.share(low, draws) < 0.5:
        raise SphereflowError(
            f"sizes must be larger for this temperature: at N = {law.n} already {2 * _NEAREST} patterns are too many."
        )
    while law.share(high, draws) > 0.5:
        low, high = high, 1.5 * high
    return float(brentq(lambda alpha: law.share(alpha, draws) - 0.5, low, high, xtol=1e-6))


def _nearest_half(law: _Law, count: int, rng: np.random.Generator) -> float:
    """The median over draws of the load at which another pattern comes nearer than the one drawn around."""
    count *= _NEAREST  # one number each, where the other search needs the nearest patterns
    own = np.maximum(law.around(rng.random(count)), 0.0)
    return float(np.median(np.log(rng.exponential(size=count)) - log_tail(own, law.n)) / law.n)


def _limit(sizes: np.ndarray, load: Estimate, log_term: float) -> Estimate:
    """The constant of a parabola in 1/N; its error includes the distance to a line without the smallest size."""
    x, y = 1 / sizes, load.value - log_term * np.log(sizes) / sizes
    larger = x < x.max()
    degree = min(2, len(np.unique(x)) - 1)
    value, error = _constant(x, y, load.error, degree)
    other, _ = _constant(x[larger], y[larger], load.error[larger], degree - 1)
    return Estimate(np.asarray(value), np.hypot(error, value - other))


def _constant(x: np.ndarray, y: np.ndarray, error: np.ndarray, degree: int) -> tuple[float, float]:
    columns = np.vander(x, degree + 1, increasing=True)
    # An error that vanishes would give one size all the weight: terms beyond the fit are of order 1/N^3.
    weights = 1 / np.hypot(error, 5 * x**3)
    covariance = np.linalg.inv((columns * weights[:, None] ** 2).T @ columns)
    return float((covariance @ (columns.T @ (weights**2 * y)))[0]), float(np.sqrt(covariance[0, 0]))
