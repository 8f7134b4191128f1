r"""How well heads obey two assumptions of the theory.

Norms: $|v_i|\approx r$ for i >= 1 and a compressed sink $|v_0|=\kappa r$. Similarity:
$\cos(v_i,v_{i+k})\approx c\,e^{-\lambda k}$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.arrays import beside, double, library, median


@dataclass(frozen=True)
class Norms:
    """Median norm without the sink, coefficient of variation, and the norm of the sink in units of the median."""

    median: Float[Any, "*heads"]
    variation: Float[Any, "*heads"]
    compression: Float[Any, "*heads"]


@dataclass(frozen=True)
class Similarity:
    """Fit of mean cosines against distance: c, lambda, mean absolute error, and the part of averages below zero."""

    scale: Float[np.ndarray, "*heads"]
    decay: Float[np.ndarray, "*heads"]
    error: Float[np.ndarray, "*heads"]
    negative: Float[np.ndarray, "*heads"]
    cosines: Float[np.ndarray, "*heads K"]


def fit_norms(values: Float[Any, "*heads L d"]) -> Norms:
    """Norms of the values beside that of the sink, the first one."""
    norms = library(values).sqrt((values * values).sum(axis=-1))
    rest = norms[..., 1:]
    mean = rest.mean(axis=-1)
    variance = ((rest - mean[..., None]) ** 2).mean(axis=-1)
    middle = median(rest)
    return Norms(middle, library(values).sqrt(variance) / mean, norms[..., 0] / middle)


def mean_cosines(values: Float[Any, "*heads L d"], reach: int) -> Float[Any, "*heads K"]:
    """The average of cos(v_i, v_{i+k}) over i >= 1 for k = 1..reach."""
    lib = library(values)
    rest = double(values)[..., 1:, :]
    norms = lib.sqrt((rest * rest).sum(axis=-1))[..., None]
    length = rest.shape[-2]
    if not 1 <= reach < length:
        raise SphereflowError(f"the reach of the similarity must lie from 1 to {length - 1}, got {reach}.")
    # Sums over all pairs at a distance are a correlation of the unit vectors with themselves, which is a product of
    # Fourier transforms; so many zeros follow that none wraps around.
    unit = lib.swapaxes(rest / lib.where(norms > 0, norms, 1.0), -1, -2)
    whole = 1 << (length + reach - 1).bit_length()
    waves = lib.fft.rfft(unit, whole)
    power = (waves.real**2 + waves.imag**2).sum(axis=-2)
    inner = lib.fft.irfft(power, whole)[..., 1 : reach + 1]
    return inner / beside(values, length - np.arange(1.0, reach + 1))


def fit_similarity(values: Float[np.ndarray, "L d"], reach: int = 64) -> Similarity:
    """Least squares of log cosines on distance, over the averages that are positive."""
    return fit_decay(mean_cosines(values, min(reach, len(values) - 2)))


def fit_decay(cosines: Float[np.ndarray, "*heads K"]) -> Similarity:
    """The same from the mean cosines at distances 1, 2, ..., K; without two positive ones the fit is 0."""
    distance = np.arange(1.0, cosines.shape[-1] + 1)
    positive = cosines > 0
    count = positive.sum(axis=-1)
    known = count >= 2
    x, y = positive * distance, np.log(np.where(positive, cosines, 1.0))
    mean_x, mean_y = (each.sum(axis=-1) / np.maximum(count, 1) for each in (x, y))
    away = np.where(positive, distance - mean_x[..., None], 0.0)
    slope = (away * y).sum(axis=-1) / np.where(known, (away**2).sum(axis=-1), 1.0)
    scale = np.where(known, np.exp(mean_y - slope * mean_x), 0.0)
    fitted = scale[..., None] * np.exp(slope[..., None] * distance)
    error = np.abs(cosines - fitted).mean(axis=-1)
    decay, negative = np.where(known, -slope, 0.0), 1 - positive.mean(axis=-1)
    return Similarity(np.asarray(scale), np.asarray(decay), np.asarray(error), np.asarray(negative), cosines)
