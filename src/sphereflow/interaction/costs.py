r"""What engines cost: nanoseconds per pair, per token and per call, on a processor and on an accelerator.

| engine | time |
| --- | --- |
| direct | a per pair; half the pairs under a causal mask, half the work in self-attention |
| fourier | a + b K per token; by the non-uniform FFT c per token, and K per call |
| harmonic | a + b L^2 per token and L^3 per call; by the non-uniform FFT c per token, and more per call |
| polynomial | b per monomial and token |

The constants are measured (benchmarks/linear_time.py prints predicted against measured, benchmarks/scaling.py the
growth). Only their ratios matter for the choice, and these hardly depend on the machine within a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax

from sphereflow.interaction.engines import Expanding, Fourier, Harmonic, Polynomial
from sphereflow.interaction.polynomial import monomials

# Beyond these sizes tables no longer fit the cache, or rounding spoils the coefficients.
MOST_DEGREE, MOST_NUFFT_DEGREE, MOST_MONOMIALS, MOST_MODES = 96, 160, 20_000, 1_000_000


@dataclass(frozen=True)
class Machine:
    """Nanoseconds in float64, three charges on the circle, four on the sphere."""

    pair: float
    pair_self: float
    float32: float  # what a pair without a mask costs in float32, as a fraction
    fourier_token: float
    fourier_mode: float
    fourier_any_mode: float
    fourier_nufft: float
    harmonic_token: float
    harmonic_mode: float
    harmonic_nufft: float
    causal_pair: float
    causal_mode: float  # per mode and token of a causal sum on the circle
    polynomial_feature: float
    start: float  # a compiled program and its loops
    start_expansion: float
    coefficient: float  # the recurrence for the coefficients takes its steps one after another


PROCESSOR = Machine(
    pair=2.4, pair_self=1.2, float32=0.6, fourier_token=80.0, fourier_mode=4.0, fourier_any_mode=8.0,
    fourier_nufft=250.0, harmonic_token=300.0, harmonic_mode=2.4, harmonic_nufft=1300.0, causal_pair=4.0,
    causal_mode=0.0, polynomial_feature=11.0, start=2e5, start_expansion=1e6, coefficient=0.0,
)  # fmt: skip
ACCELERATOR = Machine(
    pair=0.02, pair_self=0.01, float32=0.055, fourier_token=0.3, fourier_mode=0.025, fourier_any_mode=0.05,
    fourier_nufft=250.0, harmonic_token=1.0, harmonic_mode=0.0083, harmonic_nufft=1300.0, causal_pair=0.06,
    causal_mode=6.0, polynomial_feature=0.02, start=4e5, start_expansion=1e6, coefficient=2.5e4,
)  # fmt: skip

# Per call, in nanoseconds: what the tables of an expansion cost, whatever the number of tokens.
_CIRCLE_FFT_MODE, _SPHERE_TABLE, _SPHERE_FFT_TABLE = 1000.0, 5.0, 20.0


class Candidate(NamedTuple):
    """An engine that can serve a request: nanoseconds per token, and per call."""

    engine: Expanding
    modes: int
    per_token: float
    per_call: float


def machine() -> Machine:
    """The kind of device that computations run on."""
    return PROCESSOR if jax.default_backend() == "cpu" else ACCELERATOR


def direct_cost(pairs: float, d: int, columns: int, self_attention: bool, fused: bool) -> float:
    """Nanoseconds of the direct sum over so many pairs; `fused`: in float32 without a mask."""
    here = machine()
    pair = here.pair_self if self_attention else here.pair
    return here.start + pairs * pair * (d + columns + 20) / (2 * 3 + 20) * (here.float32 if fused else 1.0)


def most_modes(d: int) -> int:
    """Modes of the largest expansion that may be chosen in dimension d."""
    if d <= 3:
        return MOST_MODES if d == 2 else MOST_NUFFT_DEGREE
    return max((m for m in range(Polynomial.most + 1) if monomials(m, d) <= MOST_MONOMIALS), default=0)


def candidates(
    d: int, modes: int, tol: float, columns: int, unit_queries: bool, causal: bool, fft: bool
) -> list[Candidate]:
    """Expansions with so many modes (the degree, on S^2) that can serve the dimension."""
    here, found = machine(), []
    if d == 2 and modes <= MOST_MODES:
        share = columns / 3
        per_mode = here.fourier_mode if unit_queries else here.fourier_any_mode
        plain: Expanding = Fourier(modes, tol, any_query=not unit_queries)
        meeting = here.causal_pair * plain.expansion(d).causal_chunk + here.causal_mode * modes if causal else 0.0
        cost = here.fourier_token + per_mode * modes * share + meeting
        found.append(Candidate(plain, modes, cost, here.start_expansion + here.coefficient * modes))
        if fft and unit_queries:
            per_call = here.start_expansion + _CIRCLE_FFT_MODE * modes * share
            found.append(Candidate(Fourier(modes, tol, nufft=True), modes, here.fourier_nufft * share, per_call))
    if d == 3 and unit_queries:
        degree = modes
        share = columns / 4
        tables = _SPHERE_TABLE * degree**3 * share if here is PROCESSOR else here.coefficient * degree
        if degree <= MOST_DEGREE:
            plain = Harmonic(degree, tol)
            chunk = plain.expansion(d).causal_chunk
            meeting = (here.causal_pair * chunk + 2 * degree**3 / chunk) if causal else 0.0
            cost = here.harmonic_token + here.harmonic_mode * degree**2 * share + meeting
            found.append(Candidate(plain, degree, cost, here.start_expansion + tables))
        if fft and degree <= MOST_NUFFT_DEGREE:
            per_call = here.start_expansion + _SPHERE_FFT_TABLE * degree**3 * share
            found.append(Candidate(Harmonic(degree, tol, nufft=True), degree, here.harmonic_nufft * share, per_call))
    if d > 3 and unit_queries and modes <= most_modes(d):
        plain = Polynomial(modes, tol)
        meeting = here.causal_pair * plain.expansion(d).causal_chunk if causal else 0.0
        cost = here.polynomial_feature * monomials(modes, d) * (0.5 + columns / (2 * d + 2)) + meeting
        found.append(Candidate(plain, modes, cost, here.start_expansion))
    return found
