"""Clustering by attention with V = I: the rate, and arcs of the circle in closed form."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.scenes import cap
from sphereflow.transport.sphere.pieces import Gathering

RADII = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
ARC, ARC_TIME = 1.2, 2.0
ARC_FACTOR = 0.1554104977


def clustering_times(seed: int, n: int = 60) -> np.ndarray:
    """First times at which the diameter of a cap of radius one has fallen to each of RADII, V = I and B = 0."""
    rng = np.random.default_rng(seed)
    x = cap(rng, unit(rng.normal(size=3)), 1.0, n)
    masses = np.full(n, 1 / n)
    step, now, times, diameters = 0.25, 0.0, [0.0], [_diameter(x)]
    while diameters[-1] > RADII[-1]:
        x = Gathering(duration=step, d=3).flow(x, masses)
        now += step
        times.append(now)
        diameters.append(_diameter(x))
    return np.interp(-np.log(RADII), -np.log(diameters), times)


def _diameter(x: np.ndarray) -> float:
    return float(angles(x[:, None], x).max())


@PAPER.claim(
    "clustering-rate",
    statement="Attention with V = I gathers a measure of an open hemisphere in one point; the time to diameter epsilon "
    "grows like ln(1/epsilon) with slope one.",
    source="Proposition 2.1",
    formula=r"T(\varepsilon)=\ln(1/\varepsilon)+O(1)",
    falsifier="a slope away from one, or a measure that does not cluster",
)
def clustering_rate(run: Run) -> Measurement:
    slope = np.polyfit(-np.log(RADII), clustering_times(run.seed, 60 if run.quick else 200), 1)[0]
    return agreement(
        1.0,
        slope,
        absolute=0.01,
        because="curvature of the time at the largest diameter, about 0.1^2",
        parameters={"n": 60 if run.quick else 200, "d": 3},
    )


def arc_factor(L: float, t: float) -> float:
    r"""$e^{-\tau(t)}$ for the uniform arc: $\dot\tau=\coth\tau-\frac{2}{L\sinh\tau}\arctan(e^{-\tau}\tan(L/2))$."""

    def rate(_: float, tau: np.ndarray) -> np.ndarray:
        if tau[0] < 1e-4:  # sin(L)/L at zero, with its slope: the closed form cancels there
            return np.array([np.sin(L) / L + tau[0] * (0.5 - np.sin(2 * L) / (4 * L))])
        return 1 / np.tanh(tau) - 2 / (L * np.sinh(tau)) * np.arctan(np.exp(-tau) * np.tan(L / 2))

    return float(np.exp(-solve_ivp(rate, (0, t), [0.0], method="DOP853", rtol=1e-12, atol=1e-13).y[0, -1]))


def arc_ratios(n: int) -> np.ndarray:
    """tan(angle/2) after over before, for n particles at the midpoints of equal parts of the arc."""
    angle = ARC * ((np.arange(n) + 0.5) * 2 / n - 1)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    after = Gathering(duration=ARC_TIME, d=2).flow(x, np.full(n, 1 / n))
    return np.tan(np.arctan2(after[:, 1], after[:, 0]) / 2) / np.tan(angle / 2)


@PAPER.claim(
    "arcs-cluster",
    statement="A uniform arc of the circle under V = I, B = 0 shrinks to its midpoint; the tangent of half the angle "
    "is multiplied by the same number for all particles.",
    source="Example 6.1",
    formula=r"\tan\tfrac{\vartheta(t)}2=e^{-\tau(t)}\tan\tfrac{\vartheta(0)}2,\quad e^{-\tau(2)}=0.1554105\ (L=1.2)",
    falsifier="a factor that differs between particles",
)
def arcs_cluster(run: Run) -> Measurement:
    ratios = arc_ratios(2000)
    return agreement(
        [ARC_FACTOR, arc_factor(ARC, ARC_TIME), 0.0],
        [ratios.mean(), ratios.mean(), np.ptp(ratios)],
        absolute=[4e-7, 4e-7, 1e-10],
        labels=("reference value", "closed mean, integrated", "spread over particles"),
        because="midpoint sum of 2000 particles, error (L/n)^2; rounding for the spread",
    )
