r"""How many tokens lie within the farthest selected one, and before the nearest unselected one, for many selections.

With z the distances of tokens in one row and S the selected ones, the counts

$$\#\{i:z_i\le\max_Sz\}=N+|\{j\notin S:z_j\le\rho_{max}\}|,\qquad
  \#\{i:z_i<\min_{S^c}z\}=|\{i\in S:z_i<\rho_{min}\}|$$

run over all tokens, so that no row has to be sorted or split.
"""

from __future__ import annotations

import numpy as np


class Table:
    """z for several distances and given selections, (distance, row, L), and what is counted in its rows.

    No selected token is beyond the farthest of them and no unselected one before the nearest, so both counts may run
    over all tokens. Places are looked for instead of values, which NumPy finds four times as fast, and eight tokens are
    counted at a time.
    """

    def __init__(self, inside: np.ndarray, distances: int, dtype: type = float):
        length = inside.shape[-1]
        self.z = np.empty((distances, inside.size // length, length), dtype)
        self._edge = np.where(inside, dtype(np.inf), dtype(-np.inf)).reshape(self.z.shape[1:])
        self._spare = np.empty_like(self.z)
        self._mask = np.zeros((*self.z.shape[:2], -(-length // 8) * 8), dtype=bool)
        self._starts = np.arange(0, self.z.size, length).reshape(self.z.shape[:2])

    def counted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(farthest selected, nearest unselected, tokens not beyond the first, tokens before the second) by row."""
        far = np.minimum(self.z, self._edge, out=self._spare).argmax(axis=-1)
        near = np.maximum(self.z, self._edge, out=self._spare).argmin(axis=-1)
        return far, near, self._true(np.less_equal, far), self._true(np.less, near)

    def _true(self, compare: np.ufunc, place: np.ndarray) -> np.ndarray:
        bound = self.z.reshape(-1)[place + self._starts]
        compare(self.z, bound[..., None], out=self._mask[..., : self.z.shape[-1]])
        return np.bitwise_count(self._mask.view(np.uint64)).sum(axis=-1, dtype=np.int64)


def scores(within: np.ndarray, before: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """(P, R, F) from the counts of a table."""
    precision, recall = np.asarray(sizes, dtype=float) / within, before / np.asarray(sizes, dtype=float)
    return np.stack([precision, recall, 2 * precision * recall / (precision + recall)], axis=1)


def inversions(z: np.ndarray, inside: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The pairs of a selected and an unselected token of which the second is not farther.

    All tokens are sorted, an unselected one before a selected one at the same distance: each pair then moves a selected
    token one place back. To sort once, the selection is written into the last bit of the distance.
    """
    key = (z + 0.0).view(np.int64)  # -0 becomes 0
    key ^= (key >> 63) & np.int64(2**63 - 1)  # whole numbers in the order of the numbers
    key &= np.int64(-2)
    key |= inside
    key.sort(axis=-1)
    count = np.asarray(sizes, dtype=float)
    return (key & 1).astype(float) @ np.arange(z.shape[-1], dtype=float) - count * (count - 1) / 2
