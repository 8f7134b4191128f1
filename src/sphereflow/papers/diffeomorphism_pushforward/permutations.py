r"""Rearrangements that keep volume: 3-cycles of cells from commutators of slides, and routes made of them.

$$A\to c\to B\to A\qquad\text{by "R, C, R backwards, C backwards"}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.papers.diffeomorphism_pushforward.sources import GENERAL, OURS
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps.cell_permutations import route, route_schedule
from sphereflow.transport.maps.cell_slides import Cycle, slide_schedule
from sphereflow.transport.maps.space_cycles import SpaceCycle, cycle_schedule, space_route

SIDE, RAMP = 1 / 8, 0.05  # the ramp as a fraction of a cell


def displaced(schedule: Schedule, side: int, d: int, inside: int = 3, ramp: float = RAMP) -> tuple[np.ndarray, ...]:
    """(cell, whole cells moved, largest rest after rounding to cells, largest log-determinant), over cores of cells."""
    cells = np.stack(np.meshgrid(*[np.arange(side)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    at = np.linspace(1.02 * ramp, 1 - 1.02 * ramp, inside)
    within = np.stack(np.meshgrid(*[at] * d, indexing="ij"), axis=-1).reshape(-1, d)
    x = (cells[:, None] + within[None]) / side
    y, log_det = (np.asarray(part) for part in schedule.carry(x))
    moved = (y - x) * side
    return cells, np.round(moved), np.abs(moved - np.round(moved)[:, :1]), np.abs(log_det)


LIFTED = (
    "rounding of a lifted height, at most 3 (n + 3) n (d - 2) / (2 ramp) cells, times a push of n / ramp; per slide"
)


def lifted_rounding(n: int, d: int, ramp: float) -> float:
    """What the two line slides of one cycle may be off by, in cells, for a box of n^d of them."""
    return 2 * np.finfo(float).eps * (n / ramp) * 3 * (n + 3) * n * (d - 2) / (2 * ramp)


def plane_case(rng: np.random.Generator) -> tuple[Cycle, dict[tuple[int, int], tuple[int, int]]]:
    """A random cycle on 8 x 8 cells, and where the arrows A -> c -> B -> A send its cells."""
    (i, other), (j, beyond) = rng.permutation(8)[:2], rng.permutation(8)[:2]
    c, a, b = (int(i), int(j)), (int(other), int(j)), (int(i), int(beyond))
    return Cycle(c, a, b), {a: c, c: b, b: a}


def wrong_cells(cells: np.ndarray, moved: np.ndarray, arrows: dict[tuple[int, ...], tuple[int, ...]]) -> int:
    """How many cells do not go where the arrows say, or not as a whole."""
    wanted = np.array([np.subtract(arrows.get(tuple(c.tolist()), tuple(c)), c) for c in cells])
    return int((moved != wanted[:, None]).any(axis=(1, 2)).sum())


@PAPER.claim(
    "three-cycle",
    says="Slide a row, slide a column, undo the first, undo the second: three cells are permuted in the order row "
    "mate, corner, column mate, by rigid translations, nothing else moves, and volume is kept everywhere.",
    basis=GENERAL,
    formula=r"A\to c\to B\to A,\qquad L\equiv0,\qquad 16\ \text{pieces}",
)
def three_cycle(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    wrong, inverse, loose, rest, volume, exceptional = 0, 0, 0, 0.0, 0.0, []
    probes = rng.uniform(size=(20_000 if run.quick else 400_000, 2))
    for _ in range(5 if run.quick else 30):
        cycle, arrows = plane_case(rng)
        schedule = slide_schedule(cycle.slides(), SIDE, RAMP)
        cells, moved, left, log_det = displaced(schedule, 8, 2)
        wrong += wrong_cells(cells, moved, arrows)  # type: ignore[arg-type]
        inverse += wrong_cells(cells, moved, {b: a for a, b in arrows.items()})
        y, everywhere = (np.asarray(part) for part in schedule.carry(probes))
        rest, volume = max(rest, left.max() * SIDE), max(volume, log_det.max(), np.abs(everywhere).max())
        at = np.floor(probes / SIDE).astype(int)
        off = (at != cycle.corner).all(axis=1)
        loose += int((np.abs(y - probes)[off] > 1e-9).any(axis=1).sum())
        wanted = np.array([arrows.get((int(a), int(b)), (int(a), int(b))) for a, b in at]) - at
        exceptional.append(float((np.abs(y - probes - wanted * SIDE).max(axis=1) > 1e-9).mean()))
    check = Check(parameters={"h": SIDE, "ramp / h": RAMP})
    check.same("cells that go astray", predicted=0, measured=wrong)
    check.same("points off the row and the column that move", predicted=0, measured=loose)
    because = "rounding times weights of size r/ramp"
    check.at_most("rest after whole cells", bound=0.0, measured=rest, tolerance=1e-9, because=because)
    check.same("largest log-determinant", predicted=0.0, measured=volume, because="exact")
    check.at_most(
        "exceptional area",
        bound=12 * RAMP * SIDE**2,
        measured=max(exceptional),
        error=np.sqrt(12 * RAMP * SIDE**2 / len(probes)),
        because="standard error of an area counted by points",
    )
    check.null("the cycle in the other direction", {"cells that go astray": float(inverse)})
    check.rival("half of the exceptional area", {"exceptional area": 6 * RAMP * SIDE**2})
    return check


@PAPER.claim(
    "cube-cycle",
    says="In 3, 4 and 5 dimensions the commutator of a slide of one line of cells and a slide of one sheet permutes "
    "three cells, moves no other, keeps volume, and takes $8d$ pieces.",
    basis=OURS,
    formula=r"R^{-1}c\to c\to C^{-1}c\to R^{-1}c,\qquad 8d\ \text{pieces}",
)
def cube_cycle(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    check = Check(parameters={"ramp / h": 1e-3})
    inverse, sheets, iterated = {}, {}, {}
    for d, side in ((3, 8), (4, 4), (5, 4)):
        wrong = other = 0
        rest = volume = 0.0
        for _ in range(3 if run.quick else 10):
            p, q = rng.permutation(d)[:2].tolist()
            corner = tuple(rng.integers(side, size=d).tolist())
            first, second = list(corner), list(corner)
            first[p] = (corner[p] + int(rng.integers(1, side))) % side
            second[q] = (corner[q] + int(rng.integers(1, side))) % side
            cycle = SpaceCycle(tuple(first), corner, tuple(second))
            schedule = cycle_schedule([cycle], 1 / side, 1e-3)
            cells, moved, left, log_det = displaced(schedule, side, d, inside=2, ramp=1e-3)
            arrows = {tuple(first): corner, corner: tuple(second), tuple(second): tuple(first)}
            wrong += wrong_cells(cells, moved, arrows)
            other += wrong_cells(cells, moved, {b: a for a, b in arrows.items()})
            rest, volume = max(rest, left.max()), max(volume, log_det.max())
        check.same(f"cells that go astray, $d={d}$", predicted=0, measured=wrong)
        limit = lifted_rounding(side, d, 1e-3)
        check.at_most(f"rest in cells, $d={d}$", bound=0.0, measured=rest, tolerance=limit, because=LIFTED)
        check.same(f"largest log-determinant, $d={d}$", predicted=0.0, measured=volume, because="exact")
        check.same(f"pieces, $d={d}$", predicted=8 * d, measured=schedule.n_pieces)
        inverse[f"cells that go astray, $d={d}$"] = float(other)
        sheets[f"pieces, $d={d}$"] = 16.0
        iterated[f"pieces, $d={d}$"] = 4.0**d
    check.null("the cycle in the other direction", inverse)
    check.rival("16 pieces, as in the plane", sheets)
    check.rival("commutators of commutators, $4^d$ pieces", iterated)
    return check


@PAPER.claim(
    "routing",
    says="A random permutation of $n\\times n$ cells takes at most one 3-cycle per cell, and every point in the "
    "core of a cell is displaced by the offset of its cell, through hundreds of cycles.",
    basis=OURS,
    formula=r"\text{cycles}\le n^2,\qquad L\equiv0",
)
def routing(run: Run) -> Check:
    ramp = 1e-4
    check = Check(parameters={"ramp / h": ramp})
    fewer, careless = {}, {}
    for n in (4, 8, 16):
        cells = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
        goal = cells[np.random.default_rng(run.seed).permutation(n * n)]
        pairs = zip(cells.tolist(), goal.tolist(), strict=True)
        cycles = route({(a, b): (c, d) for (a, b), (c, d) in pairs})
        x = (cells[:, None] + np.array([[0.5, 0.5], [2 * ramp, 0.3], [0.9, 1 - 2 * ramp]])) / n
        y, log_det = (np.asarray(part) for part in route_schedule(cycles, 1 / n, ramp).carry(x))
        error = np.abs(y - x - (goal - cells)[:, None] / n).max()
        name = f"error in the cores, $n={n}$"
        check.at_most(f"cycles, $n={n}$", bound=n * n, measured=len(cycles), because="a count")
        because = "rounding of 1e-16 over the ramp in every cycle, with a factor of ten"
        check.at_most(name, bound=0.0, measured=error, tolerance=1e-15 / ramp * len(cycles), because=because)
        check.same(f"largest log-determinant, $n={n}$", predicted=0.0, measured=np.abs(log_det).max(), because="exact")
        short = np.asarray(route_schedule(cycles[:-1], 1 / n, ramp).apply(x))
        careless[name] = float(np.abs(short - x - (goal - cells)[:, None] / n).max())
        fewer[f"cycles, $n={n}$"] = 0.5 * n * n
    check.rival("one cycle for two cells", fewer)
    check.null("one cycle left out", careless)
    return check


@PAPER.claim(
    "routing-in-space",
    says="A random permutation of all cells of a box in 3 and 4 dimensions takes at most two 3-cycles per cell, and "
    "every point in the core of a cell is displaced by the offset of its cell.",
    basis=OURS,
    formula=r"\text{cycles}\le\lceil d/2\rceil\,n^d,\qquad L\equiv0",
)
def routing_in_space(run: Run) -> Check:
    ramp = 1e-3
    check = Check(parameters={"ramp / h": ramp})
    fewer, careless = {}, {}
    for d, n in ((3, 3), (4, 3)) if run.quick else ((3, 3), (3, 4), (3, 6), (4, 3), (4, 4)):
        cells = np.stack(np.meshgrid(*[np.arange(n)] * d, indexing="ij"), axis=-1).reshape(-1, d)
        goal = cells[np.random.default_rng(run.seed).permutation(len(cells))]
        pairs = zip(cells.tolist(), goal.tolist(), strict=True)
        cycles = space_route({tuple(a): tuple(b) for a, b in pairs})
        x = (cells[:, None] + np.random.default_rng(run.seed + 1).uniform(2 * ramp, 1 - 2 * ramp, (2, d))) / n
        offset = (goal - cells)[:, None] / n
        y, log_det = (np.asarray(part) for part in cycle_schedule(cycles, 1 / n, ramp).carry(x))
        case = f"$d={d}$, $n={n}$"
        check.at_most(f"cycles, {case}", bound=2 * n**d, measured=len(cycles), because="a count")
        name = f"error in the cores, {case}"
        limit = lifted_rounding(n, d, ramp) * len(cycles) / n
        check.at_most(name, bound=0.0, measured=np.abs(y - x - offset).max(), tolerance=limit, because=LIFTED)
        volume = np.abs(log_det).max()
        check.same(f"largest log-determinant, {case}", predicted=0.0, measured=volume, because="exact")
        careless[name] = float(np.abs(np.asarray(cycle_schedule(cycles[:-1], 1 / n, ramp).apply(x)) - x - offset).max())
        fewer[f"cycles, {case}"] = float(n**d)
    check.rival("one cycle per cell, as in the plane", fewer)
    check.null("one cycle left out", careless)
    return check
