r"""Activations of random layers, with exact Gaussian averages of pairs of their values.

$$\kappa(r)=E[\sigma(u)\sigma(v)],\qquad (u,v)=sR\,(\cos(\theta+\tfrac\varphi2),\cos(\theta-\tfrac\varphi2)),
  \qquad \cos\varphi=\mathrm{corr}(u,v),\ s^2=\mathrm{Var}.$$

In polar coordinates a kink or jump of $\sigma$ at 0 lies on rays, whatever the correlation: Gauss-Legendre rules on the
sectors between them are exact to rounding for every activation that is smooth on either side of 0, up to r = 1 and -1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics.activations import activation as perceptron_activation
from sphereflow.errors import SphereflowError, one_of
from sphereflow.numerics.quadrature import interval, panels

Function = Callable[[Array], Array]

_RADIUS = 9.5  # exp(-R^2/2) is 1e-20 there
_RADII, _ANGLES = 48, 24
_CHUNK = 1 << 15


def _constant(s: Array) -> Array:
    return jnp.ones_like(s)


def _second_hermite(s: Array) -> Array:
    return (s**2 - 1) / jnp.sqrt(2.0)


def _elu(s: Array) -> Array:
    return jnp.where(s > 0, s, jnp.expm1(jnp.minimum(s, 0)))


_TABLE: dict[str, Function] = {
    "constant": _constant,
    **{name: partial(perceptron_activation, name) for name in ("linear", "relu", "leaky_relu", "gelu", "tanh")},
    "softplus": partial(perceptron_activation, "softplus"),
    "erf": jax.scipy.special.erf,
    "silu": jax.nn.silu,
    "elu": _elu,
    "sigmoid": jax.nn.sigmoid,
    "cos": jnp.cos,
    "hermite2": _second_hermite,
    "sign": jnp.sign,
}
ACTIVATIONS: tuple[str, ...] = tuple(_TABLE)


def resolve(activation: str | Function) -> Function:
    """The function of a name of the table, or the function given."""
    if callable(activation):
        return activation
    return _TABLE[one_of("activation", activation, ACTIVATIONS)]


def evaluate(activation: str | Function, s: Float[np.ndarray, "..."]) -> tuple[np.ndarray, np.ndarray]:
    r"""$\sigma(s)$ and $\sigma'(s)$ as NumPy arrays, the derivative by automatic differentiation."""
    program = _compiled(resolve(activation))
    flat = np.ravel(s)
    pieces = max(1, -(-flat.size // _CHUNK))
    padded = np.zeros(pieces * _CHUNK)  # one shape for all requests, compiled once per activation
    padded[: flat.size] = flat
    both = [program(piece) for piece in padded.reshape(pieces, _CHUNK)]
    value, derivative = (np.concatenate([np.asarray(pair[k]) for pair in both])[: flat.size] for k in (0, 1))
    return value.reshape(s.shape), derivative.reshape(s.shape)


@cache
def _compiled(sigma: Function) -> Callable[[np.ndarray], tuple[Array, Array]]:
    # A quadrature evaluates once: the compiler's effort would cost ten times what it saves.
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(lambda s: jax.jvp(sigma, (s,), (jnp.ones_like(s),)), compiler_options=options)


def is_continuous(activation: str | Function) -> bool:
    """Whether there is no jump at 0; with one, two tokens see fields that differ by the root of their distance."""
    below, above = evaluate(activation, np.array([-1e-9, 1e-9]))[0]
    return bool(abs(above - below) < 1e-6)


def kappa(activation: str | Function, r: Float[np.ndarray, "..."], *, bias: float = 0.0) -> Float[np.ndarray, "..."]:
    r"""$E[\sigma(u)\sigma(v)]$, variances $1+s_c^2$ and covariance $r+s_c^2$, by quadrature in polar coordinates."""
    r = np.asarray(r, dtype=float)
    if np.any(np.abs(r) > 1) or not np.all(np.isfinite(r)):
        raise SphereflowError("overlaps must lie between -1 and 1.")
    return _average(activation, _angle(np.asarray(1 - r), bias), bias, lambda a, b: a * b)


def half_square_difference(
    activation: str | Function, gap: Float[np.ndarray, "..."], *, bias: float = 0.0
) -> Float[np.ndarray, "..."]:
    r"""$\kappa(1)-\kappa(1-\varepsilon)=\tfrac12E(\sigma(u)-\sigma(v))^2$ from the gap, without its cancellation."""
    return _average(activation, _angle(np.asarray(gap, dtype=float), bias), bias, lambda a, b: (a - b) ** 2 / 2)


def slope_at_one(activation: str | Function, *, bias: float = 0.0) -> float:
    r"""$\kappa'(1)=E\,\sigma'(u)^2$, infinite for a jump; $\sigma'$ by automatic differentiation."""
    if not is_continuous(activation):
        return float("inf")
    return float(_average(activation, np.zeros(()), bias, lambda a, b: a * b, of_derivative=True))


def _angle(gap: np.ndarray, bias: float) -> np.ndarray:
    # 1 - corr = gap/(1+s_c^2) and 1 + corr = (2 - gap + 2 s_c^2)/(1+s_c^2): the angle from both keeps its digits.
    return np.asarray(2 * np.arctan2(np.sqrt(gap), np.sqrt(2 - gap + 2 * bias**2)))


def _average(
    activation: str | Function,
    angle: np.ndarray,
    bias: float,
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    of_derivative: bool = False,
) -> np.ndarray:
    """Mean of a symmetric function of sigma(u) and sigma(v): half the plane, in three sectors, counted twice."""
    radius, weight = interval(0, _RADIUS, _RADII)
    radial = weight * radius * np.exp(-(radius**2) / 2)
    theta, weight = panels(
        np.stack([0 * angle, (np.pi - angle) / 2, (np.pi + angle) / 2, np.pi + 0 * angle], -1), _ANGLES
    )
    phi = angle[..., None, None]
    spread = np.sqrt(1 + bias**2) * radius
    values = [
        evaluate(activation, np.cos(theta + turn)[..., None] * spread)[of_derivative] for turn in (phi / 2, -phi / 2)
    ]
    angular = np.sum(combine(*values) * radial, axis=-1)
    return np.asarray(np.sum(angular * weight, axis=(-2, -1)) / np.pi)
