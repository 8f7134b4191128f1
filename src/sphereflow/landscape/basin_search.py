r"""Where the ascent takes a single cluster, from every point: the basins of $\tfrac12v$.

One cluster exerts no force on itself, so it follows $\dot x=\tfrac12\nabla v(x)$ and ends at a local maximum of v, or
stays where v is flat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.evolution import evolve
from sphereflow.landscape.maxima import local_maxima
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.refine import descend
from sphereflow.landscape.space import Jet
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.results import Result, Variables, recorded_call


@dataclass(frozen=True, eq=False, repr=False)
class Basins(Result):
    """Attractors (k, d) with v there, highest first; starts (n, d) and the attractor of each, -1 where v is flat."""

    problem: Problem
    attractors: Float[np.ndarray, "k d"]
    potential: Float[np.ndarray, " k"]
    starts: Float[np.ndarray, "n d"]
    labels: Int[np.ndarray, " n"]

    @property
    def shares(self) -> Float[np.ndarray, " k"]:
        """The fraction of all starts that ends at each attractor."""
        counts = np.bincount(self.labels[self.labels >= 0], minlength=len(self.attractors))
        return counts / len(self.labels)

    def variables(self) -> Variables:
        return {
            "attractor": (("basin", "component"), self.attractors),
            "potential": ("basin", self.potential),
            "share": ("basin", self.shares),
            "start": (("point", "component"), self.starts),
            "label": ("point", self.labels),
        }

    def facts(self) -> list[str]:
        shares = ", ".join(f"{share:.3f}" for share in self.shares[:8]) + (", ..." if len(self.shares) > 8 else "")
        return [f"{len(self.attractors)} attractors of {len(self.starts)} starts", f"their shares are {shares}"]


@recorded_call
def basins(problem: Problem, starts: int = 720, t1: float = 60.0) -> Basins:
    """The basin map of the ascent of one cluster on the circle or on S^2, from a grid of starts."""
    if problem.d > 3:
        raise SphereflowError(f"the basin map needs a grid of the sphere, that is d=2 or d=3, got d={problem.d}.")
    count, t1 = whole_number("starts", starts, least=8), real_number("t1", t1, above=0, most=1e6)
    space = SphereSpace(problem.converted("peak"))
    grid = space.grid(count)
    peaks, heights = local_maxima(space, 1440 if problem.d == 2 else 4000)
    # A plateau has no attractor: only maxima with a neighbourhood below them count.
    bend = space.half_potential(peaks).hessian
    true = np.linalg.eigvalsh(bend)[:, -1] < -1e-9
    peaks, heights = peaks[true], heights[true]
    # In scaled time, so that weak and strong weights take equally long.
    size = float(np.abs(space.half_potential(grid).gradient).max())
    labels = np.full(count, -1)
    if size > 0 and len(peaks):
        climber = space.problem.replaced(outer=space.problem.outer / size)
        run = evolve(climber.perceptron, grid, t1, saveat=2, tol=1e-6, solver="tsit5")
        if not run.status.complete:
            raise SphereflowError(f"the starts could not be followed to t1={t1:g}: {run.status.value}")
        ends = run.final

        def below(points: np.ndarray) -> Jet:
            jet = space.half_potential(points)
            return Jet(-jet.value, -jet.gradient, -jet.hessian)

        ends = descend(space, below, ends, 0.02, 60)
        distance = space.distance(ends, peaks)
        labels = np.where(distance.min(axis=1) < 1e-4, np.argmin(distance, axis=1), -1)
    factor = 2 * problem.factor
    return Basins(problem, peaks, factor * heights, grid, labels)
