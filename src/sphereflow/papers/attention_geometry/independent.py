"""Independent values: the semi-analytic law of precision and recall, inversions, and bounds that say nothing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.llm.heads.envelopes import (
    equal_weights_recall,
    expected_inversions,
    expected_recall_precision,
    inversion_bound,
    precision_floor,
    recall_floor,
)
from sphereflow.llm.heads.geometry import Separation, separation
from sphereflow.llm.heads.synthetic import geometric, power_law, random_directions
from sphereflow.papers.attention_geometry import PAPER

LENGTH = 300
PROFILES = {"1/i": power_law(LENGTH), ".9^i": geometric(LENGTH)}
DIMENSIONS, SIZES = (16, 64, 128), (2, 4, 8, 16, 32)

# Values of the two formulas by quadratures of another kind (trapezoid and Stieltjes sums on graded grids).
_RECALL = {
    ("1/i", 128): (0.996967, 0.908826, 0.720935, 0.539126, 0.405405),
    (".9^i", 128): (0.999999, 0.995469, 0.922239, 0.757597, 0.627929),
    (".9^i", 16): (0.892494,),
}
_PRECISION = {
    ("1/i", 128): (0.995447, 0.764390, 0.201648, 0.056391, 0.106692),
    (".9^i", 128): (0.999999, 0.989906, 0.7126485, 0.1219334, 0.106682),
    (".9^i", 16): (0.868039,),
}


def simulated(profile: str, d: int, sizes: tuple[int, ...], draws: int, seed: int) -> Separation:
    """Metrics of heads with these weights and independent uniform directions."""
    rng = np.random.default_rng([seed, d, len(profile), draws])
    values = random_directions(rng, draws, LENGTH, d)
    return separation(np.tile(PROFILES[profile], (draws, 1)), values, sizes)


@lru_cache(maxsize=8)
def cells(quick: bool, seed: int) -> dict[tuple[str, int], tuple[tuple[int, ...], Separation]]:
    """The simulated cells of a preset: sizes and metrics by profile and dimension."""
    wanted: dict[tuple[str, int], tuple[int, ...]]
    if quick:
        wanted = {("1/i", 64): (4, 8), ("1/i", 128): (4, 32), (".9^i", 16): (2, 8)}
    else:
        wanted = {(profile, d): SIZES for profile in PROFILES for d in DIMENSIONS}
    return {key: (sizes, simulated(*key, sizes, 500, seed)) for key, sizes in wanted.items()}


@PAPER.claim(
    "semi-analytic-values",
    statement="The semi-analytic recall and precision have these values.",
    source="independent values (semi-analytic law)",
    formula=r"R_N\approx\frac1N\sum_{i\in S}E\prod_{j\notin S}\Pr(z_j>z_i),\quad "
    r"P_N\approx E\Big[\frac{N}{N+\sum_{j\notin S}\Pr(z_j\le M)}\Big]",
    falsifier="a wrong variance; Gauss-Hermite nodes miss the fourth digit",
)
def semi_analytic_values(run: Run) -> Measurement:
    predicted, measured, labels = [], [], []
    for key in _RECALL:
        sizes = SIZES[: len(_RECALL[key])]
        recall, precision = expected_recall_precision(PROFILES[key[0]], sizes, key[1])
        predicted += [*_RECALL[key], *_PRECISION[key]]
        measured += [*recall, *precision]
        labels += [f"{letter}, {key[0]}, d = {key[1]}, N = {n}" for letter in "RP" for n in sizes]
    return agreement(predicted, measured, absolute=5.1e-7, because="six digits of the reference", labels=tuple(labels))


@PAPER.claim(
    "semi-analytic-law",
    statement="With independent values, simulated recall and precision follow the semi-analytic law.",
    source="independent values (semi-analytic law)",
    falsifier="a deviation beyond the approximation; treating pairs as independent gives R = .50 for .87 simulated",
)
def semi_analytic_law(run: Run) -> Measurement:
    predicted, measured, tolerance, labels = [], [], [], []
    for (profile, d), (sizes, found) in cells(run.quick, run.seed).items():
        recall, precision = expected_recall_precision(PROFILES[profile], sizes, d)
        for k, n in enumerate(sizes):
            crude = n == 2 or d == 16
            predicted += [recall[k], precision[k]]
            measured += [found.recall[:, k].mean(), found.precision[:, k].mean()]
            tolerance += [0.06, 0.10] if crude else [0.03, 0.07]
            labels += [f"{letter}, {profile}, d = {d}, N = {n}" for letter in "RP"]
    return agreement(
        predicted,
        measured,
        absolute=np.array(tolerance),
        labels=tuple(labels),
        parameters={"draws": 500, "L": LENGTH},
        because="error of the normal approximation (largest at N = 2, d = 16) plus three standard errors of 500 draws",
    )


@PAPER.claim(
    "inversions",
    statement="The expected number of inversions has these values, and simulations agree for N of at least 4.",
    source="independent values (pair inversions)",
    formula=r"E\,GInv\approx\sum_{ij}\bar\Phi\Big(\frac{\sqrt d(\alpha_i^2+\alpha_j^2)}"
    r"{2\sqrt{\alpha_i^2(A-\alpha_i^2)+\alpha_j^2A}}\Big)",
    falsifier="a wrong variance of the projections",
)
def inversions(run: Run) -> Measurement:
    formula = [
        expected_inversions(PROFILES[p], n, d) for p, d, n in (("1/i", 16, 4), ("1/i", 128, 32), (".9^i", 16, 2))
    ]
    predicted, measured, tolerance = [234.376, 2885.317, 14.531], list(formula), [5.1e-4] * 3
    labels = ["formula, 1/i, d = 16, N = 4", "formula, 1/i, d = 128, N = 32", "formula, .9^i, d = 16, N = 2"]
    for (profile, d), (sizes, found) in cells(run.quick, run.seed).items():
        for k, n in enumerate(sizes):
            if n < 4 or profile != "1/i":
                continue
            draws = found.inversions[:, k]
            predicted.append(expected_inversions(PROFILES[profile], n, d))
            measured.append(draws.mean())
            tolerance.append(4 * draws.std(ddof=1) / np.sqrt(len(draws)))
            labels.append(f"simulated, {profile}, d = {d}, N = {n}")
    return agreement(
        predicted,
        measured,
        absolute=np.array(tolerance),
        labels=tuple(labels),
        because="digits of the reference values; four standard errors of the simulations",
        note="At N = 2 the formula is too large: inversions are rare and heavy-tailed there.",
    )


@PAPER.claim(
    "vacuous-bounds",
    statement="The exponential bound on inversions, turned into lower bounds on recall and precision, says nothing at "
    "realistic sizes: the bound on recall is 0 in 28 of 30 cells.",
    source="bounds with explicit dimension and margin",
    formula=r"\Pr(D_j\le D_i)\le\exp\Big(-\frac{d\,r^2(\alpha_i^2+\alpha_j^2)^2}"
    r"{8(\alpha_i^2\|s_{-i}\|^2+\alpha_j^2\|s\|^2)}\Big)",
    falsifier="bounds that are close to the simulated curves",
)
def vacuous_bounds(run: Run) -> Measurement:
    recalls, precisions = {}, []
    for profile, weights in PROFILES.items():
        for d in DIMENSIONS:
            for n in SIZES:
                bound = inversion_bound(weights, n, d)
                recalls[profile, d, n] = recall_floor(bound, n)
                precisions.append(precision_floor(bound, n))
    empty = sum(value == 0 for value in recalls.values())
    low = sum(value < 0.28 for value in precisions)
    return agreement(
        [28, 28, 0.77, 1.00],
        [empty, low, recalls[".9^i", 64, 2], recalls[".9^i", 128, 2]],
        absolute=[0, 0, 0.005, 0.005],
        because="counts; two digits of the reference",
        labels=(
            "cells with bound 0 on R",
            "cells with bound below .28 on P",
            "R, .9^i, d = 64, N = 2",
            "R, .9^i, d = 128, N = 2",
        ),
        note="Draw them as bounds; they predict nothing.",
    )


@PAPER.claim(
    "equal-weights",
    statement="N tokens of equal weight among negligible others: recall is Phi(sqrt(d/4(N-1))), and precision "
    "is its N-th power until the floor N/L.",
    source="small-N regime",
    formula=r"R_N\approx\varphi_N=\Phi\Big(\sqrt{\tfrac{d}{4(N-1)}}\Big),\quad P_N\approx\varphi_N^N",
    falsifier="a recall outside its error bar",
)
def equal_weights(run: Run) -> Measurement:
    draws = 150 if run.quick else 1000
    rng = np.random.default_rng(run.seed + 7)
    predicted, measured, tolerance, labels = [], [], [], []
    for d, n in ((64, 4), (64, 8), (128, 8), (128, 16), (128, 32)):
        weights = np.full(LENGTH, 1e-9)
        weights[:n] = 1 / n
        found = separation(np.tile(weights, (draws, 1)), random_directions(rng, draws, LENGTH, d), (n,))
        phi = equal_weights_recall(n, d)
        predicted.append(phi)
        measured.append(found.recall.mean())
        tolerance.append(0.01 + 4 * found.recall.std(ddof=1) / np.sqrt(draws))
        labels.append(f"R, d = {d}, N = {n}")
        if phi**n > 0.5:
            predicted.append(phi**n)
            measured.append(found.precision.mean())
            tolerance.append(0.03 + 4 * found.precision.std(ddof=1) / np.sqrt(draws))
            labels.append(f"P, d = {d}, N = {n}")
    return agreement(
        predicted,
        measured,
        absolute=np.array(tolerance),
        labels=tuple(labels),
        parameters={"draws": draws},
        because="normal approximation of projections in dimension d (.01, for P .03) plus four standard errors",
    )
