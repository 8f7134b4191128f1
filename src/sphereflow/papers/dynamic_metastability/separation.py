"""Which random starts are separated: fewer and fewer on the circle, all of them in high dimension."""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.metastability import certify, circle_separated
from sphereflow.papers.dynamic_metastability.paper import PAPER

SIZES = (2, 3, 4, 5, 6, 8)
EPSILON = 0.01
FRACTIONS = {50: (0.84, 0.57, 0.31, 0.14, 0.06, 0.01), 200: (0.90, 0.74, 0.49, 0.31, 0.17, 0.04)}


def fraction(n: int, beta: float, draws: int, seed: int) -> float:
    """Fraction of uniform starts on the circle that are separated at epsilon = .01."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, size=(draws, n))
    return float(circle_separated(angles, beta, EPSILON).mean())


@PAPER.claim(
    "circle-fractions",
    statement="On the circle the fraction of separated uniform starts falls geometrically with the number of tokens.",
    source="proposition on random starts, dimension 2",
    falsifier="caps placed greedily, which misses separated starts",
)
def circle_fractions(run: Run) -> Measurement:
    draws = 2000 if run.quick else 100_000
    measured = [fraction(n, beta, draws, run.seed + n) for beta in FRACTIONS for n in SIZES]
    predicted = np.concatenate(list(FRACTIONS.values()))
    # Four standard deviations of this sample and of the 4000 draws behind the prediction, and its two digits.
    spread = 4 * np.sqrt(predicted * (1 - predicted) * (1 / draws + 1 / 4000)) + 0.005
    return agreement(
        predicted,
        measured,
        absolute=spread,
        because="four standard deviations and two digits",
        labels=tuple(f"beta={b} n={n}" for b in FRACTIONS for n in SIZES),
        parameters={"draws": draws, "epsilon": EPSILON},
    )


@PAPER.claim(
    "high-dimension",
    statement="In dimension 20 to 2000 five uniform tokens are always separated, each in its own cap.",
    source="proposition on random starts, high dimension",
    falsifier="a draw without certificate",
)
def high_dimension(run: Run) -> Measurement:
    draws = 12 if run.quick else 200
    rng = np.random.default_rng(run.seed)
    fractions = []
    for d in (20, 200, 2000):
        good = 0
        for _ in range(draws):
            x = rng.normal(size=(5, d))
            found = certify(x / np.linalg.norm(x, axis=1, keepdims=True), 50.0)
            good += found.separated and len(found.centres) == 5
        fractions.append(good / draws)
    return at_least(
        [1.0] * 3,
        fractions,
        because="every draw counts",
        labels=("d=20", "d=200", "d=2000"),
        parameters={"n": 5, "beta": 50, "draws": draws},
    )


@PAPER.claim(
    "high-dimension-condition",
    statement="At d = 2000, n = 5, beta = 50 the sufficient condition of the proposition holds.",
    source="proposition on random starts, high dimension",
    formula=r"4\sqrt{\frac{4\log d}{d}}+\frac{48\log d}{d}+\frac1\beta\log\frac{n^2d}{2\log d}<1",
    falsifier="a left side of 1 or more",
)
def high_dimension_condition(run: Run) -> Measurement:
    d, n, beta = 2000, 5, 50
    small = math.log(d) / d
    left = 4 * math.sqrt(4 * small) + 48 * small + math.log(n**2 / (2 * small)) / beta
    inside = at_most(1.0, left, because="a condition")
    assert inside.verdict == "holds"
    return agreement(0.838, left, absolute=5e-4, because="three printed digits")
