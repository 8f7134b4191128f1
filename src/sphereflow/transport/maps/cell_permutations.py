r"""The router: any injection of cells into cells as a product of 3-cycles, about one for each cell.

Targets are filled row by row. The content p that is wanted at q is brought there by one cycle through a corner,
$(q_1,p_2)$ or $(p_1,q_2)$; the third cell is displaced, so it must not be finished. In a full box the first corner is
never finished, and M cells take at most M cycles, 16 M pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sphereflow.errors import SphereflowError
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps.cell_slides import Cell, Cycle, slide_schedule


def route(wanted: Mapping[Cell, Cell]) -> list[Cycle]:
    """Cycles that bring the content of every source cell to its target; cells of no interest may end up anywhere."""
    if len(set(wanted.values())) != len(wanted):
        raise SphereflowError("two cells cannot be brought to one place: the targets of a route must be different.")
    top = max((cell[1] for pair in wanted.items() for cell in pair), default=0)
    content = {source: source for source in wanted}  # cell -> the source whose content is there now
    place = {source: source for source in wanted}
    finished: set[Cell] = set()
    cycles: list[Cycle] = []
    for source, q in sorted(wanted.items(), key=lambda pair: (pair[1][1], pair[1][0])):
        while place[source] != q:
            cycle = _step(place[source], q, finished, top)
            cycles.append(cycle)
            moved = {after: content.pop(before) for before, after in cycle.moves().items() if before in content}
            content.update(moved)
            place.update({what: where for where, what in moved.items()})
        finished.add(q)
    return cycles


def route_schedule(cycles: Sequence[Cycle], side: float, ramp: float) -> Schedule:
    """The pieces of the cycles, on the lattice with cells of this side."""
    return slide_schedule([slide for cycle in cycles for slide in cycle.slides()], side, ramp)


def _step(p: Cell, q: Cell, finished: set[Cell], top: int) -> Cycle:
    """One cycle that sends p to q, or p to a scratch row above everything where no corner is free."""
    options: list[tuple[Cell, Cycle]] = []  # (cell whose content is displaced, cycle)
    if p[0] != q[0] and p[1] != q[1]:
        corner, other = (q[0], p[1]), (p[0], q[1])
        options = [(corner, Cycle(corner, p, q, False)), (other, Cycle(other, q, p, True))]
    elif p[0] == q[0]:
        for side in (1, -1):
            beside = (p[0] + side, p[1])
            options.append((beside, Cycle(p, beside, q, True)))
        for side in (1, -1):
            beside = (q[0] + side, q[1])
            options.append((beside, Cycle(q, beside, p, False)))
    else:
        for side in (1, -1):
            above = (q[0], q[1] + side)
            options.append((above, Cycle(q, p, above, True)))
        for side in (1, -1):
            above = (p[0], p[1] + side)
            options.append((above, Cycle(p, q, above, False)))
    for displaced, cycle in options:
        if displaced not in finished:
            return cycle
    scratch = (p[0], top + 1)
    return Cycle(scratch, (p[0] + 1, top + 1), p, False)
