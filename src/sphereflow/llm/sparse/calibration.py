r"""What a rule needs to know of a model before it can keep N keys, measured once on texts of calibration.

- r, the median norm of the residual stream that enters each layer;
- how many keys a threshold keeps: curves over $\varepsilon$ of `deviation` and `contribution`, over $1-p$ of `mass`;
- the error of a head with its N largest weights, $E|W_O(z-s_N/m_N)|^2/|x|^2$, for N = 1, 2, 4, ..., 64.

`error` shares the budget out from the last: starting at one key in each head, the step of largest gain per key (on the
lower convex envelope of the head's errors) is taken until N keys per head are spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.llm.model.anatomy import attention_places
from sphereflow.llm.model.capture import LayerCapture, capture
from sphereflow.llm.sparse.attention import output_gram

SIZES = (1, 2, 4, 8, 16, 32, 64)
QUERIES = 16
# Thresholds on a logarithmic scale: of contributions, and of the weight that top-p leaves out.
GRID = np.linspace(np.log(1e-7), 0.0, 200)


@dataclass(frozen=True)
class Calibration:
    """`errors` (layer, head, size), `residual` by layer, and mean kept keys along `GRID` for the thresholds."""

    errors: Float[np.ndarray, "layer head size"]
    residual: Float[np.ndarray, " layer"]
    deviation: Float[np.ndarray, " grid"]
    contribution: Float[np.ndarray, " grid"]
    mass: Float[np.ndarray, " grid"]

    def threshold(self, rule: str, keep: float) -> float:
        """The logarithm of the threshold that keeps so many keys in these texts, all layers before being dense."""
        curve = getattr(self, rule)
        if not curve[-1] <= keep <= curve[0]:
            raise SphereflowError(
                f"keep must lie from {curve[-1]:.3g} to {curve[0]:.3g} for the rule '{rule}' of this model, got {keep}."
            )
        return float(np.interp(-keep, -curve, GRID))


def calibrate(model: Any, tokens: Int[np.ndarray, "documents window"], start: int) -> Calibration:
    """Run the model on windows of tokens and look at `QUERIES` rows of each, from `start` on."""
    places = attention_places(model)
    queries = np.unique(np.linspace(start, tokens.shape[1] - 1, QUERIES).round().astype(int))
    errors: list[list[np.ndarray]] = [[] for _ in places]
    norms: list[list[float]] = [[] for _ in places]
    curves: list[np.ndarray] = []

    def observe(layer: LayerCapture) -> None:
        gram = output_gram(places[layer.index], model).cpu().double().numpy()
        norms[layer.index].append(float(np.median(np.linalg.norm(layer.state[0], axis=-1))))
        for q, position in enumerate(layer.queries[0]):
            rows, values = layer.head_rows(0, q)
            size = np.linalg.norm(layer.state[0, position].astype(float))
            errors[layer.index].append(truncation_errors(rows, values, gram) / size**2)
            scaled = rows / norms[layer.index][-1]
            around = values - np.einsum("hl,hld->hd", rows, values)[:, None]
            parts = [scaled * value_sizes(each, gram) for each in (around, values)]
            curves.append(np.array([*map(_at_least, parts), _left_out(rows)]))

    for document in tokens:
        capture(model, document[None], observe, queries=queries[None])
    shared = np.array([np.mean(each, axis=0) for each in errors])
    return Calibration(shared, np.median(norms, axis=1), *np.mean(curves, axis=0))


def value_sizes(values: Float[np.ndarray, "h L d"], gram: Float[np.ndarray, "h d d"]) -> Float[np.ndarray, "h L"]:
    r"""$|W_Ov|=\sqrt{v^TW_O^TW_Ov}$."""
    return np.sqrt(np.maximum(np.sum((values @ gram) * values, axis=-1), 0.0))


def truncation_errors(
    rows: Float[np.ndarray, "h L"], values: Float[np.ndarray, "h L d"], gram: Float[np.ndarray, "h d d"]
) -> Float[np.ndarray, "h size"]:
    r"""$|W_O(z-s_N/m_N)|^2$ of each head for the sizes N, the kept weights divided by their sum."""
    order = np.argsort(-rows, axis=-1)
    weights = np.take_along_axis(rows, order, axis=-1).astype(float)
    ordered = np.take_along_axis(values, order[..., None], axis=1).astype(float)
    at = np.minimum(SIZES, rows.shape[-1]) - 1
    sums = np.cumsum(weights[..., None] * ordered, axis=1)
    kept = sums[:, at] / np.cumsum(weights, axis=-1)[:, at, None]
    gaps = sums[:, -1:] / weights.sum(axis=-1)[:, None, None] - kept
    return np.maximum(np.sum((gaps @ gram) * gaps, axis=-1), 0.0)


def shared_out(errors: Float[np.ndarray, "layer head size"], keep: int) -> Int[np.ndarray, "layer head"]:
    """The number of keys of each head, `keep` on average: greedy by the fall of the error per key."""
    flat = errors.reshape(-1, errors.shape[-1])
    at = np.zeros(len(flat), dtype=int)
    left = (keep - 1) * len(flat)
    counts = np.ones(len(flat), dtype=int)
    while left > 0:
        gain, step = _steps(flat, at)
        head = int(np.argmax(gain))
        if not np.isfinite(gain[head]):
            break
        wanted = SIZES[step[head]] - counts[head]
        taken = min(wanted, left)
        counts[head] += taken
        left -= taken
        at[head] = step[head]
    while left > 0:  # every head has the largest size and keys are left: they go round
        extra = min(left, len(flat))
        counts[:extra] += 1
        left -= extra
    return counts.reshape(errors.shape[:2])


def _steps(flat: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest fall of the error per key that each head can still have, and the size it leads to."""
    sizes = np.array(SIZES)
    more = (sizes[None] - sizes[at][:, None]).astype(float)
    fall = np.take_along_axis(flat, at[:, None], axis=1) - flat
    rates = np.where(more > 0, fall / np.where(more > 0, more, 1.0), -np.inf)
    return rates.max(axis=1), rates.argmax(axis=1)


def _at_least(parts: np.ndarray) -> np.ndarray:
    """Mean number over heads of contributions at or above each threshold of the grid."""
    ordered = np.sort(np.log(np.maximum(parts.ravel(), 1e-300)))
    return np.maximum((parts.size - np.searchsorted(ordered, GRID)) / len(parts), 1.0)


def _left_out(rows: np.ndarray) -> np.ndarray:
    """Mean number over heads of keys that top-p keeps when it may leave out exp(GRID)."""
    ordered = -np.sort(-rows.astype(float), axis=-1)
    rest = 1 - (np.cumsum(ordered, axis=-1) - ordered)
    logs = np.sort(np.log(np.maximum(rest.ravel(), 1e-300)))
    return np.maximum((rows.size - np.searchsorted(logs, GRID, side="right")) / len(rows), 1.0)
