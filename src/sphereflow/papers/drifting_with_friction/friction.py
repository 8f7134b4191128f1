r"""Friction over a finite horizon: as a gain $a_t\le\max(a_0,\tau\ln2+0.1087\eta\tau)$, and two more readings."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.drifting import Friction, surrogate_field
from sphereflow.drifting.friction import gain_bound, gain_movement_bound
from sphereflow.papers.drifting_with_friction import PAPER


def draws(run: Run) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Horizons and starts of random runs, all advanced together."""
    rng = np.random.default_rng(run.seed)
    count = 2000 if run.quick else 10_000
    return rng.integers(2, 301, count), rng.uniform(0, 6, count), rng


@PAPER.claim(
    "gain-bound",
    statement="With friction as a gain the distance never exceeds the larger of its start and tau ln 2 plus one "
    "outward step, and the total movement is at most half of the bound without friction.",
    source="Finite horizon, friction on the amplitude of the drift",
    formula=r"a_t\le\max(a_0,\tau\ln2+0.108678\,\eta\tau)",
    falsifier="one violation",
)
def finite_gain(run: Run) -> Measurement:
    horizon, a0, rng = draws(run)
    step = rng.uniform(0, 8, len(a0))
    a, moved, worst = a0.copy(), np.zeros_like(a0), np.zeros_like(a0)
    for t in range(300):
        live = t < horizon
        change = np.where(live, step * (1 - t / horizon) * surrogate_field(a), 0.0)
        a, moved = a + change, moved + np.abs(change)
        worst = np.maximum(worst, a / gain_bound(a0, step))
    return at_most(
        [1.0, 1.0, 0.0],
        [worst.max(), np.max(moved / gain_movement_bound(step, horizon)), -a.min()],
        slack=1e-9,
        because="1e-9 relative, rounding",
        labels=("distance over its bound", "movement over its bound", "below zero"),
        parameters={"draws": len(a0)},
    )


@PAPER.claim(
    "restoring-bound",
    statement="With friction as a restoring force the distance is bounded by a product that decays once friction is "
    "above 2.",
    source="Finite horizon, restoring friction",
    formula=r"|a_t|\le a_0\prod_{s<t}(1+\eta(1-\lambda_s))",
    falsifier="one violation, or the field not extended oddly",
)
def finite_restoring(run: Run) -> Measurement:
    horizon, a0, rng = draws(run)
    end = rng.uniform(0, 4, len(a0))
    step = rng.uniform(0, 1, len(a0)) * np.minimum(8, 1 / np.maximum(end, 1e-3))
    a, bound, worst, low = a0.copy(), a0.copy(), np.zeros_like(a0), 0.0
    strong = step * (end + 0.125) <= 1
    for t in range(300):
        live, level = t < horizon, end * t / horizon
        a = np.where(live, a + step * (surrogate_field(a) - level * a), a)
        bound = np.where(live, bound * (1 + step * (1 - level)), bound)
        worst = np.maximum(worst, np.where(bound > 0, np.abs(a) / np.where(bound > 0, bound, 1), 0))
        low = min(low, float(np.min(np.where(strong, a, 0))))
    # In logarithms: the bound reaches e^2000 where friction is weak.
    exponent = step * (horizon - end * (horizon - 1) / 2)
    grown = np.log(np.where(a0 > 0, bound / np.where(a0 > 0, a0, 1), 1))
    return at_most(
        [1.0, 0.0, 0.0],
        [worst.max(), -low, np.max(grown - exponent)],
        slack=1e-9,
        because="1e-9 relative, rounding",
        labels=("distance over the product", "sign change, stronger hypothesis", "product over its exponential"),
        parameters={"draws": len(a0)},
    )


@PAPER.claim(
    "schedule",
    statement="Friction as a gain is a learning-rate schedule under plain gradient descent: the same path, step by "
    "step.",
    source="Friction and the optimiser",
    formula=r"x_{t+1}=x_t+\eta(1-\lambda_t)V(x_t)",
    falsifier="paths that differ, or a schedule that reaches its end one step early",
)
def schedule(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    x0 = rng.normal(size=12)
    friction = Friction("gain", 0.0, 1.0, horizon=50)
    path = friction.follow(x0, surrogate_field, 0.7)
    x = x0.copy()
    for rate in 0.7 * (1 - np.arange(50) / 50):
        x = x + rate * surrogate_field(x)
    return agreement(
        [0.0, 0.98, 51],
        [np.max(np.abs(path[-1] - x)), friction.at(49), len(path)],
        absolute=[1e-14, 1e-15, 0],
        because="rounding",
        labels=("distance of the paths", "friction of the last step", "positions"),
    )
