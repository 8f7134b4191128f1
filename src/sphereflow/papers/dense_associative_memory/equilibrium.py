r"""Equilibrium laws that are known exactly: one pattern at finite N, and any number of patterns at T = 1/beta.

$$\langle\phi\rangle=\frac{I_{N/2}(N/T)}{I_{N/2-1}(N/T)},\qquad
  T=\tfrac1\beta:\ \mu\text{ uniform},\ x\sim\mathrm{vMF}(\xi^\mu,\kappa=\beta N).$$
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.stats import ks_2samp

from sphereflow.claims import Measurement, Run, agreement, at_least
from sphereflow.memory.chains import bulk_metropolis
from sphereflow.memory.energies import LSE
from sphereflow.memory.landscapes import Full, random_patterns
from sphereflow.memory.sampling import metropolis
from sphereflow.memory.state import lse_mean_overlap, lse_overlap
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.sphere import von_mises_fisher


def mean_by_quadrature(n: int, temperature: float) -> float:
    """Mean overlap under (1 - phi^2)^((N-3)/2) exp(N phi / T), with scipy's quadrature."""

    def weight(phi: float) -> float:
        return float(np.exp((n - 3) / 2 * np.log1p(-phi * phi) + n * (phi - 1) / temperature))

    top, bottom = (
        quad(f, -1, 1, points=[float(lse_overlap(temperature))], epsabs=0, epsrel=1e-12, limit=400)[0]
        for f in (lambda p: p * weight(p), weight)
    )
    return top / bottom


@PAPER.claim(
    "finite-size-mean",
    statement="The mean overlap with one pattern at finite N is a ratio of Bessel functions.",
    source="One pattern in a heat bath at finite N",
    formula=r"\langle\phi\rangle=I_{N/2}(N/T)/I_{N/2-1}(N/T)",
    falsifier="exponent (N-1)/2 instead of (N-3)/2 in the density: off by -0.0076 at T = 0.5",
)
def finite_size_mean(run: Run) -> Measurement:
    n, t = 50, np.array([0.1, 0.3, 0.5, 1.0])
    exact = [lse_mean_overlap(n, v) for v in t]
    chains = bulk_metropolis(n, 1.0, t, np.full(4, -2.0), 64, 1500 if run.quick else 20_000, 300, run.seed)
    error = chains.overlap.std(axis=1, ddof=1) / np.sqrt(64)
    gain = np.array(exact) - lse_overlap(t)
    double = np.array([lse_mean_overlap(2 * n, v) for v in t]) - lse_overlap(t)
    return agreement(
        [0.9522, 0.8634, 0.7837, 0.6211, *(mean_by_quadrature(n, v) for v in t), *exact, *[2.0] * 4],
        [*exact, *exact, *chains.overlap.mean(axis=1), *(gain / double)],
        absolute=[6e-5] * 4 + [1e-11] * 4 + list(4 * error) + [0.1] * 4,
        because="reference with 4 decimals; quadrature to 1e-12; four standard errors of 64 chains; the distance from "
        "the limit halves as N doubles, up to the next order 1/N",
        labels=tuple(
            f"{what}, T={v:g}" for what in ("reference", "quadrature", "Monte Carlo", "gap(N)/gap(2N)") for v in t
        ),
        parameters={"N": n},
    )


@PAPER.claim(
    "exact-sampling",
    statement="At T = 1/beta the chains have the law 'a uniform pattern, then a von Mises-Fisher point around it'.",
    source="Exact point: the equilibrium is a mixture of von Mises-Fisher laws",
    formula=r"Z=\int dx\sum_\mu e^{-\beta N(1-\phi^\mu)},\qquad x\mid\mu\sim\mathrm{vMF}(\xi^\mu,\beta N)",
    falsifier="bath and kernel temperatures mixed, or a wrong concentration",
)
def exact_sampling(run: Run) -> Measurement:
    n, count, chains, steps = 10, 50, 4000, 250 if run.quick else 1500
    patterns = random_patterns(n, count, run.seed)
    rng = np.random.default_rng(run.seed)
    start = random_patterns(n, chains, [run.seed, 1])
    landscape = Full(LSE(1.0), jnp.asarray(patterns, jnp.float32))
    ones = jnp.ones(chains, jnp.float32)
    walked = metropolis(landscape, jnp.asarray(start, jnp.float32), ones, 0.5 * ones, jax.random.key(run.seed), steps)
    # Points around the first axis, reflected onto the chosen patterns.
    axis = np.eye(n)[0]
    drawn = np.asarray(von_mises_fisher(jax.random.key(run.seed + 1), chains, jnp.asarray(axis), float(n)))
    mirror = axis - patterns[rng.integers(0, count, chains)] / np.sqrt(n)
    drawn = drawn - 2 * mirror * (np.sum(mirror * drawn, axis=1) / np.sum(mirror**2, axis=1))[:, None]
    nearest = [np.max(x @ patterns.T, axis=1) / n for x in (np.asarray(walked.final, dtype=float), np.sqrt(n) * drawn)]
    return at_least(
        0.001,
        float(ks_2samp(*nearest).pvalue),
        because="Kolmogorov-Smirnov test of the largest overlap; a true law fails once in a thousand seeds",
        note=f"Mean largest overlap {nearest[0].mean():.4f} (chains), {nearest[1].mean():.4f} (mixture).",
        parameters={"N": n, "M": count, "chains": chains, "steps": steps, "sigma": 0.5, "beta": 1, "T": 1},
    )
