"""Which engine, and why: the cheapest by the cost model, and a promise about the error."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.errors import SphereflowError, free_memory, one_of, real_number, whole_number
from sphereflow.interaction import nufft
from sphereflow.interaction.costs import Ball, candidates, direct_cost, most_modes
from sphereflow.interaction.direct import default_block
from sphereflow.interaction.engines import DIRECT, Engine
from sphereflow.interaction.harmonic_ball import radial_terms
from sphereflow.interaction.linear import kernel_error, working_precision
from sphereflow.interaction.masks import Alibi, Causal, Mask
from sphereflow.interaction.modes import Expansion
from sphereflow.interaction.series import MOST_OWN_MODES, needed, samples
from sphereflow.kernels import EXPONENTIAL, Kernel, uniform_mean

# Up to so many pairs the direct sum is the fastest, whatever the dimension, the temperature and the tolerance.
_FEW_PAIRS = 128**2
# So many times as fast an expansion must be: its programs take seconds longer to compile than those of the direct sum.
_WORTH = 1.2
# A kernel that is left with an error above this has not converged; below, it is rounding.
_KINK = 1e-9
METHODS = ("auto", "direct", "fourier", "harmonic", "polynomial")


@dataclass(frozen=True)
class Choice:
    """The engine chosen for a request, its modes (0 for direct), how long it will take, and why it."""

    engine: Engine
    modes: int
    predicted_seconds: float
    reason: str

    def __str__(self) -> str:
        size = f" with {self.modes} modes" if self.modes else ""
        return f"{self.engine.name}{size}: about {self.predicted_seconds:.2g} s, {self.reason}"


def choose(
    n_queries: int,
    n_keys: int,
    d: int,
    beta: float | None,
    *,
    mask: Mask | None = None,
    kernel: Kernel = EXPONENTIAL,
    tol: float = 1e-9,
    method: str = "auto",
    columns: int | None = None,
    dtype: str = "float64",
    unit_queries: bool = True,
    unit_keys: bool = True,
    self_attention: bool = False,
    longest_query: float = 1.0,
    shortest_query: float = 0.0,
    use_nufft: bool | None = None,
    memory: float | None = None,
) -> Choice:
    """The fastest engine that keeps the promise `tol`.

    **Arguments:**

    - `n_queries`, `n_keys`, `d`, `mask`, `kernel`: the request. `columns` is the number of values plus one, by default
      d + 1.
    - `beta`: the inverse temperature, or None if it is not known yet (traced): then only the direct sum will do.
    - `tol`: relative error of Z, and of the average relative to the largest value.
    - `method`: "auto", or the name of an engine that must be used if it can.
    - `unit_queries`, `unit_keys`: are they unit vectors? Queries that are not have lengths from `shortest_query` to
      `longest_query`.
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
    pairs = m * n * (0.5 if causal and n > default_block() else 1.0)  # blocks beyond the diagonal are left out
    usual = kernel == EXPONENTIAL  # of which each pair serves two rows, and which has a kernel for GPUs in float32
    symmetric = usual and self_attention and mask is None
    fused = symmetric and n > default_block()
    cost = direct_cost(pairs, d, columns, symmetric, dtype, mask is not None, fused)
    direct = Choice(DIRECT, 0, 1e-9 * cost, "every pair of tokens is summed")
    if method == "auto" and m * n <= _FEW_PAIRS:
        return _because(direct, "so few pairs are summed faster than expanded")

    refusal = _refusal(beta, mask, kernel, m, n, unit_keys, unit_queries)
    options: list[Choice] = []
    if refusal is None and beta is not None:
        strongest = real_number("beta", beta, least=0) * (1.0 if unit_queries else max(1.0, longest_query))
        error = kernel_error(tol, n, dtype)
        usable = jax.default_backend() == "cpu" and nufft.available()
        fft = (usable if use_nufft is None else use_nufft) and mask is None
        modes, reached = needed(kernel, strongest, error, on_sphere=d == 3)
        ball = None if unit_queries else _ball(beta, shortest_query, longest_query, error)
        found = candidates(d, max(1, modes), tol, columns, ball, causal, fft) if reached < np.inf else []
        for each in found:
            if not _attainable(each.engine.expansion(d).of(kernel), strongest, n, d, tol, dtype):
                refusal = f"rounding in {dtype} does not allow an expansion to reach tol={tol:g} at beta={beta:g}"
                continue
            seconds = 1e-9 * (each.per_call + each.per_token * (m + n) / 2)
            options.append(Choice(each.engine, each.modes, seconds, ""))
        if not found or (not options and reached > _KINK):
            refusal = _too_large(kernel, d, beta, tol)
    if method not in ("auto", "direct"):
        options = [o for o in options if o.engine.name == method]
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
    if _WORTH * best.predicted_seconds < direct.predicted_seconds:
        return _because(best, f"the direct sum would take about {direct.predicted_seconds:.2g} s")
    return _because(
        direct, f"{best.engine.name} with {best.modes} modes would take about {best.predicted_seconds:.2g} s"
    )


