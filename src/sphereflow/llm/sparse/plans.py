"""Plans: how many keys each head of a model keeps, made on texts of calibration, and used by `sparse_attention`."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.llm.model.anatomy import input_device
from sphereflow.llm.model.loading import LanguageModel, require_torch
from sphereflow.llm.model.source import loaded_model, token_windows
from sphereflow.llm.model.texts import corpus
from sphereflow.llm.sparse.attention import Usage, exchanged, faithful, vocabulary_logits
from sphereflow.llm.sparse.calibration import Calibration, calibrate, shared_out
from sphereflow.llm.sparse.rules import GEOMETRIC, RULES, THRESHOLDS, LayerRule
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Texts = str | Sequence[str] | Int[np.ndarray, "_ _"]
MATCH = 0.01  # how near the mean number of kept keys must come to the number asked for
_TRIES = 8


@dataclass(frozen=True, eq=False, repr=False)
class SparsePlan(Result):
    """A rule with its numbers for one model: `counts` (layer, head), or one `threshold`; `kept` in the calibration.

    `residual` is the median norm of the residual stream that enters each layer.
    """

    model: str
    rule: str
    keep: int
    threshold: float
    counts: Int[np.ndarray, "layer head"]
    residual: Float[np.ndarray, " layer"]
    kept: float

    def layers(self) -> list[LayerRule]:
        return [
            LayerRule(self.rule, self.threshold, row, float(size))
            for row, size in zip(self.counts, self.residual, strict=True)
        ]

    def variables(self) -> Variables:
        return {"counts": (("layer", "head"), self.counts), "residual": ("layer", self.residual)}

    def facts(self) -> list[str]:
        if self.rule in THRESHOLDS:
            name = "eps" if self.rule in GEOMETRIC else "p"
            how = f"{name} = {self.threshold:.4g}"
        else:
            how = f"{self.counts.min()} to {self.counts.max()} keys by head"
        return [
            f"{self.model}, {self.rule}: {how}",
            f"{self.kept:.3g} keys kept in the calibration, {self.keep} wanted",
        ]

    def plot(self) -> Figure:
        """The number of keys by layer and head (a fixed one, where a threshold decides)."""
        from sphereflow.pictures import blank, look

        with look():
            figure = blank(5.0, 3.2)
            axes = figure.subplots()
            image = axes.imshow(self.counts, aspect="auto", origin="lower")
            figure.colorbar(image, label="keys kept")
            axes.set(xlabel="head", ylabel="layer", title=f"{self.model}, {self.rule}")
        return figure


@recorded_call
def plan_sparsity(
    model: Any,
    texts: Texts | None = None,
    *,
    keep: int = 16,
    rule: str = "contribution",
    window: int = 192,
    documents: int = 8,
    seed: Seed = 0,
) -> SparsePlan:
    """How many keys the heads of a model should keep, `keep` on average, by one of the rules.

    **Arguments:** `model` is what `load_model` gives, a name for it, or a bare model of transformers; `texts` are for
    calibration (Python's help texts by default), cut into `documents` windows of `window` tokens each, or documents of
    tokens. Only queries in the last two thirds of a window count. A threshold is set until the mean number of keys that
    are really kept is within 1 % of `keep`.
    """
    number = number_from(seed)
    loaded = as_loaded(model)
    one_of("rule", rule, RULES)
    tokens = as_tokens(loaded, corpus() if texts is None else texts, window, documents)
    start = first_query(tokens)
    whole_number("keep", keep, most=start)
    faithful(loaded.model)
    return make_plan(loaded, calibrate(loaded.model, tokens, start), tokens, keep, rule, number)[0]


@contextmanager
def sparse_attention(
    model: Any,
    plan: SparsePlan | None = None,
    *,
    keep: int = 16,
    rule: str = "contribution",
    texts: Texts | None = None,
    gather: bool = True,
    seed: Seed = 0,
) -> Iterator[Usage]:
    """A block in which every head of the model keeps only some of its keys, `keep` on average.

    ```python
    with sf.llm.sparse_attention(model, keep=16) as usage:
        model.model.generate(...)
    print(usage.mean_kept, usage.share)
    ```

    Without a `plan` one is made by `plan_sparsity` on `texts`. All weights of a row are computed before keys are left
    out. With `gather`, a single query (a step of generation) reads only the values that it keeps.
    """
    number = number_from(seed)
    loaded = as_loaded(model)
    if plan is None:
        plan = plan_sparsity(loaded, texts, keep=keep, rule=rule, seed=seed)
    with exchanged(loaded.model, plan.layers(), gather=gather, number=number) as usage:
        yield usage


def make_plan(
    loaded: LanguageModel, calibration: Calibration, tokens: np.ndarray, keep: int, rule: str, number: int = 0
) -> tuple[SparsePlan, float]:
    """The plan, with a threshold matched on these tokens, and the slope of log keys against log threshold there."""
    shape = calibration.errors.shape[:2]
    counts = shared_out(calibration.errors, keep) if rule == "error" else np.full(shape, keep)

    def plan(threshold: float, kept: float) -> SparsePlan:
        return SparsePlan(loaded.name, rule, keep, threshold, counts, calibration.residual, kept)

    if rule not in THRESHOLDS:
        return plan(float("nan"), float(counts.mean())), -0.5
    first = calibration.threshold(rule, keep)
    _, made, slope = matched(loaded.model, plan(as_threshold(rule, first), keep), tokens, number)
    return made, slope


def matched(
    model: Any, plan: SparsePlan, tokens: np.ndarray, number: int = 0, slope: float = -0.5
) -> tuple[States, SparsePlan, float]:
    """Run documents with the plan, its threshold moved until `keep` keys are kept on them within 1 %.

    The threshold follows a straight line of log keys against log threshold, with this slope until two trials give
    another; it is returned for use on other documents. Only the number of keys is looked at, never the loss.
    """
    trials: list[tuple[float, float]] = []
    best: tuple[float, States, SparsePlan] | None = None
    for _ in range(_TRIES):
        found = run_states(model, plan, tokens, number)
        kept = float(found.kept.mean())
        missed = abs(kept / plan.keep - 1)
        if best is None or missed < best[0]:
            best = (missed, found, dataclasses.replace(plan, kept=kept))
        trials.append((as_log(plan.rule, plan.threshold) if plan.rule in THRESHOLDS else 0.0, float(np.log(kept))))
        if len(trials) > 1 and trials[-1][0] != trials[-2][0]:
            (x0, y0), (x1, y1) = trials[-2:]
            slope = min(max((y1 - y0) / (x1 - x0), -3.0), -0.1)
        if missed <= MATCH or plan.rule not in THRESHOLDS:
            break
        log = min(trials[-1][0] + (np.log(plan.keep) - trials[-1][1]) / slope, -1e-9)
        plan = dataclasses.replace(plan, threshold=as_threshold(plan.rule, log))
    assert best is not None
    return best[1], best[2], slope


def as_threshold(rule: str, log: float) -> float:
    """From the scale on which thresholds are sought: eps, or the weight 1 - p that is left out."""
    return float(np.exp(log)) if rule in GEOMETRIC else float(-np.expm1(log))


def as_log(rule: str, threshold: float) -> float:
    """A threshold on that scale."""
    return float(np.log(threshold)) if rule in GEOMETRIC else float(np.log1p(-threshold))


class States(NamedTuple):
    """Documents after the last layer, from `first_query` on; keys that a query of a head kept and could see."""

    final: list[Any]
    kept: Float[np.ndarray, " document"]
    seen: Float[np.ndarray, " document"]


def run_states(model: Any, plan: SparsePlan | None, tokens: np.ndarray, number: int = 0) -> States:
    """Run all documents, each without its last token, with the keys of a plan or with all."""
    import torch

    start = first_query(tokens)
    device = input_device(model)
    rules = None if plan is None else plan.layers()
    final, kept, seen = [], [], []
    for document in torch.as_tensor(tokens, device=device):
        with exchanged(model, rules, start=start, number=number) as usage, torch.no_grad():
            final.append(model.base_model(input_ids=document[None, :-1], use_cache=False)[0][0, start:])
        kept.append(usage.mean_kept)
        seen.append(usage.seen / usage.rows)
    return States(final, np.array(kept), np.array(seen))


def losses(model: Any, states: States, tokens: np.ndarray) -> Float[np.ndarray, " document"]:
    """The mean loss in nats of the tokens after `first_query`, by document."""
    import torch

    found = []
    with torch.no_grad():
        for final, target in zip(states.final, torch.as_tensor(tokens[:, first_query(tokens) + 1 :]), strict=True):
            logits = vocabulary_logits(model, final).float()
            found.append(float(torch.nn.functional.cross_entropy(logits, target.to(logits.device))))
    return np.array(found)


def first_query(tokens: np.ndarray) -> int:
    """The first query that counts: a third of the window lies before it."""
    return int(tokens.shape[1] // 3)


def as_loaded(model: Any) -> LanguageModel:
    """The language model that is meant, a decoder whose loss can be measured."""
    require_torch("making attention sparse")
    loaded = loaded_model(model)
    if not loaded.model.can_generate():
        raise SphereflowError(f"{loaded.name} is no decoder: it has no next token whose loss could be measured.")
    return loaded


def as_tokens(loaded: LanguageModel, texts: Any, window: int, documents: int) -> np.ndarray:
    """Windows of tokens of one or several texts, or the tokens that were given."""
    whole_number("window", window, least=24)
    return token_windows(loaded, texts, window, documents, least=24)[0]


def text_digests(texts: Any) -> list[str]:
    """Texts or tokens by digest."""
    if isinstance(texts, np.ndarray):
        return [f"sha256:{hashlib.sha256(np.ascontiguousarray(texts, dtype=np.int64).tobytes()).hexdigest()[:32]}"]
    given = [texts] if isinstance(texts, str) else list(texts)
    return [f"sha256:{hashlib.sha256(each.encode()).hexdigest()[:32]}" for each in given]
