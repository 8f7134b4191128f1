r"""Which engine, and why: a cost model in nanoseconds, and a promise about the error.

| engine | time per pair or token (two processor cores, float64) |
| --- | --- |
| direct | a per pair; half the pairs under a causal mask, half the work in self-attention |
| fourier | a + b K per token, or c by the non-uniform FFT, whatever K |
| harmonic | a + b L^2 per token, or c by the non-uniform FFT |
| polynomial | b per monomial and token |

The constants are measured (benchmarks/linear_time.py prints predicted against measured). Only their ratios matter for
the choice, and these hardly depend on the machine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.interaction import nufft
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.engines import kernel_error
from sphereflow.interaction.expansion import circle_modes_bound, sphere_degree
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.masks import Alibi, Causal, Mask
from sphereflow.interaction.modes import Expansion
from sphereflow.interaction.polynomial import Polynomial, monomials
from sphereflow.kernels import uniform_mean

METHODS = ("auto", "direct", "fourier", "harmonic", "polynomial")

# Nanoseconds on two cores in float64, three charges on the circle, four on the sphere.
DIRECT_PAIR, DIRECT_PAIR_SELF = 2.4, 1.2
FOURIER_TOKEN, FOURIER_MODE, FOURIER_ANY_MODE = 80.0, 4.0, 8.0
FOURIER_NUFFT = 250.0
HARMONIC_TOKEN, HARMONIC_MODE = 300.0, 2.4
HARMONIC_NUFFT = 1300.0
CAUSAL_PAIR = 4.0
POLYNOMIAL_FEATURE = 11.0
FIXED, FIXED_EXPANSION = 2e5, 1e6  # starting a compiled program and its loops

# Beyond these sizes tables no longer fit the cache, or rounding spoils the coefficients.
MOST_DEGREE, MOST_NUFFT_DEGREE, MOST_MONOMIALS, MOST_MODES = 96, 160, 20_000, 1_000_000


@dataclass(frozen=True)
class Choice:
    """The engine chosen for a request, its modes (0 for direct), and what to expect of it.

    `expansion` is what `expand` takes; None means the direct sum. Rows whose error could exceed the tolerance are
    computed directly by every engine, so `error_bound` is the tolerance or better.
    """

    engine: str
    modes: int
    predicted_seconds: float
    error_bound: float
    reason: str
    expansion: Expansion | None = None

    def __str__(self) -> str:
        size = f" with {self.modes} modes" if self.modes else ""
        return f"{self.engine}{size}: about {self.predicted_seconds:.2g} s, {self.reason}"


def choose(
    n_queries: int,
    n_keys: int,
    d: int,
    beta: float | None,
    *,
    mask: Mask | None = None,
    tol: float = 1e-9,
    method: str = "auto",
    columns: int | None = None,
    dtype: str = "float64",
    unit_queries: bool = True,
    unit_keys: bool = True,
    self_attention: bool = False,
    longest_query: float = 1.0,
    use_nufft: bool | None = None,
    memory: float | None = None,
) -> Choice:
    """The fastest engine that keeps the promise `tol`.

    **Arguments:**

    - `n_queries`, `n_keys`, `d`, `mask`: the request. `columns` is the number of values plus one, d + 1 by default.
    - `beta`: the inverse temperature, or None if it is not known yet (traced): then only the direct sum will do.
    - `tol`: relative error of Z, and of the average relative to the largest value.
    - `method`: "auto", or the name of an engine that must be used if it can.
    - `unit_queries`, `unit_keys`: are they unit vectors? `longest_query` bounds the length of queries that are not.
    - `use_nufft`: whether the non-uniform FFT may be used; by default if it is installed.
    - `memory`: bytes that may be used; by default what the machine has free.

    **Returns:** a `Choice`; a request that does not fit into memory raises a `SphereflowError` that says what would.
    """
    m, n, d = (whole_number(*pair) for pair in (("n_queries", n_queries), ("n_keys", n_keys), ("d", d)))
    one_of("method", method, METHODS)
    real_number("tol", tol, above=0)
    columns = d + 1 if columns is None else columns
    width = np.dtype(dtype).itemsize
    _check_memory(m, n, d, columns, width, memory)
    causal = mask is not None and mask.causal
    pairs = m * n * (0.5 if causal else 1.0)
    pair = DIRECT_PAIR_SELF if self_attention else DIRECT_PAIR
    pair *= (d + columns + 20) / (2 * 3 + 20) * (0.6 if width == 4 else 1.0)
    direct = Choice("direct", 0, 1e-9 * (FIXED + pairs * pair), 0.0, "every pair of tokens is summed")

    refusal = _refusal(beta, mask, m, n, unit_keys)
    options: list[Choice] = []
    if refusal is None and beta is not None:
        strongest = real_number("beta", beta, least=0) * (1.0 if unit_queries else max(1.0, longest_query))
        error = kernel_error(tol, n, dtype)
        fft = (nufft.available() if use_nufft is None else use_nufft) and mask is None
        found = _candidates(d, strongest, error, columns, unit_queries, causal, fft)
        for engine, modes, nanoseconds, expansion in found:
            if not _attainable(expansion, strongest, d, tol, dtype):
                refusal = f"rounding in {dtype} does not allow an expansion to reach tol={tol:g} at beta={beta:g}"
                continue
            seconds = 1e-9 * (FIXED_EXPANSION + nanoseconds * (m + n) / 2)
            options.append(Choice(engine, modes, seconds, tol, "", expansion))
        if not found:
            refusal = f"no expansion of manageable size for d={d}, beta={beta:g}, tol={tol:g}"
    if method not in ("auto", "direct"):
        options = [o for o in options if o.engine == method]
        if not options:
            raise SphereflowError(
                f"method='{method}' cannot serve this request: {refusal or f'it does not work in dimension d={d}'};"
                " use method='auto' or 'direct'."
            )
        return _because(min(options, key=lambda o: o.predicted_seconds), "asked for")
    if method == "direct":
        return _because(direct, "asked for")
    if not options:
        return _because(direct, refusal or "no expansion applies")
    best = min(options, key=lambda o: o.predicted_seconds)
    if best.predicted_seconds < direct.predicted_seconds:
        return _because(best, f"the direct sum would take about {direct.predicted_seconds:.2g} s")
    return _because(direct, f"{best.engine} with {best.modes} modes would take about {best.predicted_seconds:.2g} s")


def _because(choice: Choice, reason: str) -> Choice:
    return Choice(**{**vars(choice), "reason": reason})


def _refusal(beta: float | None, mask: Mask | None, m: int, n: int, unit_keys: bool) -> str | None:
    """Why no expansion can be used, whatever its size."""
    if beta is None:
        return "beta is not known before compilation"
    if not unit_keys:
        return "keys are not unit vectors"
    if mask is not None and not isinstance(mask, Causal | Alibi):
        return f"the mask {type(mask).__name__} has no linear-time form"
    if mask is not None and m != n:
        return "a causal mask needs one query per key"
    return None


def _candidates(
    d: int, beta: float, error: float, columns: int, unit_queries: bool, causal: bool, fft: bool
) -> list[tuple[str, int, float, Expansion]]:
    """Engines that can serve the dimension, with modes and nanoseconds per token."""
    found: list[tuple[str, int, float, Expansion]] = []
    modes = max(1, circle_modes_bound(beta, error))
    if d == 2 and modes <= MOST_MODES:
        share = columns / 3
        per_mode = FOURIER_MODE if unit_queries else FOURIER_ANY_MODE
        plain: Expansion = CircleModes(modes, any_query=not unit_queries)
        meeting = CAUSAL_PAIR * plain.causal_chunk if causal else 0.0
        found.append(("fourier", modes, FOURIER_TOKEN + per_mode * modes * share + meeting, plain))
        if fft and unit_queries:
            found.append(("fourier", modes, FOURIER_NUFFT * share + modes / 10, nufft.CircleNufft(modes)))
    if d == 3 and unit_queries:
        degree = max(1, sphere_degree(beta, error))
        share = columns / 4
        if degree <= MOST_DEGREE:
            plain = SphereModes(degree)
            meeting = (CAUSAL_PAIR * plain.causal_chunk + 2 * degree**3 / plain.causal_chunk) if causal else 0.0
            cost = HARMONIC_TOKEN + HARMONIC_MODE * degree**2 * share + meeting
            found.append(("harmonic", degree, cost, plain))
        if fft and degree <= MOST_NUFFT_DEGREE:
            found.append(("harmonic", degree, HARMONIC_NUFFT * share, nufft.SphereNufft(degree)))
    if d > 3 and unit_queries and modes <= 40 and monomials(modes, d) <= MOST_MONOMIALS:
        features = monomials(modes, d)
        plain = Polynomial(modes, d)
        meeting = (CAUSAL_PAIR * plain.causal_chunk) if causal else 0.0
        found.append(
            ("polynomial", modes, POLYNOMIAL_FEATURE * features * (0.5 + columns / (2 * d + 2)) + meeting, plain)
        )
    return found


def _attainable(expansion: Expansion, beta: float, d: int, tol: float, dtype: str) -> bool:
    """Does a typical denominator, that of uniform tokens, leave the rounding below the tolerance?"""
    rounding = float(expansion.rounding(jnp.asarray(beta, dtype)))
    return 2 * rounding <= tol * uniform_mean(d, beta)


def _check_memory(m: int, n: int, d: int, columns: int, width: int, memory: float | None) -> None:
    per_token = width * (2 * d + 6 * columns + 8)
    needed = per_token * (m + n) / 2
    free = _free_memory() if memory is None else memory
    if needed > free:
        raise SphereflowError(
            f"attention of {m} queries to {n} keys in dimension {d} needs about {needed / 2**30:.1f} GiB, but"
            f" {free / 2**30:.1f} GiB are free: about {int(free / per_token)} tokens would fit."
        )


def _free_memory() -> float:
    """Bytes that can be had without swapping; no limit where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":") for line in lines)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
