r"""One trained layer iterated: a network of equal layers, as the particle picture has it.

$$x^{(k+1)}=L(x^{(k)}),\qquad\text{or}\qquad x_i^{(k+1)}=|x_i^{(0)}|\,\frac{L(x^{(k)})_i}{|L(x^{(k)})_i|},$$

from the residual stream that enters the layer L in the network. Beside the trained layer: random weights of the same
singular values, no MLP, no attention. Clusters are connected components of tokens at cosine .9, the first token left
out; *centred* means unit vectors less their mean, made unit again, so that one direction common to all tokens does not
count. The change of a step is the root mean square of $|u_i^{(k+1)}-u_i^{(k)}|$ of unit vectors u; if it falls like
$e^{-\rho k}$, $\rho$ is the rate of approach.

If all tokens have one direction, every head hands on its value matrix times it, whatever the weights: without MLP the
rescaled iteration is then a power iteration of $r+V$, $V=\sum_hV_h$ and r the norm of a token, whose limit is the
leading eigenvector of V where its eigenvalue is real. `alignment` is the median $|\cos|$ of tokens with it.
"""

from __future__ import annotations

import copy
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.evolution import predict_limit
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places, input_device
from sphereflow.llm.model.head_weights import layer_values
from sphereflow.llm.model.loading import LanguageModel, require_torch
from sphereflow.llm.model.source import given_digest, loaded_model, named_model, source, token_windows
from sphereflow.llm.recorded.statistics import stream_numbers
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIANTS = ("trained", "random weights", "no MLP", "no attention")
STREAM = ("clusters", "centred_clusters", "mean_cosine", "centred_cosine", "rank", "centred_rank", "median_norm")
UNKNOWN = "not known"


