"""What a measurement leaves behind beside its numbers: tables per head, and a summary with error bars."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from sphereflow.llm.heads.bootstrap import Interval, document_mean, rank_correlation
from sphereflow.llm.heads.geometry import DISTANCES
from sphereflow.llm.heads.regimes import REGIMES, mixture
from sphereflow.llm.measurement.heads import HEAD_FEATURES, METRICS, SELECTIONS, SINKS, Heads
from sphereflow.llm.measurement.theory import equiangular_path
from sphereflow.provenance import version, versions
from sphereflow.saving import csv_bytes
from sphereflow.seeds import LARGEST, Seed, checked

_FEWEST_HEADS = 3  # for a rank correlation, or three kinds of heads


def head_table(heads: Heads) -> dict[str, list[Any]]:
    """One row per layer and head: features, regime, and P, R, F (Euclidean, with the sink) beside the control."""
    layers, count = np.meshgrid(np.arange(heads.layers), np.arange(heads.heads), indexing="ij")
    table: dict[str, list[Any]] = {"layer": layers.ravel().tolist(), "head": count.ravel().tolist()}
    table["regime"] = [REGIMES[k] for k in heads.regimes.ravel()]
    for name in HEAD_FEATURES:
        table[name] = heads.mean_feature(name).ravel().tolist()
    if heads.has_theory:
        for name in ("beta", "alignment", "entropy"):
            table[name] = heads.by_head(name).mean(axis=0).ravel().tolist()
    for metric, letter in (("precision", "P"), ("recall", "R"), ("f", "F")):
        for selection in SELECTIONS:
            means = heads.curve(metric, selection).mean(axis=0)
            for k, size in enumerate(heads.sizes):
                table[f"{letter}{size}_{selection}"] = means[..., k].ravel().tolist()
    return table


def curve_table(heads: Heads) -> dict[str, list[Any]]:
    """One row per layer, head, N, selection, sink and distance: every metric, averaged over documents."""
    names = ("layer", "head", "selection", "sink", "distance", "N")
    values = {metric: heads.metrics[metric].mean(axis=0) for metric in METRICS}
    grids = np.indices(values["f"].shape).reshape(6, -1)
    labels = (None, None, SELECTIONS, SINKS, DISTANCES, heads.sizes)
    table: dict[str, list[Any]] = {
        name: grid.tolist() if words is None else [words[k] for k in grid]
        for name, grid, words in zip(names, grids, labels, strict=True)
    }
    return table | {metric: array.ravel().tolist() for metric, array in values.items()}


def as_csv(table: dict[str, list[Any]]) -> bytes:
    """Columns as comma-separated text; numbers with seven significant digits, nothing where a value is missing."""
    return csv_bytes(table, (map(_cell, row) for row in zip(*table.values(), strict=True)))


def as_parquet(table: dict[str, list[Any]]) -> bytes | None:
    """Columns as a parquet file, or None where pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(table), sink)
    return sink.getvalue().to_pybytes()


def summary(heads: Heads, about: dict[str, Any], *, repeats: int = 2000, seed: Seed = 0) -> dict[str, Any]:
    """The figures to quote, each with its bootstrap interval over documents."""
    seed = checked(seed, most=LARGEST - 1)
    told: dict[str, Any] = {"model": about, "protocol": heads.settings, "sizes": list(heads.sizes), "curves": {}}
    for sink in SINKS:
        for distance in DISTANCES:
            for metric in ("precision", "recall", "f"):
                for selection in SELECTIONS:
                    by_document = heads.by_document(metric, selection, sink, distance)
                    interval = document_mean(by_document, repeats=repeats, seed=seed)
                    told["curves"][f"{metric}, {selection}, {sink}, {distance}"] = _interval(interval)
    above = heads.curve("f").mean(axis=0) > heads.curve("f", "random").mean(axis=0)
    told["heads_above_control"] = np.mean(above, axis=(0, 1)).tolist()
    told |= _about_the_sink(heads, repeats, seed)
    told["regimes"] = heads.regime_shares
    told["identity_error"] = float(np.nanmax(heads.features["identity_error"]))
    if heads.has_theory:
        told["mean_cosine"] = heads.by_depth("mean_cosine").mean(axis=0).tolist()
        told["equiangular_cosine"] = equiangular(heads).tolist()
        told["beta_median"] = float(np.nanmedian(heads.by_head("beta")))
        told["alignment_median"] = float(np.nanmedian(heads.by_head("alignment")))
        told["entropy"] = heads.by_head("entropy").mean(axis=(0, 2)).tolist()
        told["clusters"] = heads.by_depth("clusters").mean(axis=0).tolist()
    told["versions"] = all_versions()
    return told


def _about_the_sink(heads: Heads, repeats: int, seed: Seed) -> dict[str, Any]:
    """What is said of the sink, from the heads that see it alone; None where they are too few to say it."""
    seen = heads.sees_sink
    means = {name: heads.mean_feature(name)[seen] for name in HEAD_FEATURES}
    enough = int(seen.sum()) >= _FEWEST_HEADS
    told: dict[str, Any] = {
        "heads": seen.size,
        "layers": len(seen),
        "heads_that_see_the_sink": int(seen.sum()),
        "layers_that_see_the_sink": int(seen.any(axis=1).sum()),
        "compression_median": float(np.median(means["compression"])) if seen.any() else None,
        "compressed_heads": float(np.mean(means["compression"] < 1)) if seen.any() else None,
        "sink_heads": float(np.mean(means["sink_mass"] > 0.5)) if seen.any() else None,
        "mixture_agreement": mixture(means).agreement if enough else None,
    }
    for name in ("sink_cosine", "sink_output_cosine", "sink_others_cosine"):
        pair = [heads.features[key][:, seen] for key in (name, "recall4")]
        found = _interval(rank_correlation(*pair, repeats=repeats, seed=seed)) if enough else None
        if found is not None and heads.documents < 2:  # heads drawn again do not say what another text would give
            found |= {"low": None, "high": None}
        told[f"{name}_recall_correlation"] = found
    return told


def equiangular(heads: Heads) -> np.ndarray:
    """The cosine that equiangular tokens would have at each depth: measured start, beta and step sizes."""
    slopes = np.nanmedian((heads.by_head("beta") * heads.by_head("alignment")).mean(axis=0), axis=-1)
    steps = heads.by_depth("step").mean(axis=0)[:-1]
    start = float(heads.by_depth("mean_cosine").mean(axis=0)[0])
    return equiangular_path(start, int(heads.settings["window"]), slopes.tolist(), steps.tolist())


def all_versions() -> dict[str, str]:
    """Versions of everything a measurement depends on."""
    more = {name: version(name) for name in ("torch", "transformers")}
    return versions() | {name: number for name, number in more.items() if number}


def _interval(found: Interval) -> dict[str, Any]:
    """As plain lists; what could not be measured is None, which JSON can say."""

    def plain(values: np.ndarray) -> Any:
        kept = np.asarray(values, dtype=object)
        return np.where(np.isfinite(values), kept, np.array(None)).tolist()

    return {"value": plain(found.value), "low": plain(found.low), "high": plain(found.high)}


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.7g}"
    return str(value)
