r"""How well heads obey two assumptions of the theory.

Norms: $|v_i|\approx r$ for i >= 1 and a compressed sink $|v_0|=\kappa r$. Similarity:
$\cos(v_i,v_{i+k})\approx c\,e^{-\lambda k}$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError


@dataclass(frozen=True)
class Norms:
    """Median norm without the sink, coefficient of variation, and the norm of the sink in units of the median."""

    median: float
    variation: float
    compression: float


@dataclass(frozen=True)
class Similarity:
    """Fit of mean cosines against distance: c, lambda, mean absolute error, and the part of averages below zero."""

    scale: float
    decay: float
    error: float
    negative: float
    cosines: Float[np.ndarray, " K"]


def fit_norms(values: Float[np.ndarray, "L d"]) -> Norms:
    """Norms of the values beside that of the sink, the first one."""
    norms = np.linalg.norm(values, axis=-1)
    rest = norms[1:]
    median = float(np.median(rest))
    return Norms(median, float(rest.std() / rest.mean()), float(norms[0] / median))


def mean_cosines(values: Float[np.ndarray, "L d"], reach: int) -> Float[np.ndarray, " K"]:
    """The average of cos(v_i, v_{i+k}) over i >= 1 for k = 1..reach."""
    rest = np.asarray(values, dtype=float)[1:]
    norms = np.linalg.norm(rest, axis=-1, keepdims=True)
    unit = rest / np.where(norms > 0, norms, 1.0)
    if not 1 <= reach < len(unit):
        raise SphereflowError(f"the reach of the similarity must lie from 1 to {len(unit) - 1}, got {reach}.")
    # All lags at once: the sum of the autocorrelations of the coordinates, padded so that nothing wraps around.
    spectrum = np.sum(np.abs(np.fft.rfft(unit, n=2 * len(unit), axis=0)) ** 2, axis=-1)
    lags = np.arange(1, reach + 1)
    return np.fft.irfft(spectrum)[lags] / (len(unit) - lags)


def fit_similarity(values: Float[np.ndarray, "L d"], reach: int = 64) -> Similarity:
    """Least squares of log cosines on distance, over the averages that are positive."""
    cosines = mean_cosines(values, min(reach, len(values) - 2))
    distance = np.arange(1, len(cosines) + 1)
    positive = cosines > 0
    if positive.sum() < 2:
        return Similarity(0.0, 0.0, float(np.abs(cosines).mean()), float(np.mean(~positive)), cosines)
    slope, offset = np.polyfit(distance[positive], np.log(cosines[positive]), 1)
    fitted = np.exp(offset + slope * distance)
    error = float(np.abs(cosines - fitted).mean())
    return Similarity(float(np.exp(offset)), float(-slope), error, float(np.mean(~positive)), cosines)
