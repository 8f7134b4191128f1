"""Against a random control: the heads of a real model, SmolLM2-135M; in the quick preset synthetic heads instead."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.estimates import mean
from sphereflow.llm.heads.geometry import random_control, separation
from sphereflow.llm.heads.synthetic import sink_heads
from sphereflow.papers.attention_geometry import PAPER
from sphereflow.papers.attention_geometry.sources import CONTROL

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
    says="Heads select sets that are better separated than random ones of the same size, on average: synthetic heads "
    "with the abstract's assumptions in the quick preset, those of SmolLM2-135M in the paper preset.",
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
    for k, n in enumerate(sizes):
        gap, other = mean(own[:, k] - control[:, k]), mean(blind[:, k] - control[:, k])
        check.positive(
            f"$F_{n}$ above random", measured=gap.value, error=gap.error, repeats=repeats, because="its error bar"
        )
        check.row(
            f"$F_{n}$ above random, ranked by a blind score",
            predicted=0.0,
            measured=other.value,
            error=other.error,
            repeats=repeats,
            because="a blind score chooses at random: the error bar",
        )
    return check
