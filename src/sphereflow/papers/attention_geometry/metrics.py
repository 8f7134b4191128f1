"""The metrics themselves: a worked example, a brute-force count, the bounds by inversions, the singleton."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.llm.heads.geometry import random_control, separation
from sphereflow.papers.attention_geometry import PAPER


@PAPER.claim(
    "worked-example",
    statement="Four tokens in the plane, two selected: P = 2/3, R = 1/2, F = 4/7, one inversion, margin -0.1192.",
    source="definition of the metrics",
    formula=r"D^2=(0.09,\,0.25,\,0.145,\,0.3925),\quad\gamma_2=\sqrt{0.145}-0.5",
    falsifier="a renormalised sum (margin -0.1039), or strict and non-strict comparisons exchanged",
)
def worked_example(run: Run) -> Measurement:
    found = separation(np.array([0.5, 0.3, 0.15, 0.05]), np.array([[1.0, 0], [0, 1], [1, 1], [-1, 0]]), (2,))
    measured = [float(a[0]) for a in (found.precision, found.recall, found.f, found.inversions, found.margin)]
    return agreement(
        [2 / 3, 1 / 2, 4 / 7, 1.0, np.sqrt(0.145) - 0.5],
        measured,
        absolute=1e-12,
        because="arithmetic by hand; rounding of double precision",
        labels=("P", "R", "F", "inversions", "margin"),
    )


@PAPER.claim(
    "brute-force",
    statement="The fast computation agrees with counting every pair one by one, ties included.",
    source="definition of the metrics",
    formula=r"P_N=\frac{N}{N+|\{j\notin S:D_j\le\rho_{max}\}|},\quad R_N=\frac{|\{i\in S:D_i<\rho_{min}\}|}{N}",
    falsifier="ties broken by the larger index, or < where <= is due",
)
def brute_force(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    heads = 100 if run.quick else 1000
    worst = np.zeros(4)
    for _ in range(heads):
        weights, values = tied_head(rng)
        size = int(rng.integers(1, len(weights) - 1))
        found = separation(weights, values, (size,))
        fast = np.array([found.precision[0], found.recall[0], found.f[0], found.inversions[0]])
        worst = np.maximum(worst, np.abs(fast - counted(weights, values, size)))
    return agreement(
        np.zeros(4),
        worst,
        absolute=0.0,
        because="small integers: every number is exact, ties are real ties",
        labels=("P", "R", "F", "inversions"),
        parameters={"heads": heads},
    )


@PAPER.claim(
    "inversion-bounds",
    statement="Inversions bound precision and recall from below; the margin is positive exactly when there are none, "
    "which is exactly when P = R = F = 1.",
    source="bounds by inversions",
    formula=r"P_N\ge\frac{N}{N+GInv},\quad R_N\ge\max\Big(0,1-\frac{GInv}{N}\Big),\quad"
    r"\gamma_N>0\iff GInv=0\iff P=R=F=1",
    falsifier="one head that violates an inequality",
)
def inversion_bounds(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 1)
    heads = 2000 if run.quick else 10_000
    chosen = (1, 2, 3, 5, 8)
    sizes = np.array(chosen)
    weights = rng.integers(1, 8, (heads, 12)).astype(float)
    values = rng.integers(-2, 3, (heads, 12, 3)).astype(float)
    found = separation(weights, values, chosen)
    precision_gap = np.max(sizes / (sizes + found.inversions) - found.precision)
    recall_gap = np.max(np.maximum(0, 1 - found.inversions / sizes) - found.recall)
    clean = found.inversions == 0
    perfect = (found.precision == 1) & (found.recall == 1) & (found.f == 1)
    mismatches = np.sum(clean != (found.margin > 0)) + np.sum(clean != perfect)
    return at_most(
        np.zeros(3),
        [precision_gap, recall_gap, float(mismatches)],
        slack=1e-12,
        because="theorems; the bounds can be attained, so rounding of a quotient is allowed",
        labels=("violation of the bound on P", "violation of the bound on R", "heads where the three signs differ"),
        note=f"{np.mean(clean):.0%} of the cases have no inversion.",
        parameters={"heads": heads},
    )


@PAPER.claim(
    "singleton",
    statement="A single selected token has F = 1 in the Euclidean distance whatever is selected: N = 1 says nothing.",
    source="remark on N = 1",
    falsifier="F below 1 for a random selection of one token",
)
def singleton(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 2)
    weights, values = rng.random((50, 40)), rng.standard_normal((50, 40, 5))
    control = random_control(weights, values, (1,), seed=run.seed)
    return agreement(
        1.0, float(control.f.min()), absolute=0.0, because="the sum is the token itself: its distance is 0"
    )


def tied_head(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A head of small integers with repeated weights and repeated vectors: all arithmetic is exact."""
    length = int(rng.integers(4, 16))
    values = rng.integers(-2, 3, (length, 3)).astype(float)
    copies = rng.integers(0, length, length // 2)
    values[copies] = values[0]
    return rng.integers(0, 4, length).astype(float), values


def counted(weights: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """(P, R, F, inversions) by counting squared distances in plain loops."""
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    inside, outside = order[:size], order[size:]
    points = [[w * x for x in v] for w, v in zip(weights, values, strict=True)]
    total = [sum(points[i][k] for i in inside) for k in range(len(values[0]))]
    away = [sum((a - b) ** 2 for a, b in zip(p, total, strict=True)) for p in points]
    far, near = max(away[i] for i in inside), min(away[j] for j in outside)
    precision = size / (size + sum(away[j] <= far for j in outside))
    recall = sum(away[i] < near for i in inside) / size
    inversions = sum(away[j] <= away[i] for i in inside for j in outside)
    return np.array([precision, recall, 2 * precision * recall / (precision + recall), inversions])
