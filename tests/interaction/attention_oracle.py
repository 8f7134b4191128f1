"""Attention as one log-sum-exp over the whole matrix in NumPy, in extended precision where the machine has it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from sphereflow.interaction import Alibi, Causal, Mask, PositionWeights

BLOCK = 4  # small blocks, so that small problems cross many block boundaries

MASKS = ("none", "causal", "strict", "alibi", "table")
_TABLE = np.random.default_rng(5).normal(size=(64, 64))


@cache  # the same object each time, so that nothing is compiled twice
def make_mask(kind: str) -> Mask | None:
    """One mask of each kind that the package knows."""
    table = jnp.asarray(_TABLE)
    return {
        "none": None,
        "causal": Causal(),
        "strict": Causal(strict=True),
        "alibi": Alibi(jnp.asarray(0.3)),
        "table": PositionWeights(lambda i, j: table[i, j]),
    }[kind]


def log_p(kind: str, m: int, n: int, slope: float = 0.3) -> np.ndarray:
    """The same mask as a matrix, written out independently."""
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    zero = np.zeros((m, n))
    return {
        "none": zero,
        "causal": np.where(j <= i, 0, -np.inf),
        "strict": np.where(j < i, 0, -np.inf),
        "alibi": np.where(j <= i, -slope * (i - j), -np.inf),
        "table": _TABLE[:m, :n],
    }[kind]


def attention(q: Any, k: Any, v: Any, beta: float, w: Any, log_p: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Average and log Z of every row, by log-sum-exp over the whole matrix."""
    q, k, v, w, beta = (np.asarray(x, np.longdouble) for x in (q, k, v, w, beta))
    with np.errstate(divide="ignore"):
        logits = beta * ((q[:, None, :] * k[None, :, :]).sum(-1) - 1) + np.log(w) + log_p
    top = logits.max(axis=1, keepdims=True)
    terms = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = terms.sum(axis=1, keepdims=True)
    safe = np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        log_z = np.where(total > 0, np.log(safe) + top, -np.inf)[:, 0]
    return np.asarray((terms / safe) @ v, float), np.asarray(log_z, float)


def unit(rng: np.random.Generator, n: int, d: int, dtype: Any = np.float64) -> np.ndarray:
    """n uniform points of the sphere."""
    x = rng.normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)


def tolerance(beta: float, dtype: Any) -> float:
    """What rounding allows: an inner product is known to a few eps, its score to beta times that."""
    return float(np.finfo(dtype).eps) * (32 + 8 * beta)
