r"""Uniform tokens in high dimension: nearly orthogonal, hence close to the scalar equation.

$$\max_{i\ne j}|\langle x_i(t),x_j(t)\rangle-\gamma_\beta(t)| = O(d^{-1/2}).$$

Tokens never leave the span of their initial positions, so n tokens in R^d are followed in R^n, whatever d. In an
orthonormal basis of that span, independent Gaussian vectors are the rows of a lower triangular matrix with
independent entries: chi variables with d, d-1, ... degrees of freedom on the diagonal, Gaussians below (Bartlett).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.papers.mathematical_perspective.equiangular import collapse_time, gamma
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import follow, gaps

N = 32
DELTA = 1e-3
# Saved times: some up to t = 4, then some around the collapse, in units of its predicted time.
_WATCHED = np.linspace(0, 4, 9)[1:]
_AROUND = np.geomspace(0.8, 4, 17)
_SHORT = 1.0


def tokens_in_span(rng: np.random.Generator, replicas: int, n: int, d: int) -> np.ndarray:
    """Uniform tokens of S^{d-1} in an orthonormal basis of their span (the first d axes if d < n): (replicas, n, n)."""
    if d < n:
        x = np.zeros((replicas, n, n))
        x[..., :d] = rng.normal(size=(replicas, n, d))
    else:
        x = np.tril(rng.normal(size=(replicas, n, n)), k=-1)
        x[:, np.arange(n), np.arange(n)] = np.sqrt(rng.chisquare(d - np.arange(n), size=(replicas, n)))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@lru_cache(maxsize=64)
def ensemble(d: int, beta: float, replicas: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inner products of all pairs at the watched times (t <= 4), and the time when all pairs exceed 1 - delta.

    Shapes (replicas, times, pairs) and (replicas,); the time is infinite if it is beyond four times the prediction.
    """
    times = np.union1d(_WATCHED, collapse_time(N, beta) * _AROUND)
    inner, crossings = [], []
    for x0 in tokens_in_span(np.random.default_rng([seed, d]), replicas, N, d):
        xs = follow("sa", beta, x0, times, tol=1e-7)
        inner.append(1 - gaps(xs[np.searchsorted(times, _WATCHED)]))
        crossings.append(crossing_time(beta, np.insert(times, 0, 0.0), np.concatenate([x0[None], xs])))
    return np.array(inner), np.array(crossings)


def crossing_time(beta: float, times: np.ndarray, xs: np.ndarray) -> float:
    """When the largest gap falls below delta, given tokens at some times; infinite if it does not.

    The interval of the crossing is followed again in finer steps until it is short; from its end one goes back along
    the terminal law, in which gaps shrink like exp(-2t).
    """
    largest = gaps(xs).max(axis=1)
    if largest[-1] > DELTA:
        return np.inf
    after = int(np.argmax(largest <= DELTA))
    begin, end = float(times[after - 1]), float(times[after])
    if end - begin < _SHORT:
        return end - np.log(DELTA / largest[after]) / 2
    finer = np.linspace(0, end - begin, 25)[1:]
    again = follow("sa", beta, xs[after - 1], finer, tol=1e-7)
    return crossing_time(beta, begin + np.insert(finer, 0, 0.0), np.concatenate([xs[after - 1][None], again]))


def worst_deviation(d: int, beta: float, replicas: int, seed: int) -> np.ndarray:
    """sup over t <= 4 and pairs of |<x_i, x_j> - gamma(t)|, one number per replica."""
    inner = ensemble(d, beta, replicas, seed)[0]
    return np.abs(inner - gamma(_WATCHED, N, beta, "sa")[:, None]).max(axis=(1, 2))


def _replicas(run: Run) -> int:
    return 24 if run.quick else 64


@PAPER.claim(
    "high-dimension-mean",
    statement="In high dimension the mean inner product follows the scalar equation (beta = 4, t = 4).",
    source="Theorem on the phase transition curve",
    formula=r"\langle x_i(t),x_j(t)\rangle\approx\gamma_\beta(t)",
)
def high_dimension_mean(run: Run) -> Measurement:
    dimensions = (1024, 8192) if run.quick else (1024, 8192, 10**6)
    means = [ensemble(d, 4.0, _replicas(run), run.seed)[0][:, -1].mean(axis=-1) for d in dimensions]
    errors = [sample.std(ddof=1) / np.sqrt(len(sample)) for sample in means]
    return agreement(
        [gamma(np.array([4.0]), N, 4.0, "sa")[0]] * len(dimensions),
        [sample.mean() for sample in means],
        absolute=[4 * error for error in errors],
        because="four standard errors of the average over independent starts",
        labels=tuple(f"d={d}" for d in dimensions),
    )


