"""The ingredients: exact moments against quadrature, the law of slope and curvature, the rate of sparse samples."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from sphereflow.claims import Check, Run, basis
from sphereflow.modes.moments import normal_moments
from sphereflow.modes.sparse import DENSE_RATE, simulated_rate
from sphereflow.papers.kde_modes import PAPER
from sphereflow.papers.kde_modes.sources import CODE, LEAN

# Joint density of (F, F') in the authors' code: this place, number of samples and beta.
PLACE, SAMPLES, BETA = 3.0, 6500, 81.0


def slope(u: np.ndarray | float, beta: float) -> np.ndarray:
    """G at t - X = u."""
    return np.asarray(u * np.exp(-beta * np.square(u) / 2))


def curvature(u: np.ndarray | float, beta: float) -> np.ndarray:
    """G' at t - X = u."""
    return np.asarray((1 - beta * np.square(u)) * np.exp(-beta * np.square(u) / 2))


def expectation(function, t: float, beta: float) -> float:
    """E function(t - X) for a standard normal X, by adaptive quadrature around t."""
    reach = 12 * beta**-0.5

    def integrand(u: float) -> float:
        return float(function(u)) * math.exp(-((t - u) ** 2) / 2) / math.sqrt(2 * math.pi)

    # The ends of the parts are where G and G' change sign: no part is small by cancellation.
    ends = [-reach, -(beta**-0.5), 0.0, beta**-0.5, reach]
    return sum(quad(integrand, a, b, epsabs=0, epsrel=1e-13, limit=400)[0] for a, b in pairwise(ends))


@PAPER.claim(
    "moments",
    says="The closed forms of the five moments of a kernel's slope and curvature are exact.",
    basis=basis.Equation("sec 5.2", via=LEAN),
    formula=r"\mathbb EG'^2=B\big(1-2\beta(c_2^2+s_2)+\beta^2(c_2^4+6c_2^2s_2+3s_2^2)\big)",
)
def moments(run: Run) -> Check:
    check = Check()
    leading, slipped = {}, {}
    for beta in (1.0, 50.0, 1e4):
        for t in (0.0, 1.3, 3.0):
            functions = {
                "G": lambda u, b=beta: slope(u, b),
                "G'": lambda u, b=beta: curvature(u, b),
                "GG": lambda u, b=beta: slope(u, b) ** 2,
                "GG'": lambda u, b=beta: slope(u, b) * curvature(u, b),
                "G'G'": lambda u, b=beta: curvature(u, b) ** 2,
            }
            closed = normal_moments(t, beta).plain()
            for name, function in functions.items():
                if t == 0 and name in ("G", "GG'"):
                    continue  # zero by symmetry
                # E G' is of order beta^{-3/2} while its integrand is of order one: that much of the quadrature's
                # digits is lost.
                row = f"$E{name}$, $\\beta={beta:g}$, $t={t:g}$"
                because = "accuracy of the quadrature, 1e-10 relative"
                exact = expectation(function, t, beta)
                check.row(row, predicted=exact, measured=closed[name], relative=1e-10, because=because)
                if name == "G":
                    leading[row] = beta**-1.5 * t * math.exp(-(t**2) / 2)
                if name == "G'G'":
                    s2 = 1 / (2 * beta + 1)
                    slipped[row] = exact - 3 * (beta * s2) ** 2 * math.sqrt(s2) * math.exp(-beta * t**2 * s2)
    check.rival(r"leading order for large $\beta$", leading)
    check.rival("$3s_2^2$ left out", slipped)
    return check


def joint_draws(count: int, seed: int) -> np.ndarray:
    """(count, 2): draws of (F, F') at PLACE; only samples within eight bandwidths are drawn, by inversion."""
    rng = np.random.default_rng(seed)
    reach = 8 * BETA**-0.5
    low, high = ndtr(-(PLACE + reach)), ndtr(-(PLACE - reach))
    near = rng.binomial(SAMPLES, high - low, count)
    u = PLACE + ndtri(rng.uniform(low, high, near.sum()))  # X has the law of -ndtri, on the side of small numbers
    owner = np.repeat(np.arange(count), near)
    return np.stack([np.bincount(owner, g(u, BETA), minlength=count) for g in (slope, curvature)], axis=1)


