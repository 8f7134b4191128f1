"""A synthetic head with a sink: how recall rises with the cosine of the sink, and what random selection gives."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.llm.heads.geometry import Separation, random_control, separation
from sphereflow.llm.heads.synthetic import sink_heads
from sphereflow.papers.attention_geometry import PAPER

SIZES = (2, 4, 8, 16, 32, 64)
COSINES = (-0.5, 0.0, 0.5, 0.9)
# R_4 and F_4 from 400 draws, by (decay, compression), for the four cosines; standard errors at most .011 (.019).
RECALL = {
    (0.05, 0.1): (0.694, 0.709, 0.838, 0.971),
    (0.05, 1.0): (0.250, 0.881, 0.939, 0.968),
    (0.5, 0.1): (0.654, 0.762, 0.914, 0.919),
    (0.5, 1.0): (0.254, 0.726, 0.881, 0.901),
}
F_SCORE = {
    (0.05, 0.1): (0.008, 0.424, 0.837, 0.967),
    (0.05, 1.0): (0.008, 0.874, 0.936, 0.969),
    (0.5, 0.1): (0.013, 0.766, 0.910, 0.914),
    (0.5, 1.0): (0.008, 0.566, 0.873, 0.899),
}
_REFERENCE_ERROR = 0.019
# F_N of attention and of random rankings from 150 heads, N = 2, 4, 8, 16, 32.
CONTROL = {
    (0.05, 0.1, 0.0): ((0.55, 0.43, 0.58, 0.67, 0.12), (0.19, 0.046, 0.028, 0.031, 0.032)),
    (0.5, 0.1, 0.5): ((0.99, 0.91, 0.81, 0.52, 0.07), (0.44, 0.104, 0.037, 0.038, 0.043)),
}

# Three times the spread of the mean F between sets of 16 random rankings, and of the reference, N = 2, 4, 8, 16, 32.
_SPREAD = [0.06, 0.035, 0.02, 0.013, 0.01]


def heads_of(run: Run, decay: float, compression: float, cosine: float) -> Separation:
    """Metrics of the synthetic heads of one setting: 40 in the quick preset, 400 in the paper's."""
    return _separated(40 if run.quick else 400, run.seed, decay, compression, cosine)


@lru_cache(maxsize=32)
def _separated(count: int, seed: int, decay: float, compression: float, cosine: float) -> Separation:
    parts = [separation(w, v, SIZES) for w, v in _batches(count, seed, decay, compression, cosine)]
    fields = ("precision", "recall", "f", "inversions", "margin")
    return Separation(SIZES, *(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def control_of(run: Run, decay: float, compression: float, cosine: float) -> np.ndarray:
    """Mean F of 16 random rankings of 40 such heads, for N up to 32."""
    return _control(run.seed, decay, compression, cosine)


@lru_cache(maxsize=32)
def _control(seed: int, decay: float, compression: float, cosine: float) -> np.ndarray:
    weights, values = next(_batches(40, seed, decay, compression, cosine))
    return random_control(weights, values, SIZES[:5], repeats=16, seed=seed).f.mean(axis=0)


def _batches(
    count: int, seed: int, decay: float, compression: float, cosine: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Heads in portions of 40, so that memory stays small."""
    rng = np.random.default_rng([seed, int(100 * decay), int(10 * compression), int(10 * cosine) + 10])
    for start in range(0, count, 40):
        yield sink_heads(rng, min(40, count - start), decay=decay, compression=compression, cosine=cosine)


@PAPER.claim(
    "sink-recall",
    statement="In the synthetic head recall and F at N = 4 rise with the cosine of the sink and the sum of the others.",
    source="sink similarity and recall",
    formula=r"\text{sink recalled}\iff\cos(s,v_0)>\frac{\alpha_0\|v_0\|}{2\|s\|}",
    falsifier="the sink cosine taken against the full sum, or a recall that does not rise",
)
def sink_recall(run: Run) -> Measurement:
    settings = [(0.05, 0.1, 0.0), (0.5, 0.1, 0.5)] if run.quick else [(*s, c) for s in RECALL for c in COSINES]
    predicted, measured, tolerance, labels = [], [], [], []
    for done, (decay, compression, cosine) in enumerate(settings):
        run.notify(done / len(settings), f"decay {decay:g}, cosine {cosine:g}")
        found, k = heads_of(run, decay, compression, cosine), COSINES.index(cosine)
        _, recall, f = found.at(4)
        for letter, values, table in (("R", recall, RECALL), ("F", f, F_SCORE)):
            predicted.append(table[decay, compression][k])
            measured.append(values.mean())
            tolerance.append(4 * np.hypot(values.std(ddof=1) / np.sqrt(len(values)), _REFERENCE_ERROR))
            labels.append(f"{letter} at N = 4, decay {decay:g}, compression {compression:g}, cosine {cosine:g}")
    return agreement(
        predicted,
        measured,
        absolute=np.array(tolerance),
        labels=tuple(labels),
        because="four combined standard errors of this run and of the reference (400 draws)",
        parameters={"L": 1024, "d": 128, "heads": len(recall)},
    )


@PAPER.claim(
    "ball-of-everything",
    statement="With 64 selected tokens of 1024 the smallest ball that holds them holds all tokens: P = 64/1024.",
    source="precision at large N",
    formula=r"P_{64}=0.0625",
    falsifier="a precision well above N/L",
)
def ball_of_everything(run: Run) -> Measurement:
    found = heads_of(run, 0.05, 0.1, 0.0)
    return agreement(
        64 / 1024,
        float(found.at(64)[0].mean()),
        absolute=64 / 1024 - 64 / 1034,
        because="up to ten tokens of the 1024 may stay outside on average",
    )


@PAPER.claim(
    "random-control",
    statement="Sets selected by attention are far above random sets, each scored around its own sum.",
    source="comparison with random selection",
    falsifier="random sets scored around the attention sum, or F of attention at the level of the control",
)
def synthetic_control(run: Run) -> Measurement:
    predicted: list[float] = []
    measured, tolerance, labels = [], [], []
    for (decay, compression, cosine), (own, control) in CONTROL.items():
        found = heads_of(run, decay, compression, cosine).f.mean(axis=0)[:5]
        random = control_of(run, decay, compression, cosine)
        for name, expected, got, widths in (
            ("attention", own, found, [0.10] * 5),
            ("random", control, random, _SPREAD),
        ):
            predicted += expected
            measured += list(got)
            tolerance += widths
            labels += [f"{name}, N = {n}, decay {decay:g}, cosine {cosine:g}" for n in SIZES[:5]]
    return agreement(
        predicted,
        measured,
        absolute=np.array(tolerance),
        labels=tuple(labels),
        because="three standard errors of 40 heads and of the reference (150 heads); for random sets three times the "
        "spread between sets of 16 rankings, which all heads share",
    )
