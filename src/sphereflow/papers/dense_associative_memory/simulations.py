r"""Metropolis chains with stored patterns: one memory at N = 50, and the cone in place of all patterns.

$$x'=\sqrt N\frac{x+\sigma\eta}{|x+\sigma\eta|},\qquad \sigma=2.4\,T/\sqrt N.$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.memory import spherical
from sphereflow.memory.energies import LSE, LSR, Energy
from sphereflow.memory.landscapes import Full, cone_of, log_rest, random_patterns, state_at
from sphereflow.memory.noise import log_mean_noise
from sphereflow.memory.overlaps import log_density
from sphereflow.memory.sampling import metropolis, metropolis_each, published_step
from sphereflow.memory.state import REFERENCE_B, lse_mean_overlap, lse_overlap, lsr_mean_overlap
from sphereflow.papers.dense_associative_memory import PAPER

N, PATTERNS = 50, 148
TEMPERATURES = {"lse": (0.1, 0.3, 0.5, 0.7, 0.9, 1.2, 2.5), "lsr": (0.1, 0.3, 1.0, 2.0, 2.5)}


@lru_cache(maxsize=4)
def overlaps_in_bath(
    kernel: str, n: int, repeats: int, steps: int, discard: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean overlap with the target and its standard error at the temperatures of the kernel, 148 patterns."""
    t = np.array(TEMPERATURES[kernel])
    rng = np.random.default_rng([seed, n])
    stored = np.stack([random_patterns(n, PATTERNS, [seed, n, k]) for k in range(repeats)])
    start = np.stack([state_at(p[0], rng.uniform(0.75, 1, len(t)), [seed, n, k, 1]) for k, p in enumerate(stored)])
    energy: Energy = LSE(1.0) if kernel == "lse" else LSR.on_sphere(REFERENCE_B, n)
    place, x, bath, sigma = (jnp.asarray(a, jnp.float32) for a in (stored, start, t, published_step(n, t)))
    chains = metropolis_each(Full(energy, place), x, bath, sigma, jax.random.key(seed), steps, discard)
    found = np.asarray(chains.overlap, dtype=float)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(repeats)


def preset(run: Run) -> tuple[int, int, int]:
    """Trials, steps and discarded steps: the paper's, or fewer."""
    return (24, 4500, 3000) if run.quick else (50, 12_288, 8192)


@PAPER.claim(
    "one-memory-in-a-bath",
    statement="At N = 50 with 148 patterns the overlap of a kept memory is that of one pattern, for both kernels.",
    source="Figure: overlap against temperature at load 0.1, N = 50",
    formula=r"\langle\phi\rangle_{M=148}=\langle\phi\rangle_{M=1}",
    falsifier="a compact kernel that loses its memory (wall or b wrong)",
)
def one_memory(run: Run) -> Measurement:
    lse, _ = overlaps_in_bath("lse", N, *preset(run), run.seed)
    lsr, _ = overlaps_in_bath("lsr", N, *preset(run), run.seed)
    cold, any_t = TEMPERATURES["lse"][:3], TEMPERATURES["lsr"][:4]
    return agreement(
        [*(lse_mean_overlap(N, t) for t in cold), *(lsr_mean_overlap(N, t, REFERENCE_B) for t in any_t)],
        [*lse[:3], *lsr[:4]],
        absolute=0.01,
        because="spread of the chains; above T = 0.6 the LSE memory is escaping during the run and is not compared",
        labels=(*[f"LSE, T={t:g}" for t in cold], *[f"LSR, T={t:g}" for t in any_t]),
        parameters={"N": N, "M": PATTERNS, "trials, steps, discarded": preset(run), "b": REFERENCE_B},
    )


