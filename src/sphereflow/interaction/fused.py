r"""The direct engine on an NVIDIA GPU: scores and sums stay in registers, nothing of size n^2 touches memory.

$$S_i = \sum_j e^{\beta(\langle x_i,x_j\rangle-1)}\, c_j, \qquad \text{float32, queries = keys, no mask.}$$

Two kernels, both written in Pallas:

- d <= 8 is limited by the exponential units. Each program holds a tile of queries; partial sums are kept per
  (query, key lane) and added up once at the end, in two levels so that rounding errors do not grow with n. The
  exponential is the hardware's base-2 instruction, with beta log2(e) folded into the query, and multiply-adds are
  written as such, because the compiler would split them. If the charges are the tokens themselves, with equal
  masses, they are not loaded a second time.
- larger d is limited by the two matrix products, which run on the tensor cores with every float32 split in three
  bfloat16 parts (six products): as accurate as float32 arithmetic, unlike a single TF32 pass.
"""

from __future__ import annotations

import math
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

LARGEST_DIMENSION = 256
_SMALL_DIMENSION = 8
_SMALL_TILE = (8, 128)  # queries, keys of one tile; measured best of a dozen
_LARGE_TILE = (64, 32)
_RUN = 128  # tiles of keys summed up before their sum joins the total
_SPLIT_FLOAT = jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X6


@cache
def available() -> bool:
    """Whether this release of JAX has Pallas' way to Triton, which is deprecated: without it, there are slower sums."""
    return find_spec("jax.experimental.pallas.triton") is not None


def supported(tokens: Float[Array, "n d"], columns: Float[Array, "n c"]) -> bool:
    """Whether there is a fused kernel for this type and these sizes."""
    widest = max(tokens.shape[1], columns.shape[1] - 1)
    single = tokens.dtype == jnp.float32 and columns.dtype == jnp.float32
    return available() and single and widest <= LARGEST_DIMENSION


def fused_sums(
    tokens: Float[Array, "n d"], columns: Float[Array, "n c"], beta: Float[Array, ""], plain: bool = False
) -> Float[Array, "n c"]:
    """S for unit tokens attending to themselves; the last column is the weight of each key.

    `plain` promises columns (x_j / n, 1 / n), which are then not read.
    """
    n, d = tokens.shape
    exponent = jnp.asarray(beta * math.log2(math.e), jnp.float32)
    if d > _SMALL_DIMENSION or columns.shape[1] > _SMALL_DIMENSION + 1:
        tokens, columns = (_fill(a, math.lcm(*_LARGE_TILE)) for a in (tokens, columns))
        return _large(tokens, columns, exponent)[:n]
    run = _RUN if n > 4 * _RUN * _SMALL_TILE[1] else 1
    tokens, columns = (_fill(a, _SMALL_TILE[1] * run) for a in (tokens, columns))
    if not plain:
        return _small(tokens, columns, exponent, run)[:n]
    # A filler is the zero vector: it adds nothing to the first moment, and a known amount to the mass.
    sums = _small(tokens, None, exponent, run)[:n]
    fillers = (tokens.shape[0] - n) * jnp.exp2(-exponent)
    return sums.at[:, -1].add(-fillers) / n


def _fill(a: Float[Array, "n k"], multiple: int) -> Float[Array, "m k"]:
    """Rows of zeros, keys that weigh nothing, up to a multiple of the tile."""
    return jnp.pad(a, ((0, -a.shape[0] % multiple), (0, 0)))


