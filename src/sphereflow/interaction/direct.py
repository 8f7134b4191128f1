r"""The direct engine: every pair of tokens once, one block of pairs at a time.

$$s_{ij} = \beta(\langle q_i,k_j\rangle - 1) + \log p_{ij}, \qquad
  S_i = \sum_j e^{s_{ij}-t_i}\, c_j, \qquad t_i = \max_{j:\,w_j > 0} s_{ij} \ \text{ or } 0.$$

The columns $c_j = (w_j v_j, w_j)$ carry numerator and denominator of the softmax through one matrix product. Blocks
of scores have keys as rows and queries as columns, and the columns $c$ are transposed once, at the start: both
products of a block are then of a kind that processors do fast, and the shift $t$ runs along the contiguous axis.

- General rows keep a running maximum t, so a denominator of 1e-300 is as precise as any other.
- Rows known to hold a score of 0 and none above (`bounded`) need no shift: t = 0.
- If queries and keys are the same tokens and nothing is masked, the block of pairs (I, J) is the transpose of the
  block (J, I): each is computed once and serves both rows.

Nothing larger than one block is held at a time. Reverse differentiation computes each block again; besides the
arguments it keeps two numbers per query and block of keys.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sphereflow.interaction import fused
from sphereflow.interaction.masks import Mask
from sphereflow.kernels import EXPONENTIAL, Kernel

# Up to so many tokens all pairs are summed at once on a processor.
_FEW = 256


class Attended(NamedTuple):
    """The softmax average of the values and the logarithm of its denominator (peak convention)."""

    average: Float[Array, "m p"]
    log_partition: Float[Array, " m"]


class _Block(NamedTuple):
    """Some of the queries or of the keys, and their positions."""

    tokens: Float[Array, "..."]
    positions: Int[Array, "..."]


def default_block() -> int:
    """Side of a block of pairs: it fits the processor's cache (4 MB in float32), or fills an accelerator."""
    return 1024 if jax.default_backend() == "cpu" else 8192


