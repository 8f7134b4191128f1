"""The same questions to the heads of a real model, SmolLM2-135M; in the quick preset to synthetic heads instead."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.claims.check import margin
from sphereflow.estimates import mean
from sphereflow.llm.heads.bootstrap import spearman
from sphereflow.llm.heads.geometry import random_control, separation
from sphereflow.llm.heads.regimes import head_features
from sphereflow.llm.heads.synthetic import sink_heads
from sphereflow.papers.attention_geometry import PAPER
from sphereflow.papers.attention_geometry.sources import CONTROL, SHORT_SINK, SINK

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


_SETTINGS = tuple((decay, length) for decay in (0.05, 0.5) for length in (0.2, 0.6))
_PER_SETTING = 60


@lru_cache(maxsize=1)
def synthetic_heads(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Heads of 256 tokens in four settings of similarity decay and sink length; in each the sink turns."""
    rng = np.random.default_rng(seed + 11)
    parts = [
        sink_heads(rng, _PER_SETTING // 3, decay=decay, compression=length, cosine=cosine, length=256, d=32)
        for decay, length in _SETTINGS
        for cosine in (-0.3, 0.2, 0.7)
    ]
    return np.concatenate([w for w, _ in parts]), np.concatenate([v for _, v in parts])


@PAPER.claim(
    "above-control",
    says="Attention selects sets that are better separated than random ones of the same size, on average over heads.",
    basis=CONTROL,
    formula=r"F_N(\text{attention})>F_N(\text{random}),\quad N=2,4,8",
)
def above_control(run: Run) -> Check:
    sizes = (2, 4, 8)
    if run.quick:
        weights, values = synthetic_heads(run.seed)
        own = separation(weights, values, sizes).f
        control = random_control(weights, values, sizes, seed=run.seed).f
        shuffled = np.random.default_rng(run.seed).permuted(weights, axis=1)
        # The weights in another order over the tokens: selection by a score that knows nothing of the contributions.
        blind = separation(shuffled, values * (weights / shuffled)[..., None], sizes).f
    else:
        found = real_heads(run.seed)
        at = [found.sizes.index(n) for n in sizes]
        # One number per document: its heads are not independent.
        own, control = (found.curve("f", s).mean(axis=(1, 2))[:, at] for s in ("attention", "random"))
        blind = control[::-1]
    repeats = len(own)
    check = Check(note=_SYNTHETIC if run.quick else _REAL, parameters={"heads" if run.quick else "documents": repeats})
    null = {}
    for k, n in enumerate(sizes):
        name = f"$F_{n}$ above random, in standard errors"
        gap = mean(own[:, k] - control[:, k])
        because = "chance exceeds this once in 200,000 draws"
        check.at_least(name, bound=margin(repeats), measured=gap.value / gap.error, because=because)
        other = mean(blind[:, k] - control[:, k])
        null[name] = float(other.value / other.error)
    check.null("tokens ranked by a blind score", null)
    return check


@PAPER.claim(
    "sink-compression",
    says="The library's ratio of value norms finds the length of the sink that synthetic heads were made with; in a "
    "trained model (paper preset) it is below one in most heads of the middle layers.",
    basis=SHORT_SINK,
    formula=r"\kappa=\|v_0\|/\mathrm{median}_{i\ge1}\|v_i\|",
)
def sink_compression(run: Run) -> Check:
    weights, values = synthetic_heads(run.seed)
    kappa = head_features(weights, values)["compression"].reshape(len(_SETTINGS), -1)
    last = head_features(weights[:, ::-1], values[:, ::-1])["compression"].reshape(len(_SETTINGS), -1)
    check = Check(note=_SYNTHETIC if run.quick else "")
    null = {}
    for (decay, length), found, other in zip(_SETTINGS, kappa, last, strict=True):
        name = f"made with {length:g}, decay {decay:g}"
        check.row(name, predicted=length, measured=found.mean(), tolerance=1e-9, because="unit values; rounding")
        null[name] = float(other.mean())
    if not run.quick:
        found = real_heads(run.seed).mean_feature("compression")
        middle = found[len(found) // 3 : 2 * len(found) // 3]
        mass = real_heads(run.seed).mean_feature("sink_mass")
        check.note = (
            f"Median kappa {np.median(found):.2f}; shorter in {np.mean(found < 1):.0%} of all heads; "
            f"{np.mean(mass > 0.5):.0%} of heads put more than half on the sink. {_REAL}"
        )
        bound = 0.5 + margin() * 0.5 / np.sqrt(middle.size)
        name = "share of middle heads with a short sink"
        check.at_least(name, bound=bound, measured=np.mean(middle < 1), because="more than a fair coin would give")
        null[name] = 0.5
    check.null("another token taken for the sink", null)
    return check


@PAPER.claim(
    "sink-correlation",
    says="Over heads, recall at $N=4$ goes with the cosine of the sink and the sum of the other tokens, more than when "
    "recalls are permuted among heads of one layer (in synthetic heads: of one setting).",
    basis=SINK,
    formula=r"\rho_{\mathrm{Spearman}}\Big(\cos\big(v_0,\sum_{i\ge1}\alpha_iv_i\big),R_4\Big)",
)
def sink_correlation(run: Run) -> Check:
    if run.quick:
        flat = head_features(*synthetic_heads(run.seed))
        tables = {name: values.reshape(len(_SETTINGS), -1) for name, values in flat.items()}
    else:
        heads = real_heads(run.seed)
        tables = {name: heads.mean_feature(name) for name in heads.features}
    kinds = {"sink_others_cosine": "the others", "sink_cosine": "the selected sum", "sink_output_cosine": "the output"}
    rng = np.random.default_rng(run.seed + 14)
    draws = 400 if run.quick else 2000
    permuted = rng.permuted(np.broadcast_to(tables["recall4"], (draws, *tables["recall4"].shape)), axis=2)
    told, scores = [], {}
    for kind, name in kinds.items():
        null = spearman(np.broadcast_to(tables[kind].ravel(), (draws, tables[kind].size)), permuted.reshape(draws, -1))
        value = float(spearman(tables[kind].ravel(), tables["recall4"].ravel()))
        scores[kind] = (value - null.mean()) / null.std(ddof=1), (null[0] - null.mean()) / null.std(ddof=1)
        told.append(f"with {name} {value:.2f} (permuted {null.mean():.2f} +- {null.std(ddof=1):.2f})")
    check = Check(
        note=f"Rank correlation of recall and the cosine of the sink {'; '.join(told)}. "
        f"{_SYNTHETIC if run.quick else _REAL} Which cosine the paper takes was not available; the first is judged.",
        parameters={"heads": tables["recall4"].size, "permutations": draws},
    )
    name = "correlation above the permuted ones, in their standard deviations"
    check.at_least(name, bound=margin(), measured=scores["sink_others_cosine"][0], because="chance: once in 200,000")
    check.null("recalls permuted within layers", scores["sink_others_cosine"][1])
    return check
