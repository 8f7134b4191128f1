"""Two clusters: the exact merging time, its asymptotics, and its duration in the rescaled clock."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.metastability import coarsen_to_one, laplace_log_time, log_merging_time, merge_pair
from sphereflow.papers.dynamic_metastability.caps import on_circle
from sphereflow.papers.dynamic_metastability.direct import integrate
from sphereflow.papers.dynamic_metastability.paper import PAPER

MASSES = ((0.5, 0.5), (0.6, 0.4), (0.9, 0.1))
# Times from angle 1 to angle 0.05, recomputed independently: SA for the three masses, USA for any.
SA_TIMES = {6: (5.0970277, 4.9660049, 3.5962308), 12: (20.4327308, 19.1346553, 6.9930464)}
USA_TIMES = {6: 7.1099668, 12: 37.7813730}


@PAPER.claim(
    "two-cluster-time",
    statement="Ten tokens in two clusters meet at the time that the exact two-cluster quadrature gives, SA and USA.",
    source="two-cluster reduction of the metastable phase; derived",
    formula=r"T=\int\frac{dr}{(1-r^2)\left[\frac{a_2}{a_1E+a_2}+\frac{a_1}{a_2E+a_1}\right]},\quad E=e^{\beta(1-r)}",
    falsifier="a self weight left out of the softmax denominator, the raw kernel in USA, or masses mixed up",
)
def two_cluster_time(run: Run) -> Measurement:
    predicted, measured, labels = [], [], []
    chord = 2 * math.sin(0.025)
    for beta in (6, 12):
        for kind in ("sa", "usa"):
            for k, masses in enumerate(MASSES):
                first = round(10 * masses[0])
                theta = np.concatenate([np.zeros(first), np.ones(10 - first)])
                table = SA_TIMES[beta][k] if kind == "sa" else USA_TIMES[beta]
                tokens = integrate(theta, beta, kind, chord).mergers[-1][0]
                quadrature = math.exp(log_merging_time(1.0, beta, masses, kind, end=0.05))
                atoms = math.exp(coarsen_to_one(kind, on_circle(theta), beta, radius=chord).log_times[-1])
                predicted += [table] * 3
                measured += [tokens, quadrature, atoms]
                labels += [f"{kind} beta={beta} {masses} {way}" for way in ("tokens", "quadrature", "atoms")]
    return agreement(
        predicted,
        measured,
        relative=1e-6,
        because="tolerance of the solver, 1e-10, and eight printed digits",
        labels=tuple(labels),
        parameters={"tokens": 10, "angles": "1 to 0.05"},
    )


@PAPER.claim(
    "laplace-prefactor",
    statement="At large beta the merging time is e^(beta(1-r)) over beta (1-r^2) times a mass factor.",
    source="Laplace asymptotics of the two-cluster time; derived",
    formula=r"T\sim\frac{e^{\beta(1-r_0)}}{\beta(1-r_0^2)\left(\frac{a_1}{a_2}+\frac{a_2}{a_1}\right)}",
    falsifier="a missing 1/beta in the prefactor",
)
def laplace_prefactor(run: Run) -> Measurement:
    betas = (40, 80, 160)
    ratios = [
        math.exp(log_merging_time(1.0, b, (0.6, 0.4), kind, end=0.05) - laplace_log_time(1.0, b, (0.6, 0.4), kind))
        for kind in ("sa", "usa")
        for b in betas
    ]
    labels = tuple(f"{kind} beta={b}" for kind in ("sa", "usa") for b in betas)
    return agreement(
        [1.04380, 1.02035, 1.00984] * 2,
        ratios,
        absolute=5.1e-6,
        because="independent quadrature, five decimals",
        labels=labels,
        parameters={"masses": "(.6, .4)", "angle": 1},
    )


@PAPER.claim(
    "scalar-collapse-time",
    statement="The scalar inequality that bounds the collapse inside a cap is passed in less than its bound.",
    source="lemma on u' = u(1-u)e^(beta(u-1))",
    formula=r"\int_{u_0}^{1-e^{-c\beta}}\frac{du}{u(1-u)e^{\beta(u-1)}}\le\frac{e^{\beta(1-u_0)}}{u_0}+\frac{\beta^2ce}{\beta-1}",
    falsifier="an exact time above the bound",
)
def scalar_collapse_time(run: Run) -> Measurement:
    cases = ((0.9, 20, 0.5), (0.95, 40, 0.3), (0.8, 12, 0.5))
    exact = [11.722497, 12.853065, 10.476685]
    times = [_collapse_by_integration(*case) for case in cases]
    bounds = [math.exp(b * (1 - u)) / u + b**2 * c * math.e / (b - 1) for u, b, c in cases]
    within = at_most(bounds, times, because="a theorem")
    assert within.verdict == "holds", within.note
    return agreement(
        exact,
        times,
        relative=1e-6,
        because="independent quadrature, eight digits; solver tolerance 1e-11",
        labels=tuple(f"u0={u}, beta={b}, c={c}" for u, b, c in cases),
        note=f"bounds {', '.join(f'{bound:.6f}' for bound in bounds)}, all above the times",
    )


@PAPER.claim(
    "merge-clock",
    statement="In the staircase clock a pair reaches the gluing scales at log(tan(u/2)/tan(r/2))/(c log beta).",
    source="merge duration in the rescaled clock; derived",
    formula=r"c\,t=\frac{\log(\tan(u_0/2)/\tan(r/2))}{\log\beta}",
    falsifier="a clock off by a constant, or by e^beta through the raw kernel",
)
def merge_clock(run: Run) -> Measurement:
    outer = [0.335746, 0.392829, 0.433872, 0.460664, 0.477196]
    inner = [0.615607, 0.582890, 0.553988, 0.533265, 0.519768]
    betas = (1e3, 1e6, 1e12, 1e24, 1e48)
    measured = [_clock(b, math.sqrt(math.log(b) / b)) for b in betas]
    measured += [_clock(b, 1 / math.sqrt(b * math.log(b))) for b in betas]
    labels = tuple(f"beta={b:g}, {name}" for name in ("outer", "inner") for b in betas)
    return agreement(
        outer + inner,
        measured,
        absolute=5.1e-7,
        because="six printed digits of the closed form",
        labels=labels,
        parameters={"u0": 0.8, "masses": "(.5, .5)"},
    )


@PAPER.claim(
    "merge-clock-centre",
    statement="A merger takes the time 1/(2c) in the staircase clock; the paper's lemma says 2/c.",
    source="lemma on the duration of a merger",
    formula=r"\lim_{\beta\to\infty}t=\frac{1}{2c}",
    falsifier="a limit of 2/c",
)
def merge_clock_centre(run: Run) -> Measurement:
    beta = 1e48
    middle = (_clock(beta, math.sqrt(math.log(beta) / beta)) + _clock(beta, 1 / math.sqrt(beta * math.log(beta)))) / 2
    # The mean of the two is 1/2 + log(2 tan(u0/2))/log(beta) up to exponentially small terms.
    away = abs(math.log(2 * math.tan(0.4))) / math.log(beta)
    return agreement(
        0.5,
        middle,
        absolute=1.001 * away,
        because="distance of the closed form from its limit at beta = 1e48",
        printed=2.0,
        note="c times the time, mean of the two gluing scales",
        parameters={"beta": beta},
    )


def _clock(beta: float, end: float) -> float:
    """c times the clock time of an equal pair from angle 0.8 to angle `end`; c = 1, the total mass."""
    return float(merge_pair(0.8, beta, (0.5, 0.5), "usa", end=end).clocks[-1] / math.log(beta))


def _collapse_by_integration(u0: float, beta: float, c: float) -> float:
    """The time from u0 to 1 - e^{-c beta} of u' = u(1-u)e^{beta(u-1)}, with s = -log(1-u) as the unknown."""
    s0, s1 = -math.log(1 - u0), c * beta
    slope = lambda s, t: [math.exp(beta * math.exp(-s)) / -math.expm1(-s)]  # noqa: E731
    return float(solve_ivp(slope, (s0, s1), [0.0], method="DOP853", rtol=1e-11, atol=1e-12).y[0, -1])
