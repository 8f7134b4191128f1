r"""The slope of a density estimate as a polynomial on each cell, with a bound of its error.

$$F(t)=-\sum_i K'(t-X_i),\qquad F(t_c+rs)\approx\sum_{k<J}b_k s^k,\ |s|\le1,\qquad
  b_k=\sum_{d}\sum_{j<J}T_{dkj}M_{c+d,j},\qquad M_{c,j}=\sum_{X_i\in c}\sigma_i^j,$$

with cells of width 2r (half a bandwidth), $\sigma_i\in[-1,1]$ the place of a sample in its cell, and J = 16. Samples
enter only through the moments M, so the cost is J operations per sample and a fixed cost per cell. A mode needs a
sample within `reach`; cells without one are never looked at, which also makes huge beta cheap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import comb

from sphereflow.errors import SphereflowError
from sphereflow.modes.smoothing import Gaussian, Smoothing, VonMises

TERMS = 16
_WIDTH = 0.5  # of a cell, in bandwidths
_CHUNK = 4096
# Larger matrix products would be split over threads, whose waiting costs several times the work itself.
_BLOCK = 1024
_MOST_CELLS = 400_000_000
_TAIL = 1e-12  # what all samples beyond the window may add up to
_ROUND = 2.0**-53


@dataclass(frozen=True, eq=False)
class Cells:
    """Occupied cells with the moments of their samples, and the cells in which a mode is possible.

    `owner` says for every place of the layout which row of `moments` it holds (the last row is empty); `active` are
    the places to look at, increasing, with the number of the run and of the cell they stand for.
    """

    smoothing: Smoothing
    width: float
    moments: Float[np.ndarray, "o j"]
    owner: Int[np.ndarray, " places"]
    active: Int[np.ndarray, " a"]
    run: Int[np.ndarray, " a"]
    cell: Int[np.ndarray, " a"]
    left: Int[np.ndarray, " a"]  # index of the active cell on the left, or -1
    window: int
    displacement: float  # by which rounding may move a sample, in bandwidths
    outside: float  # what samples beyond the window may add

    def polynomials(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Chunks of (which active cells, coefficients b, errors): errors of F and of dF/ds, one column each."""
        table = _table(self.smoothing, self.width, self.window, self.displacement)
        empty = len(self.moments) - 1
        for first in range(0, len(self.active), _CHUNK):
            chosen = slice(first, min(first + _CHUNK, len(self.active)))
            places = self.active[chosen]
            total = np.zeros((len(places), TERMS + 2))
            for step, matrix in zip(range(-self.window, self.window + 1), table, strict=True):
                rows = self.owner[places + step]
                held = np.flatnonzero(rows < empty)
                if 2 * len(held) > len(rows):
                    total += in_blocks(self.moments[rows], matrix)
                else:  # sparse samples: most cells of a window are empty
                    total[held] += in_blocks(self.moments[rows[held]], matrix)
            yield chosen, total[:, :TERMS], total[:, TERMS:] + self.outside


def in_blocks(rows: Float[np.ndarray, "m j"], matrix: Float[np.ndarray, "j k"]) -> Float[np.ndarray, "m k"]:
    """rows @ matrix, a block of rows at a time."""
    result = np.empty((len(rows), matrix.shape[1]))
    for first in range(0, len(rows), _BLOCK):
        np.matmul(rows[first : first + _BLOCK], matrix, out=result[first : first + _BLOCK])
    return result


def line_cells(scaled: Float[np.ndarray, "runs n"]) -> Cells:
    """Cells of samples on the line, in bandwidths. Long empty stretches are cut out of the layout."""
    n = scaled.shape[1]
    z = np.sort(scaled, axis=1) / _WIDTH
    if np.abs(z).max() > 2.0**50:
        raise SphereflowError("beta is too large: the samples are not resolved on the scale of the bandwidth.")
    cell = np.floor(z)
    place = 2 * (z - cell) - 1
    smoothing = Gaussian()
    window = math.ceil(smoothing.support(_TAIL / n) / _WIDTH)
    near = math.ceil(smoothing.reach / _WIDTH)
    starts, run, cell_id = _occupied(cell.astype(np.int64))
    # Two occupied cells farther apart than this do not add to each other where a mode is possible.
    longest = window + near + 1
    gaps = np.full(len(run), longest)
    same = run[1:] == run[:-1]
    gaps[1:][same] = np.minimum(np.diff(cell_id)[same], longest)
    at = longest + np.cumsum(gaps)
    size = int(at[-1]) + 2 * longest
    _affordable(size)
    owner = np.full(size, len(run), dtype=np.int32)
    owner[at] = np.arange(len(run), dtype=np.int32)
    nearest, shift = np.full(size, -1, dtype=np.int32), np.zeros(size, dtype=np.int8)
    for step in sorted(range(-near, near + 1), key=abs, reverse=True):  # nearer ones overwrite
        nearest[at + step], shift[at + step] = np.arange(len(run), dtype=np.int32), step
    active = np.flatnonzero(nearest >= 0)
    whose = nearest[active]
    left = np.where(np.diff(active, prepend=-2) == 1, np.arange(len(active)) - 1, -1)
    displacement = 2 * _ROUND * float(np.abs(scaled).max())
    return Cells(
        smoothing,
        _WIDTH,
        _moments(place.ravel(), starts),
        owner,
        active,
        run[whose],
        cell_id[whose] + shift[active],
        left,
        window,
        displacement,
        2 * _TAIL,
    )


