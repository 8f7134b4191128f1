"""What a measurement says, in sentences: where model and theory agree, and plainly where they do not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

# A correlation below this explains less than a quarter of the variance.
_WEAK = 0.5


def findings(told: dict[str, Any]) -> list[str]:
    """Sentences on the numbers of `record.summary`."""
    lines = [_selection(told), _sink(told), _correlation(told), _regimes(told)]
    if "mean_cosine" in told:
        lines += [_collapse(told), _logits(told), _entropy(told), _clusters(told)]
    return lines


def _selection(told: dict[str, Any]) -> str:
    sizes = told["sizes"]
    size = 4 if 4 in sizes else sizes[-1]
    k = sizes.index(size)
    own = told["curves"]["f, attention, with sink, euclidean"]
    control = told["curves"]["f, random, with sink, euclidean"]
    return (
        f"At N = {size} attention selects sets with F = {own['value'][k]:.2f} "
        f"({_between(own['low'][k], own['high'][k], ' over documents')}), random sets have {control['value'][k]:.2f}; "
        f"{_percent(told['heads_above_control'][k])} of heads lie above their control."
    )


def _sink(told: dict[str, Any]) -> str:
    median, seeing, heads = told["compression_median"], told["heads_that_see_the_sink"], told["heads"]
    if median is None:
        return (
            "Nothing is said about the sink: from the last token no head sees the first one, which lies outside of "
            "the sliding window of every layer; a shorter --window shows it."
        )
    verb = "holds" if median < 1 else "fails"
    some = "" if seeing == heads else _who(told)
    return (
        f"{some}Sink compression {verb}: the first value is {median:.2f} times as long as the median value (median "
        f"over heads), shorter in {_percent(told['compressed_heads'])} of heads; {_percent(told['sink_heads'])} of "
        f"heads put more than half of their weight on it."
    )


def _who(told: dict[str, Any]) -> str:
    return (
        f"{told['heads_that_see_the_sink']} of {told['heads']} heads, all in {told['layers_that_see_the_sink']} of "
        f"{told['layers']} layers, see the first token from the last one; for the others it lies outside of a sliding "
        f"window, and of these heads nothing is said about the sink. "
    )


def _correlation(told: dict[str, Any]) -> str:
    def said(name: str) -> str:
        found = told[f"{name}_recall_correlation"]
        value, low, high = (found[key] for key in ("value", "low", "high"))
        if low is None:
            return f"{value:.2f} ({_between(low, high)})"
        sign = "positive" if low > 0 else "negative" if high < 0 else "not distinguishable from zero"
        return f"{value:.2f} (95 % interval {_between(low, high)}): {sign}"

    if told["sink_cosine_recall_correlation"] is None:
        return "Too few heads see the first token for a correlation of its direction with recall."
    return (
        f"Rank correlation over heads of recall at N = 4 with the cosine of the sink and the selected sum: "
        f"{said('sink_cosine')}; of the sink and the head's output: {said('sink_output_cosine')}; of the sink and the "
        f"output of all other tokens: {said('sink_others_cosine')}."
    )


def _regimes(told: dict[str, Any]) -> str:
    shares = ", ".join(f"{_percent(share)} {name}" for name, share in told["regimes"].items())
    if told["mixture_agreement"] is None:
        return f"Regimes by the rule: {shares}. Too few heads see the first token for a sorting without thresholds."
    return (
        f"Regimes by the rule: {shares}. A mixture of three Gaussians that knows no thresholds agrees with the rule by "
        f"an adjusted Rand index of {told['mixture_agreement']:.2f} (1 would be the same sorting, 0 chance)."
    )


def _collapse(told: dict[str, Any]) -> str:
    measured, theory = told["mean_cosine"], told["equiangular_cosine"]
    gap = max(abs(a - b) for a, b in zip(measured, theory, strict=True))
    verb = "agree" if gap < 0.1 else "disagree"
    return (
        f"Collapse: the mean cosine of tokens goes from {measured[0]:.2f} to {max(measured):.2f} at most and ends at "
        f"{measured[-1]:.2f}; attention alone on equiangular tokens, with the measured beta and step sizes, "
        f"would reach {theory[-1]:.2f}. They {verb} (by up to {gap:.2f}): attention alone does not describe this model."
        if verb == "disagree"
        else f"Collapse: the mean cosine of tokens follows the equiangular prediction within {gap:.2f}."
    )


def _logits(told: dict[str, Any]) -> str:
    beta, r = told["beta_median"], told["alignment_median"]
    verb = "disagree" if abs(r) < _WEAK else "agree"
    return (
        f"Logits: a kernel exp(beta <x, y>) would need beta = {beta:.0f} (median over heads) to spread the logits as "
        f"much, but cosines of tokens explain only {_percent(r**2)} of their variance (correlation {r:.2f}). "
        f"Theory with equal query and key matrices and model {verb}."
    )


def _entropy(told: dict[str, Any]) -> str:
    values = told["entropy"]
    low = int(np.argmin(values))
    return (
        f"Entropy of attention, relative to uniform: {values[0]:.2f} in the first layer, lowest {values[low]:.2f} in "
        f"layer {low} (counted from 0), {values[-1]:.2f} in the last."
    )


def _clusters(told: dict[str, Any]) -> str:
    values = told["clusters"]
    falling = all(b <= a for a, b in pairwise(values))
    end = "they only merge, as in the theory" if falling else "their number also rises: theory and model disagree"
    return f"Clusters at cosine 0.9: {values[0]:.0f} before the first layer, {values[-1]:.0f} after the last; {end}."


def _between(low: float | None, high: float | None, over: str = "") -> str:
    if low is None or high is None:
        return "no interval: that needs at least two documents"
    return f"{low:.2f} to {high:.2f}{over}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
