"""Sparsification: what it costs a model to keep few keys, and whether values help to choose them.

Rule: the choice by values agrees with theory if its loss, at the same number of keys and paired by
window, is lower than that of the other rule for the smallest number of keys. Plans are made on the first half of the
text, losses are measured on the second.
"""

from __future__ import annotations

from typing import Any

from sphereflow.errors import SphereflowError
from sphereflow.llm import SparsityComparison, compare_sparsity
from sphereflow.llm.heads.bootstrap import Interval
from sphereflow.llm.measurement.sections import Picture, Section, asked, decide, interval, plain, words
from sphereflow.model_theories.subject import Answer, Subject
from sphereflow.pictures import rendered

_WINDOW, _LEAST_WINDOW, _DOCUMENTS, _KEEP = 96, 24, 6, (4, 16)
_RULES = ("deviation", "mass", "uniform", "random")


def section(subject: Subject) -> Section:
    """The section of the page."""
    subject.decoder("it has no next token whose loss could be measured")
    window = min(_WINDOW, subject.window)
    keep = [n for n in _KEEP if n <= window // 3]
    if window < _LEAST_WINDOW:
        raise SphereflowError(f"the window must have at least {_LEAST_WINDOW} tokens to leave some of them out.")
    half = len(subject.text) // 2
    losses = compare_sparsity(
        subject.loaded,
        subject.text[half:],
        calibration=subject.text[:half],
        keep=keep,
        rules=_RULES,
        window=window,
        documents=min(_DOCUMENTS, subject.documents),
        seed=subject.seed,
        progress=subject.report,
    )
    statements = (
        asked("values choose keys better than weights (top-p)", lambda: _against(losses, "mass", subject)),
        asked("values choose keys better than equal shares", lambda: _against(losses, "uniform", subject)),
    )
    caption = "Loss above that with all keys; bars: 95 % intervals over windows. 'deviation' looks at values."
    picture = Picture("Loss against keys kept", caption, rendered(losses.plot(), "png"))
    return Section("sparsification", "Sparsification", statements, picture)


def _against(losses: SparsityComparison, other: str, subject: Subject) -> Answer:
    def at(curve: Interval, k: int) -> Interval:
        return interval(curve.value[k], curve.low[k], curve.high[k])

    gaps, own = (
        losses.difference("deviation", other, seed=subject.seed),
        losses.excess_of("deviation", seed=subject.seed),
    )
    numbers: dict[str, Any] = {"dense": float(losses.dense.mean())}
    parts = []
    for k, keys in enumerate(losses.keep):
        numbers[f"{keys} keys"] = {"excess": plain(at(own, k)), "difference": plain(at(gaps, k))}
        parts.append(
            f"with {keys} of {losses.seen:.0f} keys {words(at(gaps, k))}, itself {words(at(own, k))} above all keys"
        )
    names = {"mass": "top-p", "uniform": "equal shares"}
    return (
        f"The loss by values minus that by {names[other]}, in nats per token: {'; '.join(parts)}.",
        decide(at(gaps, 0), below=0.0),
        numbers,
    )
