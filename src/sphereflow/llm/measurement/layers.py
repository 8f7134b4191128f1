"""The statistics of the heads of several layers at once, where the layers lie, down to small tables in main memory.

Layers wait until they are worth the while of a graphics card, which is slow to start and quick at large tables; in main
memory each is measured when it comes, while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.llm.heads.arrays import beside, double, full_precision, library, to_host, where_it_lies
from sphereflow.llm.heads.assumptions import fit_decay, fit_norms, mean_cosines
from sphereflow.llm.heads.control import control_tables
from sphereflow.llm.heads.envelopes import effective_dimension
from sphereflow.llm.heads.geometry import DISTANCES, own_tables, without_sink
from sphereflow.llm.heads.regimes import FEATURES, grouped_features
from sphereflow.llm.measurement.theory import LayerTheory, theories
from sphereflow.llm.model.anatomy import sharing
from sphereflow.llm.model.capture import refuse_misread
from sphereflow.llm.model.tensors import LayerTensors, visible
from sphereflow.seeds import rng_from

METRICS = ("precision", "recall", "f", "inversions", "margin")
VALUE_FEATURES = ("effective_dimension", "norm_variation", "similarity_scale", "similarity_decay", "similarity_error")
HEAD_FEATURES = (*FEATURES, *VALUE_FEATURES, "identity_error")
_REACH = 64  # of the similarity of values, in tokens
# What waits on a card before it is measured together.
_WAITING_BYTES = {"cpu": 0, "cuda": 2**26}


@dataclass(frozen=True)
class LayerNumbers:
    """Of one layer: metrics, features of heads by name, the particle theory, and the weights of the last query."""

    index: int
    sizes: tuple[int, ...]
    metrics: Float[np.ndarray, "2 2 distance metric head N"]
    features: dict[str, Float[np.ndarray, " head"]]
    theory: LayerTheory | None
    last_rows: Float[np.ndarray, "head L"]


class Measurement:
    """Layers of one document as they come, measured in groups that are handed on in order."""

    def __init__(
        self,
        document: int,
        sizes: tuple[int, ...],
        repeats: int,
        seed: int,
        theory: bool,
        receive: Callable[[LayerNumbers], None],
    ):
        self._document, self._sizes, self._repeats, self._seed, self._theory = document, sizes, repeats, seed, theory
        self._receive, self._waiting = receive, list[LayerTensors]()

    def add(self, layer: LayerTensors) -> None:
        """Take a layer; measure those that wait if they are many, or of another kind."""
        if self._waiting and self._waiting[-1].fits != layer.fits:
            self.finish()
        self._waiting.append(layer)
        if sum(each.bytes for each in self._waiting) > _WAITING_BYTES[where_it_lies(layer.rows)]:
            self.finish()

    def finish(self) -> None:
        """Measure what waits."""
        waiting, self._waiting = self._waiting, []
        for layers, seen in _alike(waiting):
            with full_precision(layers[0].rows.device):
                for numbers in self._measured(layers, seen):
                    self._receive(numbers)

    def _measured(self, layers: list[LayerTensors], seen: np.ndarray) -> list[LayerNumbers]:
        missed, steps = (to_host(each) for each in _checks(layers))
        for layer, error in zip(layers, missed, strict=True):
            refuse_misread(layer.name, layer.kind, float(error))
        rows, values = (_together([getattr(layer, name) for layer in layers]) for name in ("rows", "values"))
        last, places = seen[-1], np.flatnonzero(seen[-1])
        weights = sharing(rows[:, :, -1], values.shape[1])
        if not last.all():
            at = beside(rows, places)
            weights, values = weights[..., at], values[:, :, at]
        metrics, features, kept = self._heads(
            double(weights), double(values), [layer.index for layer in layers], bool(last[0])
        )
        told: Sequence[LayerTheory | None] = [None] * len(layers)
        if self._theory:
            states = _together([layer.state for layer in layers])
            told = theories(states, rows.swapaxes(1, 2), seen, layers[0].queries[0], steps.tolist())
        last_rows = to_host(rows[:, :, -1])
        return [
            LayerNumbers(
                layer.index,
                kept,
                metrics[:, :, :, :, k],
                {name: table[k] for name, table in features.items()}
                | {"identity_error": np.full(layer.heads, float(missed[k]))},
                told[k],
                last_rows[k],
            )
            for k, layer in enumerate(layers)
        ]

    def _heads(
        self, weights: Any, values: Any, indices: list[int], sees_sink: bool
    ) -> tuple[np.ndarray, dict[str, np.ndarray], tuple[int, ...]]:
        """Metrics (selection, sink, distance, metric, layer, head, N), features (layer, head), the sizes that fit."""
        layers, groups, shared, length = weights.shape
        sizes = tuple(n for n in self._sizes if n < length)
        found = np.full((2, 2, len(DISTANCES), len(METRICS), layers, groups * shared, len(sizes)), np.nan)
        lib, both = library(weights), weights
        if sees_sink:
            rest, _ = without_sink(weights, values)
            both = lib.concatenate([weights, lib.concatenate([lib.zeros_like(rest[..., :1]), rest], axis=-1)], axis=2)
        # The control of a layer is the same whatever was measured before it.
        keys = np.stack([rng_from(self._seed, self._document, k).random((self._repeats, length)) for k in indices])
        control = control_tables(weights, values, keys, sizes, DISTANCES, sink=sees_sink)
        own = self._own(both, values, sizes, shared * sees_sink)
        for k in range(2):
            at = slice(k * shared, (k + 1) * shared) if sees_sink else slice(shared)
            found[0, k] = to_host(own[..., at, :]).reshape(found.shape[2:])
            found[1, k, :, :3] = to_host(control[k * sees_sink]).reshape(len(DISTANCES), 3, *found.shape[4:])
        if sees_sink and sizes[-1] == length - 1:  # as many as there are without the sink
            found[:, 1, ..., -1] = np.nan
        four = own if 4 in sizes else self._own(weights, values, (min(4, length - 1),), 0)
        scores = four[0, :3, ..., :shared, sizes.index(4) if 4 in sizes else 0].reshape(3, layers, groups, shared)
        known = grouped_features(weights, values, tuple(scores), sees_sink=sees_sink)
        features = {name: to_host(each).reshape(layers, -1) for name, each in known.items()}
        features |= {name: np.repeat(each, shared, axis=1) for name, each in _value_features(values).items()}
        return found, features, sizes

    def _own(self, weights: Any, values: Any, sizes: tuple[int, ...], sinkless: int) -> Any:
        """Own selections, (distance, metric, layer g, r, N), in double precision."""
        flat = weights.reshape(-1, *weights.shape[2:]), values.reshape(-1, *values.shape[2:])
        return own_tables(*flat, sizes, sinkless=sinkless)


def _together(tensors: Sequence[Any]) -> Any:
    """Tensors of one document with an axis of layers before, one of them where it is."""
    import torch

    return tensors[0] if len(tensors) == 1 else torch.concatenate(tuple(tensors))


def _alike(layers: Sequence[LayerTensors]) -> list[tuple[list[LayerTensors], np.ndarray]]:
    """Runs of layers whose queries see the same tokens, with these (q, L)."""
    runs: list[tuple[list[LayerTensors], np.ndarray]] = []
    for layer, each in zip(layers, visible(layers) if layers else [], strict=True):
        if runs and np.array_equal(each[0], runs[-1][1]):
            runs[-1][0].append(layer)
        else:
            runs.append(([layer], each[0]))
    return runs


def _checks(layers: Sequence[LayerTensors]) -> tuple[Any, Any]:
    r"""By layer: the largest $|\sum_i\alpha_iv_i-z|$ of the last query over the largest |z|, and the mean step."""
    import torch

    found = []
    for layer in layers:
        rows = sharing(layer.rows[:, :, -1], layer.values.shape[1])
        outputs = layer.outputs[:, :, -1]
        away = abs((rows @ layer.values).reshape(outputs.shape) - outputs).amax()
        norms = torch.linalg.vector_norm(layer.state, dim=-1).clip(1e-30)
        found.append((away / abs(outputs).amax().clip(1e-30), (layer.update / norms).mean()))
    return tuple(torch.stack(each) for each in zip(*found, strict=True))  # type: ignore[return-value]


def _value_features(values: Any) -> dict[str, np.ndarray]:
    """Norms, similarity decay and effective dimension of the values of each key/value head, without the first one."""
    fitted = fit_decay(to_host(mean_cosines(values, min(_REACH, values.shape[-2] - 2))))
    return {
        "effective_dimension": to_host(effective_dimension(values[..., 1:, :])),
        "norm_variation": to_host(fit_norms(values).variation),
        "similarity_scale": fitted.scale,
        "similarity_decay": fitted.decay,
        "similarity_error": fitted.error,
    }
