"""Clustering by attention with V = I: the rate, and arcs of the circle in closed form."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.flows import transformer_flow
from sphereflow.papers.measure_to_measure.sources import theorem
from sphereflow.papers.measure_to_measure.test_measures import cap
from sphereflow.transport.sphere.pieces import Gathering

RADII = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
ARC, ARC_TIME = 1.2, 2.0


def clustering_times(seed: int, n: int = 60, sharpness: float = 0.0) -> np.ndarray:
    """First times at which the diameter of a cap of radius one has fallen to RADII, V = I and B = sharpness I."""
    rng = np.random.default_rng(seed)
    x = cap(rng, unit(rng.normal(size=3)), 1.0, n)
    masses = np.full(n, 1 / n)
    weights = {
        "V": np.eye(3),
        "B": sharpness * np.eye(3),
        "W": np.zeros((3, 3)),
        "U": np.zeros((3, 3)),
        "b": np.zeros(3),
    }
    step, now, times, diameters = 0.25, 0.0, [0.0], [_diameter(x)]
    while diameters[-1] > RADII[-1]:
        x = transformer_flow(weights, step, x, 1e-8) if sharpness else Gathering(duration=step, d=3).flow(x, masses)
        now += step
        times.append(now)
        diameters.append(_diameter(x))
    return np.interp(-np.log(RADII), -np.log(diameters), times)


def _diameter(x: np.ndarray) -> float:
    return float(angles(x[:, None], x).max())


@PAPER.claim(
    "clustering-rate",
    says=r"Attention with $V=I$ gathers a cap of radius one in one point, with $B=0$ and with $B=2I$; the time to "
    r"diameter $\varepsilon$ grows like $\ln(1/\varepsilon)$ with slope one.",
    basis=theorem("Proposition 2.1"),
    formula=r"T(\varepsilon)=\ln(1/\varepsilon)+O(1)",
)
def clustering_rate(run: Run) -> Check:
    n = 60 if run.quick else 200
    check = Check(parameters={"n": n, "d": 3})
    for sharpness in (0.0, 2.0):
        times = clustering_times(run.seed, n if sharpness == 0 else 24, sharpness)
        check.row(
            f"slope, $B={sharpness:g}I$",
            predicted=1.0,
            measured=np.polyfit(-np.log(RADII), times, 1)[0],
            tolerance=0.02,
            because="curvature of the time at the largest diameter, about 0.1^2, with B = 2 I twice that",
        )
    check.rival("twice as fast, as two points that approach each other", 0.5)
    check.rival("slope $1/(1+\\beta)$, sharper attention gathers faster", {"slope, $B=2I$": 1 / 3})
    return check


def arc_factor(L: float, t: float) -> float:
    r"""$e^{-\tau(t)}$ for the uniform arc: $\dot\tau=\coth\tau-\frac{2}{L\sinh\tau}\arctan(e^{-\tau}\tan(L/2))$."""

    def rate(_: float, tau: np.ndarray) -> np.ndarray:
        if tau[0] < 1e-4:  # sin(L)/L at zero, with its slope: the closed form cancels there
            return np.array([np.sin(L) / L + tau[0] * (0.5 - np.sin(2 * L) / (4 * L))])
        return 1 / np.tanh(tau) - 2 / (L * np.sinh(tau)) * np.arctan(np.exp(-tau) * np.tan(L / 2))

    return float(np.exp(-solve_ivp(rate, (0, t), [0.0], method="DOP853", rtol=1e-12, atol=1e-13).y[0, -1]))


def arc_ratios(angle: np.ndarray) -> np.ndarray:
    """tan(angle/2) after over before, for particles at these angles."""
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    after = Gathering(duration=ARC_TIME, d=2).flow(x, np.full(len(x), 1 / len(x)))
    return np.tan(np.arctan2(after[:, 1], after[:, 0]) / 2) / np.tan(angle / 2)


@PAPER.claim(
    "arcs-cluster",
    says=r"A uniform arc of the circle under $V=I$, $B=0$ shrinks to its midpoint; the tangent of half the angle is "
    "multiplied by the same number for all particles, that of the closed mean.",
    basis=theorem("Example 6.1"),
    formula=r"\tan\tfrac{\vartheta(t)}2=e^{-\tau(t)}\tan\tfrac{\vartheta(0)}2,\quad"
    r"\dot\tau=\coth\tau-\frac{2\arctan(e^{-\tau}\tan\frac L2)}{L\sinh\tau}",
)
def arcs_cluster(run: Run) -> Check:
    n = 2000
    ratios = arc_ratios(ARC * ((np.arange(n) + 0.5) * 2 / n - 1))
    factor = arc_factor(ARC, ARC_TIME)
    check = Check(parameters={"L": ARC, "t": ARC_TIME, "n": n})
    check.row("factor", predicted=factor, measured=ratios.mean(), tolerance=4e-7, because="midpoint sum, (L/n)^2")
    spread = np.ptp(ratios)
    check.row("spread over particles", predicted=0.0, measured=spread, tolerance=1e-10, because="rounding")
    check.rival("the mean of the start kept, $e^{-t\\sin L/L}$", {"factor": np.exp(-ARC_TIME * np.sin(ARC) / ARC)})
    check.rival("a short arc, $e^{-t}$", {"factor": np.exp(-ARC_TIME)})
    ends = arc_ratios(np.linspace(-ARC, ARC, 200))
    check.null("a grid of 200 particles with both ends", {"factor": float(ends.mean())})
    angle = ARC * ((np.arange(n) + 0.5) * 2 / n - 1)
    check.null(
        "angles that shrink by a common factor",
        {"spread over particles": np.ptp(np.tan(0.1 * angle) / np.tan(angle / 2))},
    )
    return check
