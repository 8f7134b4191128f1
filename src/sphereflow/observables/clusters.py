r"""How many clusters there are, and who belongs to which.

Tokens are joined when $\langle x_i,x_j\rangle > $ threshold; clusters are the connected components of that graph. The
rank statistics of the papers are here too: they count something else when chains of tokens occur.
"""

from __future__ import annotations

import numpy as np
import scipy

from sphereflow.errors import SphereflowError, real_number
from sphereflow.reading import real_array

_BLOCK = 2048
_LARGEST_DENSE = 20_000
_UNIT = 1e-2  # tokens in half precision pass


def cluster_labels(x: np.ndarray, threshold: float = 0.999) -> np.ndarray:
    """Cluster number of each token, numbered in order of first appearance; x has shape (n, d).

    On the circle sorting makes it linear-logarithmic in n; elsewhere all pairs are compared block by block.
    """
    x = _tokens(x)
    if not -1 < real_number("threshold", threshold) < 1:
        raise SphereflowError(f"a cluster threshold lies strictly between -1 and 1, got {threshold}.")
    raw = _circle_labels(x, threshold) if x.shape[1] == 2 else _graph_labels(x, threshold)
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def cluster_count(x: np.ndarray, threshold: float = 0.999) -> int:
    """Number of connected components at the threshold."""
    return int(cluster_labels(x, threshold).max()) + 1


def joined_count(n: int, i: np.ndarray, j: np.ndarray) -> int:
    """Number of connected components of n tokens of which the pairs (i, j), with rising i, are joined."""
    starts = np.searchsorted(i, np.arange(n + 1))
    graph = scipy.sparse.csr_matrix((np.ones(len(j)), j, starts), shape=(n, n))
    return int(scipy.sparse.csgraph.connected_components(graph, directed=False)[0])


def cluster_masses(x: np.ndarray, threshold: float = 0.999, weights: np.ndarray | None = None) -> np.ndarray:
    """Mass of each cluster, largest first."""
    labels = cluster_labels(x, threshold)
    mass = np.full(len(labels), 1 / len(labels))
    if weights is not None:
        mass = real_array("weights", weights)
        if mass.shape != labels.shape or mass.min() < 0:
            raise SphereflowError(f"weights must be {len(labels)} masses, one per token and none negative.")
    return np.sort(np.bincount(labels, weights=mass))[::-1]


def rank_count(x: np.ndarray, threshold: float = 0.9999) -> int:
    """The papers' statistic: rank of the 0/1 matrix [inner product > threshold]."""
    x = _tokens(x)
    real_number("threshold", threshold, above=-1, most=1)
    return int(np.linalg.matrix_rank((_gaps(x, x) < 1 - threshold).astype(float)))


def span_dimension(x: np.ndarray, threshold: float = 1e-3) -> int:
    """Dimension of the span: eigenvalues of the Gram matrix above the threshold."""
    points = real_array("tokens", x, shape=("n", "d"))
    return int(np.sum(np.linalg.svd(points, compute_uv=False) ** 2 > real_number("threshold", threshold, least=0)))


def _tokens(x: np.ndarray) -> np.ndarray:
    """Tokens in their own precision; two that are not numbers would look like one cluster."""
    array = np.asarray(x)
    if array.ndim != 2 or 0 in array.shape:
        raise SphereflowError(f"tokens must have shape (n, d) with n, d >= 1, got {array.shape}.")
    given = real_array("tokens", x)
    worst = float(np.abs(np.linalg.norm(given, axis=1) - 1).max())
    if not worst < _UNIT:
        raise SphereflowError(f"clusters are of unit vectors, but a norm differs from 1 by {worst:.1e}.")
    return array if array.dtype.kind == "f" else given


def _gaps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1) / 2


def _circle_labels(x: np.ndarray, threshold: float) -> np.ndarray:
    angles = np.arctan2(x[:, 1], x[:, 0])
    order = np.argsort(angles, kind="stable")
    steps = np.diff(angles[order], append=angles[order][0] + 2 * np.pi)
    breaks = steps > np.arccos(threshold)
    labels = np.empty(len(x), dtype=int)
    labels[order] = np.concatenate([[0], np.cumsum(breaks[:-1])])
    if not breaks[-1]:  # the last arc closes the circle
        labels[labels == labels.max()] = 0
    return labels


def _graph_labels(x: np.ndarray, threshold: float) -> np.ndarray:
    n = len(x)
    if n > _LARGEST_DENSE:
        raise SphereflowError(
            f"clusters of {n} tokens in dimension {x.shape[1]} would compare too many pairs; "
            f"take at most {_LARGEST_DENSE} of them, for example every {-(-n // _LARGEST_DENSE)}th."
        )
    labels: np.ndarray = np.arange(n)
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        near = 1 - x[rows] @ x.T < 1 - threshold
        # Inner products lose the digits of very small gaps; the few doubtful pairs are settled by differences.
        if 1 - threshold < 1e-6:
            i, j = np.nonzero(1 - x[rows] @ x.T < 1 - threshold + 1e-12)
            near = np.zeros_like(near)
            keep = np.sum((x[rows][i] - x[j]) ** 2, axis=-1) / 2 < 1 - threshold
            near[i[keep], j[keep]] = True
        i, j = np.nonzero(near)
        graph = scipy.sparse.csr_matrix((np.ones(len(i), dtype=bool), (i + start, j)), shape=(n, n))
        chain = scipy.sparse.csr_matrix((np.ones(n, dtype=bool), (np.arange(n), labels)), shape=(n, n))
        components = scipy.sparse.csgraph.connected_components(graph + chain, directed=False)[1]
        _, first, inverse = np.unique(components, return_index=True, return_inverse=True)
        labels = first[inverse]  # every token points to the first member of its component
    return labels
