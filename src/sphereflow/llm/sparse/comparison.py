r"""`compare_sparsity`: what each rule costs a model, in nats per token, at the same measured number of keys.

$$\mathrm{excess}=\frac1{|T|}\sum_{t\in T}\bigl[\log p(x_t)-\log p_S(x_t)\bigr]:$$
p is the model with all keys, $p_S$ with the kept ones, T the tokens in the last two thirds of a window. Rules are
compared window by window: the difference of two rules is averaged over windows, and its interval comes from drawing
windows again (10,000 times). A threshold is moved until its rule keeps N keys on these windows, within 1 %; the loss is
never looked at for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.llm.heads.bootstrap import Interval, document_mean
from sphereflow.llm.model.loading import LanguageModel
from sphereflow.llm.model.texts import corpus
from sphereflow.llm.sparse.attention import faithful
from sphereflow.llm.sparse.calibration import calibrate
from sphereflow.llm.sparse.plans import (
    Texts,
    as_loaded,
    as_tokens,
    first_query,
    losses,
    make_plan,
    matched,
    run_states,
    text_digests,
)
from sphereflow.llm.sparse.rules import RULES
from sphereflow.progress import Progress, reporting
from sphereflow.provenance import version
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEEP = (4, 8, 16, 32)
REPLICATES = 10_000
_MATCHED = 2  # windows of the calibration on which a threshold is first set
_SHARED = 32  # tokens in a row that calibration and test must not have in common


@dataclass(frozen=True, eq=False, repr=False)
class SparsityComparison(Result):
    """Losses of a model by rule, number of keys and window; `dense` are those with all keys.

    `kept` are keys kept by a query of a head on average, `seen` those it could see. `source` names the model and the
    texts by digest.
    """

    source: dict[str, Any]
    rules: tuple[str, ...]
    keep: tuple[int, ...]
    dense: Float[np.ndarray, " window"]
    loss: Float[np.ndarray, "rule keep window"]
    kept: Float[np.ndarray, "rule keep window"]
    seen: float
    thresholds: Float[np.ndarray, "rule keep"]

    @property
    def excess(self) -> Float[np.ndarray, "rule keep window"]:
        """Loss above that with all keys, in nats per token."""
        return self.loss - self.dense

    def excess_of(self, rule: str, *, level: float = 0.95, seed: Seed = 0) -> Interval:
        """The mean excess loss of a rule for each number of keys, with its bootstrap interval over windows."""
        return document_mean(self.excess[self._row(rule)].T, level=level, repeats=REPLICATES, seed=seed)

    def difference(self, rule: str, other: str, *, level: float = 0.95, seed: Seed = 0) -> Interval:
        """Loss of one rule minus that of another, for each number of keys: paired by window."""
        real_number("level", level, above=0, most=1)
        gap = self.loss[self._row(rule)] - self.loss[self._row(other)]
        return document_mean(gap.T, level=level, repeats=REPLICATES, seed=seed)

    def mean_kept(self, rule: str) -> Float[np.ndarray, " keep"]:
        """Keys that were really kept, on average."""
        return self.kept[self._row(rule)].mean(axis=-1)

    def _row(self, rule: str) -> int:
        return self.rules.index(one_of("rule", rule, self.rules))

    def variables(self) -> Variables:
        return {
            "excess": (("rule", "keep", "window"), self.excess),
            "kept": (("rule", "keep", "window"), self.kept),
            "dense": ("window", self.dense),
            "threshold": (("rule", "keep"), self.thresholds),
            "rule": ("rule", np.array(self.rules)),
            "keep": ("keep", np.array(self.keep)),
        }

    def facts(self) -> list[str]:
        numbers = ", ".join(f"{n}" for n in self.keep)
        told = [
            f"{self.source['model']}: {len(self.dense)} windows, loss {self.dense.mean():.3f} nats with all keys "
            f"({self.seen:.0f} on average)",
            f"excess loss with {numbers} keys",
        ]
        for rule in self.rules:
            told.append(f"{rule} {', '.join(f'{value:.3f}' for value in self.excess_of(rule).value)}")
        return told

    def plot(self) -> Figure:
        """Excess loss against the keys kept, a curve for each rule, with 95 % intervals."""
        from sphereflow.pictures import blank, look

        with look():
            figure = blank(5.4, 3.6)
            axes = figure.subplots()
            for rule in self.rules:
                found = self.excess_of(rule)
                bars = np.maximum([found.value - found.low, found.high - found.value], 0.0)
                axes.errorbar(self.mean_kept(rule), found.value, bars, marker="o", ms=3, lw=1, label=rule)
            axes.set(xlabel="keys kept by a query of a head", ylabel="excess loss, nats per token")
            axes.set_xscale("log", base=2)
            axes.set_yscale("symlog", linthresh=0.01)
            axes.legend(frameon=False)
        return figure


def _texts_by_digest(verb: Callable[..., SparsityComparison]) -> Callable[..., SparsityComparison]:
    """The verb, with digests of the texts in the recorded call."""

    @functools.wraps(verb)
    def called(*args: Any, **given: Any) -> SparsityComparison:
        result = verb(*args, **given)
        told = {name: result.source[name] for name in ("model", "texts", "calibration")}
        result.parameters.update(told)
        return result

    return called


@_texts_by_digest
@recorded_call
def compare_sparsity(
    model: Any,
    texts: Texts,
    *,
    keep: Sequence[int] = KEEP,
    rules: Sequence[str] = RULES,
    calibration: Texts | None = None,
    window: int = 192,
    documents: int = 24,
    seed: Seed = 0,
    progress: Progress = None,
) -> SparsityComparison:
    """Excess loss of a model whose heads keep a few keys, rule by rule, at equal measured numbers of keys.

    **Arguments:** `texts` are what the loss is measured on, each cut into at most `documents` windows of `window`
    tokens; `calibration` other texts, on which plans are made (Python's help texts by default). Both may be documents
    of tokens. Texts that share 32 tokens in a row with the calibration are refused.
    """
    base = number_from(seed)
    loaded = as_loaded(model)
    chosen = tuple(one_of("rules", rule, RULES) for rule in rules)
    tokens = as_tokens(loaded, texts, window, documents)
    other = as_tokens(loaded, corpus() if calibration is None else calibration, window, 8)
    numbers = tuple(whole_number("keep", n, most=first_query(tokens)) for n in keep)
    if not numbers or not chosen or len(set(numbers)) < len(numbers) or len(set(chosen)) < len(chosen):
        raise SphereflowError(f"keep and rules must be different values, at least one; got {numbers} and {chosen}.")
    _apart(tokens, other)
    faithful(loaded.model)
    known = calibrate(loaded.model, other, first_query(other))
    plain = run_states(loaded.model, None, tokens)
    loss, kept = np.zeros((2, len(chosen), len(numbers), len(tokens)))
    thresholds = np.zeros((len(chosen), len(numbers)))
    with reporting("rules", progress) as report:
        for r, rule in enumerate(chosen):
            for k, number in enumerate(numbers):
                report((r * len(numbers) + k) / (len(chosen) * len(numbers)), f"{rule}, {number} keys")
                plan, slope = make_plan(loaded, known, other[:_MATCHED], number, rule, base)
                states, plan, _ = matched(loaded.model, plan, tokens, base, slope)
                loss[r, k], kept[r, k] = losses(loaded.model, states, tokens), states.kept
                thresholds[r, k] = plan.threshold
        report(1.0, "")
    source = _source(loaded, texts, calibration, tokens)
    dense = losses(loaded.model, plain, tokens)
    return SparsityComparison(source, chosen, numbers, dense, loss, kept, float(plain.seen.mean()), thresholds)


def _apart(tokens: np.ndarray, other: np.ndarray) -> None:
    """Refuse windows that have a passage in common with the calibration."""
    length = min(_SHARED, tokens.shape[1] - 1, other.shape[1] - 1)
    known = {tuple(row[k : k + length]) for row in other.tolist() for k in range(1, len(row) - length + 1)}
    for number, row in enumerate(tokens.tolist()):
        if any(tuple(row[k : k + length]) in known for k in range(1, len(row) - length + 1)):
            raise SphereflowError(
                f"window {number} of the texts and the calibration have {length} tokens in a row in common: give other "
                "texts for calibration."
            )


def _source(loaded: LanguageModel, texts: Any, calibration: Any, tokens: np.ndarray) -> dict[str, Any]:
    return loaded.shape | {
        "files": [path.name for path in loaded.files],
        "texts": text_digests(texts),
        "calibration": text_digests(corpus() if calibration is None else calibration),
        "tokens": text_digests(tokens),
        "software": {name: version(name) or "" for name in ("torch", "transformers")},
    }
