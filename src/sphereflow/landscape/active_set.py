r"""The convex problem on given points: masses in the simplex that minimise the energy.

$$\min_{m\ge0,\ \sum m=1}\ \tfrac12m^\top Gm+c^\top m,\qquad G_{ij}=k(x_i,x_j)/\beta,\quad c_i=\tfrac12v(x_i).$$

Start at the least potential. Add the point where the first variation $g=Gm+c$ is smallest, solve the problem with
equality constraints on the active points, step back to the boundary where a mass would turn negative, and stop when
$\lambda-\min g$ is at the level of rounding. The kernel is numerically of low rank: steps are solved by least squares.
Only the columns of G at points that were ever active are formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Singular values of the active block below this fraction of the largest carry no information.
_RANK = 1e-15

# Rounding of the first variation, relative to its size.
_ROUNDING = 4e-15

_MOST_STEPS = 2000


class GridSolution(NamedTuple):
    """Active points and their masses, the first variation everywhere, its mean lambda, and the steps taken."""

    active: Int[np.ndarray, " k"]
    masses: Float[np.ndarray, " k"]
    variation: Float[np.ndarray, " n"]
    multiplier: float
    steps: int

    @property
    def gap(self) -> float:
        r"""$\lambda-\min g$ over the given points: a bound of the energy above the minimum on these points."""
        return float(self.multiplier - self.variation.min())


def solve_on_points(
    column: Callable[[int], Float[np.ndarray, " n"]],
    linear: Float[np.ndarray, " n"],
    enough: float = 0.0,
) -> GridSolution:
    """The optimal masses on n points; `column(i)` is a column of G; a gap of `enough` ends the search."""
    known: dict[int, np.ndarray] = {}
    scale = float(np.abs(linear).max(initial=0.0))

    def columns(active: list[int]) -> np.ndarray:
        for i in active:
            if i not in known:
                known[i] = column(i)
        return np.stack([known[i] for i in active], axis=1)

    active, masses = [int(np.argmin(linear))], np.ones(1)
    steps, best, added = 0, np.inf, -1
    while True:
        active, masses, taken = _relaxed(active, masses, linear, columns)
        steps += taken
        chosen = columns(active)
        variation = chosen @ masses + linear
        multiplier = float(masses @ variation[active])
        size = max(scale, float(np.abs(chosen).max()))
        newcomer = int(np.argmin(variation))
        energy = float(multiplier + masses @ linear[active]) / 2
        stalled = newcomer in active or (energy >= best and added not in active)
        if multiplier - variation[newcomer] <= max(enough, _ROUNDING * size) or steps >= _MOST_STEPS or stalled:
            return GridSolution(np.array(active), masses, variation, multiplier, steps)
        best = min(best, energy)
        active, masses, added = [*active, newcomer], np.append(masses, 0.0), newcomer


def _relaxed(
    active: list[int], masses: np.ndarray, linear: np.ndarray, columns: Callable[[list[int]], np.ndarray]
) -> tuple[list[int], np.ndarray, int]:
    """Minimise over the active points, dropping those whose mass reaches zero."""
    taken = 0
    while True:
        taken += 1
        gram = columns(active)[active]
        step = _newton_step(gram, gram @ masses + linear[active])
        falling = step < 0
        with np.errstate(divide="ignore"):
            limits = np.where(falling, -masses / np.where(falling, step, -1.0), np.inf)
        first = int(np.argmin(limits))
        if limits[first] >= 1:
            masses = masses + step
            return active, masses / masses.sum(), taken
        masses = masses + limits[first] * step
        masses[first] = 0.0
        keep = masses > 0
        active = [i for i, stays in zip(active, keep, strict=True) if stays]
        masses = masses[keep] / masses[keep].sum()


def _newton_step(gram: np.ndarray, variation: np.ndarray) -> np.ndarray:
    """The step to the minimum with the sum of masses kept, of least size where it is not unique."""
    k = len(gram)
    # A basis of the vectors of sum zero: the reflection of e_1 to the diagonal, without its first column.
    mirror = np.full(k, 1 / np.sqrt(k))
    mirror[0] += 1.0
    mirror /= np.linalg.norm(mirror)
    basis = (np.eye(k) - 2 * np.outer(mirror, mirror))[:, 1:]
    if k == 1:
        return np.zeros(1)
    reduced = np.linalg.lstsq(basis.T @ gram @ basis, -basis.T @ variation, rcond=_RANK)[0]
    return basis @ reduced
