r"""Logarithms of Bessel functions of any size, and the means of the exponential kernel on the sphere.

$$\log\big(e^{-z}I_\nu(z)\big),\qquad \Lambda_l=\int e^{\beta(\langle x,y\rangle-1)}Z_l(y)\,dy
  =\Gamma(\tfrac d2)\big(\tfrac2\beta\big)^{d/2-1}e^{-\beta}I_{l+d/2-1}(\beta).$$
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float

from sphereflow.shapes import ArrayLike

# The library's function is exact to rounding below this order and argument, unless it underflows; from the order 60 on
# Debye's expansion errs by 2e-11 at most, where it is needed by 1e-13.
_LARGE, _SMALLEST = 1e8, 1e-290
_UNIFORM_FROM = 60.0


def log_ive(order: ArrayLike, z: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""$\log(e^{-z}I_\nu(z))$ for $\nu\ge0$, $z>0$: the library's function, or expansions where it gives up.

    For large orders Debye's, for huge arguments two terms of Hankel's:

    $$I_\nu(\nu x)\simeq\frac{e^{\nu\eta}}{\sqrt{2\pi\nu}(1+x^2)^{1/4}}\sum_k\frac{u_k(p)}{\nu^k},\quad
      p=\frac1{\sqrt{1+x^2}},\quad \eta=\frac1p+\ln\frac x{1+1/p}.$$
    """
    shape = np.broadcast_shapes(np.shape(order), np.shape(z))
    order, z = (np.broadcast_to(np.asarray(a, dtype=float), shape or (1,)) for a in (order, z))
    served = (order < _LARGE) & (z < _LARGE)
    value = scipy.special.ive(np.where(served, order, 0.0), np.where(served, z, 1.0))
    with np.errstate(divide="ignore"):  # an argument so small that the function is 0
        result = np.log(value)
    far = (value <= _SMALLEST) | ~served
    if far.any():
        large = np.where(served, 1.0, z)
        hankel = -np.log(2 * np.pi * large) / 2 - (4 * order**2 - 1) / (8 * large)
        debye = _debye(np.maximum(order, _UNIFORM_FROM), z)
        result = np.where(far & (order >= _UNIFORM_FROM), debye, np.where(served, result, hankel))
    return result.reshape(shape)


def _debye(order: np.ndarray, z: np.ndarray) -> np.ndarray:
    x = z / order
    root = np.hypot(1.0, x)
    p = 1 / root
    q = p * p
    series = (
        1
        + p * (3 - 5 * q) / (24 * order)
        + q * (81 - 462 * q + 385 * q**2) / (1152 * order**2)
        + p * q * (30375 - 369603 * q + 765765 * q**2 - 425425 * q**3) / (414720 * order**3)
        + q**2
        * (4465125 - 94121676 * q + 349922430 * q**2 - 446185740 * q**3 + 185910725 * q**4)
        / (39813120 * order**4)
    )
    exponent = order * (1 / (root + x) + np.log(x / (1 + root)))  # eta - x, without its cancellation
    return exponent - np.log(2 * np.pi * order * root) / 2 + np.log(series)


def funk_hecke(d: int, beta: float, degree: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""$\Lambda_l$: what the peak kernel $e^{\beta(\langle x,y\rangle-1)}$ does to harmonics of degree l on S^{d-1}."""
    half = d / 2
    front = scipy.special.gammaln(half) + (half - 1) * (np.log(2) - np.log(beta))
    return np.asarray(np.exp(front + log_ive(np.asarray(degree) + half - 1, beta)))