@dataclass(frozen=True, eq=False, repr=False)
class IteratedLayer(Result):
    """Numbers of the residual stream by document and step; step 0 is what enters the layer in the network.

    `stream` has the names clusters, centred_clusters, mean_cosine, centred_cosine, rank, centred_rank (effective ranks
    $e^H$) and median_norm. `limit` is what `predict_limit` says on the sphere for the sum of the trained value
    matrices, with identities for queries and keys; `alignment` is with the trained layer's eigenvector in all variants,
    which makes random weights a control. Both are known for the Llama family and Gemma (see `layer_values`).
    """

    layer: int
    variant: str
    rescaled: bool
    n: int
    stream: dict[str, Float[np.ndarray, "documents states"]]
    change: Float[np.ndarray, "documents steps"]
    alignment: Float[np.ndarray, "documents states"]
    limit: str
    source: dict[str, Any]

    derived = ("end", "rate", "half_time")

    @property
    def steps(self) -> int:
        return int(self.change.shape[1])

    def median(self, name: str) -> Float[np.ndarray, " states"]:
        """The median over documents of one number of the stream."""
        return np.asarray(np.median(self.stream[one_of("name", name, STREAM)].astype(float), axis=0))

    @property
    def end(self) -> str:
        """Where the tokens are after the last step, by medians over documents.

        "one point" if their mean cosine is at least .99, "clusters" if there are at most a tenth as many centred
        clusters as tokens, else "apart".
        """
        if self.median("mean_cosine")[-1] >= 0.99:
            return "one point"
        return "clusters" if self.median("centred_clusters")[-1] <= self.n / 10 else "apart"

    @property
    def half_time(self) -> float:
        """The first step with at most half as many raw clusters as at the start; infinity if there is none."""
        counts = self.median("clusters")
        reached = np.flatnonzero(counts <= counts[0] / 2)
        return float(reached[0]) if len(reached) else float("inf")

    @property
    def rate(self) -> float:
        """Minus the slope of the log of the change over the second half of the steps, median over documents.

        NaN where nothing moves any more, to rounding.
        """
        half = self.steps // 2
        tail = self.change[:, half:].astype(float)
        moving = (tail > 1e-6).all(axis=1)
        if not moving.any():
            return float("nan")
        k = np.arange(half, self.steps)
        return float(np.median([-np.polyfit(k, np.log(row), 1)[0] for row in tail[moving]]))

    def facts(self) -> list[str]:
        raw, centred = self.median("clusters"), self.median("centred_clusters")
        shown = sorted({k for k in (0, self.steps // 8, self.steps // 4, self.steps // 2, self.steps)})
        told = ", ".join(f"{raw[k]:.0f}/{centred[k]:.0f} at {k}" for k in shown)
        how = "tokens kept at their norms" if self.rescaled else "plain"
        return [
            f"{self.source['model']}, layer {self.layer}, {self.variant}, {how}: clusters raw/centred of {self.n} "
            f"tokens {told}: {self.end}",
            f"rate of approach {self.rate:.3g} per step, effective rank {self.median('rank')[-1]:.1f} "
            f"(centred {self.median('centred_rank')[-1]:.1f}), median norm times "
            f"{self.median('median_norm')[-1] / self.median('median_norm')[0]:.3g}",
            f"predicted for attention alone: {self.limit}; median |cos| with the leading eigenvector "
            f"{float(np.median(self.alignment[:, -1])):.2f}",
        ]

    def variables(self) -> Variables:
        data: Variables = {name: (("document", "state"), rows) for name, rows in self.stream.items()}
        return data | {
            "change": (("document", "step"), self.change),
            "alignment": (("document", "state"), self.alignment),
        }

    def plot(self) -> Figure:
        """Clusters, effective rank and change against the step."""
        from sphereflow.llm.depth.pictures import draw_iterated

        return draw_iterated(self)


@named_model
@recorded_call
def iterate_layer(
    model: Any,
    layer: int,
    texts: str | Int[np.ndarray, "documents window"],
    *,
    steps: int = 40,
    rescale: bool = True,
    variant: str = "trained",
    window: int = 128,
    documents: int = 4,
    seed: Seed = 0,
    progress: Progress = None,
) -> IteratedLayer:
    """Apply one layer of a causal language model again and again to the tokens that enter it.

    **Arguments:** `layer` from 0; `texts` a text, cut into windows, or documents of tokens; `rescale` brings every
    token back to its first norm after each step; `variant` one of "trained", "random weights" (drawn with the seed),
    "no MLP", "no attention".

    ```python
    print(sf.llm.iterate_layer("smollm2", 15, sf.llm.corpus(), steps=20).summary())
    ```
    """
    rng = rng_from(seed)
    require_torch("iterating a layer")
    one_of("variant", variant, VARIANTS)
    whole_number("steps", steps, least=4)
    asked = loaded_model(model)
    places = attention_places(asked.model)
    place = places[whole_number("layer", layer, least=0, most=len(places) - 1)]
    if not hasattr(place.decoder_layer, "mlp"):
        raise SphereflowError(f"the layers of {asked.name} have no part named mlp: their iteration is not known here.")
    tokens, _ = token_windows(asked, texts, window, documents)
    known = given_digest(texts, tokens)
    limit, axis = layer_limit(asked, layer)
    stream: dict[str, list[list[float]]] = {name: [[] for _ in tokens] for name in STREAM}
    change, alignment = np.empty((len(tokens), steps)), np.full((len(tokens), steps + 1), np.nan)
    before = np.zeros(0)
    with reporting("steps", progress) as report:
        for k, states in enumerate(_states(asked, place, tokens, steps, rescale, variant, rng)):
            report(k / (steps + 1), f"step {k} of {steps}")
            units = states[:, 1:] / np.maximum(np.linalg.norm(states[:, 1:], axis=-1, keepdims=True), 1e-30)
            for number, state in enumerate(states):
                found = stream_numbers(state, None)[0]
                for name in STREAM:
                    stream[name][number].append(float(found[name]))
            if axis is not None:
                alignment[:, k] = np.median(np.abs(units @ axis), axis=1)
            if k:
                change[:, k - 1] = np.sqrt(np.mean(np.sum((units - before) ** 2, axis=-1), axis=-1))
            before = units
        report(1.0, "")
    return IteratedLayer(
        layer,
        variant,
        rescale,
        tokens.shape[1] - 1,
        {name: np.array(rows, dtype=np.float32) for name, rows in stream.items()},
        change.astype(np.float32),
        alignment.astype(np.float32),
        limit,
        source(asked, texts=known),
    )


def layer_limit(model: LanguageModel, layer: int) -> tuple[str, Float[np.ndarray, " D"] | None]:
    """What `predict_limit` says for the sum of the value matrices of a layer, and the leading eigenvector, if real."""
    try:
        value = layer_values(model, layer)
    except SphereflowError:  # biases, or another norm
        return UNKNOWN, None
    said = predict_limit(V=value, space="sphere")
    return said.kind, said.coordinates[0] if len(said.coordinates) else None


def _states(
    asked: LanguageModel,
    place: AttentionPlace,
    tokens: np.ndarray,
    steps: int,
    rescale: bool,
    variant: str,
    rng: np.random.Generator,
) -> Any:
    """The residual stream before the first step and after each, by document."""
    import torch

    entered: dict[str, Any] = {}

    def enter(module: Any, args: Any, kwargs: Any) -> None:
        entered.update(args=args, kwargs=kwargs)

    device = input_device(asked.model)
    with torch.no_grad():
        handle = place.decoder_layer.register_forward_pre_hook(enter, with_kwargs=True)
        try:
            asked.model.base_model(input_ids=torch.as_tensor(tokens, device=device), use_cache=False)
        finally:
            handle.remove()
        args, kwargs = entered["args"], dict(entered["kwargs"])
        x = args[0] if args else kwargs.pop("hidden_states")
        layer = _random_weights(place.decoder_layer, rng) if variant == "random weights" else place.decoder_layer
        norms = x.norm(dim=-1, keepdim=True)
        yield x.float().cpu().numpy()
        with ExitStack() as hooks:
            if variant in ("no MLP", "no attention"):
                silent = layer.mlp if variant == "no MLP" else place.output_projection
                hooks.callback(silent.register_forward_hook(_nothing).remove)
            for _ in range(steps):
                output = layer(x, *args[1:], **kwargs)
                x = output[0] if isinstance(output, tuple) else output
                if rescale:
                    x = x * (norms / x.norm(dim=-1, keepdim=True).clamp_min(1e-30))
                yield x.float().cpu().numpy()


def _nothing(module: Any, args: Any, output: Any) -> Any:
    """A part of a layer that adds nothing."""
    first = output[0] if isinstance(output, tuple) else output
    return (first * 0, *output[1:]) if isinstance(output, tuple) else first * 0


def _random_weights(layer: Any, rng: np.random.Generator) -> Any:
    """A copy of the layer, each matrix with its own singular values between random orthogonal ones."""
    import torch

    if any(weight.is_meta for weight in layer.parameters()):
        raise SphereflowError("this layer was moved out of memory (device_map): random weights need it in memory.")
    other = copy.deepcopy(layer)
    for weight in other.parameters():
        if weight.ndim == 2:
            old = weight.detach().cpu().double().numpy()
            sizes = np.linalg.svd(old, compute_uv=False)
            left, right = (np.linalg.qr(rng.normal(size=(k, len(sizes))))[0] for k in old.shape)
            weight.data = torch.as_tensor((left * sizes) @ right.T, dtype=weight.dtype, device=weight.device)
    return other
