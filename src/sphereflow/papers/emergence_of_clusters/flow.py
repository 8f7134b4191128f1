r"""What the experiments of this paper share: starts without a seed, matrices, and one compiled program for all.

The experiments are small and many, and compiling a solver takes longer than running it. So every one of them is
filled up to the same shape: with massless copies of the first token, which nobody sees, with coordinates on which V
and the tokens are zero, and with further saved times. None of this changes the tokens that were asked for.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import EuclideanAttention, RescaledAttention
from sphereflow.errors import SphereflowError
from sphereflow.evolution import evolve

_TOKENS, _DIMENSIONS, _TIMES = 25, 3, 65

# The value matrices of the figures. The first is not symmetric and has the eigenvalues 1.348 and -0.068; the second
# is symmetric with 1.963, 0.253 and -0.222.
PLANAR = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
TWO_POSITIVE = np.array(
    [[0.92761287, 0.94333073, 0.3827744], [0.94333073, 0.59991396, 0.47825472], [0.3827744, 0.47825472, 0.46668605]]
)


def start(n: int, d: int, size: float) -> Float[np.ndarray, "n d"]:
    r"""$S(n,d,s)$: tokens $x_{ik} = s\sin(1.7i + 2.9k + 0.5ik + 1)$, spread out and the same on every machine."""
    i, k = np.arange(n)[:, None], np.arange(d)[None, :]
    return size * np.sin(1.7 * i + 2.9 * k + 0.5 * i * k + 1)


def cross_polytope(d: int) -> Float[np.ndarray, "n d"]:
    """The 2d tokens e_1, -e_1, e_2, ..."""
    return np.kron(np.eye(d), np.array([[1.0], [-1.0]]))


def rescaled(
    x0: Float[np.ndarray, "n d"],
    times: Sequence[float] | np.ndarray,
    *,
    value: np.ndarray | None = None,
    query: np.ndarray | None = None,
    key: np.ndarray | None = None,
    tol: float = 1e-11,
) -> Float[np.ndarray, "T n d"]:
    """Rescaled tokens z = exp(-tV) x at the given times, the first of which is the start; None is the identity."""
    return _run(x0, times, value, query, key, tol, in_z=True)


def original(
    x0: Float[np.ndarray, "n d"],
    times: Sequence[float] | np.ndarray,
    *,
    value: np.ndarray | None = None,
    query: np.ndarray | None = None,
    key: np.ndarray | None = None,
    tol: float = 1e-11,
) -> Float[np.ndarray, "T n d"]:
    """Tokens x at the given times, the first of which is the start; None is the identity."""
    return _run(x0, times, value, query, key, tol, in_z=False)


def attention(
    x: Float[np.ndarray, "n d"], *, query: np.ndarray | None = None, key: np.ndarray | None = None
) -> Float[np.ndarray, "n n"]:
    """The attention matrix P of tokens x (not rescaled)."""
    n, d = x.shape
    matrix = _model(n, d, None, query, key).attention_matrix(0.0, jnp.asarray(_filled(x)))
    return np.asarray(matrix)[:n, :n]


def _run(
    x0: np.ndarray,
    times: Sequence[float] | np.ndarray,
    value: np.ndarray | None,
    query: np.ndarray | None,
    key: np.ndarray | None,
    tol: float,
    *,
    in_z: bool,
) -> np.ndarray:
    n, d = x0.shape
    model = _model(n, d, value, query, key)
    dense = _refined(times)
    run = evolve(RescaledAttention(model, _DIMENSIONS) if in_z else model, _filled(x0), saveat=dense, tol=tol)
    if not run.status.complete:
        raise SphereflowError(f"the experiment stopped early: {run.status.value}")
    return np.asarray(run.xs)[np.searchsorted(dense, times), :n, :d]


def _model(
    n: int, d: int, value: np.ndarray | None, query: np.ndarray | None, key: np.ndarray | None
) -> EuclideanAttention:
    masses = np.repeat([1 / n, 0.0], [n, _TOKENS - n])
    return EuclideanAttention(_widened(value, d), query=_widened(query, d), key=_widened(key, d), weights=masses)


def _filled(x: np.ndarray) -> np.ndarray:
    """The tokens, then copies of the first one; the coordinates, then zeros."""
    n, d = x.shape
    tokens = np.zeros((_TOKENS, _DIMENSIONS))
    tokens[:n, :d], tokens[n:, :d] = x, x[0]
    return tokens


def _widened(matrix: np.ndarray | None, d: int) -> np.ndarray:
    wide = np.zeros((_DIMENSIONS, _DIMENSIONS))
    wide[:d, :d] = np.eye(d) if matrix is None else matrix
    return wide


def _refined(times: Sequence[float] | np.ndarray) -> np.ndarray:
    """The given times and midpoints between them, widest gap first, until there are _TIMES of them."""
    gaps = [(-(b - a), a, b) for a, b in itertools.pairwise(times)]
    heapq.heapify(gaps)
    while len(gaps) < _TIMES - 1:
        _, a, b = heapq.heappop(gaps)
        middle = (a + b) / 2
        heapq.heappush(gaps, (a - middle, a, middle))
        heapq.heappush(gaps, (middle - b, middle, b))
    return np.sort([float(times[0]), *(b for _, _, b in gaps)])
