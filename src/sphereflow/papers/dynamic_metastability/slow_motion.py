r"""Slow motion near a manifold: the hypotheses of the framework with their constants, and the two phases they imply."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.metastability import SlowManifold, slow_manifold
from sphereflow.papers.dynamic_metastability.caps import OFFSETS, on_circle
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.sources import LEAN, SLOW_MOTION


@dataclass(frozen=True, eq=False)
class Start:
    """Tokens near clusters, with masses and the cluster of each."""

    x: np.ndarray
    masses: np.ndarray
    labels: np.ndarray

    def constants(self, beta: float, kind: str, x: np.ndarray | None = None) -> SlowManifold:
        return slow_manifold(self.x if x is None else x, beta, kind, masses=self.masses, labels=self.labels)

    def nearer(self, factor: float) -> Start:
        """The same clusters with distances inside them multiplied by the factor."""
        centres = self.constants(1.0, "usa").centres[self.labels]
        x = centres + factor * (self.x - centres)
        return Start(x / np.linalg.norm(x, axis=1, keepdims=True), self.masses, self.labels)


def _on_sphere() -> np.ndarray:
    axes, rows = np.eye(3), []
    for k in range(3):
        for j in range(3):
            p = 2 * math.pi * j / 3 + k
            rows.append(axes[k] + 0.08 * (math.cos(p) * axes[(k + 1) % 3] + math.sin(p) * axes[(k + 2) % 3]))
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


THREES = np.repeat(np.arange(3), 3)
# Uneven on purpose: in a regular polygon nothing moves along the manifold.
EQUAL = Start(on_circle((np.array([0.0, 2.0, 4.1])[:, None] + np.array(OFFSETS)).ravel()), np.full(9, 1 / 9), THREES)
UNEQUAL = Start(
    on_circle(np.array([-0.05, 0.03, 1.06, 1.10, 1.15, 2.57, 2.63])),
    np.array([0.1, 0.3, 0.1, 0.15, 0.05, 0.2, 0.1]),
    np.array([0, 0, 1, 1, 1, 2, 2]),
)
SPHERE = Start(_on_sphere(), np.array([0.05, 0.1, 0.15, 0.1, 0.1, 0.1, 0.2, 0.1, 0.1]), THREES)
STARTS = {"equal masses": EQUAL, "unequal masses": UNEQUAL, "$S^2$": SPHERE}


@lru_cache(maxsize=64)
def frames(name: str, beta: float, kind: str, times: tuple[float, ...]) -> np.ndarray:
    """The tokens at these times, by plain sums and an eighth-order method."""
    start = STARTS[name]

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        x = y.reshape(start.x.shape)
        weights = np.exp(-beta * np.sum((x[:, None] - x[None]) ** 2, axis=-1) / 2) * start.masses
        if kind == "sa":
            weights = weights / weights.sum(axis=1, keepdims=True)
        # Differences first: the pull of a token that is 1e-8 away must not drown in rounding.
        pull = np.einsum("ij,ijd->id", weights, x[None] - x[:, None])
        return np.asarray(pull - np.sum(pull * x, axis=1, keepdims=True) * x).ravel()

    run = solve_ivp(slope, (0, times[-1]), start.x.ravel(), method="DOP853", t_eval=times, rtol=1e-12, atol=1e-15)
    x = run.y.T.reshape(len(times), *start.x.shape)
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


@PAPER.claim(
    "slow-manifold-constants",
    says=r"Near three clusters ($\beta=100$, circle and $S^2$, equal and unequal masses, SA and USA) the energy gap "
    r"to the slow manifold lies between multiples of the squared distance to it, and the dissipation is at least "
    r"$2c$ times the gap, with the constants that the smallest inner product in a cluster gives, along whole runs.",
    basis=basis.Derived("the hypotheses on the energy near a slow manifold, with constants worked out here"),
    formula=r"\frac{1-e^{-y}}{y}\,\frac{m(1+R)}4\le\frac G{\mathrm{dist}^2}\le\frac{m(1+R)}4,\ y=\beta(1-\rho);\qquad "
    r"|\nabla F|^2\ge2cG,\ c=m\rho^2e^{-2\beta(1-\rho)}",
)
def slow_manifold_constants(run: Run) -> Check:
    beta, times = 100.0, tuple(np.linspace(0, 8, 5 if run.quick else 33))
    check = Check(parameters={"beta": beta, "t": "0 to 8"})
    single: dict[str, float] = {}
    quadratic: dict[str, float] = {}
    because = "an inequality: rounding only"
    for name, start in STARTS.items():
        for kind in ("sa", "usa"):
            first, *later = (start.constants(beta, kind, x) for x in frames(name, beta, kind, times))
            at = f"{name}, {kind.upper()}"
            q = int(np.argmin(first.smallest_product))  # the widest cluster
            least, low = f"dissipation over $2cG$ at the start, {at}", f"gap over its lower bound at the start, {at}"
            measured = first.quotient[q] / first.constant[q]
            check.at_least(least, bound=1.0, measured=measured, tolerance=1e-9, because=because)
            single[least] = math.exp(beta * (1 - first.smallest_product[q]))
            measured = first.growth[1, q] / first.growth[0, q]
            check.at_least(low, bound=1.0, measured=measured, tolerance=1e-9, because=because)
            quadratic[low] = float(first.growth[2, q] / first.growth[0, q])
            ratios = [(m.quotient / m.constant, m.growth[1] / m.growth[0], m.growth[2] / m.growth[1]) for m in later]
            measured = min(float(np.min(r)) for r in ratios)
            check.at_least(
                f"least of the three ratios later on, {at}",
                bound=1.0,
                measured=measured,
                tolerance=1e-6,
                because=because,
            )
    check.rival("the gap is that of a quadratic well at every distance", quadratic)
    check.rival("the kernel's decay once, not squared, in $c$", single)
    return check


@PAPER.claim(
    "growth-constant",
    says=r"Where the dissipation is at least $2c$ times the energy gap, the gap is at least $\frac c2$ times the "
    r"squared distance to the manifold, and not more: close to the manifold the two constants belong together.",
    prints=r"The energy gap is at least $2c$ times the squared distance.",
    basis=basis.Theorem("on slow motion near a manifold (Otto-Reznikoff framework), growth of the energy", via=LEAN),
    formula=r"E(u)-E(v)\le\frac1{2c}|\nabla E(u)|^2\ \Rightarrow\ E(u)-E(v)\ge\frac c2|u-v|^2",
)
def growth_constant(run: Run) -> Check:
    check = Check(parameters={"beta": 100, "distances inside clusters": "times 0.01"})
    for name, start in STARTS.items():
        for kind in ("sa", "usa"):
            near = start.nearer(0.01).constants(100.0, kind)
            # Distances in the metric of each flow: that of SA weighs a token by Z, the mass of its cluster here.
            square = near.distance * (near.masses if kind == "sa" else 1.0)
            ratio = near.gap / (near.quotient * square)
            check.row(
                f"gap over $c\\,\\mathrm{{dist}}^2$, {name}, {kind.upper()}",
                predicted=0.5,
                measured=ratio[int(np.argmax(np.abs(ratio - 0.5)))],
                tolerance=5 * 100 * float((1 - near.smallest_product).max()),
                because="terms of relative order beta (1 - rho), with coefficients of a few",
            )
    check.printed(2.0)
    check.rival("without the factor 1/2", 1.0)
    return check


@PAPER.claim(
    "two-phases",
    says=r"The two phases that the constants imply, on the circle in one run each: the energy gap inside a cluster "
    r"falls at least like $e^{-2ct}$, in the end at a rate with a small known correction for the other clusters, and "
    r"far below the gradient along the manifold, while the centres move as slowly as that gradient says.",
    basis=SLOW_MOTION,
    formula=r"G(t)\le G(0)e^{-2ct};\quad\sqrt G\sim e^{-\lambda t},\ \lambda=m_q-\sum_pm_pK_{pq}(\beta\sin^2u-\cos u)\ "
    r"(\mathrm{USA});\quad|\dot z_q|=\Big|\sum_pm_pK_{pq}\sin u_{pq}\Big|",
)
def two_phases(run: Run) -> Check:
    check = Check(parameters={"n": "9 and 7", "beta": "9 and 25"})
    rivals: dict[str, dict[str, float]] = {"alone": {}, "mass": {}, "floor": {}, "steep": {}}
    for name, beta in (("equal masses", 9.0), ("unequal masses", 25.0)):
        for kind, unit in (("sa", 1.0), ("usa", 3.0)):
            times = tuple(unit * np.array([0.0, 1.0, 2.0, 4.0, 8.0, 12.0, 13.5]))
            seen = [STARTS[name].constants(beta, kind, x) for x in frames(name, beta, kind, times)]
            first, late, last = seen[0], seen[-2], seen[-1]
            at = f"{name}, {kind.upper()}"
            q = int(np.argmin(first.constant))
            for m, t in zip(seen[1:4], times[1:4], strict=True):
                bound = f"$\\log G(t)/G(0)$, $t={t:g}$, {at}"
                check.at_most(
                    bound,
                    bound=-2 * first.constant[q] * t,
                    measured=math.log(m.gap[q] / first.gap[q]),
                    tolerance=1e-5,
                    because="an inequality while the caps shrink; rounding of differences",
                )
                rivals["steep"][bound] = -2 * t * (1.0 if kind == "sa" else float(first.masses[q]))
            q = int(np.argmax(np.abs(late.rate - (late.masses if kind == "usa" else 1.0))))
            fall = math.log(late.gap[q] / last.gap[q]) / 2 / (times[-1] - times[-2])
            rate = f"late rate, {at}"
            check.row(rate, predicted=late.rate[q], measured=fall, tolerance=2e-6, because="rounding of differences")
            rivals["alone"][rate] = 1.0 if kind == "sa" else float(late.masses[q])
            if kind == "sa":
                rivals["mass"][rate] = float(late.masses[q])
            below = f"log of the distance at $t={times[-1]:g}$, {at}"
            expected = math.log(seen[-3].gap[q]) / 2 - late.rate[q] * (times[-1] - times[-3])
            check.row(
                below,
                predicted=expected,
                measured=math.log(last.gap[q]) / 2,
                tolerance=1e-3,
                because="what is left at two thirds of the time of faster terms",
            )
            rivals["floor"][below] = max(last.log_gradient, expected)
            p = int(np.argmax(late.log_speed))
            moved = math.log(np.linalg.norm(last.centres[p] - late.centres[p]) / (times[-1] - times[-2]))
            check.row(
                f"log speed of a centre, {at}",
                predicted=_plain_speed(late, p, kind),
                measured=moved,
                tolerance=1e-3,
                because="the speed grows at the rate of its own unstable direction, for a few units of time",
            )
    check.rival("clusters contract as if alone", rivals["alone"])
    check.rival("the rate is the mass in SA too", rivals["mass"])
    check.rival("a floor at the size of the gradient along the manifold", rivals["floor"])
    check.rival("the final rate from the beginning", rivals["steep"])
    swapped = {
        r.name: r.predicted + (1 if "USA" in r.name else -1) * math.log(3) for r in check.rows if "speed" in r.name
    }
    check.rival("speeds of SA and USA exchanged", swapped)
    return check


def _plain_speed(near: SlowManifold, q: int, kind: str) -> float:
    """log |sum m_p K_pq P z_p|, over the whole denominator for SA, by a plain loop."""
    z, pull, total = near.centres[q], np.zeros(near.centres.shape[1]), near.masses[q]
    for p in range(near.k):
        if p != q:
            weight = near.masses[p] * math.exp(near.beta * (near.centres[p] @ z - 1))
            pull += weight * (near.centres[p] - (near.centres[p] @ z) * z)
            total += weight
    return math.log(np.linalg.norm(pull) / (total if kind == "sa" else 1.0))


@PAPER.claim(
    "slow-window",
    says=r"The window that the constants predict is there: nine tokens near three clusters are within a thousandth of "
    r"their first distance before $\log(1000)/c$, and no centre has moved by 0.1 before the slow time, which grows "
    r"exponentially with $\beta$; a run of the tokens themselves departs when the clusters alone do.",
    basis=SLOW_MOTION,
    formula=r"\frac{\log(1/\mathrm{share})}{c}<t<\frac\epsilon{\max_q\sum_pm_pe^{-\beta(1-\cos(D_{pq}-2\epsilon))}}",
)
def slow_window(run: Run) -> Check:
    check = Check(parameters={"share": 1e-3, "moved": 0.1})
    steady: dict[str, float] = {}
    final: dict[str, float] = {}
    for name, start in STARTS.items():
        for beta in (25.0, 100.0):
            near = start.constants(beta, "usa")
            window = near.window(1e-3, 0.1)
            if window is None:  # then the claim is false
                window = (math.inf, -math.inf)
            approach, leave = rf"log approach, {name}, $\beta={beta:g}$", rf"log departure, {name}, $\beta={beta:g}$"
            times = (0.0, *np.arange(16.0, 33.0))
            fallen = [
                bool((start.constants(beta, "usa", x).gap <= 1e-6 * near.gap).all())
                for x in frames(name, beta, "usa", times)
            ]
            arrived = max(times[fallen.index(True)], 1e-9)
            check.at_most(
                approach,
                bound=window[0],
                measured=math.log(arrived),
                tolerance=math.log1p(1 / arrived),
                because="times are seen one apart",
            )
            final[approach] = math.log(math.log(1e3) / float(near.masses.min()))
            because = "the promise of the integrator"
            check.at_least(leave, bound=window[1], measured=near.log_departure(0.1), tolerance=0.005, because=because)
            # Constant speed, taken from the centres as they are.
            steady[leave] = math.log(0.1) - float(near.log_speed.max())
    for kind in ("sa", "usa"):
        start = STARTS["equal masses"]
        check.row(
            rf"log departure of the tokens, equal masses, $\beta=9$, {kind.upper()}",
            predicted=_direct_departure(start, 9.0, kind),
            measured=start.constants(9.0, kind).log_departure(0.1),
            tolerance=1e-3,
            because="the approach takes a few units of a time of e^10",
        )
    check.rival("the distance over the first speed", steady)
    check.rival("approach at the final rate", final)
    return check


def _direct_departure(start: Start, beta: float, kind: str) -> float:
    """log of the time at which the mean of a cluster has turned by 0.1, all tokens integrated in time on the circle."""
    theta = np.arctan2(start.x[:, 1], start.x[:, 0])
    means = np.equal.outer(np.arange(3), start.labels) * start.masses
    means /= means.sum(axis=1, keepdims=True)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        turn = y[None, :] - y[:, None]
        weights = np.exp(-2 * beta * np.sin(turn / 2) ** 2) * start.masses
        pull = np.sum(weights * np.sin(turn), axis=1)
        return np.asarray(pull / weights.sum(axis=1) if kind == "sa" else pull)

    def left(t: float, y: np.ndarray) -> float:
        return 0.1 - float(np.abs(means @ (y - theta)).max())

    left.terminal = True  # type: ignore[attr-defined]
    run = solve_ivp(slope, (0, 1e7), theta, method="LSODA", rtol=1e-10, atol=1e-13, events=left)
    assert run.t_events is not None
    return math.log(run.t_events[0][0])
