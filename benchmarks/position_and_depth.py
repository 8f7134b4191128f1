"""Measure real models by position and by depth, and keep the small results that come with the package.

    python benchmarks/position_and_depth.py FOLDER MODEL WHAT ...

FOLDER holds what `benchmarks/recordings.py` names; MODEL is smollm2 or gemma3-270m; WHAT is retrieval, influence,
betas, iterated or limits. Nothing of the weights is copied: digests, and numbers measured
with seed 0.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from recordings import OUT, loaded

import sphereflow as sf
from sphereflow.llm.depth.iterated import VARIANTS


def retrieval(model: sf.llm.LanguageModel) -> dict[str, sf.results.Result]:
    return {f"position/retrieval-{model.name}": sf.llm.retrieval_profile(model, progress=False)}


def influence(model: sf.llm.LanguageModel) -> dict[str, sf.results.Result]:
    return {
        f"position/influence-{kind}-{model.name}": sf.llm.influence_profile(model, texts, progress=False)
        for kind, texts in (("random", None), ("text", sf.llm.corpus()))
    }


def betas(model: sf.llm.LanguageModel) -> dict[str, sf.results.Result]:
    return {f"depth/betas-{model.name}": sf.llm.effective_betas(model, sf.llm.corpus(), progress=False)}


def limits(model: sf.llm.LanguageModel) -> dict[str, sf.results.Result]:
    return {f"depth/limits-{model.name}": sf.llm.layer_limits(model, LAYERS[model.name], progress=False)}


def iterated(model: sf.llm.LanguageModel) -> dict[str, sf.results.Result]:
    """Layers evenly spread; every variant with tokens kept at their norms, the trained one also without.

    Of Gemma only the whole layer and its attention alone, with norms kept.
    """
    found: dict[str, sf.results.Result] = {}
    variants = [*((each, True) for each in VARIANTS), ("trained", False)]
    if model.name != "smollm2":
        variants = [("no MLP", True), ("trained", True)]
    for layer in LAYERS[model.name]:
        for variant, rescale in variants:
            made = sf.llm.iterate_layer(model, layer, sf.llm.corpus(), rescale=rescale, variant=variant, progress=False)
            name = f"{variant.lower().replace(' ', '-')}-{'rescaled' if rescale else 'plain'}"
            found[f"depth/iterated-{model.name}-{layer:02d}-{name}"] = made
            print(made.summary(), flush=True)
    return found


MEASUREMENTS = {"retrieval": retrieval, "influence": influence, "betas": betas, "iterated": iterated, "limits": limits}
LAYERS = {"smollm2": (4, 10, 16, 22, 28), "gemma3-270m": (2, 6, 10, 14)}


def main(folder: str, name: str, *what: str) -> None:
    model = loaded(name, Path(folder))
    for each in what or MEASUREMENTS:
        began = time.perf_counter()
        for file, result in MEASUREMENTS[each](model).items():
            path = result.save(OUT / f"{file}.npz", overwrite=True)
            print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB\n{result.summary()}", flush=True)
        print(f"{each}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
