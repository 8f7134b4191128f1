"""Reasons to stop a run before its final time: functions of the tokens that cross zero."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.observables import gaps, order_parameter


class AllClose(eqx.Module):
    r"""Met when $1-\langle x_i,x_j\rangle \le \delta$ for all pairs: everything is one cluster."""

    delta: Float[Array, ""]

    def __init__(self, delta: float = 1e-3):
        self.delta = jnp.asarray(delta, dtype=float)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        return jnp.log(jnp.max(gaps(x)) / self.delta)


class Aligned(eqx.Module):
    """Met when the order parameter |mean of the tokens| passes a level."""

    level: Float[Array, ""]

    def __init__(self, level: float = 0.99):
        self.level = jnp.asarray(level, dtype=float)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        return order_parameter(x) - self.level
