r"""Convex hulls of tokens in R^d: support function, volume, and the limit polytope's identity.

$$h(u) = \max_i \langle u, z_i\rangle .$$
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.shapes import AnyArray


def support_function(z: Float[AnyArray, "... n d"], directions: Float[AnyArray, "m d"]) -> Float[np.ndarray, "... m"]:
    """h(u) for each direction u; z has shape (..., n, d), directions (m, d), the result (..., m)."""
    points, along = real_array("tokens", z), real_array("directions", directions, shape=("m", "d"))
    if points.ndim < 2 or 0 in points.shape or points.shape[-1] != along.shape[1]:
        raise SphereflowError(
            f"tokens (..., n, d) and directions (m, d) do not go together: {points.shape}, {along.shape}."
        )
    return np.max(np.einsum("...nd,md->...mn", points, along), axis=-1)


def hull_volume(z: Float[AnyArray, "n d"]) -> float:
    """Volume (area if d = 2, length if d = 1) of the convex hull; zero if the tokens lie in a hyperplane."""
    z = _cloud(z)
    flat, axes = _flattened(z)
    if len(axes) < z.shape[1]:
        return 0.0
    return float(np.ptp(flat)) if flat.shape[1] == 1 else float(scipy.spatial.ConvexHull(z).volume)


def hull_vertices(z: Float[AnyArray, "n d"]) -> Int[np.ndarray, " k"]:
    """Indices of the tokens that are vertices of the convex hull, which may be flat; of equal tokens the first."""
    flat, axes = _flattened(_cloud(z))
    if len(axes) == 0:
        return np.array([0])
    if len(axes) == 1:
        return np.unique([np.argmin(flat), np.argmax(flat)])
    return np.sort(scipy.spatial.ConvexHull(flat).vertices).astype(int)


def _cloud(z: Float[AnyArray, "n d"]) -> Float[np.ndarray, "n d"]:
    points = real_array("tokens", z, shape=("n", "d"))
    if 0 in points.shape:
        raise SphereflowError(f"a hull needs at least one token, in a dimension of at least 1; got {points.shape}.")
    return points


def _flattened(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in the flat that the tokens span (to rounding), and its axes."""
    centred = z - z[0]
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    spanned = axes[sizes > 1e-12 * max(np.abs(z).max(), 1e-300) * np.sqrt(z.size)]
    return centred @ spanned.T, spanned


def polytope_residual(z: Float[AnyArray, "n d"], form: Float[AnyArray, "d d"] | None = None) -> Float[np.ndarray, " n"]:
    r"""For each token, $\min(|\,\langle z,z\rangle_A - \max_j\langle z,z_j\rangle_A|, \langle z,z\rangle_A)$.

    Zero for the limits that the polytope theorem allows: the origin, or points with
    $|Ax|^2=\max_j\langle Ax,Av_j\rangle$. `form` is $A^\top A = Q^\top K$, the identity by default.
    """
    z = _cloud(z)
    products = z @ (z.T if form is None else real_array("form", form, shape=(z.shape[1],) * 2) @ z.T)
    own = np.diag(products)
    return np.minimum(np.abs(products.max(axis=1) - own), np.abs(own))


def in_open_hemisphere(x: Float[AnyArray, "n d"]) -> bool:
    r"""Whether some w has $\langle x_i,w\rangle > 0$ for all i.

    By Gordan's alternative there is none exactly when $\sum_i\lambda_ix_i=0$ for some $\lambda\ge0$ of sum one, which
    non-negative least squares decides (a linear programme would, too, sixty times slower).
    """
    x = _cloud(x)  # of no tokens at all the routine below ends the whole process
    equations = np.concatenate([x.T, np.ones((1, len(x)))])
    target = np.append(np.zeros(x.shape[1]), 1.0)
    return bool(scipy.optimize.nnls(equations, target)[1] > 1e-10)
