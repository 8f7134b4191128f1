"""Translate between two classes of real images: drifting with and without friction against two baselines.

Run: python benchmarks/drifting.py [--seeds 3] [--budgets 50,150,500] [--out FOLDER]
Fashion-MNIST (sandals to ankle boots) if the Debian package dataset-fashion-mnist is installed, else the digits of
scikit-learn (3 to 8). Prints a table of quality against compute and the compute to equal quality; with --out also
quality.png, images.png and table.csv.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from sphereflow.drifting import Friction, TwoSidedField
from sphereflow.drifting.latents import Projection, principal_components, read_idx
from sphereflow.drifting.metrics import frechet, mmd
from sphereflow.drifting.pictures import before_and_after, quality
from sphereflow.drifting.training import Recipe
from sphereflow.drifting.translation import (
    METHODS,
    RATES,
    Point,
    compute_to_reach,
    median_width,
    quality_against_compute,
    split,
    translator,
)
from sphereflow.pictures import rendered

FASHION = Path("/usr/share/datasets/fashion-mnist")


def images(largest: int) -> tuple[str, np.ndarray, np.ndarray, int]:
    """Name, rows of two domains, and how many principal components to work in."""
    if (FASHION / "train-images-idx3-ubyte.gz").exists():
        pictures = read_idx(FASHION / "train-images-idx3-ubyte.gz")
        labels = read_idx(FASHION / "train-labels-idx1-ubyte.gz")
        rows = pictures.reshape(len(pictures), -1) / 255.0
        return "Fashion-MNIST, sandal to ankle boot", rows[labels == 5][:largest], rows[labels == 9][:largest], 32
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = digits.data / 16.0
    return "scikit-learn digits, 3 to 8", rows[digits.target == 3], rows[digits.target == 8], 16


def table(points: list[Point]) -> None:
    print(f"\n{'method':<15} {'steps':>6} {'passes':>9} {'mult-adds':>10} {'seconds':>8} {'Frechet':>16} "
          f"{'MMD^2':>17} {'cost':>7}")  # fmt: skip
    for method in dict.fromkeys(p.method for p in points):
        for steps in sorted({p.steps for p in points if p.method == method}):
            mine = [p for p in points if (p.method, p.steps) == (method, steps)]
            print(f"{method:<15} {steps:>6} {np.mean([p.passes for p in mine]):9.3g} "
                  f"{np.mean([p.operations for p in mine]):10.3g} {np.mean([p.seconds for p in mine]):8.2f} "
                  f"{_bar([p.frechet for p in mine], 3)} {_bar([p.mmd for p in mine], 4)} "
                  f"{np.mean([p.cost for p in mine]):7.2f}")  # fmt: skip
            if method == "affine":
                break


def equal_quality(points: list[Point]) -> None:
    """Compute that each method needs to reach what drifting, and what flow matching, ends with."""
    for reference in ("drift", "ofm"):
        mine = [p for p in points if p.method == reference]
        level = max(min(p.frechet for p in mine if p.seed == seed) for seed in {p.seed for p in mine})
        print(f"\ncompute to Frechet distance {level:.3f} (where {reference} ends), median over seeds")
        for method in dict.fromkeys(p.method for p in points):
            spent = {
                name: compute_to_reach(points, method, level, name) for name in ("passes", "operations", "seconds")
            }
            if np.isfinite(spent["passes"]).all():
                print(f"  {method:<15} " + "  ".join(f"{name} {np.median(v):.3g}" for name, v in spent.items()))
            else:
                print(
                    f"  {method:<15} not reached by {np.isinf(spent['passes']).sum()} of {len(spent['passes'])} seeds"
                )


def _bar(values: list[float], digits: int) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):8.{digits}f} ± {error:.{digits}f}"


def shown(projection: Projection, x: np.ndarray, y: np.ndarray, steps: int, batch: int) -> list[np.ndarray]:
    """Held-out images of the first domain before and after translation with friction."""
    learn_x, test_x = split(x)
    learn_y, _ = split(y)
    recipe = Recipe(steps=steps, batch=batch, rate=RATES["drift"], decay=0.99, friction=Friction("gain", 0, 1, steps))
    model, _ = translator(learn_x, learn_y, recipe, TwoSidedField(median_width(learn_y)))
    moved = np.asarray(model(jnp.asarray(test_x[:10])), float)
    return [projection.decode(test_x[:10]), projection.decode(moved)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="50,150,500")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--largest", type=int, default=6000, help="images of each class")
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    name, first, second, dimension = images(asked.largest)
    projection = principal_components(np.concatenate([first, second]), dimension)
    x, y = projection.encode(first), projection.encode(second)
    (_, test_x), (learn_y, test_y) = split(x), split(y)
    again = learn_y[: len(test_y)]
    print(f"{name}: {len(x)} and {len(y)} images, {dimension} principal components")
    print(f"untranslated: Frechet {frechet(test_x, test_y):.3f}, MMD^2 {mmd(test_x, test_y):.4f}; "
          f"two samples of the target: {frechet(again, test_y):.3f}, {mmd(again, test_y):.4f}")  # fmt: skip
    budgets = tuple(int(part) for part in asked.budgets.split(","))
    points = quality_against_compute(
        x, y, methods=METHODS, budgets=budgets, seeds=range(asked.seeds), batch=asked.batch, hidden=asked.hidden,
        epsilon=asked.epsilon,
    )  # fmt: skip
    table(points)
    equal_quality(points)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "quality.png").write_bytes(rendered(quality(points), "png"))
        rows = shown(projection, x, y, max(budgets), asked.batch)
        (asked.out / "images.png").write_bytes(rendered(before_and_after(*rows), "png"))
        names = list(points[0].row())
        lines = [",".join(names), *(",".join(str(p.row()[n]) for n in names) for p in points)]
        (asked.out / "table.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
