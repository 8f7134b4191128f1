"""What a sweep costs beside its cells, and what a second worker brings: python benchmarks/sweep.py"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.sweeps import open_sweep, sweep


def cheap(a: float, b: float) -> float:
    return a * b


def heavy(x: float) -> float:
    """About half a second of one core."""
    matrix = jnp.eye(160) + x * 1e-3 * jnp.ones((160, 160))
    return _powers(matrix)


@jax.jit
def _powers(matrix: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 2000, lambda i, m: m @ matrix / jnp.linalg.norm(m), matrix)[0, 0]


def seconds(**options: object) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        sweep(out=Path(folder) / "s.zarr", progress=False, **options)
        return time.perf_counter() - began


def main() -> None:
    grid = {"a": np.linspace(0, 1, 100), "b": np.linspace(0, 1, 20)}
    bare = time.perf_counter()
    table = [cheap(a, b) for a in grid["a"] for b in grid["b"]]
    bare = time.perf_counter() - bare
    print(f"cells of nothing, {len(table)}: bare loop {1e3 * bare / len(table):.4f} ms a cell")
    seconds(function=cheap, grid={"a": [0.0, 1.0], "b": [0.0]})
    for name, options in (("one cell per block", {}), ("blocks of 64, vmap", {"vmap": True, "batch": 64})):
        took = seconds(function=cheap, grid=grid, **options)
        print(f"  {name:<22} {1e3 * took / len(table):8.3f} ms a cell")
    with tempfile.TemporaryDirectory() as folder:
        many = {"a": np.linspace(0, 1, 400), "b": np.linspace(0, 1, 250)}
        sweep(cheap, many, vmap=True, batch=1000, out=Path(folder) / "m.zarr", progress=False)
        began = time.perf_counter()
        open_sweep(Path(folder) / "m.zarr")
        print(f"100,000 cells open in {time.perf_counter() - began:.3f} s")
    heavy_grid = {"x": np.linspace(0, 1, 48)}
    times = {}
    for workers in (1, 2):
        # The cluster starts and compiles first; then the same cells again, on a grid twice as long, tell the rate.
        short = seconds(function=heavy, grid={"x": heavy_grid["x"][:8]}, workers=workers)
        times[workers] = seconds(function=heavy, grid=heavy_grid, workers=workers) - short
        print(f"40 heavy cells, {workers} worker(s): {times[workers]:.1f} s beside the start")
    print(f"ratio of one worker to two: {times[1] / times[2]:.2f}")


if __name__ == "__main__":
    main()
