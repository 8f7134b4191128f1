"""`record`: what theories need to know about a language model, in a small file that says where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.llm.measurement.theory import BINS
from sphereflow.llm.model.capture import LayerCapture, capture
from sphereflow.llm.model.loading import require_torch
from sphereflow.llm.model.source import loaded_model, token_windows
from sphereflow.llm.recorded import statistics
from sphereflow.llm.recorded.inputs import is_encoder, source_of, texts_by_digest
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SINKS = ("with sink", "without sink")
SIZES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False, repr=False)
class Recording(Result):
    """Statistics of a network, document by document, layer by layer and head by head.

    `stream[name]` has axes (document, depth), depth 0 before the first layer; `heads[name]` (document, layer, head),
    means over `queries`; `values[name]` (document, layer, group) with one group per key/value head; `metrics[name]`
    (document, layer, head, sink, N), and so do `envelopes[name]`, at two queries: measured precision and recall, and
    those of independent values with the same weights. `profile` is the mean weight on tokens whose distance lies in a
    bin of `distance_edges`, `similarity` the mean cosine of values `lags` apart, `value_norms` norms at `positions`.
    The sink is the first token. `source` names the model, its files and texts by digest, and the software.
    """

    source: dict[str, Any]
    bidirectional: bool
    text: Int[np.ndarray, " document"]
    queries: Int[np.ndarray, " query"]
    positions: Int[np.ndarray, " position"]
    lags: Int[np.ndarray, " lag"]
    distance_edges: Int[np.ndarray, " edges"]
    sizes: tuple[int, ...]
    stream: dict[str, np.ndarray]
    heads: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    metrics: dict[str, np.ndarray]
    envelopes: dict[str, np.ndarray]
    histogram: Float[np.ndarray, "document depth cosine"]
    profile: Float[np.ndarray, "document layer head distance"]
    value_norms: Float[np.ndarray, "document layer group position"]
    similarity: Float[np.ndarray, "document layer group lag"]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(documents, layers, heads)."""
        return self.profile.shape[:3]

    @property
    def window(self) -> int:
        """Tokens of a document."""
        return int(self.distance_edges[-1])

    @property
    def sees_sink(self) -> Bool[np.ndarray, " layer"]:
        """Which layers see the first token from one of the queries at least: a sliding window may end before it."""
        return np.asarray(np.isfinite(self.heads["sink_mass"]).any(axis=(0, 2)))

    @property
    def name(self) -> str:
        return str(self.source["model"])

    def variables(self) -> Variables:
        head, group = ("document", "layer", "head"), ("document", "layer", "group")
        data: Variables = {f"stream_{name}": (("document", "depth"), rows) for name, rows in self.stream.items()}
        data |= {f"head_{name}": (head, rows) for name, rows in self.heads.items()}
        data |= {f"value_{name}": (group, rows) for name, rows in self.values.items()}
        data |= {name: ((*head, "sink", "N"), rows) for name, rows in self.metrics.items()}
        data |= {f"envelope_{name}": ((*head, "sink", "N"), rows) for name, rows in self.envelopes.items()}
        edges = np.linspace(-1, 1, BINS + 1)
        return data | {
            "text": ("document", self.text),
            "histogram": (("document", "depth", "cosine"), self.histogram),
            "profile": ((*head, "distance"), self.profile),
            "value_norms": ((*group, "position"), self.value_norms),
            "similarity": ((*group, "lag"), self.similarity),
            "cosine": ("cosine", (edges[1:] + edges[:-1]) / 2),
            "distance": ("distance", self.distance_edges[:-1]),
            "position": ("position", self.positions),
            "lag": ("lag", self.lags),
            "sink": ("sink", np.array(SINKS)),
            "N": ("N", np.array(self.sizes)),
        }

    def facts(self) -> list[str]:
        documents, layers, heads = self.shape
        kind = "encoder" if self.bidirectional else "decoder"
        raw, centred = (self.stream[name].mean(axis=0) for name in ("mean_cosine", "centred_cosine"))
        sink = np.nanmean(self.heads["sink_mass"]) if np.isfinite(self.heads["sink_mass"]).any() else np.nan
        return [
            f"{self.name}: {kind}, {layers} layers of {heads} heads, {documents} documents of {self.window} tokens",
            f"mean cosine of tokens {raw[0]:.3f} before the first layer, {raw[-1]:.3f} after the last "
            f"(centred {centred[0]:.3f}, {centred[-1]:.3f})",
            f"weight on the first token {sink:.3f}, effective tokens {np.median(self.heads['entropy_number']):.1f}",
            f"{np.sum(self.sees_sink)} of {layers} layers see the first token",
        ]

    def plot(self) -> Figure:
        """Cosines of tokens through the layers, and where the heads look."""
        from sphereflow.llm.recorded.pictures import draw_recording

        return draw_recording(self)


def checked_recording(given: Any) -> Recording:
    """What verbs on recordings are given, which must be one."""
    if not isinstance(given, Recording):
        raise SphereflowError(f"recording must be what `record` or `recording` gives, got {type(given).__name__}.")
    return given


