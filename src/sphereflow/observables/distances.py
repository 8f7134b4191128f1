r"""Wasserstein distances between clouds of tokens.

$$W_p(\mu,\nu)^p = \min_{\pi} \sum_{ij} \pi_{ij}\, \rho(x_i,y_j)^p,$$

with rho the geodesic distance on the sphere, or the Euclidean distance. On the circle and on the line it is exact in
n log n by quantiles; beyond, an assignment for equal numbers of equal masses, else a linear programme.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy

from sphereflow.errors import MissingExtra, SphereflowError, one_of, real_number
from sphereflow.observables.certified_distance import masses
from sphereflow.observables.circle_distance import circle_wasserstein
from sphereflow.reading import real_array
from sphereflow.sphere import check_unit, to_angles


def wasserstein(
    x: np.ndarray,
    y: np.ndarray,
    p: float = 2.0,
    *,
    metric: Literal["geodesic", "euclidean"] = "geodesic",
    x_weights: np.ndarray | None = None,
    y_weights: np.ndarray | None = None,
) -> float:
    """Exact W_p between two clouds (n, d) and (m, d), of equal masses unless weights are given.

    For the geodesic distance the clouds lie on the sphere. Weights are divided by their sum.
    """
    p = real_number("p", p, least=1)
    x, y = real_array("x", x), real_array("y", y)
    chosen = one_of("metric", metric, ("geodesic", "euclidean"))
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or 0 in (len(x), len(y)):
        raise SphereflowError(f"two clouds (n, d) of one dimension are compared; got shapes {x.shape} and {y.shape}.")
    for name, cloud in (("x", x), ("y", y)) if chosen == "geodesic" else ():
        check_unit(name, float(np.abs(np.linalg.norm(cloud, axis=1) - 1).max()), "float32")
    if chosen == "geodesic" and x.shape[1] == 2:
        theta, phi = np.asarray(to_angles(x)), np.asarray(to_angles(y))
        return circle_wasserstein(theta, phi, p, theta_weights=x_weights, phi_weights=y_weights)
    alike = len(x) == len(y) and x_weights is None and y_weights is None
    if alike and chosen == "euclidean" and x.shape[1] == 1:
        return float(np.mean(np.abs(np.sort(x[:, 0]) - np.sort(y[:, 0])) ** p) ** (1 / p))
    cost = _distances(x, y, chosen) ** p
    if alike:
        rows, columns = scipy.optimize.linear_sum_assignment(cost)
        return float(cost[rows, columns].mean() ** (1 / p))
    try:
        import ot
    except ImportError:
        raise MissingExtra("POT", "ot", "the Wasserstein distance between weighted clouds") from None
    a, b = masses("x_weights", x_weights, len(x)), masses("y_weights", y_weights, len(y))
    return float(max(ot.emd2(a, b, cost), 0.0) ** (1 / p))


def _distances(x: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
    apart = np.linalg.norm(x[:, None] - y[None], axis=-1)
    if metric == "euclidean":
        return apart
    return 2 * np.arctan2(apart, np.linalg.norm(x[:, None] + y[None], axis=-1))
