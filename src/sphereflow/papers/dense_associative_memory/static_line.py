r"""The static line, where all basins together weigh as much as the noise, and retrieval in a hot bath at low load.

$$\alpha_u=\frac{g_{max}(n\beta)-n\,g_{max}(\beta)}{n-1},\ n=\frac1{\beta T}\ (T<\tfrac1\beta),\qquad
  \alpha_u=-\tfrac12\ln(1-\phi_{eq}^2)\ (T\ge\tfrac1\beta).$$
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, ive, logsumexp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean, straight_line
from sphereflow.memory import gaussian, spherical
from sphereflow.memory.landscapes import random_patterns
from sphereflow.memory.state import lse_mean_overlap
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.sources import HOT


def log_moment(n: int, kappa: np.ndarray | float) -> np.ndarray:
    r"""$\ln E\,e^{\kappa\phi}$ for one overlap with a uniform point of the sphere in N dimensions."""
    k = np.asarray(kappa, dtype=float)
    return np.asarray(gammaln(n / 2) + (n / 2 - 1) * np.log(2 / k) + np.log(ive(n / 2 - 1, k)) + k)


def half_load(n: int, load: float, seed: int, disorder: int) -> float:
    """The load at which single patterns carry half of Z at T = 1/(2 beta), from all pairs of drawn patterns.

    Z is there a sum over ordered pairs of patterns of E exp(N x.(xi + xi')), a Bessel function of their overlap.
    """
    patterns = random_patterns(n, round(np.exp(load * n)), [seed, n, disorder])
    count = len(patterns)
    table = np.linspace(-0.999, 0.999, 4001)
    pairs = log_moment(n, n * np.sqrt(2 + 2 * table))
    rho = (patterns @ patterns.T / n)[np.triu_indices(count, 1)]
    others = np.log(2) + logsumexp(np.interp(rho, table, pairs))
    alone = np.log(count) + float(log_moment(n, 2.0 * n))
    # The ratio of the two grows like M - 1, so the load of equal weights is read off directly.
    return float((np.log(count - 1) + alone - others) / n)


@PAPER.claim(
    "static-line",
    says=r"At $\beta=1$ and $T=1/2$ the load at which single patterns carry half of the partition function, from sums "
    "over all pairs of drawn patterns and extrapolated in $1/N$, is the static line: neither where one basin is as "
    "deep as the noise nor where the retrieval minimum disappears.",
    basis=basis.Derived("the partition function counted over the union of all basins"),
    formula=r"\alpha_u=\frac{\beta(1-f_{ret})-g_{max}(\beta)}{1-\beta T}"
    r"=\frac{g_{max}(n\beta)-n\,g_{max}(\beta)}{n-1},\quad n=\tfrac1{\beta T}=2",
)
def static_line(run: Run) -> Check:
    temperature, repeats = 0.5, 12 if run.quick else 60
    sizes = np.array([12, 14, 17, 20])
    measured = [
        mean(np.array([half_load(int(n), 0.34, run.seed, k) for k in range(repeats * (3 if n < 16 else 1))]))
        for n in sizes
    ]
    values, errors = (np.array([float(getattr(m, part)) for m in measured]) for part in ("value", "error"))
    limit, slope = straight_line(1 / sizes, values, errors + 0.01 / sizes**2)
    check = Check(parameters={"beta": 1, "T": temperature, "N": sizes.tolist(), "disorders": repeats})
    because = "standard errors of the weighted fit, which include a term of order 1/N^2"
    check.row(
        r"limit of $\alpha_{1/2}(N)$",
        predicted=spherical.static(temperature, 1.0),
        measured=limit.value,
        error=limit.error,
        because=because,
    )
    near, far = (1 - float(spherical.saddle(b)) ** 4 for b in (1.0, 2.0))
    check.row(
        "slope in 1/N", predicted=np.log(near / np.sqrt(far)), measured=slope.value, error=slope.error, because=because
    )
    name = r"limit of $\alpha_{1/2}(N)$"
    check.rival("one basin as deep as the noise", {name: float(spherical.equal_depth(temperature, 1.0))})
    check.rival("the spinodal", {name: float(spherical.spinodal(temperature, 1.0))})
    check.rival("the published line, Gaussian overlaps", {name: float(gaussian.lse_line(temperature, 1.0))})
    return check


def cap_points(rng: np.random.Generator, axes: np.ndarray, kappa: float) -> np.ndarray:
    """One point of density exp(kappa phi) around each axis (unit vectors), by the inverse of the law of its overlap."""
    n = axes.shape[1]
    theta = np.linspace(0, np.pi, 20_001)[1:-1]
    log_law = (n - 2) * np.log(np.sin(theta)) + kappa * (np.cos(theta) - 1)
    law = np.cumsum(np.exp(log_law - log_law.max()))
    angle = np.interp(rng.random(len(axes)), law / law[-1], theta)[:, None]
    aside = rng.standard_normal(axes.shape)
    aside -= np.sum(aside * axes, axis=1, keepdims=True) * axes
    return np.cos(angle) * axes + np.sin(angle) * aside / np.linalg.norm(aside, axis=1, keepdims=True)


def largest_overlap(n: int, count: int, temperature: float, samples: int, seed: int, disorder: int) -> float:
    """The equilibrium mean of the largest overlap with one of the drawn patterns (beta = 1), by importance sampling.

    Points come in equal parts from the uniform law and from caps of concentration N/T around all patterns.
    """
    rng = np.random.default_rng([seed, disorder, 1])
    patterns = random_patterns(n, count, [seed, disorder]) / np.sqrt(n)
    kappa = n / temperature
    uniform = rng.standard_normal((samples // 2, n))
    around = patterns[rng.integers(0, count, samples // 2)]
    x = np.concatenate([uniform / np.linalg.norm(uniform, axis=1, keepdims=True), cap_points(rng, around, kappa)])
    phi = x @ patterns.T
    caps = logsumexp(kappa * phi, axis=1) - np.log(count) - float(log_moment(n, kappa))
    log_weight = logsumexp(n * phi, axis=1) / temperature - np.logaddexp(0.0, caps)
    weight = np.exp(log_weight - log_weight.max())
    return float(weight @ phi.max(axis=1) / weight.sum())


@PAPER.claim(
    "retrieval-in-a-hot-bath",
    says=r"With 148 patterns in 100 dimensions (load 0.05) the equilibrium at $T=1.5$ still sits on a pattern: the "
    "largest overlap is that of one pattern alone, although the published line ends retrieval at $T=1.30$.",
    basis=HOT,
    formula=r"T_u=\frac{e^{-2\alpha}}{\sqrt{1-e^{-2\alpha}}}\approx\frac1{\sqrt{2\alpha}},\qquad T_u(0.05)=2.93",
)
def retrieval_in_a_hot_bath(run: Run) -> Check:
    n, count, repeats = 100, 148, 12 if run.quick else 40
    samples = 1000 if run.quick else 40_000
    check = Check(parameters={"N": n, "M": count, "disorders": repeats, "samples": samples})
    load = np.log(count) / n
    lost = {}
    for t in (1.0, 1.5):
        found = mean(np.array([largest_overlap(n, count, t, samples, run.seed, k) for k in range(repeats)]))
        name = f"largest overlap, $T={t:g}$"
        check.row(
            name,
            predicted=lse_mean_overlap(n, t),
            measured=found.value,
            error=found.error,
            repeats=repeats,
            tolerance=0.004,
            because="standard error over disorders, and the chance of a neighbour that is nearer still",
        )
        if t > gaussian.lse_critical_temperature(load):
            lost[name] = float(np.sqrt(2 * load))
    name = "largest overlap, $T=1.5$"
    check.rival("the published line: the state is lost in the noise", lost)
    check.rival("the Gaussian entropy, overlap 1/T", {name: 1 / 1.5})
    edge = brentq(lambda t: float(spherical.equal_depth(t, 1.0)) - load, 0.1, 10)
    check.rival(f"lost beyond equal depth, $T={edge:.2f}$", {name: float(spherical.extreme_overlap(load))})
    return check
