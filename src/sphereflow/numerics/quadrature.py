r"""Gauss rules: on panels of the line, and for the laws whose polynomials are Jacobi's.

$$\int f\approx\sum_k\sum_jw_{kj}f(x_{kj}),\qquad E\,f(X)\approx\sum_jw_jf(x_j),\quad X\text{ of density}\propto
  (1-x)^a(1+x)^b .$$
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy
from jaxtyping import Float


def panels(
    edges: Float[np.ndarray, "*batch m"], order: int
) -> tuple[Float[np.ndarray, "*batch k o"], Float[np.ndarray, "*batch k o"]]:
    """Gauss-Legendre nodes and weights on each of the k = m - 1 intervals between edges that follow one another."""
    node, weight = _legendre(order)
    half = np.diff(edges)[..., None] / 2
    return edges[..., :-1, None] + half * (1 + node), half * weight


def interval(low: float, high: float, order: int) -> tuple[Float[np.ndarray, " o"], Float[np.ndarray, " o"]]:
    """Gauss-Legendre nodes and weights between two numbers."""
    nodes, weights = panels(np.array([low, high], dtype=float), order)
    return nodes[0], weights[0]


@cache
def _legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(order)


def jacobi(points: int, a: float, b: float) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    r"""Nodes and weights for the law of density $\propto(1-x)^a(1+x)^b$ on [-1, 1], a, b > -1; weights sum to one.

    Golub and Welsch: eigenvalues of the tridiagonal matrix of the recurrence, squared first components of the
    eigenvectors. No normalising constant enters: `scipy.special.roots_jacobi`, as exact where
    it answers, gives NaN for 400 points at a = b = 500.
    """
    k = np.arange(1, points, dtype=float)
    total = 2 * k + a + b
    centre = np.append((b - a) / (a + b + 2), (b * b - a * a) / (total * (total + 2)))
    k, total = k[1:], total[1:]
    off = 4 * k * (k + a) * (k + b) * (k + a + b) / (total**2 * (total + 1) * (total - 1))
    first = 4 * (1 + a) * (1 + b) / ((2 + a + b) ** 2 * (3 + a + b))
    nodes, vectors = scipy.linalg.eigh_tridiagonal(centre, np.sqrt(np.append(first, off)[: points - 1]))
    return nodes, vectors[0] ** 2
