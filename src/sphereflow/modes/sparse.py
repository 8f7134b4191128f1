r"""Modes where samples are sparse: a Poisson process of intensity x per bandwidth, smoothed by a unit Gaussian.

$$f(x)=x-2x^2+0.802\,x^3+O(x^4),\qquad f(\infty)=\frac{\sqrt{3/2}}{2\pi}=0.194924\ \text{modes per bandwidth}:$$

two samples merge into one mode when they are not farther apart than two bandwidths; many samples make a Gaussian field.
In between f is known by simulation (standard error at most 5e-5), interpolated monotonically.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.interpolate import PchipInterpolator

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.modes.find import find_modes
from sphereflow.modes.moments import Values
from sphereflow.reading import real_array
from sphereflow.seeds import Seed, rng_from

DENSE_RATE = math.sqrt(1.5) / (2 * math.pi)
_SERIES_BELOW, _CUBIC = 0.05, 0.802
INTENSITIES = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.70, 0.85, 1.0, 1.5, 2.0)
RATES = (
    0.045102, 0.081216, 0.109487, 0.131298, 0.147928, 0.160419, 0.176620, 0.185227, 0.189705, 0.191891, 0.193625,
    0.194130, 0.194508, 0.194754,
)  # fmt: skip
_BETWEEN = PchipInterpolator(INTENSITIES, RATES)
_MARGIN = 20.0
_BATCH = 1_000_000


def series(x: Values) -> Values:
    """x - 2 x^2 + 0.802 x^3, for small x."""
    return x - 2 * x**2 + _CUBIC * x**3


def sparse_rate(x: Values) -> Values:
    """f(x): modes per bandwidth at x samples per bandwidth."""
    x = real_array("x", x, finite=False)
    if (x < 0).any():
        raise SphereflowError("x must be numbers of samples per bandwidth, at least 0.")
    inside = _BETWEEN(np.clip(x, INTENSITIES[0], INTENSITIES[-1]))
    return np.where(x < _SERIES_BELOW, series(np.minimum(x, 1.0)), np.where(x > INTENSITIES[-1], DENSE_RATE, inside))


def simulated_rate(x: float, bandwidths: float, seed: Seed = 0) -> Estimate:
    """f(x), by counting modes of a Poisson process on a line of this many bandwidths."""
    x = real_number("x", x, above=0)
    blocks = max(whole_number("bandwidths", int(bandwidths), least=2000) // 1000, 2)
    rng = rng_from(seed)
    at_once = max(int(_BATCH / (1000 * x)), 2)
    counts: list[np.ndarray] = []
    for first in range(0, blocks, at_once):
        length = 1000.0 * min(at_once, blocks - first)
        # Samples beyond both ends make the ends like the inside.
        samples = rng.uniform(-_MARGIN, length + _MARGIN, max(rng.poisson(x * (length + 2 * _MARGIN)), 1))
        modes = find_modes(samples, 1.0).positions
        inside = modes[(modes >= 0) & (modes < length)]
        counts.append(np.bincount((inside / 1000).astype(int), minlength=round(length / 1000)))
    every = np.concatenate(counts) / 1000
    return mean(every)
