r"""The equilibrium of stored patterns by parallel tempering, with one replica that is drawn exactly.

States have the density $S(x)^p$, $S=\sum_\mu k(\phi^\mu)$ (see `boundaries` for the kernels and p). At $p=1$ this is a
mixture of equal parts: a pattern drawn uniformly, and a state from the Boltzmann law around it. That replica is drawn
anew at every step, so what travels along the ladder from $p=1$ to the wanted p is independent of the past. Replicas
at $p_i,p_j$ change places with probability $\min(1,(S_i/S_j)^{p_j-p_i})$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.memory.lines import check_plane
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

_CELLS = 8000
_WANTED = 0.3  # share of accepted moves
_MOST_REPLICAS = 200


@dataclass(frozen=True, eq=False, repr=False)
class Tempered(Result):
    r"""Equilibrium means over the second half of the steps; errors are over independent ladders.

    - `overlap`: the largest overlap with a pattern.
    - `alone`: $\langle\sum_\mu k_\mu^p/S^p\rangle$, the part of Z that single patterns carry.
    - `single`: the share of states that exactly one pattern sees (LSR).
    - `swaps`: shares of accepted exchanges along the ladder `powers`, from p = 1; `arrivals`: how often, per ladder, a
      state that was drawn exactly came to the last replica.
    """

    kernel: str
    sharpness: float
    temperature: float
    powers: Float[np.ndarray, " l"]
    overlap: Estimate
    alone: Estimate
    single: Estimate
    swaps: Float[np.ndarray, " k"]
    arrivals: float
    states: Float[np.ndarray, "r N"]

    def variables(self) -> Variables:
        return {
            "power": ("replica", self.powers),
            "swaps": ("exchange", self.swaps),
            "state": (("ladder", "component"), self.states),
        }

    def facts(self) -> list[str]:
        return [
            f"{self.kernel} kernel, sharpness {self.sharpness:.5g}, temperature {self.temperature:g}",
            f"largest overlap {self.overlap}; single patterns carry {self.alone} of Z; one in support {self.single}",
            f"{len(self.powers)} replicas, exchanges accepted {self.swaps.min(initial=1):.2f} or more, "
            f"{self.arrivals:.1f} exact draws per ladder arrived",
        ]


@recorded_call
def temper(
    patterns: ArrayLike,
    kernel: str = "lse",
    sharpness: float = 1.0,
    *,
    temperature: float,
    repeats: int = 32,
    steps: int = 400,
    seed: Seed = 0,
) -> Tempered:
    """The equilibrium at `temperature` of patterns of your own (M, N); only their directions count.

    `repeats` independent ladders of replicas make `steps` moves each; the first half settles the size of the moves.
    """
    sharpness = check_plane(kernel, sharpness)
    stored = real_array("patterns", patterns, shape=("M", "N"))
    count, n = stored.shape
    if count < 1 or n < 4 or not np.all(np.any(stored != 0, axis=1)):
        raise SphereflowError(f"patterns must be vectors other than zero in at least 4 dimensions, got {stored.shape}.")
    temperature = real_number("temperature", temperature, above=0, most=1e6)
    repeats, steps = whole_number("repeats", repeats, least=2, most=10**5), whole_number("steps", steps, least=20)
    power = (1 if kernel == "lse" else n) / (sharpness * temperature)
    rungs = int(np.ceil(abs(np.log(power)) * np.sqrt(n) / 2)) + 1
    if rungs > _MOST_REPLICAS:
        raise SphereflowError(f"temperature must be nearer to that of p = 1, got {temperature:g}: {rungs} replicas.")
    powers = np.geomspace(1.0, power, rungs)
    ladder = _Ladder(unit(stored), kernel, sharpness, powers, repeats, rng_from(seed))
    seen = [ladder.step(settling=step < steps // 2) for step in range(steps)]
    table = np.array(seen[steps // 2 :]).mean(axis=0)  # three means for every ladder
    overlap, alone, single = (mean(column) for column in table)
    # Where a chance is the same in all ladders its error is not zero but what one more state would have changed.
    floor = 1 / (repeats * steps)
    single = Estimate(single.value, np.maximum(single.error, floor))
    return Tempered(
        kernel,
        sharpness,
        temperature,
        powers,
        overlap,
        alone,
        single,
        ladder.swapped / steps,
        float(ladder.arrived / repeats),
        np.sqrt(n) * ladder.x[-1],
    )


class _Ladder:
    """Replicas (rungs, ladders, N) on the unit sphere; the first is drawn exactly at every step."""

    def __init__(
        self,
        patterns: np.ndarray,
        kernel: str,
        sharpness: float,
        powers: np.ndarray,
        repeats: int,
        rng: np.random.Generator,
    ):
        self.patterns, self.kernel, self.sharpness, self.powers, self.rng = patterns, kernel, sharpness, powers, rng
        n = patterns.shape[1]
        theta = np.linspace(0, np.pi, _CELLS + 1)[1:-1]
        law = (n - 2) * np.log(np.sin(theta)) + self.log_kernel(np.cos(theta))
        mass = np.cumsum(np.exp(law - law.max()))
        self.angle = (mass / mass[-1], theta)
        self.x = np.stack([self.exact(repeats) for _ in powers])
        self.scores = self.log_kernel(self.x @ patterns.T)
        self.log_s = logsumexp(self.scores, axis=-1)
        self.fresh = np.zeros((len(powers), repeats), dtype=bool)  # drawn exactly, and not yet counted as arrived
        self.sigma = np.full(len(powers), 1 / n)
        self.swapped, self.arrived = np.zeros(len(powers) - 1), 0

    def log_kernel(self, phi: np.ndarray) -> np.ndarray:
        if self.kernel == "lse":
            return self.sharpness * self.patterns.shape[1] * (phi - 1)
        inside = 1 - self.sharpness * (1 - phi)
        return np.where(inside > 0, np.log(np.where(inside > 0, inside, 1.0)), -np.inf)

    def exact(self, count: int) -> np.ndarray:
        centre = self.patterns[self.rng.integers(0, len(self.patterns), count)]
        angle = np.interp(self.rng.random(count), *self.angle)[:, None]
        aside = self.rng.standard_normal(centre.shape)
        aside -= np.sum(aside * centre, axis=1, keepdims=True) * centre
        return np.cos(angle) * centre + np.sin(angle) * unit(aside)

    def step(self, settling: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Move, redraw, exchange; then the three observables of the last replica of every ladder."""
        x = unit(self.x + self.sigma[:, None, None] * self.rng.standard_normal(self.x.shape))
        x[0] = self.exact(x.shape[1])
        scores = self.log_kernel(x @ self.patterns.T)
        log_s = logsumexp(scores, axis=-1)
        taken = -self.rng.standard_exponential(log_s.shape) < self.powers[:, None] * (log_s - self.log_s)
        taken[0] = True
        self.x = np.where(taken[..., None], x, self.x)
        self.scores = np.where(taken[..., None], scores, self.scores)
        self.log_s = np.where(taken, log_s, self.log_s)
        self.fresh[0] = True
        if settling:
            self.sigma = np.minimum(self.sigma * np.exp(0.3 * (taken.mean(axis=1) - _WANTED)), 1.0)
        for low in range(len(self.powers) - 1):
            gap = (self.powers[low + 1] - self.powers[low]) * (self.log_s[low] - self.log_s[low + 1])
            swap = -self.rng.standard_exponential(gap.shape) < gap
            self.swapped[low] += swap.mean()
            for each in (self.x, self.scores, self.log_s, self.fresh):
                each[low : low + 2, swap] = each[[low + 1, low]][:, swap]
        self.arrived += int(self.fresh[-1].sum())
        self.fresh[-1] = False
        power, scores = self.powers[-1], self.scores[-1]
        alone = np.exp(logsumexp(power * scores, axis=-1) - power * self.log_s[-1])
        active = np.isfinite(scores).sum(axis=-1) == 1
        return np.max(self.x[-1] @ self.patterns.T, axis=-1), alone, active.astype(float)