def circle_cells(angles: Float[np.ndarray, "runs n"], beta: float) -> Cells:
    """Cells of samples on the circle, for the kernel exp(beta (cos - 1))."""
    runs, n = angles.shape
    turn = 2 * math.pi * math.sqrt(beta)
    count = 2 * max(math.ceil(turn / _WIDTH / 2), 16) + 1  # odd, so that a window may cover every cell once
    _affordable(2 * runs * count)
    width = turn / count
    z = np.sort(np.mod(angles, 2 * math.pi), axis=1) * (count / (2 * math.pi))
    cell = np.minimum(np.floor(z), count - 1)
    place = np.clip(2 * (z - cell) - 1, -1, 1)
    smoothing = VonMises(beta)
    support, half = smoothing.support(_TAIL / n) / width, count // 2
    window = half if support >= half else math.ceil(support)
    near = min(math.ceil(smoothing.reach / width) + 1, half)
    starts, run, cell_id = _occupied(cell.astype(np.int64))
    stride = count + 2 * window
    around = np.arange(-window, count + window) % count
    grid = np.full((runs, count), len(run), dtype=np.int32)
    grid[run, cell_id] = np.arange(len(run), dtype=np.int32)
    looked = np.zeros((runs, count), dtype=bool)
    for step in range(-near, near + 1):
        looked[run, (cell_id + step) % count] = True
    active_run, active_cell = np.nonzero(looked)
    number = np.full((runs, count), -1)
    number[active_run, active_cell] = np.arange(len(active_run))
    return Cells(
        smoothing,
        width,
        _moments(place.ravel(), starts),
        grid[:, around].ravel(),
        active_run * stride + window + active_cell,
        active_run,
        active_cell,
        number[active_run, (active_cell - 1) % count],
        window,
        6 * _ROUND * turn,
        0.0 if window == half else 2 * _TAIL,
    )


def _occupied(cell: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each occupied cell begins in the flattened sorted samples, and its run and number."""
    fresh = np.ones(cell.shape, dtype=bool)
    fresh[:, 1:] = cell[:, 1:] != cell[:, :-1]
    starts = np.flatnonzero(fresh)
    return starts, starts // cell.shape[1], cell.ravel()[starts]


def _moments(place: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sums of powers over each occupied cell, and a last row of zeros for empty cells."""
    result = np.zeros((len(starts) + 1, TERMS))
    power = np.ones_like(place)
    for j in range(TERMS):
        result[:-1, j] = np.add.reduceat(power, starts)
        power *= place
    return result


def _affordable(places: int) -> None:
    if places > _MOST_CELLS:
        raise SphereflowError(
            f"counting these modes would take {places} cells of half a bandwidth, at most {_MOST_CELLS} are allowed: "
            "take a smaller beta, fewer samples or fewer runs at a time."
        )


def _table(smoothing: Smoothing, width: float, window: int, displacement: float) -> np.ndarray:
    """T for all steps between cells, shape (steps, J, J + 2); the last two columns turn counts into errors."""
    half, most = width / 2, 4 * TERMS
    # Roundings behind a coefficient: sums over a cell (pairwise, so few), powers, the table, and the matrix products.
    rounding = _ROUND * (300 + TERMS * (2 * window + 1))
    steps = -np.arange(-window, window + 1)  # seen from a cell, a sample `step` cells on lies at minus that distance
    slope = -smoothing.taylor(steps * width, 2 * TERMS)[:, 1:] * np.arange(1, 2 * TERMS)  # coefficients of F = -K'
    k, j = np.meshgrid(np.arange(TERMS), np.arange(TERMS), indexing="xy")
    weight = comb(k + j, k) * (-1.0) ** j * half ** (k + j)
    table = np.zeros((len(steps), TERMS, TERMS + 2))
    table[:, :, :TERMS] = slope[:, k + j] * weight
    size = np.sum(np.abs(table[:, :, :TERMS]), axis=1)  # by power k
    least = np.maximum(np.abs(steps) - 1, 0) * width
    highest = smoothing.bound(least, most + 1)[:, 1:] * np.arange(1, most + 1) * half ** np.arange(most)
    steepest = np.maximum(highest[:, 1], 2 * highest[:, 2]) / half  # what a displaced sample does to F and dF/ds
    k, j = np.meshgrid(np.arange(most), np.arange(most), indexing="xy")
    cut = (k + j < most) & ((k >= TERMS) | (j >= TERMS))
    lost = np.where(cut, comb(k + j, k), 0.0)
    by_degree = [np.bincount((k + j)[cut], (lost * factor)[cut], minlength=most) for factor in (1, k)]
    rows = zip(by_degree, (1, np.arange(TERMS)), strict=True)
    for column, (binomials, factor) in enumerate(rows, start=TERMS):
        spread = np.sum(size * factor, axis=1)
        table[:, 0, column] = highest @ binomials + rounding * spread + displacement * steepest
    return table
