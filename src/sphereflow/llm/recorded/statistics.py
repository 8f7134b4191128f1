r"""What a recording keeps of one layer of one document.

Residual stream, with unit vectors $u_i=x_i/|x_i|$ of all tokens but the first: mean cosine of pairs, histogram,
connected components at cosine .9, and effective rank $e^{H}$, H the entropy of the normalised eigenvalues of the Gram
matrix; each also for centred vectors, $u_i-\bar u$ made unit again (a common direction raises the cosines of all pairs
without any cluster). At most 512 tokens are paired.

Attention rows $\alpha_{ti}$ at chosen queries t, averaged over these: weight on the first token, $e^{H}$ and
$1/\sum\alpha^2$ as numbers of tokens, weight on t itself and on the eight nearest tokens, mean distance, mean weight by
distance (the first token apart from the last three), separation of the N largest, and effective beta. At two of the
queries also the separation that independent values would have with the same weights (`llm.heads.envelopes`), their
directions filling the width of the head or its effective dimension, beside the measured one at the same two.

Values: norms, and mean cosine by distance. Nothing here grows like the square of the length.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from sphereflow.llm.heads.assumptions import fit_norms, mean_cosines
from sphereflow.llm.heads.envelopes import effective_dimension, expected_recall_precision
from sphereflow.llm.heads.geometry import separations, without_sink
from sphereflow.llm.heads.regimes import head_features
from sphereflow.llm.measurement.theory import CLUSTER_THRESHOLD, layer_theory, pair_tokens
from sphereflow.llm.model.capture import LayerCapture
from sphereflow.observables.clusters import cluster_count

STREAM = (
    "mean_cosine",
    "sink_cosine",
    "clusters",
    "rank",
    "centred_cosine",
    "centred_clusters",
    "centred_rank",
    "first_norm",
    "median_norm",
    "largest_norm",
    "step",
)
_GEOMETRY = (
    "effective_number",
    "entropy_number",
    "sink_mass",
    "sink_cosine",
    "sink_output_cosine",
    "sink_others_cosine",
    "last_output_cosine",
    "output_ratio",
    "compression",
    "sink_selected",
    "sink_recalled",
)
_ROWS = ("self_mass", "near_mass", "end_mass", "mean_distance")
_THEORY = ("beta", "alignment", "logit_spread")
HEADS = (*_GEOMETRY, *_ROWS, *_THEORY)
METRICS = ("precision", "recall", "f")
ENVELOPES = ("precision", "recall", "width_precision", "width_recall", "effective_precision", "effective_recall")
NEAR = 8
_LAGS, _DISTANCE_BINS, _POSITIONS = 24, 12, 32
_LONGEST_LAG = 64

Numbers = dict[str, np.ndarray]


def lags(length: int) -> Int[np.ndarray, " k"]:
    """Distances at which cosines of values are averaged, denser at the short ones."""
    return np.unique(np.geomspace(1, min(_LONGEST_LAG, length - 2), _LAGS).round().astype(int))


def distance_edges(length: int) -> Int[np.ndarray, " k"]:
    """Edges of the bins of distance, geometric; the query itself is the first bin alone."""
    return np.concatenate([[0], np.unique(np.geomspace(1, length, _DISTANCE_BINS + 1).round().astype(int))])


def norm_positions(length: int) -> Int[np.ndarray, " k"]:
    """Positions whose values' norms are kept: the first one, and others evenly spread."""
    return np.unique(np.concatenate([[0], np.linspace(1, length - 1, _POSITIONS).astype(int)]))


def stream_numbers(state: Float[np.ndarray, "L D"], layer: LayerCapture | None) -> tuple[Numbers, np.ndarray, Numbers]:
    """(numbers of the residual stream, histogram of cosines, temperatures per head) of one layer or the final state."""
    state = np.asarray(state, dtype=float)
    theory = layer_theory(layer, state=state)
    norms = np.linalg.norm(state, axis=-1)
    rest = state[pair_tokens(len(state))]
    unit = _unit(rest)
    centred = _unit(unit - unit.mean(axis=0))
    found = {
        "mean_cosine": theory.mean_cosine,
        "sink_cosine": theory.sink_cosine,
        "clusters": theory.clusters,
        "rank": _rank(unit),
        "centred_cosine": _mean_cosine(centred),
        "centred_clusters": cluster_count(centred, CLUSTER_THRESHOLD),
        "centred_rank": _rank(centred),
        "first_norm": norms[0],
        "median_norm": np.median(norms[1:]),
        "largest_norm": norms[1:].max(),
        "step": theory.step,
    }
    return (
        {name: np.asarray(found[name], dtype=np.float32) for name in STREAM},
        theory.histogram,
        {name: getattr(theory, name) for name in _THEORY},
    )


