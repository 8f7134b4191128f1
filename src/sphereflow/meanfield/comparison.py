r"""Finitely many tokens and the density of infinitely many, on one axis.

Tokens are drawn independently from the initial density. The distance $W_2$ along the circle between their empirical law
and the density is of order $n^{-1/2}$; at the start from the uniform law $n\,E\,W_2^2\to\pi^2/3$.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import Dynamics, Perceptron
from sphereflow.errors import whole_number
from sphereflow.evolution import Trajectory, evolve
from sphereflow.meanfield.circle_density import circle_model, evolve_density
from sphereflow.meanfield.density_flow import DensityFlow
from sphereflow.meanfield.initial import Density, StartingLaw, starting_law
from sphereflow.progress import Progress
from sphereflow.results import Result, Variables, recorded_call, span
from sphereflow.seeds import Seed, recorded, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import from_angles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """A density and n tokens drawn from it, followed to the same times."""

    flow: DensityFlow
    particles: Trajectory

    @property
    def n(self) -> int:
        return self.particles.n

    @property
    def ts(self) -> Float[np.ndarray, " T"]:
        return self.flow.ts

    def angles(self, index: int = -1) -> Float[np.ndarray, "n"]:
        """Angles of the tokens at one saved time."""
        x = self.particles.frame(index % len(self.ts))
        return np.arctan2(x[:, 1], x[:, 0])

    @cached_property
    def distance(self) -> Float[np.ndarray, " T"]:
        """W_2 along the circle between the tokens and the density at the saved times."""
        return np.array([self.flow.distance_to(self.angles(i), i) for i in range(len(self.ts))])

    @cached_property
    def mode_error(self) -> Float[np.ndarray, " T"]:
        """|c_1(tokens) - c_1(density)| at the saved times."""
        particles = np.array([np.exp(-1j * self.angles(i)).mean() for i in range(len(self.ts))])
        return np.abs(particles - self.flow.modes(1)[:, 1])

    def variables(self) -> Variables:
        return {"t": ("t", self.ts), "distance": ("t", self.distance), "mode_error": ("t", self.mode_error)}

    def plot(self) -> Figure:
        """Density and tokens at the last time, and the distance between them against time."""
        from sphereflow.meanfield.pictures import plot_comparison

        return plot_comparison(self)

    def facts(self) -> list[str]:
        first, last = self.distance[0], self.distance[-1]
        return [
            f"{self.n} tokens and their density, beta = {self.flow.beta:g}, {span(self.ts)}",
            f"W_2 {first:.2e} -> {last:.2e}, "
            f"times sqrt(n): {first * np.sqrt(self.n):.2f} -> {last * np.sqrt(self.n):.2f}",
        ]


@recorded_call
def compare(
    beta: float = 10.0,
    model: str | Dynamics = "sa",
    density: Density | str | StartingLaw = "uniform+cos",
    t1: float | None = None,
    *,
    n: int = 10_000,
    seed: Seed = 0,
    saveat: int | Sequence[float] | np.ndarray = 5,
    value: ArrayLike | None = None,
    form: ArrayLike | None = None,
    perceptron: Perceptron | None = None,
    tol: float = 1e-7,
    grid: str = "blend",
    flow: DensityFlow | None = None,
    progress: Progress = None,
) -> Comparison:
    """Follow a density and n tokens drawn from it; arguments as for `evolve_density`.

    `flow` is a density followed before, with the same arguments, to which these tokens are compared.
    """
    n, rng, record = whole_number("n", n), rng_from(seed), recorded(seed)
    number = record if isinstance(record, int) else None  # a trajectory cannot hold the words of a key
    law = starting_law(density)
    matrices: dict[str, Any] = {"value": value, "form": form, "perceptron": perceptron}
    if flow is None:
        flow = evolve_density(beta, model, law, t1, saveat=saveat, tol=tol, grid=grid, **matrices)
    draws = rng.random(n)
    tokens = from_angles(law.quantiles(draws))
    dynamics = circle_model(beta, model, **matrices)
    run = evolve(dynamics, tokens, saveat=flow.ts, tol=max(tol, 1e-9), progress=progress, seed=number)
    return Comparison(flow, run)
