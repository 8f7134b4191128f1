r"""The start of a conditional density: Gaussian components of (x, y) jointly, conditioned coordinate by coordinate.

Given what is known, $u=(x,y_{<i})$, the law of $y_i$ under a Gaussian mixture is again one,

$$p(y_i\mid u)=\sum_k\pi_k(u)\,N(y_i;\,m_k(u),s_k^2),\qquad z=\Phi^{-1}\big(F(y_i\mid u)\big)\sim N(0,1),$$

with weights, means and distribution function in closed form. One component is the Gaussian whose mean is linear in u.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, logsumexp, ndtri_exp

_LOG_ROOT = 0.5 * math.log(2 * math.pi)
_LOG_HALF = math.log(0.5)
_FLOOR = 1e-3  # added to every covariance of standardised data, as a share of the data's own
_BISECTIONS = 60


@dataclasses.dataclass(frozen=True)
class JointMixture:
    """Weights (m,), means (m, d) and covariances (m, d, d) of Gaussian components of the rows (x, y)."""

    weights: Float[np.ndarray, " m"]
    means: Float[np.ndarray, "m d"]
    covariances: Float[np.ndarray, "m d d"]

    def conditional(self, i: int, u: Float[np.ndarray, "n i"]) -> ConditionalMixture:
        """The law of coordinate i given that the i coordinates before it are u."""
        log_share, centres, scales = [], [], []
        for weight, mean, covariance in zip(self.weights, self.means, self.covariances, strict=True):
            gap = u - mean[:i]
            root = np.linalg.cholesky(covariance[:i, :i])
            white = solve_triangular(root, gap.T, lower=True)
            slope = solve_triangular(root, covariance[:i, i], lower=True)
            log_share.append(math.log(weight) - np.log(np.diag(root)).sum() - 0.5 * (white**2).sum(axis=0))
            centres.append(mean[i] + slope @ white)
            scales.append(math.sqrt(covariance[i, i] - slope @ slope))
        shares = np.stack(log_share, axis=1)
        shares -= logsumexp(shares, axis=1, keepdims=True)
        return ConditionalMixture(shares, np.stack(centres, axis=1), np.array(scales))


@dataclasses.dataclass(frozen=True)
class ConditionalMixture:
    """One mixture on the line for each row: log-weights and centres (n, m), scales (m,) the same for all rows."""

    log_weights: Float[np.ndarray, "n m"]
    centres: Float[np.ndarray, "n m"]
    scales: Float[np.ndarray, " m"]

    def log_density(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        white = (y[:, None] - self.centres) / self.scales
        return logsumexp(self.log_weights - 0.5 * white**2 - np.log(self.scales), axis=1) - _LOG_ROOT

    def normal_score(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Phi^{-1}(F(y)), accurate in both tails."""
        white = (y[:, None] - self.centres) / self.scales
        below = logsumexp(self.log_weights + log_ndtr(white), axis=1)
        above = logsumexp(self.log_weights + log_ndtr(-white), axis=1)
        return np.where(below < _LOG_HALF, ndtri_exp(below), -ndtri_exp(above))

    def quantile(self, z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """y with normal_score(y) = z, by bisection between the quantiles of the components."""
        ends = self.centres + self.scales * z[:, None]
        low, high = ends.min(axis=1), ends.max(axis=1)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            under = self.normal_score(middle) < z
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return 0.5 * (low + high)


def fit_mixture(
    rows: Float[np.ndarray, "n d"], components: int, rng: np.random.Generator, *, steps: int = 200
) -> JointMixture:
    """Maximum likelihood by expectation and maximisation, from centres drawn far apart; rows of spread about one.

    The logarithm of a Gaussian is linear in (x_i x_j, x_i, 1), and so are the sums that a new one needs: each half of a
    step is one product of matrices for all components.
    """
    n, d = rows.shape
    floor = _FLOOR * np.diag(np.maximum(rows.var(axis=0), 1e-12))
    first, second = np.triu_indices(d)
    powers = np.column_stack([rows[:, first] * rows[:, second], rows, np.ones(n)])
    nearest = np.argmin(((rows[:, None] - _spread_out(rows, components, rng)) ** 2).sum(axis=-1), axis=1)
    shares = np.eye(components)[nearest]
    last = -math.inf
    for _ in range(steps):
        sums = shares.T @ powers
        mass = sums[:, -1] + 1e-9
        means = sums[:, -1 - d : -1] / mass[:, None]
        moments = np.empty((components, d, d))
        moments[:, first, second] = moments[:, second, first] = sums[:, : len(first)] / mass[:, None]
        covariances = moments - means[:, :, None] * means[:, None] + floor
        log_terms = powers @ _exponents(mass / n, means, covariances).T
        top = log_terms.max(axis=1, keepdims=True)
        shares = np.exp(log_terms - top)
        sizes = shares.sum(axis=1, keepdims=True)
        shares /= sizes
        reached = float((np.log(sizes) + top).mean())
        if reached - last < 1e-4:
            break
        last = reached
    return JointMixture(mass / mass.sum(), means, covariances)


def _exponents(
    weights: Float[np.ndarray, " m"], means: Float[np.ndarray, "m d"], covariances: Float[np.ndarray, "m d d"]
) -> Float[np.ndarray, "m q"]:
    """log(weight) + log N(x), up to the power of 2 pi, as factors of x_i x_j (i <= j), x_i and 1."""
    d = means.shape[1]
    first, second = np.triu_indices(d)
    precisions = np.linalg.inv(covariances)
    pulls = np.einsum("mij,mj->mi", precisions, means)
    squares = precisions[:, first, second] * np.where(first == second, -0.5, -1.0)
    height = np.log(weights) - 0.5 * np.linalg.slogdet(covariances)[1] - 0.5 * np.einsum("mi,mi->m", pulls, means)
    return np.column_stack([squares, pulls, height])


def _spread_out(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn one by one, each in proportion to its squared distance from those before."""
    centres = [rows[rng.integers(len(rows))]]
    distance = ((rows - centres[0]) ** 2).sum(axis=1)
    for _ in range(count - 1):
        chosen = rows[rng.choice(len(rows), p=distance / distance.sum())]
        centres.append(chosen)
        distance = np.minimum(distance, ((rows - chosen) ** 2).sum(axis=1))
    return np.array(centres)
