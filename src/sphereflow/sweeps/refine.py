r"""Spend cells where the answer changes: refine a grid along the line where a variable crosses a level.

The axes of the sweep are the finest grid. Every `stride`-th point of the refined axes is computed first; then, with
the stride halved again and again, the points of every box whose corners lie on both sides of the level, or differ by
more than `change`. Each step is decided by values already stored, so a sweep that was cut short goes on as it would
have. For a smooth boundary the number of cells grows like the number of points per axis, not like its square.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.sweeps.grid import Grid, Region

_ENTRIES = ("axes", "variable", "level", "change", "stride")


@dataclass(frozen=True)
class Refinement:
    """Along which axes, by which variable, and what counts as a change."""

    axes: tuple[str, ...]
    variable: str
    level: float | None
    change: float | None
    stride: int

    @classmethod
    def from_table(cls, table: Mapping[str, Any], grid: Grid) -> Refinement:
        """Check a [refine] table against the grid."""
        for name in table:
            if name not in _ENTRIES:
                raise SphereflowError(f"[refine] has an unknown entry '{name}'; allowed are {', '.join(_ENTRIES)}.")
        axes = tuple(table.get("axes", ()))
        if not axes or any(name not in grid.names for name in axes):
            raise SphereflowError(f"[refine] axes must be some of {', '.join(grid.names)}; got {list(axes)}.")
        for axis in grid.axes:
            if axis.name in axes and isinstance(axis.values[0], str):
                raise SphereflowError(f"[refine] cannot refine '{axis.name}': its values are words.")
        if not isinstance(table.get("variable"), str):
            raise SphereflowError("[refine] must name the variable whose change is followed.")
        level = None if "level" not in table else real_number("[refine] level", table["level"])
        change = None if "change" not in table else real_number("[refine] change", table["change"], above=0)
        if (level is None) == (change is None):
            raise SphereflowError("[refine] takes either a level or a change.")
        stride = whole_number("[refine] stride", table.get("stride", 8), least=2)
        if stride & (stride - 1):
            raise SphereflowError(f"[refine] stride must be a power of two, to be halved; got {stride}.")
        return cls(axes, table["variable"], level, change, stride)

    def plain(self) -> dict[str, Any]:
        return {
            "axes": list(self.axes),
            "variable": self.variable,
            "level": self.level,
            "change": self.change,
            "stride": self.stride,
        }

    def rounds(self, grid: Grid, values: Callable[[], np.ndarray]) -> Iterator[list[Region]]:
        """The boxes to compute, round by round; `values` returns the variable, averaged over the other axes.

        The caller computes one round before it asks for the next.
        """
        lengths = [len(axis.values) for axis in grid.axes if axis.name in self.axes]
        stride = self.stride
        ladders = [_ladder(length, stride) for length in lengths]
        done = set(itertools.product(*ladders))
        yield self._regions(grid, sorted(done))
        while stride > 1:
            table = values()
            coarse, stride = ladders, stride // 2
            ladders = [_ladder(length, stride) for length in lengths]
            wanted: set[tuple[int, ...]] = set()
            for corner in itertools.product(*(range(len(ladder) - 1) for ladder in coarse)):
                ends = [(ladder[i], ladder[i + 1]) for ladder, i in zip(coarse, corner, strict=True)]
                corners = list(itertools.product(*ends))
                if all(point in done for point in corners) and self._changes([table[point] for point in corners]):
                    inside = [[p for p in ladder if a <= p <= b] for ladder, (a, b) in zip(ladders, ends, strict=True)]
                    wanted.update(itertools.product(*inside))
            new = sorted(wanted - done)
            done |= wanted
            yield self._regions(grid, new)

    def _changes(self, corners: list[float]) -> bool:
        if np.isnan(corners).any():
            return True
        low, high = min(corners), max(corners)
        if self.level is not None:
            return bool(low <= self.level <= high and low < high)
        assert self.change is not None
        return bool(high - low > self.change)

    def _regions(self, grid: Grid, points: list[tuple[int, ...]]) -> list[Region]:
        regions = []
        for point in points:
            place = iter(point)
            regions.append(
                tuple(
                    slice(at := next(place), at + 1) if axis.name in self.axes else slice(0, len(axis.values))
                    for axis in grid.axes
                )
            )
        return regions


def _ladder(length: int, stride: int) -> list[int]:
    """Every stride-th index, and the last one."""
    rungs = list(range(0, length, stride))
    return rungs if rungs[-1] == length - 1 else [*rungs, length - 1]
