r"""The exact flow of pieces of a ReLU perceptron, many points at a time.

One piece $x'=w\,(a\cdot x+b)_+$ for a time $\tau$, with $\lambda=a\cdot w$ and $s=a\cdot x+b$:

$$s\le0:\ \phi(x)=x,\quad \log\det D\phi=0;\qquad s>0:\ \phi(x)=x+w\,s\,\frac{e^{\lambda\tau}-1}{\lambda},\quad
\log\det D\phi=\lambda\tau,$$

because $s'=\lambda s_+$ never changes sign. Nothing is stepped in time.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.shapes import AnyArray

# Blocks of this many points stay in the nearest cache while all pieces pass over them.
_BLOCK = 2048
# Below this many points times pieces a plain loop is done before a compiler would be.
_WORTH_COMPILING = 3_000_000


def gain(rate: Any, tau: Any) -> Any:
    r"""$E(\lambda,\tau)=(e^{\lambda\tau}-1)/\lambda$, and $\tau$ at $\lambda=0$, without cancellation in between."""
    xp = jnp if isinstance(rate, jax.Array) or isinstance(tau, jax.Array) else np
    z = rate * tau
    small = xp.abs(z) < 1e-5
    safe = xp.where(small, 1.0, z)
    return tau * xp.where(small, 1 + z / 2 + z * z / 6, xp.expm1(safe) / safe)


def carry(w: Any, a: Any, b: Any, tau: Any, x: Any) -> tuple[Float[AnyArray, "n d"], Float[AnyArray, " n"]]:
    """Points and their log-determinants after all pieces, for x of shape (n, d).

    Numbers go in blocks over the processor cores (few of them through a plain loop) and come back as NumPy arrays;
    traced values, inside jit or grad, go through in one block.
    """
    rate = (a * w).sum(axis=1)
    pieces = (w * gain(rate, tau)[:, None], a, b, rate * tau)
    if any(isinstance(v, jax.core.Tracer) for v in (w, a, b, tau, x)):
        moved, log_det = _through(tuple(jnp.asarray(p) for p in pieces), jnp.asarray(x).T)
        return moved.T, log_det
    numbers = tuple(np.asarray(p, dtype=float) for p in pieces)
    points = np.asarray(x, dtype=float)
    worth = len(b) * len(points) > _WORTH_COMPILING
    return _in_blocks(numbers, points) if worth else _in_a_loop(numbers, points)


def _in_a_loop(pieces: tuple[np.ndarray, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    moved, log_det = x.T, np.zeros(len(x))
    for piece in zip(*pieces, strict=True):
        moved, log_det = _one_piece(np, moved, log_det, *piece)
    return moved.T, log_det


def _in_blocks(pieces: tuple[np.ndarray, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks small enough for the cache, shared among the cores: several threads call one compiled program."""
    n, d = x.shape
    padded = tuple(_padded(p, _roomy(len(p))) for p in pieces)
    size = min(_BLOCK, _roomy(n))
    blocks = _padded(x, -(-n // size) * size).reshape(-1, size, d).transpose(0, 2, 1)
    share = _roomy(-(-len(blocks) // _cores()))
    parts = [_padded(blocks[i : i + share], share) for i in range(0, len(blocks), share)]
    with ThreadPoolExecutor(_cores()) as pool:
        done = list(pool.map(lambda part: jax.block_until_ready(_blocks(padded, part)), parts))
    moved, log_det = (np.concatenate([np.asarray(part[i]) for part in done]) for i in range(2))
    return np.ascontiguousarray(moved.transpose(0, 2, 1)).reshape(-1, d)[:n], log_det.reshape(-1)[:n]


def _one_piece(xp: Any, x: Any, log_det: Any, step: Any, a: Any, b: Any, stretch: Any) -> tuple[Any, Any]:
    """The formula at the top of this file, for x of shape (d, n), with step = w E."""
    s = (a[:, None] * x).sum(axis=0) + b
    return x + step[:, None] * xp.maximum(s, 0.0), log_det + xp.where(s > 0, stretch, 0.0)


def _through(pieces: tuple[Array, ...], x: Float[Array, "d n"]) -> tuple[Float[Array, "d n"], Float[Array, " n"]]:
    def one(state: tuple[Array, Array], piece: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        return _one_piece(jnp, *state, *piece), None

    return jax.lax.scan(one, (x, jnp.zeros(x.shape[1], x.dtype)), pieces)[0]


@jax.jit
def _blocks(pieces: tuple[Array, ...], x: Float[Array, "m d n"]) -> tuple[Float[Array, "m d n"], Float[Array, "m n"]]:
    return jax.lax.map(lambda block: _through(pieces, block), x)


def _cores() -> int:
    return os.cpu_count() or 1


def _roomy(count: int) -> int:
    """The least number >= count of the form m 2^k with m from 8 to 15: few shapes to compile, little wasted."""
    step = 1 << max(count.bit_length() - 4, 0)
    return max(-(-count // step) * step, 8 if count > 1 else 1)


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    """Zeros at the end of the first axis: pieces that move nothing, or points that nobody asked for."""
    short = length - len(array)
    return np.pad(array, [(0, short)] + [(0, 0)] * (array.ndim - 1)) if short else array
