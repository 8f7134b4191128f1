r"""3-cycles of cubes in any dimension $d\ge2$, of 8d pieces each, and routes made of them.

If the cells that R and C move share the one cell c, then "R, C, R backwards, C backwards" is

$$R^{-1}c\to c\to C^{-1}c\to R^{-1}c$$

and nothing else. C slides a whole sheet of cells, 4 pieces. R must slide a single line of cells along axis p: every
cell off the line is first lifted along the axis q, out of reach, by $t\,\mathrm{dist}(x_k,\text{core of the line})$ for
each $k\ne p,q$ (two shears), then the row is slid, then the lift is undone: $4(d-2)+4$ pieces. All are shears, so
volume is kept exactly. One cycle changes two coordinates of a cell, so a route needs at most $\lceil d/2\rceil$ cycles
for each cell, and one more where finished cells are in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps.cell_slides import Slide, slide_schedule

Cube = tuple[int, ...]


class SpaceCycle(NamedTuple):
    """first -> corner -> second -> first; both mates differ from the corner in one index, not in the same one."""

    first: Cube
    corner: Cube
    second: Cube

    def moves(self) -> dict[Cube, Cube]:
        """Where the three cells go."""
        return {self.first: self.corner, self.corner: self.second, self.second: self.first}

    def axes(self) -> tuple[int, int]:
        """(p, q): along p lies the first cell from the corner, along q the second."""
        differing = [
            [k for k, (a, b) in enumerate(zip(mate, self.corner, strict=True)) if a != b]
            for mate in (self.first, self.second)
        ]
        if [len(found) for found in differing] != [1, 1] or differing[0] == differing[1]:
            raise SphereflowError(
                f"the mates of a cycle differ from its corner {self.corner} in one index each, and not in the same; "
                f"got {self.first} and {self.second}."
            )
        return differing[0][0], differing[1][0]


def cycle_schedule(cycles: Sequence[SpaceCycle], side: float, ramp: float) -> Schedule:
    """The pieces of the cycles, 8d each, on the lattice with cells of this side; `ramp` is a fraction of a cell."""
    cells = np.array([cell for cycle in cycles for cell in cycle])
    reach = 3.0 * (np.ptp(cells) + 2) * side  # a slide may carry cells as far again on both sides
    parts: list[Schedule] = []
    for cycle in cycles:
        p, q = cycle.axes()
        corner = cycle.corner
        row = Slide(p, q, corner[q], corner[p] - cycle.first[p])
        sheet = Slide(q, p, corner[p], corner[q] - cycle.second[q])
        lift = _lift(corner, p, q, reach, side, ramp)
        drop = Schedule(-lift.w, lift.a, lift.b)
        d = len(corner)
        for line, whole in ((row, sheet), (row.back(), sheet.back())):
            parts += [lift, slide_schedule([line], side, ramp, d), drop, slide_schedule([whole], side, ramp, d)]
    return Schedule.join(parts)


def _lift(corner: Cube, p: int, q: int, reach: float, side: float, ramp: float) -> Schedule:
    """x_q rises by at least `reach` in the cores of all cells off the line along p, q through the corner."""
    d = len(corner)
    others = [k for k in range(d) if k not in (p, q)]
    eta = ramp * side
    axes = np.eye(d)
    at = np.array([corner[k] for k in others]) * side
    w = np.tile(reach / (2 * eta) * axes[q], (2 * len(others), 1))
    return Schedule(
        w.reshape(-1, d),
        np.concatenate([axes[others], -axes[others]]).reshape(-1, d),
        np.concatenate([-(at + side - eta), at + eta]),
    )


def space_route(wanted: Mapping[Cube, Cube]) -> list[SpaceCycle]:
    """Cycles that bring the content of every source cell to its target; cells of no interest may end up anywhere."""
    if len(set(wanted.values())) != len(wanted):
        raise SphereflowError("two cells cannot be brought to one place: the targets of a route must be different.")
    top = max((cell[-1] for pair in wanted.items() for cell in pair), default=0)
    content = {source: source for source in wanted}  # cell -> the source whose content is there now
    place = {source: source for source in wanted}
    finished: set[Cube] = set()
    cycles: list[SpaceCycle] = []
    for source, q in sorted(wanted.items(), key=lambda pair: pair[1][::-1]):
        while place[source] != q:
            cycle = _step(place[source], q, finished, top)
            cycles.append(cycle)
            moved = {after: content.pop(before) for before, after in cycle.moves().items() if before in content}
            content.update(moved)
            place.update({what: where for where, what in moved.items()})
        finished.add(q)
    return cycles


def _step(p: Cube, q: Cube, finished: set[Cube], top: int) -> SpaceCycle:
    """One cycle that brings p nearer to q, by two indices if it can, or to a scratch layer above everything."""
    differ = [k for k in range(len(p)) if p[k] != q[k]]
    for i, j in combinations(differ, 2):
        aim = _with(_with(p, i, q[i]), j, q[j])
        for corner in (_with(p, i, q[i]), _with(p, j, q[j])):
            if aim not in finished and corner not in finished:
                return SpaceCycle(aim, corner, p)
    for i in differ:
        aim = _with(p, i, q[i])
        for j in [k for k in reversed(range(len(p))) if k != i]:
            for side in (1, -1):
                beside_aim, beside = _with(aim, j, aim[j] + side), _with(p, j, p[j] + side)
                if aim not in finished and beside_aim not in finished:
                    return SpaceCycle(p, aim, beside_aim)
                if aim not in finished and beside not in finished:
                    return SpaceCycle(beside, p, aim)
    # In the scratch layer nothing is ever finished, so from there the way is free.
    scratch = _with(p, len(p) - 1, top + 1)
    return SpaceCycle(p, scratch, _with(scratch, 0, scratch[0] + 1))


def _with(cell: Cube, axis: int, index: int) -> Cube:
    return (*cell[:axis], index, *cell[axis + 1 :])
