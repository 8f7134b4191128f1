r"""The compact kernel: its threshold on the sphere, exact one-step retrieval, and centroids of two patterns.

$$\alpha_{th}=-\tfrac12\ln(1-\phi_c^2),\qquad
  M\cdot\tfrac12I_{1-\phi_c^2}\!\left(\tfrac{N-1}2,\tfrac12\right)\text{ patterns in support}.$$
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import norm

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.memory import compact, gaussian, overlaps, state
from sphereflow.memory.energies import LSR
from sphereflow.memory.landscapes import Full, random_patterns, state_at
from sphereflow.memory.sampling import metropolis
from sphereflow.papers.dense_associative_memory import PAPER

B = state.REFERENCE_B
ESCAPE_DRAFT = "a follow-up draft on escape in the authors' repository epolyach/DenseAM-GPU"


@PAPER.claim(
    "support-count",
    says="The share of random patterns in the support of a state is an incomplete beta function: pairs of drawn points "
    "agree for $N=8$, 12 and 16.",
    basis=basis.Equation("of the threshold of the Epanechnikov kernel at finite N", via=ESCAPE_DRAFT),
    formula=r"\Pr(\phi>\phi_c)=\tfrac12I_{1-\phi_c^2}(\tfrac{N-1}2,\tfrac12)",
)
def support_count(run: Run) -> Check:
    states, patterns = 1000, 1000 if run.quick else 10_000
    check = Check(parameters={"b": B, "states": states, "patterns": patterns})
    gauss, larger = {}, {}
    for n in (8, 12, 16):
        x, xi = random_patterns(n, states, [run.seed, n, 0]), random_patterns(n, patterns, [run.seed, n, 1])
        inside = x @ xi.T / n > state.support_edge(B)
        shares, others = mean(inside.mean(axis=1)), mean(inside.mean(axis=0))
        name = f"$N={n}$"
        check.row(
            name,
            predicted=np.exp(overlaps.log_tail(state.support_edge(B), n)),
            measured=shares.value,
            error=np.hypot(shares.error, others.error),
            because="spread over states and over patterns",
        )
        gauss[name] = float(norm.sf(state.support_edge(B) * np.sqrt(n)))
        larger[name] = float(np.exp(overlaps.log_tail(state.support_edge(B), n + 1)))
    check.rival("a Gaussian tail", gauss)
    check.rival("one dimension more", larger)
    return check


@PAPER.claim(
    "compact-threshold",
    says="The load at which a random state has one pattern in its support tends to 0.3466 on the sphere, from above "
    "and as slowly as $\\ln N/N$; with Gaussian overlaps it would tend to 0.25.",
    basis=basis.Equation("of the threshold of the Epanechnikov kernel", via=ESCAPE_DRAFT),
    formula=r"\alpha_{th}(N)\approx\frac{N-1}N\alpha_{th}+\frac{\ln(\phi_c\sqrt{2\pi N})}N,\qquad "
    r"\alpha_{th}=-\tfrac12\ln(1-\phi_c^2)",
)
def compact_threshold(run: Run) -> Check:
    edge = state.support_edge(B)
    check = Check(parameters={"b": B})
    gauss, bare = {}, {}
    for n in (25, 100, 1000, 10_000):
        # ln of the share of the sphere beyond the edge, in u = -ln(sin) so that nothing underflows.
        scale = (n - 1) / 2
        tail = quad(
            lambda v, s=scale: np.exp(-v) / np.sqrt(1 - (1 - edge**2) * np.exp(-v / s)), 0, 60, epsabs=0, epsrel=1e-11
        )[0]
        log_share = (
            scale * np.log(1 - edge**2) + np.log(tail / (2 * scale)) - (gammaln((n - 1) / 2) + gammaln(0.5))
        ) + gammaln(n / 2)
        name = f"$N={n}$"
        correction = np.log(edge * np.sqrt(2 * np.pi * n)) / n
        check.row(
            name,
            predicted=(n - 1) / n * compact.threshold(B) + correction,
            measured=-log_share / n,
            tolerance=4 / n**2,
            because="next term of the expansion of the tail, of order 1/N^2",
        )
        gauss[name] = gaussian.lsr_threshold(B) + correction
        bare[name] = compact.threshold(B)
    check.rival("Gaussian overlaps", gauss)
    check.rival("the limit without its correction", bare)
    return check


@PAPER.claim(
    "one-step-retrieval",
    says="Inside one cap a single gradient step of the length $1-b(1-\\phi)$ lands exactly on the pattern, and so does "
    "the mean of the patterns in support.",
    basis=basis.Derived("the gradient of the kernel written with the distance"),
    formula=r"x-\eta\nabla H=\xi,\qquad \eta=1-b(1-\phi),\quad \nabla H=(x-\xi)/\eta",
)
def one_step_retrieval(run: Run) -> Check:
    n = 64
    patterns = random_patterns(n, 20, run.seed)
    energy = LSR.on_sphere(B, n)
    phi = np.linspace(state.support_edge(B) + 0.01, 0.999, 12)
    start = state_at(patterns[0], phi, run.seed)
    x, stored = jnp.asarray(start), jnp.asarray(patterns)
    eta = (1 - B * (1 - phi))[:, None]

    def miss(y: np.ndarray | jax.Array) -> float:
        return float(np.abs(np.asarray(y) - patterns[0]).max())

    check = Check(parameters={"N": n, "M": 20, "b": B})
    names = ("largest miss of the gradient step", "largest miss of the mean of the patterns in support")
    because = "rounding times the largest gradient"
    gradient, update = jax.jit(lambda y: (energy.gradient(y, stored), energy.update(y, stored)))(x)
    landed = (start - eta * np.asarray(gradient), update)
    check.series(names, predicted=0.0, measured=[miss(y) for y in landed], tolerance=1e-10, because=because)
    check.rival(r"the gradient of $x\cdot\xi/N$, $-\xi/\eta$", {names[0]: miss(start + patterns[0])})
    check.rival("a step of length 1", {names[0]: miss(start - (start - patterns[0]) / eta)})
    return check


def pair(n: int, rho: float) -> np.ndarray:
    """Two patterns of length sqrt(N) and overlap rho."""
    return np.sqrt(n) * np.stack([np.eye(n)[0], rho * np.eye(n)[0] + np.sqrt(1 - rho**2) * np.eye(n)[1]])


def advantage(n: int, rho: float) -> float:
    """Energy of a pattern less that of the centroid of two patterns at T = 0, over N, by the energy itself."""
    patterns = pair(n, rho)
    centre = patterns.sum(axis=0)
    centre *= np.sqrt(n) / np.linalg.norm(centre)
    at_pattern, at_centre = (float(_energy(LSR.on_sphere(B, n), x, patterns)) for x in (patterns[0], centre))
    return (at_pattern - at_centre) / n


_energy = jax.jit(lambda energy, x, patterns: energy.energy(x, patterns))


@PAPER.claim(
    "centroids",
    says="Two close patterns hold a state between them: chains started there stay at the overlap of the two-pattern "
    "equation with both, and at $T=0$ the centroid is deeper than a pattern once the patterns' overlap exceeds 0.4571.",
    basis=basis.Equation("of the two-pattern centroid", via=ESCAPE_DRAFT),
    formula=r"\frac1{1-b+b\phi}=\frac{2T\phi}{1+\rho-2\phi^2},\qquad \rho>2(1-\tfrac1{2b})^2-1",
)
def centroids(run: Run) -> Check:
    n, rho = 300, 0.5
    chains, steps = (32, 1200) if run.quick else (64, 6000)
    temperatures = np.array([0.1, 0.2])
    patterns = pair(n, rho)
    check = Check(parameters={"b": B, "N": n, "rho": rho, "chains": chains, "steps": steps})
    t = np.repeat(temperatures, chains)
    rng = np.random.default_rng(run.seed)
    overlap = np.array([compact.centroid_overlap(float(v), rho, B) for v in t])
    # A point with this overlap with both patterns: along their sum, the rest in a random other direction.
    along = patterns.sum(axis=0) / np.linalg.norm(patterns.sum(axis=0))
    aside = np.concatenate([np.zeros((len(t), 2)), rng.standard_normal((len(t), n - 2))], axis=1)
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    cosine = overlap / np.sqrt((1 + rho) / 2)
    x0 = np.sqrt(n) * (cosine[:, None] * along + np.sqrt(1 - cosine**2)[:, None] * aside)
    walked = metropolis(
        Full(LSR.on_sphere(B, n), jnp.asarray(patterns, jnp.float32)),
        jnp.asarray(x0, jnp.float32),
        jnp.asarray(t, jnp.float32),
        jnp.asarray(2.4 * t / np.sqrt(n), jnp.float32),
        jax.random.key(run.seed),
        steps,
    )
    both = np.asarray(walked.final, dtype=float) @ patterns.T / n
    alone, single = {}, {}
    for place, v in enumerate(temperatures):
        seen = mean(both[place * chains : (place + 1) * chains].mean(axis=1))
        name = f"mean overlap with both, $T={v:g}$"
        check.row(
            name,
            predicted=compact.centroid_overlap(float(v), rho, B),
            measured=seen.value,
            error=seen.error,
            repeats=chains,
            tolerance=1 / n,
            because="standard error over chains, and the correction of order 1/N",
        )
        alone[name] = float(state.lsr_overlap(v, B))
        single[name] = compact.centroid_overlap(2 * float(v), rho, B)
    edge = "overlap at which the centroid is as deep as a pattern"
    check.row(
        edge,
        predicted=compact.centroid_rival(B),
        measured=brentq(lambda r: advantage(20, r), 0.1, 0.69, xtol=1e-9),
        tolerance=1e-8,
        because="a root to 1e-9",
    )
    check.rival("the overlap with one pattern alone", alone)
    check.rival("the equation without the factor 2", single)
    check.rival("caps that touch", {edge: compact.touching(B)})
    return check
