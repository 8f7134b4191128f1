"""The same statistics wherever a model lies: a graphics card, or split between it and the processor.

    python benchmarks/measure_device.py                 cuda:0, and the layers of one model split between it and the CPU
    python benchmarks/measure_device.py --short         a minute: the ratios, and the numbers beside the processor's
    python benchmarks/measure_device.py --device cpu    the same on the processor alone, for trying it out
    python benchmarks/measure_device.py --small         a model of 2 million parameters, windows of 64 and 128 tokens

The model is a Llama of the size of SmolLM2-135M (30 layers, 9 heads, 3 key/value heads) with random weights. Heads, a
recording of effective inverse temperatures, influence of positions, an iterated layer and sparse attention are compared
with those on the processor; then what measuring costs beside a bare forward pass, the median of seven ratios of
alternating calls with the smallest and the largest, and the peak of the memory of the card.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sphereflow as sf
from sphereflow.llm.measurement.heads import Heads


def llama(small: bool) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    width, layers, heads, shared = (128, 6, 4, 2) if small else (576, 30, 9, 3)
    config = LlamaConfig(
        vocab_size=4000,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        max_position_embeddings=2048,
        initializer_range=0.06,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def numbers(heads: Heads) -> dict[str, np.ndarray]:
    """Everything a measurement says, by name."""
    by_depth = {name: heads.by_depth(name) for name in ("mean_cosine", "participation", "clusters", "step")}
    by_head = {name: heads.by_head(name) for name in ("beta", "alignment", "entropy")}
    return heads.metrics | heads.features | by_depth | by_head


def apart(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> str:
    """The largest relative difference of the continuous numbers, and how many of the counted ones differ."""
    counted = {
        "precision",
        "recall",
        "f",
        "inversions",
        "precision4",
        "recall4",
        "f4",
        "sink_selected",
        "sink_recalled",
    }
    worst, name = max(
        (_relative(one[k], other[k]), k) for k in one if k not in counted | {"identity_error", "clusters"}
    )
    differ = np.concatenate([~np.isclose(one[k], other[k], equal_nan=True).ravel() for k in counted & one.keys()])
    return f"largest relative difference {worst:.1e} ({name}); {differ.sum()} of {differ.size} counts differ"


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), 1e-30))


def others(model: Any, tokens: np.ndarray) -> dict[str, np.ndarray]:
    """What the other sections of a measurement are made of."""
    loaded = sf.llm.LanguageModel("random", model, None, ())
    betas = sf.llm.effective_betas(loaded, tokens, progress=False)
    layer = sf.llm.iterate_layer(loaded, 4, tokens, steps=8, progress=False)
    with sf.llm.sparse_attention(loaded, keep=8, rule="deviation", texts=tokens) as usage:
        model(input_ids=_ids(model, tokens), use_cache=False)
    influence = sf.llm.influence_profile(model, n=48, prompts=2, progress=False)
    return {
        "betas by norms": betas.norms,
        "betas by cosines": betas.cosines,
        "mean cosine of an iterated layer": layer.stream["mean_cosine"],
        "keys kept": np.array(usage.mean_kept),
        "gradients": influence.gradient,
        "rollout": influence.rollout,
    }


def _ids(model: Any, tokens: np.ndarray) -> Any:
    import torch

    from sphereflow.llm.model.anatomy import input_device

    return torch.as_tensor(tokens, device=input_device(model))


def seconds(call: Callable[[], Any], cuda: bool) -> float:
    import torch

    began = time.perf_counter()
    call()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def alternated(bare: Callable[[], Any], measured: Callable[[], Any], cuda: bool) -> np.ndarray:
    """(bare, measured) seconds of seven measurements, the bare pass as the mean of those before and after."""
    for call in (bare, measured):
        seconds(call, cuda)
    found, before = [], seconds(bare, cuda)
    for _ in range(7):
        told, after = seconds(measured, cuda), seconds(bare, cuda)
        found.append(((before + after) / 2, told))
        before = after
    return np.array(found)


def main() -> None:

    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--short", action="store_true")
    chosen = parser.parse_args()
    cuda = chosen.device.startswith("cuda")
    plain = llama(chosen.small)
    layers = len(plain.model.layers)
    print(f"{sum(p.numel() for p in plain.parameters()) / 1e6:.0f} million parameters, {layers} layers")
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 4000, (2, 128))
    expected = numbers(sf.llm.measure_heads(plain, tokens, progress=False))
    moved = copy.deepcopy(plain).to(chosen.device)
    if chosen.short:
        print(f"{chosen.device}: {apart(expected, numbers(sf.llm.measure_heads(moved, tokens, progress=False)))}")
    else:
        split(chosen.device, plain, moved, tokens, expected)
    costs(moved, chosen, rng, cuda)


def split(device: str, plain: Any, moved: Any, tokens: np.ndarray, expected: dict[str, np.ndarray]) -> None:
    """All sections beside the processor's, on the card, and with half of the layers there."""
    import torch
    from accelerate import dispatch_model

    also, layers = others(plain, tokens), len(plain.model.layers)
    main_device = torch.device(device)
    places: dict[str, Any] = {"model.embed_tokens": main_device, "model.norm": "cpu", "model.rotary_emb": main_device}
    places |= {f"model.layers.{k}": main_device if k < layers // 2 else "cpu" for k in range(layers)}
    spread = dispatch_model(
        copy.deepcopy(plain), places | {"lm_head": "cpu"}, main_device=main_device, force_hooks=True
    )
    for name, model in ((device, moved), (f"first half on {device}, second on the processor", spread)):
        print(f"{name}: {apart(expected, numbers(sf.llm.measure_heads(model, tokens, progress=False)))}")
        found = others(model, tokens)
        print("  " + "; ".join(f"{key} {_relative(also[key], found[key]):.1e}" for key in also), flush=True)


def costs(moved: Any, chosen: argparse.Namespace, rng: np.random.Generator, cuda: bool) -> None:
    """What measuring costs beside a bare pass, in time and in memory of the card."""
    import torch

    print("\n| window | bare ms | measure ms | ratio | bare MB | measure MB | one layer's attention MB |")
    print("|---|---|---|---|---|---|---|")
    for window in (64, 128) if chosen.small else (256, 512, 1024):
        tokens = rng.integers(1, 4000, (1, window))

        def bare(tokens: np.ndarray = tokens) -> None:
            with torch.no_grad():
                moved.base_model(_ids(moved, tokens), use_cache=False)

        def measured(tokens: np.ndarray = tokens) -> None:
            sf.llm.measure_heads(moved, tokens, progress=False)

        peaks = []
        for call in (bare, measured):
            if cuda:
                torch.cuda.reset_peak_memory_stats()
            call()
            peaks.append(torch.cuda.max_memory_allocated() / 2**20 if cuda else float("nan"))
        found = alternated(bare, measured, cuda)
        ratios = found[:, 1] / found[:, 0]
        quick, slow = 1e3 * np.median(found, axis=0)
        layer = moved.config.num_attention_heads * window**2 * 4 / 2**20
        print(
            f"| {window} | {quick:.1f} | {slow:.1f} | "
            f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f}) | "
            f"{peaks[0]:.1f} | {peaks[1]:.1f} | {layer:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
