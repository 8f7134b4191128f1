r"""Activations with the primitives that make a perceptron a gradient: $\varphi' = 2\sigma$.

| activation | $\sigma(s)$ | $\varphi(s)$ |
|---|---|---|
| relu | $s_+$ | $s_+^2$ |
| leaky_relu | $s$ or $cs$ | $s^2$ or $cs^2$ |
| linear | $s$ | $s^2$ |
| gelu | $s\Phi(s)$ | $(s^2-1)\Phi(s) + s f(s)$ |
| tanh | $\tanh s$ | $2\log\cosh s$ |
| softplus | $\log(1+e^s)$ | $-2\,\mathrm{Li}_2(-e^s)$ |
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import spence
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float

from sphereflow.errors import one_of

LEAK = 0.01
# Slopes left and right of zero, where an activation has a kink; on either side it is linear.
_SLOPES: dict[str, tuple[float, float]] = {"relu": (0.0, 1.0), "leaky_relu": (LEAK, 1.0)}


def _leaky(s: Array) -> Array:
    return jnp.where(s > 0, s, LEAK * s)


def _leaky_primitive(s: Array) -> Array:
    return jnp.where(s > 0, s, LEAK * s) * s


def _gelu(s: Array) -> Array:
    return s * norm.cdf(s)


def _gelu_primitive(s: Array) -> Array:
    return (s**2 - 1) * norm.cdf(s) + s * norm.pdf(s)


def _log_cosh(s: Array) -> Array:
    return jnp.logaddexp(s, -s) - jnp.log(2.0)


@jax.custom_jvp
def _softplus_primitive(s: Array) -> Array:
    # Li2(-e^s) = spence(1 + e^s); for s > 0 the inversion formula keeps the argument of spence in [1, 2].
    small = -jnp.abs(s)
    dilog = spence(1 + jnp.exp(small))
    return -2 * jnp.where(s > 0, -(jnp.pi**2) / 6 - s**2 / 2 - dilog, dilog)


@_softplus_primitive.defjvp
def _softplus_primitive_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    # The dilogarithm has no derivative rule of its own; here the derivative is known, it is twice the activation.
    (s,), (ds,) = primals, tangents
    return _softplus_primitive(s), 2 * jax.nn.softplus(s) * ds


_TABLE: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "relu": (jax.nn.relu, lambda s: jax.nn.relu(s) ** 2),
    "leaky_relu": (_leaky, _leaky_primitive),
    "linear": (lambda s: s, lambda s: s**2),
    "gelu": (_gelu, _gelu_primitive),
    "tanh": (jnp.tanh, lambda s: 2 * _log_cosh(s)),
    "softplus": (jax.nn.softplus, _softplus_primitive),
}
ACTIVATIONS: tuple[str, ...] = tuple(_TABLE)


def activation(name: str, s: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\sigma(s)$ by name."""
    return _TABLE[one_of("activation", name, ACTIVATIONS)][0](s)


def kink(name: str) -> float:
    r"""The jump of $\sigma'$ at zero, 0 for smooth activations."""
    left, right = _SLOPES.get(one_of("activation", name, ACTIVATIONS), (0.0, 0.0))
    return right - left


def continued(name: str, s: Float[Array, "..."], right: Bool[Array, "..."]) -> Float[Array, "..."]:
    r"""The branch of $\sigma$ right or left of its kink, continued smoothly to the other side."""
    below, above = _SLOPES[name]
    return jnp.where(right, above * s, below * s)


def primitive(name: str, s: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\varphi(s)$ with $\varphi' = 2\sigma$, by name."""
    return _TABLE[one_of("activation", name, ACTIVATIONS)][1](s)


def slope(name: str, s: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\sigma'(s)$ by name; at a kink the value from the left."""
    sigma = _TABLE[one_of("activation", name, ACTIVATIONS)][0]
    return jax.jvp(sigma, (s,), (jnp.ones_like(s),))[1]
