r"""Uniform tokens in high dimension: nearly orthogonal, hence close to the scalar equation.

$$\max_{i\ne j}|\langle x_i(t),x_j(t)\rangle-\gamma_\beta(t)| = O(d^{-1/2}).$$

Tokens never leave the span of their initial positions, so n tokens in R^d are followed in R^n, whatever d. In an
orthonormal basis of that span, independent Gaussian vectors are the rows of a lower triangular matrix with
independent entries: chi variables with d, d-1, ... degrees of freedom on the diagonal, Gaussians below (Bartlett).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.estimates import Estimate, mean, quantile
from sphereflow.papers.mathematical_perspective import sources
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


def without_the_token_itself(time: float) -> float:
    r"""The inner product if attention left the token out: $\dot\gamma=\frac{2(1-\gamma)((n-1)\gamma+1)}{n-1}$."""
    grown = np.expm1(2 * time * N / (N - 1))
    return float(grown / (grown + N))


@PAPER.claim(
    "high-dimension-mean",
    says="In dimension 1024 and 8192 the mean inner product of 32 uniform tokens at $t=4$, $\\beta=4$, is that of "
    "the scalar equation.",
    basis=sources.CURVE,
    formula=r"\langle x_i(t),x_j(t)\rangle\approx\gamma_\beta(t)",
)
def high_dimension_mean(run: Run) -> Check:
    check = Check(parameters={"n": N, "beta": 4, "t": 4, "starts": _replicas(run)})
    for d in (1024, 8192) if run.quick else (1024, 8192, 10**6):
        found = mean(ensemble(d, 4.0, _replicas(run), run.seed)[0][:, -1].mean(axis=-1))
        check.row(
            f"d={d}",
            predicted=gamma(np.array([4.0]), N, 4.0, "sa")[0],
            measured=found.value,
            error=found.error,
            repeats=_replicas(run),
            because="the error bar over independent starts",
        )
    check.rival("attention without the token itself", without_the_token_itself(4.0))
    check.rival("flat attention", float(gamma(np.array([4.0]), N, 0.0, "sa")[0]))
    check.rival("time off by a tenth", float(gamma(np.array([4.4]), N, 4.0, "sa")[0]))
    return check


@PAPER.claim(
    "high-dimension-error",
    says="The largest deviation of a pair from the scalar equation up to $t=4$ falls like the inverse square root of "
    "the dimension, between 1024 and 8192 (median over starts).",
    basis=sources.CURVE,
    formula=r"\sup_{t\le 4}\max_{i\ne j}|\langle x_i,x_j\rangle-\gamma_\beta|\sim d^{-1/2}",
)
def high_dimension_error(run: Run) -> Check:
    low, high = (1024, 8192) if run.quick else (10**4, 10**6)
    samples = [np.log(worst_deviation(d, 4.0, _replicas(run), run.seed)) for d in (low, high)]
    medians = [np.median(sample) for sample in samples]
    rng = np.random.default_rng(run.seed)
    resampled = [np.median(rng.choice(s, (400, len(s))), axis=1) for s in samples]
    check = Check(f"Medians {np.exp(medians[0]):.4f} (d={low}) and {np.exp(medians[1]):.4f} (d={high}).")
    check.row(
        "power of d",
        predicted=-0.5,
        measured=(medians[1] - medians[0]) / np.log(high / low),
        error=np.std((resampled[1] - resampled[0]) / np.log(high / low)),
        repeats=_replicas(run),
        because="the error bar of the slope of the medians, by resampling the starts",
    )
    check.rival("a deviation that stays", 0.0)
    check.rival("the power -1", -1.0)
    return check


def _median_times(run: Run, d: int, betas: tuple[float, ...]) -> np.ndarray:
    return np.array([found.value for found in _medians(run, d, betas)])


def _medians(run: Run, d: int, betas: tuple[float, ...], times: int = 1) -> list[Estimate]:
    return [quantile(ensemble(d, beta, times * _replicas(run), run.seed)[1]) for beta in betas]


@PAPER.claim(
    "phase-curve",
    says="In dimension 1024 all pairs of 32 tokens exceed 0.999 at the time that the integral gives, within 5 % "
    "(median over starts).",
    basis=sources.CURVE,
    formula=r"\Gamma_{\infty,\delta}=\{(t,\beta):\gamma_\beta(t)=1-\delta\}",
)
def phase_curve(run: Run) -> Check:
    betas = (1.0, 4.0) if run.quick else (1.0, 3.0, 4.0, 5.0, 7.0, 9.0)
    check, alone, earlier = Check(), {}, {}
    for beta, middle in zip(betas, _median_times(run, 1024, betas), strict=True):
        row = f"beta={beta:g}"
        check.row(
            row,
            predicted=collapse_time(N, beta),
            measured=middle,
            relative=0.05 if beta <= 7 else 0.1,
            because="deviations of order sqrt(log n / d) at the start, amplified more at large beta",
        )
        alone[row] = collapse_time(N, 0.0) * (N - 1) / N
        earlier[row] = collapse_time(N, beta, 1e-2)
    check.rival("attention without the token itself", alone)
    check.rival("the time at which pairs exceed 0.99", earlier)
    return check


@PAPER.claim(
    "phase-curve-needs-dimension",
    says="In dimension 16 the median collapse time of 32 tokens is more than 8 % away from the curve, in dimension "
    "1024 less than 5 %.",
    basis=sources.DIAGRAMS,
    formula=r"|t_d/t^*-1|",
)
def phase_curve_needs_dimension(run: Run) -> Check:
    betas = (1.0, 4.0) if run.quick else (1.0, 3.0, 4.0, 5.0)
    low, high = _medians(run, 16, betas, 4), _medians(run, 1024, betas)  # times scatter more in few dimensions
    check, same, because = Check(), {}, "error bar of the median"
    for beta, far, near in zip(betas, low, high, strict=True):
        exact, row = collapse_time(N, beta), f"d=16, beta={beta:g}"
        off, close = (abs(float(found.value) / exact - 1) for found in (far, near))
        check.at_least(row, bound=0.08, measured=off, error=far.error / exact, because=because)
        check.at_most(f"d=1024, beta={beta:g}", bound=0.05, measured=close, error=near.error / exact, because=because)
        same[row] = close
    check.null("times of dimension 1024", same)
    return check


@PAPER.claim(
    "phase-jump",
    says="In dimension 8192 at $\\beta=4$ no start is clustered 10 % before the curve and every start 10 % after it; "
    "in dimension 16 the share is not one.",
    basis=sources.CURVE,
    formula=r"P(\min_{i,j}\langle x_i(t),x_j(t)\rangle\ge1-\delta)\to 1_{t>t^*}",
)
def phase_jump(run: Run) -> Check:
    replicas, exact = _replicas(run), collapse_time(N, 4.0)
    times, low = (ensemble(d, 4.0, replicas, run.seed)[1] for d in (8192, 16))
    check, other = Check(parameters={"n": N, "beta": 4, "starts": replicas}), {}
    for row, factor, limit in (("10 % before the curve", 0.9, 0.0), ("10 % after the curve", 1.1, 1.0)):
        share = np.mean(times <= factor * exact)
        check.row(row, predicted=limit, measured=share, tolerance=2.5 / replicas, because="two stray starts at most")
        other[row] = float(np.mean(low <= factor * exact))
    check.null("tokens in dimension 16", other)
    return check
