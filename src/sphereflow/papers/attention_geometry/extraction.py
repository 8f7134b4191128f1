"""Reading heads correctly: weights times values are what enters the output projection."""

from __future__ import annotations

from typing import Any

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.llm.model.anatomy import AttentionPlace, expand
from sphereflow.papers.attention_geometry import PAPER

_QUICK = "The quick preset checks the library's own reading on attention written out in NumPy; the paper preset adds "
_MODELS = "tiny models of transformers with random weights."


@PAPER.claim(
    "identity",
    statement="Attention probabilities times values, expanded to the query heads, equal the input of the output "
    "projection, in every layout of queries, keys and values.",
    source="what is measured on a causal language model",
    formula=r"z_t=\sum_i\alpha_{ti}v_i",
    falsifier="values taken after the projection, from a truncated cache, or from the wrong key/value head",
)
def identity(run: Run) -> Measurement:
    errors = {f"written out, {name}": _written_out(layout, groups)[0] for name, (layout, groups) in _LAYOUTS.items()}
    slack = [1e-12] * len(errors)
    if not run.quick:
        errors |= {name: found["identity"] for name, found in _tiny_models().items()}
    slack += [1e-5] * (len(errors) - len(slack))
    return at_most(
        np.zeros(len(errors)),
        list(errors.values()),
        slack=slack,
        because="rounding where attention is written out in double precision; single precision of the models",
        labels=tuple(errors),
        note=_QUICK + _MODELS if run.quick else "",
    )


@PAPER.claim(
    "tiling",
    statement="Key/value heads tiled instead of repeated in place give another answer.",
    source="grouped-query attention",
    falsifier="a difference that rounding explains",
)
def tiling(run: Run) -> Measurement:
    differences = {"written out, 2 key/value heads of 4": _written_out("separate", 2)[1]}
    if not run.quick:
        differences |= {name: found["tiled"] for name, found in _tiny_models().items() if found["groups"] > 1}
    return at_least(
        np.full(len(differences), 0.1),
        list(differences.values()),
        labels=tuple(differences),
        because="a tenth of the largest output: far above rounding",
        note=_QUICK + _MODELS if run.quick else "",
    )


@PAPER.claim(
    "rows",
    statement="Attention rows sum to one, see nothing of the future, and nothing outside a sliding window.",
    source="what is measured on a causal language model",
    falsifier="weight on padding, on the future, or outside the window",
)
def rows(run: Run) -> Measurement:
    found = {"written out, window 5": _written_rows()}
    if not run.quick:
        found |= {name: told["rows"] for name, told in _tiny_models().items()}
    values = np.array(list(found.values())).ravel()
    labels = tuple(f"{name}, {what}" for name in found for what in ("sum", "hidden weight"))
    return agreement(
        np.zeros(len(values)),
        values,
        absolute=1e-6,
        because="single precision",
        labels=labels,
        note="The quick preset shows what an additive mask does, in NumPy; only the paper preset looks at " + _MODELS
        if run.quick
        else "",
    )


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


def _written_rows(length: int = 12, window: int = 5) -> tuple[float, float]:
    """(deviation of row sums from one, weight outside the window) of attention with an additive mask."""
    rng = np.random.default_rng(3)
    at = np.arange(length)
    seen = (at[None] <= at[:, None]) & (at[None] > at[:, None] - window)
    scores = rng.standard_normal((length, length)).astype(np.float32) + np.where(seen, 0.0, np.finfo(np.float32).min)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return float(np.abs(weights.sum(axis=1) - 1).max()), float(np.where(seen, 0, weights).max())


_cache: dict[str, dict[str, Any]] = {}


def _tiny_models() -> dict[str, dict[str, Any]]:
    """Every architecture once: identity error, difference when tiled, row sums and hidden weight."""
    from sphereflow.llm.model.capture import LayerCapture, capture
    from sphereflow.llm.model.tiny import tiny_models

    if not _cache:
        for name, model in tiny_models().items():
            found: dict[str, Any] = {"identity": 0.0, "tiled": 0.0, "groups": 1, "rows": (0.0, 0.0)}

            def observe(layer: LayerCapture, found: dict[str, Any] = found) -> None:
                groups = layer.values.shape[1]
                tiled = layer.rows @ np.tile(layer.values, (1, layer.heads // groups, 1, 1))
                scale = np.abs(layer.outputs).max()
                hidden = np.where(layer.visible[:, None], 0.0, layer.rows).max()
                sums = np.abs(layer.rows.sum(axis=-1) - 1).max()
                found["identity"] = max(found["identity"], layer.identity_error)
                found["tiled"] = max(found["tiled"], float(np.abs(tiled - layer.outputs).max() / scale))
                found["groups"] = groups if 1 < groups < layer.heads else 1
                found["rows"] = (max(found["rows"][0], float(sums)), max(found["rows"][1], float(hidden)))

            tokens = np.random.default_rng(0).integers(1, 90, (2, 20))
            capture(model, tokens, observe, queries=np.tile(np.arange(20), (2, 1)))
            _cache[name] = found
    return _cache
