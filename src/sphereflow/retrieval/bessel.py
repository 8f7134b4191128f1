r"""The special functions of the theory: growth rates of waves, the graphon of ALiBi, and psi.

$$a_n=n^2I_n(\beta),\qquad
  k_\lambda(\sigma,\sigma')=\frac{\lambda e^{-\lambda(\sigma-\sigma')}}{1-e^{-\lambda\sigma}}\,1_{\sigma'<\sigma},\qquad
  \psi_c(y)=\sum_{k\ge0}\frac{c^{k+1}y^k}{k!\,(k+1)!}=\sqrt{c/y}\;I_1(2\sqrt{cy}).$$

Everything is computed through logarithms of positive quantities, so that sources as early as $\sigma_0=10^{-300}$ and
inverse temperatures of hundreds are allowed.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from sphereflow.errors import real_number, whole_number
from sphereflow.numerics.bessel import funk_hecke, log_ive
from sphereflow.shapes import ArrayLike

# e^beta enters rates and forces as a plain number.
MOST_BETA = 600.0

# The terms left out of a sum over modes are below this fraction of the whole.
_NEGLIGIBLE = 1e-17

# Below this, two terms of a series in the slope are exact, also where the slope times a position underflows.
_TINY = 1e-8

_SERIES_TERMS = 14  # enough for c y < 1/4: the last term is 1e-28 of the first


def mode_count(beta: float) -> int:
    """How many Fourier modes carry the kernel at this inverse temperature, at least 20."""
    return max(20, int(np.ceil(np.sqrt(2 * beta * np.log(1 / _NEGLIGIBLE)))))


def growth_rates(beta: float, count: int | None = None) -> np.ndarray:
    r"""$a_n=n^2I_n(\beta)$ for n = 1, 2, ...: how fast a wave of n crests grows around the uniform state."""
    beta = real_number("beta", beta, least=1e-300, most=MOST_BETA)
    return sphere_growth_rates(beta, 2, mode_count(beta) if count is None else count)


def sphere_growth_rates(beta: float, d: int, count: int) -> np.ndarray:
    r"""$l(l+d-2)\Lambda_l$ for l = 1, 2, ... on $S^{d-1}$, the same rates in higher dimension.

    $\Lambda_l=\Gamma(\tfrac d2)(2/\beta)^{d/2-1}I_{l+d/2-1}(\beta)$ belongs to the harmonics of degree l.
    """
    degree = np.arange(1, whole_number("count", count) + 1)
    d = whole_number("d", d, least=2)
    beta = real_number("beta", beta, above=0, most=700)
    return degree * (degree + d - 2) * np.exp(beta) * funk_hecke(d, beta, degree)


def softmax_slowdown(beta: float) -> float:
    r"""$\beta I_0(\beta)$: among uniform tokens softmax takes so much more time to the same retrieval profile.

    Among uniform tokens the softmax denominator is $I_0(\beta)$ up to fluctuations of order $N^{-1/2}$, which are
    independent of the source, and its force lacks the factor beta. All rates are divided by the same number,
    $a_n=n^2I_n(\beta)/\beta I_0(\beta)$; none exceeds 2/e when beta is large, so that recency is not lost faster and
    faster. `profile(beta, slope, t / softmax_slowdown(beta))` is the profile, and times of a decoder without softmax,
    `critical_time` and `theorem_time`, are multiplied.
    """
    beta = real_number("beta", beta, above=0, most=MOST_BETA)
    return float(beta * np.exp(beta + log_ive(0, beta)))


def graphon(sigma: ArrayLike, sigma0: ArrayLike, slope: float) -> np.ndarray:
    r"""$k_\lambda(\sigma,\sigma_0)$, the attention that position sigma pays to sigma0; zero if that is later."""
    sigma, sigma0 = np.asarray(sigma, float), np.asarray(sigma0, float)
    gap = np.maximum(sigma - sigma0, 0.0)
    return np.where(sigma0 <= sigma, hazard(sigma, slope) * np.exp(-slope * gap), 0.0)


def hazard(sigma: ArrayLike, slope: float) -> np.ndarray:
    r"""$\lambda/(1-e^{-\lambda\sigma})$, which is $1/\sigma$ without slope."""
    sigma = np.asarray(sigma, float)
    x = slope * sigma
    tiny = np.abs(x) < _TINY
    return np.asarray(np.where(tiny, (1 + x / 2) / sigma, slope / -np.expm1(-np.where(tiny, 1.0, x))))


def separation(sigma: ArrayLike, sigma0: ArrayLike, slope: float) -> np.ndarray:
    r"""$Y=\log\frac{e^{\lambda\sigma}-1}{e^{\lambda\sigma_0}-1}$, the distance in which attention is a convolution."""
    return np.asarray(np.maximum(log_mass(sigma, slope) - log_mass(sigma0, slope), 0.0))


def log_mass(sigma: ArrayLike, slope: float) -> np.ndarray:
    r"""$y=\log\frac{e^{\lambda\sigma}-1}\lambda$, for which $k_\lambda(\sigma,\sigma')\,d\sigma'=e^{-(y-y')}\,dy'$."""
    sigma = np.asarray(sigma, float)
    if slope == 0:
        return np.asarray(np.log(sigma))
    x = slope * sigma
    tiny, small = np.abs(x) < _TINY, x < 0.5  # slopes below zero included
    direct = np.log(np.abs(np.expm1(np.where(small & ~tiny, x, 0.5))))
    large = np.where(small, 0.5, x)
    away = np.where(small, direct, large + np.log1p(-np.exp(-large))) - np.log(abs(slope))
    return np.asarray(np.where(tiny, np.log(sigma) + x / 2, away))


def position(y: ArrayLike, slope: float) -> np.ndarray:
    r"""The sigma at which `log_mass` is y: $\sigma=\lambda^{-1}\log(1+\lambda e^y)$."""
    mass = np.exp(np.asarray(y, float))
    x = slope * mass
    tiny = np.abs(x) < _TINY
    return np.asarray(np.where(tiny, mass * (1 - x / 2), np.log1p(np.where(tiny, 1.0, x)) / (slope or 1.0)))


def log_psi(c: ArrayLike, y: ArrayLike, order: int = 1) -> np.ndarray:
    r"""$\log\sum_k\frac{c^{k+m}y^k}{k!(k+m)!}=\log\big[(c/y)^{m/2}I_m(2\sqrt{cy})\big]$ for the order m.

    m = 1 is psi, m = 2 its first derivative in y, and so on.
    """
    c, y = np.broadcast_arrays(np.asarray(c, float), np.asarray(y, float))
    product = c * y
    series = 4 * product < 1
    k = np.arange(_SERIES_TERMS)
    terms = np.exp(-special.gammaln(k + 1) - special.gammaln(k + order + 1))
    small = np.where(series, product, 0.0)
    with np.errstate(divide="ignore"):
        log_c = np.log(c)
    near = order * log_c + np.log(np.polynomial.polynomial.polyval(small, terms))
    root = np.asarray(2 * np.sqrt(np.where(series, 1.0, product)))
    far = order / 2 * (log_c - np.log(np.where(series, 1.0, y))) + root + log_ive(order, root)
    return np.where(series, near, far)


def psi(c: ArrayLike, y: ArrayLike) -> np.ndarray:
    r"""$\psi_c(y)$."""
    return np.asarray(np.exp(log_psi(c, y)))
