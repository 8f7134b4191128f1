r"""Mean numbers of modes: certain counts beside the Gaussian Kac-Rice formula and the uniform predictor.

$$\mathbb E\#[-T_0,T_0]\approx\int_{-T_0}^{T_0}\rho_G\,dt,\qquad
  \mathbb E\#\approx\int\sqrt\beta\,f\big(n\varphi(t)/\sqrt\beta\big)D(t)\,dt,\qquad T_0=\sqrt{2\log n-\log\beta}.$$
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from sphereflow.claims import Check, Run, basis
from sphereflow.modes import (
    ModeSample,
    belt_fraction,
    edge,
    expected_modes,
    find_modes,
    gaussian_modes,
    limit_constant,
    sample_modes,
    saturated_rate,
)
from sphereflow.modes.kac_rice import belt
from sphereflow.papers.kde_modes import PAPER
from sphereflow.papers.kde_modes.formulas import curvature, slope
from sphereflow.papers.kde_modes.sources import LEAN

# n, beta, repetitions of the paper preset.
PAIRS = (
    (1000, 30.0, 11000),
    (1000, 100.0, 3000),
    (1000, 300.0, 3000),
    (1000, 1000.0, 1500),
    (10000, 100.0, 3100),
    (10000, 300.0, 2100),
    (10000, 1000.0, 1000),
    (10000, 10000.0, 1000),
    (3000, 54772.0, 1000),
)
_QUICK_REPEATS = 500


@lru_cache(maxsize=32)
def sampled(n: int, beta: float, repeats: int, seed: int) -> ModeSample:
    """Monte Carlo of one pair; several claims and pictures look at the same one."""
    return sample_modes(n, beta, repeats, seed=seed)


def samples(run: Run) -> list[ModeSample]:
    """The Monte Carlo of this preset: n = 1000 only when quick."""
    chosen = [pair for pair in PAIRS if pair[0] == 1000] if run.quick else list(PAIRS)
    found = []
    for k, (n, beta, repeats) in enumerate(chosen):
        found.append(sampled(n, beta, _QUICK_REPEATS if run.quick else repeats, run.seed + 1))
        run.notify((k + 1) / len(chosen), f"n={n}, beta={beta:g}")
    return found


def label(n: float, beta: float) -> str:
    return f"$n={n:g}$, $\\beta={beta:g}$"


def plain_kac_rice(n: float, beta: float, high: float, *, correlated: bool = True) -> float:
    """2 int_0^high rho_G dt by the trapezoidal rule in t, with moments by the trapezoidal rule in the sample."""
    t = np.linspace(0.0, high, 2001)
    u = np.linspace(-12, 12, 241) * beta**-0.5
    weight = np.exp(-((t[:, None] - u) ** 2) / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    g, c = slope(u, beta), curvature(u, beta)
    m1, m2 = weight @ g, weight @ c
    s11, s22 = weight @ g**2 - m1**2, weight @ c**2 - m2**2
    s12 = weight @ (g * c) - m1 * m2 if correlated else 0.0
    a, v = n * (m2 - s12 / s11 * m1), n * (s22 - s12**2 / s11)
    mean = a * ndtr(a / np.sqrt(v)) + np.sqrt(v / (2 * math.pi)) * np.exp(-(a**2) / (2 * v))
    density = np.exp(-n * m1**2 / (2 * s11)) / np.sqrt(2 * math.pi * n * s11) * mean
    return float(2 * np.trapezoid(density, t))


@PAPER.claim(
    "gaussian-values",
    says="The Gaussian Kac-Rice integral of the library is that of a plain double trapezoidal rule.",
    basis=basis.Theorem("thm:kac-rice", via=LEAN),
    formula=r"\int_{-T_0}^{T_0}\rho_G\,dt,\qquad T_0=\sqrt{2\log n-\log\beta}",
)
def gaussian_values(run: Run) -> Check:
    check = Check()
    pairs = [(n, beta) for n, beta, _ in PAIRS]
    for n, beta in pairs:
        check.row(
            label(n, beta),
            predicted=plain_kac_rice(n, beta, edge(n, beta)),
            measured=gaussian_modes(n, beta),
            relative=1e-5,
            because="trapezoidal rule with 2,000 steps in t",
        )
    check.rival(
        "slope and curvature independent",
        [plain_kac_rice(n, beta, edge(n, beta), correlated=False) for n, beta in pairs],
    )
    check.rival("no truncation at $T_0$", [plain_kac_rice(n, beta, edge(n, beta) + 1) for n, beta in pairs])
    return check


@PAPER.claim(
    "kac-rice",
    says="The mean number of modes in $[-T_0,T_0]$ is what the Gaussian Kac-Rice formula says, up to 2.5 %.",
    basis=basis.Theorem("thm:kac-rice", via=LEAN),
    formula=r"\mathbb E\#[-T_0,T_0]\approx2\int_0^{T_0}\rho_G\,dt",
)
def kac_rice(run: Run) -> Check:
    found = samples(run)
    check = Check(parameters={"repeats": [len(s.modes.counts) for s in found]})
    for s in found:
        check.row(
            label(s.n, s.beta),
            predicted=gaussian_modes(s.n, s.beta),
            measured=s.inside.value,
            error=s.inside.error,
            repeats=len(s.modes.counts),
            relative=0.025,
            because="standard error, and 2.5 % since the law is not Gaussian near T0",
        )
    check.rival(
        "the slope of the true density ignored", [2 * edge(s.n, s.beta) * saturated_rate(s.beta) for s in found]
    )
    check.rival("the tail beyond $T_0$ included", [expected_modes(s.n, s.beta) for s in found])
    return check


@PAPER.claim(
    "uniform-predictor",
    says="The mean number of modes on the whole line is what the Kac-Rice formula with a Poisson tail says; all counts "
    "are certain.",
    basis=basis.Extension("a predictor for the whole line, where the paper gives the order"),
    formula=r"\mathbb E\#\approx\int\sqrt\beta\,f\big(n\varphi(t)/\sqrt\beta\big)D(t)\,dt",
)
def uniform_predictor(run: Run) -> Check:
    found = samples(run)
    check = Check(parameters={"repeats": [len(s.modes.counts) for s in found]})
    for s in found:
        check.row(
            label(s.n, s.beta),
            predicted=expected_modes(s.n, s.beta),
            measured=s.everywhere.value,
            error=s.everywhere.error,
            repeats=len(s.modes.counts),
            relative=0.02,
            because="standard error, and 2 % for the predictor",
        )
    rows = [row.name for row in check.rows]
    check.same("counts not certain", predicted=0, measured=sum(s.modes.undecided for s in found))
    inside = [gaussian_modes(s.n, s.beta) for s in found]
    check.rival("the sparse tail left out", dict(zip(rows, inside, strict=True)))
    limits = [limit_constant(math.log(s.beta) / math.log(s.n)) * math.sqrt(s.beta * math.log(s.beta)) for s in found]
    check.rival("the constant of the limit", dict(zip(rows, limits, strict=True)))
    return check


@PAPER.claim(
    "million",
    says="Samples of a million points have the predicted number of modes, at three bandwidths.",
    basis=basis.Extension("sizes that a grid search cannot reach"),
    formula=r"n=10^6,\quad \beta=10^2,\,10^4,\,10^6",
)
def million(run: Run) -> Check:
    n, repeats = 1_000_000, 4 if run.quick else 20
    check = Check(parameters={"n": n, "samples": repeats})
    drawn = [np.random.default_rng(run.seed + 6 + k).standard_normal(n) for k in range(repeats)]
    undecided = 0
    for beta in (1e2, 1e4, 1e6):
        found = [find_modes(sample, beta) for sample in drawn]
        predicted = expected_modes(n, beta)
        check.row(
            f"$\\beta={beta:g}$",
            predicted=predicted,
            measured=np.mean([len(modes) for modes in found]),
            error=math.sqrt(predicted / repeats),
            relative=0.02,
            because="modes repel each other, so a count spreads less than a Poisson number; and 2 %",
        )
        undecided += sum(modes.undecided for modes in found)
    names = [row.name for row in check.rows]
    saturated = [2 * edge(n, beta) * saturated_rate(beta) for beta in (1e2, 1e4, 1e6)]
    check.rival("the slope of the true density ignored", dict(zip(names[:2], saturated, strict=False)))
    check.rival(r"growth like $\sqrt\beta$ beyond $\beta=10^4$", {names[2]: 10 * check.rows[1].predicted})
    check.same("counts not certain", predicted=0, measured=undecided)
    return check


@PAPER.claim(
    "belt",
    says="The share of modes in the two belts is as predicted; at feasible $n$ it need not be a majority.",
    basis=basis.Theorem("location of modes, after thm:main-result", via=LEAN),
    formula=r"t^2\in[2\log n-3\log\beta,\ 2\log n-\log\beta]",
)
def belts(run: Run) -> Check:
    found = samples(run)
    check = Check()
    for s in found:
        check.row(
            label(s.n, s.beta),
            predicted=belt_fraction(s.n, s.beta),
            measured=s.belt_fraction.value,
            error=s.belt_fraction.error,
            repeats=len(s.modes.counts),
            tolerance=0.02,
            because="standard error, and 0.02 for the predictor",
        )
    even = []
    for s in found:
        inner, outer = belt(s.n, s.beta)
        even.append((outer - inner) / outer * gaussian_modes(s.n, s.beta) / expected_modes(s.n, s.beta))
    check.rival("modes spread evenly over $[-T_0,T_0]$", even)
    check.rival("all modes in the belts, as in the limit", 1.0)
    return check
