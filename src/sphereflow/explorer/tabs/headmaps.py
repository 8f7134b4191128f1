"""Numbers of every head of a model as maps: from a measurement, a recording, a tiny model, or synthetic heads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereflow.errors import SphereflowError

if TYPE_CHECKING:
    import xarray as xr

# Averages over documents that a map can show, beside F and its control.
_FEATURES = ("sink_mass", "compression", "sink_cosine", "effective_number")
QUANTITIES = ("regime", "f4", "f4_random", *_FEATURES)

# The recordings that come with the package, by the names people know.
RECORDED = {
    "smollm2": "SmolLM2-135M",
    "gemma3-270m": "Gemma 3 270M",
    "stories15m": "stories15M",
    "gpt2-bytes": "GPT-2 architecture on bytes",
    "minilm": "MiniLM, an encoder",
}
_RESULT = "measurement.nc"

_TINY_WINDOW, _TINY_DOCUMENTS = 48, 4
_TINY_SIZES = (1, 2, 4, 8)
_COPIES, _LENGTH, _DIMENSION = 6, 256, 48
COMPRESSIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0)
COSINES = (-0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True, eq=False)
class HeadMap:
    """A number of every quantity for every row and column; of a model, rows are layers and columns heads, from 0.

    Recordings have no control by random tokens.
    """

    name: str
    row: str
    column: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: dict[str, np.ndarray]


def brief(dataset: xr.Dataset) -> xr.Dataset:
    """The quantities of a map, averaged over documents, from the dataset that `sphereflow measure` writes."""
    import xarray as xr

    sizes = [int(n) for n in dataset["N"].values]
    chosen = dataset["f"].sel(sink="with sink", distance="euclidean", N=4 if 4 in sizes else sizes[-1])
    averages = {
        "f4": chosen.sel(selection="attention", drop=True),
        "f4_random": chosen.sel(selection="random", drop=True),
        **{name: dataset[name] for name in _FEATURES},
    }
    data = {
        name: each.mean("document").drop_vars(("sink", "distance", "N"), errors="ignore")
        for name, each in averages.items()
    }
    return xr.Dataset(data | {"regime": dataset["regime"]}, attrs=dataset.attrs)


def read(path: str | Path) -> HeadMap:
    """The map of a measurement: the folder that `sphereflow measure` wrote, or the file measurement.nc in it."""
    import xarray as xr

    place = Path(path)
    file = place / _RESULT if place.is_dir() else place
    if not file.is_file():
        raise SphereflowError(
            f"there is no measurement in {place}: give the folder that sphereflow measure has written."
        )
    try:
        with xr.open_dataset(file, engine="scipy") as dataset:
            maps = brief(dataset).load()
        values = {name: maps[name].transpose("layer", "head").values for name in QUANTITIES}
    except Exception:  # a damaged file fails in as many ways as there are bytes
        raise SphereflowError(f"cannot read {file}: it is not a measurement of sphereflow measure.") from None
    about = maps.attrs
    name = (
        f"{about.get('model', file.name)}, {about.get('documents', '?')} documents of {about.get('window', '?')} tokens"
    )
    return _model(name, values)


@lru_cache(maxsize=8)
def recorded(name: str) -> HeadMap:
    """A recording that comes with the package, averaged over documents and queries."""
    from sphereflow.llm import recording, regimes

    made = recording(name)
    with np.errstate(invalid="ignore"):
        known = {each: array.astype(float).mean(axis=0) for each, array in made.heads.items()}
    known["f4"] = made.metrics["f"][..., 0, made.sizes.index(4)].astype(float).mean(axis=0)
    values = {each: known[each] for each in ("f4", *_FEATURES)} | {"regime": regimes(known)}
    return _model(f"{RECORDED[name]}, {len(made.text)} documents, {len(made.queries)} queries each", values)


@lru_cache(maxsize=32)
def tiny(architecture: str, seed: int) -> HeadMap:
    """A model of this architecture with random weights, measured on random tokens."""
    from sphereflow.llm import measure_heads
    from sphereflow.llm.model.loading import require_torch

    require_torch("measuring a tiny model")
    from sphereflow.llm.model.tiny import tiny_model

    tokens = np.random.default_rng(seed).integers(1, 97, (_TINY_DOCUMENTS, _TINY_WINDOW))
    heads = measure_heads(tiny_model(architecture, seed), tokens, sizes=_TINY_SIZES, repeats=8, seed=seed, theory=False)
    four = heads.sizes.index(4)
    values: dict[str, Any] = {name: heads.mean_feature(name) for name in _FEATURES}
    values["f4"] = heads.curve("f").mean(axis=0)[..., four]
    values["f4_random"] = heads.curve("f", "random").mean(axis=0)[..., four]
    values["regime"] = heads.regimes
    return _model(f"{architecture}, random weights", values)


@lru_cache(maxsize=64)
def synthetic(decay: float, seed: int) -> HeadMap:
    """Heads made by hand: a sink of every length and direction, averaged over a few copies of each."""
    from sphereflow.llm import head_features, regimes
    from sphereflow.llm.heads.geometry import random_controls
    from sphereflow.llm.heads.synthetic import sink_heads

    shape = (len(COMPRESSIONS), len(COSINES))
    values = {name: np.zeros(shape) for name in QUANTITIES}
    for i, compression in enumerate(COMPRESSIONS):
        for j, cosine in enumerate(COSINES):
            # The same draw in every cell, so that a map shows the sink and not the noise.
            weights, vectors = sink_heads(
                np.random.default_rng(seed),
                _COPIES,
                decay=decay,
                compression=compression,
                cosine=cosine,
                length=_LENGTH,
                d=_DIMENSION,
            )
            features = {name: np.asarray(each.mean()) for name, each in head_features(weights, vectors).items()}
            control = random_controls(weights, vectors, [4], repeats=4, seed=np.random.default_rng(seed))["euclidean"]
            values["regime"][i, j] = regimes(features)
            values["f4_random"][i, j] = control.f.mean()
            for name in ("f4", *_FEATURES):
                values[name][i, j] = features[name]
    rows, columns = (tuple(f"{x:g}" for x in each) for each in (COMPRESSIONS, COSINES))
    return HeadMap(
        "synthetic heads", "length of the sink value", "cosine of the sink with all other tokens", rows, columns, values
    )


def _model(name: str, values: dict[str, np.ndarray]) -> HeadMap:
    rows, columns = (tuple(map(str, range(count))) for count in values["f4"].shape)
    return HeadMap(name, "layer", "head", rows, columns, values)