@PAPER.claim(
    "joint-law",
    says="At $t=3$ slope and curvature of 6,500 samples have the stated means and covariances; the law is close to "
    "Gaussian but not Gaussian: the slope has skewness 0.098, as its third moment says.",
    basis=basis.AuthorCode(CODE, "commit 814fe83", "joint-density.py"),
    formula=r"(F,F')\approx N(nm,\,nS)",
)
def joint_law(run: Run) -> Check:
    draws = joint_draws(120_000 if run.quick else 800_000, run.seed + 21)
    m, n = normal_moments(PLACE, BETA), SAMPLES
    root, scale = float(np.exp(m.log_scale / 2)), float(np.exp(m.log_scale))
    means = n * root * np.array([m.mean, m.mean_slope])
    centred = draws - means
    spread = math.sqrt(n * scale * m.s11)
    third = n * expectation(lambda u: (slope(u, BETA) - means[0] / n) ** 3, PLACE, BETA) / spread**3
    third -= (1 - _mass_near()) * n * (means[0] / n / spread) ** 3
    check = Check(parameters={"t": PLACE, "n": n, "beta": BETA, "draws": len(draws)})
    for name, predicted, column in (
        ("mean of $F$", means[0], draws[:, 0]),
        ("mean of $F'$", means[1], draws[:, 1]),
        ("variance of $F$", n * scale * m.s11, centred[:, 0] ** 2),
        ("covariance", n * scale * m.s12, centred[:, 0] * centred[:, 1]),
        ("variance of $F'$", n * scale * m.s22, centred[:, 1] ** 2),
        ("skewness of $F$", third, (centred[:, 0] / spread) ** 3),
    ):
        error = column.std() / math.sqrt(len(column))
        because = "standard error of the draws"
        check.row(name, predicted=predicted, measured=column.mean(), error=error, because=because)
    check.rival("a Gaussian law", {"skewness of $F$": 0.0})
    check.rival("slope and curvature independent", {"covariance": 0.0})
    return check


def _mass_near() -> float:
    """Probability of the interval over which `expectation` integrates; outside it G - m is -m."""
    reach = 12 * BETA**-0.5
    return float(ndtr(PLACE + reach) - ndtr(PLACE - reach))


def sparse_series(x: float) -> float:
    """Modes per bandwidth of few samples: exact counts of one, two and three points."""
    return x - 2 * x**2 + 0.802 * x**3


@PAPER.claim(
    "sparse-rate",
    says="A Poisson process smoothed at $x$ samples per bandwidth has $x-2x^2+0.802x^3$ modes per bandwidth for few "
    "samples, and 0.1949 for many.",
    basis=basis.Extension("the sparse tail of the density, which the paper only bounds"),
    formula=r"f(x)=x-2x^2+0.802x^3+O(x^4),\qquad f(\infty)=\frac{\sqrt{3/2}}{2\pi}",
)
def sparse_rates(run: Run) -> Check:
    length = 1_000_000 if run.quick else 16_000_000
    check = Check(parameters={"bandwidths": length})
    for k, x in enumerate((0.02, 0.05, 8.0)):
        stretch = length if x < 1 else length // 25
        rate, error = simulated_rate(x, stretch, seed=run.seed + 30 + k)
        predicted = sparse_series(x) if x < 1 else DENSE_RATE * (1 - 0.00201 / x)
        truncation = 10 * x**4 if x < 1 else 0.0
        because = f"standard error of {stretch} bandwidths, and $10x^4$ for what the series leaves out"
        check.row(f"$x={x:g}$", predicted=predicted, measured=rate, tolerance=truncation, error=error, because=because)
        run.notify((k + 1) / 3, f"sparse rate at {x:g}")
    check.rival("samples merge within one bandwidth", {"$x=0.05$": 0.05 - 0.05**2})
    check.rival("zeros of the field, not of its slope", {"$x=8$": math.sqrt(1 / 2) / (2 * math.pi)})
    return check
