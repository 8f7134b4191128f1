r"""Rearrangements that keep volume: 3-cycles of cells from commutators of slides, and routes made of them.

$$A\to c\to B\to A\qquad\text{by "R, C, R backwards, C backwards"},\qquad
(i,j,k)\to(i,j',k)\to(i,j'',k')\to(i,j,k)\ \text{in space}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, at_most
from sphereflow.papers.diffeomorphism_pushforward import PAPER
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
    statement="Slide a row, slide a column, undo the first, undo the second: three cells are permuted in the order row "
    "mate, corner, column mate, by rigid translations, nothing else moves, and volume is kept everywhere.",
    source="Incompressible part: 3-cycles from shears",
    formula=r"A\to c\to B\to A,\qquad L\equiv0,\qquad 16\ \text{pieces}",
    falsifier="the inverse cycle; neighbouring rows that move because ramps lie outside the row",
)
def three_cycle(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    wrong, loose, rest, volume, exceptional = 0, 0, 0.0, 0.0, []
    probes = rng.uniform(size=(20_000 if run.quick else 400_000, 2))
    for _ in range(5 if run.quick else 30):
        cycle, arrows = plane_case(rng)
        schedule = slide_schedule(cycle.slides(), SIDE, RAMP)
        cells, moved, left, log_det = displaced(schedule, 8, 2)
        wrong += wrong_cells(cells, moved, arrows)  # type: ignore[arg-type]
        y, everywhere = (np.asarray(part) for part in schedule.carry(probes))
        rest, volume = max(rest, left.max() * SIDE), max(volume, log_det.max(), np.abs(everywhere).max())
        at = np.floor(probes / SIDE).astype(int)
        off = (at != cycle.corner).all(axis=1)
        loose += int((np.abs(y - probes)[off] > 1e-9).any(axis=1).sum())
        wanted = np.array([arrows.get((int(a), int(b)), (int(a), int(b))) for a, b in at]) - at
        exceptional.append(float((np.abs(y - probes - wanted * SIDE).max(axis=1) > 1e-9).mean()))
    error = np.sqrt(0.01 / len(probes))
    return at_most(
        [0, 0, 1e-9, 0, 12 * RAMP * SIDE**2 + 4 * error],
        [wrong, loose, rest, volume, max(exceptional)],
        because="a permutation is exact; rounding times weights of size r/ramp; four standard errors of the area",
        labels=(
            "cells that go astray",
            "points off the row and the column that move",
            "rest after whole cells",
            "|log-determinant|",
            "exceptional area",
        ),
        parameters={"h": SIDE, "ramp / h": RAMP},
    )


@PAPER.claim(
    "cube-cycle",
    statement="In space the commutator of two cycles of columns that share one cube permutes three cubes of 512 and "
    "moves no other.",
    source="Incompressible part: 3-cycles in higher dimension",
    formula=r"(i,j,k)\to(i,j',k)\to(i,j'',k')\to(i,j,k),\qquad 4^3\ \text{pieces}",
    falsifier="more than three cubes that move, as when two of the three j coincide",
)
def cube_cycle(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    astray, moving, rest = 0, [], 0.0
    for _ in range(3 if run.quick else 20):
        i = int(rng.integers(1, 8))
        (j, j1, j2), (k, k1) = rng.permutation(8)[:3].tolist(), rng.permutation(8)[:2].tolist()
        start, middle, end = (i, j, k), (i, j1, k), (i, j2, k1)
        schedule = slide_schedule(cubes(start, middle, end), SIDE, RAMP, 3)
        cells, moved, left, _ = displaced(schedule, 8, 3, inside=2)
        astray += wrong_cells(cells, moved, {start: middle, middle: end, end: start})
        moving.append(int(moved.any(axis=(1, 2)).sum()))
        rest = max(rest, left.max() * SIDE)
    return at_most(
        [0, 3, 1e-9, 64],
        [astray, max(moving), rest, schedule.n_pieces],
        because="a permutation is exact; rounding times weights of size r/ramp",
        labels=("cubes that go astray", "cubes that move", "rest after whole cubes", "pieces"),
    )


@PAPER.claim(
    "routing",
    statement="A random permutation of n x n cells takes at most one 3-cycle per cell, and every point in the core of "
    "a cell is displaced by the offset of its cell, through hundreds of cycles.",
    source="Routing cost",
    formula=r"\text{cycles}\le n^2+n,\qquad L\equiv0",
    falsifier="a corner among cells that are already finished",
)
def routing(run: Run) -> Measurement:
    sizes = (4, 8, 16)
    ramp, values, bounds, told = 1e-4, [], [], []
    for n in sizes:
        cells = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
        goal = cells[np.random.default_rng(run.seed).permutation(n * n)]
        pairs = zip(cells.tolist(), goal.tolist(), strict=True)
        cycles = route({(a, b): (c, d) for (a, b), (c, d) in pairs})
        x = (cells[:, None] + np.array([[0.5, 0.5], [2 * ramp, 0.3], [0.9, 1 - 2 * ramp]])) / n
        y, log_det = (np.asarray(part) for part in route_schedule(cycles, 1 / n, ramp).carry(x))
        error = np.abs(y - x - (goal - cells)[:, None] / n).max()
        values += [len(cycles), error, np.abs(log_det).max()]
        bounds += [n * n + n, 1e-15 / ramp * len(cycles), 0.0]
        told.append(f"{len(cycles)} cycles for {n * n} cells")
    return at_most(
        bounds,
        values,
        because="rounding of 1e-16 over the ramp in every cycle, with a factor of ten",
        labels=tuple(f"{name}, n={n}" for n in sizes for name in ("cycles", "core error", "|log-determinant|")),
        note="; ".join(told) + ".",
        parameters={"ramp / h": ramp},
    )
