"""How one evaluation of the field grows with the number of tokens, on this machine's device and over several of them.

    python benchmarks/scaling.py                 # the default device, sizes up to what memory holds
    python benchmarks/scaling.py --shards 8      # the same sums over so many devices (forced ones on a processor)
    python benchmarks/scaling.py --costs         # what the cost model predicts against what is measured

docs/scaling.md extrapolates from these slopes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--shards", type=int, default=0)
parser.add_argument("--costs", action="store_true")
parser.add_argument("--largest", type=float, default=1e8)
parser.add_argument("--beta", type=float, default=10.0)
arguments = parser.parse_args()
if arguments.shards:
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={arguments.shards}"
    )

import jax
import jax.numpy as jnp
import numpy as np

import sphereflow  # noqa: F401  sets precision before the back end starts
from sphereflow.interaction import DIRECT, attend
from sphereflow.interaction.choice import choose
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.direct import default_block, direct_attention
from sphereflow.interaction.expansion import circle_modes_bound, sphere_degree
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.linear import expand, kernel_error
from sphereflow.interaction.masks import Causal
from sphereflow.interaction.sharded import Sharded, spread, token_mesh

REPEATS = 3


def tokens(n: int, d: int, dtype: Any) -> jax.Array:
    x = jax.random.normal(jax.random.key(0), (n, d), dtype)
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


def seconds(call: Callable[[], Any]) -> float:
    jax.block_until_ready(call())  # compiles
    best = np.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(call())
        best = min(best, time.perf_counter() - began)
    return best


def modes(d: int, n: int, tol: float, dtype: Any) -> Any:
    error = kernel_error(tol, n, dtype)
    if d == 2:
        return CircleModes(max(1, circle_modes_bound(arguments.beta, error)))
    return SphereModes(max(1, sphere_degree(arguments.beta, error)))


def slope(sizes: list[int], times: list[float]) -> str:
    return f"{np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}" if len(sizes) > 1 else "-"


def on_one_device() -> None:
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, beta = {arguments.beta:g}\n")
    print("| engine | d | precision | n | seconds | ns per token (per pair) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for d, dtype, tol, most in (
        (2, jnp.float64, 1e-9, 1e8),
        (2, jnp.float32, 1e-4, 1e8),
        (3, jnp.float64, 1e-9, 1e7),
        (3, jnp.float32, 1e-4, 1e7),
    ):
        sizes = [int(n) for n in (1e5, 1e6, 1e7, 1e8) if n <= min(most, arguments.largest)]
        times = []
        for n in sizes:
            x, expansion = tokens(n, d, dtype), modes(d, n, tol, dtype)
            took = seconds(lambda x=x, e=expansion, t=tol: expand(e, x, x, x, arguments.beta, tol=t, rescue=False))
            times.append(took)
            name = f"{type(expansion).__name__} {expansion.modes if d == 2 else expansion.degree}"
            print(f"| {name} | {d} | {np.dtype(dtype)} | {n:.0e} | {took:.3g} | {1e9 * took / n:.3g} |", flush=True)
            del x
        print(f"| slope | {d} | {np.dtype(dtype)} | | {slope(sizes, times)} | |", flush=True)
    for d, dtype in ((2, jnp.float64), (3, jnp.float64), (3, jnp.float32)):
        sizes = [n for n in (2**13, 2**15, 2**17) if n <= arguments.largest]
        times = []
        for n in sizes:
            x, w = tokens(n, d, dtype), jnp.full(n, 1 / n, dtype)
            took = seconds(
                lambda x=x, w=w, t=dtype: direct_attention(
                    x,
                    x,
                    x,
                    jnp.asarray(arguments.beta, t),
                    w,
                    bounded=True,
                    symmetric=True,
                    plain=True,
                    block=default_block(),
                )
            )
            times.append(took)
            print(f"| direct | {d} | {np.dtype(dtype)} | {n} | {took:.3g} | {1e9 * took / n**2:.3g} |", flush=True)
        print(f"| slope | {d} | {np.dtype(dtype)} | | {slope(sizes, times)} | |", flush=True)


def on_several() -> None:
    count = len(jax.devices())
    print(f"{count} devices ({jax.devices()[0].device_kind}), jax {jax.__version__}, beta = {arguments.beta:g}\n")
    print("| sums | n | devices | seconds | times one device |")
    print("| --- | --- | --- | --- | --- |")
    for name, d, n in (("circle, expansion", 2, 2**22), ("S^2, expansion", 3, 2**19), ("S^2, direct ring", 3, 2**14)):
        x = tokens(n, d, jnp.float64)
        method = "direct" if "ring" in name else {2: "fourier", 3: "harmonic"}[d]
        engine = choose(n, n, d, arguments.beta, tol=1e-9, method=method, use_nufft=False, self_attention=True).engine
        base = None
        for number in sorted({1, 2, 4, count}):
            if number > count:
                continue
            mesh = token_mesh(jax.devices()[:number])
            local = spread(x, mesh)

            @jax.jit
            def field(y: jax.Array, split: Sharded = Sharded(engine, mesh)) -> Any:  # noqa: B008
                return attend(y, y, y, arguments.beta, self_attention=True, method=split).average

            took = seconds(lambda y=local, f=field: f(y))
            base = took if base is None else base
            print(f"| {name} | {n} | {number} | {took:.3g} | {base / took:.2f} |", flush=True)


def costs() -> None:
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}\n")
    print("| engine | modes | mask | d | n | beta | precision | predicted ms | measured ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios = []
    cases = (
        (2, "fourier", 10.0),
        (2, "fourier", 400.0),
        (3, "harmonic", 10.0),
        (3, "harmonic", 50.0),
        (4, "polynomial", 1.0),
    )
    for dtype, tol in ((jnp.float64, 1e-9), (jnp.float32, 1e-3)):
        for (d, engine, beta), n, mask in itertools.product(cases, (10_000, 100_000), (None, Causal())):
            for method in (engine, "direct"):
                if method == "direct" and n > arguments.largest:
                    continue
                ratios.append(_one_cost(d, n, beta, dtype, tol, mask, method))
    print(f"\n{len(ratios)} ratios: {min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}")


def _one_cost(d: int, n: int, beta: float, dtype: Any, tol: float, mask: Any, method: str) -> float:
    name = np.dtype(dtype).name
    chosen = choose(n, n, d, beta, self_attention=True, tol=tol, mask=mask, method=method, dtype=name)
    x, w, whole = tokens(n, d, dtype), jnp.full(n, 1 / n, dtype), mask is None
    if chosen.engine == DIRECT:
        took = seconds(
            lambda: direct_attention(
                x,
                x,
                x,
                jnp.asarray(beta, dtype),
                w,
                mask,
                bounded=True,
                symmetric=whole,
                plain=whole,
                block=default_block(),
            )
        )
    else:
        took = seconds(lambda: expand(chosen.engine.expansion(d), x, x, x, beta, tol=tol, mask=mask, rescue=False))
    ratio = took / chosen.predicted_seconds
    cells = (chosen.engine.name, chosen.modes, "none" if whole else "causal", d, n, f"{beta:g}", name)
    times = f"{1e3 * chosen.predicted_seconds:.2f} | {1e3 * took:.2f} | {ratio:.2f}"
    print(f"| {' | '.join(map(str, cells))} | {times} |", flush=True)
    return ratio


if __name__ == "__main__":
    sys.exit(costs() if arguments.costs else on_several() if arguments.shards else on_one_device())
