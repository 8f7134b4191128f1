r"""Laws to learn: two in the plane from the base paper, Gaussians with a known optimal map, and samples from a file.

Checkerboard: fair bits $b,b_1,b_2$, the point $((2b_1+b+U_1)-2,\ (2b_2+b+U_2)-2)/2$ with noise 0.05.
Swiss roll: $t=\tfrac\pi2+4\pi U$, the point $(t\cos t,t\sin t)/(4.5\pi)$ with noise 0.03.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from sphereflow.errors import SphereflowError, one_of

Sampler = Callable[[PRNGKeyArray, int], Float[Array, "n D"]]


def checkerboard(key: PRNGKeyArray, n: int) -> Float[Array, "n 2"]:
    """Eight squares of a chessboard of four by four."""
    bits, places, noise = jax.random.split(key, 3)
    colour, row, column = jax.random.bernoulli(bits, 0.5, (3, n))
    corner = jnp.stack([2 * row + colour, 2 * column + colour], axis=1)
    return (corner + jax.random.uniform(places, (n, 2)) - 2) / 2 + 0.05 * jax.random.normal(noise, (n, 2))


def swiss_roll(key: PRNGKeyArray, n: int) -> Float[Array, "n 2"]:
    """A spiral of two turns."""
    where, noise = jax.random.split(key)
    t = jnp.pi / 2 + 4 * jnp.pi * jax.random.uniform(where, (n,))
    spiral = jnp.stack([t * jnp.cos(t), t * jnp.sin(t)], axis=1) / (4.5 * jnp.pi)
    return spiral + 0.03 * jax.random.normal(noise, (n, 2))


LAWS: dict[str, Sampler] = {"checkerboard": checkerboard, "swiss-roll": swiss_roll}


def law(name: str) -> Sampler:
    """The sampler of this name."""
    return LAWS[one_of("law", name, tuple(LAWS))]


class Rows(eqx.Module):
    """Draws rows of a table, with replacement. A module: another table of the same shape compiles nothing new."""

    table: Float[Array, "n D"]

    def __call__(self, key: PRNGKeyArray, n: int) -> Float[Array, "n D"]:
        # The remainder of 32 random bits favours no row by more than a share n / 2^32, and compiles in half the time.
        return self.table[jax.random.bits(key, (n,), jnp.uint32) % len(self.table)]


class Normal(eqx.Module):
    r"""$N(m, RR^\top)$."""

    mean: Float[Array, " D"]
    root: Float[Array, "D D"]

    def __call__(self, key: PRNGKeyArray, n: int) -> Float[Array, "n D"]:
        return self.mean + jax.random.normal(key, (n, len(self.mean))) @ self.root.T


def from_rows(rows: Float[np.ndarray, "n D"]) -> Rows:
    """Draws rows of an array, with replacement."""
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise SphereflowError(
            f"samples must be at least two finite rows, an array (n, D); got the shape {np.shape(rows)}."
        )
    return Rows(jnp.asarray(rows))


def gaussian(mean: Float[np.ndarray, " D"], root: Float[np.ndarray, "D D"]) -> Normal:
    r"""$N(m, RR^\top)$."""
    return Normal(jnp.asarray(mean), jnp.asarray(root))
