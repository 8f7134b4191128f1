r"""$W_1$ and $W_2$ themselves: on the circle with the masses of the push-forward, on $S^2$ between certified bounds.

Rates and exponents are predicted from the eigenvalues of V and B before anything runs.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.meanfield import (
    CircleConcentration,
    GaussianCluster,
    concentrate,
    distance_to_limit,
    evolve_rings,
    predict_phases,
)
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import SPLIT_B, SPLIT_V, tilted
from sphereflow.papers.low_temperature_concentration.sources import BOUND, CONCENTRATION, TIMES
from sphereflow.sphere import fibonacci


@lru_cache(maxsize=8)
def towards_best(beta: float) -> CircleConcentration:
    """The set-up in which V and its product with B prefer different axes, to a little after the best moment."""
    last = math.ceil(1.7 * math.log(beta) + 1.2)
    return concentrate(SPLIT_V, SPLIT_B, beta, tilted, last, saveat=4 * last + 1, tol=1e-5)


@PAPER.claim(
    "transport-on-the-circle",
    says=r"On the circle $W_1$ and $W_2$ to the push-forward, its masses enforced, have smallest values of order "
    r"$\beta^{-1/2}$, reached after $\frac1{2c}\log\beta$, as predicted from $V$ and $B$; both lie between the "
    r"distance to the support and that by labels.",
    basis=TIMES,
    formula=r"\min_tW_p(\mu_\beta(t),\Pi_\#\mu_0)\propto\beta^{-c\tau},\quad t_{best}\approx\tau\log\beta,\quad "
    r"D_p\le W_p\le L_p",
)
def transport_on_the_circle(run: Run) -> Check:
    low, high = (30.0, 100.0) if run.quick else (100.0, 1000.0)
    small, large = towards_best(low), towards_best(high)
    expected = predict_phases(SPLIT_V, SPLIT_B)
    check = Check(parameters={"V": "diag(1, 0.5)", "B": "diag(0.2, 1)", "beta": [low, high]})
    rivals: dict[str, dict[str, float]] = {name: {} for name in ("order", "third", "growth", "still")}
    spread = math.log(high / low)
    order = 0.5 * math.log(math.log(high + 1) / math.log(low + 1)) / spread - 0.5
    for p in (1, 2):
        exponent, time = f"exponent of the smallest $W_{p}$", f"growth of its time, $W_{p}$"
        because = "corrections of relative order beta^(-1/2), and the mass of one token at the divide"
        measured = math.log(large.best(p)[0] / small.best(p)[0]) / spread
        check.row(exponent, predicted=expected.best_exponent(p), measured=measured, tolerance=0.04, because=because)
        measured = (large.best(p)[1] - small.best(p)[1]) / spread
        check.row(time, predicted=expected.best_slope(p), measured=measured, relative=0.1, because=because)
        rivals["order"][exponent], rivals["third"][exponent] = order, -1 / 3
        rivals["growth"][time], rivals["still"][time] = 1.0, 0.0
        excess = small.wasserstein(p) - small.support_distance(p), small.label_distance(p) - small.wasserstein(p)
        for name, values in zip(("above the support", "below the labels"), excess, strict=True):
            check.at_least(
                f"least of $W_{p}$ {name}", bound=0.0, measured=values.min(), tolerance=1e-12, because="an inequality"
            )
    check.rival(r"the order $\sqrt{\log\beta/\beta}$ of the bound", rivals["order"])
    check.rival("the exponent $-1/3$", rivals["third"])
    check.rival("times at the rate of growth", rivals["growth"])
    check.rival("times that do not depend on temperature", rivals["still"])
    return check


@PAPER.claim(
    "predicted-rates",
    says=r"At zero temperature $W_1$ and $W_2$ on the circle fall at the rate $c$ that the eigenvalues of $V$ and $B$ "
    r"predict: that of contraction, or that at which mass leaves the divide, which counts twice as much in $W_2$.",
    basis=BOUND,
    formula=r"W_p\sim e^{-c_pt},\quad c_p=\min\Big(v_1-\frac{v_2b_2}{b_1},\ \frac{v_1b_1-v_2b_2}{p\,b_2}\Big)",
)
def predicted_rates(run: Run) -> Check:
    check = Check(parameters={"d": 2, "beta": "infinite"})
    gap: dict[str, float] = {}
    contraction: dict[str, float] = {}
    same: dict[str, float] = {}
    for v, b, start, stop in (
        ((1.0, 0.3), (1.0, 2.0), 15.0, 20.0),
        ((0.5, 1.0), (1.0, 0.2), 14.0, 22.0),
        ((1.0, -0.5), (0.5, 0.8), 4.0, 5.5),
    ):
        flow = concentrate(np.diag(v), np.diag(b), math.inf, tilted, saveat=[0.0, start, stop], tol=1e-9)
        expected = predict_phases(np.diag(v), np.diag(b))
        for p in (1, 2):
            name = f"rate of $W_{p}$, $V$ = diag{v}, $B$ = diag{b}"
            w = flow.wasserstein(p)
            check.row(
                name,
                predicted=expected.rate(p),
                measured=math.log(w[1] / w[2]) / (stop - start),
                relative=0.06,
                because="what the faster of the two rates still adds",
            )
            gap[name] = v[0] * b[0] - v[1] * b[1]
            contraction[name] = float(expected.contraction.min())
            same[name] = expected.rate(3 - p)
    check.rival(r"the gap of $VB^\top$", gap)
    check.rival("contraction alone, the divide left out", contraction)
    check.rival("the rates of $W_1$ and $W_2$ exchanged", same)
    return check


@PAPER.claim(
    "two-directions",
    says=r"Where the slowest direction is not the one that departs ($V=\mathrm{diag}(2,1,1)$, "
    r"$B=\mathrm{diag}(0.05,1,0.4)$) the smallest distance falls like $\beta^{-0.396}$, not $\beta^{-1/2}$, and the "
    r"exit comes at $1.056\log\beta$, in the reduction to Gaussian clusters at $\beta=10^{12}$ to $10^{16}$.",
    basis=basis.Derived("two equations for the mean and the variance of a Gaussian cluster, in two directions"),
    formula=r"\min_tW_2\propto\beta^{-c\tau},\quad\tau=\frac{1+g_j/c_j}{2(c+g_j)},\qquad "
    r"t_{exit}=\frac{\log\beta}{2C},\ C=\frac{c_jg_j}{c_j+g_j}",
)
def two_directions(run: Run) -> Check:
    expected = predict_phases(np.diag([2.0, 1.0, 1.0]), np.diag([0.05, 1.0, 0.4]))
    clusters = [GaussianCluster(along=1.0, across=v, sharpness=1.0, tilt=b) for v, b in ((2.0, 0.05), (1.0, 0.4))]
    found = []
    for beta in (1e12, 1e16):
        times = np.linspace(0, 50, 4001)
        parts = [cluster.moments(beta, 0.1, 0.3, times) for cluster in clusters]
        distance = np.sqrt(sum(mean**2 + variance for mean, variance in parts))
        i = int(np.argmin(distance))
        left = i + int(np.argmax(distance[i:] > 0.5))
        found.append((math.log(distance[i]), times[i], times[left]))
    spread = math.log(1e4)
    exponent, best, leave = (float(b - a) / spread for a, b in zip(*found, strict=True))
    check = Check(parameters={"mean": 0.1, "variance": 0.3})
    names = ("exponent of the smallest distance", "growth of its time", "growth of the exit time")
    because = "samples of the time, a hundredth apart, and terms that vanish with beta"
    for name, predicted, measured in zip(
        names,
        (expected.best_exponent(2), expected.best_slope(2), expected.exit_slope),
        (exponent, best, leave),
        strict=True,
    ):
        check.row(name, predicted=predicted, measured=measured, relative=0.004, because=because)
    check.rival("one half always", {names[0]: -0.5})
    check.rival("times of the slowest direction", {names[1]: 1 / (2 * expected.rate(2))})
    check.rival("exit by contraction alone", {names[2]: 1 / (2 * float(expected.contraction.max()))})
    return check


@PAPER.claim(
    "arc-edge",
    says=r"A law on an arc, where $B^\top x$ points out of the support, does not go to the push-forward but to the "
    r"axis of $V$: its ends attend to themselves, up to a correction of order $1/\beta$ with a known constant.",
    basis=basis.Extension("laws without full support, which the limit equation of the paper excludes"),
    formula=r"\dot\theta=-(v_1-v_2)\sin\theta\cos\theta-\frac{v_1\sin^2\theta+v_2\cos^2\theta}"
    r"{\beta(b_2-b_1)\sin\theta\cos\theta}",
)
def arc_edge(run: Run) -> Check:
    check = Check(parameters={"V": "diag(1, 0.5)", "B": "diag(0.2, 1)", "support": "(-0.5, 0.5)"})
    cold: dict[str, float] = {}
    wide: dict[str, float] = {}
    other: dict[str, float] = {}
    for beta in (300.0, 1000.0):
        flow = concentrate(SPLIT_V, SPLIT_B, beta, support=(-0.5, 0.5), saveat=[0.0, 1.0, 2.0])
        for k, t in ((1, 1.0), (2, 2.0)):
            name = rf"end of the arc at $t={t:g}$, $\beta={beta:g}$"
            check.row(
                name,
                predicted=_end(beta, t),
                measured=flow.angles[k].max(),
                tolerance=(30 if k == 1 else 100) / beta**2,
                because="the next term, of order beta^(-2)",
            )
            cold[name] = math.atan(math.tan(0.5) * math.exp(-t / 2))
            wide[name] = cold[name] - (cold[name] - _end(beta, t)) * math.sqrt(beta / 100)
            # As if the support were full: away from the axis of V, with the clock of zero temperature.
            other[name] = 0.5
        distance = rf"$W_2$ to the push-forward at $t=2$, $\beta={beta:g}$"
        because = "all mass is then within 0.2 of $e_1$, a right angle from both atoms; as above"
        measured = flow.wasserstein(2)[2]
        check.at_least(distance, bound=math.pi / 2 - 0.2, measured=measured, tolerance=100 / beta**2, because=because)
    check.rival("zero temperature", cold)
    check.rival(r"a correction of order $\beta^{-1/2}$, right at $\beta=100$", wide)
    check.rival("an end that does not go to the axis of $V$", other)
    return check


def _end(beta: float, t: float) -> float:
    """Where the end of the arc is, by the equation with its first correction."""

    def slope(s: float, y: np.ndarray) -> np.ndarray:
        sin, cos = np.sin(y), np.cos(y)
        return np.asarray(-0.5 * sin * cos - (sin**2 + 0.5 * cos**2) / (0.8 * beta * sin * cos))

    return float(solve_ivp(slope, (0, t), [0.5], rtol=1e-10, atol=1e-12).y[0, -1])


@PAPER.claim(
    "certified-distance",
    says=r"Tokens on the sphere in three dimensions that fall to the equator ($V=\mathrm{diag}(1,1,0.2)$, $\beta=50$) "
    r"stay near the push-forward up to $t=4$; at $t=8$ they are on its support but have gathered along it: $W_2$, "
    r"between certified bounds, is then several times the distance to the support.",
    basis=CONCENTRATION,
    formula=r"D_2\le\text{lower}\le W_2\le\text{upper}\le L_2",
)
def certified_distance(run: Run) -> Check:
    tokens, value = 300 if run.quick else 1000, np.diag([1.0, 1.0, 0.2])
    start = np.asarray(fibonacci(tokens))
    rings = evolve_rings(3, 50.0, (0.2, 1.0), (1.0, 1.0), saveat=[0.0, 4.0, 8.0], nodes=48)
    check = Check(parameters={"n": tokens, "beta": 50})
    early, late = (distance_to_limit(x, start, value) for x in _heun(start, value, 50.0, 0.125, (32, 64)))
    for t, found in ((4, early), (8, late)):
        width = found.upper - found.lower
        name = f"upper less lower bound, $t={t}$"
        check.row(name, predicted=0.0, measured=width, tolerance=1e-9, because="rounding of potentials")
    support = "distance to the support at $t=4$"
    check.row(
        support,
        predicted=rings.wasserstein(2)[1],
        measured=early.support,
        relative=0.06,
        because="few tokens near the poles represent many",
    )
    near, far = "$W_2$ over the distance to the support, $t=4$", "the same, $t=8$"
    because = "the square of the step 1/8"
    check.at_most(near, bound=1.2, measured=early.upper / early.support, relative=0.02, because=because)
    check.at_least(far, bound=4.0, measured=late.lower / late.support, relative=0.02, because=because)
    check.rival("zero temperature", {support: _zero_temperature(start, 4.0)})
    check.null("the law of infinitely many tokens, which stays symmetric", {far: 1.0})
    return check


def _zero_temperature(start: np.ndarray, t: float) -> float:
    """Root mean square latitude when its tangent falls like e^(-0.8 t)."""
    latitude = np.arcsin(start[:, 2])
    return float(np.sqrt(np.mean(np.arctan(np.exp(-0.8 * t) * np.tan(latitude)) ** 2)))


def _heun(x: np.ndarray, value: np.ndarray, beta: float, step: float, kept: tuple[int, ...]) -> list[np.ndarray]:
    """Tokens after the given numbers of steps of the second-order method of Heun, by plain sums."""

    def field(y: np.ndarray) -> np.ndarray:
        weights = np.exp(beta * (y @ y.T - 1))
        seen = (weights @ y / weights.sum(axis=1, keepdims=True)) @ value.T
        return np.asarray(seen - np.sum(seen * y, axis=1, keepdims=True) * y)

    frames = []
    for count in range(1, kept[-1] + 1):
        first = field(x)
        ahead = x + step * first
        x = x + step / 2 * (first + field(ahead / np.linalg.norm(ahead, axis=1, keepdims=True)))
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        if count in kept:
            frames.append(x)
    return frames
