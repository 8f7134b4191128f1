r"""Kinetics of the compact kernel: rates of hops to a neighbour, survival over random patterns, joined supports.

$$S(t)=\Big[1-p_c-\int_{\rho<\phi_c}h(\rho)\big(1-e^{-k(\rho)t}\big)d\rho\Big]^{M-1},\qquad s=1-e^{-ks}.$$
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import betainc, gammaln

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.memory import compact
from sphereflow.memory.hops import survival
from sphereflow.memory.landscapes import random_patterns
from sphereflow.memory.percolation import barrier_profile, percolation_load, support_clusters
from sphereflow.memory.state import REFERENCE_B, support_edge
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.compact import ESCAPE_DRAFT, pair

B, T = REFERENCE_B, 0.5
EDGE = support_edge(B)


def flux(n: int, rho: float, exponent: float) -> float:
    """The rate by scipy's quadrature; `exponent` is that of 1 - phi^2 - v^2 in the law, (N-4)/2 on the sphere."""
    power = n / (B * T)
    aside = np.sqrt(1 - rho * rho)

    def law(phi: float) -> float:
        v = (EDGE - rho * phi) / aside
        back = (n - 1) / n * T * EDGE - (rho - phi * EDGE) / (1 - B + B * phi)
        inside = max(1 - phi * phi - v * v, 0.0)
        return float((1 - B + B * phi) ** power * inside**exponent * max(back, 0.0))

    def one(phi: float) -> float:
        return float((1 - B + B * phi) ** power * (1 - phi * phi) ** (exponent + 0.5))

    # The law of v given phi is normalised by Gamma(m + 3/2) / (sqrt(pi) Gamma(m + 1)).
    constant = np.exp(gammaln(exponent + 1.5) - gammaln(exponent + 1)) / np.sqrt(np.pi) / aside
    top, bottom = (quad(f, EDGE, 1.0, epsabs=0, epsrel=1e-6, limit=200)[0] for f in (law, one))
    return float(constant * top / bottom)


@PAPER.claim(
    "hop-rate",
    says="Walkers around a pattern of the compact kernel enter the cap of a neighbour at the rate of the flux through "
    "its edge, density times the speed of return, at two sizes and over a factor of ten.",
    basis=basis.Derived("the one-pattern equilibrium at the edge of the neighbour's cap, which absorbs"),
    formula=r"k(\rho)=\int d\phi\,p(\phi,\phi_c)\Big[\tfrac{N-1}NT\phi_c-\frac{\rho-\phi\phi_c}{1-b+b\phi}\Big]",
)
def hop_rate(run: Run) -> Check:
    repeats, dt = (700, 0.02) if run.quick else (6000, 0.005)
    check = Check(parameters={"b": B, "T": T, "walkers": repeats, "dt": dt})
    bare, sphere = {}, {}
    for n, rho, last in ((40, 0.6, 10.0), (20, 0.45, 20.0)):
        stored = pair(n, rho)
        found = survival(stored, np.array([last]), temperature=T, repeats=repeats, dt=dt, seed=run.seed).rate
        name = rf"$\ln k$, $N={n}$, $\rho={rho:g}$"
        check.row(
            name,
            predicted=np.log(flux(n, rho, (n - 4) / 2)),
            measured=np.log(found.value),
            error=found.error / found.value,
            tolerance=0.2,
            because="error of the number of hops; the barrier is a few units high, so the flux is some 20 % too large",
        )
        bare[name] = -n * float(compact.barrier(rho, T, B))
        sphere[name] = bare[name] + float(np.log(T))
    check.rival(r"attempts at rate 1, $e^{-\Delta F/T}$", bare)
    check.rival(r"attempts at rate T, $Te^{-\Delta F/T}$", sphere)
    return check