def _small(tokens: Array, columns: Array | None, exponent: Array, run: int) -> Array:
    n, d = tokens.shape
    c = d + 1 if columns is None else columns.shape[1]
    tall, wide = _SMALL_TILE
    rows = tokens.T
    whole = [rows] if columns is None else [rows, columns.T]
    out = pl.pallas_call(
        partial(_small_kernel, d=d, c=c, steps=n // wide, run=run if run > 1 else n // wide),
        out_shape=jax.ShapeDtypeStruct((c, n), jnp.float32),
        grid=(n // tall,),
        in_specs=[
            pl.BlockSpec((d, tall), lambda i: (0, i)),
            pl.BlockSpec((1,), lambda i: (0,)),
            *(pl.BlockSpec(a.shape, lambda i: (0, 0)) for a in whole),
        ],
        out_specs=pl.BlockSpec((c, tall), lambda i: (0, i)),
        compiler_params=_compiler(num_warps=4, num_stages=1),
    )(rows * exponent, exponent[None], *whole)
    return out.T


def _small_kernel(query_ref: Any, exponent_ref: Any, *refs: Any, d: int, c: int, steps: int, run: int) -> None:
    key_ref, *column_refs, out_ref = refs
    tall, wide = _SMALL_TILE
    queries = [query_ref[k, :][:, None] for k in range(d)]
    floor = jnp.broadcast_to(-exponent_ref[0], (tall, wide))
    nothing = (jnp.zeros((tall, wide), jnp.float32),) * c

    def absorb(step: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        lanes = pl.ds(step * wide, wide)
        keys = [key_ref[k, lanes][None, :] for k in range(d)]
        score = floor
        for query, key in zip(queries, keys, strict=True):
            score = _multiply_add(query, key, score)
        term = _power_of_two(score)
        if column_refs:
            return tuple(_multiply_add(term, column_refs[0][k, lanes][None, :], sums[k]) for k in range(c))
        return (*(_multiply_add(term, key, old) for key, old in zip(keys, sums[:-1], strict=True)), sums[-1] + term)

    def absorb_run(first: Array, total: tuple[Array, ...]) -> tuple[Array, ...]:
        part = jax.lax.fori_loop(first * run, (first + 1) * run, absorb, nothing)
        return tuple(a + b for a, b in zip(total, part, strict=True))

    sums = jax.lax.fori_loop(0, steps // run, absorb_run, nothing)
    for k in range(c):
        out_ref[k, :] = jnp.sum(sums[k], axis=1)


def _large(tokens: Array, columns: Array, exponent: Array) -> Array:
    n, p = tokens.shape[0], columns.shape[1] - 1
    tokens, values = (_pad_to_power_of_two(a) for a in (tokens, columns[:, :-1]))
    d, q = tokens.shape[1], values.shape[1]
    tall, _ = _LARGE_TILE
    sums, weight = pl.pallas_call(
        partial(_large_kernel, steps=n // _LARGE_TILE[1]),
        out_shape=[jax.ShapeDtypeStruct((n, q), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.float32)],
        grid=(n // tall,),
        in_specs=[
            pl.BlockSpec((tall, d), lambda i: (i, 0)),
            pl.BlockSpec((n, d), lambda i: (0, 0)),
            pl.BlockSpec((n, q), lambda i: (0, 0)),
            pl.BlockSpec((n,), lambda i: (0,)),
            pl.BlockSpec((1,), lambda i: (0,)),
        ],
        out_specs=[pl.BlockSpec((tall, q), lambda i: (i, 0)), pl.BlockSpec((tall,), lambda i: (i,))],
        compiler_params=_compiler(num_warps=4, num_stages=2),
    )(tokens * exponent, tokens, values, columns[:, -1], exponent[None])
    return jnp.concatenate([sums[:, :p], weight[:, None]], axis=1)


def _large_kernel(
    query_ref: Any,
    key_ref: Any,
    value_ref: Any,
    weight_ref: Any,
    exponent_ref: Any,
    out_ref: Any,
    out_weight_ref: Any,
    *,
    steps: int,
) -> None:
    tall, wide = _LARGE_TILE
    queries, shift = query_ref[...], exponent_ref[0]

    def absorb(step: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        lanes = pl.ds(step * wide, wide)
        score = _split_product(queries, key_ref[lanes, :].T) - shift
        term = _power_of_two(score)
        weighted = jnp.sum(term * weight_ref[lanes][None, :], axis=1)
        return sums[0] + _split_product(term, value_ref[lanes, :]), sums[1] + weighted

    start = (jnp.zeros((tall, value_ref.shape[1]), jnp.float32), jnp.zeros((tall,), jnp.float32))
    out_ref[...], out_weight_ref[...] = jax.lax.fori_loop(0, steps, absorb, start)


def _split_product(a: Array, b: Array) -> Array:
    return jax.lax.dot_general(
        a, b, (((1,), (0,)), ((), ())), precision=_SPLIT_FLOAT, preferred_element_type=jnp.float32
    )


def _pad_to_power_of_two(a: Array) -> Array:
    """Columns filled up with zeros to a power of two of at least 16, the sizes that tensor cores take."""
    width = max(16, 1 << (a.shape[1] - 1).bit_length())
    return jnp.pad(a, ((0, 0), (0, width - a.shape[1])))


def _power_of_two(x: Array) -> Array:
    return _instruction("ex2.approx.ftz.f32 $0, $1;", x)


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    return _instruction("fma.rn.ftz.f32 $0, $1, $2, $3;", a, b, c)


def _instruction(code: str, *operands: Array) -> Array:
    """One machine instruction, element by element."""
    from jax.experimental.pallas import triton

    shape = jnp.broadcast_shapes(*(a.shape for a in operands))
    (result,) = triton.elementwise_inline_asm(
        code,
        args=[jnp.broadcast_to(a, shape) for a in operands],
        constraints=",".join(["=r"] + ["r"] * len(operands)),
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(shape, jnp.float32)],
    )
    return result


def _compiler(**options: int) -> Any:
    from jax.experimental.pallas import triton

    return triton.CompilerParams(**options)
