r"""Many small systems in one compiled call: histories of clustering for tokens that start anywhere, each at its beta.

$$ F(t)=\frac{1}{n(n-1)}\#\{i\ne j:\langle x_i,x_j\rangle>0.999\},\qquad
   \frac{1}{n(n-1)}\sum_{i\ne j}\langle x_i,x_j\rangle,\qquad
   E_\beta=\frac1{2\beta n^2}\sum_{i,j}e^{\beta(\langle x_i,x_j\rangle-1)} . $$
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.dynamics import SA, USA
from sphereflow.evolution.solver import Stepping, solve
from sphereflow.observables import gram

_CLOSE = 0.999


@eqx.filter_jit
def histories(
    model: str,
    x0: Float[Array, "cells n d"],
    beta: Float[Array, "cells"],
    times: Float[Array, "T"],
    tol: Float[Array, ""],
) -> tuple[Float[Array, "cells T"], Float[Array, "cells T"], Float[Array, "cells T"]]:
    """Share of close pairs, mean overlap and energy at every time, for every cell."""
    stepping = Stepping(tol=tol, grid=None, solver="tsit5", max_steps=100_000)

    def one(start: Array, sharpness: Array) -> tuple[Array, Array, Array]:
        dynamics = (SA if model == "sa" else USA)(sharpness)
        products = gram(solve(dynamics, start, times, stepping).saved)
        n = start.shape[0]
        off = ~jnp.eye(n, dtype=bool)
        close = jnp.sum((products > _CLOSE) & off, axis=(1, 2)) / (n * (n - 1))
        mean = jnp.sum(jnp.where(off, products, 0.0), axis=(1, 2)) / (n * (n - 1))
        # The kernel at beta = 0 is constant and its energy has no finite limit.
        energy = jnp.mean(jnp.exp(sharpness * (products - 1)), axis=(1, 2)) / (2 * sharpness)
        return close, mean, energy

    return jax.vmap(one)(x0, beta)
