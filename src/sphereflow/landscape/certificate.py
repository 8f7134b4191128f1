r"""A proof, cell by cell, of how small a function on the space can be.

Around a point c, along every geodesic of length $\rho\le r$,

$$f\ \ge\ f(c)-|\nabla f(c)|\,\rho+\tfrac12\kappa\rho^2,\qquad
  \kappa=\lambda_{\min}(\nabla^2f(c))-\tfrac{M_3r}3-J,$$

where $M_3$ bounds third derivatives along great circles and J the jumps of second derivatives at kinks of relu inside
the cell. Cells whose bound is below what is to be proved are split; the smallest bound of all cells is a bound on the
whole space, up to rounding. With $f=g$, the first variation of a measure, $\lambda-\min g$ is the duality gap: the
energy is convex along mixtures, so no measure has an energy lower than that of this one by more than the gap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from sphereflow.landscape.potential import kink_jumps
from sphereflow.landscape.space import BallCover, Jet, PointMasses, Space, first_variation

# Where to stop: cells this small, or this many of them, are bounded as they are.
_SMALLEST_RADIUS = 1e-7
_MOST_CELLS = {1: 60_000, 2: 20_000, 3: 400_000, 4: 400_000, 5: 400_000}


def lower_bound(
    space: Space,
    function: Callable[[Float[np.ndarray, "n q"]], Jet],
    third: float,
    wanted: float,
    nodes: int = 1024,
) -> float:
    """A number that the function is nowhere below; splitting stops once it is at least `wanted`."""
    cells = space.cells(nodes)
    proved = np.inf
    while True:
        bounds = _cell_bounds(space, function, third, cells)
        open_cells = np.flatnonzero(bounds < wanted)
        tired = len(open_cells) > _MOST_CELLS[space.p] or cells.radii.max() < _SMALLEST_RADIUS
        if len(open_cells) == 0 or tired:
            return min(proved, float(bounds.min()))
        closed = bounds[bounds >= wanted]
        proved = min(proved, float(closed.min(initial=np.inf)))
        cells = cells.split(open_cells)


def _cell_bounds(
    space: Space, function: Callable[[np.ndarray], Jet], third: float, cells: BallCover
) -> Float[np.ndarray, " n"]:
    centres, radii = cells.centres, cells.radii
    value, gradient, bend = function(centres)
    steep = np.linalg.norm(gradient, axis=1)
    jumps = kink_jumps(space.problem, space.arguments(centres), radii)
    kappa = np.linalg.eigvalsh(bend)[:, 0] - third * radii / 3 - jumps
    at_edge = value - steep * radii + kappa * radii**2 / 2
    inside = (kappa > 0) & (steep < kappa * radii)
    return np.where(inside, value - steep**2 / (2 * np.where(inside, kappa, 1.0)), at_edge)


def duality_gap(space: Space, atoms: PointMasses, tol: float) -> float:
    r"""A bound of $\mathsf E[\mu]-\min\mathsf E$ in the peak convention, refined until it is about the tolerance."""
    multiplier = float(atoms.masses @ first_variation(space, atoms, atoms.points).value)
    proved = lower_bound(
        space,
        lambda points: first_variation(space, atoms, points),
        space.third_derivative_bound,
        multiplier - tol,
    )
    return max(multiplier - proved, 0.0)
