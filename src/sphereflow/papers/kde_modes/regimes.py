r"""An interval around the origin: one mode, a few near the top, or the saturated rate.

$$\beta\ll n^{2/5}:\ 1,\qquad n^{2/5}\ll\beta\ll n^{2/3}:\ 0.2905\,\beta^{5/4}n^{-1/2},\qquad
  \beta\gg n^{2/3}:\ 0.1949\sqrt\beta\,(b-a).$$
"""

from __future__ import annotations

import math

from scipy.integrate import quad

from sphereflow.claims import Check, Run, basis
from sphereflow.modes import central_modes, gaussian_modes, saturated_rate
from sphereflow.papers.kde_modes import PAPER
from sphereflow.papers.kde_modes.table import sampled


@PAPER.claim(
    "saturated-interval",
    says=r"With $\beta=n^{0.9}$ the modes in $[-1,1]$ have the density of a stationary field, $0.195\sqrt\beta$ per "
    "unit length in the limit.",
    basis=basis.Derived("the stationary limit of the Kac-Rice density"),
    formula=r"\rho\to\frac1{2\pi}\sqrt{\frac{3\beta}2}=0.194924\sqrt\beta",
)
def saturated_interval(run: Run) -> Check:
    cases = [(10_000, 3981.0, 100 if run.quick else 1000)]
    if not run.quick:
        cases.append((100_000, 31623.0, 60))
    check = Check()
    for n, beta, repeats in cases:
        counted = sampled(n, beta, repeats, run.seed + 2).between(-1, 1)
        because = "standard error, and 2 % for the slope that is left"
        check.row(
            f"$n={n}$",
            predicted=saturated_rate(beta),
            measured=counted.value / 2,
            error=counted.error / 2,
            repeats=repeats,
            relative=0.02,
            because=because,
        )
    check.rival("zeros of the field, not of its slope", [math.sqrt(beta / 2) / (2 * math.pi) for _, beta, _ in cases])
    check.rival("maxima and minima", check.times(2.0))
    return check


@PAPER.claim(
    "slope-suppression",
    says="Near the origin the slope of the true density suppresses modes through an exponent proportional to $n$; the "
    "full Kac-Rice density is needed, its leading order is 11 % low.",
    basis=basis.Derived("the Kac-Rice density near the origin"),
    formula=r"\rho\approx\frac1{2\pi}\sqrt{\tfrac{3\beta}2}\,\exp\big(-\sqrt2\,n\,\beta^{-3/2}t^2e^{-t^2/2}\big)",
)
def slope_suppression(run: Run) -> Check:
    n, beta, repeats = 10_000, 300.0, 900 if run.quick else 4800
    counted = sampled(n, beta, repeats, run.seed + 1).between(-1, 1)

    def suppressed(t: float, power: int) -> float:
        exponent = math.sqrt(2) * n**power * beta**-1.5 * t**2 * math.exp(-(t**2) / 2)
        return saturated_rate(beta) * math.exp(-exponent)

    check = Check(parameters={"n": n, "beta": beta, "repeats": repeats})
    check.row(
        "modes in $[-1,1]$",
        predicted=gaussian_modes(n, beta, -1, 1),
        measured=counted.value,
        error=counted.error,
        repeats=repeats,
        relative=0.025,
        because="standard error, and 2.5 % for the Gaussian formula",
    )
    check.rival("no suppression", 2 * saturated_rate(beta))
    check.rival("the leading order of the exponent", quad(suppressed, -1, 1, args=(1,))[0])
    check.rival("$n^2$ in the exponent", quad(suppressed, -1, 1, args=(2,), points=[-0.01, 0.01], limit=200)[0])
    return check


@PAPER.claim(
    "three-regimes",
    says=r"As $\beta$ grows against $n$, an interval around the origin holds one mode, then "
    r"$0.29\,\beta^{5/4}n^{-1/2}$, then $0.195\sqrt\beta$ per unit length.",
    basis=basis.Derived("the suppression of modes by the slope, integrated"),
    formula=r"\beta\ll n^{2/5}:1;\quad n^{2/5}\ll\beta\ll n^{2/3}:0.2905\,\beta^{5/4}n^{-1/2};\quad "
    r"\beta\gg n^{2/3}:0.1949\sqrt\beta\,(b-a)",
)
def three_regimes(run: Run) -> Check:
    n, low, middle, high = 1e60, 1e12, 1e32, 1e54
    check = Check(parameters={"n": n, "beta": [low, middle, high]})
    for name, beta, predicted in (
        ("one mode", low, 1.0),
        ("near the top", middle, central_modes(n, middle)),
        ("saturated", high, 2 * saturated_rate(high)),
    ):
        because = "corrections are powers of n: below 1e-6 at n = 10^60"
        check.row(name, predicted=predicted, measured=gaussian_modes(n, beta, -1, 1), relative=1e-6, because=because)
    check.rival("without the curvature of the slope", {"near the top": 2**0.25 * central_modes(n, middle)})
    check.rival("no mode where the slope wins", {"one mode": 0.0})
    return check
