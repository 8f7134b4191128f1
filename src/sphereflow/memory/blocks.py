r"""One pass over the patterns in blocks: attention and exact search whose working memory does not grow with M.

$$x'=\frac{\sum_\mu w_\mu\xi^\mu}{\sum_\mu w_\mu},\qquad
  w_\mu=e^{\beta(x\cdot\xi^\mu-|\xi^\mu|^2/2)}\ \text{(lse)},\quad 1[\beta|x-\xi^\mu|^2<2]\ \text{(lsr)},\quad
  (x\cdot\xi^\mu/N)^{k-1}\ \text{(polynomial)}.$$

Of every block only its sums (or its best patterns) are kept; the backward pass computes the weights again. An average
over a number of patterns that no block divides copies them once; a search never does. All functions are traced, so they
compose with `jit`, `vmap` and `grad`; the dtype of the queries is kept.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sphereflow.memory.energies import to_sphere
from sphereflow.memory.selection import largest

BLOCK = 8192  # patterns at a time, at most
SEARCHED = 32_768  # in a search, where every block costs a few small sorts


def block_size(count: int, most: int = BLOCK) -> int:
    """The largest divisor of the number of patterns that is at most `most`, or `most` if the divisors are small."""
    best = max(size for size in range(1, min(most, count) + 1) if count % size == 0)
    return best if 4 * best >= min(most, count) else min(most, count)


def average(
    x: Float[Array, "Q N"], patterns: Float[Array, "M N"], kernel: str, beta: float, on_sphere: bool, block: int
) -> Float[Array, "Q N"]:
    """The update of every query; a state that nothing pulls stays where it is."""
    zero = jnp.zeros(x.shape[0], x.dtype)
    start = (zero - jnp.inf, zero, jnp.zeros_like(x))

    def add(carry: tuple[Array, Array, Array], rows: Array) -> tuple[tuple[Array, Array, Array], None]:
        best, total, mean = carry
        keys = to_sphere(rows) if on_sphere else rows
        score = _scores(x, keys, kernel, beta)
        if kernel == "lse":
            new = jnp.maximum(best, jax.lax.stop_gradient(score.max(axis=1)))
            weight, shrink = jnp.exp(score - new[:, None]), jnp.exp(best - new)
        else:
            new, weight, shrink = best, score, jnp.ones_like(total)
        return (new, total * shrink + weight.sum(axis=1), mean * shrink[:, None] + _product(weight, keys)), None

    _, total, mean = _over_blocks(add, start, patterns, block)
    if kernel == "polynomial":  # weights of either sign: the direction counts
        return mean
    seen = (total > 0)[:, None]
    return jnp.where(seen, mean / jnp.where(seen, total[:, None], 1), x)


def nearest(
    x: Float[Array, "Q N"], patterns: Float[Array, "M N"], count: int, on_sphere: bool, block: int
) -> tuple[Int[Array, "Q k"], Float[Array, "Q k"]]:
    """Indices of the `count` nearest patterns, nearest first, and their scores x.xi - |xi|^2/2 (x.xi/|xi| on a sphere).

    Dividing the scores by the lengths of the patterns saves a copy of every block with unit rows.
    """
    x, patterns = jax.lax.stop_gradient((x, patterns))
    shape = (x.shape[0], count)
    block = min(block, patterns.shape[0])

    def add(carry: tuple[Array, Array], first: Array | int, rows: Array) -> tuple[Array, Array]:
        score, index = carry
        if on_sphere:
            scores = _product(x, rows.T) / jnp.maximum(jnp.linalg.norm(rows, axis=1), jnp.finfo(x.dtype).tiny)
        else:
            scores = _scores(x, rows, "lse", 1.0)
        here, place = largest(scores, min(count, rows.shape[0]))
        both, where = jnp.concatenate([score, here], axis=1), jnp.concatenate([index, place + first], axis=1)
        score, chosen = jax.lax.top_k(both, count)
        return score, jnp.take_along_axis(where, chosen, axis=1)

    def one(carry: tuple[Array, Array], first: Array) -> tuple[tuple[Array, Array], None]:
        # Read where they lie: patterns cut to a whole number of blocks would be a copy of all of them.
        return add(carry, first, jax.lax.dynamic_slice_in_dim(patterns, first, block)), None

    whole = patterns.shape[0] // block * block
    start = jnp.full(shape, -jnp.inf, x.dtype), jnp.zeros(shape, jnp.int32)
    found, _ = jax.lax.scan(one, start, jnp.arange(0, whole, block, dtype=jnp.int32))
    score, index = add(found, whole, patterns[whole:]) if whole < patterns.shape[0] else found
    return index, score


def average_of_nearest(
    x: Float[Array, "Q N"],
    patterns: Float[Array, "M N"],
    kernel: str,
    beta: float,
    on_sphere: bool,
    block: int,
    count: int,
) -> Float[Array, "Q N"]:
    """The update with the `count` nearest patterns of each query only."""
    index, _ = nearest(x, patterns, count, on_sphere, block)

    def one(state: Array, rows: Array) -> Array:
        return average(state[None], patterns[rows], kernel, beta, on_sphere, count)[0]

    return jax.vmap(one)(x, index)


def _scores(x: Array, keys: Array, kernel: str, beta: float) -> Array:
    """Exponents (lse) or weights of all patterns of a block."""
    inner = _product(x, keys.T)
    half = jnp.sum(keys**2, axis=1) / 2
    if kernel == "lse":
        return beta * (inner - half)
    if kernel == "lsr":
        return (beta * (jnp.sum(x**2, axis=1)[:, None] / 2 + half - inner) < 1).astype(x.dtype)
    return beta * (inner / x.shape[1]) ** (int(beta) - 1)


_product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def _over_blocks(add, start, patterns: Array, block: int):  # type: ignore[no-untyped-def]
    """`add` over all blocks of rows; what is left over at the end is a block of its own."""
    whole = patterns.shape[0] // block * block
    body = jax.checkpoint(add)
    blocks = patterns[:whole].reshape(-1, block, patterns.shape[1])
    carry, _ = jax.lax.scan(body, start, blocks)
    return body(carry, patterns[whole:])[0] if whole < patterns.shape[0] else carry
