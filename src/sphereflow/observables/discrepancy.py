r"""How far two samples of unknown laws are apart, without a transport plan.

$$ \mathcal E=2E|X-Y|-E|X-X'|-E|Y-Y'|,\qquad \mathrm{MMD}^2=E\,k(X,X')+E\,k(Y,Y')-2E\,k(X,Y), $$
$$ \mathrm{Fr\acute echet}=|m_x-m_y|^2+\mathrm{tr}\big(S_x+S_y-2(S_x^{1/2}S_yS_x^{1/2})^{1/2}\big). $$

MMD is unbiased, and so is the energy distance by default: equal laws give zero on average, and negative
values by chance.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.reading import real_array
from sphereflow.seeds import Seed, rng_from


def energy_distance(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], *, unbiased: bool = True, most: int | None = None
) -> float:
    """The energy distance of two samples, of which at most `most` points each are used.

    Unbiased: equal laws give zero on average, and negative values by chance. Otherwise a point also counts as paired
    with itself, and the estimate is never negative.
    """
    x, y = _samples(x, y)
    if most is not None:
        x, y = x[: whole_number("most", most, least=2)], y[:most]
    within = [scipy.spatial.distance.pdist(cloud).mean() * (1 if unbiased else 1 - 1 / len(cloud)) for cloud in (x, y)]
    return float(2 * scipy.spatial.distance.cdist(x, y).mean() - sum(within))


def sampling_floor(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], splits: int = 8, seed: Seed = 0) -> float:
    """How far from zero the energy distance of two samples of one law is by chance.

    Root mean square over random divisions of the rows of both, which must come from one law, into parts of the same
    sizes. A generator cannot be distinguished from the data below about twice this.
    """
    x, y = _samples(x, y)
    rng, rows = rng_from(seed), np.concatenate([x, y])
    orders = [rng.permutation(len(rows)) for _ in range(whole_number("splits", splits))]
    distances = [energy_distance(rows[order[: len(x)]], rows[order[len(x) :]]) for order in orders]
    return float(np.sqrt(np.mean(np.square(distances))))


def gaussian_like(x: Float[np.ndarray, "n D"], n: int, seed: Seed = 0) -> Float[np.ndarray, "k D"]:
    """A Gaussian sample with the mean and covariance of another: what a model is that has learned no shape."""
    x, _ = _samples(x, x)
    covariance = np.atleast_2d(np.cov(x, rowvar=False))
    return rng_from(seed).multivariate_normal(x.mean(axis=0), covariance, size=whole_number("n", n))


def mmd(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], width: float | None = None) -> float:
    """Unbiased squared MMD with a Gaussian kernel; by default its width is the median distance between the samples."""
    x, y = _samples(x, y)
    across = scipy.spatial.distance.cdist(x, y, "sqeuclidean")
    usual = np.median(np.sqrt(across)) if width is None else width
    scale = 2 * real_number("width (by default the median distance between the samples)", usual, above=0) ** 2
    means = [np.exp(-scipy.spatial.distance.pdist(z, "sqeuclidean") / scale).mean() for z in (x, y)]
    return float(sum(means) - 2 * np.exp(-across / scale).mean())


def frechet(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"]) -> float:
    """Squared 2-Wasserstein distance of the two Gaussians with the samples' means and covariances."""
    x, y = _samples(x, y)
    a, b = (np.atleast_2d(np.cov(z, rowvar=False)) for z in (x, y))
    values, vectors = np.linalg.eigh(a)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ b @ root), 0)).sum()
    return float(np.sum((x.mean(0) - y.mean(0)) ** 2) + np.trace(a) + np.trace(b) - 2 * cross)


def sliced_wasserstein(
    x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"], directions: int = 128, seed: Seed = 0
) -> float:
    """Root mean over random directions of the squared 2-Wasserstein distance of the projections, which is exact."""
    x, y = _samples(x, y)
    u = rng_from(seed).normal(size=(x.shape[1], whole_number("directions", directions)))
    u /= np.linalg.norm(u, axis=0)
    # Both quantile functions are constant between neighbouring multiples of 1/n and of 1/m.
    ends = np.unique(np.concatenate([np.arange(len(z) + 1) / len(z) for z in (x, y)]))
    middles = (ends[1:] + ends[:-1]) / 2
    first, second = (np.sort(z @ u, axis=0)[(middles * len(z)).astype(int)] for z in (x, y))
    return float(np.sqrt(np.mean(np.diff(ends) @ (first - second) ** 2)))


def _samples(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = real_array("x", x), real_array("y", y)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2:
        raise SphereflowError(f"two samples (n, D) of one dimension are compared; got shapes {x.shape} and {y.shape}.")
    return x, y
