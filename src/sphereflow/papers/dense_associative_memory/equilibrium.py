r"""Equilibrium laws that are known exactly: one pattern at finite N, and any number of patterns at T = 1/beta.

$$\langle\phi\rangle=\frac{I_{N/2}(N/T)}{I_{N/2-1}(N/T)},\qquad
  T=\tfrac1\beta:\ \mu\text{ uniform},\ x\sim\mathrm{vMF}(\xi^\mu,\kappa=\beta N).$$
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import ks_2samp

from sphereflow.claims import Check, Run, basis
from sphereflow.claims.check import FALSE_ALARM
from sphereflow.estimates import mean
from sphereflow.memory.chains import bulk_metropolis
from sphereflow.memory.energies import LSE, LSR, Energy
from sphereflow.memory.landscapes import Full, random_patterns, state_at
from sphereflow.memory.sampling import metropolis, published_step
from sphereflow.memory.state import REFERENCE_B, lse_mean_overlap, lse_overlap, lsr_overlap
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.hot_bath import cap_points
from sphereflow.papers.dense_associative_memory.sources import ENTROPY


def mean_by_quadrature(n: int, temperature: float, exponent: float) -> float:
    """Mean overlap under (1 - phi^2)^exponent exp(N phi / T), with scipy's quadrature."""

    def weight(phi: float) -> float:
        return float(np.exp(exponent * np.log1p(-phi * phi) + n * (phi - 1) / temperature))

    top, bottom = (
        quad(f, -1, 1, points=[float(lse_overlap(temperature))], epsabs=0, epsrel=1e-12, limit=400)[0]
        for f in (lambda p: p * weight(p), weight)
    )
    return top / bottom


@PAPER.claim(
    "finite-size-mean",
    says="The mean overlap with one pattern at $N=10$ is a ratio of Bessel functions; chains tell it from the limit of "
    "large $N$.",
    basis=basis.Derived("the Boltzmann law of one overlap on the sphere"),
    formula=r"\langle\phi\rangle=I_{N/2}(N/T)/I_{N/2-1}(N/T)",
)
def finite_size_mean(run: Run) -> Check:
    n, t, chains = 10, np.array([0.3, 0.5, 1.0]), 600
    walked = bulk_metropolis(n, 1.0, t, np.full(3, -2.0), chains, 2500 if run.quick else 20_000, 300, run.seed)
    measured = mean(walked.overlap.T)
    check = Check(parameters={"N": n, "chains": chains})
    exact = [lse_mean_overlap(n, v) for v in t]
    names = [f"chains, $T={v:g}$" for v in t]
    check.series(
        names,
        predicted=exact,
        measured=measured.value,
        error=measured.error,
        repeats=chains,
        because="standard error of the chains",
    )
    check.series(
        [f"quadrature, $T={v:g}$" for v in t],
        predicted=exact,
        measured=[mean_by_quadrature(n, v, (n - 3) / 2) for v in t],
        tolerance=1e-10,
        because="relative accuracy 1e-12 of the quadrature",
    )
    check.rival("the limit of large N", dict(zip(names, lse_overlap(t).tolist(), strict=True)))
    wrong = [mean_by_quadrature(n, v, (n - 2) / 2) for v in t]
    check.rival("the exponent (N-2)/2 in the density", dict(zip(names, wrong, strict=True)))
    return check


def fitted_exponent(phi: np.ndarray, energy: np.ndarray, grid: np.ndarray) -> tuple[float, float]:
    """(m, standard error) of the law (1 - phi^2)^m exp(-energy) that makes the overlaps most likely.

    `energy` is N u / T on the even grid of overlaps on which the law is normalised.
    """
    goal = float(np.mean(np.log1p(-(phi**2))))
    logs = np.log1p(-(grid**2))

    def moments(m: float) -> tuple[float, float]:
        law = m * logs - energy
        law = np.exp(law - law.max())
        law /= law.sum()
        first = float(law @ logs)
        return first, float(law @ (logs - first) ** 2)

    m = float(brentq(lambda v: moments(v)[0] - goal, -0.9, 200.0))
    return m, float(1 / np.sqrt(len(phi) * moments(m)[1]))


def log_weight(
    phi: np.ndarray, patterns: np.ndarray, kernel: Callable[[np.ndarray], np.ndarray], power: float, seed: int
) -> np.ndarray:
    r"""$\log E\big[\big(\sum_\mu k(\phi^\mu)\big)^p\big]$ over points of the sphere with overlap phi to pattern 1."""
    n = patterns.shape[1]
    axes = patterns / np.sqrt(n)
    aside = np.random.default_rng([seed, 3]).normal(size=(4000, n))
    aside -= (aside @ axes[0])[:, None] * axes[0]
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    across = aside @ axes.T
    sums = [kernel(p * (axes @ axes[0]) + np.sqrt(1 - p * p) * across).sum(axis=1) for p in phi]
    return np.array([logsumexp(power * np.log(each)) for each in sums]) - np.log(len(aside))


