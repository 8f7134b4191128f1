"""`record`: what theories need to know about a language model, in a small file that says where it comes from."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.llm.measurement.theory import BINS
from sphereflow.llm.model.capture import LayerCapture, capture
from sphereflow.llm.model.loading import LanguageModel, load_model, require_torch
from sphereflow.llm.model.texts import windows
from sphereflow.llm.recorded import statistics
from sphereflow.progress import Progress, reporting
from sphereflow.provenance import digest, version
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
    (document, layer, head, sink, N). `profile` is the mean weight on tokens whose distance lies in a bin of
    `distance_edges`, `similarity` the mean cosine of values `lags` apart, `value_norms` the norms at `positions`.
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
    def name(self) -> str:
        return str(self.source["model"])

    def variables(self) -> Variables:
        head, group = ("document", "layer", "head"), ("document", "layer", "group")
        data: Variables = {f"stream_{name}": (("document", "depth"), rows) for name, rows in self.stream.items()}
        data |= {f"head_{name}": (head, rows) for name, rows in self.heads.items()}
        data |= {f"value_{name}": (group, rows) for name, rows in self.values.items()}
        data |= {name: ((*head, "sink", "N"), rows) for name, rows in self.metrics.items()}
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
        ]

    def plot(self) -> Figure:
        """Cosines of tokens through the layers, and where the heads look."""
        from sphereflow.llm.recorded.pictures import draw_recording

        return draw_recording(self)


def _texts_by_digest(verb: Callable[..., Recording]) -> Callable[..., Recording]:
    """The verb, with a digest of the texts in the recorded call: a small file holds no book."""

    @functools.wraps(verb)
    def called(*args: Any, **given: Any) -> Recording:
        result = verb(*args, **given)
        result.parameters.update(model=result.name, texts=result.source["texts"])
        return result

    return called


@_texts_by_digest
@recorded_call
def record(
    model: Any,
    texts: str | Sequence[str] | Int[np.ndarray, "documents window"],
    *,
    window: int = 256,
    documents: int = 8,
    queries: int = 16,
    sizes: Sequence[int] = SIZES,
    progress: Progress = None,
) -> Recording:
    """Run a decoder or an encoder on texts and keep statistics of its layers and heads.

    **Arguments:** `model` is what `load_model` gives, a name for it, or a bare model of transformers with eager
    attention; `texts` one text, several, or documents of tokens; `documents` the number of windows of each text;
    `queries` how many rows of attention are looked at, evenly spread over the second half of a window (over all of it
    in an encoder). Statistics are computed in double precision and kept in single.
    """
    require_torch("recording a language model")
    chosen = tuple(whole_number("sizes", n) for n in sizes)
    if not chosen or list(chosen) != sorted(set(chosen)):
        raise SphereflowError(f"sizes must be increasing whole numbers, got {chosen}.")
    whole_number("queries", queries)
    loaded = _loaded(model)
    tokens, text = _tokens(loaded, texts, window, documents)
    length = tokens.shape[1]
    bidirectional = is_encoder(loaded.model)
    start = 1 if bidirectional else length // 2
    rows = np.unique(np.linspace(start, length - 1, queries + 1)[1:].round().astype(int))
    edges = statistics.distance_edges(length)
    layers: list[list[_Layer]] = []
    final: list[_State] = []
    with reporting("documents", progress) as report:
        for number, document in enumerate(tokens):
            layers.append([])

            def observe(layer: LayerCapture, number: int = number) -> None:
                report(number / len(tokens), f"document {number + 1}, layer {layer.index}")
                layers[-1].append(_layer(layer, chosen, edges, bidirectional))

            def ended(state: np.ndarray) -> None:
                final.append(_State(*statistics.stream_numbers(state[0], None)[:2]))

            capture(loaded.model, document[None], observe, queries=rows[None], final_state=ended)
        report(1.0, "")
    if len({layer.profile.shape + layer.norms.shape for layer in layers[0]}) > 1:
        raise SphereflowError(f"the layers of {loaded.name} differ in their number of heads: it cannot be recorded.")
    states = [[*document, last] for document, last in zip(layers, final, strict=True)]
    return Recording(
        source=_source(loaded, texts, tokens),
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


def _layer(layer: LayerCapture, sizes: tuple[int, ...], edges: np.ndarray, bidirectional: bool) -> _Layer:
    stream, histogram, temperatures = statistics.stream_numbers(layer.state[0], layer)
    if bidirectional:
        # What the attention of an encoder hands out has the residual in it, and is no update.
        stream["step"] = np.asarray(np.nan, dtype=np.float32)
    features, profile, metrics = statistics.attention_numbers(layer, sizes, edges, bidirectional)
    values = statistics.value_numbers(layer.values[0])
    return _Layer(stream, histogram, features | temperatures, profile, metrics, *values)


def is_encoder(model: Any) -> bool:
    """Whether tokens see those after them: asked of the model on two tokens."""
    ahead: list[bool] = []
    start = np.array([[1, 1, 1]])
    capture(model, start, lambda layer: ahead.append(bool(layer.visible[0, 0, 2])), queries=np.array([[1]]))
    return any(ahead)


def _loaded(model: Any) -> LanguageModel:
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, (str, Path)):
        return load_model(model)
    if not hasattr(model, "base_model"):
        raise SphereflowError(f"model must be a language model or the name of one, got {type(model).__name__}.")
    return LanguageModel(type(model).__name__, model, None)


def _tokens(loaded: LanguageModel, texts: Any, window: int, documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents of tokens, and the number of the text that each comes from."""
    if isinstance(texts, np.ndarray):
        tokens, text = texts, np.zeros(len(texts), dtype=int)
    else:
        given = [texts] if isinstance(texts, str) else list(texts)
        if not given or not all(isinstance(each, str) for each in given):
            raise SphereflowError(
                "texts must be a text, several texts, or an array of tokens by document and position."
            )
        cut = [windows(each, loaded.tokenizer, window=window, documents=documents) for each in given]
        tokens, text = np.concatenate(cut), np.repeat(np.arange(len(cut)), [len(each) for each in cut])
    if tokens.ndim != 2 or len(tokens) < 1 or tokens.shape[1] < 8 or tokens.dtype.kind not in "iu":
        raise SphereflowError(
            f"tokens must be whole numbers by document and position, at least 8 positions; got {tokens.dtype} of shape "
            f"{tokens.shape}."
        )
    known = loaded.model.config.get_text_config().vocab_size
    if tokens.min() < 0 or tokens.max() >= known:
        raise SphereflowError(f"tokens must lie from 0 to {known - 1}, got {tokens.min()} to {tokens.max()}.")
    longest = _learned_positions(loaded.model)
    if longest is not None and tokens.shape[1] > longest:
        raise SphereflowError(f"{loaded.name} has {longest} positions; documents of {tokens.shape[1]} do not fit.")
    return tokens, text


