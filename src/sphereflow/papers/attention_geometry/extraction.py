"""Reading heads correctly: weights times values are what enters the output projection."""

from __future__ import annotations

from typing import Any

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.llm.model.anatomy import AttentionPlace, expand
from sphereflow.papers.attention_geometry import PAPER
from sphereflow.papers.attention_geometry.sources import EXTRACTION


@PAPER.claim(
    "identity",
    says="Attention probabilities times the values that the library reads, expanded to the query heads, equal the "
    "input of the output projection, in every layout of queries, keys and values.",
    basis=EXTRACTION,
    formula=r"z_t=\sum_i\alpha_{ti}v_i",
)
def identity(run: Run) -> Check:
    note = "Attention written out in NumPy; the paper preset adds tiny models of transformers with random weights."
    check = Check(note=note if run.quick else "")
    tiled = {}
    for name, (layout, groups) in _LAYOUTS.items():
        error, wrong = _written_out(layout, groups)
        check.row(f"written out, {name}", predicted=0.0, measured=error, tolerance=1e-12, because="double precision")
        if groups == 2:
            tiled[f"written out, {name}"] = wrong
    for name, found in {} if run.quick else _tiny_models().items():
        for what, value in found["off"].items():
            check.row(f"{name}, {what}", predicted=0.0, measured=value, tolerance=1e-5, because="single precision")
        if found["groups"] > 1:
            tiled[f"{name}, output"] = found["tiled"]
    check.null("key/value heads tiled instead of repeated in place", tiled)
    return check


_LAYOUTS = {
    "separate, one head each": ("separate", 4),
    "separate, 2 key/value heads": ("separate", 2),
    "fused in blocks, 2 key/value heads": ("blocks", 2),
    "fused by groups, 2 key/value heads": ("grouped", 2),
    "fused by groups, 1 key/value head": ("grouped", 1),
}


def _written_out(layout: str, groups: int, heads: int = 4, d: int = 5, length: int = 12) -> tuple[float, float]:
    """(identity error, difference when tiled) of attention written as loops over heads, relative to the output."""
    rng = np.random.default_rng(groups)
    q, k = rng.standard_normal((length, heads, d)), rng.standard_normal((length, groups, d))
    v = rng.standard_normal((length, groups, d))
    probabilities, outputs = np.zeros((heads, length, length)), np.zeros((heads, length, d))
    for h in range(heads):
        shared = h // (heads // groups)
        for t in range(length):
            scores = np.array([q[t, h] @ k[i, shared] / np.sqrt(d) for i in range(t + 1)])
            probabilities[h, t, : t + 1] = np.exp(scores) / np.exp(scores).sum()
            outputs[h, t] = sum(p * v[i, shared] for i, p in enumerate(probabilities[h, t, : t + 1]))
    if layout == "separate":
        projected = v.reshape(length, -1)
    elif layout == "blocks":
        projected = np.concatenate([a.reshape(length, -1) for a in (q, k, v)], axis=1)
    else:
        grouped = [q.reshape(length, groups, heads // groups, d), k[:, :, None], v[:, :, None]]
        projected = np.concatenate(grouped, axis=2).reshape(length, -1)
    place = AttentionPlace(0, "", None, None, None, None, "" if layout == "separate" else layout)
    values = place.split(projected[None], heads * d, heads)
    right = probabilities @ expand(values, heads)[0]
    wrong = probabilities @ np.tile(values, (1, heads // groups, 1, 1))[0]
    scale = np.abs(outputs).max()
    return float(np.abs(right - outputs).max() / scale), float(np.abs(wrong - outputs).max() / scale)


_cache: dict[str, dict[str, Any]] = {}


def _tiny_models() -> dict[str, dict[str, Any]]:
    """Every architecture once: errors of the output, of row sums and of hidden weights; the difference when tiled."""
    from sphereflow.llm.model.capture import LayerCapture, capture
    from sphereflow.llm.model.tiny import tiny_models

    if not _cache:
        for name, model in tiny_models().items():
            found: dict[str, Any] = {
                "off": {"output": 0.0, "sum": 0.0, "hidden weight": 0.0},
                "tiled": 0.0,
                "groups": 1,
            }

            def observe(layer: LayerCapture, found: dict[str, Any] = found) -> None:
                groups = layer.values.shape[1]
                tiled = layer.rows @ np.tile(layer.values, (1, layer.heads // groups, 1, 1))
                scale = np.abs(layer.outputs).max()
                hidden = float(np.where(layer.visible[:, None], 0.0, layer.rows).max())
                sums = float(np.abs(layer.rows.sum(axis=-1) - 1).max())
                new = {"output": layer.identity_error, "sum": sums, "hidden weight": hidden}
                found["off"] = {what: max(found["off"][what], value) for what, value in new.items()}
                found["tiled"] = max(found["tiled"], float(np.abs(tiled - layer.outputs).max() / scale))
                found["groups"] = groups if 1 < groups < layer.heads else 1

            tokens = np.random.default_rng(0).integers(1, 90, (2, 20))
            capture(model, tokens, observe, queries=np.tile(np.arange(20), (2, 1)))
            _cache[name] = found
    return _cache
