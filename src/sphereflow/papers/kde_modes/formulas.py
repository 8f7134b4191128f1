"""The ingredients: exact moments against quadrature, the law of slope and curvature, the rate of sparse samples."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.modes.moments import normal_moments
from sphereflow.modes.sparse import DENSE_RATE, INTENSITIES, RATES, simulated_rate
from sphereflow.papers.kde_modes import PAPER

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
    statement="The closed forms of the five moments of a kernel's slope and curvature are exact.",
    source="Section 5.2",
    formula=r"\mathbb EG'^2=B\big(1-2\beta(c_2^2+s_2)+\beta^2(c_2^4+6c_2^2s_2+3s_2^2)\big)",
    falsifier="a slip such as a missing 3 s2^2",
)
def moments(run: Run) -> Measurement:
    exact, measured, labels = [], [], []
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
                exact.append(expectation(function, t, beta))
                measured.append(float(closed[name]))
                labels.append(f"E{name}, beta={beta:g}, t={t:g}")
    # E G' is of order beta^{-3/2} while its integrand is of order one: that much of the quadrature's digits is lost.
    return agreement(
        exact, measured, relative=1e-10, because="accuracy of the quadrature, 1e-10 relative", labels=tuple(labels)
    )


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
    statement="At t = 3 slope and curvature of 6,500 samples have the stated means and covariances, and are close to "
    "Gaussian: the slope has skewness 0.098, as its third moment says.",
    source="Authors' code: joint density of (F, F') at t = 3, n = 6500, beta = 81",
    formula=r"(F,F')\approx N(nm,\,nS)",
    falsifier="moments of the wrong kernel, or a factor n",
)
def joint_law(run: Run) -> Measurement:
    draws = joint_draws(100_000 if run.quick else 400_000, run.seed + 21)
    m, n = normal_moments(PLACE, BETA), SAMPLES
    root, scale = float(np.exp(m.log_scale / 2)), float(np.exp(m.log_scale))
    means = n * root * np.array([m.mean, m.mean_slope])
    centred = draws - means
    products = [centred[:, 0] ** 2, centred[:, 0] * centred[:, 1], centred[:, 1] ** 2]
    spread = math.sqrt(n * scale * m.s11)
    cube = (centred[:, 0] / spread) ** 3
    third = n * expectation(lambda u: (slope(u, BETA) - means[0] / n) ** 3, PLACE, BETA) / spread**3
    third -= (1 - _mass_near()) * n * (means[0] / n / spread) ** 3
    columns = [draws[:, 0], draws[:, 1], *products, cube]
    return agreement(
        [*means, *(n * scale * np.array([m.s11, m.s12, m.s22])), third],
        [c.mean() for c in columns],
        absolute=[4 * c.std() / math.sqrt(len(c)) for c in columns],
        because="four standard errors",
        labels=("mean of F", "mean of F'", "variance of F", "covariance", "variance of F'", "skewness of F"),
        parameters={"t": PLACE, "n": n, "beta": BETA, "draws": len(draws)},
    )


def _mass_near() -> float:
    """Probability of the interval over which `expectation` integrates; outside it G - m is -m."""
    reach = 12 * BETA**-0.5
    return float(ndtr(PLACE + reach) - ndtr(PLACE - reach))


@PAPER.claim(
    "sparse-rate",
    statement="A Poisson process smoothed at x samples per bandwidth has f(x) modes per bandwidth, with f(x) = x - "
    "2x^2 for few samples and 0.1949 for many.",
    source="Beyond the paper: the sparse tail of the density",
    formula=r"f(x)=x-2x^2+0.802x^3+O(x^4),\qquad f(\infty)=\frac{\sqrt{3/2}}{2\pi}",
    falsifier="samples that merge at a distance other than two bandwidths",
)
def sparse_rates(run: Run) -> Measurement:
    table = dict(zip(INTENSITIES, RATES, strict=True))
    chosen = (0.05, 0.20) if run.quick else INTENSITIES
    length = 1_000_000 if run.quick else 16_000_000
    found = []
    for k, x in enumerate(chosen):
        found.append(simulated_rate(x, length, seed=run.seed + 30 + k))
        run.notify((k + 1) / (len(chosen) + 1), f"sparse rate at {x:g}")
    dense = simulated_rate(8.0, length // 25, seed=run.seed + 60)
    return agreement(
        [*(table[x] for x in chosen), DENSE_RATE],
        [v for v, _ in [*found, dense]],
        absolute=[3 * math.hypot(e, 5e-5) for _, e in found] + [3 * dense[1]],
        because="three standard errors, that of the reference (5e-5) included",
        labels=(*(f"x={x:g}" for x in chosen), "x=8 against the limit"),
        parameters={"bandwidths": length},
    )
