r"""Concentration, rest and departure when V and $VB^\top$ prefer different directions.

Circle, V = diag(1, 0.5), B = diag(0.2, 1): $VB^\top$ = diag(0.2, 0.5) gathers tokens at $\pm e_2$, V carries the
clusters to $\pm e_1$ afterwards. D(t) is the root mean square angle to the nearer of $\pm e_2$: the distance to the
support of the push-forward, with no condition on masses. The Wasserstein distance to the push-forward itself is larger.

The law is held by weighted nodes that are dense at the divide. Of equal tokens one may stay there for ever (`samples`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import local_slopes
from sphereflow.meanfield import CircleConcentration, concentrate
from sphereflow.meanfield.cluster_moments import GaussianCluster
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SPLIT_B,
    SPLIT_V,
    TOKENS,
    axis_distance,
    follow,
    follow_limit,
    quantile_points,
    tilted,
    wrapped,
)
from sphereflow.papers.low_temperature_concentration.sources import LIMIT, REDUCTION, TERMINAL, TIMES

CLUSTER = GaussianCluster(along=0.5, across=1.0, sharpness=1.0, tilt=0.2)
HALF = np.pi / 2
# Rates of the set-up: contraction towards e2, and growth of the mean of a thin cluster.
CONTRACTION, GROWTH = 0.3, 0.5
# Mass of the push-forward at +e2: half, and 0.2/pi more by the tilt of the initial density.
UPPER = 0.5 + 0.2 / np.pi


def betas(run: Run) -> tuple[float, ...]:
    return (30.0, 100.0, 300.0) if run.quick else (30.0, 100.0, 300.0, 1000.0)


@lru_cache(maxsize=16)
def split_law(beta: float, quick: bool) -> CircleConcentration:
    """The law to t = 16.5 every 0.25 in a quick run, to t = 33 every 0.125 otherwise."""
    last, count = (16.5, FRAMES) if quick else (33.0, 4 * FRAMES - 3)
    return concentrate(SPLIT_V, SPLIT_B, beta, tilted, last, saveat=count, tol=1e-5)


def best_moment(times: Float[np.ndarray, " T"], d: Float[np.ndarray, " T"]) -> tuple[float, float, float]:
    """Smallest value by a parabola through the three lowest samples, its time, and when 0.5 is passed afterwards."""
    i = int(np.argmin(d))
    a, b, c = np.polyfit(times[i - 1 : i + 2] - times[i], d[i - 1 : i + 2], 2)
    j = i + int(np.argmax(d[i:] > 0.5))
    leave = times[j - 1] + (0.5 - d[j - 1]) / (d[j] - d[j - 1]) * (times[j] - times[j - 1])
    return float(c - b * b / (4 * a)), float(times[i] - b / (2 * a)), float(leave)


def measured_best(run: Run) -> Float[np.ndarray, "b 3"]:
    """Smallest D, its time and the exit time for every beta."""
    rows = []
    for i, beta in enumerate(betas(run)):
        law = split_law(beta, run.quick)
        rows.append(best_moment(law.ts, law.support_distance()))
        run.notify((i + 1) / len(betas(run)), f"beta = {beta:g}")
    return np.array(rows)


def stray_share(law: CircleConcentration) -> float:
    """How much of the smallest D, at most, is owed to nodes that are caught at the divide, where the law is not."""
    d = law.support_distance()
    best = int(np.argmin(d))
    stray = law.masses[np.abs(np.cos(law.angles[best])) > np.cos(np.pi / 8)].sum()
    return float(stray * HALF**2 / (2 * d[best] ** 2))


def upper_cluster(
    law: CircleConcentration, since: float
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """Times from `since` on, with the mean and the variance of what was then within pi/4 of e2."""
    first = int(np.searchsorted(law.ts, since - 1e-9))
    near = np.abs(wrapped(law.angles[first] - HALF)) < np.pi / 4
    off, masses = wrapped(law.angles[first:, near] - HALF), law.masses[near] / law.masses[near].sum()
    mean = off @ masses
    return law.ts[first:], mean, (off - mean[:, None]) ** 2 @ masses


@PAPER.claim(
    "best-concentration",
    says=r"The distance $D$ to the limit points has a smallest value in time that falls like $\beta^{-1/2}$, "
    r"reached after $\frac1{2c}\log\beta$, and is left behind after $(\frac1{2c}+\frac1{2g})\log\beta$, with the "
    "rates $c=0.3$ of contraction and $g=0.5$ of growth of a thin cluster.",
    basis=TIMES,
    formula=r"\min_tD\propto\beta^{-1/2},\quad t_{min}\approx\frac{\log\beta}{2c},\quad "
    r"t_{exit}\approx\Big(\frac1{2c}+\frac1{2g}\Big)\log\beta",
)
def best_concentration(run: Run) -> Check:
    sharp, found = np.array(betas(run)), measured_best(run)
    logs = np.log(sharp)
    check = Check(
        parameters={"nodes": [len(split_law(beta, run.quick).masses) for beta in sharp], "beta": sharp.tolist()},
        note="Smallest D: "
        + ", ".join(f"{v:.4f}" for v in found[:, 0])
        + "; exits at "
        + ", ".join(f"{v:.2f}" for v in found[:, 2])
        + ".",
    )
    exponent, best, leave = "exponent of the smallest distance", "growth of its time", "growth of the exit time"
    spread = logs[-1] - logs[0]
    because = "corrections of relative order beta^(-1/2) at the smallest beta, over the decade"
    slope = local_slopes(sharp, found[:, 0])[-1]
    stray = sum(stray_share(split_law(beta, run.quick)) for beta in sharp[-2:]) / np.log(sharp[-1] / sharp[-2])
    nodes = f"{because}; {stray:.1g} for nodes caught at the divide"
    check.row(exponent, predicted=-0.5, measured=slope, tolerance=0.03 + stray, because=nodes)
    measured = (found[-1, 1] - found[0, 1]) / spread
    check.row(best, predicted=1 / (2 * CONTRACTION), measured=measured, relative=0.08, because=because)
    measured = (found[-1, 2] - found[0, 2]) / spread
    whole = 1 / (2 * CONTRACTION) + 1 / (2 * GROWTH)
    check.row(leave, predicted=whole, measured=measured, relative=0.05, because=because)
    bound = np.sqrt(np.log(sharp[-2:] + 1) / sharp[-2:])
    check.rival(
        r"the order $\sqrt{\log\beta/\beta}$ of the bound", {exponent: float(local_slopes(sharp[-2:], bound)[0])}
    )
    check.rival(r"the exponent $-1/3$", {exponent: -1 / 3})
    check.rival("exit by contraction alone", {leave: 1 / (2 * CONTRACTION)})
    check.rival("exit by growth alone", {leave: 1 / (2 * GROWTH)})
    check.rival("a best time at the rate of growth", {best: 1 / (2 * GROWTH)})
    check.rival("times that do not depend on temperature", {best: 0.0, leave: 0.0})
    return check


@PAPER.claim(
    "limit-alone",
    says="Zero temperature alone: the distance to the limit points decays at the rate of the gap of $VB^\\top$ over "
    "$|B^\\top e|$.",
    basis=LIMIT,
    formula=r"W_2\sim e^{-\min(c_E,\,kc_U/2)t},\qquad c_E=\frac{\lambda_1-\lambda_2}{|B^\top e_1|}",
)
def limit_alone(run: Run) -> Check:
    times = np.linspace(0, 16.5, FRAMES)
    check = Check(parameters={"n": TOKENS, "t": "10 to 16.5"})
    gaps, escape = {}, {}
    for scale in (1.0, 2.0):
        found = axis_distance(follow_limit(SPLIT_V, scale * SPLIT_B, quantile_points(TOKENS), times), HALF)
        name = f"rate, $B=\\mathrm{{diag}}({0.2 * scale:g},{scale:g})$"
        check.row(
            name,
            predicted=CONTRACTION,
            measured=np.log(found[40] / found[-1]) / (times[-1] - times[40]),
            tolerance=5e-3,
            because="what is left at t = 10 of the next term, e^(-2ct)",
        )
        gaps[name] = 0.3 * scale
        escape[name] = 0.75
    check.rival("the gap itself, without $|B^\\top e|$", gaps)
    check.rival("half the rate of escape from the repelling axis", escape)
    return check


@PAPER.claim(
    "gaussian-clusters",
    says=r"Two equations for the mean and the variance of a cluster follow the simulated one at $\beta=300$ from "
    "$t=8$ to 14, through the end of concentration and the departure, to 15 percent.",
    basis=REDUCTION,
    formula=r"\dot\Sigma=2\Big(\frac{v_tb\beta\Sigma}{1+\beta\kappa\Sigma}-v_e\Big)\Sigma,\quad"
    r"\dot{\bar y}=\Big(v_t\frac{1+\beta b\Sigma}{1+\beta\kappa\Sigma}-v_e\Big)\bar y",
)
def gaussian_clusters(run: Run) -> Check:
    check = Check(parameters={"cluster": "all within pi/4 of e2 at t = 8"})
    cold, still = {}, {}
    for beta in (300.0,) if run.quick else (300.0, 1000.0):
        times, *moments = upper_cluster(split_law(beta, run.quick), 8.0)
        at = np.array([8.0, 10.0, 12.0, 14.0])
        mean, variance = (each[np.searchsorted(times, at - 1e-9)] for each in moments)
        reduced = CLUSTER.moments(beta, mean[0], variance[0], at)
        because = "terms beyond the Gaussian, of relative order 15 percent"
        for i, t in enumerate(at[1:], start=1):
            centre, width = f"mean at {t:g}, $\\beta={beta:g}$", f"variance at {t:g}, $\\beta={beta:g}$"
            check.row(centre, predicted=reduced[0][i], measured=mean[i], relative=0.15, because=because)
            check.row(width, predicted=reduced[1][i], measured=variance[i], relative=0.15, because=because)
            still[centre] = float(mean[0] * np.exp(-CONTRACTION * (t - 8)))
            cold[width] = float(variance[0] * np.exp(-2 * CONTRACTION * (t - 8)))
    check.rival("a mean that goes on contracting as at zero temperature", still)
    check.rival("a width that goes on contracting as at zero temperature", cold)
    return check


@PAPER.claim(
    "terminal-rate",
    says=r"In the terminal phase ($\beta=10$) all mass goes to the leading axis of $V$, in the end at the rate of "
    r"the gap of $V$.",
    basis=TERMINAL,
    formula=r"\Big(E\min_\pm|\angle(x,\pm e_1)|^2\Big)^{1/2}\sim e^{-(v_1-v_2)t}",
)
def terminal_rate(run: Run) -> Check:
    # A run of a quick length and a second one from its end, with the same program.
    grid = 0.25 * np.arange(FRAMES)
    first = follow(10.0, SPLIT_V, SPLIT_B, quantile_points(TOKENS), grid, 0.25)
    angles = follow(10.0, SPLIT_V, SPLIT_B, first[-1], grid, 0.25)
    distance = axis_distance(angles, 0.0)
    rate = np.log(distance[32] / distance[56]) / 6
    check = Check(parameters={"n": TOKENS, "beta": 10, "t": "24.5 to 30.5"})
    name = "rate towards the axis of $V$"
    check.row(
        name, predicted=0.5, measured=rate, tolerance=0.01, because="the merging of the two clusters, still fading"
    )
    because = "of order e^(-t/2) after the departure at t = 7"
    check.row("distance to the axis at 30.5", predicted=0.0, measured=distance[56], tolerance=1e-3, because=because)
    check.rival("the gap of $VB^\\top$", {name: 0.3})
    check.rival("the leading eigenvalue of $V$", {name: 1.0})
    check.rival("the rate of escape at zero temperature", {name: 1.5})
    check.null("clusters that stay on the axis of $VB^\\top$", {"distance to the axis at 30.5": HALF})
    return check


@PAPER.claim(
    "support-is-not-the-law",
    says=r"The Wasserstein distance to the push-forward is larger than the distance $D$ to its support, because the "
    r"divide between the basins moves: at $\beta=10$, with a shift of mass $\delta$, $W_2^2$ lies above $D^2$ by at "
    r"most $\pi^2\delta$.",
    basis=basis.Derived("tokens on the wrong side of the divide must be carried across"),
    formula=r"D^2<W_2^2\le D^2+\pi^2\delta",
)
def support_is_not_the_law(run: Run) -> Check:
    flow = split_law(10.0, run.quick)
    best = int(np.argmin(flow.support_distance()))
    support, law = flow.support_distance()[best], flow.wasserstein()[best]
    shifted = abs(float(flow.masses[np.sin(flow.angles[best]) > 0].sum()) - UPPER)
    check = Check(parameters={"beta": 10, "t": float(flow.ts[best])}, note=f"D = {support:.4f}, W_2 = {law:.4f}.")
    excess = r"$W_2^2-D^2$ over $\pi^2\delta$"
    found = (law**2 - support**2) / (np.pi**2 * shifted)
    # Of the tokens that stand for the law those next to the divides, at 0 and pi, may be on either side.
    turn = np.sort(np.mod(flow.angles[best], 2 * np.pi))
    order = np.argsort(np.mod(flow.angles[best], 2 * np.pi))
    next_to = [order[np.searchsorted(turn, divide) - np.array([1, 0])] for divide in (0.0, np.pi)]
    because = "the masses of the tokens next to the divides"
    width = found * sum(float(flow.masses[pair].max()) for pair in next_to) / shifted
    below = f"{excess}, from below"
    check.at_most(excess, bound=1.0, measured=found, tolerance=width, because=because)
    check.at_least(below, bound=0.5, measured=found, tolerance=width, because=f"most are near the points; {because}")
    check.null("the distance to the support taken for the law", {below: 0.0})
    check.rival("tokens carried a quarter of the circle", {excess: 0.25})
    return check
