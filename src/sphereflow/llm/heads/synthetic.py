r"""Heads made by hand, whose answers are known.

The synthetic head with a sink: $L-1$ tokens of unit norm that decorrelate like $e^{-\lambda|i-j|}$, weights of which
.4 lie on the sink, .4 on the last tokens, .2 on a rough background, and a sink $v_0=\kappa(ce+\sqrt{1-c^2}w)$, where e
is the direction of $\sum_{i\ge1}\alpha_iv_i$ and w a random unit vector orthogonal to it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.signal import lfilter

from sphereflow.numerics.unit_vectors import unit

SINK_MASS, RECENT_MASS, BACKGROUND_MASS = 0.4, 0.4, 0.2
_RECENCY = 10.0
_RECENT_ROUGHNESS, _BACKGROUND_ROUGHNESS = 0.5, 1.5


def power_law(length: int) -> Float[np.ndarray, " L"]:
    r"""$\alpha_i\propto1/i$, i = 1..L."""
    weights = 1 / np.arange(1, length + 1)
    return weights / weights.sum()


def geometric(length: int, ratio: float = 0.9) -> Float[np.ndarray, " L"]:
    r"""$\alpha_i\propto q^i$, i = 1..L."""
    weights = ratio ** np.arange(1.0, length + 1)
    return weights / weights.sum()


def random_directions(rng: np.random.Generator, *shape: int) -> Float[np.ndarray, "*shape"]:
    """Independent uniform unit vectors; the last axis holds the coordinates."""
    return unit(rng.standard_normal(shape))


def sink_heads(
    rng: np.random.Generator,
    heads: int,
    *,
    decay: float,
    compression: float,
    cosine: float,
    length: int = 1024,
    d: int = 128,
) -> tuple[Float[np.ndarray, "heads L"], Float[np.ndarray, "heads L d"]]:
    """Weights and values of independent synthetic heads; `cosine` is that of the sink with the sum of all *others*."""
    noise = rng.standard_normal((heads, length - 1, d))
    noise[:, 1:] *= np.sqrt(-np.expm1(-2 * decay))
    walk = lfilter([1.0], [1.0, -np.exp(-decay)], noise, axis=1)
    v = unit(walk)
    age = np.arange(length - 2, -1, -1.0)
    recent = np.exp(-age / _RECENCY + _RECENT_ROUGHNESS * rng.standard_normal((heads, length - 1)))
    background = np.exp(_BACKGROUND_ROUGHNESS * rng.standard_normal((heads, length - 1)))
    rest = RECENT_MASS * recent / recent.sum(axis=1, keepdims=True)
    rest += BACKGROUND_MASS * background / background.sum(axis=1, keepdims=True)
    e = unit(np.einsum("hl,hld->hd", rest, v))
    w = rng.standard_normal((heads, d))
    w -= np.sum(w * e, axis=-1, keepdims=True) * e
    w = unit(w)
    sink = compression * (cosine * e + np.sqrt(1 - cosine**2) * w)
    weights = np.concatenate([np.full((heads, 1), SINK_MASS), rest], axis=1)
    return weights, np.concatenate([sink[:, None], v], axis=1)


def textbook_heads(length: int = 64) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Four heads with orthonormal values: a retriever, a mixer, a reset head, and one with a single non-zero weight."""
    basis = np.eye(length)
    few = np.zeros(length)
    chosen = [20, 30, 40, 50]
    others = np.setdiff1d(np.arange(length), chosen)
    falling = np.arange(len(others), 0, -1.0)
    few[others] = 0.1 * falling / falling.sum()
    few[chosen] = 0.4, 0.25, 0.15, 0.1
    uniform = np.full(length, 1 / length)
    sunk = np.full(length, 0.1 / (length - 1))
    sunk[0] = 0.9
    short_sink = basis.copy()
    short_sink[0] *= 0.1
    single = np.zeros(length)
    single[30] = 1.0
    return {
        "retriever": (few, basis),
        "mixer": (uniform, basis),
        "reset": (sunk, short_sink),
        "single": (single, basis),
    }
