r"""The closed form of the influence solves the Volterra equation, with finitely many tokens and in the limit.

$$\partial_tg=a\Big(k_\lambda(\sigma,\sigma_0)+\int_{\sigma_0}^\sigma k_\lambda\,g\,d\sigma'\Big),\qquad
  g=k_\lambda(\sigma,\sigma_0)\,\psi_{at}(Y),\qquad N\big(e^{at\omega}\big)_{Nk}\to g .$$
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import integrate

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.papers.lost_in_the_middle import PAPER
from sphereflow.retrieval.bessel import growth_rates, position
from sphereflow.retrieval.closed_form import two_time_influence
from sphereflow.retrieval.layered import LayeredFlow, density_prompt, layered_flow
from sphereflow.retrieval.linear import (
    equal_time_correlation,
    equal_time_matrix,
    two_time_matrix,
    two_time_row,
    weight_matrix,
)

SOURCE = 0.3
MODES = 16  # enough for beta up to 1.5, and the same for all runs, which then share compiled programs


def errors(sizes: tuple[int, ...], offset: float = 0.5) -> list[float]:
    """Largest relative error of N U_{Nk} against the closed form, on 0.1 < sigma0 < 1, for beta = slope = t = 1."""
    a = float(growth_rates(1.0)[0])
    found = []
    for n in sizes:
        row = n * two_time_row(weight_matrix(n, 1.0), a)[:-1]
        sigma0 = (np.arange(n - 1) + offset) / n
        used = sigma0 > 0.1
        found.append(float(np.max(np.abs(row / two_time_influence(a, 1.0, 1.0, sigma0, 1.0) - 1)[used])))
    return found


def layers(density: object, beta: float = 1.0, t: float = 1.0) -> LayeredFlow:
    """Layers under slope 1 with a source at 0.3: always the same shapes, so one compiled program."""
    return layered_flow(density_prompt(density), t, beta=beta, slope=1.0, source=SOURCE, modes=MODES)  # type: ignore[arg-type]


@PAPER.claim(
    "finite-tokens",
    statement="Between finitely many tokens the influence tends to the closed form; the error halves as N doubles.",
    source="Closed form for independent uniform tokens",
    formula=r"N\,\big(e^{a_nt\,\omega}\big)_{Nk}\to k_\lambda(1,\sigma_0)\,\psi_{a_nt}(Y),\quad\sigma_0=\tfrac{k-1/2}N",
    falsifier="Weights that are not normalised or a reversed slope (no convergence); a token that sees itself or "
    "positions off by one half (the error still halves, but has another size).",
)
def finite_tokens(run: Run) -> Measurement:
    known = {50: 2.29e-2, 100: 1.14e-2, 200: 5.72e-3, 400: 2.86e-3, 800: 1.43e-3}
    sizes = tuple(n for n in known if n <= 400 or not run.quick)
    found = errors(sizes)
    ratios = [a / b for a, b in pairwise(found)]
    return agreement(
        [*(known[n] for n in sizes), *[2.0] * len(ratios)],
        [*found, *ratios],
        absolute=[*(0.005 * known[n] for n in sizes), *(2.0 / n for n in sizes[:-1])],
        because="three printed digits; the ratio is 2 up to terms of relative order 1/N",
        labels=(*(f"error at N={n}" for n in sizes), *(f"ratio N={n} to {2 * n}" for n in sizes[:-1])),
    )


@PAPER.claim(
    "layered-covariance",
    statement="The equation of the two-time covariance, solved layer by layer, gives the closed form everywhere.",
    source="Equation of the cross-correlation and closed form",
    formula=r"\partial_tg_a=a\Big(k_\lambda(\sigma,\sigma_0)"
    r"+\int_{\sigma_0}^\sigma k_\lambda(\sigma,\sigma')\,g_a\,d\sigma'\Big)",
    falsifier="An integral that starts at 0 instead of at the source: tokens before the source would be influenced.",
)
def layered_covariance(run: Run) -> Measurement:
    flow = layers(lambda sigma, theta: np.ones_like(sigma + theta))
    covariance = flow.two_time_covariance()
    a = growth_rates(1.0)
    after = flow.sigma > SOURCE * (1 + 1e-9)
    exact = [two_time_influence(a[n - 1], 1.0, flow.sigma[after], SOURCE, 1.0) for n in flow.waves]
    before = float(np.max(np.abs(covariance[:, flow.sigma < SOURCE * (1 - 1e-9)])))
    return agreement(
        [*[0.0] * len(exact), 0.0],
        [*(np.max(np.abs(c[after] - g)) for c, g in zip(covariance, exact, strict=True)), before],
        absolute=[*[1e-9] * len(exact), 0.0],
        because="time steps to 1e-10 and polynomials of degree 7 per panel; zero before the source is exact",
        labels=(*(f"largest error, wave {n}" for n in flow.waves), "largest influence on earlier layers"),
        parameters={"layers": len(flow.sigma), "source": SOURCE},
    )


@PAPER.claim(
    "total-influence",
    statement="All sources together have an influence that does not depend on the positional weights.",
    source="Kernel of mass one",
    formula=r"\int_0^1g_a(t,1;\sigma_0)\,d\sigma_0=e^{at}-1",
)
def total_influence(run: Run) -> Measurement:
    a = float(growth_rates(1.0)[0])
    cases = [(1.0, 1.0), (5.0, 1.0), (0.0, 2.0), (-2.0, 0.5)]

    def total(slope: float, t: float) -> float:
        # In y = log(mass) the integrand is smooth, and beyond 80 units before the end it is below rounding.
        end = np.log(np.expm1(slope) / slope) if slope else 0.0

        def integrand(y: float) -> float:
            r = float(position(y, slope))
            return float(two_time_influence(a, t, 1.0, r, slope)) * np.exp(y - slope * r)

        return integrate.quad(integrand, end - 80, end, epsabs=1e-12, epsrel=1e-12, limit=200)[0]

    return agreement(
        [0.759727740, *(np.expm1(a * t) for _, t in cases)],
        [total(*cases[0]), *(total(*case) for case in cases)],
        absolute=1e-9,
        because="a reference value of nine digits, and quadrature to 1e-11",
        labels=("reference, slope 1, t 1", *(f"slope {slope:g}, t {t:g}" for slope, t in cases)),
    )


@PAPER.claim(
    "two-time-not-equal-time",
    statement="Retrieval is a covariance of two times; that of equal times counts common ancestors and is larger.",
    source="Definition of the cross-correlation",
    formula=r"N\,U_{Nk}\quad\text{against}\quad N\,(UU^\top)_{Nk},\qquad g_{eq}=g+\int_0^sg(\sigma,r)\,g(s,r)\,dr",
    falsifier="A program that mixes the two is off by a factor 1.7.",
)
def two_kinds(run: Run) -> Measurement:
    a = float(growth_rates(1.0)[0])
    weights = weight_matrix(32, 1.0)
    finite = 32 * two_time_matrix(weights, a)[-1, 18], 32 * equal_time_matrix(weights, a)[-1, 18]
    n, k = 400, 240
    end, s = 1 - 0.5 / n, (k - 0.5) / n
    many = n * equal_time_matrix(weight_matrix(n, 1.0), a)[-1, k - 1]
    first = integrate.quad(
        lambda r: float(two_time_influence(a, 1.0, end, r, 1.0) * two_time_influence(a, 1.0, s, r, 1.0)), 0, 1 / n
    )[0]
    return agreement(
        [0.750236, 1.311982, equal_time_correlation(a, 1.0, end, s, 1.0)],
        [*finite, many],
        absolute=[5e-7, 5e-7, first],
        because="six printed digits; the last differs by what the first cell, a frozen token, adds to the integral",
        labels=("two times, N=32, k=19", "equal times, N=32, k=19", f"equal times, N={n}, k={k} against the integral"),
    )
