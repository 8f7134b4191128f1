r"""Up-crossings of zero, isolated with certainty.

On a piece of a cell F is a polynomial $\sum_k b_ks^k$, $|s|\le1$, up to errors $\varepsilon$ (of F) and $\varepsilon'$
(of dF/ds). Then

$$|b_0|>\sum_{k\ge1}|b_k|+2\varepsilon \Rightarrow \text{no zero},\qquad
  |b_1|>\sum_{k\ge2}k|b_k|+\varepsilon' \Rightarrow \text{monotone: one zero at most, decided by the ends};$$

every other piece is cut in two. A piece that is still undecided at a millionth of a bandwidth holds a degenerate or
nearly degenerate critical point: its ends are compared, and the result says that it is not certain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import comb

from sphereflow.modes.cells import TERMS, Cells, in_blocks
from sphereflow.numerics.roots import increasing_roots

_DEEPEST = 20
_POWERS = np.arange(TERMS)

# Coefficients on the left and right half of a piece: s = (s' -+ 1) / 2.
_k, _j = np.meshgrid(_POWERS, _POWERS, indexing="xy")
_HALVES = [comb(_j, _k) * np.float64(side) ** np.maximum(_j - _k, 0) * 0.5**_j for side in (-1, 1)]


@dataclass(frozen=True, eq=False)
class Crossings:
    """Up-crossings: the active cell they are in and their place s in it; `undecided` pieces, if any."""

    cell: Int[np.ndarray, " m"]
    place: Float[np.ndarray, " m"]
    undecided: int


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Parts of cells that cover what is looked at: beginning, width, values of F at both ends, and what is known."""

    cell: np.ndarray
    start: np.ndarray
    width: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rising: np.ndarray
    open: np.ndarray


def up_crossings(cells: Cells) -> Crossings:
    """All zeros at which F goes from negative to positive."""
    isolated, coefficients, doubts, free_cells = [], [], [], []
    for chosen, b, errors in cells.polynomials():
        whole = np.arange(chosen.start, chosen.stop)
        free = _no_zero(b, errors[:, 0])
        free_cells.append(_pieces(b[free], whole[free], -1.0, 2.0))
        isolated.append(whole[~free])
        coefficients.append(b[~free])
        doubts.append(errors[~free])
    cell, b = np.concatenate(isolated), np.concatenate(coefficients)
    pieces = _joined(free_cells + _cut(b, np.concatenate(doubts), cell))
    begins = _values_at_left_ends(pieces, cells.left)
    crossed = pieces.rising & ~pieces.open & (begins < 0) & (pieces.high >= 0)
    groups = _undecided_groups(pieces, begins)
    indices = np.concatenate([np.flatnonzero(crossed), groups[groups >= 0]]).astype(int)
    indices.sort()
    which = pieces.cell[indices]
    start, width = pieces.start[indices], pieces.width[indices]
    place = _refined(b[np.searchsorted(cell, which)], start, start + width)
    return Crossings(which, place, len(groups))


def _no_zero(b: Float[np.ndarray, "m j"], error: Float[np.ndarray, " m"]) -> Bool[np.ndarray, " m"]:
    return np.abs(b[:, 0]) > np.sum(np.abs(b[:, 1:]), axis=1) + 2 * error


def _cut(b: np.ndarray, errors: np.ndarray, cell: np.ndarray) -> list[_Pieces]:
    """Cut pieces in two until each is decided; the errors of dF/ds shrink with the pieces."""
    done = []
    start, width = np.full(len(cell), -1.0), 2.0
    for depth in range(_DEEPEST + 1):
        monotone = np.abs(b[:, 1]) > np.einsum("ij,j->i", np.abs(b[:, 2:]), _POWERS[2:]) + errors[:, 1] * 0.5**depth
        settled = _no_zero(b, errors[:, 0]) | monotone
        rising = monotone & (b[:, 1] > 0)
        last = depth == _DEEPEST
        leave = np.ones_like(settled) if last else settled
        done.append(_pieces(b[leave], cell[leave], start[leave], width, rising[leave], ~settled[leave]))
        if leave.all():
            break
        stay = ~settled
        halves = [in_blocks(b[stay], half) for half in _HALVES]
        b, errors, cell = np.concatenate(halves), np.tile(errors[stay], (2, 1)), np.tile(cell[stay], 2)
        width /= 2
        start = np.concatenate([start[stay], start[stay] + width])
    return done


def _pieces(b: np.ndarray, cell: np.ndarray, start: np.ndarray | float, width: float, *known: np.ndarray) -> _Pieces:
    count = len(cell)
    rising, undecided = known or (np.zeros(count, bool), np.zeros(count, bool))
    even, odd = b[:, ::2].sum(axis=1), b[:, 1::2].sum(axis=1)
    return _Pieces(
        cell, np.broadcast_to(start, count), np.full(count, width), even - odd, even + odd, rising, undecided
    )


def _joined(parts: list[_Pieces]) -> _Pieces:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _Pieces.__dataclass_fields__}
    order = np.lexsort((columns["start"], columns["cell"]))
    return _Pieces(**{name: column[order] for name, column in columns.items()})


def _values_at_left_ends(pieces: _Pieces, left: np.ndarray) -> np.ndarray:
    """F at the left end of each piece, taken from the piece on its left where there is one.

    One value per node: then a zero that rounding moves across a node is neither lost nor counted twice.
    """
    count = len(pieces.cell)
    before = np.arange(-1, count - 1)
    first = np.diff(pieces.cell, prepend=-1) != 0
    last_piece = np.append(np.flatnonzero(first)[1:] - 1, count - 1)
    neighbour = left[pieces.cell[first]]
    before[first] = np.where(neighbour >= 0, last_piece[neighbour], -1)
    return np.where(before >= 0, pieces.high[before], pieces.low)


def _undecided_groups(pieces: _Pieces, begins: np.ndarray) -> np.ndarray:
    """One entry for each stretch of undecided pieces: its middle piece if F crosses upwards over it, else -1."""
    where = np.flatnonzero(pieces.open)
    if not where.size:
        return where
    groups = np.split(where, np.flatnonzero(np.diff(where) != 1) + 1)
    crossing = [begins[g[0]] < 0 <= pieces.high[g[-1]] for g in groups]
    return np.array([g[len(g) // 2] if up else -1 for g, up in zip(groups, crossing, strict=True)])


def _refined(
    b: Float[np.ndarray, "m j"], low: Float[np.ndarray, " m"], high: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """The zero between low and high."""
    columns = np.ascontiguousarray(b.T)

    def polynomial(s: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        value, slope = np.zeros_like(s), np.zeros_like(s)
        for coefficient in columns[::-1, rows]:
            slope = slope * s + value
            value = value * s + coefficient
        with np.errstate(divide="ignore", invalid="ignore"):
            return value, value / slope, 1e-13

    return increasing_roots(polynomial, low, high)
