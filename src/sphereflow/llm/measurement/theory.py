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
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.integrate import solve_ivp

from sphereflow.llm.heads.arrays import beside, double, library, single, to_host, where_it_lies
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


@functools.lru_cache(maxsize=8)
def pair_tokens(length: int) -> Int[np.ndarray, " k"]:
    """The tokens among which pairs are taken: all but the first, or as many as can be paired, evenly spread."""
    return np.unique(np.linspace(1, length - 1, _PAIR_TOKENS).astype(int))


def layer_theory(layer: LayerCapture | None, *, state: Float[np.ndarray, "L D"] | None = None) -> LayerTheory:
    """Statistics of one layer of one document."""
    tokens = layer.state[0] if state is None and layer is not None else np.asarray(state)
    if layer is None:
        return theories(tokens[None])[0]
    rows = np.swapaxes(layer.rows[0], 0, 1)[None]
    return theories(tokens[None], rows, layer.visible[0], layer.queries[0], [layer.step])[0]


def theories(
    states: Float[Any, "layer L D"],
    rows: Float[Any, "layer q h L"] | None = None,
    visible: Bool[np.ndarray, "q L"] | None = None,
    queries: Int[np.ndarray, " q"] | None = None,
    steps: Sequence[float] = (),
) -> list[LayerTheory]:
    """The same for layers of the same visible tokens at once, of arrays or tensors where they lie."""
    lib = library(states)
    unit = states / lib.linalg.norm(states, axis=-1)[..., None].clip(1e-30)
    paired = pair_tokens(unit.shape[1])
    rest = unit[:, 1:] if len(paired) == unit.shape[1] - 1 else unit[:, beside(unit, paired)]
    cosines = rest @ lib.swapaxes(rest, -1, -2)
    count = rest.shape[1]
    places = _pairs(count)
    pairs = cosines.reshape(len(cosines), -1)[:, beside(unit, places)]
    exact = double(pairs)
    squares = (exact * exact).sum(axis=-1)
    diagonal = double(lib.einsum("lii->li", cosines))
    middle = double(rest.mean(axis=1))
    told = {
        "mean_cosine": exact.mean(axis=-1),
        "sink_cosine": (rest @ unit[:, 0, :, None]).mean(axis=(-2, -1)),
        "participation": count**2 / ((diagonal * diagonal).sum(axis=-1) + 2 * squares),
        "spread": lib.sqrt((1 - (middle * middle).sum(axis=-1)).clip(0)),
        "histogram": _histogram(exact),
        "clusters": components(cosines, pairs, places),
    }
    if rows is not None and visible is not None and queries is not None:
        names = ("beta", "alignment", "entropy", "logit_spread")
        told |= dict(zip(names, _temperatures(rows, visible, queries, unit), strict=True))
    else:
        told |= dict.fromkeys(("beta", "alignment", "entropy", "logit_spread"), np.zeros((len(unit), 0)))
    tables = {name: to_host(each) for name, each in told.items()}
    return [
        LayerTheory(
            mean_cosine=float(tables["mean_cosine"][k]),
            histogram=tables["histogram"][k],
            sink_cosine=float(tables["sink_cosine"][k]),
            participation=float(tables["participation"][k]),
            spread=float(tables["spread"][k]),
            clusters=int(tables["clusters"][k]),
            step=float(steps[k]) if len(steps) else float("nan"),
            beta=tables["beta"][k],
            alignment=tables["alignment"][k],
            entropy=tables["entropy"][k],
            logit_spread=tables["logit_spread"][k],
        )
        for k in range(len(unit))
    ]


@functools.lru_cache(maxsize=2)
def _pairs(count: int) -> Int[np.ndarray, " pairs"]:
    """Places of all pairs i < j in a matrix that is written out as one row, by rising i."""
    return np.flatnonzero(np.triu(np.ones((count, count), dtype=bool), 1))


