r"""What a user can check without trusting the construction: separated hulls and Wasserstein distances.

Two measures have disjoint geodesic hulls exactly when some h has $\langle h,x\rangle\ge1$ on one support and
$\langle h,y\rangle\le-1$ on the other; h is returned, so that two matrix products verify it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from sphereflow.numerics.unit_vectors import angle_table
from sphereflow.observables import wasserstein

_ROUNDING = 1e-11  # of sums of masses


def separating_vector(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " d"] | None:
    r"""h with $Xh\ge1$, $Yh\le-1$, or None when the hulls meet.

    The residual of $\min_{\lambda\ge0}|\sum\lambda_iz_i|^2+(1-\sum\lambda_i)^2$ over the rows z of X and -Y is, by its
    optimality conditions, such an h, unless it is zero.
    """
    z = np.concatenate([x, -y])
    equations = np.concatenate([z.T, np.ones((1, len(z)))])
    goal = np.append(np.zeros(z.shape[1]), 1.0)
    left = goal - equations @ nnls(equations, goal)[0]
    if left[-1] < 1e-10:
        return None
    h = -left[:-1]
    margin = float((z @ h).min())
    return h / margin if margin > 0 else None


def separated_pairs(clouds: Sequence[Float[np.ndarray, "_ d"]]) -> tuple[int, int]:
    """(pairs of measures with disjoint hulls, all pairs)."""
    pairs = [(i, j) for i in range(len(clouds)) for j in range(i)]
    return sum(separating_vector(clouds[i], clouds[j]) is not None for i, j in pairs), len(pairs)


def w2(
    x: Float[np.ndarray, "n d"],
    masses: Float[np.ndarray, " n"],
    y: Float[np.ndarray, "m d"],
    target_masses: Float[np.ndarray, " m"],
) -> float:
    """W2 with the geodesic distance, in memory n m: an atom of larger mass is not repeated.

    Closed where every atom weighs as much as the points nearest to it, as once they have arrived, or for one atom.
    """
    if len(y) > len(x):
        return w2(y, target_masses, x, masses)
    away = angle_table(x, y)
    near = away.argmin(axis=1)
    if np.abs(np.bincount(near, masses, minlength=len(y)) - target_masses).max() < _ROUNDING:
        return float(np.sqrt(masses @ away[np.arange(len(x)), near] ** 2))
    if len(x) == len(y) and max(np.ptp(masses), np.ptp(target_masses)) < 1e-15:
        return wasserstein(x, y)  # an assignment
    return wasserstein(x, y, x_weights=masses, y_weights=target_masses)
