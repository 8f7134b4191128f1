"""Perceptrons alone: a lower bound that no number of pieces passes, met exactly, and what training does about it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from sphereflow.claims import Check, Run
from sphereflow.claims.basis import Derived
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.test_measures import SHARED, SHARED_POINTS, A, B, C
from sphereflow.transport.learned.transformers import TrainedTransformer, train_transformer
from sphereflow.transport.sphere.bounds import perceptron_bound
from sphereflow.transport.sphere.inputs import measure
from sphereflow.transport.sphere.interpolation import interpolate

SHARED_MASS = Derived("(1.7): without attention all measures are moved by one map; the constant is worked out here")


def lower_bound() -> float:
    """Half the root of the shared mass, 1/2, times the angle between the two targets."""
    return float(np.sqrt(0.5) / 2 * np.arccos(SHARED_POINTS[0] @ SHARED_POINTS[1]))


def best_shared_image() -> float:
    """Minimum over the image p of the shared atom of max_i W2_i, all other atoms on target: by direct search."""
    y1, y2 = SHARED_POINTS

    def worst(p: np.ndarray) -> float:
        image = unit(p)
        return float(np.sqrt(max(angles(image, y1), angles(image, y2)) ** 2 / 2))

    return min(
        minimize(worst, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 2000}).fun
        for start in (y1 + y2, y1 + y2 + 0.3 * A, y1 + y2 - 0.3 * B)
    )


def perceptron_only() -> tuple[float, bool]:
    """max W2 of gates alone that carry A half-way between the targets, B and C to them; and that V is zero."""
    y1, y2 = SHARED_POINTS
    schedule = interpolate([A, B, C], [unit(y1 + y2), y1, y2]).schedule
    ends = schedule.apply(list(SHARED))
    errors = [measure(x, "end").distance(measure(y, "target")) for x, y in zip(ends, SHARED_POINTS, strict=True)]
    return max(errors), all(not weights["V"].any() for weights in schedule.matrices())


@PAPER.claim(
    "perceptron-lower-bound",
    says="Without attention the shared atom has one image for both measures, so one of them misses its target by at "
    "least half the root of the shared mass times the distance of the targets; gates alone reach this.",
    basis=SHARED_MASS,
    formula=r"\max_iW_2\ge\tfrac{\sqrt p}2\,d(y_1,y_2)\quad(p=\tfrac12)",
)
def perceptron_lower_bound(run: Run) -> Check:
    reached, without_attention = perceptron_only()
    bound = lower_bound()
    check = Check()
    check.row(
        "best image by direct search", predicted=bound, measured=best_shared_image(), tolerance=1e-7, because="1e-10"
    )
    check.row("gates alone", predicted=bound, measured=reached, tolerance=1e-7, because="the pieces are exact")
    package = perceptron_bound(SHARED, SHARED_POINTS)
    check.row("the package's bound", predicted=bound, measured=package, tolerance=1e-12, because="rounding")
    check.same("V = 0", predicted=1, measured=float(without_attention), because="a flag")
    names = [row.name for row in check.rows[:3]]
    chord = float(np.linalg.norm(SHARED_POINTS[0] - SHARED_POINTS[1]))
    check.rival("chordal distance", dict.fromkeys(names, np.sqrt(0.5) / 2 * chord))
    check.rival("the shared mass without its root", dict.fromkeys(names, bound * np.sqrt(0.5)))
    check.rival("the whole distance for one of the two", dict.fromkeys(names, 2 * bound))
    return check


@lru_cache(maxsize=16)
def trained(pieces: int, attention: bool, seed: int, steps: int = 300) -> TrainedTransformer:
    return train_transformer(SHARED, SHARED_POINTS, pieces, attention=attention, seed=seed, steps=steps)


@PAPER.claim(
    "training-stops-at-the-bound",
    says="Gradient descent on perceptron blocks ends at the lower bound and does not pass it; with attention the same "
    "training goes below a tenth of it.",
    basis=SHARED_MASS,
    formula=r"V=0:\ \max_iW_2\ge\tfrac{\sqrt p}2\,d(y_1,y_2)",
)
def training_stops_at_the_bound(run: Run) -> Check:
    cases = [(2, 0)] if run.quick else [(k, s) for k in (2, 4, 8) for s in (0, 1)]
    bound = lower_bound()
    check = Check()
    attended: dict[str, float] = {}
    for k, s in cases:
        label = f"{k} pieces, seed {s}"
        without, attention = trained(k, False, s), trained(k, True, s)
        steps = "six Runge-Kutta steps per piece"
        check.at_least(f"$V=0$, {label}", bound=bound, measured=without.w2.max(), tolerance=1e-4, because=steps)
        loss = float(np.sqrt(without.losses[-1]))
        check.row(f"$V=0$, root of the loss, {label}", predicted=bound, measured=loss, tolerance=1e-4, because=steps)
        row = f"attention, {label}"
        check.at_most(row, bound=bound / 10, measured=attention.w2.max(), tolerance=1e-4, because=steps)
        attended |= {
            f"$V=0$, {label}": float(attention.w2.max()),
            f"$V=0$, root of the loss, {label}": float(np.sqrt(attention.losses[-1])),
        }
    check.null("attention allowed", attended)
    check.rival(
        "the shared mass without its root", {r.name: bound * np.sqrt(0.5) for r in check.rows if "root" in r.name}
    )
    return check
