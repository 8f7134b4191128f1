r"""The noise of $e^{\alpha N}$ other patterns, drawn exactly in law without storing them.

$$S_{nr}=\sum_{\mu\ne1}e^{-\beta N(1-\phi^\mu)},\qquad w_1=\frac1{1+S_{nr}}.$$

Few patterns are drawn one by one. Of many, the K nearest are drawn as what they are, the first points of a Poisson
process (their tail probabilities are partial sums of exponential variables over M); the others, each of them small,
enter through their mean and variance given where the K-th lies. This holds for any N and any load.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator
from scipy.special import logsumexp

from sphereflow.errors import real_number, whole_number
from sphereflow.memory.overlaps import Numbers, Values, log_density, log_mean_kernel, log_tail, sample
from sphereflow.memory.spherical import capacity, saddle
from sphereflow.seeds import Seed, following, rng_from

_ONE_BY_ONE = 20_000  # patterns that are drawn individually
_NEAREST = 1000
_CELLS = 20_000


def log_mean_noise(n: int, alpha: float, beta: float) -> float:
    r"""$\ln E\,S_{nr}=\alpha N+\ln E\,e^{-\beta N(1-\phi)}$, by the Bessel function."""
    return alpha * n + log_mean_kernel(n, beta)


def log_mean_noise_leading(n: int, alpha: float, beta: float) -> float:
    r"""$N(\alpha-\alpha_c)-\tfrac12\ln(1-\phi^{*4})$: the leading terms of the same for large N."""
    return float(n * (alpha - capacity(beta)) - np.log1p(-(saddle(beta) ** 4)) / 2)


def sample_log_noise(n: int, alpha: float, beta: float, repeats: int, seed: Seed = 0) -> Float[np.ndarray, " repeats"]:
    r"""Independent draws of $\ln S_{nr}$."""
    n, repeats = whole_number("n", n, least=4, most=10**9), whole_number("repeats", repeats, most=10**9)
    alpha, beta = real_number("alpha", alpha, above=0, most=1e6), real_number("beta", beta, above=0, most=1e6)
    rng = rng_from(seed, n, repeats)
    if alpha * n <= np.log(_ONE_BY_ONE):
        others = round(np.exp(alpha * n)) - 1
        return np.array([logsumexp(-beta * n * (1 - sample(rng, n, others))) for _ in range(repeats)])
    return _sample_by_extremes(rng, n, alpha, beta, repeats)


def one_step_weight(log_noise: Numbers) -> Values:
    r"""$w_1=1/(1+S_{nr})$: the softmax weight that a stored pattern has for itself."""
    return np.exp(-np.logaddexp(0.0, np.asarray(log_noise, dtype=float)))


def median_crossing(n: int, beta: float, repeats: int, seed: Seed = 0) -> tuple[float, float]:
    r"""The load at which the median one-step weight is $\tfrac12$, and its standard error, at finite N.

    The logarithm of the noise grows almost exactly as $\alpha N$, so the crossing is read off the line through two
    loads beside it.
    """
    around = float(capacity(beta)) + np.array([-1.0, 1.0]) * 0.5 / n
    samples = [sample_log_noise(n, alpha, beta, repeats, following(seed, k)) for k, alpha in enumerate(around)]
    medians = np.array([np.median(s) for s in samples])
    slope = (medians[1] - medians[0]) / (around[1] - around[0])
    # The standard error of a median of nearly normal draws is 1.2533 times that of their mean.
    spread = 1.2533 * np.mean([s.std() for s in samples]) / np.sqrt(2 * repeats)
    return float(around.mean() - medians.mean() / slope), float(spread / slope)


def _sample_by_extremes(rng: np.random.Generator, n: int, alpha: float, beta: float, repeats: int) -> np.ndarray:
    # A table of the tail, and of the first two moments of the kernel below a cut, along the angle of the overlap.
    theta = np.linspace(0, np.pi, _CELLS + 1)[1:-1][::-1]
    phi = np.cos(theta)
    width = np.log(np.pi / _CELLS)
    log_h = log_density(phi, n) + np.log(np.sin(theta)) + width
    score = -beta * n * (1 - phi)
    below = [np.logaddexp.accumulate(log_h + power * score) + alpha * n for power in (1, 2)]
    upper = phi > 0
    log_number = alpha * n + log_tail(phi[upper], n)
    order = np.argsort(log_number)
    overlap_of = PchipInterpolator(log_number[order], phi[upper][order])

    arrivals = np.cumsum(rng.exponential(size=(repeats, _NEAREST)), axis=1)
    nearest = overlap_of(np.log(arrivals))
    cut = nearest[:, -1]
    log_mean, log_second = (np.interp(cut, phi, table) for table in below)
    spread = np.exp(log_second / 2 - log_mean)  # relative, and small: each of the others is at most one in a thousand
    log_rest = log_mean + np.log(np.maximum(1 + spread * rng.standard_normal(repeats), 1e-300))
    return np.logaddexp(logsumexp(-beta * n * (1 - nearest), axis=1), log_rest)
