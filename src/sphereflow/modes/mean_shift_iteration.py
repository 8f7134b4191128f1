r"""Mean shift: the other way to the modes, one attention step at a time.

$$t\leftarrow\frac{\sum_iX_iw_i}{\sum_iw_i},\qquad w_i=e^{-\beta(t-X_i)^2/2}.$$

The samples stay where they are; points climb the density estimate and end at its modes. It costs a sum over all
samples for every step of every point, and serves as an independent check and for basins of attraction.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.reading import real_array

_BLOCK = 1 << 21


def mean_shift(
    samples: Float[np.ndarray, " n"],
    beta: float,
    starts: Float[np.ndarray, " k"] | None = None,
    *,
    tol: float = 1e-12,
    most: int = 20_000,
) -> Float[np.ndarray, " k"]:
    """Where each start (each sample, by default) ends: steps shorter than `tol` bandwidths stop a point."""
    beta = real_number("beta", beta, above=0, most=1e40)
    whole_number("most", most)
    h = beta**-0.5
    tol = real_number("tol", tol, least=0)
    samples = real_array("samples", samples, shape=("n",))
    at = (samples if starts is None else real_array("starts", starts, shape=("k",))).copy()
    if not len(samples) or np.ptp(samples) > 1e100 or np.abs(at).max(initial=0.0) > 1e100:
        raise SphereflowError("samples must be at least one number, and no number may be beyond 1e100.")
    moving = np.arange(len(at))
    for _ in range(most):
        before = at[moving]
        at[moving] = _averages(before, samples, beta)
        moving = moving[np.abs(at[moving] - before) > tol * h]
        if not moving.size:
            return at
    raise SphereflowError(f"mean shift has not stopped after {most} steps; raise `most` or `tol`.")


def merged(points: Float[np.ndarray, " k"], distance: float) -> Float[np.ndarray, " m"]:
    """Middles of groups of points whose neighbours are within `distance`."""
    ordered, distance = np.sort(real_array("points", points, shape=("k",))), real_number("distance", distance, least=0)
    if len(ordered) == 0:
        return ordered
    groups = np.split(ordered, np.flatnonzero(np.diff(ordered) > distance) + 1)
    return np.array([group.mean() for group in groups])


def _averages(at: np.ndarray, samples: np.ndarray, beta: float) -> np.ndarray:
    result = np.empty_like(at)
    size = max(_BLOCK // len(samples), 1)
    for first in range(0, len(at), size):
        rows = slice(first, first + size)
        weights = np.subtract.outer(at[rows], samples)
        weights *= weights
        weights *= -beta / 2
        # The nearest sample has weight one: no start is so far out that all weights vanish.
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        result[rows] = np.einsum("ij,j->i", weights, samples) / weights.sum(axis=1)
    return result
