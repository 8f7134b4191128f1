"""Measures as a user gives them, checked."""

from __future__ import annotations

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.landscape.space import PointMasses
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.shapes import ArrayLike


def given_atoms(d: int, positions: ArrayLike, masses: ArrayLike | None = None) -> PointMasses:
    """Positions and masses as a user gives them, checked."""
    points = real_array("positions", positions)
    if points.ndim == 1 and d == 2:
        points = np.stack([np.cos(points), np.sin(points)], axis=1)
    if points.ndim != 2 or points.shape[1] != d or len(points) == 0 or not np.isfinite(points).all():
        raise SphereflowError(f"positions must be finite, of shape (k, {d}), or angles on the circle.")
    if np.abs(np.linalg.norm(points, axis=1) - 1).max() > 1e-8:
        raise SphereflowError("positions must be unit vectors; use sphereflow.normalise.")
    weights = np.full(len(points), 1 / len(points)) if masses is None else real_array("masses", masses)
    if weights.shape != points.shape[:1] or not (weights > 0).all() or abs(weights.sum() - 1) > 1e-8:
        raise SphereflowError(f"masses must be {len(points)} positive numbers that sum to one.")
    return PointMasses(unit(points), weights / weights.sum())
