r"""The inverse temperature of real heads, three ways, and where a head stands in the diagram of beta and n.

The particle picture has logits $\beta\langle x_i,x_j\rangle$ of unit vectors. Of a real head, without the first token:

- by norms, $\overline{|q|}\;\overline{|k|}\,/\sqrt{d_h}$: the logit if queries and keys were parallel;
- by logits, the standard deviation of the logits of a row;
- by cosines, the slope of the logits on the cosines of the tokens that enter the layer, with $R^2$.

At n tokens with mean cosine $\rho$ one layer of attention averages all tokens if $\beta(1-\rho)<\log n$ and keeps each
apart if it is larger (`sharpness` is their ratio). Equiangular tokens come within cosine .9 at the time $t^*(n,\beta)$;
the layers of the network together last $T=\sum_l\overline{|\text{attention}_l|/|x_l|}$, and a head whose t* is below T
would gather the tokens in a network of its kind.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, one_of
from sphereflow.evolution.equiangular import log_collapse_time
from sphereflow.llm.measurement.theory import layer_theory, theory_queries
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places
from sphereflow.llm.model.capture import LayerCapture, capture
from sphereflow.llm.model.loading import require_torch
from sphereflow.llm.model.source import given_digest, loaded_model, named_model, source, token_windows
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = ("norms", "logits", "cosines")
_DELTA = 0.1  # clusters are counted at cosine .9


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveBetas(Result):
    """Inverse temperatures by document, layer and head, three ways; `r2` belongs to that by cosines.

    `mean_cosine` and `step` are those of the residual stream that enters a layer and of the attention it adds,
    `entropy` that of the rows relative to uniform; n is the number of tokens without the first.
    """

    norms: Float[np.ndarray, "documents layers heads"]
    logits: Float[np.ndarray, "documents layers heads"]
    cosines: Float[np.ndarray, "documents layers heads"]
    r2: Float[np.ndarray, "documents layers heads"]
    entropy: Float[np.ndarray, "documents layers heads"]
    mean_cosine: Float[np.ndarray, "documents layers"]
    step: Float[np.ndarray, "documents layers"]
    n: int
    source: dict[str, Any]

    derived = ("time",)

    def per_head(self, by: str) -> Float[np.ndarray, "layers heads"]:
        """Means over documents of beta "by" norms, logits or cosines."""
        return np.asarray(getattr(self, one_of("by", by, BETAS)), dtype=float).mean(axis=0)

    @property
    def time(self) -> float:
        """How long the layers last together in units of the particle picture, mean over documents."""
        return float(self.step.astype(float).sum(axis=1).mean())

    def sharpness(self, by: str) -> Float[np.ndarray, "layers heads"]:
        r"""$\beta(1-\rho)/\log n$: above 1 a head keeps equiangular tokens apart, below it averages them."""
        rho = self.mean_cosine.astype(float).mean(axis=0)[:, None]
        return self.per_head(by) * (1 - rho) / np.log(self.n)

    def log_collapse_times(self, by: str) -> Float[np.ndarray, "layers heads"]:
        """log t*, from orthogonal tokens to cosine .9; infinity where beta is negative."""
        betas = self.per_head(by)
        found = [log_collapse_time(self.n, b, _DELTA) if b >= 0 else np.inf for b in betas.ravel()]
        return np.array(found).reshape(betas.shape)

    def gathers(self, by: str) -> Float[np.ndarray, "layers heads"]:
        """1 for the heads that would gather equiangular tokens within the depth of the network, else 0."""
        return np.asarray(self.log_collapse_times(by) <= np.log(self.time), dtype=float)

    def facts(self) -> list[str]:
        def said(by: str) -> str:
            low, middle, high = np.percentile(self.per_head(by), [5, 50, 95])
            return f"by {by} {middle:.3g} ({low:.3g} to {high:.3g})"

        return [
            f"{self.source['model']}, beta, median (5 to 95 % of heads): {', '.join(map(said, BETAS))}, "
            f"R^2 {np.median(self.r2):.3f}",
            f"n = {self.n}: heads that keep equiangular tokens apart: "
            + ", ".join(f"{np.mean(self.sharpness(by) > 1):.0%} by {by}" for by in BETAS),
            f"all layers together last T = {self.time:.3g}; heads that would gather tokens by then: "
            + ", ".join(f"{np.mean(self.gathers(by)):.0%} by {by}" for by in BETAS),
        ]

    def variables(self) -> Variables:
        head = ("document", "layer", "head")
        data: Variables = {name: (head, getattr(self, name)) for name in (*BETAS, "r2", "entropy")}
        return data | {name: (("document", "layer"), getattr(self, name)) for name in ("mean_cosine", "step")}

    def plot(self) -> Figure:
        """Beta of every head by layer, three ways, beside the line above which tokens are kept apart."""
        from sphereflow.llm.depth.pictures import draw_betas

        return draw_betas(self)


@named_model
@recorded_call
def effective_betas(
    model: Any,
    texts: str | Int[np.ndarray, "documents window"],
    *,
    window: int = 256,
    documents: int = 8,
    progress: Progress = None,
) -> EffectiveBetas:
    """Inverse temperatures of all heads of a causal language model, three ways, with the layers they stand in.

    **Arguments:** `texts` is a text, cut into windows, or documents of tokens. Needs separate projections of queries
    and keys (Llama, Mistral, Gemma, Qwen, Phi, ...).
    """
    require_torch("effective inverse temperatures")
    asked = loaded_model(model)
    places = attention_places(asked.model)
    for place in places:
        if not (hasattr(place.attention, "q_proj") and hasattr(place.attention, "k_proj")):
            raise SphereflowError(
                f"{asked.name} has no separate projections of queries and keys: their norms cannot be read."
            )
    tokens, _ = token_windows(asked, texts, window, documents)
    known = given_digest(texts, tokens)
    rows: list[list[dict[str, np.ndarray]]] = []
    queries = theory_queries(tokens.shape[1])
    with reporting("documents", progress) as report:
        for number, document in enumerate(tokens):
            rows.append([])
            sizes: dict[tuple[int, str], np.ndarray] = {}

            def observe(layer: LayerCapture, number: int = number, sizes: dict = sizes) -> None:
                report(number / len(tokens), f"document {number + 1}, layer {layer.index}")
                rows[-1].append(_layer(layer, places[layer.index], sizes))

            with ExitStack() as hooks:
                for place in places:
                    _listen(place, asked.model, sizes, hooks)
                capture(asked.model, document[None], observe, queries=queries[None])
        report(1.0, "")

    def table(name: str) -> np.ndarray:
        return np.array([[layer[name] for layer in document] for document in rows], dtype=np.float32)

    return EffectiveBetas(
        norms=table("norms"),
        logits=table("logits"),
        cosines=table("cosines"),
        r2=table("r2"),
        entropy=table("entropy"),
        mean_cosine=table("mean_cosine"),
        step=table("step"),
        n=tokens.shape[1] - 1,
        source=source(asked, texts=known),
    )


def _listen(place: AttentionPlace, model: Any, sizes: dict[tuple[int, str], np.ndarray], hooks: ExitStack) -> None:
    """Mean norm of queries and of keys per head, where the layer makes them; rotations do not change norms."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    groups = getattr(config, "num_key_value_heads", None) or heads
    for name, count in (("q", heads), ("k", groups)):
        made = getattr(place.attention, f"{name}_norm", None) or getattr(place.attention, f"{name}_proj")

        def heard(module: Any, args: Any, output: Any, name: str = name, count: int = count) -> None:
            # (1, L, heads * d) from a projection; (1, L, heads, d) or (1, heads, L, d) from a norm behind it
            states = output.detach().double()
            if states.ndim == 3:
                states = states.unflatten(2, (count, -1))
            elif states.shape[1] == count and states.shape[2] != count:
                states = states.transpose(1, 2)
            sizes[place.index, name] = states[0, 1:].norm(dim=-1).mean(dim=0).cpu().numpy()
            sizes[place.index, "width"] = np.array(states.shape[-1])

        hooks.callback(made.register_forward_hook(heard).remove)


def _layer(layer: LayerCapture, place: AttentionPlace, sizes: dict[tuple[int, str], np.ndarray]) -> dict[str, Any]:
    told = layer_theory(layer)
    q, k = sizes[layer.index, "q"], sizes[layer.index, "k"]
    scaling = getattr(place.attention, "scaling", None) or 1 / np.sqrt(float(sizes[layer.index, "width"]))
    return {
        "norms": q * np.repeat(k, len(q) // len(k)) * scaling,
        "logits": told.logit_spread,
        "cosines": told.beta * told.alignment,
        "r2": told.alignment**2,
        "entropy": told.entropy,
        "mean_cosine": told.mean_cosine,
        "step": told.step,
    }
