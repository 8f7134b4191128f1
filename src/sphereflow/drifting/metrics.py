r"""Distances between two samples that mean something where the loss does not.

$$ \mathcal E=2E|X-Y|-E|X-X'|-E|Y-Y'|,\qquad \mathrm{MMD}^2=E\,k(X,X')+E\,k(Y,Y')-2E\,k(X,Y), $$
$$ \mathrm{Fr\acute echet}=|m_x-m_y|^2+\mathrm{tr}\big(S_x+S_y-2(S_x^{1/2}S_yS_x^{1/2})^{1/2}\big). $$

Energy distance and MMD are unbiased: equal laws give zero on average, and negative values by chance.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial.distance import cdist, pdist

from sphereflow.errors import SphereflowError


def energy_distance(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"]) -> float:
    """Unbiased energy distance."""
    _check(x, y)
    return float(2 * cdist(x, y).mean() - pdist(x).mean() - pdist(y).mean())


def mmd(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], width: float | None = None) -> float:
    """Unbiased squared MMD with a Gaussian kernel; by default its width is the median distance between the samples."""
    _check(x, y)
    across = cdist(x, y, "sqeuclidean")
    scale = 2 * (np.median(np.sqrt(across)) if width is None else width) ** 2
    means = [np.exp(-pdist(z, "sqeuclidean") / scale).mean() for z in (x, y)]
    return float(sum(means) - 2 * np.exp(-across / scale).mean())


def frechet(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"]) -> float:
    """Squared 2-Wasserstein distance of the two Gaussians with the samples' means and covariances."""
    _check(x, y)
    a, b = (np.atleast_2d(np.cov(z, rowvar=False)) for z in (x, y))
    values, vectors = np.linalg.eigh(a)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0)).sum()
    return float(np.sum((x.mean(0) - y.mean(0)) ** 2) + np.trace(a) + np.trace(b) - 2 * cross)


def sliced_wasserstein(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], directions: int = 128, seed: int = 0
) -> float:
    """Root mean over random directions of the squared 2-Wasserstein distance of the projections, by quantiles."""
    _check(x, y)
    u = np.random.default_rng(seed).normal(size=(x.shape[1], directions))
    u /= np.linalg.norm(u, axis=0)
    levels = (np.arange(512) + 0.5) / 512
    gap = np.quantile(x @ u, levels, axis=0) - np.quantile(y @ u, levels, axis=0)
    return float(np.sqrt(np.mean(gap**2)))


def _check(x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2:
        raise SphereflowError(f"two samples (n, D) of one dimension are compared; got shapes {x.shape} and {y.shape}.")
