r"""Wasserstein distances between clouds of tokens.

$$W_p(\mu,\nu)^p = \min_{\pi} \sum_{ij} \pi_{ij}\, \rho(x_i,y_j)^p,$$

with rho the geodesic distance on the sphere, or the Euclidean distance. On the circle and on the line it is exact in
n log n by quantiles; beyond, an assignment for equal numbers of equal masses, else a linear programme.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy
import scipy.spatial.distance

from sphereflow.errors import MissingExtra, SphereflowError, one_of, real_number
from sphereflow.numerics.unit_vectors import angle_table
from sphereflow.observables.certified_distance import masses
from sphereflow.observables.circle_distance import circle_wasserstein
from sphereflow.reading import real_array
from sphereflow.sphere import check_unit, to_angles

_MOST_PAIRS = 400_000_000
_MOST_PIVOTS = 10**8  # of the network simplex; POT stops at 10^5, too few for 10^5 points, with the number it has then


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
    if len(x) * len(y) > _MOST_PAIRS:
        raise SphereflowError(
            f"a plan between {len(x)} and {len(y)} points compares more than {_MOST_PAIRS:,} pairs; give a sample of "
            "them, or use sliced_wasserstein."
        )
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
    value, log = ot.emd2(a, b, cost, numItermax=_MOST_PIVOTS, log=True)
    if log["warning"]:
        raise SphereflowError(f"the transport problem of {len(x)} and {len(y)} points was not solved: {log['warning']}")
    return float(max(value, 0.0) ** (1 / p))


def _distances(x: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
    if metric == "euclidean":
        return scipy.spatial.distance.cdist(x, y)
    return angle_table(x, y)
