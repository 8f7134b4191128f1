r"""The covariance of a random field that all tokens share.

$$E[\xi(dt,x)\,\xi(dt,y)^\top]=\big(\kappa(r)\,I_d+b\,y x^\top\big)dt,\qquad r=\langle x,y\rangle,\qquad
  \kappa(r)=\kappa(1)-(1-r)\,s(\varphi),\quad \cos\varphi=r.$$

What is stored is the slope $s(\varphi)=(\kappa(1)-\kappa(r))/(1-r)$ as a Chebyshev series in the angle. It is smooth
there even where $\kappa$ has the power 3/2 of ReLU at r = 1, and $s(0)=\kappa'(1)$: nothing cancels when tokens meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.shapes import AnyArray
from sphereflow.synchronisation.activations import (
    Function,
    half_square_difference,
    is_continuous,
    kappa,
    slope_at_one,
)

_NODES = 48
_TRIM = 1e-14


class Covariance(eqx.Module):
    r"""$\kappa$ through $\kappa(1)$, $\kappa'(1)$ and the slope; `b` is the size of the term $y x^\top$."""

    at_one: Float[Array, ""]
    slope_at_one: Float[Array, ""]
    series: Float[Array, " k"]
    b: Float[Array, ""]

    def slope(self, angle: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
        r"""$s(\varphi)=(\kappa(1)-\kappa(\cos\varphi))/(1-\cos\varphi)$, for NumPy or JAX arrays alike."""
        plain = isinstance(angle, np.ndarray)
        series: Any = np.asarray(self.series) if plain else self.series
        x = 2 * angle / np.pi - 1
        last, before = 0 * x, 0 * x
        for k in range(self.series.shape[0] - 1, 0, -1):  # Clenshaw's recurrence
            last, before = series[k] + 2 * x * last - before, last
        value = series[0] + x * last - before
        return np.asarray(value) if plain else value

    def __call__(self, r: Float[AnyArray, "..."]) -> Float[AnyArray, "..."]:
        r"""$\kappa(r)$."""
        xp: Any = np if isinstance(r, np.ndarray) else jnp
        r = xp.clip(r, -1.0, 1.0)
        angle = xp.asarray(2 * xp.arctan2(xp.sqrt(1 - r), xp.sqrt(1 + r)))
        one: Any = float(self.at_one) if xp is np else self.at_one
        return xp.asarray(one - (1 - r) * self.slope(angle))

    @property
    def ratio(self) -> float:
        r"""$q=\kappa'(1)/\kappa(1)=E\sigma'^2/E\sigma^2$, which decides everything near coalescence."""
        return float(self.slope_at_one) / float(self.at_one)

    @property
    def is_odd(self) -> bool:
        r"""Whether $\kappa(-1)=-\kappa(1)$: then antipodal pairs stay antipodal."""
        return abs(float(self(np.array(-1.0))) + float(self.at_one)) < 1e-9 * float(self.at_one)


@cache
def of_activation(activation: str | Function, *, scale: float = 1.0, bias: float = 0.0) -> Covariance:
    r"""$\kappa(r)=s_a^2E[\sigma(u)\sigma(v)]$ of a random layer with output scale $s_a$ and bias scale $s_c$."""
    real_number("scale", scale, above=0)
    real_number("bias", bias, least=0)
    if not is_continuous(activation):
        raise SphereflowError(
            "the activation jumps at 0: its kappa has an infinite slope at r=1 and its field no derivative; "
            "use a continuous activation, or the function kappa for its values."
        )
    square = scale**2
    return _sampled(
        square * float(kappa(activation, np.array(1.0), bias=bias)),
        square * slope_at_one(activation, bias=bias),
        lambda gap: square * half_square_difference(activation, gap, bias=bias) / gap,
    )


def of_powers(squares: Sequence[float]) -> Covariance:
    r"""$\kappa(r)=\sum_kc_k^2r^k$ from the squares of the Hermite coefficients of the activation."""
    c = np.array([real_number("a squared coefficient", square, least=0) for square in squares])
    if c.sum() == 0:
        raise SphereflowError("at least one squared coefficient must be positive.")
    # (1 - r^k)/(1 - r) = 1 + r + ... + r^(k-1), so the slope is a polynomial with the tail sums of c.
    tails = np.cumsum(c[::-1])[::-1][1:]
    return _sampled(c.sum(), tails.sum(), lambda gap: np.polynomial.polynomial.polyval(1 - gap, [*tails, 0.0]))


def of_quadratic_form(forcing: float) -> Covariance:
    r"""$\kappa(r)=r+\gamma^2$, b = 1: the field $Qx+\gamma w$ with $Q=(G+G^\top)/\sqrt2$."""
    plain = of_powers([real_number("forcing", forcing) ** 2, 1.0])
    return Covariance(plain.at_one, plain.slope_at_one, plain.series, jnp.ones(()))


def _sampled(at_one: float, slope_at_one: float, slope: Any) -> Covariance:
    # In x = 2 phi/pi - 1; the gap 1 - cos(phi) is written without its cancellation.
    series = np.polynomial.chebyshev.chebinterpolate(lambda x: slope(2 * np.sin(np.pi * (x + 1) / 4) ** 2), _NODES - 1)
    significant = np.flatnonzero(np.abs(series) > _TRIM * max(np.abs(series).max(), at_one))
    count = int(significant[-1]) + 1 if significant.size else 1
    return Covariance(jnp.asarray(at_one), jnp.asarray(slope_at_one), jnp.asarray(series[:count]), jnp.zeros(()))