@PAPER.claim(
    "high-dimension-error",
    statement="The largest deviation from the scalar equation falls like the inverse square root of the dimension.",
    source="Theorem on the phase transition curve",
    formula=r"\sup_{t\le 4}\max_{i\ne j}|\langle x_i,x_j\rangle-\gamma_\beta|\sim d^{-1/2}",
    falsifier="A deviation that stays, or falls at another power.",
)
def high_dimension_error(run: Run) -> Measurement:
    low, high = (1024, 8192) if run.quick else (10**4, 10**6)
    samples = [np.log(worst_deviation(d, 4.0, _replicas(run), run.seed)) for d in (low, high)]
    medians = [np.median(sample) for sample in samples]
    slope = (medians[1] - medians[0]) / np.log(high / low)
    rng = np.random.default_rng(run.seed)
    resampled = [np.median(rng.choice(s, (400, len(s))), axis=1) for s in samples]
    error = np.std((resampled[1] - resampled[0]) / np.log(high / low))
    return agreement(
        -0.5,
        slope,
        absolute=4 * error,
        because="four standard errors of the slope of the medians, by resampling the starts",
        note=f"Medians {np.exp(medians[0]):.4f} (d={low}) and {np.exp(medians[1]):.4f} (d={high}).",
    )


def _median_times(run: Run, d: int, betas: tuple[float, ...]) -> np.ndarray:
    return np.array([np.median(ensemble(d, beta, _replicas(run), run.seed)[1]) for beta in betas])


@PAPER.claim(
    "phase-curve",
    statement="In dimension 1024 all pairs exceed 0.999 at the time the integral gives (median over starts, n = 32).",
    source="Phase diagrams and the curve of the theorem on the phase transition",
    formula=r"\Gamma_{\infty,\delta}=\{(t,\beta):\gamma_\beta(t)=1-\delta\}",
)
def phase_curve(run: Run) -> Measurement:
    betas = (1.0, 4.0) if run.quick else (1.0, 3.0, 4.0, 5.0, 7.0, 9.0)
    return agreement(
        [collapse_time(N, beta) for beta in betas],
        _median_times(run, 1024, betas),
        relative=[0.05 if beta <= 7 else 0.1 for beta in betas],
        because="deviations of order sqrt(log n / d) at the start, amplified more at large beta; known to be 2 to 6 %",
        labels=tuple(f"beta={beta:g}" for beta in betas),
    )


@PAPER.claim(
    "phase-curve-needs-dimension",
    statement="In dimension 16 the collapse times are further from the curve than in dimension 1024.",
    source="Phase diagrams for several dimensions",
    formula=r"|t_{1024}/t^*-1|\le|t_{16}/t^*-1|",
)
def phase_curve_needs_dimension(run: Run) -> Measurement:
    betas = (1.0, 4.0) if run.quick else (1.0, 3.0, 4.0, 5.0)
    exact = np.array([collapse_time(N, beta) for beta in betas])
    low, high = (np.abs(_median_times(run, d, betas) / exact - 1) for d in (16, 1024))
    return at_most(
        low,
        high,
        because="an inequality",
        labels=tuple(f"beta={beta:g}" for beta in betas),
        note="Relative distances of the median time from the curve.",
    )


@PAPER.claim(
    "phase-jump",
    statement="The probability that everything is clustered jumps from 0 to 1 across the curve in high dimension.",
    source="Theorem on the phase transition curve",
    formula=r"P(\min_{i,j}\langle x_i(t),x_j(t)\rangle\ge1-\delta)\to 1_{t>t^*}",
    falsifier="A transition that stays wide as the dimension grows.",
)
def phase_jump(run: Run) -> Measurement:
    replicas, exact = _replicas(run), collapse_time(N, 4.0)
    times = ensemble(8192, 4.0, replicas, run.seed)[1]
    return agreement(
        [0.0, 1.0],
        [np.mean(times <= factor * exact) for factor in (0.9, 1.1)],
        absolute=3 / replicas,
        because="an event not seen in N trials has probability below 3/N at 95 %",
        labels=("10 % before the curve", "10 % after the curve"),
        note="d=8192, n=32, beta=4.",
    )
