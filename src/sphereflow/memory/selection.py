r"""The k largest of a row without sorting it: those lie in the k groups whose own largest are the largest.

$$x_{(1)},\dots,x_{(k)}\in\bigcup_{g\in G}g,\qquad G=\text{the }k\text{ groups with the largest }\max_{i\in g}x_i .$$

A group outside G has k groups before it, each with an entry at least as large. So rows of n entries are read once, for
the maxima, and only n/GROUP and then k GROUP entries are sorted. Of equal entries the first ones are taken, as
`jax.lax.top_k` does: groups with a maximum equal to the k-th are taken in their order, and each holds such an entry.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

GROUP = 16
_WORTH = 4  # rows this many times longer than what is sorted instead


def largest(x: Float[Array, "Q n"], count: int, group: int = GROUP) -> tuple[Float[Array, "Q k"], Int[Array, "Q k"]]:
    """The `count` largest entries of every row, largest first, and their places: `jax.lax.top_k`, by groups."""
    rows, n = x.shape
    if n < _WORTH * group * count:
        best, where = jax.lax.top_k(x, count)
        return best, where
    whole = n // group * group
    grouped = x[:, :whole].reshape(rows, -1, group)
    chosen = jnp.sort(largest(grouped.max(axis=2), count, group)[1], axis=1)
    few = jnp.take_along_axis(grouped, chosen[:, :, None], axis=1).reshape(rows, -1)
    places = (chosen[:, :, None] * group + jnp.arange(group, dtype=chosen.dtype)).reshape(rows, -1)
    if whole < n:
        rest = jnp.broadcast_to(jnp.arange(whole, n, dtype=chosen.dtype), (rows, n - whole))
        few, places = jnp.concatenate([few, x[:, whole:]], axis=1), jnp.concatenate([places, rest], axis=1)
    best, where = jax.lax.top_k(few, count)
    return best, jnp.take_along_axis(places, where, axis=1)