@texts_by_digest
@recorded_call
def record(
    model: Any,
    texts: str | Sequence[str] | Int[np.ndarray, "documents window"],
    *,
    window: int = 256,
    documents: int = 8,
    queries: int = 32,
    sizes: Sequence[int] = SIZES,
    envelope_documents: int = 2,
    progress: Progress = None,
) -> Recording:
    """Run a decoder or an encoder on texts and keep statistics of its layers and heads.

    **Arguments:** `model` is what `load_model` gives, a name for it, or a bare model of transformers with eager
    attention; `texts` one text, several, or documents of tokens; `documents` the number of windows of each text;
    `queries` how many rows of attention are looked at, evenly spread over the second half of a window (over all of it
    in an encoder); `envelope_documents` of how many documents, evenly spread, the separation of independent values is
    computed, which takes longer than all else (NaN in the others). Statistics are computed in double precision and
    kept in single.
    """
    require_torch("recording a language model")
    chosen = tuple(whole_number("sizes", n) for n in sizes)
    if not chosen or list(chosen) != sorted(set(chosen)):
        raise SphereflowError(f"sizes must be increasing whole numbers, got {chosen}.")
    whole_number("queries", queries)
    whole_number("envelope_documents", envelope_documents, least=0)
    loaded = loaded_model(model)
    tokens, text = token_windows(loaded, texts, window, documents)
    length = tokens.shape[1]
    bidirectional = is_encoder(loaded.model)
    start = 1 if bidirectional else length // 2
    rows = np.unique(np.linspace(start, length - 1, queries + 1)[1:].round().astype(int))
    edges = statistics.distance_edges(length)
    count = min(envelope_documents, len(tokens))
    enveloped = {k * len(tokens) // count for k in range(count)}
    layers: list[list[_Layer]] = []
    final: list[_State] = []
    with reporting("documents", progress) as report:
        for number, document in enumerate(tokens):
            layers.append([])

            def observe(layer: LayerCapture, number: int = number) -> None:
                report(number / len(tokens), f"document {number + 1}, layer {layer.index}")
                layers[-1].append(_layer(layer, chosen, edges, bidirectional, number in enveloped))

            def ended(state: np.ndarray) -> None:
                final.append(_State(*statistics.stream_numbers(state[0], None)[:2]))

            capture(loaded.model, document[None], observe, queries=rows[None], final_state=ended)
        report(1.0, "")
    if len({layer.profile.shape + layer.norms.shape for layer in layers[0]}) > 1:
        raise SphereflowError(f"the layers of {loaded.name} differ in their number of heads: it cannot be recorded.")
    states = [[*document, last] for document, last in zip(layers, final, strict=True)]
    return Recording(
        source=source_of(loaded, texts, tokens),
        bidirectional=bidirectional,
        text=text,
        queries=rows,
        positions=statistics.norm_positions(length),
        lags=statistics.lags(length),
        distance_edges=edges,
        sizes=chosen,
        stream=_tables(states, "stream"),
        heads=_tables(layers, "heads"),
        values=_tables(layers, "values"),
        metrics=_tables(layers, "metrics"),
        envelopes=_tables(layers, "envelopes"),
        histogram=_arrays(states, "histogram"),
        profile=_arrays(layers, "profile"),
        value_norms=_arrays(layers, "norms"),
        similarity=_arrays(layers, "similarity"),
    )


@dataclass(frozen=True)
class _State:
    """The residual stream before a layer, or after the last one."""

    stream: dict[str, np.ndarray]
    histogram: np.ndarray


@dataclass(frozen=True)
class _Layer(_State):
    """The state that enters a layer, and its heads."""

    heads: dict[str, np.ndarray]
    profile: np.ndarray
    metrics: dict[str, np.ndarray]
    envelopes: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    norms: np.ndarray
    similarity: np.ndarray


def _arrays(states: Sequence[Sequence[_State]], part: str) -> np.ndarray:
    """One part of all documents and depths."""
    return np.array([[getattr(state, part) for state in document] for document in states], dtype=np.float32)


def _tables(states: Sequence[Sequence[_State]], part: str) -> dict[str, np.ndarray]:
    """The same of a part that holds named arrays."""
    return {
        name: np.array([[getattr(state, part)[name] for state in document] for document in states], dtype=np.float32)
        for name in getattr(states[0][0], part)
    }


def _layer(
    layer: LayerCapture, sizes: tuple[int, ...], edges: np.ndarray, bidirectional: bool, enveloped: bool
) -> _Layer:
    stream, histogram, temperatures = statistics.stream_numbers(layer.state[0], layer)
    if bidirectional:
        # What the attention of an encoder hands out has the residual in it, and is no update.
        stream["step"] = np.asarray(np.nan, dtype=np.float32)
    features, profile, metrics = statistics.attention_numbers(layer, sizes, edges, bidirectional)
    values = statistics.value_numbers(layer.values[0])
    envelopes = statistics.envelope_numbers(layer, sizes, enveloped)
    return _Layer(stream, histogram, features | temperatures, profile, metrics, envelopes, *values)
