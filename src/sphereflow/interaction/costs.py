r"""What engines cost: nanoseconds per pair, per token and per call, on a processor and on an accelerator.

| engine | time |
| --- | --- |
| direct | a per pair; half the pairs under a causal mask, half the work in self-attention |
| fourier | a + b K per token; by the non-uniform FFT c per token, and K per call |
| harmonic | a + b L^p per token and L^3 per call; by the non-uniform FFT c per token, and more per call |
| polynomial | b per token, times a power of the number of monomials |
| clustered | a per token and number in the moments of all clusters, b per token and cluster, more per call |

The constants are measured (benchmarks/engine_choice.py compares the engine chosen with all others, `scaling.py --costs`
what is predicted with what is measured). Only their ratios matter for the choice, and these hardly depend on the
machine within a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax

from sphereflow.interaction.engines import Expanding, Fourier, Harmonic, Polynomial
from sphereflow.interaction.polynomial import monomials

# Beyond these sizes tables no longer fit memory, or rounding spoils the coefficients.
MOST_DEGREE, MOST_NUFFT_DEGREE, MOST_MONOMIALS, MOST_MODES = Harmonic.most, 160, 20_000, 1_000_000
MOST_RADIAL = 80


@dataclass(frozen=True)
class Machine:
    """Nanoseconds in float64, three charges on the circle, four on the sphere."""

    pair: float
    pair_self: float
    float32: float  # what a pair costs in float32, as a fraction
    float32_masked: float  # the same under a mask
    fused: float  # the same in the fused kernel
    start: float  # a compiled program and its loops
    start_expansion: float
    start_nufft: float
    fourier_token: float
    fourier_mode: float
    fourier_any_mode: float
    fourier_nufft: float
    harmonic_token: float
    harmonic_mode: float  # times the degree to the power below, at which matrix products become efficient
    harmonic_power: float
    harmonic_table: float  # per call, times the cube of the degree
    harmonic_nufft: float
    causal_pair: float
    causal_mode: float  # per mode and token of a causal sum on the circle
    polynomial_feature: float  # times the number of monomials to the power below: more of them leave the cache
    polynomial_power: float
    coefficient: float  # per call and mode: the recurrence for the coefficients takes its steps one after another
    harmonic_coefficient: float
    cluster_moment: float
    cluster_token: float
    start_cluster: float


PROCESSOR = Machine(
    pair=2.4, pair_self=1.2, float32=0.3, float32_masked=0.5, fused=0.3,
    start=4e4, start_expansion=7e4, start_nufft=8e5,
    fourier_token=65.0, fourier_mode=2.3, fourier_any_mode=6.0, fourier_nufft=150.0,
    harmonic_token=0.0, harmonic_mode=12.3, harmonic_power=1.4, harmonic_table=1.5, harmonic_nufft=550.0,
    causal_pair=4.0, causal_mode=0.0, polynomial_feature=1.0, polynomial_power=1.24,
    coefficient=0.0, harmonic_coefficient=0.0,
    cluster_moment=0.2, cluster_token=20.0, start_cluster=2e7,
)  # fmt: skip
ACCELERATOR = Machine(
    pair=0.0105, pair_self=0.0057, float32=0.62, float32_masked=1.1, fused=0.058,
    start=1.5e5, start_expansion=1.1e6, start_nufft=1e9,
    fourier_token=0.2, fourier_mode=0.006, fourier_any_mode=0.05, fourier_nufft=250.0,
    harmonic_token=1.0, harmonic_mode=0.0083, harmonic_power=2.0, harmonic_table=0.0, harmonic_nufft=1300.0,
    causal_pair=0.06, causal_mode=6.0, polynomial_feature=0.02, polynomial_power=1.0,
    coefficient=1.5e4, harmonic_coefficient=3.7e4,
    cluster_moment=0.002, cluster_token=0.2, start_cluster=1e7,  # not measured: by the ratio of pairs
)  # fmt: skip

# Per call, in nanoseconds: what the tables of the non-uniform FFT cost, whatever the number of tokens.
_CIRCLE_FFT_MODE, _SPHERE_FFT_TABLE = 1000.0, 10.0


class Ball(NamedTuple):
    """Lengths of queries, and Chebyshev polynomials of them."""

    lengths: tuple[float, float]
    radial: int


class Candidate(NamedTuple):
    """An engine that can serve a request: nanoseconds per token, and per call."""

    engine: Expanding
    modes: int
    per_token: float
    per_call: float


def machine() -> Machine:
    """The kind of device that computations run on."""
    return PROCESSOR if jax.default_backend() == "cpu" else ACCELERATOR


def direct_cost(pairs: float, d: int, columns: int, symmetric: bool, dtype: str, masked: bool, fused: bool) -> float:
    """Nanoseconds of the direct sum over so many pairs; `fused`: by the kernel for GPUs."""
    here = machine()
    pair = here.pair_self if symmetric else here.pair
    single = here.fused if fused else here.float32_masked if masked else here.float32
    faster = single if dtype == "float32" else 1.0
    return here.start + pairs * pair * (d + columns + 20) / (2 * 3 + 20) * faster


def clustered_cost(n: int, d: int, columns: int, clusters: int, features: int) -> float:
    """Nanoseconds of sums through clusters, without the rows and keys that are summed directly."""
    here = machine()
    per_token = here.cluster_moment * features * clusters * columns + here.cluster_token * clusters
    return here.start_cluster + n * per_token


def most_modes(d: int) -> int:
    """Modes of the largest expansion that may be chosen in dimension d."""
    if d <= 3:
        return MOST_MODES if d == 2 else MOST_DEGREE
    return max((m for m in range(Polynomial.most + 1) if monomials(m, d) <= MOST_MONOMIALS), default=0)


def candidates(
    d: int, modes: int, tol: float, columns: int, ball: Ball | None, causal: bool, fft: bool
) -> list[Candidate]:
    """Expansions with so many modes (the degree, on S^2) that can serve the dimension.

    `ball` are the lengths of queries that are no unit vectors, and the radial terms they need on S^2.
    """
    here, found, unit_queries = machine(), [], ball is None
    if d == 2 and modes <= MOST_MODES:
        share = columns / 3
        per_mode = here.fourier_mode if unit_queries else here.fourier_any_mode
        plain: Expanding = Fourier(modes, tol, any_query=not unit_queries)
        meeting = here.causal_pair * plain.expansion(d).causal_chunk + here.causal_mode * modes if causal else 0.0
        start = here.start_expansion + here.coefficient * modes * (1 if unit_queries else 2)
        found.append(Candidate(plain, modes, here.fourier_token + per_mode * modes * share + meeting, start))
        if fft and unit_queries:
            per_call = here.start_nufft + _CIRCLE_FFT_MODE * modes * share
            found.append(Candidate(Fourier(modes, tol, nufft=True), modes, here.fourier_nufft * share, per_call))
    if d == 3 and modes <= MOST_DEGREE:
        share = columns / 4
        per_token = here.harmonic_mode * modes**here.harmonic_power * share
        start = here.start_expansion + here.harmonic_coefficient * modes
        tables = here.harmonic_table * modes**3 * share
        if ball is None:
            plain = Harmonic(modes, tol)
            chunk = plain.expansion(d).causal_chunk
            meeting = (here.causal_pair * chunk + 2 * modes**3 / chunk) if causal else 0.0
            found.append(Candidate(plain, modes, here.harmonic_token + per_token + meeting, start + tables))
        elif ball.radial <= MOST_RADIAL and not causal:
            plain = Harmonic(modes, tol, lengths=ball.lengths, radial=ball.radial)
            more = 1 + ball.radial / 2  # moments are taken once, and evaluated for every radius
            found.append(Candidate(plain, modes, here.harmonic_token + per_token * more, start + tables * 2 * more))
    if d == 3 and unit_queries and fft and modes <= MOST_NUFFT_DEGREE:
        share = columns / 4
        per_call = here.start_nufft + _SPHERE_FFT_TABLE * modes**3 * share
        found.append(Candidate(Harmonic(modes, tol, nufft=True), modes, here.harmonic_nufft * share, per_call))
    if d > 3 and unit_queries and modes <= most_modes(d):
        plain = Polynomial(modes, tol)
        meeting = here.causal_pair * plain.expansion(d).causal_chunk if causal else 0.0
        features = here.polynomial_feature * monomials(modes, d) ** here.polynomial_power
        cost = features * (0.5 + columns / (2 * d + 2)) + meeting
        found.append(Candidate(plain, modes, cost, here.start_expansion))
    return found
