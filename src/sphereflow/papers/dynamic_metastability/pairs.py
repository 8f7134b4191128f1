"""Two clusters: the exact merging time, its asymptotics, where they meet, and their time in the rescaled clock."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from sphereflow.claims import Check, Run, basis
from sphereflow.metastability import coarsen_to_one, log_merging_time, merge_pair
from sphereflow.papers.dynamic_metastability.caps import on_circle
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.reference_solver import integrate
from sphereflow.papers.dynamic_metastability.sources import LEAN

REDUCTION = basis.Derived("two clusters move on their great circle")


def pair_time(
    start: float, end: float, beta: float, masses: tuple[float, float], kind: str, self_weight: float
) -> float:
    """The time from one angle to another by scipy's quadrature; `self_weight` is that of a cluster's own tokens."""
    a, b = masses

    def slowness(u: float) -> float:
        kernel = math.exp(beta * (1 - math.cos(u)))
        if kind == "usa":
            return kernel / ((a + b) * math.sin(u))
        return 1 / (math.sin(u) * (b / (self_weight * a * kernel + b) + a / (self_weight * b * kernel + a)))

    return float(quad(slowness, end, start, epsabs=0, epsrel=1e-12, limit=400)[0])


@PAPER.claim(
    "two-cluster-time",
    says="Ten tokens in two clusters meet at the time that the two-cluster quadrature gives, SA and USA, integrated "
    "directly or as two atoms.",
    basis=REDUCTION,
    formula=r"T=\int\frac{dr}{(1-r^2)\left[\frac{a_2}{a_1E+a_2}+\frac{a_1}{a_2E+a_1}\right]},\quad E=e^{\beta(1-r)}",
)
def two_cluster_time(run: Run) -> Check:
    chord = 2 * math.sin(0.025)
    check = Check(parameters={"tokens": 10, "angles": "1 to 0.05"})
    equal: dict[str, float] = {}
    light: dict[str, float] = {}
    for kind, beta, masses in (("sa", 6, (0.6, 0.4)), ("sa", 12, (0.9, 0.1)), ("usa", 6, (0.9, 0.1))):
        first = round(10 * masses[0])
        theta = np.concatenate([np.zeros(first), np.ones(10 - first)])
        exact = pair_time(1.0, 0.05, beta, masses, kind, 1.0)
        ways = {
            "tokens": integrate(theta, beta, kind, chord).mergers[-1][0],
            "atoms": math.exp(coarsen_to_one(kind, on_circle(theta), beta, radius=chord).log_times[-1]),
            "library's quadrature": math.exp(log_merging_time(1.0, beta, masses, kind, end=0.05)),
        }
        for way, measured in ways.items():
            name = rf"{kind.upper()}, $\beta={beta}$, masses {masses[0]:g} and {masses[1]:g}, {way}"
            check.row(name, predicted=exact, measured=measured, relative=1e-6, because="solver tolerance 1e-10")
            equal[name] = pair_time(1.0, 0.05, beta, (0.5, 0.5), kind, 1.0)
            if kind == "sa":
                light[name] = pair_time(1.0, 0.05, beta, masses, kind, 1 / max(masses))
    check.rival("equal masses", {name: value for name, value in equal.items() if name.startswith("SA")})
    check.rival("the self weight 1 in place of the cluster's mass", light)
    check.rival(
        r"the raw kernel, time shorter by $e^\beta$", {n: v * math.exp(-6) for n, v in equal.items() if "USA" in n}
    )
    return check


@PAPER.claim(
    "laplace-prefactor",
    says=r"At large $\beta$ the logarithm of the merging time is $\beta(1-\cos u)-\log\beta$ less that of a mass "
    r"factor, with a next term $2\cos u/(\beta\sin^2u)$.",
    basis=basis.Derived("Laplace's method for the two-cluster time"),
    formula=r"\log T=\beta(1-\cos u)-\log\big[\beta s\sin^2u\big]+\frac{2\cos u}{\beta\sin^2u}+O(\beta^{-2}),\quad "
    r"s=\tfrac{a_1}{a_2}+\tfrac{a_2}{a_1}\ (\mathrm{SA}),\ a_1+a_2\ (\mathrm{USA})",
)
def laplace_prefactor(run: Run) -> Check:
    check = Check(parameters={"masses": "(.6, .4)", "angle": 1})
    bare: dict[str, float] = {}
    leading: dict[str, float] = {}
    same: dict[str, float] = {}
    for kind, factor in (("sa", 1.5 + 1 / 1.5), ("usa", 1.0)):
        for beta in (40, 80, 160):
            main = beta * (1 - math.cos(1.0)) - math.log(factor * math.sin(1.0) ** 2)
            name = rf"{kind.upper()}, $\beta={beta}$"
            next_term = 2 * math.cos(1.0) / (beta * math.sin(1.0) ** 2)
            check.row(
                name,
                predicted=main - math.log(beta) + next_term,
                measured=log_merging_time(1.0, beta, (0.6, 0.4), kind, end=0.05),
                tolerance=12 / beta**2,
                because="the next term of the expansion, of order 1/beta^2",
            )
            bare[name] = main + next_term
            leading[name] = main - math.log(beta)
            same[name] = check.rows[-1].predicted + (math.log(factor) if kind == "sa" else 0.0)
    check.rival(r"without the $1/\beta$ of the prefactor", bare)
    check.rival("the leading term alone", leading)
    check.rival("the mass factor of USA for SA", {name: value for name, value in same.items() if name.startswith("SA")})
    return check


@PAPER.claim(
    "scalar-collapse-time",
    says="The scalar equation that bounds the collapse inside a cap is passed within its bound, of which neither term "
    "alone would do.",
    basis=basis.Theorem("on the scalar collapse time, u' = u(1-u)exp(beta(u-1))", via=LEAN),
    formula=r" "
    r"\int_{u_0}^{1-e^{-c\beta}}\frac{du}{u(1-u)e^{\beta(u-1)}}\le\frac{e^{\beta(1-u_0)}}{u_0}+\frac{\beta^2ce}{\beta-1}",
)
def scalar_collapse_time(run: Run) -> Check:
    check = Check()
    first: dict[str, float] = {}
    second: dict[str, float] = {}
    for u, beta, c in ((0.9, 20, 0.5), (0.95, 40, 0.3), (0.6, 20, 0.3)):
        name = rf"$u_0={u}$, $\beta={beta}$, $c={c}$"
        # With s = -log(1 - u) as the variable.
        time = quad(lambda s, b=beta: math.exp(b * math.exp(-s)) / -math.expm1(-s), -math.log(1 - u), c * beta)[0]
        first[name] = math.exp(beta * (1 - u)) / u
        second[name] = beta**2 * c * math.e / (beta - 1)
        because = "a theorem, and the accuracy of the quadrature"
        check.at_most(name, bound=first[name] + second[name], measured=time, relative=1e-8, because=because)
    check.rival("the first term alone", first)
    check.rival("the second term alone", second)
    return check


@PAPER.claim(
    "landing-point",
    says="Where an SA pair of masses 0.4 and 0.2 lands: at the mean by squared mass, shifted towards the lighter "
    r"one by $\kappa/\sqrt\beta$; a USA pair lands at the mean by mass.",
    basis=basis.Derived("the ratio of the two speeds along the approach"),
    formula=r"\theta\to\frac{a_1^2\theta_1+a_2^2\theta_2}{a_1^2+a_2^2}+\frac\kappa{\sqrt\beta},\quad "
    r"\kappa=\int_0^\infty\frac{P(a_1^2-a_2^2)}{S(Se^{s^2/2}+2P)}ds,\ P=a_1a_2,\ S=a_1^2+a_2^2",
)
def landing_point(run: Run) -> Check:
    product, squares = 0.08, 0.2
    kappa = quad(lambda s: product * 0.12 / (squares * (squares * math.exp(s * s / 2) + 2 * product)), 0, 30)[0]
    check = Check(parameters={"angles": "0.275 and 1.35", "masses": "(.4, .2)"})
    betas = (100, 1000, 4000)
    for beta in betas:
        end = 1e-3 / math.sqrt(beta)
        landed = 0.275 + merge_pair(1.075, beta, (0.4, 0.2), "sa", end=end).moved[0] + end / 3
        check.row(
            rf"SA, $\beta={beta}$",
            predicted=0.49 + kappa / math.sqrt(beta),
            measured=landed,
            tolerance=0.06 * beta**-1.5 + 1e-7,
            because="the next term, of order beta^(-3/2)",
        )
    usa = 0.275 + merge_pair(1.075, 50, (0.4, 0.2), "usa", end=1e-4).moved[0] + 1e-4 / 3
    mean = 0.275 + 1.075 / 3
    check.row("USA", predicted=mean, measured=usa, tolerance=1e-9, because="an exact conservation law, to rounding")
    check.rival("the mean by mass for SA", {rf"SA, $\beta={b}$": mean for b in betas})
    check.rival("the mean by squared mass without correction", {rf"SA, $\beta={b}$": 0.49 for b in betas})
    check.rival("the mean by squared mass for USA", {"USA": 0.49})
    return check


@PAPER.claim(
    "merge-clock",
    says="In the staircase clock a pair reaches any angle $r$ at the time that a pendulum-like closed form gives, for "
    r"$\beta$ up to $10^{48}$.",
    basis=basis.Derived("the pair equation in the clock of thm: staircase"),
    formula=r"c\,t=\frac{\log(\tan(u_0/2)/\tan(r/2))}{\log\beta}",
)
def merge_clock(run: Run) -> Check:
    check = Check(parameters={"u0": 0.8, "masses": "(.5, .5)"})
    straight: dict[str, float] = {}
    for beta in (1e3, 1e6, 1e12, 1e48):
        for scale, end in (
            ("outer", math.sqrt(math.log(beta) / beta)),
            ("inner", 1 / math.sqrt(beta * math.log(beta))),
        ):
            name = rf"$\beta={beta:g}$, {scale} scale"
            check.row(
                name,
                predicted=math.log(math.tan(0.4) / math.tan(end / 2)) / math.log(beta),
                measured=clock(beta, end),
                tolerance=1e-6 if beta > 1e3 else 1e-4,
                because="quadrature, and the part of the kernel that is not exponentially small",
            )
            straight[name] = math.log(0.8 / end) / math.log(beta)
    check.rival("a straight line in place of the arc, $\\log(u_0/r)$", straight)
    check.rival("the limit 1/2 at once", 0.5)
    return check


@PAPER.claim(
    "merge-clock-limit",
    says="A merger takes the time $1/(2c)$ in the staircase clock as $\\beta\\to\\infty$, $c$ being the mass of the "
    "pair.",
    prints="The duration of a merger in the rescaled clock is centred at $2/c$.",
    basis=basis.Theorem("lemma on the duration of a merger in the rescaled clock", via=LEAN),
    formula=r"\lim_{\beta\to\infty}t=\frac{1}{2c}",
)
def merge_clock_limit(run: Run) -> Check:
    check = Check(note="c times the time, mean of the two gluing scales, less its known correction.")
    for beta in (1e12, 1e24, 1e48):
        ends = (math.sqrt(math.log(beta) / beta), 1 / math.sqrt(beta * math.log(beta)))
        middle = sum(clock(beta, end) for end in ends) / 2
        check.row(
            rf"$\beta={beta:g}$",
            predicted=0.5,
            measured=middle - math.log(2 * math.tan(0.4)) / math.log(beta),
            tolerance=1e-4,
            because="quadrature; the two scales lie symmetrically about 1/2 but for the start",
        )
    check.printed(2.0)
    check.rival("the time 1/c", 1.0)
    check.rival("the time 1/(4c)", 0.25)
    return check


def clock(beta: float, end: float) -> float:
    """c times the clock time of an equal pair from angle 0.8 to angle `end`; c = 1, the total mass."""
    return float(merge_pair(0.8, beta, (0.5, 0.5), "usa", end=end).clocks[-1] / math.log(beta))
