"""Heat maps of the size in which they are published: overlaps kept by runs of 10^5 moves, and where they are lost.

    python benchmarks/memory_heatmap.py --out FOLDER [--sizes 100 300 10000] [--loads 46] [--temperatures 50]
        [--chains 64] [--steps 100000] [--processes 16]

Gaussian kernel, beta = 1, loads 0.20 to 0.65 and temperatures 0.005 to 0.495, all other patterns by their noise floor
on the sphere: the overlap is then a Markov chain of its own at any N. Chains start at the retrieval overlap, the second
half of their moves is averaged, and the boundary of a load is the lowest temperature at which the mean overlap is 0.02
below the retrieval overlap. It is a boundary of runs of this length, not of the equilibrium; beside it stands the
spinodal, where the barrier ends.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from sphereflow.memory import spherical
from sphereflow.memory.chains import bulk_metropolis
from sphereflow.memory.state import lse_overlap

LOST = 0.02


def row(load: float, n: int, temperatures: np.ndarray, chains: int, steps: int) -> np.ndarray:
    """Mean overlap and its standard error at every temperature."""
    noise = np.full(len(temperatures), float(spherical.noise_overlap(load, 1.0)))
    seed = round(1000 * load)
    overlap = bulk_metropolis(n, 1.0, temperatures, noise, chains, steps, steps // 2, seed).overlap
    return np.stack([overlap.mean(axis=1), overlap.std(axis=1, ddof=1) / np.sqrt(chains)])


def boundary(temperatures: np.ndarray, overlap: np.ndarray) -> float:
    """The lowest temperature at which the overlap is lost; not a number if none."""
    lost = np.flatnonzero(lse_overlap(temperatures) - overlap > LOST)
    return float(temperatures[lost[0]]) if len(lost) else np.nan


def draw(loads: np.ndarray, temperatures: np.ndarray, maps: dict[int, np.ndarray], path: Path) -> None:
    from sphereflow.pictures import blank, look

    with look():
        figure = blank(4.2 * len(maps), 3.8)
        panels = np.atleast_1d(figure.subplots(1, len(maps), sharey=True))
        for axes, (n, overlap) in zip(panels, maps.items(), strict=True):
            shown = axes.pcolormesh(loads, temperatures, overlap.T, vmin=0, vmax=1, shading="nearest")
            axes.plot(loads, spherical.spinodal_temperature(loads, 1.0), color="white", label="spinodal")
            axes.plot(loads, [boundary(temperatures, each) for each in overlap], "w.", label="lost in the run")
            axes.set(title=f"$N={n}$", xlabel=r"load $\alpha$", ylim=(0, temperatures[-1]))
        panels[0].set_ylabel("temperature")
        panels[0].legend()
        figure.colorbar(shown, ax=list(panels), label="mean overlap")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 10_000])
    defaults = {"loads": 46, "temperatures": 50, "chains": 64, "steps": 100_000, "processes": os.cpu_count()}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--between", type=float, nargs=2, default=(0.20, 0.65), help="the smallest and largest load")
    asked = parser.parse_args()
    loads = np.round(np.linspace(*asked.between, asked.loads), 4)
    temperatures = np.linspace(0.005, 0.495, asked.temperatures)
    asked.out.mkdir(parents=True, exist_ok=True)
    maps = {}
    print("| N | load | spinodal | lost in the run | mean overlap there | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(asked.processes) as pool:
        for n in asked.sizes:
            began = time.perf_counter()
            one = partial(row, n=n, temperatures=temperatures, chains=asked.chains, steps=asked.steps)
            table = np.stack(list(pool.map(one, loads.tolist())))
            maps[n] = table[:, 0]
            spent = time.perf_counter() - began
            for load, found in zip(loads, table, strict=True):
                if round(1000 * load) % 50:
                    continue
                at = boundary(temperatures, found[0])
                place = int(np.argmin(np.abs(temperatures - at))) if at == at else -1
                spinodal = float(spherical.spinodal_temperature(load, 1.0))
                kept = f"{found[0][place]:.3f} ± {found[1][place]:.3f}"
                print(f"| {n} | {load:.2f} | {spinodal:.3f} | {at:.3f} | {kept} | {spent:.0f} |", flush=True)
            np.savez(asked.out / f"overlaps-{n}.npz", loads=loads, temperatures=temperatures, table=table)
    draw(loads, temperatures, maps, asked.out / "heatmap.png")


if __name__ == "__main__":
    main()
