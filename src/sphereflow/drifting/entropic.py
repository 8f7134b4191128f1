r"""The Gaussian benchmark of bridges: the entropic plan in closed form, and how far a plan is from it.

From $N(m_0,A)$ to $N(m_1,B)$ the plan is a bridge with one potential, $y\,|\,x\sim N(m_1+S(x-m_0),\epsilon S)$,

$$ S=A^{-1/2}\Big(\big(A^{1/2}BA^{1/2}+\tfrac{\epsilon^2}4I\big)^{1/2}-\tfrac\epsilon2I\Big)A^{-1/2},\qquad
   \epsilon S=B-SAS . $$

Laws are compared by their first two moments with the Bures-Wasserstein distance, in per cent of half the variance of
the target:

$$ \mathrm{BW\text{-}UVP}=
   \frac{100}{\frac12\mathrm{tr}\,C'}\Big(|m-m'|^2+\mathrm{tr}\big(C+C'-2(C^{1/2}C'C^{1/2})^{1/2}\big)\Big), $$

and plans by the mean over starts $x$ of the same between the laws of the end given $x$ (cBW-UVP).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from sphereflow.drifting.inputs import LARGEST, moderate
from sphereflow.drifting.lightsb import LightBridge, light_bridge
from sphereflow.drifting.optima import gaussian_map
from sphereflow.errors import SphereflowError, real_number

Law = tuple[ArrayLike, ArrayLike]  # mean and covariance


def gaussian_bridge(source: Law, target: Law, epsilon: float) -> LightBridge:
    """The entropic plan between two Gaussians, each given as (mean, covariance)."""
    epsilon = real_number("epsilon", epsilon, above=0, most=LARGEST)
    (m0, a), (m1, b) = (_moments(name, law) for name, law in (("source", source), ("target", target)))
    _same_dimension("source", m0, "target", m1)
    if min(np.linalg.eigvalsh(each).min() for each in (a, b)) <= 0:
        raise SphereflowError("the covariances of source and target must be positive definite.")
    s = gaussian_map((m0, a), (m1, b), epsilon).matrix
    return light_bridge([1.0], [m1 - s @ m0], [(s + s.T) / 2], epsilon)


def gaussian_marginal(
    source: Law, target: Law, epsilon: float, t: float
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"]]:
    r"""Mean and covariance at time t of the bridge between two Gaussians.

    $(1-t)^2A+t^2B+t(1-t)(AS+SA+\epsilon I)$.
    """
    t = real_number("t", t, least=0, most=1)
    s = np.asarray(gaussian_bridge(source, target, epsilon).covariances[0])
    (m0, a), (m1, b) = _moments("source", source), _moments("target", target)
    crossed = a @ s + s @ a + epsilon * np.eye(len(a))
    return (1 - t) * m0 + t * m1, (1 - t) ** 2 * a + t**2 * b + t * (1 - t) * crossed


def bw_uvp(law: Law | ArrayLike, target: Law | ArrayLike) -> float:
    """Squared Bures-Wasserstein distance in per cent of half the target's variance, each law as samples (n, D) or
    as a pair (mean, covariance)."""
    (m, c), (m1, b) = _moments("law", law), _moments("target", target)
    _same_dimension("law", m, "target", m1)
    return float(100 * _squared_distance(m, c, m1, b) / _half_variance(b))


def cbw_uvp(
    law: tuple[ArrayLike, ArrayLike] | ArrayLike,
    truth: tuple[ArrayLike, ArrayLike] | ArrayLike,
    target: Law | ArrayLike,
) -> float:
    """The mean over starts of the squared Bures-Wasserstein distance between two conditional laws of the end, in per
    cent of half the variance of the target.

    `law` and `truth` are samples (starts, draws, D), or the pair of means (starts, D) and covariances
    (starts, D, D) that `LightBridge.moments` gives; `target` is a sample or a pair (mean, covariance).
    """
    (m, c), (m1, c1) = _conditionals("law", law), _conditionals("truth", truth)
    mean, b = _moments("target", target)
    if m.shape != m1.shape or m.shape[1] != len(mean):
        raise SphereflowError(
            f"law, truth and target must have the same starts and dimension; got {m.shape}, {m1.shape} and {len(mean)}."
        )
    return float(100 * np.mean(_squared_distance(m, c, m1, c1)) / _half_variance(b))


def _squared_distance(m: np.ndarray, c: np.ndarray, m1: np.ndarray, c1: np.ndarray) -> np.ndarray:
    root = _root(c)
    crossed = np.trace(_root(root @ c1 @ root), axis1=-2, axis2=-1)
    spread = np.trace(c, axis1=-2, axis2=-1) + np.trace(c1, axis1=-2, axis2=-1) - 2 * crossed
    return np.asarray(np.sum((m - m1) ** 2, axis=-1) + np.maximum(spread, 0.0))


def _root(matrices: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh((matrices + np.swapaxes(matrices, -1, -2)) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def _half_variance(covariance: np.ndarray) -> float:
    half = float(np.trace(covariance)) / 2
    if not half > 0:
        raise SphereflowError("target must have a positive variance.")
    return half


def _moments(name: str, law: Law | ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a sample or of a pair."""
    if not isinstance(law, tuple):
        rows = moderate(name, law, shape=("n", "D"))
        if len(rows) < 2:
            raise SphereflowError(f"{name} must be a sample of at least two rows, or a pair (mean, covariance).")
        return rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False))
    if len(law) != 2:
        raise SphereflowError(f"{name} must be a sample (n, D) or a pair (mean, covariance), got {len(law)} parts.")
    mean = moderate(f"the mean of {name}", law[0], shape=("D",))
    covariance = moderate(f"the covariance of {name}", law[1], shape=(len(mean), len(mean)))
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=1e-14) or np.any(np.diag(covariance) < 0):
        raise SphereflowError(f"the covariance of {name} must be symmetric, and no variance negative.")
    return mean, covariance


def _conditionals(name: str, laws: tuple[ArrayLike, ArrayLike] | ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(laws, tuple) and len(laws) == 2:
        means = moderate(f"the means of {name}", laws[0], shape=("starts", "D"))
        d = means.shape[1]
        covariances = moderate(f"the covariances of {name}", laws[1], shape=(len(means), d, d))
    else:
        draws = moderate(name, laws, shape=("starts", "draws", "D"))
        if draws.shape[1] < 2:
            raise SphereflowError(f"{name} must hold at least two draws of every start.")
        means = draws.mean(axis=1)
        away = draws - means[:, None]
        covariances = np.einsum("nid,nie->nde", away, away) / (draws.shape[1] - 1)
    return means, covariances


def _same_dimension(first: str, a: np.ndarray, second: str, b: np.ndarray) -> None:
    if len(a) != len(b):
        raise SphereflowError(f"{first} and {second} must have one dimension; got {len(a)} and {len(b)}.")
