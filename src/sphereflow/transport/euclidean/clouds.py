"""Point clouds: the laws that users have, known by their samples only."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.shapes import ArrayLike

# A direction in which the points spread less than this, relative to the widest one, counts as flat.
_FLATTEST = 1e-9


def checked_cloud(points: ArrayLike, name: str = "the cloud") -> Float[np.ndarray, "n d"]:
    """The points as an array (n, d) that has a density around it, or one sentence that says why not."""
    cloud = real_array(name, points)
    cloud = cloud[:, None] if cloud.ndim == 1 else cloud
    if cloud.ndim != 2 or 0 in cloud.shape:
        raise SphereflowError(f"{name} must have shape (points, dimension) with neither zero, got {cloud.shape}.")
    if np.abs(cloud).max() > 1e100:
        raise SphereflowError(f"{name} must be within [-1e100, 1e100].")
    n, d = cloud.shape
    if n <= d:
        raise SphereflowError(f"{name} has {n} points in dimension {d}: too few to span the space, give more than {d}.")
    spread = np.linalg.svd(cloud - cloud.mean(axis=0), compute_uv=False)
    if spread[0] == 0:
        raise SphereflowError(f"{name} is one point repeated: it has no density, so relative entropy is infinite.")
    if spread[-1] < _FLATTEST * spread[0]:
        flat = int((spread < _FLATTEST * spread[0]).sum())
        raise SphereflowError(
            f"{name} has a singular covariance: it is flat in {flat} of {d} directions, so its law has no density and "
            "no flow of a density reaches it in relative entropy; drop these directions or add noise."
        )
    return cloud