def _paired_side(n: int, block: int) -> int:
    """Side of the blocks that serve twice. On a processor they are small enough for the cache that is nearest to it,
    and more where there would be more than 64 x 64 of them, each of which costs the turn of a loop."""
    if jax.default_backend() != "cpu":
        return block
    return min(block, _FEW if n <= _FEW else max(128, -(-n // 64)))


@partial(jax.jit, static_argnames=("bounded", "symmetric", "plain", "kernel", "divide", "block"))
def direct_attention(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""],
    weights: Float[Array, " n"],
    mask: Mask | None = None,
    *,
    bounded: bool = False,
    symmetric: bool = False,
    plain: bool = False,
    kernel: Kernel = EXPONENTIAL,
    divide: bool = True,
    block: int,
) -> Attended:
    r"""$S_i / |S_i^{(w)}|$ and $t_i + \log|S_i^{(w)}|$, where $S_i^{(w)}$ is the last column of `kernel_sums`."""
    usual = kernel == EXPONENTIAL and divide and mask is None and bounded and symmetric and plain
    if usual and keys.shape[0] <= min(_FEW, block) and jax.default_backend() == "cpu":
        return _few_attention(keys, beta)
    columns = jnp.concatenate([weights[:, None] * values, weights[:, None]], axis=1)
    promises = {"bounded": bounded, "symmetric": symmetric, "plain": plain}
    sums, shift = kernel_sums(queries, keys, columns, beta, mask, **promises, kernel=kernel, block=block)
    return ratio(sums, shift, kernel, divide)


@partial(jax.checkpoint, prevent_cse=False)
def _few_attention(tokens: Float[Array, "n d"], beta: Float[Array, ""]) -> Attended:
    """Few tokens of equal mass with themselves, all pairs at once.

    Nothing asks for a shift here. But written like this, as a softmax is, product, shift and exponential are one step
    of XLA's library for processors, which exponentiates faster than what XLA compiles itself; and a sum along rows
    costs less than one column more in the product.
    """
    scores = beta * _product(tokens, tokens.T)
    top = jax.lax.stop_gradient(jnp.max(scores, axis=1, keepdims=True))
    terms = jnp.exp(scores - top)
    total = jnp.sum(terms, axis=1, keepdims=True)
    return Attended(_product(terms, tokens) / total, (top - beta + jnp.log(total / tokens.shape[0]))[:, 0])


def ratio(sums: Float[Array, "m c"], shift: Float[Array, " m"], kernel: Kernel, divide: bool = True) -> Attended:
    """The average and log |Z|, of sums of which the last is Z; without `divide`, the sums and log |Z|."""
    total = sums[:, -1] if kernel == EXPONENTIAL else jnp.abs(sums[:, -1])
    seen = total > 0
    safe = jnp.where(seen, total, 1)
    log_z = jnp.where(seen, shift + jnp.log(safe), -jnp.inf)
    above = sums[:, :-1]
    if not divide:
        return Attended(above * jnp.exp(jnp.where(seen, shift, 0))[:, None], log_z)
    # Weights of both signs can sum to zero: what is divided by it is not finite, rather than not divided.
    infinite = jnp.copysign(jnp.inf, jax.lax.stop_gradient(above)).astype(above.dtype)
    return Attended(jnp.where(seen[:, None] | (above == 0), above / safe[:, None], infinite), log_z)


def kernel_sums(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
    mask: Mask | None = None,
    *,
    bounded: bool = False,
    symmetric: bool = False,
    plain: bool = False,
    kernel: Kernel = EXPONENTIAL,
    block: int,
) -> tuple[Float[Array, "m c"], Float[Array, " m"]]:
    r"""$S_i = \sum_j p_{ij}\, e^{\beta(\langle q_i,k_j\rangle-1)-t_i}\, c_j$ and $t_i$, in blocks of block^2 pairs.

    Another kernel is summed as it is, with t = 0.

    The last of the `columns` is the weight of the key, at least 0. `bounded` promises that no score is above 0 and
    that every row holds a score of 0 with positive weight; `symmetric` promises that `queries` are `keys`, and is
    made use of if they are bounded and there is no mask; `plain` promises columns $(k_j/n, 1/n)$ besides.
    """
    if kernel == EXPONENTIAL and symmetric and bounded and mask is None:
        side = _paired_side(keys.shape[0], block)
        if keys.shape[0] > side:
            return _symmetric_sums(keys, columns, beta, side, plain), jnp.zeros_like(keys[:, 0])
    return _row_sums(queries, keys, columns, beta, mask, bounded, block, kernel)


def _row_sums(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
    mask: Mask | None,
    bounded: bool,
    block: int,
    kernel: Kernel = EXPONENTIAL,
) -> tuple[Float[Array, "m c"], Float[Array, " m"]]:
    """S and t for all rows: an outer loop over blocks of queries, an inner one over blocks of keys."""
    m, n, c = queries.shape[0], keys.shape[0], columns.shape[1]
    # Blocks are oblong if there are few queries or few keys. A small problem is one block, and its loops vanish.
    wide = min(n, block)
    tall = min(m, block**2 // wide)
    wide = min(n, block**2 // tall)
    key_blocks = (_Block(_split(keys, wide), _positions(n, wide)), _split(columns, wide).swapaxes(1, 2))
    query_blocks = _Block(_split(queries, tall), _positions(m, tall))

    def row(query: _Block) -> tuple[Array, Array]:
        def step(state: tuple[Array, Array], these: tuple[_Block, Array]) -> tuple[tuple[Array, Array], None]:
            total, top = state
            part, decay, top = _visible_sums(query, *these, top, beta, mask, bounded, kernel)
            return (total * decay + part, top), None

        size = query.positions.shape[0]
        shifted = kernel == EXPONENTIAL and not bounded
        start = (jnp.zeros((c, size), keys.dtype), jnp.full(size, -jnp.inf if shifted else 0, keys.dtype))
        return jax.lax.scan(step, start, key_blocks)[0]

    total, top = jax.lax.map(row, query_blocks)
    return total.swapaxes(1, 2).reshape(-1, c)[:m], top.reshape(-1)[:m]


@partial(jax.checkpoint, static_argnums=(6, 7), prevent_cse=False)
def _visible_sums(
    query: _Block,
    key: _Block,
    columns_t: Float[Array, "c k"],
    top: Float[Array, " q"],
    beta: Float[Array, ""],
    mask: Mask | None,
    bounded: bool,
    kernel: Kernel,
) -> tuple[Float[Array, "c q"], Float[Array, " q"], Float[Array, " q"]]:
    """What one block of keys adds to the rows, the factor on what was there before, and the new shift."""

    def visit(top: Array) -> tuple[Array, Array, Array]:
        return _block_sums(query, key, columns_t, top, beta, mask, bounded, kernel)

    def skip(top: Array) -> tuple[Array, Array, Array]:
        return jnp.zeros((columns_t.shape[0], top.shape[0]), top.dtype), jnp.ones_like(top), top

    if mask is None or not mask.causal:
        return visit(top)
    return jax.lax.cond(key.positions[0] <= query.positions[-1], visit, skip, top)


def _block_sums(
    query: _Block,
    key: _Block,
    columns_t: Float[Array, "c k"],
    top: Float[Array, " q"],
    beta: Float[Array, ""],
    mask: Mask | None,
    bounded: bool,
    kernel: Kernel,
) -> tuple[Float[Array, "c q"], Float[Array, " q"], Float[Array, " q"]]:
    inner = _product(key.tokens, query.tokens.T)
    if kernel != EXPONENTIAL:
        terms = kernel(inner, beta)
        if mask is not None:
            log_p = mask.log_weight(query.positions[None, :], key.positions[:, None])
            terms = terms * jnp.exp(log_p).astype(terms.dtype)
        return _product(columns_t, terms), jnp.ones_like(top), top
    scores = beta * (inner - 1)
    if mask is not None:
        log_p = mask.log_weight(query.positions[None, :], key.positions[:, None])
        scores = scores + log_p.astype(scores.dtype)
    if bounded:
        return _product(columns_t, jnp.exp(scores)), jnp.ones_like(top), top
    # The shift drops out of the result, so no derivative passes through it. Keys of zero weight (padding is one of
    # them) must not set it; their own terms, times zero, could then overflow, hence the ceiling.
    counted = jax.lax.stop_gradient(scores) + jnp.where(columns_t[-1] > 0, 0, -jnp.inf)[:, None]
    new_top = jnp.maximum(top, jnp.max(counted, axis=0))
    shift = jnp.where(jnp.isneginf(new_top), 0, new_top)
    ceiling = np.log(jnp.finfo(scores.dtype).max) / 2
    terms = jnp.exp(jnp.minimum(scores - shift, ceiling.astype(scores.dtype)))
    return _product(columns_t, terms), jnp.exp(top - shift), new_top


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _symmetric_sums(
    tokens: Float[Array, "n d"], columns: Float[Array, "n c"], beta: Float[Array, ""], block: int, plain: bool
) -> Float[Array, "n c"]:
    """Unshifted sums of the tokens with themselves: fused on an NVIDIA GPU in float32, else by pairs of blocks."""
    by_blocks = partial(_paired_blocks, block=block)
    if not fused.supported(tokens, columns):
        return by_blocks(tokens, columns, beta)
    return jax.lax.platform_dependent(
        tokens, columns, beta, cuda=partial(fused.fused_sums, plain=plain), default=by_blocks
    )


@_symmetric_sums.defjvp
def _symmetric_jvp(
    block: int, plain: bool, primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    # Derivatives go row by row: there the transpose of the loop needs no more memory than the loop itself.
    def by_rows(tokens: Array, columns: Array, beta: Array) -> Array:
        return _row_sums(tokens, tokens, columns, beta, None, True, block)[0]

    return jax.jvp(by_rows, primals, tangents)


def _paired_blocks(
    tokens: Float[Array, "n d"], columns: Float[Array, "n c"], beta: Float[Array, ""], block: int
) -> Float[Array, "n c"]:
    """The block (I, J), I > J, also serves as the block (J, I)."""
    n, c = columns.shape
    keys = _split(tokens, block)
    columns_t = _split(columns, block).swapaxes(1, 2)

    def kernel(i: Array, j: Array) -> Array:
        return jnp.exp(beta * (_product(keys[j], keys[i].T) - 1))

    def diagonal(i: Array) -> Array:
        return _product(columns_t[i], kernel(i, i))

    def pair(total: Array, ij: tuple[Array, Array]) -> tuple[Array, None]:
        i, j = ij
        terms = kernel(i, j)
        total = total.at[i].add(_product(columns_t[j], terms))
        return total.at[j].add(_product(columns_t[i], terms.T)), None

    blocks = keys.shape[0]
    i, j = np.tril_indices(blocks, -1)
    total, _ = jax.lax.scan(pair, jax.lax.map(diagonal, jnp.arange(blocks)), (jnp.asarray(i), jnp.asarray(j)))
    return total.swapaxes(1, 2).reshape(-1, c)[:n]


def _product(a: Float[Array, "x y"], b: Float[Array, "y z"]) -> Float[Array, "x z"]:
    """Matrix product in the full precision of the type, on every device (no TF32 or bfloat16 passes)."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def _size(n: int, most: int) -> int:
    """Rows in each of the fewest equal blocks of at most `most` rows that hold n rows: little is padded."""
    return -(-n // -(-n // most))


def _split(x: Float[Array, "n d"], most: int) -> Float[Array, "b k d"]:
    """Rows in blocks, the last one filled up with zeros (keys of weight zero)."""
    size = _size(x.shape[0], most)
    return jnp.pad(x, ((0, -x.shape[0] % size), (0, 0))).reshape(-1, size, x.shape[1])


def _positions(n: int, most: int) -> Int[Array, "b k"]:
    """Positions of the rows in their blocks; fillers repeat the last one, so that masks meet valid positions only."""
    size = _size(n, most)
    return jnp.minimum(jnp.arange(n + -n % size), n - 1).reshape(-1, size)
