"""Whole merge sequences against direct integration, the authors' movie, and the single cluster at the end."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.evolution import evolve
from sphereflow.metastability import coarsen_to_one, log_merging_time
from sphereflow.papers.dynamic_metastability.caps import on_circle, uniform
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.reference_solver import integrate
from sphereflow.papers.dynamic_metastability.sources import MOVIE
from sphereflow.papers.dynamic_metastability.staircase import START, closest_pairs, merge

# The five angles of the authors' movie, in degrees.
KINETIC = np.radians([3.56, 12.28, 104.23, 166.79, 182.66])


@PAPER.claim(
    "last-merger-direct",
    says=r"The last of four mergers of five tokens at $\beta=9$, at $t=3\cdot10^6$, comes with coarsening at the "
    "time of direct integration without it, SA and USA.",
    basis=basis.Extension("merge histories of the true dynamics beyond what can be integrated directly"),
)
def last_merger_direct(run: Run) -> Check:
    check = Check(parameters={"n": 5, "beta": 9})
    names = {kind: f"last merger, {kind.upper()}" for kind in ("sa", "usa")}
    direct = {kind: integrate(START, 9.0, kind, 1e-3 / 3).mergers[-1][0] for kind in names}
    for kind, name in names.items():
        because = "solver tolerance 1e-10 on positions, times beta = 9 in the exponent, over many steps"
        measured = math.exp(merge(kind, 9.0).log_times[-1])
        check.row(name, predicted=direct[kind], measured=measured, relative=1e-6, because=because)
    check.rival("SA and USA exchanged", {names["sa"]: direct["usa"], names["usa"]: direct["sa"]})
    frozen = {}
    for kind, power in (("sa", 2.0), ("usa", 1.0)):
        gaps, _, _, clusters = closest_pairs(power)
        pair = (clusters[3][0][1], clusters[3][1][1])
        frozen[names[kind]] = math.exp(log_merging_time(gaps[-1], 9.0, pair, kind, end=1e-3 / 3))
    check.rival("one pair after the other, the others held fixed", frozen)
    return check


@PAPER.claim(
    "same-sequence",
    says=r"For random starts of six tokens at $\beta=5$ the whole merge sequence is that of direct integration, and "
    "the last time too within half a percent; merging the closest pair again and again gives other sequences.",
    basis=basis.Extension("merge histories of the true dynamics beyond what can be integrated directly"),
    formula=r"|T_{\mathrm{coarse}}/T_{\mathrm{direct}}-1|\le0.005",
)
def same_sequence(run: Run) -> Check:
    rows = sequences(run, 8 if run.quick else 60)
    check = Check(parameters={"n": 6, "beta": 5, "starts": len(rows)}, note="SA and USA, d = 2 and 3")
    differ, worst = "starts with another sequence", "largest deviation of the last time"
    check.same(differ, predicted=0, measured=sum(not same for same, _, _, _ in rows))
    deviation = max(abs(coarse / direct - 1) for _, coarse, direct, _ in rows)
    check.row(worst, predicted=0.0, measured=deviation, tolerance=0.005, because="the promise of the integrator")
    check.null("the closest pair merged again and again", {differ: float(sum(not naive for _, _, _, naive in rows))})
    return check


@PAPER.claim(
    "kinetic-movie",
    says="The five tokens of the authors' movie rest with masses 2/5 and 3/5. The script's layers, which step without "
    "projecting, are slower than the ordinary differential equation by the factor $1+dt$.",
    basis=MOVIE,
    formula=r"\frac{x+dt\,(\mu+r\,x)}{|\cdot|}\approx x+\frac{dt}{1+dt\,r}\,\mu,\quad r\approx1",
)
def kinetic_movie(run: Run) -> Check:
    frames = evolve(SA(4.0), on_circle(KINETIC), saveat=np.array([0.0, 20.0]), tol=1e-11)
    passed = integrate(KINETIC, 4.0, "sa", 1e-3, levels=(0.76,)).levels[0]
    check = Check(parameters={"n": 5, "beta": 4})
    rest = "energy on the plateau, t = 20"
    x = frames.frame(1)
    between = math.exp(4 * (float(x[0] @ x[-1]) - 1))
    check.row(
        rest,
        predicted=(2 / 5) ** 2 + (3 / 5) ** 2 + 2 * 0.4 * 0.6 * between,
        measured=_energy(x),
        tolerance=2e-5,
        because="tokens of a cluster still apart",
    )
    ratio = {dt: f"time of the layers over that of the equation, $dt={dt:g}$" for dt in (0.1, 0.05)}
    for dt, name in ratio.items():
        check.row(
            name,
            predicted=1 + dt,
            measured=_layers(dt) / passed,
            tolerance=0.15 * dt,
            because="what else is of first order in dt, a small part of the correction",
        )
    check.rival("layers as Euler steps of the equation", dict.fromkeys(ratio.values(), 1.0))
    check.rival("twice the correction", {name: 1 + 2 * dt for dt, name in ratio.items()})
    check.rival("masses 1/5 and 4/5", {rest: 0.68})
    check.rival("the limit of large beta, 0.52", {rest: 0.52})
    return check


@PAPER.claim(
    "one-cluster-in-the-end",
    says=r"From random starts of 16 tokens in 3 and 10 dimensions at $\beta=1$ everything is one cluster at "
    r"$t=3000$; at $\beta=20$ it is not yet.",
    basis=basis.Abstract("tokens collapse to a single cluster in infinite time"),
    formula=r"2\beta E_\beta\to1",
)
def one_cluster_in_the_end(run: Run) -> Check:
    # Starts in R^3 are embedded in R^10, where they stay in their subspace: one batch, compiled once.
    starts = [uniform(16, d, run.seed + k) for d in (3, 10) for k in range(3)]
    batch = np.stack([np.pad(x, ((0, 0), (0, 10 - x.shape[1]))) for x in starts])
    names = [f"energy, $d={d}$, start {k + 1}" for d in (3, 10) for k in range(3)]
    check = Check(parameters={"n": 16, "t": 3000, "beta": 1})
    ends = {beta: evolve(SA(beta), batch, saveat=[0.0, 3000.0], tol=1e-9).final for beta in (1.0, 20.0)}
    measured = [_energy(x, 1.0) for x in ends[1.0]]
    because = "distances below 1e-6 at tolerance 1e-9"
    check.series(names, predicted=1.0, measured=measured, tolerance=1e-10, because=because)
    held = [_energy(x, 20.0) for x in ends[20.0]]
    check.null(r"$\beta=20$, in ten dimensions", dict(zip(names[3:], held[3:], strict=True)))
    return check


def sequences(run: Run, count: int) -> list[tuple[bool, float, float, bool]]:
    """(same sequence, last time coarse, last time direct, same by closest pairs) for random starts at beta = 5."""
    rows = []
    for k in range(count):
        rows.append(_sequence(run.seed + k, 2 + k % 2, ("sa", "usa")[k // 2 % 2]))
        run.notify((k + 1) / count, "direct integration")
    return rows


@cache
def _sequence(seed: int, d: int, kind: str) -> tuple[bool, float, float, bool]:
    x, beta = uniform(6, d, 1000 + seed), 5.0
    history = coarsen_to_one(kind, x, beta, errors=False)
    start = np.arctan2(x[:, 1], x[:, 0]) if d == 2 else x
    direct = integrate(start, beta, kind, history.radius).mergers
    order = tuple(pair for _, pair in direct)
    naive = _closest_first(x, 1.0 if kind == "usa" else 2.0) == order
    last = direct[-1][0] if direct else math.nan
    return history.sequence() == order, math.exp(history.log_times[-1]), last, naive


def _closest_first(x: np.ndarray, power: float) -> tuple[frozenset[frozenset[int]], ...]:
    """The sequence of merging the closest pair again and again, as at infinite beta."""
    groups = [(frozenset([i]), p) for i, p in enumerate(x)]
    order = []
    while len(groups) > 1:
        inner = np.array([[a @ b for _, b in groups] for _, a in groups]) - 3 * np.eye(len(groups))
        i, j = divmod(int(np.argmax(inner)), len(groups))
        (left, a), (right, b) = groups[i], groups[j]
        order.append(frozenset([left, right]))
        point = len(left) ** power * a + len(right) ** power * b
        groups = [g for k, g in enumerate(groups) if k not in (i, j)] + [(left | right, point / np.linalg.norm(point))]
    return tuple(order)


def _energy(x: np.ndarray, beta: float = 4.0) -> float:
    return float(np.mean(np.exp(beta * (x @ x.T - 1))))


def _layers(dt: float) -> float:
    """When the layers of the authors' script pass the energy .76.

    A layer is x + dt * (attention output), renormalised, without projection: the radial part of the output, close to
    1, slows every layer by about dt.
    """
    x = on_circle(KINETIC)
    for step in range(1, round(500 / dt)):
        weights = np.exp(4.0 * (x @ x.T - 1))
        x = x + dt * (weights @ x) / weights.sum(axis=1, keepdims=True)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        if step * dt > 300 and _energy(x) >= 0.76:
            return step * dt
    return math.nan
