r"""What is watched along the depth of a random network.

Mean overlap $m=n^{-2}\sum_{ij}\langle x_i,x_j\rangle=|\bar x|^2$; effective rank $\exp(-\sum_ip_i\log p_i)$ of the Gram
spectrum $p=\lambda/n$; logarithms of gaps $1-\langle x_i,x_j\rangle=|x_i-x_j|^2/2$; the attention energy.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import real_number
from sphereflow.estimates import Estimate, mean
from sphereflow.observables import gram
from sphereflow.shapes import AnyArray


def pair_overlap(x: Float[AnyArray, "... n d"]) -> Float[Array, "..."]:
    """Mean of the inner products over pairs i != j."""
    n = x.shape[-2]
    centre = jnp.sum(jnp.mean(x, axis=-2) ** 2, axis=-1)
    return (n * centre - 1) / (n - 1)


def effective_rank(x: Float[AnyArray, "... n d"]) -> Float[Array, "..."]:
    """Exponential of the entropy of the spectrum of the Gram matrix over n: from 1 (one point) to min(n, d)."""
    p = jnp.clip(jnp.linalg.eigvalsh(gram(x)) / x.shape[-2], 0, 1)
    return jnp.exp(-jnp.sum(p * jnp.log(jnp.maximum(p, 1e-300)), axis=-1))


def mean_log_gap(x: Float[AnyArray, "... n d"]) -> Float[Array, "..."]:
    r"""Mean over pairs of $\log(1-\langle x_i,x_j\rangle)$, from differences of tokens."""
    n = x.shape[-2]
    i, j = np.triu_indices(n, k=1)
    squares = jnp.sum((x[..., i, :] - x[..., j, :]) ** 2, axis=-1)
    return jnp.mean(jnp.log(jnp.maximum(squares / 2, 1e-300)), axis=-1)


def first_passage(
    depths: Float[AnyArray, " S"], values: Float[AnyArray, "R S"], level: float
) -> tuple[Estimate, Float[np.ndarray, ""]]:
    """Mean depth at which a quantity first exceeds `level` (linear between saves), and the share that got there."""
    real_number("level", level)
    z, depth = np.asarray(values, dtype=float), np.asarray(depths, dtype=float)
    above = z >= level
    arrived = above.any(axis=1)
    if arrived.sum() < 2:
        return Estimate(np.asarray(np.nan), np.asarray(np.nan)), np.asarray(arrived.mean())
    first = above[arrived].argmax(axis=1)
    rows, before = np.flatnonzero(arrived), np.maximum(first - 1, 0)
    low, high = z[rows, before], z[rows, first]
    part = np.where(first > 0, (level - low) / np.where(high > low, high - low, 1.0), 1.0)
    return mean(depth[before] + part * (depth[first] - depth[before])), np.asarray(arrived.mean())
