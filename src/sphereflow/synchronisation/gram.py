r"""The inner products of several tokens under one field: a Markov process of its own.

$$dR_{ij}=D(R_{ij})\,dt+dM_{ij},\qquad
  \frac{d\langle M_{ij},M_{kl}\rangle}{dt}=\kappa(R_{ik})c^{ji}_{lk}+\kappa(R_{il})c^{ji}_{kl}
  +\kappa(R_{jk})c^{ij}_{lk}+\kappa(R_{jl})c^{ij}_{kl},$$

$c^{ji}_{lk}=\langle x_j-R_{ij}x_i,\,x_l-R_{kl}x_k\rangle$. No vectors are needed, whatever the dimension.
"""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.compilation import compiled
from sphereflow.numerics.overlaps import overlap_drift
from sphereflow.synchronisation.covariance import Covariance
from sphereflow.synchronisation.random_fields import normals

_JITTER = 1e-9


def variance_rate(law: Covariance, gram: Float[Array, "r n n"]) -> Float[Array, "r p p"]:
    """The covariance rate of the overlaps (i, j), i < j, in lexicographic order."""
    i, j = (np.array(side) for side in zip(*combinations(range(gram.shape[-1]), 2), strict=True))
    kappa = jnp.asarray(law(gram))

    def entries(table: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
        return table[:, rows[:, None], columns[None, :]]

    def product(a: np.ndarray, b: np.ndarray, c: np.ndarray, e: np.ndarray) -> Array:
        # <x_a - R_ab x_b, x_c - R_ce x_e>, first pair along rows, second along columns
        ab, ce = gram[:, a, b][:, :, None], gram[:, c, e][:, None, :]
        return entries(gram, a, c) - ce * entries(gram, a, e) - ab * entries(gram, b, c) + ab * ce * entries(gram, b, e)

    return (
        entries(kappa, i, i) * product(j, i, j, i)
        + entries(kappa, i, j) * product(j, i, i, j)
        + entries(kappa, j, i) * product(i, j, j, i)
        + entries(kappa, j, j) * product(i, j, i, j)
    )


@compiled
def run_gram(
    law: Covariance,
    overlaps: Float[Array, " p"],
    key: Array,
    step: Float[Array, ""] | float,
    *,
    d: int,
    n: int,
    repeats: int,
    steps: int,
) -> Float[Array, "repeats p"]:
    """Overlaps of n tokens after `steps` Euler steps from the given ones, clipped to [-1, 1]."""
    i, j = (np.array(side) for side in zip(*combinations(range(n), 2), strict=True))

    def gram_of(r: Array) -> Array:
        upper = jnp.zeros((repeats, n, n)).at[:, i, j].set(r)
        return upper + jnp.swapaxes(upper, 1, 2) + jnp.eye(n)

    def euler(r: Array, count: Array) -> tuple[Array, None]:
        drift = overlap_drift(r, law(r), law.at_one, d)
        # A little noise keeps the root where tokens have met; rows that it cannot save stand still for this step.
        root = jnp.nan_to_num(jnp.linalg.cholesky(variance_rate(law, gram_of(r)) + _JITTER * jnp.eye(len(i))))
        noise = jnp.sum(root * normals(jax.random.fold_in(key, count), r.shape)[:, None, :], axis=-1)
        return jnp.clip(r + step * drift + jnp.sqrt(step) * noise, -1, 1), None

    start = jnp.broadcast_to(overlaps, (repeats, len(i)))
    return jax.lax.scan(euler, start, jnp.arange(steps))[0]
