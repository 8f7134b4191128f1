r"""All measures into one cap by one drift away from a point outside every support.

$$\omega=-w_0 \text{ until all is in } B(-w_0,r),\quad r<\pi/4:\qquad \langle x,x'\rangle>0\text{ for all particles.}$$

The paper drives everything into the positive orthant (Lemma 3.2, two drifts). All that the following steps use is that
every measure lies in an open hemisphere about its own barycentre, and a cap of radius below pi/4 gives that. The drift
stops as early as it can: contracting further would make the barycentres nearly colinear.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.transport.sphere.construction import ConstructionState
from sphereflow.transport.sphere.flows import log_tan_half_angle, polar
from sphereflow.transport.sphere.pieces import Drift

RADIUS = np.pi / 5
_CANDIDATES = 2000


def into_cap(route: ConstructionState, rng: np.random.Generator) -> None:
    """Emit one drift, or none if everything is in a cap already."""
    route.enter("cap")
    if np.linalg.norm(middle := route.pooled.mean(axis=0)) > 0 and angles(route.pooled, unit(middle)).max() <= RADIUS:
        return
    omega = -free_point(route, rng)
    time = float(polar(route.pooled, omega)[0].max()) - log_tan_half_angle(RADIUS)
    if time > 0:
        route.emit(Drift(duration=time, omega=omega))


def free_point(route: ConstructionState, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
    """The candidate farthest from all supports."""
    pooled = route.pooled
    candidates = unit(np.concatenate([rng.normal(size=(_CANDIDATES, route.d)), -pooled.mean(axis=0, keepdims=True)]))
    nearest = np.full(len(candidates), -1.0)
    for first in range(0, len(pooled), 4096):
        nearest = np.maximum(nearest, (candidates @ pooled[first : first + 4096].T).max(axis=1))
    return candidates[int(np.argmin(nearest))]