def attention_numbers(
    layer: LayerCapture, sizes: Sequence[int], edges: Int[np.ndarray, " k"], bidirectional: bool
) -> tuple[Numbers, Float[np.ndarray, "h bins"], Numbers]:
    """(features, weight by distance, separation of the N largest with and without the sink), means over queries.

    A query that does not see the first token says nothing about it; sizes beyond what is visible are NaN.
    """
    features: dict[str, list[np.ndarray]] = {name: [] for name in (*_GEOMETRY, *_ROWS)}
    metrics: dict[str, list[np.ndarray]] = {name: [] for name in METRICS}
    weight, count = np.zeros((layer.heads, len(edges) - 1)), np.zeros(len(edges) - 1)
    for q, query in enumerate(layer.queries[0]):
        seen = np.flatnonzero(layer.visible[0, q])
        alpha, values = (part.astype(float) for part in layer.head_rows(0, q))
        sees_sink = bool(seen[0] == 0)
        table = np.full((3, layer.heads, 2, len(sizes)), np.nan)
        for sink in range(2):
            left, kept = without_sink(alpha, values) if sink and sees_sink else (alpha, values)
            fitting = [n for n in sizes if n < left.shape[-1]]
            if fitting:
                found = separations(left, kept, fitting, distances=("euclidean",))["euclidean"]
                for k, name in enumerate(METRICS):
                    table[k, :, sink, : len(fitting)] = getattr(found, name)
        for k, name in enumerate(METRICS):
            metrics[name].append(table[k])
        # The scores at four tokens are not kept: those of all sizes are.
        unused = np.zeros(layer.heads)
        known = head_features(alpha, values, (unused, unused, unused), sees_sink=sees_sink)
        others = seen > 0
        away = np.abs(seen - query)
        rest = alpha * others
        total = rest.sum(axis=-1)
        known |= {
            "self_mass": alpha[:, seen == query].sum(axis=-1),
            "near_mass": rest[:, away < NEAR].sum(axis=-1),
            "end_mass": alpha[:, -1] if bidirectional else np.full(layer.heads, np.nan),
            "mean_distance": np.where(total > 0, rest @ away / np.where(total > 0, total, 1.0), np.nan),
        }
        for name, rows in features.items():
            rows.append(known[name])
        bins = np.searchsorted(edges, away, side="right") - 1
        np.add.at(weight.T, bins[others], alpha[:, others].T)
        np.add.at(count, bins[others], 1)
    profile = np.where(count > 0, weight / np.maximum(count, 1), np.nan)
    return _means(features), profile, _means(metrics)


def envelope_numbers(layer: LayerCapture, sizes: Sequence[int], wanted: bool = True) -> Numbers:
    """Precision and recall, measured and as independent values would have them, with and without the sink: (h, 2, N).

    Means over the middle and the last query. Both laws take the measured weights; "width" takes the width of the head
    for the dimension, "effective" that of the visible values without the sink. All NaN if not `wanted`.
    """
    if not wanted:
        return {name: np.full((layer.heads, 2, len(sizes)), np.nan) for name in ENVELOPES}
    last = layer.queries.shape[1] - 1
    rows: dict[str, list[np.ndarray]] = {name: [] for name in ENVELOPES}
    for q in sorted({last // 2, last}):
        sees_sink = bool(layer.visible[0, q].argmax() == 0)
        alpha, values = (part.astype(float) for part in layer.head_rows(0, q))
        groups = layer.heads // layer.values.shape[1]
        own = np.repeat(effective_dimension(values[::groups, int(sees_sink) :]), groups)
        table = {name: np.full((layer.heads, 2, len(sizes)), np.nan) for name in ENVELOPES}
        for sink in range(2):
            left, kept = without_sink(alpha, values) if sink and sees_sink else (alpha, values)
            fitting = [n for n in sizes if n < left.shape[-1]]
            if not fitting:
                continue
            found = separations(left, kept, fitting, distances=("euclidean",))["euclidean"]
            for name in ("precision", "recall"):
                table[name][:, sink, : len(fitting)] = getattr(found, name)
            for head, weights in enumerate(left):
                for name, d in (("width", values.shape[-1]), ("effective", float(own[head]))):
                    recall, precision = expected_recall_precision(weights, fitting, d)
                    table[f"{name}_recall"][head, sink, : len(fitting)] = recall
                    table[f"{name}_precision"][head, sink, : len(fitting)] = precision
        for name, found_rows in rows.items():
            found_rows.append(table[name])
    return _means(rows)


def value_numbers(values: Float[np.ndarray, "g L d"]) -> tuple[Numbers, np.ndarray, np.ndarray]:
    """(variation of norms and effective dimension, norms at some positions, mean cosines by distance) of each group."""
    values = np.asarray(values, dtype=float)
    length = values.shape[1]
    chosen = lags(length)
    found = {
        "norm_variation": fit_norms(values).variation,
        "norm_median": fit_norms(values).median,
        "effective_dimension": effective_dimension(values[:, 1:]),
    }
    norms = np.linalg.norm(values[:, norm_positions(length)], axis=-1)
    return found, norms, mean_cosines(values, int(chosen[-1]))[:, chosen - 1]


def _means(rows: dict[str, list[np.ndarray]]) -> Numbers:
    """Means over the queries that know the number; NaN where none does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN, as it should be
        return {name: np.nanmean(np.stack(found), axis=0) for name, found in rows.items()}


def _unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-30))


def _mean_cosine(unit: np.ndarray) -> float:
    """Of all pairs of rows."""
    n = len(unit)
    return float((np.sum(unit.sum(axis=0) ** 2) - np.sum(unit**2)) / (n * (n - 1)))


def _rank(unit: np.ndarray) -> float:
    """$e^H$ of the eigenvalues of the Gram matrix, scaled to sum one."""
    small = unit if unit.shape[0] >= unit.shape[1] else unit.T
    share = np.maximum(np.linalg.eigvalsh(small.T @ small), 0.0)
    share = share / share.sum()
    return float(np.exp(-np.sum(share * np.log(np.where(share > 0, share, 1.0)))))
