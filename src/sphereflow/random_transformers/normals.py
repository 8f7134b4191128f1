r"""Many standard normals, quickly: drawing the weights is most of the work of a random network.

$$z_1=\sqrt{-2\log u}\,\cos\varphi,\qquad z_2=\sqrt{-2\log u}\,\sin\varphi\qquad\text{(Box and Muller)}.$$

One 64-bit word of the counter-based generator makes two normals: 32 bits for u, 2 for the quadrant and 30 for the angle
within it. Sine and cosine are short series on |w| <= pi/4, which processors evaluate in lanes, and there is no inverse
error function: about three times as fast as `jax.random.normal`, and quicker to compile. Values end at 6.7 standard
deviations, beyond which one number in 10^11 would lie.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_SINE = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000)
_COSINE = (-1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200)


def standard_normals(key: Array, count: int, dtype: jnp.dtype | type = jnp.float64) -> Float[Array, " count"]:
    """Independent standard normals."""
    words = jax.random.bits(key, ((count + 1) // 2,), jnp.uint64)
    high, low = (words >> 32).astype(jnp.uint32), words.astype(jnp.uint32)
    u = (high.astype(dtype) + jnp.asarray(0.5, dtype)) * jnp.asarray(2.0**-32, dtype)
    radius = jnp.sqrt(-2 * jnp.log(u))
    quadrant = low >> 30
    part = (low & jnp.uint32(2**30 - 1)).astype(dtype) * jnp.asarray(2.0**-30, dtype)
    w = (part - jnp.asarray(0.5, dtype)) * jnp.asarray(jnp.pi / 2, dtype)
    square = w * w
    sine, cosine = w * _series(_SINE, square), _series(_COSINE, square)
    odd, turned = (quadrant & 1) == 1, quadrant >= 2
    first, second = jnp.where(odd, -sine, cosine), jnp.where(odd, cosine, sine)
    signed = jnp.where(turned, -radius, radius)
    drawn = jnp.concatenate([signed * first, signed * second])[:count]
    # Without the barrier the compiler may draw the same numbers again in every expression that uses a part of them.
    return jax.lax.optimization_barrier(drawn)


def _series(coefficients: tuple[float, ...], x: Array) -> Array:
    total = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total * x + 1
