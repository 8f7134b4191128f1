"""How close the direct engine comes to the hardware's limit on one GPU, beside PyTorch's fused attention.

    python benchmarks/gpu_direct.py

Pairs per second of one field evaluation of self-attention, its largest error against float64 on sampled rows, and the
fraction of the limit: for d = 3 the exponential units (16 per multiprocessor and clock), for d = 128 in float32 the
multiply-add units (128 per multiprocessor and clock, 256 operations per pair).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow import runtime
from sphereflow.interaction import attend

BETA = 10.0
MULTIPROCESSORS, CLOCK = 132, 1.98e9  # of an H200
LIMITS = {3: 16 * MULTIPROCESSORS * CLOCK, 128: 128 * MULTIPROCESSORS * CLOCK / 256}

field = jax.jit(lambda x: attend(x, x, x, BETA, self_attention=True, method="direct").average)


def main() -> None:
    if jax.default_backend() != "gpu":
        raise SystemExit("this benchmark needs an NVIDIA GPU.")
    print(f"{runtime.devices()[0]}, jax {jax.__version__}, beta = {BETA:g}")
    print(f"{'engine':<28}{'n':>9}{'d':>5}{'pairs/s':>12}{'of limit':>10}{'error':>10}")
    for n, d in ((131_072, 3), (1_000_000, 3), (65_536, 128), (131_072, 128)):
        x = unit(n, d)
        rows = np.random.default_rng(1).integers(0, n, 100)
        exact = reference(x, rows)
        report("sphereflow float32", n, d, *timed(field, jnp.asarray(x, jnp.float32)), rows, exact)
        if n <= 131_072:
            report("sphereflow float64", n, d, *timed(field, jnp.asarray(x)), rows, exact)
        if n * d <= 131_072 * 128:
            report("PyTorch fused float32", n, d, *torch_attention(x), rows, exact)


def unit(n: int, d: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def reference(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    kernel = np.exp(BETA * (x[rows] @ x.T - 1))
    return kernel @ x / kernel.sum(axis=1, keepdims=True)


def timed(function: Callable[[Any], Any], argument: Any) -> tuple[float, np.ndarray]:
    result = function(argument).block_until_ready()
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        function(argument).block_until_ready()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), np.asarray(result)


def torch_attention(x: np.ndarray) -> tuple[float, np.ndarray]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.backends.cuda.matmul.allow_tf32 = False
    width = max(8, x.shape[1])  # the fused kernel wants a multiple of four; zeros change nothing
    tokens = torch.tensor(np.pad(x, ((0, 0), (0, width - x.shape[1]))), dtype=torch.float32, device="cuda")[None, None]
    seconds = []
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        for _ in range(6):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            out = torch.nn.functional.scaled_dot_product_attention(tokens, tokens, tokens, scale=BETA)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:]), out[0, 0, :, : x.shape[1]].cpu().numpy()


def report(
    engine: str, n: int, d: int, seconds: float, result: np.ndarray, rows: np.ndarray, exact: np.ndarray
) -> None:
    rate = n * n / seconds
    share = "" if "64" in engine else f"{rate / LIMITS[d]:.0%}"
    print(f"{engine:<28}{n:>9}{d:>5}{rate:>12.3g}{share:>10}{np.abs(result[rows] - exact).max():>10.1e}", flush=True)


if __name__ == "__main__":
    main()
