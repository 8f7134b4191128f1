r"""How well heads obey the three assumptions of the theory.

Norms: $|v_i|\approx r$ for i >= 1 and a compressed sink $|v_0|=\kappa r$. Similarity:
$\cos(v_i,v_{i+k})\approx c\,e^{-\lambda k}$. WeightProfile of the last query:
$\alpha_i\approx a_01_{i=0}+a_p(1+\epsilon\cos(\omega i+\phi))+a_re^{-(t-i)/\ell}$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

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


@dataclass(frozen=True)
class WeightProfile:
    """Fit of the weights of the last query: masses of sink, plateau and recency, its length, and the oscillation."""

    sink: float
    plateau: float
    recency: float
    length: float
    oscillation: float
    frequency: float
    error: float


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


def fit_profile(weights: Float[np.ndarray, " L"]) -> WeightProfile:
    """Non-negative least squares on sink, plateau and recency; the length of the recency by search.

    The oscillation is the largest Fourier component of what is left on the plateau, relative to its height.
    """
    alpha = np.asarray(weights, dtype=float)
    t = len(alpha) - 1
    atoms = np.zeros((t + 1, 3))
    atoms[0, 0] = 1
    atoms[1:, 1] = 1
    best: tuple[float, np.ndarray, float] | None = None
    for length in np.geomspace(1.0, max(t / 3, 2.0), 25):
        atoms[1:, 2] = np.exp(-(t - np.arange(1, t + 1)) / length)
        masses, residual = nnls(atoms, alpha)
        if best is None or residual < best[0]:
            best = (float(residual), masses, float(length))
    assert best is not None
    _, masses, length = best
    atoms[1:, 2] = np.exp(-(t - np.arange(1, t + 1)) / length)
    left = (alpha - atoms @ masses)[1:]
    waves = np.abs(np.fft.rfft(left)) * 2 / len(left)
    k = 1 + int(np.argmax(waves[1:])) if len(waves) > 1 else 0
    oscillation = float(waves[k] / masses[1]) if masses[1] > 0 else 0.0
    total = masses * atoms.sum(axis=0)
    return WeightProfile(
        float(total[0]),
        float(total[1]),
        float(total[2]),
        length,
        oscillation,
        2 * np.pi * k / len(left),
        float(np.abs(alpha - atoms @ masses).sum()),
    )
