r"""The coefficients of any kernel: in closed form for the exponential, by quadrature for a function of one's own.

$$k(\cos t)=\sum_{k\ge0} g_k\cos kt,\quad g_k=\frac{2-\delta_{k0}}{\pi}\int_0^\pi k(\cos t)\cos kt\,dt,\qquad
  k(s)=\sum_l(2l+1)\lambda_lP_l(s),\quad \lambda_l=\frac12\int_{-1}^1 k(s)P_l(s)\,ds .$$

The kernel is sampled at equal angles and transformed (FFT), which gives the g; they serve the circle, and powers of the
inner product in any dimension. On S^2 they are turned into coefficients of Legendre polynomials, $\lambda_l$ from the
$g_k$ with k >= l alone, so that small ones stay as precise as they are small (those of a Gauss rule, a sum over nodes,
do not). There are at least four angles to half a wave of the highest mode kept. The error of truncation is then
measured: it is the largest difference, at these angles, of the kernel and its truncated series. All of this is done in
float64, and may be traced in beta.

How many modes a kernel needs at a known beta is found, and the error measured, on a dense grid of s in [-1, 1]: the
cosines of 65,537 equal angles (8,193 on S^2). A kernel with a kink needs more modes than that.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

from sphereflow.interaction.expansion import (
    circle_coefficients,
    circle_modes_bound,
    circle_tail,
    sphere_coefficients,
    sphere_degree,
    sphere_tail,
)
from sphereflow.kernels import EXPONENTIAL, Kernel

# Angles at least, for kernels with a feature that is narrower than their modes; and how many for half a wave.
_ANGLES, _PER_HALF_WAVE = 1024, 4
_FINE, _COARSER = 2**16, 8
# Most modes of a kernel of one's own: what the fine grid can tell.
MOST_OWN_MODES, MOST_OWN_DEGREE = _FINE // _PER_HALF_WAVE, 256
# Between nodes a wave of the length of the first one left out is above its values on them by 1/cos(pi/8) at most.
_BETWEEN = 1.09
# Values of a kernel are known to so many units of rounding of the largest.
_ROUNDING = 16
_EPS = float(np.finfo(np.float64).eps)


class Series(NamedTuple):
    """Coefficients of functions that are at most one; the measured error of truncation."""

    terms: Float[Array, " k"]
    missed: Float[Array, ""]


class Needed(NamedTuple):
    """The fewest modes for an error of a kernel, or for the least there is; the one reached, relative to the kernel."""

    modes: int
    reached: float


# --- the circle, and powers of the inner product ------------------------------------------------------------------


def circle_terms(kernel: Kernel, modes: int, beta: Float[Array, ""]) -> Float[Array, " k"]:
    r"""$g_0,\dots,g_K$."""
    if kernel == EXPONENTIAL:
        return double_all_but_first(circle_coefficients(modes, beta))
    return circle_series(kernel, modes, beta).terms.astype(beta.dtype)


def circle_missed(kernel: Kernel, modes: int, beta: Float[Array, "..."]) -> Float[Array, "..."]:
    """The error of the kernel with modes up to K."""
    if kernel == EXPONENTIAL:
        return circle_tail(modes, beta)
    return circle_series(kernel, modes, jax.lax.stop_gradient(beta)).missed.astype(beta.dtype)


def circle_series(kernel: Kernel, modes: int, beta: Float[Array, ""]) -> Series:
    """By the FFT of samples at equal angles."""
    spectrum = _cosines(_sampled(kernel, _angles(modes), beta))
    rest = jnp.where(jnp.arange(spectrum.shape[0]) > modes, spectrum, 0)
    return Series(spectrum[: modes + 1], _BETWEEN * jnp.max(jnp.abs(_at_angles(rest))))


def _angles(modes: int) -> np.ndarray:
    intervals = max(_ANGLES, _PER_HALF_WAVE * 2 ** int(np.ceil(np.log2(modes + 1))))
    return np.pi * np.arange(intervals + 1) / intervals


def double_all_but_first(x: Float[Array, " k"]) -> Float[Array, " k"]:
    """Modes k and -k together."""
    return jnp.where(jnp.arange(x.shape[0]) > 0, 2 * x, x)


def _sampled(kernel: Kernel, angles: np.ndarray, beta: Float[Array, ""] | float) -> Float[Array, " s"]:
    return kernel(jnp.asarray(np.cos(angles), float), beta)


def _cosines(values: Float[Array, " m"]) -> Float[Array, " m"]:
    """Coefficients of cos(k t) of a function given at t = 0, pi/M, ..., pi."""
    m = values.shape[0] - 1
    terms = jnp.fft.rfft(jnp.concatenate([values, values[-2:0:-1]])).real / m
    return terms.at[0].multiply(0.5).at[m].multiply(0.5)


def _at_angles(terms: Float[Array, " m"]) -> Float[Array, " m"]:
    """The inverse of `_cosines`."""
    m = terms.shape[0] - 1
    return jnp.fft.irfft(terms.at[0].multiply(2).at[m].multiply(2) * m, 2 * m)[: m + 1]


# --- the sphere S^2 -----------------------------------------------------------------------------------------------


def sphere_terms(kernel: Kernel, degree: int, beta: Float[Array, ""]) -> Float[Array, " l"]:
    r"""$\lambda_0,\dots,\lambda_L$."""
    if kernel == EXPONENTIAL:
        return sphere_coefficients(degree, beta)
    return (sphere_series(kernel, degree, beta).terms / (2 * np.arange(degree + 1) + 1)).astype(beta.dtype)


def sphere_missed(kernel: Kernel, degree: int, beta: Float[Array, ""]) -> Float[Array, ""]:
    """The error of the kernel with harmonics up to degree L."""
    if kernel == EXPONENTIAL:
        return sphere_tail(degree, beta)
    return sphere_series(kernel, degree, jax.lax.stop_gradient(beta)).missed.astype(beta.dtype)


def sphere_series(kernel: Kernel, degree: int, beta: Float[Array, ""]) -> Series:
    r"""$(2l+1)\lambda_l$, from the terms on the circle."""
    values = _sampled(kernel, _angles(degree), beta)
    terms = jnp.asarray(_to_legendre(degree)) @ _cosines(values)[: _few(degree)]
    series = terms @ jnp.asarray(_legendre(degree))
    return Series(terms, _BETWEEN * jnp.max(jnp.abs(values - series)))


def _few(degree: int) -> int:
    """Terms on the circle that are made use of; what lies beyond them shows in the error measured."""
    return _PER_HALF_WAVE * (degree + 1)


@lru_cache(maxsize=8)
def _legendre(degree: int) -> np.ndarray:
    """P_l at the angles, shape (l, angle)."""
    return np.polynomial.legendre.legvander(np.cos(_angles(degree)), degree).T


@lru_cache(maxsize=8)
def _to_legendre(degree: int) -> np.ndarray:
    r"""$T_k=\sum_lC_{lk}P_l$, zero unless k - l = 0, 2, ...: with $\Lambda(z)=\Gamma(z+\frac12)/\Gamma(z+1)$,

    $C_{00}=1$, $C_{ll}=\frac{\sqrt\pi}{2\Lambda(l)}$,
    $C_{lk}=-\frac{k(l+\frac12)}{(k+l+1)(k-l)}\Lambda(\frac{k-l-2}2)\Lambda(\frac{k+l-1}2)$ (Alpert and Rokhlin).
    """

    def ratio(z: np.ndarray) -> np.ndarray:
        return np.exp(scipy.special.gammaln(z + 0.5) - scipy.special.gammaln(z + 1))

    i, k = np.arange(degree + 1)[:, None], np.arange(_few(degree))[None]
    above = (k > i) & ((k - i) % 2 == 0)
    apart = np.where(above, k - i, 2)
    factor = -k * (i + 0.5) / ((k + i + 1) * apart)
    table = np.where(above, factor * ratio(apart / 2 - 1) * ratio((np.maximum(k, 1) + i - 1) / 2), 0)
    diagonal = np.arange(degree + 1)
    table[diagonal, diagonal] = np.where(diagonal > 0, np.sqrt(np.pi) / (2 * ratio(diagonal)), 1)
    return table


# --- how many are needed ------------------------------------------------------------------------------------------


class Samples(NamedTuple):
    """A kernel at a known beta on the fine grid of angles, and its terms up to the most that may be kept."""

    values: np.ndarray
    cosines: np.ndarray
    legendre: np.ndarray

    @property
    def largest(self) -> float:
        """The largest |k| for inner products from -1 to 1; not finite where the kernel is not."""
        return float(np.max(np.abs(self.values)))

    def missed(self, modes: int, on_sphere: bool) -> float:
        """The largest error of the truncated series on the fine grid, relative to the largest value."""
        if on_sphere:
            series = np.polynomial.legendre.legval(np.cos(_fine_angles()[::_COARSER]), self.legendre[: modes + 1])
            error = self.values[::_COARSER] - series
        else:
            kept = np.where(np.arange(_FINE + 1) <= modes, self.cosines, 0) * np.where(_ends(), _FINE * 2, _FINE)
            error = self.values - np.fft.irfft(kept, 2 * _FINE)[: _FINE + 1]
        return float(np.max(np.abs(error))) / max(self.largest, 1e-300)


@lru_cache(maxsize=8)
def samples(kernel: Kernel, beta: float) -> Samples | None:
    """None if the kernel is not finite, or not known while a function around it is being traced."""
    try:
        with jax.ensure_compile_time_eval():
            values = np.asarray(_sampled(kernel, _fine_angles(), beta))
    except jax.errors.ConcretizationTypeError:
        return None
    if not np.isfinite(values).all():
        return None
    terms = np.fft.rfft(np.concatenate([values, values[-2:0:-1]])).real / np.where(_ends(), _FINE * 2, _FINE)
    return Samples(values, terms, _to_legendre(MOST_OWN_DEGREE) @ terms[: _few(MOST_OWN_DEGREE)])


def _fine_angles() -> np.ndarray:
    return np.pi * np.arange(_FINE + 1) / _FINE


def _ends() -> np.ndarray:
    """Marks the first and the last of the cosines, which stand for one mode and not for two."""
    return np.isin(np.arange(_FINE + 1), (0, _FINE))


def needed(kernel: Kernel, beta: float, error: float, *, on_sphere: bool) -> Needed:
    """Modes for an error of `error` times the largest value of the kernel; on S^2, or on the circle and for powers.

    The error reached is infinite for a kernel that is not finite, or not known yet.
    """
    if kernel == EXPONENTIAL:
        return Needed((sphere_degree if on_sphere else circle_modes_bound)(beta, error), error)
    sampled = samples(kernel, beta)
    if sampled is None:
        return Needed(0, float("inf"))
    low, high = -1, MOST_OWN_DEGREE if on_sphere else MOST_OWN_MODES
    # No mode mends rounding: of the largest value, and of inner products where the kernel is steep, which is what is
    # left with all modes. (A kernel with a kink leaves more, and it is for the tolerance to say whether too much.)
    allowed = max(error, _ROUNDING * _EPS, 4 * sampled.missed(high, on_sphere))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sampled.missed(middle, on_sphere) <= allowed else (middle, high)
    return Needed(high, sampled.missed(high, on_sphere))
