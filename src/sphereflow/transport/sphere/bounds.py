r"""What perceptrons alone cannot do: without attention (V = 0) all measures are moved by one and the same map.

If $\mu^1$ and $\mu^2$ share the mass p and the targets are the points $y_1$ and $y_2$, then for every map T

$$W_2(T_\#\mu^1,\delta_{y_1})^2+W_2(T_\#\mu^2,\delta_{y_2})^2\ge\int (d(Tx,y_1)^2+d(Tx,y_2)^2)\,d(\mu^1\wedge\mu^2)
\ge\tfrac p2\,d(y_1,y_2)^2,$$

so one of the two is at least $\tfrac{\sqrt p}2d(y_1,y_2)$ away, however many pieces there are.
"""

from __future__ import annotations

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angle_table, angles
from sphereflow.shapes import ArrayLike
from sphereflow.transport.sphere.inputs import Measure, measures


def shared_mass(first: Measure, second: Measure) -> float:
    r"""Mass of $\mu^1\wedge\mu^2$: what the two have at the same points."""
    mine, theirs = first.merged(), second.merged()
    same = angle_table(mine.points, theirs.points) < 1e-9
    return float(np.minimum(mine.masses[:, None], theirs.masses)[same].sum())


def perceptron_bound(sources: ArrayLike, targets: ArrayLike) -> float:
    """No schedule without attention brings every source closer to its target point (in W2) than this."""
    starts, ends = measures(sources, "sources"), measures(targets, "targets")
    if len(starts) != len(ends) or any(len(end) != 1 for end in ends):
        raise SphereflowError("the bound for perceptrons is for one target point per source.")
    pairs = [(i, j) for i in range(len(starts)) for j in range(i)]
    bounds = [
        np.sqrt(shared_mass(starts[i], starts[j])) / 2 * angles(ends[i].points[0], ends[j].points[0]) for i, j in pairs
    ]
    return float(max(bounds, default=0.0))
