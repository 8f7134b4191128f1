r"""An interval around the origin: one mode, a few near the top, or the saturated rate.

$$\beta\ll n^{2/5}:\ 1,\qquad n^{2/5}\ll\beta\ll n^{2/3}:\ 0.2905\,\beta^{5/4}n^{-1/2},\qquad
  \beta\gg n^{2/3}:\ 0.1949\sqrt\beta\,(b-a).$$
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.modes import central_modes, gaussian_modes, saturated_rate
from sphereflow.papers.kde_modes import PAPER
from sphereflow.papers.kde_modes.table import sampled


@PAPER.claim(
    "saturated-interval",
    statement="With beta = n^0.9 the modes in [-1, 1] have the density of a stationary field, 0.195 sqrt(beta) per "
    "unit length in the limit.",
    source="Saturated density of modes",
    formula=r"\rho\to\frac1{2\pi}\sqrt{\frac{3\beta}2}=0.194924\sqrt\beta",
    falsifier="maxima and minima counted",
)
def saturated_interval(run: Run) -> Measurement:
    cases = [(10_000, 3981.0, 100 if run.quick else 1000, 12.18)]
    if not run.quick:
        cases.append((100_000, 31623.0, 60, 34.48))
    found = [sampled(n, beta, runs, run.seed + 2).between(-1, 1) for n, beta, runs, _ in cases]
    formula = [gaussian_modes(n, beta, -1, 1) / 2 for n, beta, _, _ in cases]
    reference = [value for *_, value in cases]
    limit = [saturated_rate(beta) for _, beta, _, _ in cases]
    return agreement(
        [*reference, *reference, *limit],
        [*(float(e.value) / 2 for e in found), *formula, *formula],
        absolute=[*(0.03 * np.array(reference)), *[0.006] * len(cases), *(0.015 * np.array(limit))],
        because="3 % for Monte Carlo (standard error below 1 %), two decimals of the reference, 1.5 % to the limit",
        labels=tuple(f"{what}, n={n}" for what in ("Monte Carlo", "formula", "formula and limit") for n, *_ in cases),
    )


@PAPER.claim(
    "slope-suppression",
    statement="Near the origin the slope of the true density suppresses modes through an exponent proportional to n; "
    "the authors' plotting script has n squared there, which would leave almost none.",
    source="Authors' code: near-zero Kac-Rice integrand at beta = 300, n = 10000",
    formula=r"\rho\approx\frac1{2\pi}\sqrt{\tfrac{3\beta}2}\,\exp\big(-\sqrt2\,n\,\beta^{-3/2}t^2e^{-t^2/2}\big)",
    falsifier="a count near the script's",
)
def slope_suppression(run: Run) -> Measurement:
    n, beta = 10_000, 300.0
    found = sampled(n, beta, 100 if run.quick else 2100, run.seed + 1).between(-1, 1)
    predicted = gaussian_modes(n, beta, -1, 1)

    def script(t: float) -> float:
        return saturated_rate(beta) * math.exp(-math.sqrt(2) * n**2 * beta**-1.5 * t**2 * math.exp(-(t**2) / 2))

    printed = quad(script, -1, 1, points=[-0.01, 0.01], limit=200)[0]
    return agreement(
        predicted,
        found.value,
        absolute=3 * found.error + 0.025 * predicted,
        printed=printed,
        because="three standard errors, and 2.5 % for the Gaussian formula",
        note=f"{found!r} modes in [-1, 1]; exponent with n: {predicted:.3f}, with n^2: {printed:.3f}",
        parameters={"n": n, "beta": beta},
    )


@PAPER.claim(
    "three-regimes",
    statement="As beta grows against n, an interval around the origin holds one mode, then 0.29 beta^(5/4) n^(-1/2), "
    "then 0.195 sqrt(beta) per unit length.",
    source="Slope suppression; thresholds n^(2/5) and n^(2/3)",
    formula=r"\beta\ll n^{2/5}:1;\quad n^{2/5}\ll\beta\ll n^{2/3}:0.2905\,\beta^{5/4}n^{-1/2};\quad "
    r"\beta\gg n^{2/3}:0.1949\sqrt\beta\,(b-a)",
    falsifier="another exponent or constant",
)
def three_regimes(run: Run) -> Measurement:
    n, low, middle, high = 1e60, 1e12, 1e32, 1e54
    found = [gaussian_modes(n, low, -1, 1), gaussian_modes(n, middle, -1, 1), gaussian_modes(n, high, -1, 1)]
    return agreement(
        [1.0, central_modes(n, middle), 2 * saturated_rate(high)],
        found,
        relative=1e-6,
        because="corrections are powers of n: below 1e-6 at n = 10^60",
        labels=("one mode", "near the top", "saturated"),
        parameters={"n": n, "beta": [low, middle, high]},
    )
