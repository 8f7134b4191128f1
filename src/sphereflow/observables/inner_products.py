r"""Inner products between tokens, and what is read off them.

Gaps $1-\langle x_i,x_j\rangle$ are computed as $|x_i-x_j|^2/2$, so that nearly equal tokens keep all their digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.reading import brief_value
from sphereflow.shapes import AnyArray
from sphereflow.sphere import gap

Tokens = Float[AnyArray, "... n d"] | Sequence


def gram(x: Tokens) -> Float[Array, "... n n"]:
    r"""$\langle x_i,x_j\rangle$ for all pairs."""
    x = _array(x)
    return jnp.einsum("...id,...jd->...ij", x, x)


def gaps(x: Tokens) -> Float[Array, "... n n"]:
    r"""$1-\langle x_i,x_j\rangle = |x_i-x_j|^2/2$ for all pairs, without cancellation."""
    x = _array(x)
    return gap(x[..., :, None, :], x[..., None, :, :])


def overlaps(x: Tokens) -> Float[Array, "... pairs"]:
    r"""$\langle x_i,x_j\rangle$ for i < j, as a vector."""
    products = gram(x)
    i, j = np.triu_indices(products.shape[-1], k=1)
    return products[..., i, j]


def diameter(x: Tokens) -> Float[Array, "..."]:
    r"""$\max_{ij}|x_i-x_j|$."""
    return jnp.sqrt(2 * jnp.max(gaps(x), axis=(-2, -1)))


def order_parameter(x: Tokens, weights: Float[AnyArray, " n"] | None = None) -> Float[Array, "..."]:
    r"""$|\sum_i w_i x_i|$: 1 when all tokens agree, near 0 when they are spread out."""
    x = _array(x)
    centre = jnp.mean(x, axis=-2) if weights is None else jnp.einsum("i,...id->...d", weights, x)
    return jnp.linalg.norm(centre, axis=-1)


def close_fraction(x: Tokens, threshold: float = 0.999) -> Float[Array, "..."]:
    """Fraction of pairs i != j with inner product above the threshold: the statistic of the phase diagrams."""
    x = _array(x)
    n = x.shape[-2]
    if n < 2:
        raise SphereflowError(f"pairs need at least two tokens, got n={n}.")
    if not -1 <= real_number("threshold", threshold) < 1:
        raise SphereflowError(f"threshold must be at least -1 and below 1, got {threshold}.")
    between = gaps(x)
    share = (jnp.sum(between < 1 - threshold, axis=(-2, -1)) - n) / (n * (n - 1))
    return jnp.where(jnp.isnan(between).any(axis=(-2, -1)), jnp.nan, share)


def _array(x: Tokens) -> Float[Array, "... n d"]:
    """Tokens as an array, also inside compiled functions: their shape and type are checked, not their values."""
    try:
        array = jnp.asarray(x)
    except (TypeError, ValueError):
        raise SphereflowError(f"tokens must be an array of numbers, got {brief_value(x)}.") from None
    if array.ndim < 2 or 0 in array.shape[-2:]:
        raise SphereflowError(f"tokens must have shape (..., n, d) with n, d >= 1, got {array.shape}.")
    if jnp.iscomplexobj(array):
        raise SphereflowError("tokens must be real numbers, got complex ones.")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
