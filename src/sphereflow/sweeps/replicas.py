r"""Many small systems in one compiled call: histories of clustering for tokens that start anywhere, each at its beta.

$$ F(t)=\frac{1}{n(n-1)}\#\{i\ne j:\langle x_i,x_j\rangle>0.999\},\qquad
   \frac{1}{n(n-1)}\sum_{i\ne j}\langle x_i,x_j\rangle,\qquad E_\beta(x(t)) . $$
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sphereflow.dynamics import SA, USA
from sphereflow.observables import gram
from sphereflow.solving import FORWARD, SOLVERS, solve

_CLOSE = 0.999
_MOST_STEPS = 100_000


@eqx.filter_jit
def histories(
    model: str,
    x0: Float[Array, "cells n d"],
    beta: Float[Array, " cells"],
    times: Float[Array, " T"],
    tol: Float[Array, " cells"],
    max_steps: int = _MOST_STEPS,
) -> tuple[Float[Array, "cells T"], Float[Array, "cells T"], Float[Array, "cells T"], Bool[Array, " cells"]]:
    """Share of close pairs, mean overlap and energy at every time, for every cell, and whether its solve failed.

    A cell that failed, because the steps ran out or a number was not finite, has no values at any time.
    """

    def one(start: Array, sharpness: Array, tolerance: Array) -> tuple[Array, Array, Array, Array]:
        dynamics = (SA if model == "sa" else USA)(sharpness)
        method = SOLVERS["tsit5"][0]
        frames = solve(dynamics, start, times, tol=tolerance, solver=method, adjoint=FORWARD, max_steps=max_steps)
        products = gram(frames.xs)
        n = start.shape[0]
        off = ~jnp.eye(n, dtype=bool)
        close = jnp.sum((products > _CLOSE) & off, axis=(1, 2)) / (n * (n - 1))
        mean = jnp.sum(jnp.where(off, products, 0.0), axis=(1, 2)) / (n * (n - 1))
        energy = jax.vmap(dynamics.energy)(frames.xs)
        failed = frames.hit_limit | ~jnp.isfinite(frames.xs).all()
        close, mean, energy = (jnp.where(failed, jnp.nan, part) for part in (close, mean, energy))
        return close, mean, energy, failed

    return jax.vmap(one)(x0, beta, tol)
