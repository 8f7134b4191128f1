r"""Wasserstein distances between clouds of tokens.

$$W_p(\mu,\nu)^p = \min_{\pi} \sum_{ij} \pi_{ij}\, \rho(x_i,y_j)^p,$$

with rho the geodesic distance on the sphere, or the Euclidean distance.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from sphereflow.errors import MissingExtra, one_of


def wasserstein(
    x: np.ndarray,
    y: np.ndarray,
    p: float = 2.0,
    *,
    metric: Literal["geodesic", "euclidean"] = "geodesic",
    x_weights: np.ndarray | None = None,
    y_weights: np.ndarray | None = None,
) -> float:
    """Exact W_p between two clouds: an assignment for equal numbers of equal masses, else a linear programme."""
    x, y = np.asarray(x), np.asarray(y)
    cost = _distances(x, y, one_of("metric", metric, ("geodesic", "euclidean"))) ** p
    if len(x) == len(y) and x_weights is None and y_weights is None:
        rows, columns = linear_sum_assignment(cost)
        return float(cost[rows, columns].mean() ** (1 / p))
    try:
        import ot
    except ImportError:
        raise MissingExtra("POT", "ot", "the Wasserstein distance between weighted clouds") from None
    a = np.full(len(x), 1 / len(x)) if x_weights is None else np.asarray(x_weights)
    b = np.full(len(y), 1 / len(y)) if y_weights is None else np.asarray(y_weights)
    return float(max(ot.emd2(a, b, cost), 0.0) ** (1 / p))


def _distances(x: np.ndarray, y: np.ndarray, metric: str) -> np.ndarray:
    apart = np.linalg.norm(x[:, None] - y[None], axis=-1)
    if metric == "euclidean":
        return apart
    return 2 * np.arctan2(apart, np.linalg.norm(x[:, None] + y[None], axis=-1))
