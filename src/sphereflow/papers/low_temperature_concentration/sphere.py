r"""Three dimensions: V = diag(1, 1, 0.2), B = 1. Tokens fall to the equator, and rest there before they gather."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.dynamics import SA
from sphereflow.meanfield.linear_stability import growth_rates
from sphereflow.meanfield.zero_temperature import concentration, uniform_square_distance
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.solving import CONSTANT, FORWARD, SOLVERS, solve
from sphereflow.sphere import distance, fibonacci

VALUE = np.diag([1.0, 1.0, 0.2])
GAP = 0.8
# Root mean square angle to the limit, and to the flow at zero temperature, at t = 1, 2, 3, 4; 2,400 spiral points.
TO_LIMIT = {200.0: (0.4408, 0.2549, 0.1354, 0.0666), 50.0: (0.4392, 0.2465, 0.1235, 0.0576)}
TO_FLOW = {200.0: (0.0007, 0.0036, 0.0068, 0.0088), 50.0: (0.0022, 0.0118, 0.0182, 0.0171)}
AT_ZERO = (0.4412, 0.2576, 0.1397, 0.0717)
TOKENS = 2400


@lru_cache(maxsize=4)
def follow(beta: float) -> np.ndarray:
    """Tokens at t = 0, 1, 2, 3, 4 by Heun steps of 0.125."""
    model = SA(beta, value=VALUE)
    heun = SOLVERS["heun"][0]
    found = solve(
        model, fibonacci(TOKENS), np.arange(5.0), solver=heun, controller=CONSTANT, first_step=0.125, adjoint=FORWARD
    )
    return np.asarray(found.xs)


def at_zero_temperature(x: np.ndarray, t: float) -> np.ndarray:
    moved = x * np.exp(t * np.diag(VALUE))
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def rms(x: np.ndarray, y: np.ndarray) -> float:
    """Root mean square angle between tokens of the same label."""
    return float(np.sqrt(np.mean(np.asarray(distance(x, y)) ** 2)))


@PAPER.claim(
    "equator",
    statement="On the sphere in three dimensions, with a plane of leading eigenvectors: distances to the limit and to "
    "the flow at zero temperature.",
    source="Numerical experiments in three dimensions; reference values",
    formula=r"V=\mathrm{diag}(1,1,0.2),\ B=1,\ c=0.8,\ k=2",
)
def equator(run: Run) -> Measurement:
    start = np.asarray(fibonacci(TOKENS))
    limit = concentration(VALUE).limit(start)
    moments = (1, 2, 3, 4)
    predicted, measured = [*AT_ZERO], [rms(at_zero_temperature(start, t), limit) for t in moments]
    labels = [f"zero temperature t={t}" for t in moments]
    for beta in () if run.quick else (200.0, 50.0):  # half a minute of pairs in three dimensions
        frames = follow(beta)
        predicted += [*TO_LIMIT[beta], *TO_FLOW[beta]]
        measured += [rms(frames[t], limit) for t in moments]
        measured += [rms(frames[t], at_zero_temperature(start, t)) for t in moments]
        labels += [f"beta={beta:g} {what} t={t}" for what in ("to limit", "to flow") for t in moments]
        latitude = np.sqrt(np.mean(np.arcsin(frames[1:, :, 2]) ** 2, axis=1))
        predicted += [0.0]
        measured += [np.abs(latitude - [rms(frames[t], limit) for t in moments]).max()]
        labels += [f"beta={beta:g} motion in longitude"]
    tolerance = np.where(np.array(predicted) == 0, 3e-4, 6e-5)
    exact = [np.sqrt(uniform_square_distance(3, 2, GAP * t)) for t in moments]
    return agreement(
        [*predicted, 0.44126, 0.25761, 0.13994, 0.07252],
        [*measured, *exact],
        absolute=[*tolerance, *[6e-6] * 4],
        because="four and five printed decimals; longitudes to 3e-4",
        labels=(*labels, *(f"uniform law t={t}" for t in moments)),
        parameters={"n": TOKENS},
        note="The quick preset stays at zero temperature." if run.quick else "",
    )


@PAPER.claim(
    "equator-is-unstable",
    statement="The uniform circle on which tokens rest is itself unstable, at rates up to 2/e near the wave number "
    "sqrt(2 beta).",
    source="Terminal phase for a plane of leading eigenvectors",
    formula=r"\max_k\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\to\frac2e",
)
def equator_is_unstable(run: Run) -> Measurement:
    betas = (100.0, 1000.0, 10000.0)
    rates = [growth_rates(b, "SA", count=int(3 * np.sqrt(b))) for b in betas]
    near = [abs(int(np.argmax(r)) + 1 - np.sqrt(2 * b)) for r, b in zip(rates, betas, strict=True)]
    return at_most(
        np.concatenate([2 / np.array(betas), np.full(3, 1.0)]),
        [*[abs(r.max() - 2 / math.e) for r in rates], *near],
        because="corrections of order 1/beta to the largest rate, and whole wave numbers",
        labels=(*(f"rate, beta={b:g}" for b in betas), *(f"wave number, beta={b:g}" for b in betas)),
    )
