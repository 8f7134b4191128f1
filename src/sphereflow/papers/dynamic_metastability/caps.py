"""Tokens in caps: confinement, collapse, and the two times between which nothing happens."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.integrate import quad

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA, USA
from sphereflow.evolution import evolve
from sphereflow.metastability import certify, first_exit
from sphereflow.numerics.unit_vectors import unit
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.reference_solver import closing_time, field
from sphereflow.papers.dynamic_metastability.sources import LEAN, METASTABILITY, SLOW_MOTION

OFFSETS = (-0.08, 0.01, 0.07)
MODELS = {"sa": SA, "usa": USA}
LONGEST = 5000.0  # the largest bound on T1 up to which starts are integrated directly


def on_circle(theta: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


PROMISE = 0.005  # of the integrator, for logarithms of times


def uniform(n: int, d: int, seed: int) -> np.ndarray:
    """Independent uniform tokens on the sphere in R^d."""
    return unit(np.random.default_rng(seed).normal(size=(n, d)))


@PAPER.claim(
    "brackets",
    says="Over random separated starts in two or more caps, in two and three dimensions, caps collapse before the "
    "bound on $T_1$ and no token leaves its larger cap before $T_2$.",
    basis=METASTABILITY,
    formula=r"T_{\mathrm{collapse}}\le T_1\le2ne^{8\varepsilon\beta}+\frac{en\lambda\beta^2}{\beta-1},\qquad "
    r"T_{\mathrm{exit}}\ge T_2=\frac\varepsilon n e^{(1-\alpha)\beta}",
)
def brackets(run: Run) -> Check:
    rows = random_brackets(run.seed, 8 if run.quick else 60)
    early = [row["log_T1"] - row["log_collapse"] for row in rows]
    late = [row["log_exit"] - row["log_T2"] for row in rows]
    check = Check(
        note=f"Both bounds are for the worst start: these collapse e^{min(early):.0f} to e^{max(early):.0f} times "
        f"earlier and stay e^{min(late):.0f} to e^{max(late):.0f} times longer, as tokens fill less than the caps.",
        parameters={"starts": len(rows), "d": "2, 3", "n": 8, "largest bound on T1": LONGEST},
    )
    thin, quick = {}, {}
    for k, row in enumerate(rows):
        where = f"start {k + 1}, $d={row['d']:g}$, $\\beta={row['beta']:.0f}$"
        collapse, left = f"log collapse, {where}", f"log exit, {where}"
        because = "a theorem, and the promise of the integrator"
        check.at_most(collapse, bound=row["log_T1"], measured=row["log_collapse"], tolerance=PROMISE, because=because)
        check.at_least(left, bound=row["log_T2"], measured=row["log_exit"], tolerance=PROMISE, because=because)
        thin[left], quick[collapse] = row["log_thin"], 0.0
    check.rival("exit not before $e^{(1-\\cos D)\\beta}$, D the least angle of centres: caps without width", thin)
    check.rival("collapse within the time 1, whatever n, $\\beta$ and $\\varepsilon$", quick)
    return check


@PAPER.claim(
    "exit-time",
    says="Three clusters at the angles 0, 2 and 4.1 move a distance 0.1 after a time that grows like "
    r"$e^{1.4\beta}$ and is that of the closest pair alone; it lies above the theorem's $T_2$.",
    basis=basis.Derived("thm: metastability gives the lower bound; the time itself is that of the closest pair"),
    formula=r"T=\int_{1.8}^{2}\frac{du}{s\,e^{-\beta(1-\cos u)}\sin u},\quad s=\tfrac23\ (\mathrm{USA}),\ 2\ "
    r"(\mathrm{SA})",
)
def exit_time(run: Run) -> Check:
    theta = np.array([0.0, 2.0, 4.1])
    x, centres = on_circle(np.repeat(theta, 3)), on_circle(theta)
    epsilon = (1 - math.cos(0.1)) / 2
    check = Check(parameters={"n": 9, "gap": 2, "moved": 0.1, "epsilon": epsilon})
    steady: dict[str, float] = {}
    swapped: dict[str, float] = {}
    bound: dict[str, float] = {}
    for beta in (100.0, 200.0, 400.0):
        found = certify(x, beta, epsilon, centres=centres)
        # Of the integrand only e^{beta(1 - cos u)} is large: its largest value, at the first gap, is taken out.
        first = beta * (1 - math.cos(2.0))
        shape = quad(lambda u, b=beta, f=first: math.exp(b * (1 - math.cos(u)) - f) / math.sin(u), 1.8, 2.0)[0]
        for kind, speed in (("sa", 2.0), ("usa", 2 / 3)):
            name = rf"$\log T$, {kind.upper()}, $\beta={beta:g}$"
            measured = first_exit(found, kind, x)
            check.row(
                name,
                predicted=first + math.log(shape / speed),
                measured=measured,
                tolerance=2 * math.exp(-beta * (math.cos(2.0) - math.cos(2.1))) + 1e-4,
                because="the pull of the third cluster, at the gap 2.1",
            )
            above, because = f"{name}, above $T_2$", "a theorem, and the promise of the integrator"
            check.at_least(above, bound=found.log_T2, measured=measured, tolerance=PROMISE, because=because)
            steady[name] = first + math.log(0.2 / (speed * math.sin(2.0)))
            swapped[name] = first + math.log(shape * speed * 3 / 4)
            bound[name] = found.log_T2
    check.rival("constant speed, distance over initial speed", steady)
    check.rival("SA and USA equally fast but for their masses exchanged", swapped)
    check.rival("the theorem's bound taken for the time", bound)
    return check


@PAPER.claim(
    "relaxation-rates",
    says="Tokens of a cap approach each other exponentially, at the rate of the cap's mass under USA and at the rate 1 "
    "under SA whatever the mass: the clusters of coinciding tokens are a slow manifold that attracts.",
    basis=SLOW_MOTION,
    formula=r"|x_i-x_j|\sim e^{-m_qt}\ (\mathrm{USA}),\qquad e^{-t}\ (\mathrm{SA})",
)
def relaxation_rates(run: Run) -> Check:
    beta, sizes = 40.0, (2, 3, 4)
    centres = np.array([0.0, 2.0, 4.1])
    offsets = [np.array(OFFSETS[:2]), np.array(OFFSETS), np.array((*OFFSETS, 0.03))]
    theta = np.concatenate([c + o for c, o in zip(centres, offsets, strict=True)])
    edges = np.cumsum((0, *sizes))
    check = Check(parameters={"n": 9, "beta": beta, "tokens in caps": sizes})
    swapped: dict[str, float] = {}
    smallest: dict[str, float] = {}
    for kind, first, last in (("sa", 8.0, 12.0), ("usa", 24.0, 36.0)):
        times = np.append(np.linspace(0, first, 50), last)
        frames = np.asarray(evolve(MODELS[kind](beta), on_circle(theta), saveat=times, tol=1e-13).xs)[-2:]
        for q, size in enumerate(sizes):
            cap = frames[:, edges[q] : edges[q + 1]]
            spread = np.linalg.norm(cap - cap.mean(axis=1, keepdims=True), axis=(1, 2))
            name = f"{kind.upper()}, mass {size}/9"
            check.row(
                name,
                predicted=1.0 if kind == "sa" else size / 9,
                measured=np.log(spread[0] / spread[1]) / (last - first),
                relative=2e-3,
                because="what is left of the nonlinear part at the first of the two times, and of the other caps",
            )
            swapped[name] = size / 9 if kind == "sa" else 1.0
            smallest[name] = 1.0 if kind == "sa" else 2 / 9
    check.rival("the rate 1 under USA and the mass under SA", swapped)
    check.rival("all caps at the smallest rate", smallest)
    check.rival("rates of the squared distance", check.times(2.0))
    return check


@PAPER.claim(
    "differential-inequality",
    says="Along runs of nine tokens in three caps the smallest inner product inside a cap grows at least as fast as "
    "the paper's inequality says.",
    basis=basis.Equation("of the smallest inner product in a cap", via=LEAN),
    formula=r"\dot\rho\ge\frac2n\rho(1-\rho)e^{\beta(\rho-1)}-2ne^{-(1-\alpha)\beta}",
)
def differential_inequality(run: Run) -> Check:
    labels = np.repeat(np.arange(3), 3)
    centres = 2 * np.pi * np.arange(3) / 3
    x0 = on_circle((centres[:, None] + np.array(OFFSETS)).ravel())
    times = np.concatenate([np.linspace(0, 10, 41), np.geomspace(10, 100, 11)[1:]])
    check = Check(parameters={"n": 9, "t": 100})
    counted: dict[str, float] = {}
    for beta in (30.0, 60.0):
        for kind in MODELS:
            frames = np.asarray(evolve(MODELS[kind](beta), x0, saveat=times, tol=1e-13).xs)
            name = rf"smallest slack, {kind.upper()}, $\beta={beta:g}$"
            check.at_least(
                name,
                bound=0.0,
                measured=smallest_slack(kind, frames, labels, beta, 1 / 9),
                tolerance=1e-12,
                because="rounding of the vector field",
            )
            counted[name] = smallest_slack(kind, frames, labels, beta, 1.0 if kind == "usa" else 3.0)
    check.null("without the factor 1/n (for SA: 3 in its place)", counted)
    return check


@cache
def random_brackets(seed: int, count: int) -> list[dict[str, float]]:
    """Random separated starts with their certificates and the simulated collapse and exit, SA and USA in turn."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, float]] = []
    while len(rows) < count:
        d = 2 + len(rows) % 2
        x, beta = _random_caps(rng, d)
        found = certify(x, beta)
        if not found.separated or len(found.centres) < 2:  # one cap alone is never left
            continue
        kind = ("sa", "usa")[len(rows) // 2 % 2]
        rate = min(0.3, found.lambda_max / 2)
        bound = found.T1_bound(rate)
        if bound > LONGEST:
            continue
        collapse = closing_time(x, beta, kind, found.labels, 2 * math.exp(-rate * beta), 2 * bound)
        if collapse == 0:  # collapsed from the beginning: nothing to bracket
            continue
        log_exit = first_exit(found, kind, x)
        rows.append(
            {
                "beta": beta,
                "d": d,
                "log_collapse": math.log(collapse),
                "log_T1": math.log(bound),
                "log_T2": found.log_T2,
                "log_thin": beta * (1 - nearest(found.centres)),
                "log_exit": log_exit,
            }
        )
    return rows


def nearest(centres: np.ndarray) -> float:
    """The largest inner product of two centres."""
    return float((centres @ centres.T - 2 * np.eye(len(centres))).max())


def _random_caps(rng: np.random.Generator, d: int) -> tuple[np.ndarray, float]:
    """Eight tokens near two to four random directions."""
    k = int(rng.integers(2, 5))
    centres = rng.normal(size=(k, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[rng.permutation(np.arange(8) % k)] + rng.uniform(0.005, 0.05) * rng.normal(size=(8, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), float(rng.uniform(40, 120))


def smallest_slack(kind: str, frames: np.ndarray, labels: np.ndarray, beta: float, factor: float) -> float:
    """min over times and caps of the derivative of the smallest inner product minus its lower bound.

    `factor` stands for the 1/n of the bound.
    """
    n = len(labels)
    same = labels[:, None] == labels[None, :]
    inner = np.einsum("tid,tjd->tij", frames, frames)
    alpha = float(inner[:, ~same].max())
    velocity = np.stack([field(x, beta, kind) for x in frames])
    rates = np.einsum("tid,tjd->tij", velocity, frames)
    rates = rates + np.swapaxes(rates, 1, 2)
    worst = math.inf
    for q in np.unique(labels):
        members = np.flatnonzero(labels == q)
        block = inner[:, members][:, :, members].reshape(len(frames), -1)
        rate = rates[:, members][:, :, members].reshape(len(frames), -1)
        at = np.argmin(block, axis=1)
        rho, slope = (np.take_along_axis(table, at[:, None], 1)[:, 0] for table in (block, rate))
        bound = 2 * factor * rho * (1 - rho) * np.exp(beta * (rho - 1)) - 2 * n * math.exp(-(1 - alpha) * beta)
        worst = min(worst, float(np.min(slope - bound)))
    return worst
