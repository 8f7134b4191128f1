"""The geometry of every head of a language model over documents, one layer and one document at a time.

The protocol: windows of 1024 tokens with one beginning-of-sequence token, the last query, all layers and query heads,
N in 1, 2, 4, ..., 256, sixteen random rankings as control, with and without the sink, Euclidean and cosine distance.
Statistics are taken in double precision whatever the precision of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.llm.heads.arrays import full_precision
from sphereflow.llm.heads.geometry import DISTANCES, SIZES
from sphereflow.llm.heads.regimes import REGIMES, regimes
from sphereflow.llm.measurement.layers import HEAD_FEATURES, METRICS, LayerNumbers, Measurement
from sphereflow.llm.measurement.theory import BINS, LayerTheory, theories, theory_queries
from sphereflow.llm.model.capture import capture_tensors
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, plain, recorded_call
from sphereflow.seeds import Seed, number_from, recorded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SELECTIONS = ("attention", "random")
SINKS = ("with sink", "without sink")
REPEATS = 16
_LAYER_NUMBERS = ("mean_cosine", "sink_cosine", "participation", "spread", "clusters")


@dataclass(frozen=True, eq=False, repr=False)
class Heads(Result):
    """Metrics and features of all heads, document by document.

    `metrics[name]` has axes (document, layer, head, selection, sink, distance, N); `features[name]` has (document,
    layer, head); `theory[document]` holds one record per layer and one for the state after the last.
    `first_rows` are the weights of the last query in the first document, `mean_rows` their mean over documents.
    """

    sizes: tuple[int, ...]
    metrics: dict[str, np.ndarray]
    features: dict[str, np.ndarray]
    theory: list[list[LayerTheory]]
    first_rows: Float[np.ndarray, "layer head L"]
    mean_rows: Float[np.ndarray, "layer head L"]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        return self.features["sink_mass"].shape[0]

    @property
    def layers(self) -> int:
        return self.features["sink_mass"].shape[1]

    @property
    def heads(self) -> int:
        return self.features["sink_mass"].shape[2]

    def curve(
        self, metric: str, selection: str = "attention", sink: str = SINKS[0], distance: str = "euclidean"
    ) -> Float[np.ndarray, "document layer head N"]:
        """One metric against N."""
        at = (SELECTIONS.index(selection), SINKS.index(sink), DISTANCES.index(distance))
        return self.metrics[metric][:, :, :, at[0], at[1], at[2]]

    def by_document(
        self, metric: str, selection: str = "attention", sink: str = SINKS[0], distance: str = "euclidean"
    ) -> Float[np.ndarray, "document N"]:
        """One metric against N, averaged over the heads in which N tokens are visible; NaN where there are none."""
        curve = self.curve(metric, selection, sink, distance)
        known = np.isfinite(curve)
        count = known.sum(axis=(1, 2))
        total = np.where(known, curve, 0).sum(axis=(1, 2))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    @property
    def has_theory(self) -> bool:
        return bool(self.theory and self.theory[0])

    def by_depth(self, name: str) -> Float[np.ndarray, "document depth *rest"]:
        """A number (or the histogram) of `LayerTheory` before every layer and after the last one."""
        return np.array([[getattr(layer, name) for layer in document] for document in self.theory], dtype=float)

    def by_head(self, name: str) -> Float[np.ndarray, "document layer head"]:
        """The effective beta, alignment or entropy of every head."""
        return np.array([[getattr(layer, name) for layer in document[:-1]] for document in self.theory], dtype=float)

    @property
    def sees_sink(self) -> np.ndarray:
        """Which heads see the first token from the last one, (layer, head): a sliding window may end before it."""
        return np.isfinite(self.features["sink_mass"]).all(axis=0)

    def mean_feature(self, name: str) -> Float[np.ndarray, "layer head"]:
        return self.features[name].mean(axis=0)

    def variables(self) -> Variables:
        """All numbers, document by document."""
        axes = ("document", "layer", "head", "selection", "sink", "distance", "N")
        data: Variables = {name: (axes, self.metrics[name].astype(np.float32)) for name in METRICS}
        data |= {name: (axes[:3], self.features[name].astype(np.float32)) for name in HEAD_FEATURES}
        data["regime"] = (("layer", "head"), self.regimes)
        if self.has_theory:
            for name in _LAYER_NUMBERS:
                data[f"state_{name}"] = (("document", "depth"), self.by_depth(name))
            data["cosine_histogram"] = (("document", "depth", "cosine"), self.by_depth("histogram").astype(np.float32))
            data["step"] = (("document", "layer"), self.by_depth("step")[:, :-1])
            for name in ("beta", "alignment", "entropy"):
                data[f"head_{name}"] = (axes[:3], self.by_head(name).astype(np.float32))
            edges = np.linspace(-1, 1, BINS + 1)
            data["cosine"] = ("cosine", (edges[1:] + edges[:-1]) / 2)
        words = {"selection": SELECTIONS, "sink": SINKS, "distance": DISTANCES, "N": self.sizes}
        return data | {name: (name, np.array(values)) for name, values in words.items()}

    @cached_property
    def regimes(self) -> np.ndarray:
        """The regime of each head by the rule, from features averaged over documents: (layer, head)."""
        return regimes({name: self.mean_feature(name) for name in HEAD_FEATURES}).astype(np.int32)

    @property
    def regime_shares(self) -> dict[str, float]:
        """The share of heads in each regime."""
        share = np.bincount(self.regimes.ravel(), minlength=len(REGIMES)) / self.regimes.size
        return dict(zip(REGIMES, share.tolist(), strict=True))

    def record(self) -> dict[str, Any]:
        """The protocol, and metrics averaged over documents and heads, for each N; all numbers are in `to_xarray`."""
        kept = {name: self.by_document("f", name).mean(axis=0) for name in SELECTIONS}
        told = {"result": "Heads", "sizes": self.sizes, "f": kept, "regimes": self.regime_shares} | self.settings
        return plain(told | {"parameters": self.parameters, "seed": self.seed, "versions": self.versions})

    def facts(self) -> list[str]:
        k = min(range(len(self.sizes)), key=lambda i: abs(self.sizes[i] - 4))
        own, control = (self.by_document("f", name).mean(axis=0)[k] for name in SELECTIONS)
        shares = ", ".join(f"{100 * share:.0f} % {name}" for name, share in self.regime_shares.items())
        return [
            f"{self.layers} layers of {self.heads} heads over {self.documents} documents of "
            f"{self.settings.get('window', '?')} tokens",
            f"F of the {self.sizes[k]} largest weights {own:.3f}, of as many random tokens {control:.3f}",
            shares,
        ]

    def plot(self) -> Figure:
        """Precision, recall and F against N."""
        from sphereflow.llm.measurement.pictures import draw_curves

        return draw_curves(self)


@recorded_call
def measure_heads(
    model: Any,
    documents: Int[np.ndarray, "documents window"],
    *,
    sizes: Sequence[int] = SIZES,
    repeats: int = REPEATS,
    seed: Seed = 0,
    theory: bool = True,
    progress: Progress = None,
) -> Heads:
    """Run the model on every document and measure all heads at its last token.

    Sizes N that do not fit the visible tokens of some layer (a sliding window) are NaN there. Where the first token is
    out of sight all numbers about the sink are NaN, and there is nothing to leave out "without sink".
    """
    base = number_from(seed)
    from sphereflow.llm.model.anatomy import attention_places

    documents = np.asarray(documents)
    chosen = tuple(whole_number("sizes", n) for n in sizes)
    layers = len(attention_places(model))
    heads = model.config.get_text_config().num_attention_heads
    axes = (len(documents), layers, heads)
    kept = tuple(n for n in chosen if n < documents.shape[1] - 1)
    if not kept:
        raise SphereflowError(f"no N of {chosen} fits a window of {documents.shape[1]} tokens.")
    metrics = {name: np.full((*axes, 2, 2, 2, len(kept)), np.nan) for name in METRICS}
    features = {name: np.full(axes, np.nan) for name in HEAD_FEATURES}
    told: list[list[LayerTheory]] = []
    first, mean = (np.zeros((layers, heads, documents.shape[1]), dtype=np.float32) for _ in range(2))
    queries = theory_queries(documents.shape[1]) if theory else np.array([documents.shape[1] - 1])
    with reporting("documents", progress) as report:
        for number, tokens in enumerate(documents):
            told.append([])

            def received(layer: LayerNumbers, number: int = number) -> None:
                done = (number + layer.index / layers) / len(documents)
                report(done, f"document {number + 1}, layer {layer.index}")
                at = (number, layer.index, slice(len(layer.last_rows)))
                mean[at[1:]] += layer.last_rows / len(documents)
                if number == 0:
                    first[at[1:]] = layer.last_rows
                for k, name in enumerate(METRICS):
                    metrics[name][(*at, ..., slice(len(layer.sizes)))] = np.moveaxis(layer.metrics[:, :, :, k], 3, 0)
                for name in HEAD_FEATURES:
                    features[name][at] = layer.features[name]
                if layer.theory is not None:
                    told[-1].append(layer.theory)

            measurement = Measurement(number, kept, repeats, base, theory, received)

            def ended(state: Any, measurement: Measurement = measurement) -> None:
                measurement.finish()
                with full_precision(state.device):
                    told[-1].append(theories(state)[0])

            capture_tensors(
                model, tokens[None], measurement.add, queries=queries[None], final_state=ended if theory else None
            )
            measurement.finish()
        report(1.0, "")
    settings = {
        "window": int(documents.shape[1]),
        "documents": len(documents),
        "repeats": repeats,
        "seed": recorded(seed),
        "query": "last",
    }
    return Heads(kept, metrics, features, told, first, mean, settings)
