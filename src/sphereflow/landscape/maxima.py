r"""Maxima of the potential, where the attraction of tokens to each other and to the perceptron agree.

A single cluster exerts no force on itself, so under the ascent flow it climbs $\tfrac12v$: stable single clusters sit
at local maxima of v, and the one at the highest maximum has the largest energy of all measures.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from sphereflow.landscape.refine import descend, merged
from sphereflow.landscape.space import Jet, Space

_STEPS = 60
_MOST_PEAKS = 500


def local_maxima(space: Space, nodes: int) -> tuple[Float[np.ndarray, "k q"], Float[np.ndarray, " k"]]:
    r"""Local maxima of $\tfrac12v$ and its values there (peak convention), highest first.

    Where v is constant on a plateau, some points of the plateau stand for it.
    """
    grid = space.grid(nodes)
    values = space.half_potential(grid).value
    near = cKDTree(grid).query_ball_point(grid, 1.6 * space.spacing(nodes))
    tops = np.array([i for i, around in enumerate(near) if values[i] >= values[around].max()])
    tops = tops[np.argsort(-values[tops])][:_MOST_PEAKS]

    def below(points: np.ndarray) -> Jet:
        jet = space.half_potential(points)
        return Jet(-jet.value, -jet.gradient, -jet.hessian)

    points = descend(space, below, grid[tops], 2 * space.spacing(nodes), _STEPS)
    joined, _ = merged(space, points, np.full(len(points), 1 / len(points)), 1e-6)
    heights = space.half_potential(joined.points).value
    order = np.argsort(-heights)
    return joined.points[order], heights[order]
