"""Tokens in caps: confinement, collapse, and the two times between which nothing happens."""

from __future__ import annotations

import functools
import math

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.dynamics import SA, USA
from sphereflow.evolution import evolve
from sphereflow.metastability import certify, first_exit
from sphereflow.papers.dynamic_metastability.direct import closing_time, field
from sphereflow.papers.dynamic_metastability.paper import PAPER

OFFSETS = (-0.08, 0.01, 0.07)
MODELS = {"sa": SA, "usa": USA}


def on_circle(theta: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


def three_caps(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Nine tokens in three caps 120 degrees apart, and the centres."""
    centres = 2 * np.pi * np.arange(3) / 3
    return on_circle((centres[:, None] + scale * np.array(OFFSETS)).ravel()), on_circle(centres)


@functools.lru_cache(maxsize=8)
def cap_frames(kind: str, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """(times, tokens) of the nine tokens, dense up to t = 40 and then spread out to t = 10,000."""
    times = np.concatenate([np.linspace(0, 40, 81), np.linspace(40, 600, 29)[1:], np.geomspace(600, 1e4, 12)[1:]])
    return times, np.asarray(evolve(MODELS[kind](beta), three_caps()[0], saveat=times, tol=1e-13).xs)


@PAPER.claim(
    "certificate",
    statement="The constants of three caps: alpha, gamma, the largest lambda, the bound on T1, and log T2.",
    source="definition of separated configurations and theorem on dynamic metastability",
    formula=r"\gamma=1-\alpha-8\varepsilon-\frac1\beta\log\frac{2n^2}{\varepsilon},"
    r"\ \log T_2=(1-\alpha)\beta+\log\frac{\varepsilon}{n}",
    falsifier="alpha taken between tokens, or from the caps of radius epsilon instead of 2 epsilon",
)
def certificate_constants(run: Run) -> Measurement:
    known = (
        (60, 0.004, 1.0, -0.2671628, 1.0583452, 1.1498275, 4.6465e29),
        (30, 0.01, 1.0, -0.1226197, 0.7195275, 0.8702538, 4.70093e11),
        (100, 0.002, 0.5, -0.3378707, 1.2088487, 1.2708335, 2.81692e54),
    )
    predicted, measured, labels = [], [], []
    for beta, epsilon, scale, *constants in known:
        x, centres = three_caps(scale)
        found = certify(x, beta, epsilon, centres=centres)
        predicted += [*constants[:3], math.log(constants[3])]
        measured += [found.alpha, found.gamma, found.lambda_max, found.log_T2]
        labels += [f"{name} beta={beta}" for name in ("alpha", "gamma", "lambda", "log T2")]
    x, centres = three_caps()
    predicted.append(570.60267)
    measured.append(certify(x, 60, 0.004, centres=centres).T1_bound(0.3))
    digits = [5e-8, 5e-8, 5e-8, 1.1e-5] * 2 + [5e-8, 5e-8, 5e-8, 1.8e-6] + [5e-6]
    digits[7] = 1.1e-6
    return agreement(
        predicted,
        measured,
        absolute=np.array(digits) * 1.01,
        because="digits of an independent computation",
        labels=(*labels, "T1 bound, lambda=.3"),
        parameters={"n": 9, "caps": "3 at 120 degrees"},
    )


@PAPER.claim(
    "lambda-condition",
    statement="The corrected condition on lambda says exactly that the bound on T1 lies below T2.",
    source="theorem on dynamic metastability, condition (a) with its logarithm's sign corrected",
    formula=r"\lambda=\frac{(\beta-1)\varepsilon}{\beta^2n^2e}e^{(1-\alpha)\beta}(1-e^{-\gamma\beta})\iff T_1=T_2",
    falsifier="a difference between the two times at the end of the interval",
)
def lambda_condition(run: Run) -> Measurement:
    ratios = []
    for beta, epsilon in ((30.0, 0.01), (60.0, 0.004)):
        x, centres = three_caps()
        found = certify(x, beta, epsilon, centres=centres)
        n = found.n
        end = math.exp((1 - found.alpha) * beta) * -math.expm1(-found.gamma * beta)
        end *= (beta - 1) * epsilon / (beta**2 * n**2 * math.e)
        # The bound on T1 is affine in lambda: read off at two admissible ones, it is continued to the end.
        low, high = found.T1_bound(0.1), found.T1_bound(0.5)
        bound = low + (high - low) / 0.4 * (end - 0.1)
        ratios.append(bound / math.exp(found.log_T2))
    return agreement(
        [1.0, 1.0], ratios, absolute=1e-11, because="an identity, up to rounding of a difference of two bounds"
    )


@PAPER.claim(
    "confinement-and-collapse",
    statement="Up to t = 10,000 tokens stay in the larger caps, and from the T1 bound on they are within 2e^-18.",
    source="theorem on dynamic metastability",
    formula=r"x_i(t)\in S_q(2\varepsilon),\qquad |x_i-x_j|^2\le2e^{-\lambda\beta}\quad(T_1\le t\le T_2)",
    falsifier="a token outside its cap, or two tokens of a cap apart after the T1 bound",
)
def confinement_and_collapse(run: Run) -> Measurement:
    x, centres = three_caps()
    found = certify(x, 60, 0.004, centres=centres)
    bound = found.T1_bound(0.3)
    heights, spreads = [], []
    for kind in MODELS:
        times, frames = cap_frames(kind, 60.0)
        heights.append(min(found.height(x) for x in frames))
        spreads.append(max(found.spread(x) for x in frames[times >= bound]))
    return at_most(
        [0.0, 0.0, 2 * math.exp(-18), 2 * math.exp(-18)],
        [-heights[0], -heights[1], *spreads],
        because="a theorem: no tolerance",
        labels=("outside SA", "outside USA", "spread SA", "spread USA"),
        parameters={"beta": 60, "epsilon": 0.004, "lambda": 0.3, "n": 9},
    )


@PAPER.claim(
    "collapse-inside-caps",
    statement="How fast nine tokens in three caps collapse: squared distances at t=5 and 20, and the time to 2e^-18.",
    source="simulation of the theorem's setting, computed independently",
    falsifier="a wrong time unit or normalisation",
)
def collapse_inside_caps(run: Run) -> Measurement:
    x, centres = three_caps()
    found = certify(x, 60, 0.004, centres=centres)
    predicted = [1.31328e-6, 1.22896e-19, 6.88194, 1.375564e-3, 6.44729e-8, 21.12475]
    measured = []
    for kind in MODELS:
        times, frames = cap_frames(kind, 60.0)
        measured += [found.spread(frames[times == 5.0][0]), found.spread(frames[times == 20.0][0])]
        measured.append(closing_time(x, 60.0, kind, found.labels, 2 * math.exp(-18), 100.0))
    labels = tuple(f"{kind} {what}" for kind in MODELS for what in ("t=5", "t=20", "time"))
    return agreement(
        predicted,
        measured,
        relative=[1e-5, 1e-4, 2e-6, 1e-5, 1e-5, 2e-6],
        labels=labels,
        because="printed digits; distances of 3e-10 carry the solver's 1e-14",
    )


@PAPER.claim(
    "T1-below-bound",
    statement="The collapse inside the caps takes far less than the bound on T1, for several beta and epsilon.",
    source="theorem on dynamic metastability",
    formula=r"T_1\le2ne^{8\varepsilon\beta}+\frac{en\lambda\beta^2}{\beta-1}",
    falsifier="a measured time above the bound",
)
def collapse_below_bound(run: Run) -> Measurement:
    cases = ((30.0, 0.01, 1.6), (60.0, 0.004, 1.0), (100.0, 0.002, 0.75))
    bounds, times, labels = [], [], []
    for beta, epsilon, scale in cases:
        x, centres = three_caps(scale)
        found = certify(x, beta, epsilon, centres=centres)
        for kind in MODELS:
            bounds.append(found.T1_bound(0.3))
            times.append(closing_time(x, beta, kind, found.labels, 2 * math.exp(-0.3 * beta), 1000.0))
            labels.append(f"{kind} beta={beta:g}")
    return at_most(
        bounds,
        times,
        because="a theorem: no tolerance",
        labels=tuple(labels),
        note="measured " + ", ".join(f"{t:.3g}" for t in times),
        parameters={"lambda": 0.3},
    )


@PAPER.claim(
    "differential-inequality",
    statement="The smallest inner product inside a cap grows at least as fast as the paper's inequality says.",
    source="differential inequality behind the theorem",
    formula=r"\dot\rho\ge\frac2n\rho(1-\rho)e^{\beta(\rho-1)}-2ne^{-(1-\alpha)\beta}",
    falsifier="a factor n in the wrong place",
)
def differential_inequality(run: Run) -> Measurement:
    labels = np.repeat(np.arange(3), 3)
    slack = [_smallest_slack(kind, cap_frames(kind, beta)[1], labels, beta) for beta in (30.0, 60.0) for kind in MODELS]
    return at_least(
        [0.0] * 4,
        slack,
        slack=1e-12,
        because="rounding of the vector field",
        labels=("SA beta=30", "USA beta=30", "SA beta=60", "USA beta=60"),
        parameters={"n": 9, "t1": 1e4},
    )


@PAPER.claim(
    "brackets",
    statement="Over random separated starts the certificate's T1 and T2 are never violated by collapse and first exit.",
    source="theorem on dynamic metastability",
    formula=r"T_{\mathrm{collapse}}\le T_1,\qquad T_{\mathrm{exit}}\ge T_2",
    falsifier="one start that collapses later than the T1 bound or leaves its cap before T2",
)
def brackets(run: Run) -> Measurement:
    rows = random_brackets(run.seed, 12 if run.quick else 60, run)
    late = [r["log_collapse"] - r["log_T1"] for r in rows]
    early = [r["log_T2"] - r["log_exit"] for r in rows]
    return at_most(
        np.zeros(2 * len(rows)),
        [*late, *early],
        because="a theorem: no tolerance",
        note=f"{len(rows)} starts; closest: collapse at {math.exp(max(late)):.2g} of the T1 bound, "
        f"exit {-max(early):.2f} e-folds after T2",
        parameters={"starts": len(rows), "d": "2, 3"},
    )


def random_brackets(seed: int, count: int, run: Run) -> list[dict[str, float]]:
    """Random separated starts with their certificates and the simulated collapse and exit, SA and USA in turn."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, float]] = []
    while len(rows) < count:
        d = 2 + len(rows) % 2
        x, beta = _random_caps(rng, d)
        found = certify(x, beta)
        if not found.separated:
            continue
        kind = ("sa", "usa")[len(rows) // 2 % 2]
        rate = min(0.3, found.lambda_max / 2)
        bound = found.T1_bound(rate)
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
                "log_exit": log_exit,
            }
        )
        run.notify(len(rows) / count, "random separated starts")
    return rows


def _random_caps(rng: np.random.Generator, d: int) -> tuple[np.ndarray, float]:
    """Eight tokens near two to four random directions."""
    k = int(rng.integers(2, 5))
    centres = rng.normal(size=(k, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[rng.permutation(np.arange(8) % k)] + rng.uniform(0.005, 0.05) * rng.normal(size=(8, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), float(rng.uniform(40, 120))


def _smallest_slack(kind: str, frames: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """min over times and caps of the derivative of the smallest inner product minus its lower bound."""
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
        bound = 2 / n * rho * (1 - rho) * np.exp(beta * (rho - 1)) - 2 * n * math.exp(-(1 - alpha) * beta)
        worst = min(worst, float(np.min(slope - bound)))
    return worst
