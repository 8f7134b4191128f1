r"""How fast is the direct engine? Self-attention of n tokens, against PyTorch, KeOps and NumPy in the same run.

$$y_i = \frac{\sum_j e^{\beta(\langle x_i,x_j\rangle-1)} x_j}{\sum_j e^{\beta(\langle x_i,x_j\rangle-1)}}$$

    python benchmarks/direct_engine.py [--n 16384] [--rounds 5]

The engines take turns, so that other work on the machine slows all of them alike. Times are medians over the rounds,
and a ratio is the median over the rounds of the peer's time by ours: above 1, ours is faster. KeOps, whose cost is
proportional to the number of queries, is timed on a few of the queries and its time multiplied. PyTorch is
`scaled_dot_product_attention`, with whichever of its back ends is faster on the first 4,096 tokens.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np

import sphereflow  # noqa: F401  (switches float64 on)
from sphereflow.interaction import Causal, attend

BETA = 4.0
KEOPS_QUERIES = 256
MEMORY_N = 100_000

Call = Callable[[], object]


def tokens(n: int, d: int, dtype: str) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, d))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ours(x: np.ndarray, causal: bool = False, self_attention: bool = True) -> Call:
    y = jnp.asarray(x)
    mask = Causal() if causal else None
    return lambda: attend(
        y, y, y, BETA, mask=mask, self_attention=self_attention, method="direct"
    ).average.block_until_ready()


def pytorch(x: np.ndarray, causal: bool = False) -> Call:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def call_with(backend: SDPBackend, x: np.ndarray) -> Call:
        y = torch.from_numpy(x)[None, None]

        def call() -> object:
            with torch.no_grad(), sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(y, y, y, scale=BETA, is_causal=causal)[0, 0]

        return call

    def trial(backend: SDPBackend) -> float:  # few tokens: one of the back ends forms the whole matrix
        call = call_with(backend, x[:4096])
        return min(seconds(call) for _ in range(3))

    return call_with(min((SDPBackend.FLASH_ATTENTION, SDPBackend.MATH), key=trial), x)


def keops(x: np.ndarray) -> Call:
    import pykeops
    import torch

    pykeops.set_verbose(False)
    from pykeops.torch import LazyTensor

    keys = torch.from_numpy(x)
    queries = keys[:KEOPS_QUERIES].contiguous()
    columns = torch.cat([keys, torch.ones_like(keys[:, :1])], dim=1)

    def call() -> object:
        kernel = (BETA * ((LazyTensor(queries[:, None, :]) | LazyTensor(keys[None, :, :])) - 1)).exp()
        sums = kernel @ columns
        return sums[:, :-1] / sums[:, -1:]

    return call


def numpy(x: np.ndarray, block: int = 1024) -> Call:
    columns = np.concatenate([x, np.ones_like(x[:, :1])], axis=1)

    def call() -> object:
        rows = []
        for start in range(0, len(x), block):
            scores = x[start : start + block] @ x.T
            scores -= 1
            scores *= BETA
            sums = np.exp(scores, out=scores) @ columns
            rows.append(sums[:, :-1] / sums[:, -1:])
        return np.concatenate(rows)

    return call


def take_turns(calls: dict[str, Call], rounds: int) -> dict[str, np.ndarray]:
    """Seconds of every call in every round, after one call each to compile and warm up."""
    results = {name: np.asarray(call()) for name, call in calls.items()}
    first = next(iter(results.values()))
    for name, result in results.items():  # all of them compute the same thing
        np.testing.assert_allclose(result, first[: len(result)], atol=2e-5, err_msg=name)
    del results, first
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: np.array(column) for name, column in times.items()}


def compare(n: int, rounds: int) -> None:
    """Tables of times and ratios: all pairs, then the causal mask."""
    names = ("ours", "general", "torch", "KeOps", "NumPy")
    print(f"\nAll pairs, n = {n:,}. `general` does without the promise of self-attention: a running")
    print("maximum and no symmetry.\n")
    print("               milliseconds per call                time of peer / ours torch /")
    print("type     d" + "".join(f"{name:>8}" for name in names) + "  torch  KeOps  NumPy general")
    for dtype in ("float32", "float64"):
        for d in (2, 3, 16, 128):
            x = tokens(n, d, dtype)
            calls = {"ours": ours(x), "general": ours(x, self_attention=False), "torch": pytorch(x)}
            times = take_turns({**calls, "KeOps": keops(x), "NumPy": numpy(x)}, rounds)
            times["KeOps"] = times["KeOps"] * n / KEOPS_QUERIES
            ratios = [times[name] / times["ours"] for name in names[2:]] + [times["torch"] / times["general"]]
            cells = "".join(f"{1e3 * np.median(times[name]):8.0f}" for name in names)
            print(f"{dtype}{d:4d}{cells}" + "".join(f"{np.median(r):7.2f}" for r in ratios), flush=True)
    print(f"\nCausal mask, n = {n:,}.\n")
    print("           milliseconds")
    print("type     d    ours   torch  torch / ours")
    for dtype in ("float32", "float64"):
        for d in (3, 128):
            x = tokens(n, d, dtype)
            times = take_turns({"ours": ours(x, causal=True), "torch": pytorch(x, causal=True)}, rounds)
            cells = "".join(f"{1e3 * np.median(t):8.0f}" for t in times.values())
            print(f"{dtype}{d:4d}{cells}{np.median(times['torch'] / times['ours']):14.2f}", flush=True)


def growth(rounds: int) -> None:
    """Slope of time against n on a log-log axis."""
    sizes = np.array([4096, 8192, 16384, 32768])
    calls = {str(n): ours(tokens(n, 3, "float64")) for n in sizes}
    for call in calls.values():
        call()
    times = [np.median([seconds(call) for _ in range(rounds)]) for call in calls.values()]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    shown = ", ".join(f"{n:,}: {1e3 * t:.0f} ms" for n, t in zip(sizes, times, strict=True))
    print(f"\nGrowth, float64, d = 3: {shown}.\nSlope of time against n: {slope:.2f}.", flush=True)


def memory() -> None:
    """Peak memory of a fresh process that attends once (run first: a child starts from its parent's peak)."""
    print(f"\nPeak memory of a process, n = {MEMORY_N:,}, float64; one n x n array takes 80 GB.\n")
    for what, d in (("nothing", 3), ("value", 3), ("gradient", 3), ("value", 128)):
        command = [sys.executable, __file__, "--peak", what, "--d", str(d)]
        peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{what:>8}, d = {d:3d}: {peak:.2f} GB", flush=True)


def peak(what: str, d: int) -> None:
    x = jnp.asarray(tokens(MEMORY_N, d, "float64"))

    def attention(x: jax.Array) -> jax.Array:
        return attend(x, x, x, BETA, self_attention=True, method="direct").average

    if what == "value":
        attention(x).block_until_ready()
    if what == "gradient":
        jax.grad(lambda x: jnp.sum(attention(x) ** 2))(x).block_until_ready()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9)


def machine() -> str:
    try:
        with open("/proc/cpuinfo") as info:
            model = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    packages = ", ".join(f"{name} {version(name)}" for name in ("jax", "torch", "pykeops", "numpy"))
    today = datetime.date.today().isoformat()
    where = f"{today}, {model}, {os.cpu_count()} cores, {jax.default_backend()}."
    return f"{where}\nPython {platform.python_version()}, {packages}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peak", choices=("nothing", "value", "gradient"), help=argparse.SUPPRESS)
    parser.add_argument("--d", type=int, default=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak, options.d)
        return
    print(machine())
    memory()
    growth(options.rounds)
    compare(options.n, options.rounds)


if __name__ == "__main__":
    main()
