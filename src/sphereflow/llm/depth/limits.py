r"""What `predict_limit` says about trained layers: every head alone, and the layer as one head.

A layer whose tokens have one direction u hands on $\sum_hV_hu$ whatever its weights, so the layer as one head has
$V=\sum_hV_h$. Of what the theorems ask for, real layers lack: one head (they have several), tokens that all see each
other (they are causal), equal queries and keys at all distances (rotations), no MLP, and no first token that holds most
of the weight. A prediction is a guess then, to be laid beside `iterate_layer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.evolution import predict_limit
from sphereflow.evolution.limits import PredictedLimit
from sphereflow.llm.depth.iterated import UNKNOWN
from sphereflow.llm.model.head_weights import head_matrices, layer_values
from sphereflow.llm.model.loading import LanguageModel, require_torch
from sphereflow.llm.model.source import loaded_model, named_model, source
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call


@dataclass(frozen=True, eq=False, repr=False)
class LayerLimits(Result):
    """Kinds of limits by layer and head (without normalisation) and by layer (on the sphere, as one head).

    `leading` and `next` are the real parts of the first two eigenvalues of the layer's value matrix, by real part;
    `rotation` the imaginary part of the first.
    """

    layers: tuple[int, ...]
    heads: tuple[tuple[str, ...], ...]
    proved: Float[np.ndarray, "layers heads"]
    whole: tuple[str, ...]
    leading: Float[np.ndarray, " layers"]
    next: Float[np.ndarray, " layers"]
    rotation: Float[np.ndarray, " layers"]
    source: dict[str, Any]

    def rate(self, layer: int, norm: float) -> float:
        r"""$\log\frac{r+\mu_1}{r+\mu_2}$: how fast a power iteration of r + V turns a token of norm r to the limit."""
        k = self.layers.index(layer)
        return float(np.log((norm + self.leading[k]) / (norm + self.next[k])))

    def facts(self) -> list[str]:
        count = Counter(kind for row in self.heads for kind in row)
        told = ", ".join(f"{number} {kind}" for kind, number in count.most_common())
        whole = ", ".join(f"{layer}: {kind}" for layer, kind in zip(self.layers, self.whole, strict=True))
        return [
            f"{self.source['model']}, {self.proved.size} heads alone: {told}; {int(self.proved.sum())} by a theorem",
            f"layers as one head, on the sphere: {whole}",
        ]

    def variables(self) -> Variables:
        names = ("leading", "next", "rotation")
        data: Variables = {name: ("layer", getattr(self, name)) for name in names}
        return data | {
            "layer": ("layer", np.array(self.layers)),
            "proved": (("layer", "head"), self.proved),
            "kind": (("layer", "head"), np.array(self.heads)),
            "whole": ("layer", np.array(self.whole)),
        }


@named_model
@recorded_call
def layer_limits(model: Any, layers: Sequence[int], *, progress: Progress = None) -> LayerLimits:
    """Predict where tokens go under layers of a causal language model, by their weights alone.

    **Arguments:** `layers` from 0. See `layer_values` for what is asked of the model. Heads whose queries and keys are
    normalised (Gemma) have no matrices of the theory: nothing is said of them alone.
    """
    require_torch("the limits of layers")
    chosen = tuple(layers)
    if not chosen:
        raise SphereflowError("layers must name at least one layer.")
    asked = loaded_model(model)
    depth, heads = asked.shape["layers"], asked.shape["heads"]
    for layer in chosen:
        whole_number("layers", layer, least=0, most=depth - 1)
    alone: list[list[PredictedLimit | None]] = []
    whole: list[PredictedLimit] = []
    with reporting("layers", progress) as report:
        for k, layer in enumerate(chosen):
            report(k / len(chosen), f"layer {layer}")
            whole.append(predict_limit(V=layer_values(asked, layer), space="sphere"))
            alone.append([_head_limit(asked, layer, head) for head in range(heads)])
        report(1.0, "")
    values = np.array([said.eigenvalues[:2] for said in whole])
    return LayerLimits(
        chosen,
        tuple(tuple(UNKNOWN if said is None else said.kind for said in row) for row in alone),
        np.array([[float(said is not None and said.proved) for said in row] for row in alone]),
        tuple(said.kind for said in whole),
        values[:, 0].real,
        values[:, 1].real,
        values[:, 0].imag,
        source(asked),
    )


def _head_limit(model: LanguageModel, layer: int, head: int) -> PredictedLimit | None:
    """What the theory says of one head alone; None where it has no matrices for it."""
    try:
        matrices = head_matrices(model, layer, head)
    except SphereflowError:
        return None
    return predict_limit(*matrices)
