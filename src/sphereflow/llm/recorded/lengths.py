r"""`record_lengths`: how selection depends on the number of visible tokens, in every head of a decoder.

One window, queries at $t=L-1$, so that exactly L tokens are seen. With weights $\alpha$, values v, S the N largest
weights, $z=\sum\alpha_iv_i$, $s_N=\sum_S\alpha_iv_i$ and $r=\mathrm{median}_{i\ge1}|v_i|$:

$$ d_N=|z-2s_N|/r,\qquad N_s/N=R_N,\qquad m_N=\sum_S\alpha_i,\qquad \sum_i\alpha_i^2,\qquad |z|/r,\qquad
   \sum_i\alpha_i^2|v_i|^2/r^2,\qquad \overline{\cos(v_i,v_j)}_{i\ne j}, $$

each with the first token (the sink) and without it (dropped, the other weights scaled to sum one); and the spectral
norm of the derivative of softmax at temperatures T, the logits being $\log\alpha$. A layer whose sliding window hides
some of the L tokens is not asked: its numbers are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.llm.heads.geometry import descending, separations, without_sink
from sphereflow.llm.model.capture import LayerCapture, capture
from sphereflow.llm.model.loading import require_torch
from sphereflow.llm.model.source import loaded_model, token_windows
from sphereflow.llm.recorded.inputs import is_encoder, source_of, texts_by_digest
from sphereflow.numerics.selection import expected_recall
from sphereflow.numerics.softmax import spectral_norm
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call

LENGTHS = (32, 64, 128, 256, 512, 1024)
SIZES = (2, 4, 8, 16, 32, 64, 128)
TEMPERATURES = (1.0, 0.5, 0.2, 0.1, 0.05)
SELECTION = ("distance", "recall", "top_mass", "expected_recall")
WHOLE = ("concentration", "output", "squares", "cosine")


@dataclass(frozen=True, eq=False, repr=False)
class LengthRecording(Result):
    """Numbers of every head at several lengths.

    `selection[name]` has axes (document, layer, head, sink, length, N): distance, recall, top mass, and the recall that
    independent values would have with the same weights in the width of the head. `whole[name]` (document, layer, head,
    sink, length): sum of squared weights, length of the output, sum of squared contributions, mean cosine of values.
    `jacobian` (document, layer, head, length, temperature), with the sink.
    """

    source: dict[str, Any]
    lengths: Int[np.ndarray, " length"]
    sizes: Int[np.ndarray, " N"]
    temperatures: Float[np.ndarray, " T"]
    selection: dict[str, np.ndarray]
    whole: dict[str, np.ndarray]
    jacobian: Float[np.ndarray, "document layer head length T"]

    @property
    def layers_asked(self) -> Int[np.ndarray, " length"]:
        """How many layers see all of the tokens, for each length."""
        return np.asarray(np.isfinite(self.jacobian[..., 0]).any(axis=(0, 2)).sum(axis=0))

    def equicorrelated(self) -> Float[np.ndarray, "document layer head sink length N"]:
        r"""$\sqrt{(1-c)\sum\alpha^2+c(1-2m_N)^2}$: the distance if all values had length r and the same cosine c."""
        spread, c = (self.whole[name][..., None].astype(float) for name in ("concentration", "cosine"))
        mass = self.selection["top_mass"].astype(float)
        return np.sqrt(np.maximum((1 - c) * spread + c * (1 - 2 * mass) ** 2, 0.0))

    def random_selection(self) -> Float[np.ndarray, "document layer head sink length N"]:
        r"""$\sqrt{\kappa|z|^2+(1-\kappa)\sum\alpha^2|v|^2}$, $\kappa=\frac{(L-2N)^2-L}{L(L-1)}$: N keys at random."""
        keys = self.lengths[None, :, None] - np.arange(2)[:, None, None]
        kappa = ((keys - 2 * self.sizes) ** 2 - keys) / (keys * (keys - 1))
        output, squares = (self.whole[name][..., None].astype(float) for name in ("output", "squares"))
        made = np.sqrt(np.maximum(kappa * output**2 + (1 - kappa) * squares, 0.0))
        return np.where(np.isfinite(self.selection["distance"]), made, np.nan)

    def variables(self) -> Variables:
        head = ("document", "layer", "head")
        data: Variables = {name: ((*head, "sink", "length", "N"), rows) for name, rows in self.selection.items()}
        data |= {name: ((*head, "sink", "length"), rows) for name, rows in self.whole.items()}
        return data | {
            "jacobian": ((*head, "length", "temperature"), self.jacobian),
            "sink": ("sink", np.array(["with sink", "without sink"])),
            "length": ("length", self.lengths),
            "N": ("N", self.sizes),
            "temperature": ("temperature", self.temperatures),
        }

    def facts(self) -> list[str]:
        documents, layers, heads = self.jacobian.shape[:3]
        told = [
            f"{self.source['model']}: {layers} layers of {heads} heads, {documents} documents, "
            f"{self.lengths[0]} to {self.lengths[-1]} tokens"
        ]
        asked = np.flatnonzero(self.layers_asked)
        for k in sorted({*asked[:1].tolist(), *asked[-1:].tolist()}):
            distance, recall = (np.nanmean(self.selection[name][:, :, :, 0, k, 1]) for name in SELECTION[:2])
            told.append(
                f"L = {self.lengths[k]}, N = {self.sizes[1]}: distance {distance:.3f}, separable {recall:.3f} "
                f"({self.layers_asked[k]} of {layers} layers see all tokens)"
            )
        return told


@texts_by_digest
@recorded_call
def record_lengths(
    model: Any,
    texts: str | Sequence[str] | Int[np.ndarray, "documents window"],
    *,
    lengths: Sequence[int] = LENGTHS,
    sizes: Sequence[int] = SIZES,
    temperatures: Sequence[float] = TEMPERATURES,
    documents: int = 3,
    independent: bool = True,
    progress: Progress = None,
) -> LengthRecording:
    """Run a decoder on windows of the longest length and keep how its heads select at every length.

    **Arguments:** `model` and `texts` as for `record`; sizes that leave no token unselected are NaN; the recall of
    `independent` values, which takes longer than all else, is NaN where it is not asked for.
    """
    require_torch("recording a language model")
    chosen, counts = (_increasing(n, given) for n, given in (("lengths", lengths), ("sizes", sizes)))
    warmth = np.array([real_number("temperatures", t, above=0.0) for t in temperatures])
    if chosen[0] < 4 or not len(warmth) or len(counts) < 2:
        raise SphereflowError(
            f"lengths must be at least 4, with two sizes and one temperature at least; got lengths from {chosen[0]}, "
            f"{len(counts)} sizes, {len(warmth)} temperatures."
        )
    loaded = loaded_model(model)
    if is_encoder(loaded.model):
        raise SphereflowError(f"{loaded.name} is an encoder: its tokens see all others, whatever their position.")
    tokens, _ = token_windows(loaded, texts, int(chosen[-1]), documents)
    if tokens.shape[1] < chosen[-1]:
        raise SphereflowError(f"the longest length is {chosen[-1]}, but documents have {tokens.shape[1]} tokens.")
    layers: list[list[dict[str, np.ndarray]]] = []
    with reporting("documents", progress) as report:
        for number, document in enumerate(tokens):
            layers.append([])

            def observe(layer: LayerCapture, number: int = number) -> None:
                report(number / len(tokens), f"document {number + 1}, layer {layer.index}")
                layers[-1].append(_layer(layer, chosen, counts, warmth, independent))

            capture(loaded.model, document[None, : chosen[-1]], observe, queries=chosen[None] - 1)
        report(1.0, "")
    tables = {
        name: np.array([[layer[name] for layer in document] for document in layers], dtype=np.float32)
        for name in layers[0][0]
    }
    return LengthRecording(
        source=source_of(loaded, texts, tokens),
        lengths=chosen,
        sizes=counts,
        temperatures=warmth,
        selection={name: tables[name] for name in SELECTION},
        whole={name: tables[name] for name in WHOLE},
        jacobian=tables["jacobian"],
    )


def _increasing(name: str, given: Sequence[int]) -> np.ndarray:
    found = np.array([whole_number(name, n) for n in given], dtype=int)
    if not len(found) or np.any(np.diff(found) <= 0):
        raise SphereflowError(f"{name} must be increasing whole numbers, got {tuple(given)}.")
    return found


def _layer(
    layer: LayerCapture, lengths: np.ndarray, sizes: np.ndarray, temperatures: np.ndarray, independent: bool
) -> dict[str, Any]:
    """One layer of one document."""
    heads = layer.heads
    found = {name: np.full((heads, 2, len(lengths), len(sizes)), np.nan) for name in SELECTION}
    found |= {name: np.full((heads, 2, len(lengths)), np.nan) for name in WHOLE}
    found["jacobian"] = np.full((heads, len(lengths), len(temperatures)), np.nan)
    for k, length in enumerate(lengths):
        if layer.visible[0, k].sum() < length:  # a sliding window ends before the first token
            continue
        alpha, values = (part.astype(float) for part in layer.head_rows(0, k))
        values = values / np.median(np.linalg.norm(values[:, 1:], axis=-1), axis=-1)[:, None, None]
        for sink, pair in enumerate(((alpha, values), without_sink(alpha, values))):
            fitting = sizes[sizes < pair[0].shape[-1]]
            for name, rows in _selection(*pair, fitting, independent).items():
                found[name][:, sink, k, : len(fitting)] = rows
            for name, rows in _whole(*pair).items():
                found[name][:, sink, k] = rows
        logs = np.log(np.maximum(alpha, 1e-300))
        logs -= logs.max(axis=-1, keepdims=True)
        for j, t in enumerate(temperatures):
            weights = np.exp(logs / t)
            found["jacobian"][:, k, j] = spectral_norm(weights / weights.sum(axis=-1, keepdims=True), float(t))
    return found


def _selection(alpha: np.ndarray, values: np.ndarray, sizes: np.ndarray, independent: bool) -> dict[str, np.ndarray]:
    order = descending(alpha)
    sorted_weights = np.take_along_axis(alpha, order, axis=-1)
    sums = np.cumsum(np.take_along_axis(alpha[..., None] * values, order[..., None], axis=1), axis=1)

    def law(row: np.ndarray, n: int) -> float:
        if not independent or row[n] <= 0:
            return float("nan")
        return float(expected_recall(row[:n], row[n:][row[n:] > 0], values.shape[-1]))

    return {
        "distance": np.linalg.norm(sums[:, -1:] - 2 * sums[:, sizes - 1], axis=-1),
        "recall": separations(alpha, values, sizes.tolist(), distances=("euclidean",))["euclidean"].recall,
        "top_mass": np.cumsum(sorted_weights, axis=-1)[:, sizes - 1],
        "expected_recall": np.array([[law(row, n) for n in sizes.tolist()] for row in sorted_weights]),
    }


def _whole(alpha: np.ndarray, values: np.ndarray) -> dict[str, np.ndarray]:
    norms = np.linalg.norm(values, axis=-1)
    unit = values / np.where(norms > 0, norms, 1.0)[..., None]
    keys = alpha.shape[-1]
    return {
        "concentration": np.sum(alpha**2, axis=-1),
        "output": np.linalg.norm(np.einsum("hl,hld->hd", alpha, values), axis=-1),
        "squares": np.sum((alpha * norms) ** 2, axis=-1),
        "cosine": (np.sum(unit.sum(axis=1) ** 2, axis=-1) - np.sum(unit**2, axis=(1, 2))) / (keys * (keys - 1)),
    }
