r"""Convex hulls of tokens in R^d: support function, volume, and the limit polytope's identity.

$$h(u) = \max_i \langle u, z_i\rangle .$$
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, QhullError


def support_function(z: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """h(u) for each direction u; z has shape (..., n, d), directions (m, d), the result (..., m)."""
    return np.max(np.einsum("...nd,md->...mn", z, directions), axis=-1)


def hull_volume(z: np.ndarray) -> float:
    """Volume (area if d = 2, length if d = 1) of the convex hull; zero if the tokens lie in a hyperplane."""
    z = np.asarray(z)
    if z.shape[1] == 1:
        return float(np.ptp(z))
    try:
        return float(ConvexHull(z).volume)
    except QhullError:
        return 0.0


def hull_vertices(z: np.ndarray) -> np.ndarray:
    """Indices of the tokens that are vertices of the convex hull."""
    z = np.asarray(z)
    if z.shape[1] == 1:
        return np.unique([np.argmin(z), np.argmax(z)])
    return np.sort(ConvexHull(z).vertices)


def polytope_residual(z: np.ndarray, form: np.ndarray | None = None) -> np.ndarray:
    r"""For each token, $\min(|\,\langle z,z\rangle_A - \max_j\langle z,z_j\rangle_A|, \langle z,z\rangle_A)$.

    Zero for the limits that the polytope theorem allows: the origin, or points with
    $|Ax|^2=\max_j\langle Ax,Av_j\rangle$. `form` is $A^\top A = Q^\top K$, the identity by default.
    """
    z = np.asarray(z)
    products = z @ (z.T if form is None else form @ z.T)
    own = np.diag(products)
    return np.minimum(np.abs(products.max(axis=1) - own), np.abs(own))


def in_open_hemisphere(x: np.ndarray) -> bool:
    r"""Whether some w has $\langle x_i,w\rangle > 0$ for all i, decided by linear programming."""
    x = np.asarray(x)
    answer = linprog(np.zeros(x.shape[1]), A_ub=-x, b_ub=-np.ones(len(x)), bounds=(None, None), method="highs")
    return bool(answer.status == 0)
