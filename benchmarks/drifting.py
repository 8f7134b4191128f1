"""Translate between two classes of real images: drifting with and without friction against two baselines.

Run: python benchmarks/drifting.py [--seeds 3] [--budgets 50,150,500] [--images FOLDER] [--components 32] [--out FOLDER]
     python benchmarks/drifting.py --plane --seeds 5
     python benchmarks/drifting.py --mixtures 2 8 --seeds 10 --out FOLDER
Fashion-MNIST (sandals to ankle boots) if the Debian package dataset-fashion-mnist is installed, else the digits of
scikit-learn (3 to 8). Prints a table of quality against compute, the compute to equal quality and, at 0.95 of what the
untrained affine map has, ratios of compute with intervals over seeds; with --out also quality.png, images.png and
table.csv. --images is the folder of the idx files of Fashion-MNIST, --components 0 means the pixels themselves.
With --mixtures the compute to equal quality between the two mixtures of the claim `compute-to-equal-quality`, in the
given dimensions; FOLDER/compute.csv is what that claim reads.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sphereflow.drifting import compute_ratios
from sphereflow.drifting.domains import FASHION, two_domains
from sphereflow.drifting.latents import principal_components
from sphereflow.drifting.pictures import NAMES, before_and_after, quality
from sphereflow.drifting.ratios import QUALITIES
from sphereflow.drifting.translation import METHODS, Point, Quality, quality_against_compute, split
from sphereflow.observables import frechet, mmd
from sphereflow.papers.drifting_with_friction.compute import COLUMNS, trained
from sphereflow.pictures import rendered

BETTER = 0.95  # of the affine map's distance: the level at which compute is compared


def table(points: list[Point]) -> None:
    print(
        f"\n{'method':<15} {'steps':>6} {'passes':>9} {'mult-adds':>10} {'seconds':>8} {'Frechet':>16} "
        f"{'MMD^2':>17} {'cost':>7}"
    )
    for method in dict.fromkeys(p.method for p in points):
        for steps in sorted({p.steps for p in points if p.method == method}):
            mine = [p for p in points if (p.method, p.steps) == (method, steps)]
            print(
                f"{method:<15} {steps:>6} {np.mean([p.passes for p in mine]):9.3g} "
                f"{np.mean([p.operations for p in mine]):10.3g} {np.mean([p.seconds for p in mine]):8.2f} "
                f"{_bar([p.frechet for p in mine], 3)} {_bar([p.mmd for p in mine], 4)} "
                f"{np.mean([p.cost for p in mine]):7.2f}"
            )
            if method == "affine":
                break


def equal_quality(points: list[Point]) -> None:
    """Compute that each method needs to reach what drifting, and what flow matching, ends with."""
    for reference in ("drift", "ofm"):
        mine = [p for p in points if p.method == reference]
        level = max(min(p.frechet for p in mine if p.seed == seed) for seed in {p.seed for p in mine})
        print(f"\ncompute to Frechet distance {level:.3f} (where {reference} ends), median over seeds")
        for method in dict.fromkeys(p.method for p in points):
            measures = ("passes", "operations", "seconds")
            spent = {name: Quality(points).compute_to_reach(method, level, name) for name in measures}
            if np.isfinite(spent["passes"]).all():
                print(f"  {method:<15} " + "  ".join(f"{name} {np.median(v):.3g}" for name, v in spent.items()))
            else:
                print(
                    f"  {method:<15} not reached by {np.isinf(spent['passes']).sum()} of {len(spent['passes'])} seeds"
                )


def ratios(found: Quality) -> None:
    """Compute of the other methods over that of drifting with friction, where both are better than the affine map."""
    for measured in QUALITIES:
        floor = float(np.mean([getattr(p, measured) for p in found.points if p.method == "affine"]))
        print(f"\n{measured}: the affine map has {floor:.4g}")
        for other in found.methods:
            if other not in ("affine", "drift-friction"):
                one = compute_ratios(found, "drift-friction", other, levels=[BETTER * floor], measured=measured)
                reached = f"; {one.reached[0, 0]} and {one.reached[1, 0]} of {one.seeds} seeds get there"
                print("  " + "; ".join(one.facts()) + reached)


def _bar(values: list[float], digits: int) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):8.{digits}f} ± {error:.{digits}f}"


def plane(seeds: int) -> None:
    """`sphereflow drift train` at its defaults: distance to held-out samples beside chance and a Gaussian."""
    print(f"{'law':<13} {'seed':>4} {'energy distance':>16} {'chance':>10} {'Gaussian':>9} {'wall s':>7} {'cpu s':>6}")
    for law in ("swiss-roll", "checkerboard"):
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                words = [sys.executable, "-m", "sphereflow", "drift", "train", law, "--seed", str(seed)]
                before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                told = subprocess.run([*words, "--out", f"{folder}/m.npz"], check=True, capture_output=True, text=True)
                wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            chance, gaussian = re.findall(r"0 ± ([\d.]+); of a Gaussian: ([\d.]+)", told.stdout)[0]
            energy = told.stdout.splitlines()[-2].split()[1]
            print(f"{law:<13} {seed:>4} {energy:>16} {'± ' + chance:>10} {gaussian:>9} {wall:7.1f} {used:6.1f}")


def write(path: Path, points: list[Point], names: list[str]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(names)
        rows.writerows(
            [f"{value:.6g}" if isinstance(value, float) else value for value in map(point.__getattribute__, names)]
            for point in points
        )


def mixtures(dimensions: list[int], seeds: int, out: Path | None) -> None:
    """Compute to equal quality between mixtures of four Gaussians, every seed with samples of its own."""
    kept: list[list[object]] = []
    for d in dimensions:
        parts = [trained(d, seed) for seed in range(seeds)]
        points = [point for part in parts for point in part.points]
        joined = Quality(points, float(np.mean([part.affine_error for part in parts])))
        print(f"\nd = {d}; {joined.affine_error:.3g} is the standard error of the affine map")
        for other in ("drift", "drift-schedule", "drift-effective", "lightsb", "ofm"):
            print(compute_ratios(joined, "drift-friction", other).summary())
        kept += [
            [d, p.method, p.seed, p.steps, f"{p.passes:.6g}", f"{p.operations:.6g}", f"{p.sliced:.6g}"] for p in points
        ]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "compute.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *kept])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="50,150,500")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--largest", type=int, default=6000, help="images of each class")
    parser.add_argument("--images", type=Path, default=FASHION, help="folder of the idx files of Fashion-MNIST")
    parser.add_argument("--components", type=int, help="principal components to work in; 0: all pixels")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, metavar="METHOD")
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plane", action="store_true", help="the swiss roll and the checkerboard instead")
    parser.add_argument("--mixtures", type=int, nargs="+", metavar="D", help="two mixtures in these dimensions instead")
    asked = parser.parse_args()
    if asked.mixtures:
        mixtures(asked.mixtures, asked.seeds, asked.out)
        return
    if asked.plane:
        plane(asked.seeds)
        return
    name, first, second, dimension = two_domains(asked.largest, asked.images)
    if asked.components is not None:
        dimension = asked.components or first.shape[1]
    projection = principal_components(np.concatenate([first, second]), dimension)
    x, y = projection.encode(first), projection.encode(second)
    (_, test_x), (learn_y, test_y) = split(x), split(y)
    again = learn_y[: len(test_y)]
    print(f"{name}: {len(x)} and {len(y)} images, {dimension} principal components")
    print(
        f"untranslated: Frechet {frechet(test_x, test_y):.3f}, MMD^2 {mmd(test_x, test_y):.4f}; "
        f"two samples of the target: {frechet(again, test_y):.3f}, {mmd(again, test_y):.4f}"
    )
    budgets = tuple(int(part) for part in asked.budgets.split(","))
    rows = {"before": split(first)[1][:10]}

    def show(point: Point, moved: np.ndarray) -> None:
        if point.steps == max(budgets) and point.seed == 0:
            rows[NAMES[point.method]] = projection.decode(moved[:10])

    points = quality_against_compute(
        x,
        y,
        methods=asked.methods,
        budgets=budgets,
        seeds=range(asked.seeds),
        batch=asked.batch,
        hidden=asked.hidden,
        epsilon=asked.epsilon,
        show=show,
    )
    found = points.points
    table(found)
    equal_quality(found)
    ratios(points)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "quality.png").write_bytes(rendered(quality(found), "png"))
        (asked.out / "images.png").write_bytes(rendered(before_and_after(rows, name), "png"))
        write(asked.out / "table.csv", found, [each.name for each in dataclasses.fields(Point)])


if __name__ == "__main__":
    main()