def _ball(beta: float, shortest: float, longest: float, error: float) -> Ball:
    lengths = (real_number("shortest_query", shortest, least=0), real_number("longest_query", longest, above=0))
    return Ball(lengths, radial_terms(beta, lengths, error))


def _because(choice: Choice, reason: str) -> Choice:
    return replace(choice, reason=reason)


def _refusal(
    beta: float | None, mask: Mask | None, kernel: Kernel, m: int, n: int, unit_keys: bool, unit_queries: bool
) -> str | None:
    """Why no expansion can be used, whatever its size."""
    if beta is None:
        return "beta is not known before compilation"
    if not unit_keys:
        return "keys are not unit vectors"
    if kernel != EXPONENTIAL and not unit_queries:
        return "queries are not unit vectors, as the series of this kernel needs them"
    if mask is not None and not isinstance(mask, Causal | Alibi):
        return f"the mask {type(mask).__name__} has no linear-time form"
    if mask is not None and m != n:
        return "a causal mask needs one query per key"
    return None


def _too_large(kernel: Kernel, d: int, beta: float, tol: float) -> str:
    if kernel == EXPONENTIAL:
        return f"no expansion of manageable size for d={d}, beta={beta:g}, tol={tol:g}"
    sampled = samples(kernel, beta)
    if sampled is None:
        return f"the kernel '{kernel.name}' is not finite on all of [-1, 1], or not known before compilation"
    most = min(most_modes(d), MOST_OWN_MODES)
    return (
        f"the series of the kernel '{kernel.name}' with {most} modes, the most in dimension d={d}, reaches an error of"
        f" {sampled.missed(most, on_sphere=d == 3):.1e} of its largest value at beta={beta:g}, for tol={tol:g}"
    )


def _attainable(expansion: Expansion, beta: float, n: int, d: int, tol: float, dtype: str) -> bool:
    """Does a typical denominator, that of uniform tokens, leave the error of the kernel below the tolerance?"""
    with jax.ensure_compile_time_eval():
        at = jnp.asarray(beta, working_precision(dtype))
        # That of the exponential is truncated as was asked; another may not converge.
        missed = 0.0 if expansion.kernel == EXPONENTIAL else float(expansion.tail(at))
        rounding = float(expansion.rounding(at))
    return 2 * (missed + rounding) < tol * _typical(expansion.kernel, beta, n, d)


def _typical(kernel: Kernel, beta: float, n: int, d: int) -> float:
    """|Z| of n uniform tokens: the mean of the kernel, or its deviation over sqrt(n) where the mean is smaller."""
    if kernel == EXPONENTIAL:
        return uniform_mean(d, beta)
    sampled = samples(kernel, beta)
    if sampled is None:
        return 0.0
    weights = np.sin(np.linspace(0, np.pi, len(sampled.values))) ** (d - 2)
    mean, square = (np.average(k, weights=weights) for k in (sampled.values, sampled.values**2))
    return float(np.sqrt(mean**2 + square / n))


def _check_memory(m: int, n: int, d: int, columns: int, width: int, memory: float | None) -> None:
    per_token = width * (2 * d + 6 * columns + 8)
    needed = per_token * (m + n) / 2
    if memory is None and needed < 2**24:
        return
    free = free_memory() if memory is None else memory
    if needed > free:
        raise SphereflowError(
            f"attention of {m} queries to {n} keys in dimension {d} needs about {needed / 2**30:.1f} GiB, but"
            f" {free / 2**30:.1f} GiB are free: about {int(free / per_token)} tokens would fit."
        )
