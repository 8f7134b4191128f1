r"""Clusters that keep their names while they move: $i\sim j$ if $|x_i-x_j|<\delta$, and what that generates.

A picture of a run wants two things that a count does not: linear cost, frame after frame, and colours that stay with
their clusters. Tokens that agree to a twentieth of delta are looked at once, so a chain is judged to a tenth of delta.
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Float, Int

_WIDEST = 0.0447  # the angle at which inner products are 0.999, the threshold of `observables.cluster_count`
_NAMES = 65_536  # names travel as 16 bits


def reach(n: int, d: int) -> float:
    r"""$\delta$: 0.0447 (inner product 0.999), or less where so many tokens would touch before anything moves.

    On the circle a quarter of the mean distance of neighbours, on S^2 the radius at which a token has 0.3 neighbours.
    """
    crowded = {2: 0.25 * 2 * np.pi / n, 3: np.sqrt(1.2 / n)}.get(d, _WIDEST)
    return float(min(_WIDEST, crowded))


def groups(x: Float[np.ndarray, "n d"], delta: float) -> Int[np.ndarray, " n"]:
    """The cluster of each token, numbered from 0."""
    _, first, inverse = np.unique(np.round(x * (20 / delta)), axis=0, return_index=True, return_inverse=True)
    pairs = scipy.spatial.cKDTree(x[first]).query_pairs(delta, output_type="ndarray")
    graph = scipy.sparse.coo_matrix(
        (np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(len(first), len(first))
    )
    return scipy.sparse.csgraph.connected_components(graph, directed=False)[1][inverse.reshape(-1)].astype(np.int64)


class Names:
    """Names of clusters from frame to frame: each keeps the name that most of its members had, larger ones first."""

    def __init__(self) -> None:
        self._before: np.ndarray | None = None
        self._next = 0

    def follow(self, labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The names of the tokens' clusters, in [0, 65536)."""
        if self._before is None:
            names, self._next = labels, int(labels.max()) + 1
        else:
            names = self._inherited(labels, self._before)
        self._before = names
        return names % _NAMES

    def _inherited(self, labels: np.ndarray, before: np.ndarray) -> np.ndarray:
        pairs, votes = np.unique(np.stack([labels, before]), axis=1, return_counts=True)
        given = np.full(int(labels.max()) + 1, -1, dtype=np.int64)
        taken: set[int] = set()
        for k in np.argsort(-votes, kind="stable"):
            cluster, name = int(pairs[0, k]), int(pairs[1, k])
            if given[cluster] < 0 and name not in taken:
                given[cluster] = name
                taken.add(name)
        fresh = np.flatnonzero(given < 0)
        given[fresh] = self._next + np.arange(len(fresh))
        self._next += len(fresh)
        return given[labels]