def _learned_positions(model: Any) -> int | None:
    """How many positions a model with a table of them has."""
    names = ("position_embeddings", "wpe", "embed_positions")
    tables = [part for name, part in model.named_modules() if name.split(".")[-1] in names]
    counts = [part.num_embeddings for part in tables if hasattr(part, "num_embeddings")]
    return min(counts) if counts else None


def _source(loaded: LanguageModel, texts: Any, tokens: np.ndarray) -> dict[str, Any]:
    weights = hashlib.sha256()
    for name, weight in sorted(loaded.model.state_dict().items()):
        weights.update(f"{name} {tuple(weight.shape)} {weight.dtype};".encode())
        weights.update(weight.detach().cpu().float().contiguous().numpy().tobytes())
    told: dict[str, Any] = {"tokens": digest(tokens)}
    if not isinstance(texts, np.ndarray):
        given = [texts] if isinstance(texts, str) else list(texts)
        told["characters"] = [len(each) for each in given]
        told["digests"] = [f"sha256:{hashlib.sha256(each.encode()).hexdigest()[:32]}" for each in given]
    return loaded.shape | {
        "weights": f"sha256:{weights.hexdigest()[:32]}",
        "files": {path.name: _file_digest(path) for path in loaded.files},
        "texts": told,
        "software": {name: version(name) or "" for name in ("torch", "transformers")},
    }


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
