r"""Mean numbers of modes over many independent samples, with standard errors.

$$\overline N=\frac1R\sum_{r=1}^RN_r,\qquad \text{standard error}=\sqrt{\frac{1}{R(R-1)}\sum_r(N_r-\overline N)^2}.$$

Runs are counted together, a million samples at a time: cells of different runs never see each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sphereflow.errors import real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.modes.find import Modes, Space, find_modes
from sphereflow.modes.kac_rice import belt, edge
from sphereflow.progress import Progress, progress_bar
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sampler = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

_BATCH = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class ModeSample(Result):
    """The modes of `runs` samples of n points at one beta, and what they were drawn with."""

    n: int
    beta: float
    modes: Modes

    @property
    def everywhere(self) -> Estimate:
        """Modes on the whole line or circle."""
        return mean(self.modes.counts)

    @property
    def inside(self) -> Estimate:
        """Modes in [-T0, T0]."""
        return self.between(-edge(self.n, self.beta), edge(self.n, self.beta))

    @property
    def belt_fraction(self) -> Estimate:
        """Share of modes in the belt: a ratio of means, its error by the delta method."""
        inner, outer = belt(self.n, self.beta)
        part = self.modes.within(-outer, outer) - (self.modes.within(-inner, inner) if inner > 0 else 0)
        total = self.modes.counts
        share = part.sum() / total.sum()
        return Estimate(np.asarray(share), mean(part - share * total).error / total.mean())

    def between(self, low: float, high: float) -> Estimate:
        """Modes in [low, high]."""
        return mean(self.modes.within(low, high))

    derived = ("everywhere",)

    def variables(self) -> Variables:
        return self.modes.variables()

    def facts(self) -> list[str]:
        return [
            f"{self.everywhere} modes, {'' if self.modes.certain else 'not '}certain",
            f"n = {self.n}, beta = {self.beta:g}, {self.modes.runs} runs",
        ]

    def plot(self) -> Figure:
        """Where the modes are, and how many each run has."""
        return self.modes.plot()


@recorded_call
def sample_modes(
    n: int,
    beta: float,
    repeats: int,
    *,
    seed: Seed = 0,
    sampler: Sampler | None = None,
    space: Space = "line",
    progress: Progress = None,
) -> ModeSample:
    """Draw `repeats` samples of n points and find all their modes.

    **Arguments:** `sampler(rng, (runs, n))` draws the points: standard normal on the line, uniform on the circle,
    unless another is given.

    ```python
    sample_modes(1000, 300.0, 100)   # <ModeSample: 20.1 +- 0.2 modes, certain; ...>
    ```
    """
    whole_number("n", n)
    whole_number("repeats", repeats, least=2)
    beta = real_number("beta", beta, above=0)
    draw = sampler or (_normal if space == "line" else _uniform)
    rng = rng_from(seed)
    at_once = max(_BATCH // n, 1)
    parts = []
    with progress_bar("samples", progress, total=repeats) as bar:
        for first in range(0, repeats, at_once):
            count = min(at_once, repeats - first)
            parts.append((first, find_modes(draw(rng, (count, n)), beta, space=space)))
            bar.advance(count)
    positions = np.concatenate([part.positions for _, part in parts])
    run = np.concatenate([first + part.run for first, part in parts])
    return ModeSample(n, beta, Modes(positions, run, repeats, sum(part.undecided for _, part in parts)))


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(0, 2 * math.pi, shape)
