r"""`critical_points`: all stationary measures of m atoms with given masses, each proved, and the list itself proved.

The flow keeps masses, so stationary measures come in families with one parameter per free mass: they can be listed for
given masses only. The space of configurations $(S^{d-1})^m$ is covered by products of balls; a cell is dropped when it
is proved empty, or lies in a ball that is proved to hold one zero only, and split otherwise. Where nothing is left, the
list is complete. The energy is then a Morse function, so that the labelled points satisfy
$\sum(-1)^{\mathrm{index}}=\chi(S^{d-1})^m$, which no part of the proof uses.
"""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.products import ProductCells
from sphereflow.landscape.space import PointMasses, centred_energy
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.stationarity import Equations, empty, newton, proved
from sphereflow.numerics.unit_vectors import angles as distances
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ATOMS = 12
_FIELD = 1e-9
_BATCH = 20_000
_SMALLEST = 1e-4  # cells are not split below this radius: what is left there is degenerate


@dataclass(frozen=True, eq=False, repr=False)
class CriticalPoints(Result):
    r"""Stationary measures with the same masses, lowest energy first, in the convention of their problem.

    - `points` (c, m, d), `energy` (c,); `index`: how many directions of descent; `margin`: the smallest eigenvalue of
      the Hessian in size, against the mean of $|\xi|^2$.
    - `error`: a zero is proved to be this close; `radius`: and no other within this distance (both per atom).
    - `orderings`: how many labelled configurations each of them is; atoms of equal mass may be exchanged.
    - `complete`: whether there is proved to be no other one. If not, `undecided` cells of share `undecided_share` of
      the configurations are left: families of stationary points, or more cells than were allowed.
    - `arcs` (k, 2): where no neuron acts, every Dirac is stationary (one atom on the circle, start and end of the arc).
    """

    problem: Problem
    masses: Float[np.ndarray, " m"]
    points: Float[np.ndarray, "c m d"]
    energy: Float[np.ndarray, " c"]
    index: Int[np.ndarray, " c"]
    margin: Float[np.ndarray, " c"]
    error: Float[np.ndarray, " c"]
    radius: Float[np.ndarray, " c"]
    orderings: Int[np.ndarray, " c"]
    complete: bool
    undecided: int
    undecided_share: float
    arcs: Float[np.ndarray, "k 2"]
    cells: int
    seconds: float = field(compare=False)

    def __len__(self) -> int:
        return len(self.energy)

    @property
    def angles(self) -> Float[np.ndarray, "c m"]:
        """Angles in [0, 2 pi) of the atoms, on the circle."""
        return np.mod(np.arctan2(self.points[..., 1], self.points[..., 0]), 2 * np.pi)

    @property
    def certified(self) -> bool:
        """Whether every one listed is proved to exist and to be isolated."""
        return bool(np.all(self.radius > 0))

    @property
    def by_index(self) -> Int[np.ndarray, " i"]:
        """How many labelled configurations have index 0, 1, ..., m (d - 1)."""
        most = len(self.masses) * (self.problem.d - 1)
        return np.bincount(self.index, self.orderings, most + 1).astype(int)

    @property
    def alternating_sum(self) -> int:
        """Sum of (-1)^index over labelled configurations."""
        return int(np.sum((-1) ** self.index * self.orderings))

    @property
    def euler(self) -> int:
        """What that sum is for a complete list of regular points: the Euler characteristic of all configurations."""
        return (1 + (-1) ** (self.problem.d - 1)) ** len(self.masses)

    derived = ("certified", "alternating_sum", "euler")

    def variables(self) -> Variables:
        return {
            "point": (("critical", "atom", "component"), self.points),
            "mass": ("atom", self.masses),
            "energy": ("critical", self.energy),
            "index": ("critical", self.index),
            "margin": ("critical", self.margin),
            "radius": ("critical", self.radius),
            "orderings": ("critical", self.orderings),
        }

    def facts(self) -> list[str]:
        m, problem = len(self.masses), self.problem
        counts = ", ".join(map(str, self.by_index))
        rest = "complete" if self.complete else f"not proved complete ({self.undecided} of {self.cells} cells left)"
        proved = "proved" if self.certified else "not all proved"
        return [
            f"{len(self)} stationary measures of {m} atom{'s' * (m != 1)}, {proved}, the list {rest}",
            f"labelled, by index from 0: {counts}; alternating sum {self.alternating_sum}, Euler characteristic "
            f"{self.euler}",
            *(
                [f"every Dirac on {len(self.arcs)} arcs where no neuron acts is stationary too"]
                if len(self.arcs)
                else []
            ),
            f"{problem.neurons} neurons ({problem.activation}), d = {problem.d}, beta = {problem.beta:g} "
            f"({problem.kernel_scale} kernel)",
        ]

    def plot(self) -> Figure:
        """Where the atoms of every stationary measure are, by energy; colours show the index."""
        from sphereflow.landscape.pictures import draw_critical_points

        return draw_critical_points(self)