@PAPER.claim(
    "lost-and-kept",
    statement="At N = 50 and load 0.1, above the spinodal temperature, LSE loses the memory while LSR keeps it.",
    source="Figure: overlap against temperature at load 0.1, N = 50",
    formula=r"T=2.5>T_{sp}(0.1)=1.923",
    falsifier="an LSE overlap above 0.2, or an LSR overlap below the wall",
)
def lost_and_kept(run: Run) -> Measurement:
    (lse, lse_error), (lsr, lsr_error) = (overlaps_in_bath(k, N, *preset(run), run.seed) for k in ("lse", "lsr"))
    kept = lsr_mean_overlap(N, 2.5, REFERENCE_B)
    return at_most(
        [0.0, 0.2, 0.01],
        [float(spherical.spinodal_temperature(0.1, 1.0)) - 2.5, lse[-1] + 3 * lse_error[-1], abs(lsr[-1] - kept)],
        because="beyond the spinodal there is no retrieval minimum to escape from; the LSR mean is that of one pattern",
        labels=("spinodal below T", "LSE overlap and three standard errors", "LSR overlap against one pattern"),
        note=f"LSE {lse[-1]:.3f} +- {lse_error[-1]:.3f}, "
        f"LSR {lsr[-1]:.3f} +- {lsr_error[-1]:.3f} (one pattern {kept:.4f}).",
        parameters={"N": N, "M": PATTERNS, "T": 2.5, "trials, steps, discarded": preset(run)},
    )


@PAPER.claim(
    "cone-constant",
    statement="The constant that replaces the patterns outside the cone, plus those inside, is the full noise sum.",
    source="Cone scheme",
    formula=r"C+M\int_{\phi_{keep}}^1h\,e^{-\beta N(1-\phi)}d\phi=M\int_{-1}^1h\,e^{-\beta N(1-\phi)}d\phi",
    falsifier="a wrong bulk constant",
)
def cone_constant(run: Run) -> Measurement:
    n, beta, alpha = 40, 1.0, float(np.log(2e4) / 40)
    measured, predicted = [], []
    nodes, weights = np.polynomial.legendre.leggauss(400)
    for keep in (0.2, 0.4, 0.7):
        phi = keep + (1 - keep) * (nodes + 1) / 2
        inside = (
            np.log(np.sum(weights * (1 - keep) / 2 * np.exp(log_density(phi, n) - beta * n * (1 - phi)))) + alpha * n
        )
        measured.append(np.logaddexp(log_rest(n, alpha, beta, keep), inside))
        predicted.append(log_mean_noise(n, alpha, beta))
    return agreement(
        predicted,
        measured,
        absolute=1e-10,
        because="an identity, to the accuracy of the quadratures",
        labels=tuple(f"keep {k:g}" for k in (0.2, 0.4, 0.7)),
        parameters={"N": n, "M": 20_000},
    )


@PAPER.claim(
    "cone-against-full",
    statement="Inside the retrieval basin the cone gives the overlap that all stored patterns give.",
    source="Cone scheme against the full one",
    formula=r"\langle\phi\rangle_{\mathrm{cone}}=\langle\phi\rangle_{\mathrm{full}}",
    falsifier="a bias inside the basin (after an escape there is one, and it is not compared)",
)
def cone_against_full(run: Run) -> Measurement:
    n, count, t = 40, 4000 if run.quick else 200_000, 0.3
    chains, steps = (64, 500) if run.quick else (64, 4000)
    patterns = random_patterns(n, count, run.seed)
    full = Full(LSE(1.0), jnp.asarray(patterns, jnp.float32))
    cone = cone_of(full, 1.0, 0.4)
    x0 = jnp.asarray(state_at(patterns[0], np.full(chains, float(lse_overlap(t))), run.seed), jnp.float32)
    filled = jnp.ones(chains, jnp.float32)
    sigma = float(published_step(n, t))
    full_mean, cone_mean = (
        np.asarray(
            metropolis(place, x0, t * filled, sigma * filled, jax.random.key(run.seed), steps, 100).overlap
        ).mean()
        for place in (full, cone)
    )
    return agreement(
        [lse_mean_overlap(n, t), cone_mean],
        [full_mean, full_mean],
        absolute=[0.005, 0.005],
        because="spread of the chains, 0.001; inside the basin one pattern alone has the same mean",
        labels=("all patterns against one alone", "all patterns against the cone"),
        note=f"{cone.patterns.shape[0]} of {count} patterns are in the cone.",
        parameters={"N": n, "M": count, "keep": 0.4, "T": t, "chains": chains, "steps": steps},
    )