def curves(n: int, patterns: int, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(survival over all rates, survival with one mean rate), from the flux on a grid of overlaps."""
    rho = np.linspace(-0.3, EDGE, 401)[:-1] + (EDGE + 0.3) / 800
    law = np.exp(gammaln(n / 2) - gammaln((n - 1) / 2)) / np.sqrt(np.pi) * (1 - rho**2) ** ((n - 3) / 2)
    law *= (EDGE + 0.3) / 400
    coarse = np.linspace(-0.3, EDGE - 1e-3, 40)
    rate = np.exp(np.interp(rho, coarse, np.log([flux(n, r, (n - 4) / 2) + 1e-300 for r in coarse])))
    at_once = betainc((n - 1) / 2, 0.5, 1 - EDGE**2) / 2
    lost = np.array([law @ -np.expm1(-rate * t) for t in times])
    return (1 - at_once - lost) ** (patterns - 1), np.exp((patterns - 1) * (np.log1p(-at_once) - law @ rate * times))


@PAPER.claim(
    "survival-of-a-pattern",
    says="Over random patterns the share of states of the compact kernel that no second pattern has seen falls like a "
    "mixture of many exponentials, one for each neighbour, and not like one exponential with the mean rate.",
    basis=basis.Equation("of the survival over disorder as a compound Poisson law", via=ESCAPE_DRAFT),
    formula=r"S(t)=\big[1-p_c-\int h(\rho)(1-e^{-k(\rho)t})d\rho\big]^{M-1}",
)
def survival_curve(run: Run) -> Check:
    n, count, repeats = 20, 60, 500 if run.quick else 3000
    times = np.array([2.0, 10.0, 20.0])
    stored = np.stack([random_patterns(n, count, [run.seed, k, 7]) for k in range(repeats)])
    found = survival(stored, times, temperature=T, dt=0.02 if run.quick else 0.005, seed=run.seed).share
    mixed, single = curves(n, count, times)
    check = Check(parameters={"b": B, "T": T, "N": n, "M": count, "disorders": repeats})
    names = [f"share at $t={t:g}$" for t in times]
    check.series(
        names,
        predicted=mixed,
        measured=found.value,
        error=found.error,
        tolerance=0.04,
        because="error of a share; the flux is too large where barriers are low",
    )
    check.rival("one exponential with the mean rate", single)
    at_once = float(curves(n, count, np.zeros(1))[0][0])
    check.rival("no neighbour within reach below the threshold: lost at once or never", at_once)
    return check


@PAPER.claim(
    "joined-supports",
    says="Caps of the compact kernel at $b=10$, $N=20$ are joined like the vertices of a random graph: at two "
    "neighbours on average the largest cluster has the share of a random graph, at half a neighbour almost nothing, "
    "and the load with one neighbour is that of the overlap $2\\phi_c^2-1$, below the threshold of the kernel.",
    basis=basis.Derived("overlaps of random patterns are independent in pairs"),
    formula=r"s=1-e^{-ks},\qquad \alpha_{perc}=-\tfrac12\ln\big(1-(2\phi_c^2-1)^2\big)",
)
def joined_supports(run: Run) -> Check:
    b, n, repeats = 10.0, 20, 12 if run.quick else 40
    chance = float(betainc((n - 1) / 2, 0.5, 1 - compact.touching(b) ** 2) / 2)
    check = Check(parameters={"b": b, "N": n, "repeats": repeats, "load of percolation": percolation_load(b)})
    centres = {}
    for degree in (0.5, 2.0):
        count = round(degree / chance)
        found = [support_clusters(random_patterns(n, count, [run.seed, k, 3]), b) for k in range(repeats)]
        share, seen = mean(np.array([f.largest for f in found])), mean(np.array([f.degree for f in found]))
        graph = 0.0 if degree < 1 else brentq(lambda s, k=degree: 1 - np.exp(-k * s) - s, 0.1, 1)
        name = f"largest cluster at mean degree {degree:g}"
        check.row(
            name,
            predicted=graph,
            measured=share.value,
            error=share.error,
            repeats=repeats,
            tolerance=0.05,
            because="error over draws; triangles, which a random graph has not, and the finite number of patterns",
        )
        row = f"mean degree with {count} patterns"
        check.row(
            row,
            predicted=degree,
            measured=seen.value,
            error=seen.error,
            repeats=repeats,
            because="error over draws",
        )
        inside = float(betainc((n - 1) / 2, 0.5, 1 - support_edge(b) ** 2) / 2)
        centres[row] = count * inside
    check.rival("joined where one centre is in the other cap", centres)
    check.rival("all patterns in one cluster from mean degree 1 on", {"largest cluster at mean degree 2": 1.0})
    check.rival("a tree: nothing joined up to mean degree 2", {"largest cluster at mean degree 2": 0.0})
    return check


@PAPER.claim(
    "barrier-on-the-way",
    says="Along the shortest way between two patterns of the compact kernel the energy is highest where the second cap "
    "begins, and there it has a closed form.",
    basis=basis.Equation("of the energy at the edge of the corridor", via=ESCAPE_DRAFT),
    formula=r"\max\frac HN=\tfrac1b\ln\frac1{b(\hat\phi-\phi_c)},\quad "
    r"\hat\phi=\rho\phi_c+\sqrt{(1-\rho^2)(1-\phi_c^2)}",
)
def barrier_on_the_way(run: Run) -> Check:
    check = Check(parameters={"b": B})
    middle, bare = {}, {}
    for rho in (0.2, 0.4, 0.6):
        _, profile = barrier_profile(rho, B, 20_001)
        top = rho * EDGE + np.sqrt((1 - rho**2) * (1 - EDGE**2))
        name = rf"peak of the energy, $\rho={rho:g}$"
        check.row(
            name,
            predicted=-np.log(B * (top - EDGE)) / B,
            measured=profile.max(),
            tolerance=2e-4,
            because="20,001 points on the way, where the energy has a corner",
        )
        middle[name] = float(profile[len(profile) // 2])
        bare[name] = float(-np.log(1 - B * (1 - np.sqrt((1 + rho) / 2))) / B)
    check.rival("the energy in the middle", middle)
    check.rival("one pattern alone in the middle", bare)
    return check
