r"""Kernels of a distance, in logarithms.

$$ \log k(x,y)=-\frac{|x-y|}{\tau}\ \text{(Laplace)},\qquad -\frac{|x-y|^2}{2\sigma^2}\ \text{(Gaussian)},\qquad
   \log\Big(1-\frac{|x-y|}{\rho}\Big)_+\ \text{(compact)}. $$

The Laplace kernel has the plain norm, the Gaussian one the square with $2\sigma^2$: exchanging them is the classic
mistake. `width` is $\tau$, $\sigma$ or $\rho$.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.errors import one_of

KERNELS = ("laplace", "gaussian", "compact")
# Below this dimension differences are formed one by one, which loses nothing to cancellation.
_FEW_COORDINATES = 8


def squared_distances(x: Float[Array, "n D"], y: Float[Array, "m D"]) -> Float[Array, "n m"]:
    """|x_i - y_j|^2, never negative."""
    if x.shape[1] <= _FEW_COORDINATES:
        # One coordinate at a time: a last axis of two or three would waste the vector units.
        return sum(((x[:, k, None] - y[None, :, k]) ** 2 for k in range(x.shape[1])), jnp.zeros((), x.dtype))
    centre = jnp.mean(y, axis=0)  # products of centred vectors cancel less
    x, y = x - centre, y - centre
    products = x @ y.T
    return jnp.maximum(jnp.sum(x**2, axis=1)[:, None] + jnp.sum(y**2, axis=1)[None, :] - 2 * products, 0.0)


def log_kernel(name: str, squares: Float[Array, "..."], width: Float[Array, ""] | float) -> Float[Array, "..."]:
    """log k as a function of the squared distance."""
    one_of("kernel", name, KERNELS)
    width = jnp.asarray(width, squares.dtype)  # samples in float32 are worked on in float32
    if name == "gaussian":
        return -squares / (2 * width**2)
    # The root of an exact zero has no derivative; the field is never differentiated through it, plots may be.
    distances = jnp.sqrt(jnp.maximum(squares, jnp.finfo(squares.dtype).tiny))
    if name == "laplace":
        return -distances / width
    inside = distances < width
    return jnp.where(inside, jnp.log1p(-jnp.where(inside, distances, 0.0) / width), -jnp.inf)
