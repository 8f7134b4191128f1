r"""How much attention weights of random logits overlap, when all tokens have the same inner product gamma.

$$f(\gamma)=E\sum_k\pi_{ik}^2,\qquad g(\gamma)=E\sum_k\pi_{ik}\pi_{jk}\ (i\ne j),\qquad
  \pi_i=\mathrm{softmax}\big(s\sqrt{1-\gamma}\,z_i\big),$$

$z_i,z_j$ standard Gaussian vectors in R^n with componentwise correlation $\gamma$ and $s=\beta\sigma_A^2\sqrt d$: the
form for large d. At $s=\infty$ all weight is on the largest logit: $f=1$ and
$g=P(\text{same argmax})=n\iint\varphi_\gamma(a,b)\Phi_\gamma(a,b)^{n-1}da\,db$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special
from scipy.interpolate import BarycentricInterpolator
from scipy.stats import qmc

from sphereflow.errors import SphereflowError, real_number, whole_number

_NODES = 33
_MOST_NUMBERS = 2**17  # normals per node of the soft moments


class Moments(NamedTuple):
    """f and g as functions of gamma in [lowest, 1]."""

    f: Callable[[Float[np.ndarray, "..."] | float], Float[np.ndarray, "..."] | float]
    g: Callable[[Float[np.ndarray, "..."] | float], Float[np.ndarray, "..."] | float]


@lru_cache(maxsize=64)
def moments(n: int, s: float) -> Moments:
    """The functions f and g for n tokens; `s` may be 0 and infinite."""
    whole_number("n", n, least=2)
    if not math.isinf(s):
        real_number("s", s, least=0)
    if s == 0:
        flat = lambda gamma: np.full(np.shape(gamma), 1 / n)  # noqa: E731
        return Moments(flat, flat)
    # Chebyshev nodes in sqrt(1 - gamma), in which both functions are smooth.
    u = (1 - np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)) / 2
    hard = math.isinf(s)
    values = np.array([(1.0, _same_argmax(n, 1 - v * v)) if hard else sampled_moments(n, s, 1 - v * v) for v in u])
    curves = [BarycentricInterpolator(u, column) for column in values.T]

    def curve(which: int) -> Callable[[Float[np.ndarray, "..."] | float], Float[np.ndarray, "..."] | float]:
        return lambda gamma: np.asarray(curves[which](np.sqrt(1 - np.clip(gamma, 0, 1))))

    return Moments(curve(0), curve(1))


def sampled_moments(n: int, s: float, gamma: float) -> tuple[float, float]:
    """(f, g) by quasi-Monte-Carlo; the points are the same for every gamma, so both are smooth functions of it."""
    first, second = _normals(n)
    partner = gamma * first + np.sqrt(1 - gamma**2) * second
    size = s * np.sqrt(1 - gamma)
    one, other = (special.softmax(size * z, axis=1) for z in (first, partner))
    square = (np.sum(one**2, axis=1) + np.sum(other**2, axis=1)) / 2
    return float(square.mean()), float(np.sum(one * other, axis=1).mean())


@lru_cache(maxsize=4)
def _normals(n: int) -> tuple[np.ndarray, np.ndarray]:
    power = max(6, min(14, int(np.log2(_MOST_NUMBERS / n))))
    if 2 * n <= qmc.Sobol.MAXDIM:
        points = qmc.Sobol(2 * n, seed=np.random.default_rng(n)).random_base2(power)
    else:
        points = np.random.default_rng(n).random((2**power, 2 * n))
    z = special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    return z[:, :n], z[:, n:]


def same_argmax(n: int, gamma: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "..."]:
    r"""$g$ at $s=\infty$: the chance that two vectors of n normals with correlation gamma peak at the same place."""
    levels = np.asarray(gamma, dtype=float)
    if np.any(levels < -1e-12) or np.any(levels > 1):
        raise SphereflowError("the probability of a common argmax is computed for correlations from 0 to 1.")
    return np.reshape([_same_argmax(n, float(c)) for c in np.ravel(np.clip(levels, 0, 1))], levels.shape)


@lru_cache(maxsize=4096)
def _same_argmax(n: int, gamma: float) -> float:
    if gamma == 1.0:
        return 1.0
    if n == 2:
        return 0.5 + np.arcsin(gamma) / np.pi
    if gamma == 0.0:
        return 1 / n
    # In the half sum and the scaled difference of a and b the integrand is smooth for every gamma, and decays like a
    # Gaussian: the trapezoidal rule converges faster than any power of its step.
    # The power n - 1 makes it vary on the scale 1/sqrt(2 log n).
    h = 0.2 if n <= 1000 else 0.1
    c, e = np.arange(-8.5, 13.0, h) + h / 99, np.arange(-8.5, 8.5, h) + h / 77
    middle, apart = np.sqrt((1 + gamma) / 2) * c[:, None], np.sqrt((1 - gamma) / 2) * e
    weight = np.exp(-(c * c)[:, None] / 2) * np.exp(-e * e / 2)
    above = either_above(middle + apart, middle - apart, gamma)
    with np.errstate(divide="ignore"):
        survives = np.exp((n - 1) * np.log1p(-above))
    return float(n * np.sum(weight * survives) / np.sum(weight))


def either_above(
    h: Float[np.ndarray, "..."] | float, k: Float[np.ndarray, "..."] | float, rho: float
) -> Float[np.ndarray, "..."] | float:
    r"""$1-\Phi_\rho(h,k)$, the chance that Z > h or Z' > k, by Owen's T function, with its digits; h and k not zero."""
    spread = np.sqrt(1 - rho * rho)
    opposite = np.where(h * k < 0, 0.5, 0.0)
    own = special.owens_t(h, (k - rho * h) / (h * spread)) + special.owens_t(k, (h - rho * k) / (k * spread))
    return np.clip((special.ndtr(-h) + special.ndtr(-k)) / 2 + own + opposite, 0, 1)