@recorded_call
def critical_points(
    problem: Problem,
    masses: ArrayLike | int = 1,
    *,
    starts: int = 400,
    most_cells: int = 1_000_000,
    seed: Seed = 0,
) -> CriticalPoints:
    """All stationary measures of m atoms: minima, saddles and maxima of the energy at given masses.

    **Arguments:**

    - `problem`: in any dimension, with any activation. Completeness is proved in d = 2 and d = 3.
    - `masses`: m positive numbers that sum to one, or m itself for equal masses.
    - `starts`: how many random starts of Newton's method come before the search by cells.
    - `most_cells`: after this many cells the search ends without a proof of completeness; 0 leaves it out.

    **Returns:** `CriticalPoints`. On the circle one or two atoms take about a second, three a minute.

    ```python
    problem = landscape.Problem(3.0, [1.0, -0.8], [[1.0, 0.0], [-0.6, 1.4]], activation="gelu")
    landscape.critical_points(problem, 2).by_index
    ```
    """
    began = time.perf_counter()
    weights = _given(masses)
    count = whole_number("starts", starts, least=1, most=1_000_000)
    limit = whole_number("most_cells", most_cells, least=0)
    equations = Equations(problem.converted("peak"), weights)
    m, d = len(weights), problem.d
    known = _Known(equations)
    rng = rng_from(seed)
    first = unit(rng.standard_normal((count, m, d)))
    # Coincident atoms are stationary together wherever one atom is.
    first[: count // 4] = first[: count // 4, :1]
    known.add(first)
    cells = ProductCells.cover(m, d, _groups(weights)) if limit and d <= 3 else None
    examined, silent = 0, []
    while cells is not None and len(cells) and examined < limit and cells.radii.max() > _SMALLEST:
        examined += len(cells)
        keep = np.concatenate(
            [
                ~empty(equations, cells.centres[part], cells.radii[part])
                for part in np.array_split(np.arange(len(cells)), -(-len(cells) // _BATCH))
            ]
        )
        cells = cells.chosen(keep)
        if m == 1 and len(cells):
            dead = equations.silent(cells.centres[:, 0], cells.radii[:, 0])
            silent.append(cells.chosen(dead))
            cells = cells.chosen(~dead)
        if len(cells):
            spread = cells.chosen(rng.permutation(len(cells))[:200])
            known.add(spread.centres, 12)
            cells = cells.chosen(~known.covers(cells)).split()
    left = 0 if cells is None else len(cells)
    volume = 0.0 if cells is None or not left else cells.share
    arcs = _arcs(silent) if d == 2 else np.zeros((0, 2))
    complete = cells is not None and left == 0 and not any(len(part) for part in silent)
    return _result(problem, equations, known, complete, left, volume, arcs, examined, time.perf_counter() - began)


class _Known:
    """The zeros found so far, one of each set of orderings, with their proofs."""

    def __init__(self, equations: Equations):
        self.equations = equations
        m = len(equations.masses)
        same = (
            [
                order
                for order in itertools.permutations(range(m))
                if np.array_equal(equations.masses[list(order)], equations.masses)
            ]
            if m <= 6
            else [tuple(range(m))]
        )
        self.orders = np.array(same)
        d = equations.problem.d
        self.points, self.error, self.radius = np.zeros((0, m, d)), np.zeros(0), np.zeros(0)

    def add(self, starts: np.ndarray, steps: int = 60) -> None:
        ends, field_left = newton(self.equations, starts, steps)
        ends = ends[field_left < _FIELD]
        if not len(ends):
            return
        ends, _ = newton(self.equations, ends, 3)
        error, radius = proved(self.equations, ends)
        for x, e, r in zip(ends, error, radius, strict=True):
            if r > 0 and not self._known(x):
                self.points = np.concatenate([self.points, x[None]])
                self.error, self.radius = np.append(self.error, e), np.append(self.radius, r)

    def _known(self, x: np.ndarray) -> bool:
        if not len(self.points):
            return False
        apart = distances(self.points[:, None], x[self.orders][None]).max(axis=2)
        # Two zeros closer than the radius of uniqueness are one.
        return bool(np.any(apart < self.radius[:, None]))

    def covers(self, cells: ProductCells) -> np.ndarray:
        """Which cells lie in a ball that is proved to hold one zero only."""
        inside = np.zeros(len(cells), dtype=bool)
        for x, r in zip(self.points, self.radius, strict=True):
            for order in self.orders:
                apart = distances(cells.centres, x[order])
                inside |= np.all(apart + cells.radii <= r, axis=1)
        return inside


def _result(
    problem: Problem,
    equations: Equations,
    known: _Known,
    complete: bool,
    left: int,
    volume: float,
    arcs: np.ndarray,
    examined: int,
    seconds: float,
) -> CriticalPoints:
    masses, factor = equations.masses, problem.factor
    space = SphereSpace(equations.problem)
    points = known.points
    energy = np.array([centred_energy(space, PointMasses(x, masses)) for x in points])
    root = np.repeat(np.sqrt(masses), equations.p)
    size = len(root)
    jacobian = equations.linearised(points).jacobian.reshape(-1, size, size)
    spectrum = np.linalg.eigvalsh(jacobian * root[:, None] / root) if len(points) else np.zeros((0, size))
    order = np.argsort(energy)
    return CriticalPoints(
        problem,
        masses,
        points[order],
        factor * (1 / (2 * problem.beta) + energy[order]),
        np.sum(spectrum < 0, axis=1)[order],
        factor * np.abs(spectrum).min(axis=1)[order],
        known.error[order],
        known.radius[order],
        np.array([_orderings(x, masses) for x in points[order]], dtype=int),
        complete,
        left,
        volume,
        arcs,
        examined,
        seconds,
    )


def _orderings(x: np.ndarray, masses: np.ndarray) -> int:
    """How many different labelled configurations exchanges of atoms of equal mass make of one."""
    count = 1
    for group in _groups(masses):
        places: list[np.ndarray] = []
        numbers: list[int] = []
        for i in group:
            near = [k for k, place in enumerate(places) if np.linalg.norm(place - x[i]) < 1e-7]
            if near:
                numbers[near[0]] += 1
            else:
                places.append(x[i])
                numbers.append(1)
        count *= math.factorial(len(group)) // math.prod(math.factorial(k) for k in numbers)
    return count


def _groups(masses: np.ndarray) -> list[list[int]]:
    """Atoms of equal mass."""
    return [[i for i, mass in enumerate(masses) if mass == value] for value in dict.fromkeys(masses.tolist())]


def _arcs(silent: list[ProductCells]) -> np.ndarray:
    """Silent cells of the circle, joined where they touch: start and end of each arc."""
    parts = [
        (float(a - r), float(a + r)) for part in silent for a, r in zip(part.where[:, 0], part.radii[:, 0], strict=True)
    ]
    joined: list[list[float]] = []
    for low, high in sorted(parts):
        if joined and low <= joined[-1][1] + 1e-9:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    if len(joined) > 1 and joined[-1][1] >= joined[0][0] + 2 * np.pi - 1e-9:
        joined[0][0] = joined.pop()[0] - 2 * np.pi
    return np.array(joined).reshape(-1, 2)


def _given(masses: ArrayLike | int) -> Float[np.ndarray, " m"]:
    if isinstance(masses, (int, np.integer)) and not isinstance(masses, bool):
        m = whole_number("masses", int(masses), least=1, most=_MOST_ATOMS)
        return np.full(m, 1 / m)
    weights = real_array("masses", masses)
    if weights.ndim != 1 or not 1 <= len(weights) <= _MOST_ATOMS:
        raise SphereflowError(f"masses must be 1 to {_MOST_ATOMS} numbers, got shape {weights.shape}.")
    if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-8:
        raise SphereflowError("masses must be positive numbers that sum to one.")
    return weights
