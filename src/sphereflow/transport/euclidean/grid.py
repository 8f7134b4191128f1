r"""In two dimensions and more: the Knothe-Rosenblatt histogram, one cell at a time, behind isolating shears.

Coordinate 1 is rearranged on the line. For coordinate k every cell Q of the coordinates before it is treated alone:
shears $x_k\mathrel{-}=t\,\mathrm{dist}(x_j,[c_j^-,c_j^+])$ lower all other points below the box $[-R,R]$, a
piecewise-linear map along $e_k$ (the identity beyond $\pm R$) makes the conditional law of $x_k$ given Q, and the
shears are undone. Layers of relative width $\eta$ at the sides of the cells are the price.

Pieces: at most $\sum_{k=1}^d n^{k-1}(K+2+4(k-1))$ for n cells per axis and K knots per cell.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.transport.euclidean.laws import Law, Mixture, gaussian
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear
from sphereflow.transport.euclidean.schedule import Schedule

_OUTER_KNOT = 3.2  # the first coordinate is interpolated up to here, and continued with its slope there
_SAMPLES = 200_000  # drawn from a target whose conditional laws are not in closed form


@dataclasses.dataclass(frozen=True)
class CellGrid:
    """What the construction was asked for: cells per axis, knots, half-width of the box, width of the layers."""

    cells: int = 8
    knots: int = 16
    box: float = 5.0
    layer: float = 0.02

    def __post_init__(self) -> None:
        whole_number("cells", self.cells, least=1)
        whole_number("knots", self.knots, least=1)
        real_number("box", self.box, above=0)
        real_number("layer", self.layer, least=1e-6, most=0.5)

    def most_pieces(self, d: int) -> int:
        """The bound on the number of pieces."""
        first = 2 * self.cells + 4
        rest = sum(self.cells ** (k - 1) * (self.knots + 2 + 4 * (k - 1)) for k in range(2, d + 1))
        return first + rest


def grid_schedule(target: Law, grid: CellGrid | None = None) -> Schedule:
    """From N(0, I) to the target, coordinate after coordinate; `target` needs d >= 2."""
    grid = grid or CellGrid()
    d = target.d
    if d < 2:
        raise SphereflowError("the grid construction is for two dimensions or more; on the line use a rearrangement.")
    source: _Conditionals = _MixtureCells(target) if _closed_form(target) else _SampleCells(target)
    cuts = [source.cuts(axis, grid.cells) for axis in range(d - 1)]
    parts = [_first_coordinate(source, grid, d)]
    for axis in range(1, d):
        drop = 2 * grid.box / (grid.layer * _narrowest(cuts[:axis]))
        for cell in itertools.product(range(grid.cells), repeat=axis):
            sides = [(cuts[j][i], cuts[j][i + 1]) for j, i in enumerate(cell)]
            before = _isolate(sides, axis, d, drop)
            parts += [before, _serve(source, sides, axis, d, grid), before.inverse()]
    return Schedule.join([part for part in parts if part.n_pieces])


def _first_coordinate(source: _Conditionals, grid: CellGrid, d: int) -> Schedule:
    count = 2 * grid.cells
    inner = ndtri((np.arange(count) + 0.5) / count)
    inner = inner[np.abs(inner) < _OUTER_KNOT - 0.1]
    x = np.concatenate([[-_OUTER_KNOT], inner, [_OUTER_KNOT]])
    y, ends = source.rearranged(x)
    return piecewise_linear(x, y, *ends, direction=np.eye(d)[0])


def _isolate(sides: list[tuple[float, float]], axis: int, d: int, drop: float) -> Schedule:
    """Shears that lower coordinate `axis` by drop times the distance from the cell; infinite sides need none."""
    rows = []
    for j, (low, high) in enumerate(sides):
        if math.isfinite(high):
            rows.append((np.eye(d)[j], -high))
        if math.isfinite(low):
            rows.append((-np.eye(d)[j], low))
    if not rows:
        return Schedule.empty(d)
    a, b = (np.array(column) for column in zip(*rows, strict=True))
    return Schedule(np.tile(-np.eye(d)[axis], (len(rows), 1)), a, b, np.full(len(rows), drop))


def _serve(source: _Conditionals, sides: list[tuple[float, float]], axis: int, d: int, grid: CellGrid) -> Schedule:
    levels = (np.arange(grid.knots) + 0.5) / grid.knots
    x, y = ndtri(levels), source.quantiles(axis, sides, levels)
    outside = np.abs(y) >= grid.box
    if outside.any():
        raise SphereflowError(
            f"target mass lies outside reach: coordinate {axis + 1} has quantiles up to {np.abs(y).max():.3g}, beyond "
            f"the box of half-width {grid.box:g}; enlarge the box."
        )
    ends = [-grid.box], [grid.box]
    x, y = np.concatenate([ends[0], x, ends[1]]), np.concatenate([ends[0], y, ends[1]])
    return piecewise_linear(x, y, 1.0, 1.0, direction=np.eye(d)[axis])


def _narrowest(cuts: list[np.ndarray]) -> float:
    """The smallest finite width of a cell, or 1 where no cell is finite."""
    widths = np.concatenate([np.diff(edges) for edges in cuts])
    finite = widths[np.isfinite(widths)]
    return float(finite.min()) if finite.size else 1.0


class _Conditionals:
    """What the construction asks of a target."""

    def cuts(self, axis: int, cells: int) -> np.ndarray:
        """Sides of the cells along an axis: cells of equal mass, the outer ones infinite."""
        levels = np.arange(1, cells) / cells
        inner = self.quantiles(axis, [], levels) if cells > 1 else np.zeros(0)
        return np.concatenate([[-np.inf], inner, [np.inf]])

    def rearranged(self, x: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        """Images of points of N(0, 1) under the rearrangement to the first marginal, and its slopes at the ends."""
        raise NotImplementedError

    def quantiles(self, axis: int, sides: list[tuple[float, float]], levels: np.ndarray) -> np.ndarray:
        """Quantiles of a coordinate given that those before it lie between the sides."""
        raise NotImplementedError


def _closed_form(target: Law) -> bool:
    return isinstance(target, Mixture) and target.scales is not None


class _MixtureCells(_Conditionals):
    """Mixtures with diagonal covariances: in a cell every component is reweighted by its mass there."""

    def __init__(self, target: Any):
        self._target: Mixture = target

    def rearranged(self, x: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        line = Rearrangement(gaussian(1), self._target.marginal(0))
        y = line.forward(x)
        ends = np.exp(line.log_slope(x[[0, -1]], y[[0, -1]]))
        return y, (float(ends[0]), float(ends[1]))

    def quantiles(self, axis: int, sides: list[tuple[float, float]], levels: np.ndarray) -> np.ndarray:
        means, scales = self._target.means, self._target.scales
        assert scales is not None
        mass = self._target.weights.copy()
        for j, (low, high) in enumerate(sides):
            mass *= ndtr((high - means[:, j]) / scales[:, j]) - ndtr((low - means[:, j]) / scales[:, j])
        kept = mass > 1e-300
        law = Mixture(means[kept, axis : axis + 1], scales[kept, axis], mass[kept] / mass[kept].sum())
        return law.quantile(np.log(levels), np.log1p(-levels))


class _SampleCells(_Conditionals):
    """Any law that can be sampled: quantiles of the points that fall into a cell."""

    def __init__(self, target: Law):
        self._points = target.sample(_SAMPLES, 0)

    def rearranged(self, x: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
        y = np.quantile(self._points[:, 0], ndtr(x))
        slopes = np.diff(y) / np.diff(x)
        return y, (float(slopes[0]), float(slopes[-1]))

    def quantiles(self, axis: int, sides: list[tuple[float, float]], levels: np.ndarray) -> np.ndarray:
        inside = np.ones(len(self._points), dtype=bool)
        for j, (low, high) in enumerate(sides):
            inside &= (self._points[:, j] > low) & (self._points[:, j] <= high)
        if inside.sum() < 2 * len(levels):
            raise SphereflowError(
                f"a cell holds only {inside.sum()} of {len(self._points)} sample points, too few for {len(levels)} "
                "knots; ask for fewer cells or fewer knots."
            )
        return np.quantile(self._points[inside, axis], levels)