def _histogram(numbers: Float[Any, "layer pairs"]) -> Float[Any, "layer bins"]:
    """Shares of numbers in bins of equal width from -1 to 1; what rounding puts outside is in the outermost."""
    lib, inside = library(numbers), numbers.clip(-1, 1)
    if lib is np:
        counts = np.stack([np.histogram(row, BINS, (-1.0, 1.0))[0] for row in inside])
    else:
        counts = lib.stack([lib.histc(row, BINS, -1.0, 1.0) for row in inside])
    return counts / numbers.shape[1]


def _temperatures(
    rows: Float[Any, "layer q h L"], visible: np.ndarray, queries: np.ndarray, unit: Float[Any, "layer L D"]
) -> tuple[Any, Any, Any, Any]:
    """(beta, correlation, relative entropy, logit spread) per head, pooled over the rows; only entropy has the sink."""
    lib = library(rows)
    others = visible.copy()
    at = np.arange(len(queries))
    others[at, visible.argmax(axis=-1)] = others[at, queries] = False
    others &= others.sum(axis=-1, keepdims=True) >= _LEAST_VISIBLE
    seen, counted = (beside(rows, each.astype(float)[:, None]) for each in (visible, others))
    widest = beside(rows, np.log(np.maximum(visible.sum(axis=-1), 2))[:, None])
    exact = double(rows) * seen
    logs = lib.log(lib.where(exact > 0, exact, 1.0))
    entropy = (-(exact * logs).sum(axis=-1) / widest).mean(axis=1)
    use = double(exact > 0) * counted
    logs = logs * use
    cosine = double(unit[:, beside(unit, queries)] @ lib.swapaxes(unit, -1, -2))
    # Sums over the tokens of a row that count, then squares about their means.
    powers = lib.stack([lib.ones_like(cosine), cosine, cosine * cosine], axis=-1)
    sums, products = use @ powers, logs @ powers[..., :2]
    count, x, xx = (sums[..., k] for k in range(3))
    y, xy = (products[..., k] for k in range(2))
    yy = (logs * logs).sum(axis=-1)
    known = count.clip(1)
    about = (xx - x * x / known, xy - x * y / known, yy - y * y / known, count)
    xx, xy, yy, count = (each.sum(axis=1) for each in about)
    told = (xx > 0) & (yy > 0)
    beta = lib.sqrt(lib.where(told, yy, np.nan) / lib.where(told, xx, 1.0))
    alignment = xy / lib.sqrt(lib.where(told, xx * yy, np.nan))
    spread = lib.sqrt(lib.where(told, yy, np.nan) / count.clip(1))
    return beta, alignment, entropy, spread


def components(cosines: Any, pairs: Any, places: np.ndarray) -> Any:
    """The number of clusters of each layer: connected components of tokens joined where cosines pass the threshold."""
    if where_it_lies(cosines) != "cpu":
        return joined_counts(cosines)
    count = cosines.shape[-1]
    near = to_host(1 - pairs < 1 - CLUSTER_THRESHOLD)
    return np.array([joined_count(count, *np.divmod(places[row], count)) for row in near])


def joined_counts(cosines: Any) -> Any:
    """The same on a card: squares of the matrix of joined pairs, until every token reaches all of its component.

    Single steps of a graph search would each wait for the processor; the number of squares is known beforehand.
    """
    lib = library(cosines)
    count = cosines.shape[-1]
    joined = 1 - cosines < 1 - CLUSTER_THRESHOLD
    joined = joined | lib.swapaxes(joined, -1, -2) | (beside(cosines, np.eye(count, dtype=bool)))
    for _ in range(max(1, (count - 1).bit_length())):
        reached = single(joined)
        joined = reached @ reached > 0.5
    # A component is counted at its first token, which reaches none before it.
    earlier = joined & beside(cosines, np.tri(count, k=-1, dtype=bool))
    return (~earlier.any(axis=-1)).sum(axis=-1)


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
