"""Tokens that have gathered, in four dimensions and more: sums through clusters beside all pairs, in one process.

    python benchmarks/middle_dimensions.py                  # one sum: d = 4, 8, 16, 32, n = 10^5 and 10^6
    python benchmarks/middle_dimensions.py --run 16000 8    # a whole run from uniform tokens to one cluster: n, d

Tokens lie in sixteen clusters of a given radius; the sums are asked for 1e-8, as by `evolve` at tol = 1e-6. Shown
is what `auto` goes on with, its processor seconds (the second call), how many times those of all pairs are more, and,
for two hundred rows drawn at random, the largest error beside the largest bound. At 10^6 tokens the seconds of all
pairs are a hundred times those at 10^5.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import sphereflow as sf
from sphereflow.interaction import DIRECT, Adaptive, Clustered, Engine, attend
from sphereflow.interaction.far_field import Plan, far_field_rows

BETA, CLUSTERS, ROWS, TOL = 4.0, 16, 200, 1e-8


def gathered(n: int, d: int, spread: float) -> np.ndarray:
    """Unit tokens at about this distance from one of sixteen random places."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLUSTERS, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[rng.integers(CLUSTERS, size=n)] + spread / np.sqrt(d) * rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@eqx.filter_jit
def pull(engine: Engine, x: jnp.ndarray) -> jnp.ndarray:
    return attend(x, x, x, BETA, method=engine).average


def seconds(work: Callable[[], jnp.ndarray], repeats: int = 2) -> float:
    """Processor seconds of the last of some calls."""
    for _ in range(repeats):
        began = time.process_time()
        work().block_until_ready()
    return time.process_time() - began


def error_and_bound(engine: Clustered, x: jnp.ndarray) -> tuple[float, float]:
    """Of the average, relative to the longest value, over some rows."""
    rows = np.random.default_rng(1).integers(len(x), size=ROWS)
    plan = Plan(engine.clusters, engine.order, engine.apart, engine.tol)
    weights = jnp.full(len(x), 1 / len(x))
    found, bounds = far_field_rows(plan, True, None, x, x, jnp.asarray(BETA), weights)
    exact = attend(x[rows], x, x, BETA, method=DIRECT).average
    error = float(jnp.linalg.norm(found.average[rows] - exact, axis=1).max())
    bounds = np.asarray(bounds)[rows]
    return error, float(np.max(bounds, initial=0, where=np.isfinite(bounds)))


def one_sum(dimensions: list[int]) -> None:
    print("| d | n | radius | sums | processor s | all pairs / this | error | bound |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for d in dimensions:
        direct = {}
        for n in (100_000, 1_000_000):
            for spread in (0.3, 0.1, 0.03, 0.01, 0.001) if n == 100_000 else (0.01, 0.001):
                x = jnp.asarray(gathered(n, d, spread))
                if not direct:
                    direct = {100_000: seconds(lambda x=x: pull(DIRECT, x), 1)}
                    direct[1_000_000] = 100 * direct[100_000]
                engine = sf.SA(BETA, engine=Adaptive(TOL)).gathered(x).engine
                if not isinstance(engine, Clustered):
                    print(f"| {d} | {n:,} | {spread} | all pairs | {direct[n]:.1f} | 1 | | |", flush=True)
                    continue
                took = seconds(lambda engine=engine, x=x: pull(engine, x))
                error, bound = error_and_bound(engine, x)
                what = f"{engine.clusters} clusters, order {engine.order}"
                numbers = f"{took:.2f} | {direct[n] / took:.0f} | {error:.0e} | {bound:.0e} |"
                print(f"| {d} | {n:,} | {spread} | {what} | {numbers}", flush=True)


def whole_run(n: int, d: int) -> None:
    x0 = sf.draw("uniform", n, d, 0)
    print("| sums | processor s | largest distance of a token in any frame |\n| --- | --- | --- |")
    frames = {}
    for method in ("auto", "direct"):
        began = time.process_time()
        run = sf.evolve(sf.SA(BETA), x0, 20.0, saveat=101, tol=1e-6, method=method, progress=False)
        frames[method] = run.xs
        away = np.abs(frames["auto"] - run.xs).max()
        print(f"| {run.engine} | {time.process_time() - began:.1f} | {away:.1e} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs=2, type=int, metavar=("N", "D"))
    parser.add_argument("--d", nargs="+", type=int, default=[4, 8, 16, 32])
    asked = parser.parse_args()
    if asked.run:
        whole_run(*asked.run)
    else:
        one_sum(asked.d)
