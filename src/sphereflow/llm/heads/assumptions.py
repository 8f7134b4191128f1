r"""How well heads obey two assumptions of the theory.

Norms: $|v_i|\approx r$ for i >= 1 and a compressed sink $|v_0|=\kappa r$. Similarity:
$\cos(v_i,v_{i+k})\approx c\,e^{-\lambda k}$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import as_strided

from sphereflow.errors import SphereflowError


@dataclass(frozen=True)
class Norms:
    """Median norm without the sink, coefficient of variation, and the norm of the sink in units of the median."""

    median: Float[np.ndarray, "*heads"]
    variation: Float[np.ndarray, "*heads"]
    compression: Float[np.ndarray, "*heads"]


@dataclass(frozen=True)
class Similarity:
    """Fit of mean cosines against distance: c, lambda, mean absolute error, and the part of averages below zero."""

    scale: float
    decay: float
    error: float
    negative: float
    cosines: Float[np.ndarray, " K"]


def fit_norms(values: Float[np.ndarray, "*heads L d"]) -> Norms:
    """Norms of the values beside that of the sink, the first one."""
    norms = np.linalg.norm(values, axis=-1)
    rest = norms[..., 1:]
    median = np.median(rest, axis=-1)
    numbers = (median, rest.std(axis=-1) / rest.mean(axis=-1), norms[..., 0] / median)
    return Norms(*map(np.asarray, numbers))


def mean_cosines(values: Float[np.ndarray, "*heads L d"], reach: int) -> Float[np.ndarray, "*heads K"]:
    """The average of cos(v_i, v_{i+k}) over i >= 1 for k = 1..reach."""
    rest = np.asarray(values, dtype=float)[..., 1:, :]
    norms = np.linalg.norm(rest, axis=-1, keepdims=True)
    heads, (length, d) = rest.shape[:-2], rest.shape[-2:]
    if not 1 <= reach < length:
        raise SphereflowError(f"the reach of the similarity must lie from 1 to {length - 1}, got {reach}.")
    # Blocks of `reach` tokens times themselves and the block after: all pairs that are near enough, in one product.
    blocks = -(-length // reach)
    unit = np.zeros((*heads, (blocks + 1) * reach, d))
    np.divide(rest, np.where(norms > 0, norms, 1.0), out=unit[..., :length, :])
    unit = unit.reshape(*heads, blocks + 1, reach, d)
    own = unit[..., :-1, :, :]
    inner = own @ np.swapaxes(np.concatenate([own, unit[..., 1:, :, :]], axis=-2), -1, -2)
    # Row i read from its i-th column on: rows one longer than they are, so that each column is a lag.
    read = (2 * reach + 1) * inner.itemsize
    shifted = as_strided(inner, (*inner.shape[:-1], reach + 1), (*inner.strides[:-2], read, inner.itemsize))
    return np.asarray(shifted.sum(axis=(-3, -2))[..., 1:] / (length - np.arange(1, reach + 1)))


def fit_similarity(values: Float[np.ndarray, "L d"], reach: int = 64) -> Similarity:
    """Least squares of log cosines on distance, over the averages that are positive."""
    return fit_decay(mean_cosines(values, min(reach, len(values) - 2)))


def fit_decay(cosines: Float[np.ndarray, " K"]) -> Similarity:
    """The same from the mean cosines at distances 1, 2, ..., K."""
    distance = np.arange(1, len(cosines) + 1)
    positive = cosines > 0
    if positive.sum() < 2:
        return Similarity(0.0, 0.0, float(np.abs(cosines).mean()), float(np.mean(~positive)), cosines)
    x, y = distance[positive], np.log(cosines[positive])
    slope = ((x - x.mean()) @ y) / ((x - x.mean()) @ (x - x.mean()))
    offset = y.mean() - slope * x.mean()
    fitted = np.exp(offset + slope * distance)
    error = float(np.abs(cosines - fitted).mean())
    return Similarity(float(np.exp(offset)), float(-slope), error, float(np.mean(~positive)), cosines)
