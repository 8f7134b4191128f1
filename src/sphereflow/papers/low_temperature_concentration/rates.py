r"""The distance between finite and zero temperature at fixed times, and when it stops being of order 1/beta.

Circle, V = diag(1, 0.3), B = 1, uniform start: $W_2(\mu_\beta(t),\mu_\infty(t))$ in the coupling by labels, which is
optimal as long as tokens keep their order.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.estimates import fit_power, local_slopes
from sphereflow.meanfield.zero_temperature import uniform_square_distance
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SHARED_V,
    TOKENS,
    axis_distance,
    equispaced,
    follow,
    wrapped,
)

_GAP = 0.7
BETAS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
# Distances at t = 1 with 2,000 quantile tokens, by beta.
AT_ONE = {10.0: 1.336e-2, 30.0: 5.262e-3, 100.0: 1.651e-3, 300.0: 5.571e-4, 1000.0: 1.679e-4, 3000.0: 5.602e-5}
# Distances to the two limit points at t = 1, ..., 6, by beta.
TO_POINTS = {
    100.0: (0.7133, 0.5340, 0.3858, 0.2726, 0.1906, 0.1326),
    10.0: (0.7030, 0.4838, 0.2973, 0.1704, 0.0948, 0.0452),
}


def betas(run: Run) -> tuple[float, ...]:
    return BETAS[:-1] if run.quick else BETAS


@lru_cache(maxsize=32)
def early(beta: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Times up to 2 and angles."""
    times = np.arange(FRAMES) / 32
    return times, follow(beta, SHARED_V, np.eye(2), equispaced(n), times, 1 / 16)


