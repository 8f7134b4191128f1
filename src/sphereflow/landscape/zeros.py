r"""How large the set is on which a measure can be stationary: $\{x:\nabla g(x)=0\}$, covered by ever smaller cells.

A cell of radius r about c holds no zero of $\nabla g$ if $|\nabla g(c)|>\|\nabla^2g(c)\|r+R$, or if the Newton step
from c is longer than $r+\|\nabla^2g(c)^{-1}\|R$, with $R=\tfrac12Mr^2+\text{jump}\cdot r$ and M a bound of third
derivatives near the cell. What is left contains the support of every stationary measure with this first variation. The
share of the sphere that is left falls like $r^{d-1-D}$ for a set of dimension D: points have D = 0, a ring on $S^2$ has
D = 1, and for a density nothing is ever excluded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.landscape.potential import kink_jumps
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.products import ProductCells
from sphereflow.landscape.space import PointMasses, first_variation
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.stationarity import Equations
from sphereflow.landscape.validate import given_atoms
from sphereflow.numerics.unit_vectors import angles
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

_MOST_CELLS = 200_000
# Below this a gradient is rounding, and no cell is excluded by it.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class ZeroSet(Result):
    """What is left of the circle or of S^2 when cells without zeros of the gradient of g are taken away.

    `radii`, `cells`, `share`: at each level the largest radius of a cell, how many are left, and their part of the
    whole. On the circle `zeros` counts places that hold exactly one zero each; it is -1 where the rest is more than
    isolated zeros.
    """

    problem: Problem
    radii: Float[np.ndarray, " levels"]
    cells: Float[np.ndarray, " levels"]
    share: Float[np.ndarray, " levels"]
    zeros: int

    @property
    def dimension(self) -> float:
        """D, from the growth of the number of cells over the last three levels; 0 if nothing is left."""
        if self.cells[-1] == 0:
            return 0.0
        first = max(len(self.radii) - 4, 0)
        return math.log(self.cells[-1] / self.cells[first]) / math.log(self.radii[first] / self.radii[-1])

    @property
    def length(self) -> float:
        """The total length or area that is left at the last level."""
        return float(self.share[-1]) * (2 * math.pi if self.problem.d == 2 else 4 * math.pi)

    derived = ("dimension", "length")

    def variables(self) -> Variables:
        return {"radius": ("level", self.radii), "cells": ("level", self.cells), "share": ("level", self.share)}

    def facts(self) -> list[str]:
        what = f"{self.zeros} isolated zeros" if self.zeros >= 0 else f"dimension {self.dimension:.2f}"
        return [
            f"the gradient of g vanishes on a set of share at most {self.share[-1]:.2e} ({what})",
            f"{int(self.cells[-1])} cells of radius {self.radii[-1]:.1e} are left",
        ]


@recorded_call
def zero_set(problem: Problem, positions: ArrayLike, masses: ArrayLike | None = None, *, levels: int = 16) -> ZeroSet:
    """Where the first variation of a measure is stationary, as a set: points, curves, or everything.

    **Arguments:** `positions` and `masses` as for `inspect`, on the circle or on S^2; `levels`: how often cells are
    halved. A density or a ring is given by as many points as it takes to be one to rounding.

    ```python
    landscape.zero_set(problem, *landscape.minimise(problem).atoms).dimension
    ```
    """
    if problem.d > 3:
        raise SphereflowError(f"the zero set needs a cover of the sphere, that is d=2 or d=3, got d={problem.d}.")
    count = whole_number("levels", levels, least=2, most=40)
    atoms = given_atoms(problem.d, positions, masses)
    space = SphereSpace(problem.converted("peak"))
    equations = Equations(space.problem, np.append(0.0, atoms.masses))
    cells = ProductCells.cover(1, problem.d, [[0]])
    rounds: list[tuple[float, float, float]] = []
    radius = 0.0
    for _ in range(count):
        if len(cells) == 0 or len(cells) > _MOST_CELLS:
            break
        radius = float(cells.radii.max())
        cells = cells.chosen(~_empty(space, equations, atoms, cells))
        rounds.append((radius, len(cells), cells.share if len(cells) else 0.0))
        last, cells = cells, cells.split()
    radii, numbers, share = np.array(rounds).T
    zeros = _isolated(space, equations, atoms, last) if problem.d == 2 else -1
    return ZeroSet(problem, radii, numbers, share, zeros)


def _empty(space: SphereSpace, equations: Equations, atoms: PointMasses, cells: ProductCells) -> np.ndarray:
    centres, radii = cells.centres[:, 0], cells.radii[:, 0]
    jet = first_variation(space, atoms, centres)
    rest = _rest(space, equations, atoms, centres, radii)
    steep = np.linalg.norm(jet.gradient, axis=1)
    bend, along = np.linalg.eigh(jet.hessian)
    flat, weakest = np.abs(bend).max(axis=1), np.abs(bend).min(axis=1)
    excluded = steep > flat * radii + rest + _ROUNDING
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.linalg.norm(np.einsum("nip,ni->np", along, jet.gradient) / bend, axis=1)
        beyond = (weakest > 1e-10 * flat) & (step > radii + (rest + _ROUNDING) / weakest)
    return excluded | beyond


def _rest(
    space: SphereSpace, equations: Equations, atoms: PointMasses, centres: np.ndarray, radii: np.ndarray
) -> np.ndarray:
    """How much the gradient of g can differ from its linearisation within each cell."""
    nearest = np.maximum(angles(centres[:, None], atoms.points) - radii[:, None], 0.0)
    third = equations.third(nearest) @ atoms.masses + equations.potential_third
    jumps = kink_jumps(space.problem, space.arguments(centres), radii)
    return np.asarray(third * radii**2 / 2 + jumps * radii)


def _isolated(space: SphereSpace, equations: Equations, atoms: PointMasses, cells: ProductCells) -> int:
    """How many runs of neighbouring arcs are left, if each holds exactly one zero; -1 otherwise."""
    if len(cells) == 0:
        return 0
    order = np.argsort(np.mod(cells.where[:, 0], 2 * np.pi))
    angle, half = np.mod(cells.where[order, 0], 2 * np.pi), cells.radii[order, 0]
    start = np.flatnonzero(np.append(True, np.diff(angle) > (half[1:] + half[:-1]) * (1 + 1e-9)))
    runs = [
        [angle[a] - half[a], angle[b - 1] + half[b - 1]] for a, b in zip(start, [*start[1:], len(angle)], strict=True)
    ]
    if len(runs) > 1 and runs[-1][1] >= runs[0][0] + 2 * np.pi - 1e-12:
        runs[0][0] = runs.pop()[0] - 2 * np.pi
    low, high = np.array(runs).T
    middle, width = (low + high) / 2, (high - low) / 2
    if width.max() > 0.1:
        return -1

    def at(theta: np.ndarray) -> np.ndarray:
        return np.stack([np.cos(theta), np.sin(theta)], axis=1)

    bend = np.abs(first_variation(space, atoms, at(middle)).hessian[:, 0, 0])
    change = 2 * _rest(space, equations, atoms, at(middle), width) / width
    ends = [first_variation(space, atoms, at(theta)).gradient[:, 0] for theta in (low, high)]
    crossed = np.all([np.abs(end) > _ROUNDING for end in ends], axis=0) & (ends[0] * ends[1] < 0)
    return len(runs) if bool(np.all((bend > change) & crossed)) else -1
