"""What the hooks of one layer took, as tensors where the layer computed them.

Nothing here waits for a graphics card. What has to be known in main memory, which tokens are visible, is asked for when
a layer, or several at once, are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sphereflow.llm.heads.arrays import to_host


@dataclass(frozen=True)
class LayerTensors:
    """One layer at the chosen queries, in single precision; names and axes are those of `LayerCapture`.

    `weighted[b, q]` are the positions on which some head puts weight, `shown[b, q]` those that the mask of the layer
    names (None: it had none), `update` the length of the attention output at each token, `kind` the model's precision.
    """

    index: int
    name: str
    kind: str
    queries: Int[np.ndarray, "b q"]
    mask: Int[np.ndarray, "b L"]
    rows: Float[Any, "b h q L"]
    values: Float[Any, "b g L d"]
    outputs: Float[Any, "b h q d"]
    state: Float[Any, "b L D"]
    update: Float[Any, "b L"]
    weighted: Bool[Any, "b q L"]
    shown: Bool[Any, "b q L"] | None

    @property
    def heads(self) -> int:
        return int(self.rows.shape[1])

    @property
    def bytes(self) -> int:
        """What it takes where it lies."""
        return sum(4 * each.numel() for each in (self.rows, self.values, self.outputs, self.state))

    @property
    def fits(self) -> tuple[Any, ...]:
        """Layers that agree in this can be computed with together."""
        return (str(self.rows.device), self.rows.shape, self.values.shape, self.state.shape, self.kind)


def visible(layers: Sequence[LayerTensors]) -> list[Bool[np.ndarray, "b q L"]]:
    """Which positions the queries of each layer may see: from the mask it was given, or causal if there is none.

    An encoder is known by the weight that its queries have on later tokens. The layers lie on one device.
    """
    import torch

    weighted = to_host(torch.stack([layer.weighted for layer in layers]))
    masks = {id(layer.shown): layer.shown for layer in layers}
    shown = {key: None if mask is None else to_host(mask) for key, mask in masks.items()}
    return [_seen(layer, on, shown[id(layer.shown)]) for layer, on in zip(layers, weighted, strict=True)]


def _seen(layer: LayerTensors, weighted: np.ndarray, shown: np.ndarray | None) -> np.ndarray:
    length = layer.mask.shape[1]
    tokens = np.broadcast_to(layer.mask[:, None, :].astype(bool), (*layer.queries.shape, length))
    earlier = np.arange(length) <= layer.queries[..., None]
    ahead = (weighted & tokens & ~earlier).any()
    reach = tokens if ahead else tokens & earlier
    if shown is None:
        return np.asarray(reach)
    # Some models mark what is hidden instead of what is seen; weight outside the visible set tells them apart.
    return (~shown if (weighted & ~shown).any() else shown) & reach
