"""The same questions to the heads of a real model, SmolLM2-135M; in the quick preset to synthetic heads instead."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_least
from sphereflow.llm.heads.bootstrap import rank_correlation
from sphereflow.llm.heads.geometry import random_control, separation
from sphereflow.llm.heads.regimes import head_features
from sphereflow.llm.heads.synthetic import sink_heads
from sphereflow.papers.attention_geometry import PAPER

if TYPE_CHECKING:
    from sphereflow.llm.measurement.heads import Heads
    from sphereflow.llm.model.loading import LanguageModel

WINDOW, DOCUMENTS = 1024, 16
_SYNTHETIC = "Quick preset: synthetic heads, no language model was run; the paper preset measures SmolLM2-135M."
_REAL = "SmolLM2-135M, help texts of Python."


@lru_cache(maxsize=1)
def language_model() -> LanguageModel:
    from sphereflow.llm.model.loading import load_model

    return load_model()


@lru_cache(maxsize=1)
def real_heads(seed: int) -> Heads:
    """All heads of the default model over the documents; measured once for all claims."""
    from sphereflow.llm.measurement.heads import measure_heads
    from sphereflow.llm.model.texts import corpus, windows

    loaded = language_model()
    return measure_heads(
        loaded.model, windows(corpus(), loaded.tokenizer, window=WINDOW, documents=DOCUMENTS), seed=seed
    )


@lru_cache(maxsize=1)
def synthetic_heads(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sixty heads of 256 tokens whose sinks differ in length and direction."""
    rng = np.random.default_rng(seed + 11)
    parts = [
        sink_heads(rng, 5, decay=decay, compression=compression, cosine=cosine, length=256, d=32)
        for decay in (0.05, 0.5)
        for compression in (0.2, 0.6)
        for cosine in (-0.3, 0.2, 0.7)
    ]
    return np.concatenate([w for w, _ in parts]), np.concatenate([v for _, v in parts])


@PAPER.claim(
    "above-control",
    statement="Attention selects sets that are better separated than random ones, for most heads, at small N.",
    source="comparison with random selection",
    formula=r"F_N(\text{attention})>F_N(\text{random}),\quad N=2,4,8",
    falsifier="F of attention not above the random control at small N: this would falsify the paper's picture",
)
def above_control(run: Run) -> Measurement:
    sizes = (2, 4, 8)
    if run.quick:
        heads = synthetic_heads(run.seed)
        own, control = separation(*heads, sizes).f, random_control(*heads, sizes, seed=run.seed).f
    else:
        found = real_heads(run.seed)
        at = [found.sizes.index(n) for n in sizes]
        own, control = (
            found.curve("f", s).mean(axis=0).reshape(-1, len(found.sizes))[:, at] for s in ("attention", "random")
        )
    share = np.mean(own > control, axis=0)
    means = ", ".join(f"{a:.2f} against {b:.2f}" for a, b in zip(own.mean(axis=0), control.mean(axis=0), strict=True))
    return at_least(
        np.full(3, 0.5),
        share,
        because="'most heads': more than half",
        labels=tuple(f"share, N = {n}" for n in sizes),
        note=f"Mean F: {means}. {_SYNTHETIC if run.quick else _REAL}",
        parameters={"heads": len(own)},
    )


