r"""Geometry of heads: three assumptions about values and weights, envelopes, the sink, and kinds of heads.

Rules: norms are stable if the median variation is below 1/2, and the sink is short if the median
$\kappa$ is below 1; a form describes heads if it is best by AICc for more than half of them; the envelope of
independent values holds if more than half of all (head, N) have a recall within .1 of it; sink and recall go together
as in `sink_and_recall`; the rule's regimes are found if the adjusted Rand index is above 1/2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student

from sphereflow.llm import (
    Recording,
    attention_decay,
    found_regimes,
    record,
    similarity_decay,
    sink_and_recall,
    value_norms,
)
from sphereflow.llm.heads.regimes import adjusted_rand
from sphereflow.llm.measurement.sections import (
    AGREES,
    DISAGREES,
    UNDECIDED,
    Picture,
    Section,
    asked,
    decide,
    interval,
    percent,
    plain,
    words,
)
from sphereflow.llm.recorded.agreement import INSIDE
from sphereflow.llm.recorded.geometry import FormsOfHeads
from sphereflow.model_theories.subject import Answer, Subject, drawn_again
from sphereflow.pictures import PALETTE, rendered, styled_figure

_WINDOW, _DOCUMENTS, _QUERIES = 256, 4, 8


def section(subject: Subject) -> Section:
    """The section of the page."""
    made = record(
        subject.loaded,
        subject.tokens(_WINDOW, _DOCUMENTS),
        queries=_QUERIES,
        envelope_documents=0,
        progress=subject.report,
    )
    statements = (
        asked("values have stable lengths, the sink is short", lambda: _norms(made, subject)),
        asked(
            "similarity of values falls exponentially",
            lambda: _form(similarity_decay(made), "exponential", made.shape[0]),
        ),
        asked(
            "attention falls exponentially to a plateau",
            lambda: _form(attention_decay(made), "plateau + exponential", made.shape[0]),
        ),
        asked("recall is that of independent values", lambda: _envelope(subject)),
        asked("recall goes with the direction of the sink", lambda: _sink(made, subject)),
        asked("heads are retrievers, mixers or resets", lambda: _regimes(made, subject)),
    )
    caption = (
        "Dots: measured, means over heads. Left: cosines of values against their distance; right: recall against N."
    )
    picture = Picture("Similarity and recall", caption, rendered(_drawn(made), "png"))
    return Section("geometry", "Geometry of heads", statements, picture)


def _norms(made: Recording, subject: Subject) -> Answer:
    variation = drawn_again(
        made.shape[0], lambda at: np.median(made.values["norm_variation"][at].mean(axis=0)), subject.seed
    )
    stable = decide(variation, below=0.5)
    numbers: dict[str, Any] = {"variation": plain(variation)}
    said = f"Lengths of values vary by {words(variation)} of their mean, the median over key/value heads"
    lengths = value_norms(made)
    if not lengths.asked.any():
        return f"{said}; no layer sees the first token.", stable, numbers
    norms = made.value_norms[:, made.sees_sink].astype(float)
    ratio = norms[..., 0] / np.median(norms[..., 1:], axis=-1)
    kappa = drawn_again(len(ratio), lambda at: np.median(ratio[at].mean(axis=0)), subject.seed)
    short = decide(kappa, below=1.0)
    numbers |= {"compression": plain(kappa), "shorter": lengths.short, "other_position_shorter": lengths.other_short}
    verdict = stable if stable == short else next(v for v in (DISAGREES, UNDECIDED) if v in (stable, short))
    return (
        f"{said}; the first value is {words(kappa)} times as long as the median one, shorter in "
        f"{percent(lengths.short)} of heads, where any other position is in {percent(lengths.other_short)}.",
        verdict,
        numbers,
    )


def _form(forms: FormsOfHeads, name: str, documents: int) -> Answer:
    at = forms.names.index(name)
    share, error = forms.share[at], forms.share_error[at]
    reach = student.ppf(0.975, documents - 1) * error if documents > 1 else np.nan
    found_share = interval(share, np.maximum(share - reach, 0.0), np.minimum(share + reach, 1.0))
    best = int(np.argmax(forms.share))
    others = ", ".join(f"{n} {percent(s)}" for n, s in zip(forms.names, forms.share, strict=True) if n != name)
    numbers = {"share": plain(found_share), "shares": dict(zip(forms.names, forms.share.tolist(), strict=True))}
    held = forms.share_held_out[at]
    unseen = f"; on unseen text {percent(held)}" if np.isfinite(held) else ""
    return (
        f"The form '{name}' is best for {words(found_share, share=True)} of {len(forms.best)} heads{unseen}; "
        f"{others}: most often '{forms.names[best]}'.",
        decide(found_share, above=0.5),
        numbers,
    )


def _envelope(subject: Subject) -> Answer:
    made = subject.independent
    measured, expected = (made.selection[name][..., 0, -1, :].astype(float) for name in ("recall", "expected_recall"))
    known = np.isfinite(measured) & np.isfinite(expected)
    near = known & (np.abs(measured - expected) <= INSIDE)
    blind = known & (np.abs(measured - np.nanmean(measured, axis=(1, 2), keepdims=True)) <= INSIDE)
    inside = drawn_again(len(near), lambda at: near[at].sum() / known[at].sum(), subject.seed, least=0.0, most=1.0)
    signed = drawn_again(len(near), lambda at: np.mean((expected - measured)[at][known[at]]), subject.seed)
    numbers = ", ".join(str(n) for n in made.sizes)
    return (
        f"For {words(inside, share=True)} of all heads and N = {numbers} recall is within {INSIDE:g} of that of "
        f"independent values with the same weights; the mean over heads, which knows no head, is for "
        f"{percent(blind.sum() / known.sum())}. Theory minus model is {words(signed)} on average.",
        decide(inside, above=0.5),
        {"inside": plain(inside), "inside_mean_over_heads": float(blind.sum() / known.sum()), "signed": plain(signed)},
    )


def _sink(made: Recording, subject: Subject) -> Answer:
    tested = sink_and_recall(made, seed=subject.seed)
    low, high = np.quantile(tested.null, [0.025, 0.975])
    return (
        f"Over {tested.heads} heads the rank correlation of recall at N = 4 with the cosine of the sink and the other "
        f"tokens' sum is {tested.correlation:.2f}; recall permuted within layers gives {low:.2f} to {high:.2f} (95 %), "
        f"p = {tested.p:.2g}.",
        AGREES if tested.holds else DISAGREES,
        {"correlation": tested.correlation, "null_low": float(low), "null_high": float(high), "p": tested.p},
    )


def _regimes(made: Recording, subject: Subject) -> Answer:
    mixture = found_regimes(made, seed=subject.seed)
    index = drawn_again(
        len(mixture.rule), lambda at: adjusted_rand(mixture.components[at], mixture.rule[at]), subject.seed, repeats=300
    )
    again = f" ({mixture.halves:.2f} between halves of the documents)" if np.isfinite(mixture.halves) else ""
    return (
        f"A mixture without thresholds finds {mixture.chosen} kinds of heads{again}; their adjusted Rand index with "
        f"retriever, mixer and reset is {words(index)}, heads drawn again.",
        decide(index, above=0.5),
        {"kinds": mixture.chosen, "agreement": plain(index)},
    )


def _drawn(made: Recording) -> Figure:
    with styled_figure(8.4, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        curves = made.similarity.astype(float).mean(axis=0).reshape(-1, len(made.lags))
        low, middle, high = np.nanquantile(curves, [0.25, 0.5, 0.75], axis=0)
        left.plot(made.lags, middle, "o-", ms=3, color=PALETTE[0], label="median over heads")
        left.fill_between(made.lags, low, high, color=PALETTE[0], alpha=0.2, linewidth=0, label="half of all heads")
        left.set(xlabel="distance of two values", ylabel="mean cosine", xscale="log")
        left.legend()
        for k, selection in enumerate(("with sink", "without sink")):
            rows = made.metrics["recall"][..., k, :].astype(float).reshape(-1, len(made.sizes))
            some = np.isfinite(rows).any(axis=0)  # a sliding window may be shorter than N
            level = np.nanmean(rows[:, some], axis=0)
            right.plot(np.array(made.sizes)[some], level, "o-", color=PALETTE[k], label=selection)
        right.set(xlabel="selected tokens $N$", ylabel="recall", xscale="log", ylim=(0, 1.03))
        right.set_xticks(made.sizes, [str(n) for n in made.sizes])
        right.minorticks_off()
        right.legend()
    return figure
