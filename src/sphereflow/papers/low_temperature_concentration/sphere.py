r"""Three and four dimensions: concentration on the equator in $W_2$ itself, departure, the equator's instability."""

from __future__ import annotations

import math

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.meanfield.linear_stability import growth_rates
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.sources import BOUND, TIMES
from sphereflow.papers.low_temperature_concentration.zonal import run_rings, to_equator
from sphereflow.solving import CONSTANT, FORWARD, SOLVERS, solve
from sphereflow.sphere import fibonacci

VALUE = np.diag([1.0, 1.0, 0.2])
TOKENS = 800
# V = diag(1, 0.5 I), B = diag(0.2, I): to the equator at the rate c = 0.3, then away from it at g = 0.5.
SPLIT = ((1.0, 0.5), (0.2, 1.0))
CONTRACTION, GROWTH = 0.3, 0.5
LEAST_C = CONTRACTION * GROWTH / (CONTRACTION + GROWTH)


@PAPER.claim(
    "equator",
    says=r"Tokens on the sphere in three dimensions with $V=\mathrm{diag}(1,1,0.2)$ at $\beta=50$ fall to the "
    "equator as the reduction to rings says, faster than at zero temperature.",
    basis=basis.Derived("symmetry about an axis reduces the equation to rings"),
    formula=r"W_2(\mu_\beta(t),\Pi_\#\mu_0)=\big(E\,\mathrm{latitude}^2\big)^{1/2}",
)
def equator(run: Run) -> Check:
    beta, tokens = 50.0, TOKENS if run.quick else 2400
    found = solve(
        SA(beta, value=VALUE),
        fibonacci(tokens),
        np.arange(4.0),
        solver=SOLVERS["heun"][0],
        controller=CONSTANT,
        first_step=0.125,
        adjoint=FORWARD,
    )
    latitude = np.sqrt(np.mean(np.arcsin(np.clip(np.asarray(found.xs)[:, :, 2], -1, 1)) ** 2, axis=1))
    times, path, masses = run_rings(3, beta, (0.2, 1.0), (1.0, 1.0), 0.0, 3.0)
    rings = to_equator(path, masses)
    frozen = {}
    check = Check(parameters={"n": tokens, "beta": beta})
    for t in (1, 2, 3):
        name = f"$W_2$ at $t={t}$"
        check.row(
            name,
            predicted=rings[int(np.argmin(np.abs(times - t)))],
            measured=latitude[t],
            relative=0.02,
            because="tokens near the poles, of which few represent many",
        )
        # Zero temperature: the tangent of the latitude falls like e^(-0.8 t).
        start = np.arcsin(np.asarray(fibonacci(tokens))[:, 2])
        frozen[name] = float(np.sqrt(np.mean(np.arctan(np.exp(-0.8 * t) * np.tan(start)) ** 2)))
    check.rival("zero temperature", frozen)
    return check


def best_and_exit(d: int, beta: float, last: float) -> tuple[float, float, np.ndarray, np.ndarray]:
    """(smallest W_2, time at which it exceeds 0.5 afterwards, times, W_2)."""
    times, path, masses = run_rings(d, beta, *SPLIT, 0.3, last)
    w = to_equator(path, masses)
    i = int(np.argmin(w))
    a, b, c = np.polyfit(times[i - 1 : i + 2] - times[i], w[i - 1 : i + 2], 2)
    j = i + int(np.argmax(w[i:] > 0.5))
    leave = times[j - 1] + (0.5 - w[j - 1]) / (w[j] - w[j - 1]) * (times[j] - times[j - 1])
    return float(c - b * b / (4 * a)), float(leave), times, w


