"""The same on the heads of a real language model: what holds for all weights, and what only for model tokens."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.normalisation import (
    distance_profile,
    equicorrelated_profile,
    random_selection_profile,
    weight_bounds,
)
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.pictures import PALETTE, blank, look

_WINDOW, _DOCUMENTS = 512, 2


def heads_of_default_model() -> list[tuple[np.ndarray, np.ndarray]]:
    """Per layer and document: weights (h, L) of the last query and values (h, L, d) of every head, sink included."""
    from sphereflow.llm import corpus, load_model, windows
    from sphereflow.llm.model.capture import LayerCapture, capture

    model = load_model()
    tokens = windows(corpus(), model.tokenizer, window=_WINDOW, documents=_DOCUMENTS)
    found: list[tuple[np.ndarray, np.ndarray]] = []

    def observe(layer: LayerCapture) -> None:
        for document in range(len(layer.rows)):
            found.append(layer.head_rows(document))

    capture(model.model, np.asarray(tokens), observe)
    return found


def violations(weights: np.ndarray) -> tuple[float, float]:
    """Largest weight over its upper bound, and lower bound over the smallest weight, for rows of visible keys.

    The range of the logits is read off the logarithms of the weights, which differ from them by a constant per row.
    """
    logs = np.log(np.maximum(weights.astype(float), 1e-38))
    low, high = weight_bounds(weights.shape[-1], np.ptp(logs, axis=-1))
    return float(np.max(weights.max(-1) / high)), float(np.max(low / np.maximum(weights.min(-1), 1e-38)))


@PAPER.figure(
    "distance-on-a-model",
    caption="Distance between selected and other keys against the number selected, for four heads of a language model "
    "at one query (solid), with the closed form for tokens of one common cosine, the head's mean (dashed), and for "
    "keys selected at random (dotted). Values are scaled to unit mean length; the first token is left out.",
    presets=("paper",),
    shows=("distance-collapse", "distance-identity"),
)
def distance_on_a_model(run: Run) -> Figure:
    layers = heads_of_default_model()
    chosen = [(depth, 2) for depth in np.linspace(2, len(layers) - 1, 4).astype(int)]
    with look():
        figure = blank(9.0, 3.0)
        for axes, colour, (depth, head) in zip(figure.subplots(1, 4, sharey=True), PALETTE, chosen, strict=False):
            weights, values = (part[head, 1:].astype(float) for part in layers[depth])
            weights, values = weights / weights.sum(), values / np.linalg.norm(values, axis=1).mean()
            unit = values / np.linalg.norm(values, axis=1, keepdims=True)
            cosine = float((np.sum(unit.sum(axis=0) ** 2) - len(unit)) / (len(unit) * (len(unit) - 1)))
            counts = np.arange(1, len(weights) + 1)
            measured, closed = distance_profile(weights, values), equicorrelated_profile(weights, max(cosine, 0.0))
            off = float(np.median(np.abs(measured - closed) / measured))
            axes.semilogx(counts, measured, color=colour)
            axes.semilogx(counts, closed, color=colour, ls="--", lw=1)
            axes.semilogx(counts, random_selection_profile(weights, values), color="0.5", ls=":", lw=1)
            axes.set(title=f"$c={cosine:.2f}$, off by {100 * off:.0f}%", xlabel="selected keys $N$", ylim=(0, None))
        figure.axes[0].set_ylabel(r"distance $\tilde d$")
    return figure
