r"""The main theorem, $\mathbb E\#=\Theta(\sqrt{\beta\log\beta})$, from certain counts, and the constant behind it.

$$\frac{\mathbb E\#}{\sqrt{\beta\log\beta}}\to C(a)=\frac1\pi\sqrt{\tfrac32}\,
  \Big[\sqrt{\tfrac2a-1}-\sqrt{(\tfrac2a-3)_+}\Big],\qquad \beta=n^a,\ 0<a<2.$$

At feasible $n$ the square of the count is a straight line in $\log\beta$, not a power of it:

$$\frac{(\mathbb E\#)^2}\beta\approx\frac3{2\pi^2}\Big[\big(\tfrac2a-1\big)\log\beta+2.717\Big],\qquad a>\tfrac23.$$
"""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.modes import expected_modes, limit_constant
from sphereflow.papers.kde_modes import PAPER
from sphereflow.papers.kde_modes.sources import LEAN
from sphereflow.papers.kde_modes.table import sampled

# Twice the integral of f over its limit against log x, less log(2 pi): where the sparse edge lies on average.
EDGE_SHIFT = 2.717


def ratio(n: float, a: float) -> float:
    """E# / sqrt(beta log beta) at beta = n^a, by the uniform predictor."""
    beta = n**a
    return expected_modes(n, beta) / math.sqrt(beta * math.log(beta))


def line(n: float, beta: float) -> float:
    """The leading count for a > 2/3: the belt from the origin to the sparse edge, less what the slope suppresses."""
    reach = math.sqrt(2 * math.log(n) - math.log(beta) + EDGE_SHIFT)
    return math.sqrt(1.5 * beta) / math.pi * (reach - math.sqrt(math.pi) * n * beta**-1.5)


@PAPER.claim(
    "logarithm-in-the-count",
    says=r"At $\beta=n$ the certain counts divided by $\sqrt\beta$ grow with $\log\beta$ from $n=10^3$ to $10^5$ "
    "($10^7$ in the paper preset) as the theorem's constant and its first correction say; no single power of the "
    "logarithm fits them.",
    basis=basis.Theorem("thm:main-result", via=LEAN),
    formula=r"\mathbb E\#\approx\frac1\pi\sqrt{\tfrac{3\beta}2}\big[\sqrt{2\log n-\log\beta+2.717}"
    r"-\sqrt\pi\,n\beta^{-3/2}\big]",
)
def logarithm(run: Run) -> Check:
    cases = (
        [(1_000, 1000), (10_000, 100), (100_000, 40)]
        if run.quick
        else [(1_000, 4000), (10_000, 1000), (100_000, 400), (1_000_000, 40), (10_000_000, 8)]
    )
    check = Check(parameters={"beta": "n"})
    sizes = np.array([n for n, _ in cases], dtype=float)
    for n, repeats in cases:
        counted = sampled(n, float(n), repeats, run.seed + 7).everywhere
        check.row(
            f"$n={n}$",
            predicted=line(n, n) / math.sqrt(n),
            measured=counted.value / math.sqrt(n),
            error=counted.error / math.sqrt(n),
            repeats=repeats,
            relative=0.01,
            because="standard error, and 1 % for the next correction",
        )
    start = check.rows[0].predicted
    logs = np.log(sizes) / np.log(sizes[0])
    for name, power in (("no logarithm", 0.0), (r"$\log^{1/4}$", 0.25), (r"$\log^{1/2}$ alone", 0.5), (r"$\log$", 1.0)):
        check.rival(f"{name}, fixed at $n=10^3$", start * logs**power)
    return check


def exponent(a: float, low: float, high: float) -> float:
    """The power of log beta in E# / sqrt(beta) between two sizes, by the uniform predictor."""
    counts = [expected_modes(n, n**a) / n ** (a / 2) for n in (low, high)]
    return math.log(counts[1] / counts[0]) / math.log(math.log(high) / math.log(low))


@PAPER.claim(
    "order",
    says=r"For $\beta=n^a$ with $a$ from 0.5 to 1.9 the local exponent of $\log\beta$ in the predicted "
    r"$\mathbb E\#/\sqrt\beta$, carried to $n=10^{60}$ and extrapolated in $1/\log n$, is 1/2.",
    basis=basis.Theorem("thm:main-result", via=LEAN),
    formula=r"\mathbb E\#=\Theta(\sqrt{\beta\log\beta}),\qquad n^c\lesssim\beta\lesssim n^{2-c}",
)
def order(run: Run) -> Check:
    check = Check(note="A statement about the predictor, which certain counts confirm at sizes where they can be made.")
    for a in (0.5, 1.0, 1.25, 1.5, 1.9):
        early, middle, late = (exponent(a, *ends) for ends in ((1e7, 1e15), (1e15, 1e30), (1e30, 1e60)))
        # The correction 1/log n halves from one stretch to the next; what is left is of the next order.
        extrapolated, before = 2 * late - middle, 2 * middle - early
        check.row(
            f"$a={a:g}$",
            predicted=0.5,
            measured=extrapolated,
            tolerance=abs(extrapolated - before),
            because="the change of the extrapolated value from one stretch to the next",
        )
    check.rival(r"$\log^{0.45}$", 0.45)
    check.rival(r"$\log^{0.55}$", 0.55)
    return check


@PAPER.claim(
    "constant",
    says="The constant is reached, logarithmically slowly: within 2.5 percent at $n=10^{60}$.",
    basis=basis.Extension("the paper states the order only"),
    formula=r"C(a)=\frac1\pi\sqrt{\tfrac32}\Big[\sqrt{\tfrac2a-1}-\sqrt{(\tfrac2a-3)_+}\Big]",
)
def constant(run: Run) -> Check:
    check = Check()
    exponents = (0.75, 1.0, 1.5)
    for a in exponents:
        because = "corrections of order log log n / log n: 2.5 % at n = 10^60"
        check.row(
            f"$a={a:g}$, $n=10^{{60}}$",
            predicted=limit_constant(a),
            measured=ratio(1e60, a),
            relative=0.025,
            because=because,
        )
    upper = [math.sqrt(1.5) / math.pi * math.sqrt(2 / a) for a in exponents]
    check.rival(r"modes as far as the samples reach, $|t|\le\sqrt{2\log n}$", upper)
    check.rival("one belt instead of two", check.times(0.5))
    return check
