r"""How a memory with the compact kernel is lost: the state enters the cap of a neighbour, and hops.

While one pattern alone sees it, a state is a diffusion around that pattern; the event is that a second pattern becomes
active. For a neighbour at overlap rho the rate is the equilibrium density at the edge of its cap times the speed with
which the state is pushed back there, right where the barrier is high:

$$k(\rho)=\int d\phi\,p(\phi,c=\phi_c)\Big[\tfrac{N-1}NT\phi_c-\frac{\rho-\phi\phi_c}{1-b+b\phi}\Big],\qquad
  p\propto(1-b+b\phi)^{N/(bT)}(1-\phi^2-v^2)^{(N-4)/2},\quad v=\frac{c-\phi\rho}{\sqrt{1-\rho^2}}.$$

Neighbours are independent, so over random patterns
$S(t)=\big[1-\Pr(\rho>\phi_c)-\int_{\rho<\phi_c}h(\rho)(1-e^{-k(\rho)t})d\rho\big]^{M-1}$: many exponentials, not one.
Times are in the unit of the Langevin equation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, fraction
from sphereflow.memory.overlaps import Numbers, Values, log_density, log_tail
from sphereflow.memory.state import REFERENCE_B, support_edge
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

_CELLS = 4000
_SHIFT = 0.5826  # -zeta(1/2)/sqrt(2 pi): how far beyond a level a walk with discrete steps is when it is first seen


def hop_rate(n: int, rho: Numbers, temperature: float, b: float = REFERENCE_B) -> Values:
    """k(rho): the rate at which the cap of a neighbour at overlap rho is entered; 0 where it is out of reach."""
    n, b = whole_number("n", n, least=5, most=10**6), real_number("b", b, above=1, most=1e3)
    temperature = real_number("temperature", temperature, above=0, most=1e3)
    overlap = real_array("rho", rho)
    if not np.all(np.abs(overlap) < 1):
        raise SphereflowError("rho must lie between -1 and 1.")
    edge = support_edge(b)
    phi = edge + (1 - edge) * (np.arange(_CELLS) + 0.5) / _CELLS
    inside = 1 - b + b * phi
    log_one = n / (b * temperature) * np.log(inside)
    # Constants: the law of (phi, v) against that of phi alone.
    log_norm = np.logaddexp.reduce(log_one + log_density(phi, n)) + np.log((1 - edge) / _CELLS)
    log_plane = np.log((n - 2) / (2 * np.pi))
    r = overlap[..., None]
    v = (edge - r * phi) / np.sqrt(1 - r * r)
    rest = 1 - phi**2 - v**2
    with np.errstate(divide="ignore"):
        log_p = log_one + log_plane + (n - 4) / 2 * np.log(np.maximum(rest, 0)) - log_norm
    back = (n - 1) / n * temperature * edge - (r - phi * edge) / inside
    return np.sum(np.exp(log_p) * np.maximum(back, 0), axis=-1) * (1 - edge) / _CELLS / np.sqrt(1 - overlap**2)


def hop_survival(n: int, patterns: int, times: Numbers, temperature: float, b: float = REFERENCE_B) -> Values:
    """S(t): the share of random memories of so many patterns whose state no second pattern has seen up to t."""
    times = real_array("times", times)
    patterns = whole_number("patterns", patterns, most=10**15)
    if not np.all(times >= 0):
        raise SphereflowError("times must not be negative.")
    edge = support_edge(real_number("b", b, above=1, most=1e3))
    rho = -1 + (1 + edge) * (np.arange(_CELLS // 4) + 0.5) / (_CELLS // 4)
    rate = hop_rate(n, rho, temperature, b)
    law = np.exp(log_density(rho, n)) * (1 + edge) / len(rho)
    lost = -np.expm1(-rate * times[..., None]) @ law
    return np.exp((patterns - 1) * np.log1p(-np.exp(log_tail(edge, n)) - lost))


@dataclass(frozen=True, eq=False, repr=False)
class Survival(Result):
    """The share of states that no second pattern has seen up to `times`, with errors, and the time of each loss."""

    temperature: float
    b: float
    times: Float[np.ndarray, " t"]
    share: Estimate
    lost_at: Float[np.ndarray, " r"]

    @property
    def rate(self) -> Estimate:
        """Losses per time spent: the rate, if it is one exponential."""
        ended = np.isfinite(self.lost_at)
        spent = float(np.sum(np.minimum(self.lost_at, self.times[-1])))
        number = int(ended.sum())
        return Estimate(np.asarray(number / spent), np.asarray(np.sqrt(max(number, 1)) / spent))

    def variables(self) -> Variables:
        return {
            "time": ("time", self.times),
            "share": ("time", self.share.value),
            "error": ("time", self.share.error),
            "lost_at": ("walker", self.lost_at),
        }

    def facts(self) -> list[str]:
        return [
            f"{len(self.lost_at)} states, {int(np.isfinite(self.lost_at).sum())} lost up to t = {self.times[-1]:g}",
            f"compact kernel, b = {self.b:.5g}, temperature {self.temperature:g}; rate {self.rate}",
        ]


@recorded_call
def survival(
    patterns: Float[np.ndarray, "... M N"],
    times: Float[np.ndarray, " t"],
    *,
    temperature: float,
    b: float = REFERENCE_B,
    repeats: int = 200,
    dt: float = 0.005,
    seed: Seed = 0,
) -> Survival:
    """Langevin walkers around the first pattern until a second one sees them.

    `patterns` (M, N) hold `repeats` walkers; of (R, M, N), one set per walker, each holds one. Walkers start from the
    equilibrium around the first pattern; those that a second pattern sees at once are lost at time 0.
    """
    stored = real_array("patterns", patterns)
    if stored.ndim not in (2, 3) or 0 in stored.shape or stored.shape[-1] < 5:
        raise SphereflowError(f"patterns must have shape (M, N) or (R, M, N) with N at least 5, got {stored.shape}.")
    if not np.all(np.any(stored != 0, axis=-1)):
        raise SphereflowError("patterns must be vectors other than zero.")
    grid = real_array("times", times, shape=("t",))
    if not len(grid) or grid[0] < 0 or not np.all(np.diff(grid) > 0):
        raise SphereflowError("times must grow from 0 or later.")
    temperature, b = real_number("temperature", temperature, above=0), real_number("b", b, above=1, most=1e3)
    dt, repeats = real_number("dt", dt, above=0, most=0.1), whole_number("repeats", repeats, least=2, most=10**7)
    count = repeats if stored.ndim == 2 else len(stored)
    sets = unit(stored) if stored.ndim == 3 else unit(stored)[None]
    lost = _walk(sets, count, float(grid[-1]), temperature, b, dt, rng_from(seed))
    return Survival(temperature, b, grid, fraction(lost[:, None] > grid), lost)


def _walk(
    sets: np.ndarray, count: int, last: float, temperature: float, b: float, dt: float, rng: np.random.Generator
) -> np.ndarray:
    n, edge = sets.shape[-1], support_edge(b)
    axis, others = sets[:, 0], sets[:, 1:]
    axis = np.broadcast_to(axis, (count, n))
    x = _around(axis, temperature, b, rng)
    size = np.sqrt(2 * temperature * dt / n)
    # A path seen at multiples of dt misses short visits to the cap: its edge is moved out by a part of a step.
    level = edge - _SHIFT * size * np.sqrt(1 - edge**2)
    shared = len(others) == 1
    lost = np.full(count, np.inf)
    alive = np.arange(count)
    for step in range(int(np.ceil(last / dt)) + 1):
        near = x @ others[0].T if shared else np.einsum("rmn,rn->rm", others[alive], x)
        seen = near.max(axis=1, initial=-1.0) > (edge if step == 0 else level)
        lost[alive[seen]] = step * dt
        x, alive = x[~seen], alive[~seen]
        if not len(alive):
            break
        x = _langevin(x, axis[alive], b, dt, size, rng)
    return lost


def _langevin(
    x: np.ndarray, axis: np.ndarray, b: float, dt: float, size: float, rng: np.random.Generator
) -> np.ndarray:
    """One step around the axis; at the edge of the own cap the force grows without bound and turns the state back."""
    phi = np.sum(x * axis, axis=1, keepdims=True)
    inside = np.maximum(1 - b + b * phi, 2 * b * size)
    move = dt / inside * axis + size * rng.standard_normal(x.shape)
    return unit(x + move - np.sum(move * x, axis=1, keepdims=True) * x)


def _around(axis: np.ndarray, temperature: float, b: float, rng: np.random.Generator) -> np.ndarray:
    """States of the equilibrium around one pattern each."""
    n = axis.shape[1]
    theta = np.arccos(support_edge(b)) * (np.arange(_CELLS) + 0.5) / _CELLS
    law = (n - 2) * np.log(np.sin(theta)) + n / (b * temperature) * np.log1p(-2 * b * np.sin(theta / 2) ** 2)
    mass = np.cumsum(np.exp(law - law.max()))
    angle = np.interp(rng.random(len(axis)), mass / mass[-1], theta)[:, None]
    aside = rng.standard_normal(axis.shape)
    aside -= np.sum(aside * axis, axis=1, keepdims=True) * axis
    return np.cos(angle) * axis + np.sin(angle) * unit(aside)
