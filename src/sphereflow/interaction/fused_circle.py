r"""Fourier sums on an NVIDIA GPU: powers of $e^{i\theta}$ stay in registers, no feature touches memory.

$$M_k=\sum_j c_j e^{ik\theta_j},\ k\le K, \qquad\qquad
  S(\theta)=\mathrm{Re}\sum_{k\le K}(P_k-iQ_k)\,e^{ik\theta}.$$

- `moments`: each program takes a run of tiles of tokens and a group of consecutive modes, and multiplies by
  $e^{i\theta}$ from one mode to the next. A lane adds up at most `_RUN` tokens in a row; lanes and runs are added up as
  trees, so that rounding errors do not grow with n.
- `series`: Horner's rule downwards in k. Every step multiplies by a number of modulus one, so that its rounding is not
  amplified: the error is below $\epsilon\sum_k k|g_k|$, that of $e^{ik\theta}$ itself.

Tokens are vectors (n, 2), which are normalised, or angles (n,): on the circle these say as much in half the memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from sphereflow.interaction.fused import available

_TILE = 128  # tokens of a tile: one for each thread
_RUN = 256  # tiles that a program adds up one after another
_FEWEST = 1024  # programs that fill a GPU: runs are shorter where there would be fewer
_WIDE = 256  # tokens that a program evaluates the series at
_SUMS = 48  # partial sums that a thread holds
MOST_MODES, MOST_COLUMNS = 512, 12
_MOST_NUMBERS = 2**31 - 1  # in an array: indices have 32 bits


def supported(modes: int, *arrays: Array, columns: int) -> bool:
    """Whether the kernels serve so many modes and charges, and arrays of these sizes."""
    few = modes <= MOST_MODES and columns <= MOST_COLUMNS
    return available() and few and all(a.size < _MOST_NUMBERS for a in arrays)


def moments(
    tokens: Float[Array, "n ..."], columns: Float[Array, "n c"] | None, modes: int, *, interpret: bool = False
) -> Float[Array, "2 k c"]:
    r"""$\sum_jc_j\cos k\theta_j$ and $\sum_jc_j\sin k\theta_j$; without `columns` every charge is one."""
    n, c = tokens.shape[0], 1 if columns is None else columns.shape[1]
    group = min(modes + 1, max(1, _SUMS // (2 * c)))
    groups = -(-(modes + 1) // group)
    run = max(1, min(_RUN, n // (_TILE * _FEWEST)))
    # A filler has no direction, or no charge: it adds nothing.
    spare = -n % (_TILE * run)
    if columns is None and spare and tokens.ndim == 1:
        columns = jnp.ones((n, 1), tokens.dtype)
    sources = [_filled(a, spare) for a in (tokens, columns) if a is not None]
    chunks = (n + spare) // (_TILE * run)
    out = pl.pallas_call(
        partial(_moments_kernel, c=c, group=group, run=run),
        out_shape=jax.ShapeDtypeStruct((chunks, groups, 2 * group * c), tokens.dtype),
        grid=(chunks, groups),
        in_specs=[_whole(a) for a in sources],
        out_specs=pl.BlockSpec((1, 1, 2 * group * c), lambda i, g: (i, g, 0)),
        interpret=interpret,
        **_compiler(interpret, num_warps=4, num_stages=1),
    )(*sources)
    sums = jnp.sum(out, axis=0).reshape(groups, group, 2, c)
    return jnp.moveaxis(sums.reshape(groups * group, 2, c)[: modes + 1], 1, 0)


def series(
    tokens: Float[Array, "n ..."], weighed: Float[Array, "2 k c"], *, interpret: bool = False
) -> Float[Array, "c n"]:
    r"""$\sum_k P_k\cos k\theta+Q_k\sin k\theta$ for every charge."""
    n, (_, k, c) = tokens.shape[0], weighed.shape
    filled = _filled(tokens, -n % _WIDE)
    out = pl.pallas_call(
        partial(_series_kernel, c=c, modes=k - 1),
        out_shape=jax.ShapeDtypeStruct((c, filled.shape[0]), tokens.dtype),
        grid=(filled.shape[0] // _WIDE,),
        in_specs=[_whole(filled), _whole(weighed)],
        out_specs=pl.BlockSpec((c, _WIDE), lambda i: (0, i)),
        interpret=interpret,
        **_compiler(interpret, num_warps=4, num_stages=1),
    )(filled, weighed)
    return out[:, :n]


def _moments_kernel(token_ref: Any, *refs: Any, c: int, group: int, run: int) -> None:
    *column_refs, out_ref = refs
    first, which = pl.program_id(0) * run, pl.program_id(1)
    nothing = jnp.zeros((_TILE,), token_ref.dtype)

    def absorb(step: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        lanes = pl.ds((first + step) * _TILE, _TILE)
        one, x, y = _unit(token_ref, lanes)
        charges = [column_refs[0][lanes, j] for j in range(c)] if column_refs else [one]
        leap = _power(x, y, group)
        re, im = jax.lax.fori_loop(0, which, lambda _, z: _times(z, leap), (jnp.ones_like(x), jnp.zeros_like(x)))
        grown = []
        for k in range(group):
            at = 2 * c * k
            grown += [old + charge * re for old, charge in zip(sums[at : at + c], charges, strict=True)]
            grown += [old + charge * im for old, charge in zip(sums[at + c : at + 2 * c], charges, strict=True)]
            re, im = _times((re, im), (x, y))
        return tuple(grown)

    sums = jax.lax.fori_loop(0, run, absorb, (nothing,) * (2 * group * c))
    for place, each in enumerate(sums):
        out_ref[0, 0, place] = jnp.sum(each)


def _series_kernel(token_ref: Any, weight_ref: Any, out_ref: Any, *, c: int, modes: int) -> None:
    _, x, y = _unit(token_ref, pl.ds(pl.program_id(0) * _WIDE, _WIDE))

    def down(step: Array, state: tuple[tuple[Array, Array], ...]) -> tuple[tuple[Array, Array], ...]:
        k = modes - step
        return tuple(
            _times((re + weight_ref[0, k, j], im - weight_ref[1, k, j]), (x, y)) for j, (re, im) in enumerate(state)
        )

    start = ((jnp.zeros_like(x), jnp.zeros_like(x)),) * c
    for j, (re, _) in enumerate(jax.lax.fori_loop(0, modes, down, start)):
        out_ref[j, :] = re + weight_ref[0, 0, j]


def _unit(ref: Any, lanes: Any) -> tuple[Array, Array, Array]:
    """1, cosine and sine of tokens; all zero for a vector that is zero."""
    if len(ref.shape) == 1:
        angle = ref[lanes]
        return jnp.ones_like(angle), jnp.cos(angle), jnp.sin(angle)
    x, y = ref[lanes, 0], ref[lanes, 1]
    square = x * x + y * y
    inverse = jnp.where(square > 0, 1 / jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
    return jnp.where(square > 0, jnp.ones_like(x), 0), x * inverse, y * inverse


def _times(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _power(x: Array, y: Array, exponent: int) -> tuple[Array, Array]:
    """(x + iy)^exponent by squaring."""
    result, square = None, (x, y)
    while exponent:
        if exponent & 1:
            result = square if result is None else _times(result, square)
        square, exponent = _times(square, square), exponent >> 1
    assert result is not None
    return result


def _filled(a: Array, spare: int) -> Array:
    return a if not spare else jnp.pad(a, ((0, spare), *((0, 0),) * (a.ndim - 1)))


def _whole(a: Array) -> pl.BlockSpec:
    return pl.BlockSpec(a.shape, lambda *_: (0,) * a.ndim)


def _compiler(interpret: bool, **options: int) -> dict[str, Any]:
    if interpret:
        return {}
    from jax.experimental.pallas import triton

    return {"compiler_params": triton.CompilerParams(**options)}
