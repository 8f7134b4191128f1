r"""How many tokens lie within the farthest selected one, and before the nearest unselected one, for many selections.

With z the distances of tokens in one row and S the selected ones, the counts

$$\#\{i:z_i\le\max_Sz\}=N+|\{j\notin S:z_j\le\rho_{max}\}|,\qquad
  \#\{i:z_i<\min_{S^c}z\}=|\{i\in S:z_i<\rho_{min}\}|$$

run over all tokens, so that no row has to be sorted or split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sphereflow.llm.heads.arrays import along, beside, double, in_order, library, place_of_largest, place_of_smallest


def counted(z: Any, inside: Any) -> tuple[Any, Any, Any, Any]:
    """(farthest selected, nearest unselected, tokens not beyond the first, tokens before the second) by row."""
    lib = library(z)
    bar = edge(inside, z)
    far, near = place_of_largest(lib.minimum(z, bar)), place_of_smallest(lib.maximum(z, bar))
    within, before = z <= along(z, far[..., None]), z < along(z, near[..., None])
    return far, near, within.sum(axis=-1), before.sum(axis=-1)


def edge(inside: Any, z: Any) -> Any:
    """Infinite where a token is selected, else minus infinite: with it the extremes of z leave out a side."""
    return library(z).where(inside, z.dtype.type(np.inf) if isinstance(z, np.ndarray) else np.inf, -np.inf)


def scores(within: Any, before: Any, sizes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """(P, R, F) from the counts of a table."""
    count = beside(within, np.asarray(sizes, dtype=float))
    precision, recall = count / double(within), double(before) / count
    return precision, recall, 2 * precision * recall / (precision + recall)


def inversions(z: Any, inside: Any, sizes: tuple[int, ...]) -> Any:
    """The pairs of a selected and an unselected token of which the second is not farther.

    All tokens are sorted, an unselected one before a selected one at the same distance: each pair then moves a selected
    token one place back. To sort once, the selection is written into the last bit of the distance.
    """
    key = (z + 0.0).view(library(z).int64)  # -0 becomes 0
    key ^= (key >> 63) & (2**63 - 1)  # whole numbers in the order of the numbers
    key &= -2
    key |= inside
    count = np.asarray(sizes, dtype=float)
    places = double(in_order(key) & 1) @ beside(z, np.arange(z.shape[-1], dtype=float))
    return places - beside(z, count * (count - 1) / 2)