@PAPER.claim(
    "three-phases-on-the-sphere",
    says=r"In three and four dimensions the distance $W_2$ to the push-forward itself has a smallest value of order "
    r"$\beta^{-1/2}$ and is left behind after $(\frac1{2c}+\frac1{2g})\log\beta$ ($\beta=100$ to 300): no bound with "
    r"$C<cg/(c+g)=0.1875$ in its factor $e^{Ct}$ can hold.",
    basis=TIMES,
    formula=r"\min_tW_2\propto\beta^{-1/2},\qquad C\ge\frac{\Delta\log\sqrt\beta}{\Delta t_{exit}}\to\frac{cg}{c+g}",
)
def three_phases_on_the_sphere(run: Run) -> Check:
    check = Check(parameters={"V": "diag(1, 0.5 I)", "B": "diag(0.2, I)"})
    low, high = 100.0, 300.0
    for d in (3, 4):
        small, large = best_and_exit(d, low, 14.0), best_and_exit(d, high, 17.0)
        because = "corrections of relative order beta^(-1/2)"
        measured = np.log(large[0] / small[0]) / np.log(high / low)
        check.row(
            f"exponent of the smallest $W_2$, $d={d}$",
            predicted=-0.5,
            measured=measured,
            tolerance=0.02,
            because=because,
        )
        measured = np.log(high / low) / 2 / (large[1] - small[1])
        check.row(f"least $C$, $d={d}$", predicted=LEAST_C, measured=measured, tolerance=0.01, because=because)
    exponents, constants = ([row.name for row in check.rows[k::2]] for k in (0, 1))
    bound = np.sqrt(np.log(np.array([low, high]) + 1) / [low, high])
    order = float(np.log(bound[1] / bound[0]) / np.log(high / low))
    check.rival(r"the order $\sqrt{\log\beta/\beta}$ of the bound", dict.fromkeys(exponents, order))
    check.rival("the rate of contraction for $C$", dict.fromkeys(constants, CONTRACTION))
    check.rival("the rate of growth for $C$", dict.fromkeys(constants, GROWTH))
    check.rival("$C=0.1$", dict.fromkeys(constants, 0.1))
    return check


@PAPER.claim(
    "bound",
    says=r"In three dimensions $W_2$ to the push-forward obeys the bound with $C=0.25$, $c=0.3$ and the prefactor "
    r"1.2, before its smallest value and from then to after the departure ($\beta=30$ to 300); the bound is far "
    r"from sharp.",
    basis=BOUND,
    formula=r"W_2\le1.2\Big(\sqrt{\tfrac{\log(\beta+1)}\beta}\,e^{Ct}+e^{-ct}\Big)",
)
def bound(run: Run) -> Check:
    check = Check(parameters={"C": 0.25, "c": CONTRACTION, "prefactor": 1.2})
    for beta, last in ((30.0, 11.0), (100.0, 14.0), (300.0, 17.0)):
        _, _, times, w = best_and_exit(3, beta, last)
        allowed = np.sqrt(np.log(beta + 1) / beta) * np.exp(0.25 * times) + np.exp(-CONTRACTION * times)
        ratio, first = w / allowed, int(np.argmin(w))
        because = "a bound whose constants the abstract does not give: no tolerance"
        before, after = ratio[: first + 1].max(), ratio[first:].max()
        check.at_most(rf"concentrating, $\beta={beta:g}$", bound=1.2, measured=before, because=because)
        check.at_most(rf"resting and leaving, $\beta={beta:g}$", bound=1.2, measured=after, because=because)
    return check


@PAPER.claim(
    "equator-is-unstable",
    says=r"The uniform circle on which tokens rest is itself unstable, at rates up to $2/e$ near the wave number "
    r"$\sqrt{2\beta}$.",
    basis=basis.Derived("linear stability of the uniform law on the circle"),
    formula=r"\max_k\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\to\frac2e",
)
def equator_is_unstable(run: Run) -> Check:
    check = Check()
    waves, diffusive = {}, {}
    for beta in (1000.0, 10_000.0):
        rates = growth_rates(beta, "SA", count=int(3 * np.sqrt(beta)))
        rate, wave = rf"largest rate, $\beta={beta:g}$", rf"its wave number, $\beta={beta:g}$"
        because = "corrections of order 1/beta to the largest rate"
        check.row(rate, predicted=2 / math.e, measured=rates.max(), tolerance=2 / beta, because=because)
        at = int(np.argmax(rates)) + 1
        check.row(wave, predicted=math.sqrt(2 * beta), measured=at, tolerance=1.0, because="whole wave numbers")
        waves[wave] = math.sqrt(beta)
        diffusive[rate] = 1.0
    check.rival(r"the wave number $\sqrt\beta$", waves)
    check.rival("the rate 1 of the value matrix", diffusive)
    return check
