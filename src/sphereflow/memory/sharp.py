r"""Softmax averages over many patterns of which few count, as in a memory below its capacity.

$$\sum_\mu p_\mu\xi^\mu,\qquad p_\mu\propto e^{s_\mu},\qquad s_\mu=\beta(x\cdot\xi^\mu-\tfrac12|\xi^\mu|^2).$$

A pattern whose score lies $\ln(M/\varepsilon)$ below the best one changes nothing: all such patterns together weigh
less than the rounding $\varepsilon$. One pass over all patterns keeps the largest score of every group of neighbours;
the average is then taken over the groups that can count. This halves the work of attention and loses no digit. If for
some query many groups count, the general engine does the sum.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction import attend

Scalar = Float[Array, ""] | float

_GROUP = 16  # patterns that are kept or dropped together
_BLOCK = 2048  # patterns per block of the pass over all
_QUERIES_AT_ONCE = 64
_MOST_GROUPS = 64
_PROBED = 8
_WORTHWHILE = 20_000  # fewer patterns are summed faster than sorted out


def softmax_average(
    x: Float[Array, "Q N"], patterns: Float[Array, "M N"], beta: float, *, equal_lengths: bool
) -> Float[Array, "Q N"]:
    """The average of the patterns under the kernel exp(-beta |x - xi|^2 / 2), for every query."""
    lengths = None if equal_lengths else jnp.sum(patterns**2, axis=1)
    if patterns.shape[0] >= _WORTHWHILE:
        cutoff = float(np.log(patterns.shape[0] / jnp.finfo(x.dtype).eps))
        # A few queries tell whether the pass over all is worth while for the others.
        for some in (x[:_PROBED], x):
            best, needed = _group_maxima(some, patterns, lengths, beta, cutoff)
            groups = 1 << (int(needed) - 1).bit_length()
            if groups > _MOST_GROUPS:
                break
        else:
            return _few(x, patterns, lengths, beta, best, groups)
    if lengths is None:
        return attend(x, patterns, patterns, beta).average
    ones = jnp.ones_like(x[:, :1])
    keys = jnp.concatenate([patterns, -lengths[:, None] / 2], axis=1)
    return attend(jnp.concatenate([x, ones], axis=1), keys, patterns, beta).average


@jax.jit
def _group_maxima(
    x: Array, patterns: Array, lengths: Array | None, beta: Scalar, cutoff: Scalar
) -> tuple[Float[Array, "G Q"], Array]:
    """The best score of each group, and how many groups count for the query that needs most."""
    count = patterns.shape[0]
    fill = -count % _BLOCK
    queries = (beta * x).astype(x.dtype).T
    halves = jnp.zeros(count, x.dtype) if lengths is None else beta * lengths / 2
    blocks = (
        jnp.pad(patterns, ((0, fill), (0, 0))).reshape(-1, _BLOCK, patterns.shape[1]),
        jnp.pad(halves.astype(x.dtype), (0, fill), constant_values=jnp.inf).reshape(-1, _BLOCK),
    )

    def best(block: tuple[Array, Array]) -> Array:
        keys, half = block
        scores = jnp.matmul(keys, queries, precision=jax.lax.Precision.HIGHEST) - half[:, None]
        return scores.reshape(_BLOCK // _GROUP, _GROUP, -1).max(axis=1)

    maxima = jax.lax.map(best, blocks).reshape(-1, x.shape[0])
    return maxima, jnp.max(jnp.sum(maxima > jnp.max(maxima, axis=0) - cutoff, axis=0))


@partial(jax.jit, static_argnames="groups")
def _few(
    x: Array, patterns: Array, lengths: Array | None, beta: Scalar, maxima: Float[Array, "G Q"], groups: int
) -> Float[Array, "Q N"]:
    """The average over the `groups` best groups of each query."""

    def one(query: tuple[Array, Array]) -> Array:
        state, best = query
        chosen = jax.lax.top_k(best, groups)[1]
        rows = (chosen[:, None] * _GROUP + jnp.arange(_GROUP)).reshape(-1)
        inside = rows < patterns.shape[0]
        rows = jnp.minimum(rows, patterns.shape[0] - 1)
        near = patterns[rows]
        scores = beta * (near @ state - (0 if lengths is None else lengths[rows] / 2))
        return jax.nn.softmax(jnp.where(inside, scores, -jnp.inf).astype(x.dtype)) @ near

    return jax.lax.map(one, (x, maxima.T), batch_size=_QUERIES_AT_ONCE)
