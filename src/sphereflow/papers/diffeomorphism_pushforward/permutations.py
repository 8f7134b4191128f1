r"""Rearrangements that keep volume: 3-cycles of cells from commutators of slides, and routes made of them.

$$A\to c\to B\to A\qquad\text{by "R, C, R backwards, C backwards"},\qquad
(i,j,k)\to(i,j',k)\to(i,j'',k')\to(i,j,k)\ \text{in space}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.papers.diffeomorphism_pushforward.sources import GENERAL, OURS
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps.cell_permutations import route, route_schedule
from sphereflow.transport.maps.cell_slides import Cycle, cubes, slide_schedule

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
    says="In space the commutator of two cycles of columns that share one cube permutes three cubes of 512 and "
    "moves no other.",
    basis=OURS,
    formula=r"(i,j,k)\to(i,j',k)\to(i,j'',k')\to(i,j,k),\qquad 4^3\ \text{pieces}",
)
def cube_cycle(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    check = Check()
    inverse = {}
    for case in range(3 if run.quick else 20):
        i = int(rng.integers(1, 8))
        (j, j1, j2), (k, k1) = rng.permutation(8)[:3].tolist(), rng.permutation(8)[:2].tolist()
        start, middle, end = (i, j, k), (i, j1, k), (i, j2, k1)
        schedule = slide_schedule(cubes(start, middle, end), SIDE, RAMP, 3)
        cells, moved, left, _ = displaced(schedule, 8, 3, inside=2)
        arrows: dict[tuple[int, ...], tuple[int, ...]] = {start: middle, middle: end, end: start}
        astray = f"cubes that go astray, case {case + 1}"
        check.same(astray, predicted=0, measured=wrong_cells(cells, moved, arrows))
        check.same(f"cubes that move, case {case + 1}", predicted=3, measured=int(moved.any(axis=(1, 2)).sum()))
        rest, because = left.max() * SIDE, "rounding times weights of size r/ramp"
        check.at_most(f"rest, case {case + 1}", bound=0.0, measured=rest, tolerance=1e-9, because=because)
        inverse[astray] = float(wrong_cells(cells, moved, {b: a for a, b in arrows.items()}))
    check.same("pieces", predicted=64, measured=schedule.n_pieces)
    check.null("the cycle in the other direction", inverse)
    check.rival("a commutator that moves a column of cubes", {"cubes that move, case 1": 8})
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
