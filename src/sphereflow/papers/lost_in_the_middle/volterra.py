r"""The closed form of the influence solves its equation: with finitely many tokens, in the limit, for other prompts.

$$\partial_tg=a\Big(k_\lambda(\sigma,\sigma_0)+\int_{\sigma_0}^\sigma k_\lambda\,g\,d\sigma'\Big),\qquad
  g=k_\lambda(\sigma,\sigma_0)\,\psi_{at}(Y),\qquad N\big(e^{at\omega}\big)_{Nk}\to g .$$
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import integrate

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.sources import CLOSED_FORM, LEAN
from sphereflow.retrieval.bessel import position
from sphereflow.retrieval.closed_form import two_time_influence
from sphereflow.retrieval.layered import LayeredFlow, density_prompt, layered_flow
from sphereflow.retrieval.linear import two_time_row, weight_matrix

SOURCE = 0.3
MODES = 12  # the force to 1e-10 for beta up to 1.5, and the same for all runs, which then share compiled programs
COVARIANCE = basis.Equation("the cross-correlation", via=LEAN)


def layers(
    density: Callable[[np.ndarray, np.ndarray], np.ndarray], beta: float = 1.0, t: float = 1.0, source: float = SOURCE
) -> LayeredFlow:
    """Layers under slope 1 with a source: always the same shapes, so one compiled program."""
    return layered_flow(density_prompt(density), t, beta=beta, slope=1.0, source=source, modes=MODES)


def row(n: int, slope: float = 1.0) -> np.ndarray:
    """N U_{Nk} by source k for wave 1 at beta = t = 1."""
    return n * two_time_row(weight_matrix(n, slope), float(reference.rates(1.0)[0]))


@PAPER.claim(
    "finite-tokens",
    says="Between finitely many tokens the linear theory is the exponential of the attention matrix. Times $N$ and "
    "extrapolated from $N$ and $3N$ with the source in the same place it is the closed form; what is left falls like "
    "$1/N$.",
    basis=CLOSED_FORM,
    formula=r"N\,\big(e^{a_nt\,\omega}\big)_{Nk}\to k_\lambda(1,\sigma_0)\,\psi_{a_nt}(Y),\quad\sigma_0=\tfrac{k-1/2}N",
)
def finite_tokens(run: Run) -> Check:
    n = 81 if run.quick else 243
    a = float(reference.rates(1.0)[0])
    small, large = row(n), row(3 * n)
    flat = row(n, 0.0), row(3 * n, 0.0)
    check = Check(parameters={"N": f"{n} and {3 * n}", "beta": 1, "slope": 1, "t": 1})
    rivals: dict[str, dict[str, float]] = {"two": {}, "three": {}, "reversed": {}, "off": {}}
    for k in (9, 24, 48, 72):
        k = k * n // 81
        sigma0, later = (k - 0.5) / n, 3 * k - 2  # the cell with the same centre, from zero
        exact = float(reference.influence(a, 1.0, 1.0, sigma0, 1.0))
        name = f"$\\sigma_0={sigma0:.3f}$"
        limit = (3 * large[later] - small[k - 1]) / 2
        check.row(
            name,
            predicted=exact,
            measured=limit,
            tolerance=1 / n**2,
            because="the second order in 1/N, with a constant of at most one",
        )
        rivals["two"][name] = float(reference.influence(a, 1.0, 1.0, sigma0, 1.0, 2))
        rivals["three"][name] = float(reference.influence(a, 1.0, 1.0, sigma0, 1.0, 3))
        rivals["reversed"][name] = float(reference.influence(a, 1.0, 1.0, sigma0, -1.0))
        rivals["off"][name] = float((3 * flat[1][later] - flat[0][k - 1]) / 2)
        order = f"order of the rest, {name}"
        fall = (small[k - 1] - exact) / (large[later] - exact)
        check.row(order, predicted=3.0, measured=fall, relative=2 / n, because="relative terms of order 1/N")
    check.rival("at most two steps of attention", rivals["two"])
    check.rival("at most three steps of attention", rivals["three"])
    check.rival("the slope reversed", rivals["reversed"])
    check.null("without slope", rivals["off"])
    check.rival("a rest of order $N^{-1/2}$", {r.name: 3**0.5 for r in check.rows if "order" in r.name})
    check.rival("a rest of order $N^{-2}$", {r.name: 9.0 for r in check.rows if "order" in r.name})
    return check


@PAPER.claim(
    "layered-covariance",
    says="The equation of the two-time covariance, solved layer by layer with a source at 0.3, gives the closed "
    "form at every later layer, for waves 1, 2 and 3.",
    basis=COVARIANCE,
    formula=r"\partial_tg_a=a\Big(k_\lambda(\sigma,\sigma_0)"
    r"+\int_{\sigma_0}^\sigma k_\lambda(\sigma,\sigma')\,g_a\,d\sigma'\Big)",
)
def layered_covariance(run: Run) -> Check:
    flow = layers(lambda sigma, theta: np.ones_like(sigma + theta))
    covariance = flow.two_time_covariance()
    after = np.flatnonzero(flow.sigma > SOURCE * (1 + 1e-9))
    check = Check(parameters={"layers": len(flow.sigma), "source": SOURCE})
    cut: dict[str, float] = {}
    equal: dict[str, float] = {}
    for n, found in zip(flow.waves, covariance, strict=True):
        a = float(reference.rates(1.0)[n - 1])
        for place in (after[len(after) // 4], after[len(after) // 2], after[-1]):
            sigma = float(flow.sigma[place])
            name = f"wave {n} at {sigma:.3f}"
            exact = float(reference.influence(a, 1.0, sigma, SOURCE, 1.0))
            because = "time steps to 1e-10, polynomials of degree 7 per panel"
            check.row(name, predicted=exact, measured=found[place], tolerance=1e-9, because=because)
            cut[name] = float(reference.influence(a, 1.0, sigma, SOURCE, 1.0, 4))
            equal[name] = reference.equal_times(a, 1.0, sigma, SOURCE, 1.0)
    check.rival("at most four steps of attention", cut)
    check.rival("both tokens read at the same time", equal)
    return check


@PAPER.claim(
    "similar-tokens",
    says="For independent tokens that are not uniform (von Mises, concentration 1) the layered equation of the "
    "covariance has the solution by a power series in $Y$; it lies well below that of uniform tokens.",
    basis=COVARIANCE,
    formula=r"C=k_\lambda(\sigma,\sigma_0)\sum_p\frac{Y^p}{p!}c_p,\quad"
    r"\dot c_p=-\partial_\theta(c_pV)-\partial_\theta(f\,w_\beta'*c_{p-1}),\quad c_{-1}=A",
)
def similar_tokens(run: Run) -> Check:
    angle = 2 * np.pi * np.arange(64) / 64
    law = np.exp(np.cos(angle))
    check = Check(parameters={"beta": 1, "slope": 1, "t": 1})
    wrong: dict[str, dict[str, float]] = {"transport of A": {}, "transport of C": {}}
    uniform: dict[str, float] = {}
    found = layers(lambda sigma, theta: np.exp(np.cos(theta)) + 0 * sigma).two_time_covariance()[:, -1]
    for n in (1, 2, 3):
        name = f"wave {n}"
        exact = reference.prompt_covariance(law, 1.0, 1.0, 1.0, n, SOURCE)
        because = "fourth-order time steps of 1/50, and time steps to 1e-10"
        check.row(name, predicted=exact, measured=found[n - 1], tolerance=1e-6, because=because)
        for left_out, values in wrong.items():
            values[name] = float(reference.prompt_covariance(law, 1.0, 1.0, 1.0, n, SOURCE, left_out=left_out))
        uniform[name] = float(reference.influence(reference.rates(1.0)[n - 1], 1.0, 1.0, SOURCE, 1.0))
    check.rival("the closed form of uniform tokens", uniform)
    for left_out, values in wrong.items():
        check.rival(f"without the {left_out} by the mean field", values)
    return check


@PAPER.claim(
    "total-influence",
    says="All sources together have an influence that does not depend on the positional weights, for slopes of -2 "
    "to 5.",
    basis=basis.Derived("the positional weights sum to one"),
    formula=r"\int_0^1g_a(t,1;\sigma_0)\,d\sigma_0=e^{at}-1",
)
def total_influence(run: Run) -> Check:
    a = float(reference.rates(1.0)[0])
    check = Check()
    direct, two = {}, {}

    def total(slope: float, t: float) -> float:
        # In y = log(mass) the integrand is smooth, and beyond 80 units before the end it is below rounding.
        end = np.log(np.expm1(slope) / slope) if slope else 0.0

        def integrand(y: float) -> float:
            r = float(position(y, slope))
            return float(two_time_influence(a, t, 1.0, r, slope)) * np.exp(y - slope * r)

        return integrate.quad(integrand, end - 80, end, epsabs=1e-12, epsrel=1e-12, limit=200)[0]

    for slope, t in ((1.0, 1.0), (5.0, 1.0), (0.0, 2.0), (-2.0, 0.5)):
        name = f"slope {slope:g}, $t={t:g}$"
        check.row(
            name, predicted=np.expm1(a * t), measured=total(slope, t), tolerance=1e-9, because="quadrature to 1e-11"
        )
        direct[name] = a * t
        two[name] = a * t + (a * t) ** 2 / 2
    check.rival("one step of attention only", direct)
    check.rival("two steps of attention only", two)
    return check