@PAPER.claim(
    "sink-compression",
    statement="In a trained model the value of the first token is shorter than the others; not so with random weights.",
    source="assumption on value norms",
    formula=r"\kappa=\|v_0\|/\mathrm{median}_{i\ge1}\|v_i\|",
    falsifier="kappa of about 1 or more in most heads of the middle layers; a wrong sink index gives that",
)
def sink_compression(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 12)
    # Random value matrices on normalised random tokens: what an untrained model does to its first token.
    tokens = rng.standard_normal((200, 64))
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    norms = np.linalg.norm(tokens @ rng.standard_normal((100, 64, 32)), axis=-1)
    untrained = np.median(norms[:, 0] / np.median(norms[:, 1:], axis=1))
    error = 4 * (norms / np.median(norms[:, 1:], axis=1, keepdims=True)).std() / np.sqrt(32)
    if run.quick:
        return agreement(
            1.0,
            untrained,
            absolute=error,
            labels=("random value matrices",),
            note=_SYNTHETIC,
            because="four standard deviations of a norm, shrunk by the 32 coordinates of a head",
        )
    found, mass = (real_heads(run.seed).mean_feature(name) for name in ("compression", "sink_mass"))
    layers = len(found)
    middle = found[layers // 3 : 2 * layers // 3]
    return at_least(
        [0.5, 0.0, 0.0],
        [np.mean(middle < 1), 1 - np.median(found), error - abs(untrained - 1)],
        because="'most': more than half; a median below one",
        labels=("share of middle heads with kappa < 1", "1 - median kappa", "random value matrices near 1"),
        note=f"Median kappa {np.median(found):.2f}; shorter in {np.mean(found < 1):.0%} of all heads; "
        f"{np.mean(mass > 0.5):.0%} of heads put more than half on the sink. {_REAL}",
    )


@PAPER.claim(
    "sink-correlation",
    statement="Over heads, recall at N = 4 does not fall with the cosine of the sink and the sum of the other tokens.",
    source="'sink similarity correlates with Recall'",
    formula=r"\rho_{\mathrm{Spearman}}\Big(\cos\big(v_0,\sum_{i\ge1}\alpha_iv_i\big),R_4\Big)",
    falsifier="a rank correlation that is negative beyond its error",
)
def sink_correlation(run: Run) -> Measurement:
    if run.quick:
        tables = {name: values[None] for name, values in head_features(*synthetic_heads(run.seed)).items()}
    else:
        found = real_heads(run.seed)
        tables = {name: table.reshape(found.documents, -1) for name, table in found.features.items()}
    kinds = {"sink_others_cosine": "the others", "sink_cosine": "the selected sum", "sink_output_cosine": "the output"}
    repeats = 300 if run.quick else 2000
    found_all = [rank_correlation(tables[k], tables["recall4"], repeats=repeats, seed=run.seed) for k in kinds]
    told = []
    for name, interval in zip(kinds.values(), found_all, strict=True):
        sign = "positive" if interval.low > 0 else "negative" if interval.high < 0 else "not distinguishable from zero"
        told.append(
            f"with {name} {interval.value:.2f} (95 % interval {interval.low:.2f} to {interval.high:.2f}, {sign})"
        )
    first = found_all[0]
    return at_least(
        0.0,
        float(first.value),
        slack=float(first.value - first.low),
        because="half of a 95 % interval, documents and heads drawn again",
        note=f"Rank correlation of recall and the cosine of the sink {'; '.join(told)}. "
        f"{_SYNTHETIC if run.quick else _REAL}",
    )


@PAPER.claim(
    "sink-criterion",
    statement="Where the sink is selected, it is recalled when its cosine with the sum passes the half-space bar.",
    source="sink similarity and recall",
    formula=r"\cos(s,v_0)>\frac{\alpha_0\|v_0\|}{2\|s\|}",
    falsifier="heads that decide against the bar more often than not",
)
def sink_criterion(run: Run) -> Measurement:
    features = head_features(*synthetic_heads(run.seed)) if run.quick else real_heads(run.seed).features
    chosen = features["sink_selected"] == 1
    passes = features["sink_cosine"][chosen] > features["sink_bar"][chosen]
    recalled = features["sink_recalled"][chosen] == 1
    # The bar is exact for the distance |s|, at which tokens of vanishing weight sit; others may be closer still.
    broken = np.sum(recalled & ~passes) / max(int(recalled.sum()), 1)
    return at_least(
        [0.5, 0.5],
        [np.mean(passes == recalled), 1 - broken],
        because="better than a coin; the bar holds to the accuracy with which unselected tokens sit at distance |s|",
        labels=("share of heads that follow the bar", "recalled sinks that pass the bar"),
        note=f"{chosen.mean():.0%} of heads select the sink, {recalled.mean():.0%} of these recall it. "
        f"{_SYNTHETIC if run.quick else _REAL}",
    )
