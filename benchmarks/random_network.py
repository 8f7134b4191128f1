"""How long random networks take: layers with fresh weights, beside the same in NumPy and in eager PyTorch.

    python benchmarks/random_network.py            all tables, a few minutes on two cores
    python benchmarks/random_network.py --quick    fewer layers

Every layer costs the same, so peers run fewer layers and are compared per layer. Realisations are independent: the
last table splits them over two processes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.random_transformers.gram_chain import advance_gram
from sphereflow.random_transformers.network import RandomNetwork, advance, realisation_keys
from sphereflow.random_transformers.weight_laws import matrices, weights
from sphereflow.sphere import uniform

N = D = 64
REALISATIONS = 100
BETA, STEP = 1.0, 0.05


def numpy_layers(x: np.ndarray, layers: int, rng: np.random.Generator) -> np.ndarray:
    """The plain way, batched: three d x d matrices per realisation and layer."""
    dtype, scale = x.dtype, BETA * D**-0.5
    for _ in range(layers):
        w, u, v = (rng.standard_normal((len(x), D, D), dtype=dtype) for _ in range(3))
        logits = scale * (x @ u) @ (x @ w).swapaxes(1, 2)
        kernel = np.exp(logits - logits.max(axis=-1, keepdims=True))
        mean = kernel @ x / kernel.sum(axis=-1, keepdims=True)
        x = x + dtype.type(STEP * D**-0.5) * mean @ v.swapaxes(1, 2)
        x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return x


def torch_layers(x: np.ndarray, layers: int) -> np.ndarray:
    """The same in eager PyTorch."""
    import torch

    y = torch.from_numpy(x)
    scale = BETA * D**-0.5
    with torch.no_grad():
        for _ in range(layers):
            w, u, v = (torch.randn(len(y), D, D, dtype=y.dtype) for _ in range(3))
            kernel = torch.softmax(scale * (y @ u) @ (y @ w).transpose(1, 2), dim=-1)
            y = torch.nn.functional.normalize(y + STEP * D**-0.5 * (kernel @ y) @ v.transpose(1, 2), dim=-1)
    return y.numpy()


def timed(call) -> tuple[float, float]:
    """Wall and processor seconds, the best of three."""
    seen = []
    for _ in range(3):
        wall, used = time.perf_counter(), time.process_time()
        call()
        seen.append((time.perf_counter() - wall, time.process_time() - used))
    return min(w for w, _ in seen), min(u for _, u in seen)


def library(dtype, repeats: int = REALISATIONS, law=None):
    network = RandomNetwork(weights("product", d=D) if law is None else law, BETA, STEP)
    x = uniform(jax.random.key(1), (repeats, N, D)).astype(dtype)
    keys = realisation_keys(0, repeats)

    def go(layers: int):
        return advance(network, keys, x, jnp.asarray(0), jnp.asarray(layers)).block_until_ready()

    return network, go


def peers(quick: bool) -> None:
    layers = 5 if quick else 40
    x = np.asarray(uniform(jax.random.key(1), (REALISATIONS, N, D)))
    print(
        f"One layer of {REALISATIONS} realisations, {N} tokens, d = {D}, one head, product weights ({layers} layers)\n"
    )
    print("| way | precision | wall ms per layer | processor ms per layer | processor time, ratio |")
    print("|---|---|---|---|---|")
    for dtype in (np.float64, np.float32):
        network, go = library(dtype)
        go(2)
        rows = {"sphereflow": timed(lambda go=go: go(layers))}
        rng = np.random.default_rng(0)
        start = x.astype(dtype)
        numpy_layers(start, 1, rng)
        rows["NumPy"] = timed(lambda start=start, rng=rng: numpy_layers(start, layers, rng))
        torch_layers(start, 1)
        rows["PyTorch, eager"] = timed(lambda start=start: torch_layers(start, layers))
        base = rows["sphereflow"][1]
        for name, (wall, used) in rows.items():
            told = f"{1e3 * wall / layers:.1f} | {1e3 * used / layers:.1f} | {used / base:.2f}"
            print(f"| {name} | {np.dtype(dtype).name} | {told} |", flush=True)
    drawn = sum(network.normals(N, D))
    print(f"\nnormals per layer and realisation: {drawn} drawn, {3 * D * D} in whole matrices\n")


def few_tokens(quick: bool) -> None:
    print("Few tokens in high dimension, one head, float64: what the structure of the law saves\n")
    print("| n | d | way | normals per layer | processor us per layer and realisation |")
    print("|---|---|---|---|---|")
    for n, d in ((8, 64), (8, 256)) if quick else ((8, 64), (8, 256), (8, 1024), (32, 1024)):
        count, layers = 20, 5
        law = weights("product", d=d)
        keys = realisation_keys(0, count)
        x = jnp.asarray(np.broadcast_to(np.eye(n, d), (count, n, d)))
        root = jnp.asarray(np.broadcast_to(np.eye(n), (count, n, n)))
        bounds = jnp.asarray(0), jnp.asarray(layers)
        few = RandomNetwork(law, BETA, STEP)
        whole = RandomNetwork(matrices(law), BETA, STEP)
        ways = {
            "whole matrices": (3 * d * d, partial(advance, whole, keys, x, *bounds)),
            "tokens, few draws": (sum(few.normals(n, d)), partial(advance, few, keys, x, *bounds)),
            "Gram chain": (
                few.normals(n, d)[0] + n * n + n * (n - 1) // 2,
                partial(advance_gram, few, keys, root, d, *bounds),
            ),
        }
        for name, (normals, call) in ways.items():
            if name == "whole matrices" and d > 256:
                continue
            call().block_until_ready()
            _, used = timed(lambda call=call: call().block_until_ready())
            print(f"| {n} | {d} | {name} | {normals} | {1e6 * used / (count * layers):.0f} |", flush=True)
    print()


def whole_run(quick: bool) -> None:
    layers = 100 if quick else 10_000
    print(f"{REALISATIONS} realisations, {N} tokens, d = {D}, {layers} layers, float32, two processes\n")
    began = time.perf_counter()
    halves = [
        subprocess.Popen(
            [sys.executable, __file__, "--half", str(layers), str(part)], stdout=subprocess.PIPE, text=True
        )
        for part in range(2)
    ]
    told = [half.communicate()[0].strip() for half in halves]
    print("| wall s, start and compilation included | processor s of the halves |")
    print("|---|---|")
    print(f"| {time.perf_counter() - began:.0f} | {', '.join(told)} |")


def half(layers: int) -> None:
    _, go = library(np.float32, REALISATIONS // 2)
    go(1)
    used = time.process_time()
    go(layers)
    print(f"{time.process_time() - used:.0f}")


def main() -> None:
    if "--half" in sys.argv:
        half(int(sys.argv[sys.argv.index("--half") + 1]))
        return
    quick = "--quick" in sys.argv
    peers(quick)
    few_tokens(quick)
    whole_run(quick)


if __name__ == "__main__":
    main()
