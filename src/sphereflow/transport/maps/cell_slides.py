r"""Slides of rows of cells, and the 3-cycles of cells that their commutators make; all of it keeps volume.

A slide moves one row of a lattice of cells of side h by r cells, $x_p\mathrel{+}=r h\,\beta(x_q)$, where the bump
$\beta$ is 1 on the row, 0 off it, with ramps of width $\eta$ inside the row: 4 shear pieces. A row slide R and a
column slide C share one cell, so "R, then C, then R backwards, then C backwards" (16 pieces) permutes three cells,

$$A\to c\to B\to A,\qquad A\ \text{in the row of}\ c,\quad B\ \text{in its column},$$

by rigid translations of the cells shrunk by $\eta$, and leaves every other such cell where it is. `space_cycles` has
the cycles of higher dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.transport.euclidean.schedule import Schedule

Cell = tuple[int, int]


class Slide(NamedTuple):
    """The cells with index `row` along `control` move by `cells` along `axis`; rows reach beyond every box."""

    axis: int
    control: int
    row: int
    cells: int

    def back(self) -> Slide:
        return self._replace(cells=-self.cells)


class Cycle(NamedTuple):
    """row_mate -> corner -> column_mate -> row_mate, or the other way round if not `forward`.

    `row_mate` shares the second index with the corner, `column_mate` the first.
    """

    corner: Cell
    row_mate: Cell
    column_mate: Cell
    forward: bool = True

    def slides(self, first: int = 0, second: int = 1) -> list[Slide]:
        """The commutator, for indices along the axes `first` and `second`."""
        if self.row_mate[1] != self.corner[1] or self.column_mate[0] != self.corner[0]:
            raise SphereflowError(
                f"a cycle needs a mate in the row and one in the column of its corner {self.corner}; got "
                f"{self.row_mate} and {self.column_mate}."
            )
        row = Slide(first, second, self.corner[1], self.corner[0] - self.row_mate[0])
        column = Slide(second, first, self.corner[0], self.corner[1] - self.column_mate[1])
        if row.cells == 0 or column.cells == 0:
            raise SphereflowError("the three cells of a cycle must be different.")
        return commutator([row], [column]) if self.forward else commutator([column], [row])

    def moves(self) -> dict[Cell, Cell]:
        """Where the three cells go."""
        a, c, b = self.row_mate, self.corner, self.column_mate
        return {a: c, c: b, b: a} if self.forward else {a: b, b: c, c: a}


def backwards(slides: Sequence[Slide]) -> list[Slide]:
    """The slides undone, the last one first."""
    return [slide.back() for slide in reversed(slides)]


def commutator(first: Sequence[Slide], second: Sequence[Slide]) -> list[Slide]:
    """First, second, first backwards, second backwards: the inverse is the one with the two exchanged."""
    return [*first, *second, *backwards(first), *backwards(second)]


def slide_schedule(slides: Sequence[Slide], side: float, ramp: float, d: int = 2) -> Schedule:
    """The pieces of the slides, four each, on the lattice with cells of this side; `ramp` is a fraction of a cell."""
    if not slides:
        return Schedule.empty(d)
    axis, control, row, cells = np.array(slides).T
    eta = ramp * side
    edges = row[:, None] * side + np.array([0.0, eta, side - eta, side])
    push = (cells * side / eta)[:, None] * np.array([1.0, -1.0, -1.0, 1.0])
    units = np.eye(d)
    w = push[:, :, None] * units[axis][:, None]
    a = np.repeat(units[control], 4, axis=0)
    return Schedule(w.reshape(-1, d), a, -edges.ravel())
