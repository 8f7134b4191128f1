r"""How far two samples of unknown laws are apart, without a transport plan.

$$ \mathcal E=2E|X-Y|-E|X-X'|-E|Y-Y'| $$

vanishes for equal laws only.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist, pdist

from sphereflow.errors import SphereflowError


def energy_distance(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], *, unbiased: bool = True, most: int | None = None
) -> float:
    """The energy distance of two samples, of which at most `most` points each are used.

    Unbiased: equal laws give zero on average, and negative values by chance. Otherwise a point also counts as paired
    with itself, and the estimate is never negative.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2:
        raise SphereflowError(f"two samples (n, D) of one dimension are compared; got shapes {x.shape} and {y.shape}.")
    x, y = x[:most], y[:most]
    within = [pdist(cloud).mean() * (1 if unbiased else 1 - 1 / len(cloud)) for cloud in (x, y)]
    return float(2 * cdist(x, y).mean() - sum(within))
