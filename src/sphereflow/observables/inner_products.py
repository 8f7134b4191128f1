r"""Inner products between tokens, and what is read off them.

Gaps $1-\langle x_i,x_j\rangle$ are computed as $|x_i-x_j|^2/2$, so that nearly equal tokens keep all their digits.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.shapes import AnyArray
from sphereflow.sphere import gap


def gram(x: Float[AnyArray, "... n d"]) -> Float[Array, "... n n"]:
    r"""$\langle x_i,x_j\rangle$ for all pairs."""
    return jnp.einsum("...id,...jd->...ij", x, x)


def gaps(x: Float[AnyArray, "... n d"]) -> Float[Array, "... n n"]:
    r"""$1-\langle x_i,x_j\rangle = |x_i-x_j|^2/2$ for all pairs, without cancellation."""
    return gap(x[..., :, None, :], x[..., None, :, :])


def overlaps(x: Float[AnyArray, "... n d"]) -> Float[Array, "... pairs"]:
    r"""$\langle x_i,x_j\rangle$ for i < j, as a vector."""
    n = x.shape[-2]
    i, j = np.triu_indices(n, k=1)
    return gram(x)[..., i, j]


def diameter(x: Float[AnyArray, "... n d"]) -> Float[Array, "..."]:
    r"""$\max_{ij}|x_i-x_j|$."""
    return jnp.sqrt(2 * jnp.max(gaps(x), axis=(-2, -1)))


def order_parameter(x: Float[AnyArray, "... n d"], weights: Float[AnyArray, " n"] | None = None) -> Float[Array, "..."]:
    r"""$|\sum_i w_i x_i|$: 1 when all tokens agree, near 0 when they are spread out."""
    centre = jnp.mean(x, axis=-2) if weights is None else jnp.einsum("i,...id->...d", weights, x)
    return jnp.linalg.norm(centre, axis=-1)


def close_fraction(x: Float[AnyArray, "... n d"], threshold: float = 0.999) -> Float[Array, "..."]:
    """Fraction of pairs i != j with inner product above the threshold: the statistic of the phase diagrams."""
    n = x.shape[-2]
    if n < 2:
        raise SphereflowError(f"pairs need at least two tokens, got n={n}.")
    if not -1 <= real_number("threshold", threshold) < 1:
        raise SphereflowError(f"threshold must be at least -1 and below 1, got {threshold}.")
    between = gaps(x)
    share = (jnp.sum(between < 1 - threshold, axis=(-2, -1)) - n) / (n * (n - 1))
    return jnp.where(jnp.isnan(between).any(axis=(-2, -1)), jnp.nan, share)