@PAPER.claim(
    "entropy-of-the-sphere",
    says="The entropy in the law of the overlap is that of the sphere for both kernels: the exponent fitted to the "
    "last states of chains that are still near the pattern they started from, $\\phi>0.75$, is $(N-3)/2$.",
    basis=ENTROPY,
    formula=r"p(\phi)\propto(1-\phi^2)^{(N-3)/2}\,E\big[e^{-H/T}\mid\phi\big]",
)
def entropy_of_the_sphere(run: Run) -> Check:
    n, count, t = 20, 6, 0.3
    chains, steps = (2500, 400) if run.quick else (4000, 2000)
    # In time chains leave for other patterns; those that are near the first one have its law, cut at this overlap.
    lowest, b = 0.75, REFERENCE_B
    patterns = random_patterns(n, count, [run.seed, 2])
    kernels: dict[str, tuple[Energy, float, Callable[[np.ndarray], np.ndarray], float]] = {
        "LSE": (LSE(1.0), float(lse_overlap(t)), lambda phi: np.exp(n * (phi - 1)), 1 / t),
        "LSR": (
            LSR.on_sphere(b, n),
            float(lsr_overlap(t, b)),
            lambda phi: np.maximum(1 - b * (1 - phi), 0),
            n / (b * t),
        ),
    }
    check = Check(parameters={"N": n, "M": count, "T": t, "chains": chains, "steps": steps})
    fill = jnp.ones(chains, jnp.float32)
    grid = lowest + (1 - lowest) * (np.arange(4000) + 0.5) / 4000
    coarse = np.linspace(lowest, 1, 101)
    for name, (energy, start, kernel, power) in kernels.items():
        x0 = jnp.asarray(state_at(patterns[0], np.full(chains, start), run.seed), jnp.float32)
        landscape = Full(energy, jnp.asarray(patterns, jnp.float32))
        sigma = float(published_step(n, t)) * fill
        walked = metropolis(landscape, x0, t * fill, sigma, jax.random.key(run.seed), steps)
        phi = np.asarray(walked.final, dtype=float) @ patterns[0] / n
        alone = power * np.log(kernel(coarse))
        others = np.interp(grid, coarse, log_weight(coarse, patterns, kernel, power, run.seed) - alone)
        m, error = fitted_exponent(phi[phi > lowest], -power * np.log(kernel(grid)) - others, grid)
        check.row(
            name,
            predicted=(n - 3) / 2,
            measured=m,
            error=error,
            because="standard error of the likelihood; the other patterns are in the law",
        )
    check.rival("the exponent (N-2)/2", (n - 2) / 2)
    check.rival("the exponent (N-1)/2", (n - 1) / 2)
    check.rival("N/2, from the limit of large N", n / 2)
    return check


@PAPER.claim(
    "exact-sampling",
    says=r"At $T=1/\beta$ the last states of independent chains have the law 'a uniform pattern, then a point of "
    r"concentration $\beta N$ around it'.",
    basis=basis.Derived("at T = 1/beta the partition function is a sum of equal integrals"),
    formula=r"Z=\int dx\sum_\mu e^{-\beta N(1-\phi^\mu)},\qquad x\mid\mu\sim\mathrm{vMF}(\xi^\mu,\beta N)",
)
def exact_sampling(run: Run) -> Check:
    n, count, beta = 10, 50, 1.25
    chains, steps = (2000, 250) if run.quick else (4000, 1500)
    patterns = random_patterns(n, count, run.seed)
    rng = np.random.default_rng(run.seed)
    start = random_patterns(n, chains, [run.seed, 1])
    landscape = Full(LSE(beta), jnp.asarray(patterns, jnp.float32))
    ones = jnp.ones(chains, jnp.float32)
    walked = metropolis(
        landscape, jnp.asarray(start, jnp.float32), ones / beta, 0.5 * ones, jax.random.key(run.seed), steps
    )

    def nearest(x: np.ndarray) -> np.ndarray:
        return np.max(x @ patterns.T, axis=1) / np.sqrt(n)

    def drawn(kappa: float, number: int) -> np.ndarray:
        return nearest(cap_points(rng, patterns[rng.integers(0, count, number)] / np.sqrt(n), kappa))

    seen, exact = nearest(np.asarray(walked.final, dtype=float) / np.sqrt(n)), drawn(beta * n, 5 * chains)
    check = Check(parameters={"N": n, "M": count, "chains": chains, "steps": steps, "beta": beta, "T": 1 / beta})
    chain_mean, exact_mean = mean(seen), mean(exact)
    check.row(
        "mean largest overlap",
        predicted=exact_mean.value,
        measured=chain_mean.value,
        error=np.hypot(chain_mean.error, exact_mean.error),
        because="standard errors of the chains and of the exact draws",
    )
    distance = "distance of the laws of the largest overlap"
    width = np.sqrt(-np.log(FALSE_ALARM / 2) / 2 * (1 / chains + 1 / (5 * chains)))
    because = "Kolmogorov-Smirnov, false alarm 1e-5"
    check.at_most(distance, bound=0.0, measured=ks_2samp(seen, exact).statistic, tolerance=width, because=because)
    for name, kappa in (("the concentration N", n), (r"the concentration $N\beta/T$", n * beta**2)):
        other = drawn(kappa, 5 * chains)
        check.rival(name, {"mean largest overlap": float(other.mean())})
        check.null(f"{name}, whole law", {distance: float(ks_2samp(seen, other).statistic)})
    check.rival("a uniform point of the sphere", {"mean largest overlap": float(nearest(start / np.sqrt(n)).mean())})
    return check
