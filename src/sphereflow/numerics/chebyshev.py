r"""Chebyshev points of an interval, ends included: differentiation and interpolation there, as matrices."""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float


def chebyshev(points: int) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m m"]]:
    """Chebyshev points of [-1, 1], the largest first, and the matrix that differentiates there."""
    x = np.cos(np.pi * np.arange(points + 1) / points)
    weights = _weights(points + 1)
    matrix = np.outer(1 / weights, weights) / (x[:, None] - x + np.eye(points + 1))
    return x, matrix - np.diag(matrix.sum(axis=1))


def interpolation(nodes: Float[np.ndarray, " m"], at: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k m"]:
    """From values at Chebyshev points of any interval to values at other points."""
    # Without weights SciPy finds them itself, in a random order: the last digits would change from run to run.
    return scipy.interpolate.BarycentricInterpolator(nodes, np.eye(len(nodes)), wi=_weights(len(nodes)))(at)


def _weights(count: int) -> np.ndarray:
    weights = (-1.0) ** np.arange(count)
    weights[[0, -1]] /= 2
    return weights
