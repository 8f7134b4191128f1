r"""The theorem from samples: certain counts for $\beta=n^a$ over its whole range, beside the predictor.

$$\mathbb E\#=\Theta(\sqrt{\beta\log\beta}),\qquad \beta=n^a,\quad 0<a<2.$$
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.modes import edgeworth_density, edgeworth_modes, expected_modes
from sphereflow.papers.kde_modes import PAPER
from sphereflow.papers.kde_modes.formulas import curvature, slope
from sphereflow.papers.kde_modes.sources import LEAN
from sphereflow.papers.kde_modes.table import sampled

# n, exponent, repetitions, seed: those of `logarithm-in-the-count` where it has the same ones.
QUICK = (
    (1_000, 0.1, 100, 40),
    (1_000, 0.5, 300, 40),
    (1_000, 1.0, 1000, 7),
    (1_000, 1.9, 40, 40),
    (100_000, 0.1, 4, 40),
    (100_000, 0.5, 16, 40),
    (100_000, 1.0, 40, 7),
    (20_000, 1.5, 8, 40),
)
FULL = (
    *((1_000, a, 4_000, 40) for a in (0.1, 0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 1.9)),
    *((100_000, a, 100, 40) for a in (0.1, 0.25, 0.5, 0.75, 1.25)),
    *((n, 1.0, repeats, 7) for n, repeats in ((1_000, 4000), (100_000, 400), (1_000_000, 40), (10_000_000, 8))),
    *((100_000, a, 20, 40) for a in (1.5, 1.75, 1.9)),
    *((1_000_000, a, 20, 40) for a in (0.1, 0.25, 0.5, 0.75)),
    *((10_000_000, a, 8, 40) for a in (0.5, 0.75)),
)


@PAPER.claim(
    "counts-along-powers",
    says=r"For $\beta=n^a$, $a$ from 0.1 to 1.9, certain counts agree with the Kac-Rice predictor without a free "
    r"parameter ($n=10^3$ to $10^5$; to $10^7$ in the paper preset), which therefore may be carried on. A count "
    r"that is $\sqrt\beta$ times no logarithm, its fourth root or the logarithm itself, with a factor fixed for "
    r"each $a$ at $n=10^3$, is rejected.",
    basis=basis.Theorem("thm:main-result", via=LEAN),
    formula=r"\mathbb E\#=\Theta(\sqrt{\beta\log\beta}),\qquad n^c\lesssim\beta\lesssim n^{2-c}",
)
def counts_along_powers(run: Run) -> Check:
    check = Check()
    rivals: dict[float, dict[str, float]] = {0.0: {}, 0.25: {}, 1.0: {}}
    cases = QUICK if run.quick else FULL
    for n, a, repeats, seed in cases:
        beta = float(n) if a == 1 else n**a
        counted = sampled(n, beta, repeats, run.seed + seed)
        name = f"$a={a:g}$, $n={n:g}$"
        check.row(
            name,
            predicted=expected_modes(n, beta, edgeworth=beta < n),
            measured=counted.everywhere.value,
            error=counted.everywhere.error,
            repeats=repeats,
            relative=0.02,
            because="standard error, and 2 % for the predictor, which joins dense and sparse samples",
        )
        if counted.modes.undecided:
            check.at_most(f"undecided, {name}", bound=0, measured=counted.modes.undecided, because="certain")
        if n > 1000 and a >= 0.5:
            start = 1000.0**a
            for power, told in rivals.items():
                growth = math.sqrt(beta / start) * (math.log(beta) / math.log(start)) ** power
                told[name] = expected_modes(1000, start) * growth
        run.notify(len(check.rows) / len(cases), name)
    check.rival("no logarithm", rivals[0.0])
    check.rival(r"$\log^{1/4}\beta$", rivals[0.25])
    check.rival(r"$\log\beta$", rivals[1.0])
    return check


def exact_density(t: float, n: int, beta: float, reach: float = 24.0, side: int = 260) -> float:
    """rho(t) by Fourier inversion of the n-th power of the characteristic function of (G, G'), by plain sums."""
    u = np.linspace(-9, 9, 361) * beta**-0.5
    mass = np.exp(-((t - u) ** 2) / 2) / math.sqrt(2 * math.pi) * (u[1] - u[0])
    g, c = slope(u, beta), curvature(u, beta)
    first, second = math.sqrt(n * mass @ g**2), math.sqrt(n * mass @ c**2)
    # Half of the plane: the other half is the complex conjugate.
    a, b = np.linspace(-reach, reach, 2 * side) / first, (np.arange(side) + 0.5) * reach / side / second
    law = (mass * np.exp(1j * np.outer(a, g))) @ np.exp(1j * np.outer(c, b)) - mass.sum()
    along = np.sum(np.exp(n * np.log1p(law)), axis=0) * (a[1] - a[0])
    y = np.linspace(0, 12, 600) * second
    density = 2 * np.real(np.exp(-1j * np.outer(y, b)) @ along) * (b[1] - b[0]) / (4 * math.pi**2)
    return float(np.trapezoid(y * density, y))


@PAPER.claim(
    "edgeworth",
    says="Where the slope of the density competes with the noise the Gaussian law of slope and curvature predicts up "
    "to 44 % too many modes; the Edgeworth expansion to fourth order agrees within 1.5 % with the exact law, found by "
    "Fourier inversion, and in the paper preset with certain counts.",
    basis=basis.Derived("the expansion that the abstract names, against the exact law of slope and curvature"),
    formula=r"p_t(0,y)\approx\phi\,\Big[1+\sum\frac{\lambda_{ij}}{i!j!}He_iHe_j+\dots\Big]",
)
def edgeworth(run: Run) -> Check:
    check = Check()
    plain, flipped = {}, {}
    cases = [(1000, 30.0, 2.5), (3000, 30.0, 2.6)] + ([] if run.quick else [(6500, 81.0, 3.0), (3000, 30.0, 2.8)])
    for n, beta, t in cases:
        name = f"density of modes, $n={n}$, $\\beta={beta:g}$, $t={t:g}$"
        orders = [float(edgeworth_density(t, n, beta, order=order)) for order in (2, 3, 4)]
        check.row(
            name,
            predicted=exact_density(t, n, beta),
            measured=orders[2],
            relative=0.015,
            because="the next order of the expansion",
        )
        plain[name], flipped[name] = orders[0], 2 * orders[0] - orders[1]
    check.null("a Gaussian law", plain)
    check.null("third cumulants with the other sign", flipped)
    if not run.quick:
        for n, beta, low, high, repeats in ((100, 10.0, 2.0, 2.25, 400_000), (1000, 30.0, 2.0, 2.25, 60_000)):
            counted = sampled(n, beta, repeats, run.seed + 41)
            right, left = counted.between(low, high), counted.between(-high, -low)
            name = f"modes with ${low:g}<|t|<{high:g}$, $n={n}$, $\\beta={beta:g}$"
            check.row(
                name,
                predicted=2 * edgeworth_modes(n, beta, low, high),
                measured=right.value + left.value,
                error=math.hypot(float(right.error), float(left.error)),
                repeats=repeats,
                relative=0.02,
                because="standard error, and 2 % for the next order",
            )
    return check
