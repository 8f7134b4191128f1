r"""Retriever, Mixer, Reset: what a head does with the sink and with its few largest weights.

Features at one query: sink mass $\alpha_0$, effective number $n_{eff}=1/\sum\alpha_i^2$, $P_4,R_4,F_4$, cosines of the
sink with $s_4$, with the output z and with the output of all others, cosine of the last value with z, output ratio
$|z|/\mathrm{med}_{i\ge1}|v_i|$ and compression $\kappa=|v_0|/\mathrm{med}_{i\ge1}|v_i|$. A selected sink is recalled
(closer to $s_4$ than every unselected token) about when its cosine with $s_4$ passes the bar $\alpha_0|v_0|/2|s_4|$.
The rule, with thresholds that can be set:

1. Reset: $\alpha_0\ge.5$ and output ratio $\le.5$ (the mass sits on a short value: the head writes almost nothing);
2. Retriever: not Reset, $F_4\ge.6$ and $n_{eff}\le16$ (few tokens carry the output, and they are separable);
3. Mixer: everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.llm.heads.arrays import beside, double, library, median, rising
from sphereflow.llm.heads.geometry import separation
from sphereflow.seeds import Seed, rng_from

REGIMES = ("retriever", "mixer", "reset")
FEATURES = (
    "sink_mass",
    "effective_number",
    "entropy_number",
    "precision4",
    "recall4",
    "f4",
    "sink_cosine",
    "sink_output_cosine",
    "sink_others_cosine",
    "last_output_cosine",
    "output_ratio",
    "compression",
    "sink_selected",
    "sink_bar",
    "sink_recalled",
)
# What can be said only of heads that see the first token of the document: a sliding window may end before it.
SINK_FEATURES = (
    "sink_mass",
    "sink_cosine",
    "sink_output_cosine",
    "sink_others_cosine",
    "compression",
    "sink_selected",
    "sink_bar",
    "sink_recalled",
)
# What the unsupervised variant looks at: one of each kind, the effective number on a logarithmic scale.
_CLUSTERED = ("sink_mass", "effective_number", "f4", "sink_cosine", "last_output_cosine", "output_ratio", "compression")

_TINY = 1e-300


@dataclass(frozen=True)
class Thresholds:
    """The numbers of the rule."""

    sink_mass: float = 0.5
    output_ratio: float = 0.5
    f4: float = 0.6
    effective_number: float = 16.0


def head_features(
    weights: Float[np.ndarray, "*heads L"],
    values: Float[np.ndarray, "*shared L d"],
    scores: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    *,
    sees_sink: bool = True,
) -> dict[str, Float[np.ndarray, "*heads"]]:
    """The features of heads at one query; the sink is the first token. Shared values may have an axis of length one.

    `scores` are (P_4, R_4, F_4) if they are known already; both medians leave the sink out. Without `sees_sink` the
    first token here is an ordinary one, and what is said of the sink is NaN.
    """
    weights, values = np.asarray(weights, dtype=float), np.asarray(values, dtype=float)
    if scores is None:
        size = min(4, weights.shape[-1] - 1)
        scores = separation(weights, values, (size,)).at(size)
    shared = weights.ndim > 1 and values.shape[:-2] == (*weights.shape[:-2], 1)
    if shared:
        return grouped_features(weights, values[..., 0, :, :], scores, sees_sink=sees_sink)
    one = tuple(each[..., None] for each in scores)
    found = grouped_features(weights[..., None, :], values, one, sees_sink=sees_sink)
    return {name: each[..., 0] for name, each in found.items()}


def grouped_features(
    weights: Float[Any, "*g r L"],
    values: Float[Any, "*g L d"],
    scores: tuple[Any, ...],
    *,
    sees_sink: bool = True,
) -> dict[str, Float[Any, "*g r"]]:
    """The same where r heads share each values, of arrays or tensors in double precision, where they lie."""
    lib = library(weights)
    size = min(4, weights.shape[-1] - 1)
    precision, recall, f = scores
    order = rising(-weights)[..., :size]
    selected = (order[..., None] == beside(order, np.arange(weights.shape[-1]))).any(axis=-2)
    chosen, output = (selected * weights) @ values, weights @ values
    norms = _length(values)[..., None, :]
    sink, length = values[..., None, 0, :], _length(chosen).clip(_TINY)
    typical = median(norms[..., int(sees_sink) :]).clip(_TINY)
    logs = lib.log(lib.where(weights > 0, weights, 1.0))
    # The first token is recalled if it is closer to the sum of the selected than every unselected token.
    z = (weights * norms) ** 2 - 2 * weights * (chosen @ lib.swapaxes(values, -1, -2))
    nearest = z[..., 0] < lib.amin(lib.where(selected, np.inf, z), axis=-1)
    found = {
        "sink_mass": weights[..., 0],
        "effective_number": 1 / (weights * weights).sum(axis=-1),
        "entropy_number": lib.exp(-(weights * logs).sum(axis=-1)),
        "precision4": precision,
        "recall4": recall,
        "f4": f,
        "sink_cosine": _cosine(sink, chosen),
        "sink_output_cosine": _cosine(sink, output),
        "sink_others_cosine": _cosine(sink, output - weights[..., :1] * sink),
        "last_output_cosine": _cosine(values[..., None, -1, :], output),
        "output_ratio": _length(output) / typical,
        "compression": norms[..., 0] / typical,
        "sink_selected": double(selected[..., 0]),
        "sink_bar": weights[..., 0] * norms[..., 0] / (2 * length),
        "sink_recalled": double(selected[..., 0] & nearest),
    }
    if not sees_sink:
        found |= {name: lib.full_like(weights[..., 0], np.nan) for name in SINK_FEATURES}
    return {name: lib.broadcast_to(each, weights.shape[:-1]) for name, each in found.items()}


def regimes(features: Mapping[str, np.ndarray], thresholds: Thresholds | None = None) -> Int[np.ndarray, "*heads"]:
    """The regime of each head by the rule, as an index into `REGIMES`; one that sees no sink is no Reset."""
    limit = thresholds or Thresholds()
    reset = (features["sink_mass"] >= limit.sink_mass) & (features["output_ratio"] <= limit.output_ratio)
    retriever = (features["f4"] >= limit.f4) & (features["effective_number"] <= limit.effective_number)
    return np.asarray(np.where(reset, 2, np.where(retriever, 0, 1)))


@dataclass(frozen=True)
class HeadMixture:
    """Three Gaussian components over the heads; `named` is each head's regime by the rule at its component's centre."""

    components: Int[np.ndarray, " heads"]
    named: Int[np.ndarray, " heads"]
    agreement: float


def mixture(
    features: Mapping[str, np.ndarray], thresholds: Thresholds | None = None, *, seed: Seed = 0, restarts: int = 8
) -> HeadMixture:
    """Sort heads without thresholds; `agreement` is the adjusted Rand index of the components with the rule.

    Two components whose centres fall under the same rule get the same name.
    """
    flat = {name: np.ravel(np.asarray(features[name], dtype=float)) for name in FEATURES}
    columns = np.stack([np.log(flat[n]) if n == "effective_number" else flat[n] for n in _CLUSTERED], axis=1)
    spread = columns.std(axis=0)
    standard = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    labels = gaussian_mixture(standard, 3, seed=seed, restarts=restarts).labels
    by_rule = regimes(flat, thresholds)
    names = np.zeros(3, dtype=int)
    for k in range(3):
        centre = {name: np.array([flat[name][labels == k].mean()]) for name in FEATURES if (labels == k).any()}
        names[k] = regimes(centre, thresholds)[0] if centre else 1
    return HeadMixture(labels, names[labels], adjusted_rand(labels, by_rule))


@dataclass(frozen=True)
class Mixture:
    """Component of each row, and the mean log likelihood of a row."""

    labels: Int[np.ndarray, " n"]
    likelihood: float


def gaussian_mixture(
    x: Float[np.ndarray, "n p"], components: int, *, seed: Seed = 0, restarts: int = 8, rounds: int = 200
) -> Mixture:
    """The most likely of several EM fits with full covariances.

    Labels and likelihood agree with scikit-learn's mixture, which takes as long on one thread and ten times as long on
    several (144 to 1024 heads of 7 features), and some seconds to load.
    """
    rng = rng_from(seed)
    count, p = x.shape
    best = Mixture(np.zeros(count, dtype=int), -np.inf)
    ridge = 1e-3 * np.eye(p)
    for _ in range(restarts):
        share = np.eye(components)[_nearest(x, _spread_out(x, components, rng))]
        last = -np.inf
        for _ in range(rounds):
            mass = share.sum(axis=0) + 1e-9
            centres = (share.T @ x) / mass[:, None]
            away = np.swapaxes(x[None] - centres[:, None], 1, 2)
            factor = np.linalg.cholesky(
                (away * share.T[:, None]) @ np.swapaxes(away, 1, 2) / mass[:, None, None] + ridge
            )
            logs = np.log(mass / count) - np.sum(np.linalg.solve(factor, away) ** 2, axis=1).T / 2
            logs -= np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) + p / 2 * np.log(2 * np.pi)
            total = np.logaddexp.reduce(logs, axis=1)
            share = np.exp(logs - total[:, None])
            likelihood = float(total.mean())
            if likelihood - last < 1e-7:
                break
            last = likelihood
        if likelihood > best.likelihood:
            best = Mixture(share.argmax(axis=1), likelihood)
    return best


def adjusted_rand(a: Int[np.ndarray, " n"], b: Int[np.ndarray, " n"]) -> float:
    """Agreement of two partitions: 1 when they are the same, about 0 by chance."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)

    def pairs(counts: np.ndarray) -> float:
        return float(np.sum(counts * (counts - 1)) / 2)

    both, left, right, all_pairs = pairs(table), pairs(table.sum(1)), pairs(table.sum(0)), pairs(np.array([len(a)]))
    expected, most = left * right / all_pairs, (left + right) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


def _spread_out(x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Starting centres among the rows, far from each other with high probability."""
    centres = [x[rng.integers(len(x))]]
    for _ in range(count - 1):
        distance = np.min([np.sum((x - c) ** 2, axis=1) for c in centres], axis=0) + 1e-12
        centres.append(x[rng.choice(len(x), p=distance / distance.sum())])
    return np.array(centres)


def _nearest(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.argmin(np.sum((x[:, None] - centres) ** 2, axis=-1), axis=1)


def _length(a: Any) -> Any:
    return library(a).sqrt((a * a).sum(axis=-1))


def _cosine(a: Any, b: Any) -> Any:
    """The cosine of two arrays of vectors, 0 where one of them vanishes."""
    scale = _length(a) * _length(b)
    return (a * b).sum(axis=-1) / library(a).where(scale > 0, scale, 1.0)
