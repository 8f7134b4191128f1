r"""Overlapping supports of the compact kernel: which patterns are joined, and how high the way between two of them is.

Two caps intersect when the overlap of their patterns exceeds $2\phi_c^2-1$; the centre of one lies in the other when it
exceeds $\phi_c$. Overlaps of random patterns are independent in pairs, so the graph percolates where the mean degree is
1: $\alpha_{perc}=-\tfrac12\ln(1-q^2)$ for the edge q above 0, and the largest cluster holds the share s of a random
graph, $s=1-e^{-ks}$, at mean degree k. Joined caps are a path at zero temperature, not a path that is taken in a bath.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.memory.compact import touching
from sphereflow.memory.state import REFERENCE_B, support_edge
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

JOINED = ("caps", "centres")
_ROWS = 1000  # of the matrix of overlaps at a time


def percolation_load(b: float = REFERENCE_B, joined: str = "caps") -> float:
    r"""$-\tfrac12\ln(1-q^2)$: the load at which a pattern has one neighbour on average; 0 where half of all are."""
    edge = _edge(real_number("b", b, above=1, most=1e6), one_of("joined", joined, JOINED))
    return float(-np.log1p(-(max(edge, 0.0) ** 2)) / 2)


@dataclass(frozen=True, eq=False, repr=False)
class SupportClusters(Result):
    """Patterns joined into clusters: the cluster of every pattern, the sizes (largest first), and the mean degree."""

    b: float
    joined: str
    label: Int[np.ndarray, " M"]
    sizes: Int[np.ndarray, " c"]
    degree: float

    @property
    def largest(self) -> float:
        """The share of the patterns that are in the largest cluster."""
        return float(self.sizes[0] / self.sizes.sum())

    def variables(self) -> Variables:
        return {"label": ("pattern", self.label), "size": ("cluster", self.sizes)}

    def facts(self) -> list[str]:
        return [
            f"{len(self.label)} patterns in {len(self.sizes)} clusters, the largest with {self.largest:.3g} of them",
            f"mean degree {self.degree:.3g}; joined: {self.joined}, b = {self.b:.5g}",
        ]


@recorded_call
def support_clusters(patterns: ArrayLike, b: float = REFERENCE_B, joined: str = "caps") -> SupportClusters:
    """Clusters of your own patterns (M, N): joined where their caps intersect, or where one centre is in the other."""
    b, joined = real_number("b", b, above=1, most=1e6), one_of("joined", joined, JOINED)
    stored = real_array("patterns", patterns, shape=("M", "N"))
    if not len(stored) or not np.all(np.any(stored != 0, axis=1)):
        raise SphereflowError("patterns must be at least one vector, none of them zero.")
    axes, edge = unit(stored), _edge(b, joined)
    count = len(axes)
    pairs = []
    for first in range(0, count, _ROWS):
        row, column = np.nonzero(axes[first : first + _ROWS] @ axes.T > edge)
        ahead = row + first < column
        pairs.append(np.stack([row[ahead] + first, column[ahead]]))
    row, column = np.concatenate(pairs, axis=1)
    graph = coo_array((np.ones(len(row), bool), (row, column)), shape=(count, count))
    label = connected_components(graph, directed=False)[1]
    sizes = np.sort(np.bincount(label))[::-1]
    return SupportClusters(b, joined, label.astype(int), sizes, 2 * len(row) / count)


def barrier_profile(
    rho: float, b: float = REFERENCE_B, points: int = 401
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    r"""(angle, H/N) along the shortest way between two patterns of overlap rho; infinite between caps that are apart.

    Its peak is where the second cap begins, $\tfrac1b\ln\frac1{b(\hat\phi-\phi_c)}$ with
    $\hat\phi=\rho\phi_c+\sqrt{(1-\rho^2)(1-\phi_c^2)}$.
    """
    rho, b = real_number("rho", rho, least=-0.999, most=0.999), real_number("b", b, above=1, most=1e6)
    angle = np.arccos(rho) * np.linspace(0, 1, whole_number("points", points, least=3, most=10**7))
    total = sum(np.maximum(1 - b + b * np.cos(each), 0) for each in (angle, angle[::-1]))
    return angle, np.where(total > 0, -np.log(np.where(total > 0, total, 1.0)) / b, np.inf)


def _edge(b: float, joined: str) -> float:
    return touching(b) if joined == "caps" else support_edge(b)