@lru_cache(maxsize=32)
def late(beta: float, n: int, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Times up to 6.6 and angles."""
    times = np.arange(FRAMES) / 10
    return times, follow(beta, SHARED_V, np.eye(2), equispaced(n), times, dt)


def gap_to_limit(times: np.ndarray, angles: np.ndarray, t: float) -> float:
    """Root mean square angle between a token and its own place at zero temperature."""
    i = int(np.argmin(np.abs(times - t)))
    start = angles[0]
    limit = np.arctan2(np.exp(-_GAP * times[i]) * np.sin(start), np.cos(start))
    return float(np.sqrt(np.mean(wrapped(angles[i] - limit) ** 2)))


def tokens(run: Run) -> int:
    return TOKENS if run.quick else 2000


def early_gaps(run: Run, t: float) -> Float[np.ndarray, " b"]:
    return np.array([gap_to_limit(*early(b, tokens(run)), t) for b in betas(run)])


def late_gaps(run: Run, t: float) -> tuple[tuple[float, ...], Float[np.ndarray, " b"]]:
    used = (30.0, 100.0, 300.0) if run.quick else BETAS[1:]
    return used, np.array([gap_to_limit(*late(b, tokens(run), 0.2 if run.quick else 0.1), t) for b in used])


@PAPER.claim(
    "distance-at-time-one",
    statement="The distance between the law at finite and at zero temperature at t = 1.",
    source="Coupling of the two equations; reference values with 2,000 quantile tokens",
    formula=r"W_2(\mu_\beta(1),\mu_\infty(1))",
    falsifier="Random tokens: their noise of order n^(-1/2) hides the law.",
)
def distance_at_one(run: Run) -> Measurement:
    half_unit = np.array([5.1e-6, 5.1e-7, 5.1e-7, 5.1e-8, 5.1e-8, 5.1e-9])
    return agreement(
        [AT_ONE[b] for b in betas(run)],
        early_gaps(run, 1.0),
        absolute=half_unit[: len(betas(run))],
        because="four printed digits",
        labels=tuple(f"beta={b:g}" for b in betas(run)),
        parameters={"n": tokens(run), "V": "diag(1, 0.3)"},
    )


@PAPER.claim(
    "one-over-beta",
    statement="At fixed times the distance to zero temperature falls like 1/beta, faster than the guaranteed "
    "sqrt(log(beta)/beta).",
    source="Main theorem, first term, for smooth initial laws",
    formula=r"W_2(\mu_\beta(t),\mu_\infty(t))=O(1/\beta),\qquad t\le2",
    falsifier="A local slope further than 0.02 from -1 beyond beta = 300.",
)
def one_over_beta(run: Run) -> Measurement:
    sharp = np.array(betas(run))
    slopes, notes = [], []
    for t in (0.5, 1.0, 2.0):
        gaps = early_gaps(run, t)
        slopes += list(local_slopes(sharp, gaps)[3:])
        fit = fit_power(sharp[2:], gaps[2:])
        notes.append(f"t={t:g}: exponent {fit.exponent:.4f} ± {fit.error:.4f} from beta = 100 on")
    pairs = [f"{a:g}-{b:g}" for a, b in pairwise(sharp[3:])]
    return agreement(
        -np.ones(len(slopes)),
        slopes,
        absolute=0.02,
        because="the next order changes local slopes by O(1/beta)",
        labels=tuple(f"t={t:g}, beta {pair}" for t in (0.5, 1, 2) for pair in pairs),
        note="; ".join(notes) + ".",
        parameters={"n": tokens(run)},
    )


@PAPER.claim(
    "thin-clusters",
    statement="Once clusters are thinner than the kernel the gain from a lower temperature is only beta^(-1/2): slopes "
    "at t = 6 lie between -3/4 and -1/2.",
    source="Main theorem, its growing factor",
    formula=r"t\gtrsim\frac1{2c}\log\beta",
    falsifier="Too few tokens: they freeze and the distance stops falling.",
)
def thin_clusters(run: Run) -> Measurement:
    sharp, gaps = late_gaps(run, 6.0)
    slopes = local_slopes(np.array(sharp), gaps)
    outside = np.maximum(slopes + 0.5, -0.75 - slopes)
    fit = fit_power(np.array(sharp), gaps)
    told = ", ".join(f"{s:.3f}" for s in slopes)
    return at_most(
        np.zeros(len(slopes)),
        outside,
        because="the interval between the two regimes",
        labels=tuple(f"beta {a:g}-{b:g}" for a, b in pairwise(sharp)),
        note=f"slopes {told}; one exponent {fit.exponent:.3f} ± {fit.error:.3f}.",
        parameters={"n": tokens(run), "t": 6},
    )


@PAPER.claim(
    "towards-the-two-points",
    statement="The distance to the push-forward, half the mass at either end of the axis, against time.",
    source="Main theorem, decaying term; reference values with 2,000 tokens",
    formula=r"W_2\big(\mu_\beta(t),\tfrac12(\delta_{e_1}+\delta_{-e_1})\big)",
)
def towards_the_two_points(run: Run) -> Measurement:
    n, dt = tokens(run), 0.2 if run.quick else 0.1
    used = (100.0,) if run.quick else tuple(TO_POINTS)
    at = np.arange(1, 7)
    measured = [axis_distance(late(b, n, dt)[1], 0.0)[10 * at] for b in used]
    start = equispaced(n)
    limit = [axis_distance(np.arctan2(np.exp(-_GAP * t) * np.sin(start), np.cos(start)), 0.0) for t in at]
    exact = [np.sqrt(uniform_square_distance(2, 1, _GAP * t)) for t in at]
    # The squared angle has a cusp of slope 2 pi e^(ct) at the divides: by Euler and Maclaurin, n tokens miss
    # h^2 e^(ct) / 12 of its mean, h = 2 pi / n.
    missed = (2 * np.pi / n) ** 2 * np.exp(_GAP * at) / 12 / (2 * np.array(exact))
    return agreement(
        np.concatenate([*[TO_POINTS[b] for b in used], exact]),
        np.concatenate([*measured, limit]),
        absolute=np.concatenate([*[1e-4 + 1.5 * missed] * len(used), 1e-6 + 1.5 * missed]),
        because="four printed decimals; n tokens miss part of the cusp at the divide, (2 pi/n)^2 e^(ct)/12 of W_2^2",
        labels=(*(f"beta={b:g} t={t}" for b in used for t in at), *(f"zero temperature t={t}" for t in at)),
        parameters={"n": n},
    )


@PAPER.claim(
    "no-departure",
    statement="When V and V B^T share their leading eigenvector there is no terminal phase: the distance to the limit "
    "points never grows again.",
    source="Terminal phase",
    formula=r"\frac{d}{dt}W_2(\mu_\beta(t),\Pi_\#\mu_0)\le0",
    falsifier="A minimum of the distance over time.",
)
def no_departure(run: Run) -> Measurement:
    used = (30.0, 100.0, 300.0) if run.quick else BETAS
    steps = [np.diff(axis_distance(late(b, tokens(run), 0.2 if run.quick else 0.1)[1], 0.0)).max() for b in used]
    return at_most(
        np.zeros(len(used)),
        steps,
        because="monotone, with no slack",
        labels=tuple(f"beta={b:g}" for b in used),
        parameters={"t": "0 to 6.6"},
    )
