r"""Heat maps of the size in which they are published: overlaps kept by runs of 10^5 moves, and where they are lost.

    python benchmarks/memory_heatmap.py --out FOLDER [--sizes 100 300 10000] [--loads 46] [--temperatures 50]
        [--chains 64] [--steps 100000] [--workers 16]

Gaussian kernel, beta = 1, loads 0.20 to 0.65 and temperatures 0.005 to 0.495, all other patterns by their noise floor
on the sphere: the overlap is then a Markov chain of its own at any N. Chains start at the retrieval overlap, the second
half of their moves is averaged, and the boundary of a load is the lowest temperature at which the mean overlap is 0.02
below the retrieval overlap. It is a boundary of runs of this length. Beside it stand two lines that no chain drew:
where runs without end lose the pattern, by quadrature of $p\propto(1-\phi^2)^{(N-3)/2}e^{-Nh/T}$, and the spinodal,
where the barrier ends. The grid is a sweep: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import sphereflow as sf
from sphereflow.memory import lse_overlap, spherical
from sphereflow.memory.chains import bulk_metropolis
from sphereflow.memory.escape import potential

LOST = 0.02
COLDEST, HOTTEST = 0.005, 0.495


def row(n: int, load: float, temperatures: int, chains: int, steps: int) -> dict[str, np.ndarray | float]:
    """Mean overlap and its standard error at every temperature, and what they cost."""
    began = time.process_time()
    bath = np.linspace(COLDEST, HOTTEST, temperatures)
    noise = np.full(temperatures, float(spherical.noise_overlap(load, 1.0)))
    overlap = bulk_metropolis(n, 1.0, bath, noise, chains, steps, steps // 2, round(1000 * load)).overlap
    error = overlap.std(axis=1, ddof=1) / np.sqrt(chains)
    return {"overlap": overlap.mean(axis=1), "error": error, "seconds": time.process_time() - began}


def equilibrium(n: int, load: float, temperatures: np.ndarray) -> np.ndarray:
    """Mean overlap of a run without end, by quadrature over the angle to the target."""
    angle = np.linspace(0, np.pi, 40_002)[1:-1]
    phi = np.cos(angle)
    energy = potential(phi, n, 1.0, float(spherical.noise_overlap(load, 1.0)))
    found = []
    for t in temperatures:
        log_p = (n - 2) * np.log(np.sin(angle)) - n * energy / t
        p = np.exp(log_p - log_p.max())
        found.append(p @ phi / p.sum())
    return np.array(found)


def boundary(temperatures: np.ndarray, overlap: np.ndarray) -> float:
    """The lowest temperature at which the overlap is lost; not a number if none."""
    lost = np.flatnonzero(lse_overlap(temperatures) - overlap > LOST)
    return float(temperatures[lost[0]]) if len(lost) else np.nan


def draw(loads: np.ndarray, temperatures: np.ndarray, maps: dict[int, np.ndarray], path: Path) -> None:
    from sphereflow.pictures import blank, look

    fine = np.linspace(COLDEST, HOTTEST, 99)
    with look():
        figure = blank(4.2 * len(maps), 3.9)
        panels = np.atleast_1d(figure.subplots(1, len(maps), sharey=True))
        for axes, (n, overlap) in zip(panels, maps.items(), strict=True):
            shown = axes.pcolormesh(loads, temperatures, overlap.T, vmin=0, vmax=1, shading="nearest")
            axes.plot(loads, spherical.spinodal_temperature(loads, 1.0), color="white", label="spinodal")
            endless = [boundary(fine, equilibrium(n, a, fine)) for a in loads]
            axes.plot(loads, endless, color="white", ls="--", label="lost in a run without end")
            axes.plot(loads, [boundary(temperatures, each) for each in overlap], "w.", label="lost in this run")
            axes.set(title=f"$N={n}$", xlabel=r"load $\alpha$", ylim=(0, temperatures[-1]))
        panels[0].set_ylabel("temperature")
        panels[0].legend(loc="lower left", labelcolor="white", frameon=True, facecolor="0.25", framealpha=0.8)
        figure.colorbar(shown, ax=list(panels), label="mean overlap")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 10_000])
    for name, value in {"loads": 46, "temperatures": 50, "chains": 64, "steps": 100_000, "workers": None}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--between", type=float, nargs=2, default=(0.20, 0.65), help="the smallest and largest load")
    asked = parser.parse_args()
    loads = np.round(np.linspace(*asked.between, asked.loads), 4)
    temperatures = np.linspace(COLDEST, HOTTEST, asked.temperatures)
    fixed = {"temperatures": asked.temperatures, "chains": asked.chains, "steps": asked.steps}
    asked.out.mkdir(parents=True, exist_ok=True)
    maps = {}
    print("| N | load | spinodal | lost in a run without end | lost in this run | mean overlap there | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for n in asked.sizes:
        grid = {"n": [n], "load": loads.tolist()}
        found = sf.sweep(row, grid, fixed=fixed, out=asked.out / f"map-{n}.zarr", workers=asked.workers).dataset
        overlap, error = (found[name].to_numpy()[0] for name in ("overlap", "error"))
        maps[n] = overlap
        spent = float(found["seconds"].sum())
        for load, mean, spread in zip(loads, overlap, error, strict=True):
            if round(1000 * load) % 50:
                continue
            at = boundary(temperatures, mean)
            place = int(np.argmin(np.abs(temperatures - at))) if at == at else -1
            endless = boundary(temperatures, equilibrium(n, load, temperatures))
            spinodal = float(spherical.spinodal_temperature(load, 1.0))
            kept = f"{mean[place]:.3f} ± {spread[place]:.3f}"
            print(
                f"| {n} | {load:.2f} | {spinodal:.3f} | {endless:.3f} | {at:.3f} | {kept} | {spent:.0f} |", flush=True
            )
    draw(loads, temperatures, maps, asked.out / "heatmap.png")


if __name__ == "__main__":
    main()
