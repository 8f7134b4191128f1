r"""Theory beside practice: the quantities of the particle picture, read off the layers of a language model.

In that picture tokens are unit vectors $x_i$, logits are $\beta\langle x_i,x_j\rangle$ and a layer is a time step of
attention alone. Per layer of a real model:

- cosines $\langle x_i,x_j\rangle$ of the normalised residual stream (histogram, mean, clusters, participation ratio
  $1/\overline{\cos^2}$ as a rank, and $\sqrt{1-|\bar x|^2}$ as the distance from collapse), without the first token;
- the effective inverse temperature of each head: $\beta_{eff}=\mathrm{sd}(\text{logit})/\mathrm{sd}(\cos)$, the beta a
  kernel $e^{\beta\langle x_i,x_j\rangle}$ would need to spread the logits as much, and the correlation r of logits with
  cosines, which says how much of the logits such a kernel explains ($r\beta_{eff}$ is the slope of the regression).
  Logits are read from $\log\alpha$, up to a constant per row that drops out;
- the standard deviation of the logits themselves within a row, the beta of random logits;
- entropy of the attention rows relative to its largest value.

What equal inner products would do: $\dot\gamma=2(1-\gamma)((n-1)\gamma+1)/(e^{\beta(1-\gamma)}+n-1)$.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp

from sphereflow.llm.model.capture import LayerCapture
from sphereflow.observables.clusters import joined_count

BINS = 100
CLUSTER_THRESHOLD = 0.9
_QUERIES = 17
# Pairs are taken among at most so many tokens, evenly spread over the window.
_PAIR_TOKENS = 512
# Below this many visible tokens a row says nothing about a spread.
_LEAST_VISIBLE = 4


@dataclass(frozen=True)
class LayerTheory:
    """What the residual stream that enters a layer, and the attention of that layer, look like.

    After the last layer there is a state but no attention: its head arrays are empty.
    """

    mean_cosine: float
    histogram: Float[np.ndarray, " bins"]
    sink_cosine: float
    participation: float
    spread: float
    clusters: int
    step: float
    beta: Float[np.ndarray, " heads"]
    alignment: Float[np.ndarray, " heads"]
    entropy: Float[np.ndarray, " heads"]
    logit_spread: Float[np.ndarray, " heads"]


def theory_queries(length: int) -> Int[np.ndarray, " q"]:
    """Evenly spaced queries from the middle of the window to its end; the last one is the last token."""
    return np.unique(np.linspace(length // 2, length - 1, _QUERIES).astype(int))


def pair_tokens(length: int) -> Int[np.ndarray, " k"]:
    """The tokens among which pairs are taken: all but the first, or as many as can be paired, evenly spread."""
    return np.unique(np.linspace(1, length - 1, _PAIR_TOKENS).astype(int))


def layer_theory(layer: LayerCapture | None, *, state: Float[np.ndarray, "L D"] | None = None) -> LayerTheory:
    """Statistics of one layer of one document."""
    tokens = layer.state[0] if state is None and layer is not None else np.asarray(state)
    unit = tokens / np.maximum(np.linalg.norm(tokens, axis=-1, keepdims=True), 1e-30)
    paired = pair_tokens(len(unit))
    rest = unit[1:] if len(paired) == len(unit) - 1 else unit[paired]
    cosines = rest @ rest.T
    count = len(rest)
    above = _pairs(count)
    pairs = cosines.ravel()[above]
    squares = np.sum(pairs**2, dtype=float)
    histogram = np.histogram(np.clip(pairs, -1, 1), bins=BINS, range=(-1, 1))[0] / len(pairs)
    near = np.divmod(above[1 - pairs < 1 - CLUSTER_THRESHOLD], count)
    empty = np.zeros(0)
    of_heads = (empty, empty, empty, empty) if layer is None else _temperatures(layer, unit)
    beta, alignment, entropy, logit_spread = of_heads
    return LayerTheory(
        mean_cosine=float(pairs.mean(dtype=float)),
        histogram=histogram,
        sink_cosine=float((rest @ unit[0]).mean()),
        participation=float(count**2 / (np.sum(cosines.diagonal() ** 2, dtype=float) + 2 * squares)),
        spread=float(np.sqrt(max(0.0, 1 - np.sum(rest.mean(axis=0) ** 2)))),
        clusters=joined_count(count, *near),
        step=float("nan") if layer is None else layer.step,
        beta=beta,
        alignment=alignment,
        entropy=entropy,
        logit_spread=logit_spread,
    )


@functools.lru_cache(maxsize=2)
def _pairs(count: int) -> Int[np.ndarray, " pairs"]:
    """Places of all pairs i < j in a matrix that is written out as one row."""
    return np.flatnonzero(np.triu(np.ones((count, count), dtype=bool), 1))


def _temperatures(layer: LayerCapture, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(beta, correlation, relative entropy, logit spread) per head, pooled over the rows; only entropy has the sink."""
    queries, seen = layer.queries[0], layer.visible[0]
    rows = np.swapaxes(layer.rows[0], 0, 1).astype(float) * seen[:, None]  # (q, h, L)
    logs = np.log(np.where(rows > 0, rows, 1.0))
    widest = np.log(np.maximum(seen.sum(axis=-1), 2))
    entropy = np.mean(-np.einsum("qhl,qhl->qh", rows, logs) / widest[:, None], axis=0)
    others = seen.copy()
    at = np.arange(len(queries))
    others[at, seen.argmax(axis=-1)] = others[at, queries] = False
    others &= others.sum(axis=-1, keepdims=True) >= _LEAST_VISIBLE
    use = ((rows > 0) & others[:, None]).astype(float)
    logs *= use
    cosine = (unit[queries] @ unit.T).astype(float)
    # Sums over the tokens of a row that count, then squares about their means.
    powers = np.stack([np.ones_like(cosine), cosine, cosine**2], axis=-1)
    count, x, xx = np.moveaxis(use @ powers, -1, 0)
    y, xy = np.moveaxis(logs @ powers[..., :2], -1, 0)
    yy = np.einsum("qhl,qhl->qh", logs, logs)
    known = np.maximum(count, 1)
    pooled = np.stack([xx - x * x / known, xy - x * y / known, yy - y * y / known, count]).sum(axis=1)
    xx, xy, yy, count = pooled
    told = (xx > 0) & (yy > 0)
    beta = np.sqrt(np.where(told, yy, np.nan) / np.where(told, xx, 1.0))
    alignment = xy / np.sqrt(np.where(told, xx * yy, np.nan))
    spread = np.sqrt(np.where(told, yy, np.nan) / np.maximum(count, 1))
    return beta, alignment, entropy, spread


def equiangular_path(
    start: float, n: int, beta: Sequence[float], steps: Sequence[float]
) -> Float[np.ndarray, " layers"]:
    """The common cosine of equiangular tokens after each layer, from `start`, with a beta and a time step per layer.

    The equation is solved in $u=-\\log(1-\\gamma)$, in which it is smooth up to collapse.
    """
    u, path = -np.log1p(-min(max(start, -1 / n), 1 - 1e-9)), [start]
    for b, h in zip(beta, steps, strict=True):

        def speed(t: float, u: np.ndarray, b: float = b) -> np.ndarray:
            gap = np.exp(-u)
            return 2 * (n - (n - 1) * gap) / (np.exp(np.minimum(b * gap, 700.0)) + n - 1)

        u = float(solve_ivp(speed, (0.0, float(h)), [u], rtol=1e-8, atol=1e-10).y[0, -1])
        path.append(float(-np.expm1(-u)))
    return np.array(path)
