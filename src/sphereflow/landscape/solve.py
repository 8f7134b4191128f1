r"""`minimise` and `maximise`: the whole landscape of attention plus perceptron, with a certificate.

The energy is strictly convex along mixtures, so its minimiser is unique; it is found on a grid by an active-set method,
refined off the grid by Newton's method to rounding, and certified by the duality gap $\lambda-\min g$, bounded on every
cell of the sphere. Its maximisers are the Diracs at the maxima of v, with energy $\frac1{2\beta}+\frac12\max v$ (peak).
"""

from __future__ import annotations

import math
import time

import numpy as np
from jaxtyping import Float

from sphereflow.errors import whole_number
from sphereflow.landscape.active_set import solve_on_points
from sphereflow.landscape.certificate import duality_gap, lower_bound
from sphereflow.landscape.maxima import local_maxima
from sphereflow.landscape.potential import third_derivative_bound
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.refine import merged, settle
from sphereflow.landscape.result import CriticalPoint
from sphereflow.landscape.rings import rings_of_one_neuron
from sphereflow.landscape.space import Jet, PointMasses, Space
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.validate import given_atoms
from sphereflow.landscape.zonal import ZonalSpace
from sphereflow.results import recorded_call
from sphereflow.shapes import ArrayLike

NODES = {"circle": 1440, "sphere": 4000, "rings": 721}

# The first variation of a density is flat everywhere up to this, relative to how much the kernel varies.
_FLAT = 1e-11

# The gap at which the search on a grid of S^2 ends, relative to the same.
_COARSE = 1e-9

# What the certificate is refined to, relative to how much the kernel varies.
_CERTIFIED = 1e-12

# The same where g is flat along curves or everywhere, which takes many cells, more so in two dimensions.
_FLAT_CERTIFIED = {1: 1e-10, 2: 4e-8, 3: 1e-5, 4: 1e-4, 5: 1e-4}


def space_of(problem: Problem) -> Space:
    """Where the minimiser lives: on the circle, on rings about the common axis of the weights, or on S^2."""
    peak = problem.converted("peak")
    return ZonalSpace(peak) if problem.d > 2 and problem.axis is not None else SphereSpace(peak)


@recorded_call
def minimise(problem: Problem, nodes: int | None = None) -> CriticalPoint:
    r"""The global minimiser of the energy, its atoms refined off the grid, with a certified duality gap.

    **Arguments:**

    - `problem`: on the circle (d=2), on spheres up to d=6, or in any dimension with all inner weights parallel.
    - `nodes`: size of the first grid (1440, 4000, 721 in these three cases); the result does not depend on it.

    **Returns:** a `CriticalPoint`. Its `kind` is "atoms" where the atoms are isolated and refined, "density" where the
    first variation is flat on the whole space (the atoms listed are then one of many equivalent quadratures), "rings"
    where it has uniform rings, about the common axis of the weights (listed by polar angle) or about the direction of
    one neuron on S^2 (listed as equally spaced points), and "unresolved" otherwise: energy and gap still hold,
    positions are not refined.

    ```python
    from sphereflow import landscape
    landscape.minimise(landscape.Problem(beta=5, outer=[1.0], inner=[[1.0, 0.0]]))
    ```
    """
    began = time.perf_counter()
    space = space_of(problem)
    count = whole_number("nodes", NODES[_name(space)] if nodes is None else nodes, least=24, most=200_000)
    grid = space.grid(count)
    linear = space.half_potential(grid).value
    rise, scale = _rise(space), _rise(space) + float(np.ptp(linear))
    flat_wanted = _FLAT_CERTIFIED[space.p] * rise
    # In two dimensions a density needs hundreds of nodes: the search ends earlier, and flatness is judged by it.
    enough, flat = (0.0, _FLAT) if space.p == 1 else (_COARSE * scale, 100 * _COARSE)
    solved = solve_on_points(lambda i: space.kernel(grid, grid[i : i + 1])[:, 0], linear, enough)
    atoms = PointMasses(grid[solved.active], solved.masses)
    if solved.variation.max() - solved.multiplier <= flat * scale:
        kind, gap = "density", duality_gap(space, atoms, flat_wanted)
    elif (round_measure := rings_of_one_neuron(space, atoms, flat_wanted)) is not None:
        kind, atoms, gap = "rings", *round_measure
    else:
        atoms, refined = settle(space, atoms, grid, space.spacing(count))
        kind = ("rings" if _has_rings(space, atoms) else "atoms") if refined else "unresolved"
        gap = duality_gap(space, atoms, _CERTIFIED * rise if refined else flat_wanted)
    return CriticalPoint.of(problem, space, "minimise", kind, atoms, gap, count, time.perf_counter() - began)


@recorded_call
def maximise(problem: Problem, nodes: int | None = None) -> CriticalPoint:
    """A global maximiser of the energy: the Dirac at a maximum of v, with a certified gap.

    Where several points reach the maximum, `note` says so: the Dirac at each of them is a maximiser.
    """
    began = time.perf_counter()
    space = space_of(problem)
    count = whole_number("nodes", NODES[_name(space)] if nodes is None else nodes, least=24, most=200_000)
    peaks, heights = local_maxima(space, count)
    best = int(np.argmax(heights))
    scale = _rise(space) + float(np.ptp(heights))
    upper = -lower_bound(
        space,
        lambda points: _negative(space.half_potential(points)),
        third_derivative_bound(space.problem),
        -float(heights[best]) - _CERTIFIED * scale,
    )
    ties = int(np.sum(heights >= heights[best] - _FLAT * scale))
    note = ""
    if ties > 1:
        note = f"{ties} maxima of v are equally high: the Dirac at each of them is a maximiser."
    point = peaks[best : best + 1]
    if isinstance(space, ZonalSpace):
        if 1e-9 < point[0, 0] < np.pi - 1e-9:
            note = "v is largest on a whole ring: the Dirac at each of its points is a maximiser."
        point = _on_ring(problem, float(point[0, 0]))
        space = SphereSpace(space.problem)
    atoms = PointMasses(point, np.ones(1))
    gap = max(upper - float(heights[best]), 0.0)
    seconds = time.perf_counter() - began
    return CriticalPoint.of(problem, space, "maximise", "atoms", atoms, gap, count, seconds, note)


@recorded_call
def inspect(problem: Problem, positions: ArrayLike, masses: ArrayLike | None = None) -> CriticalPoint:
    """Everything about a given measure: energy, stationarity, Hessian, and how far it is from the minimum.

    `positions` are unit vectors, shape (k, d), or angles, shape (k,), on the circle. Works in every dimension; the gap
    needs a cover of the sphere and is NaN beyond d = 3.
    """
    began = time.perf_counter()
    space = SphereSpace(problem.converted("peak"))
    atoms = given_atoms(problem.d, positions, masses)
    gap = math.nan
    if problem.d <= 3:
        gap = duality_gap(space, atoms, 1e-6 * _rise(space))
    return CriticalPoint.of(problem, space, "minimise", "given", atoms, gap, 0, time.perf_counter() - began)


def grid_atoms(problem: Problem, nodes: int) -> tuple[PointMasses, Float[np.ndarray, " k"]]:
    """The minimiser on a grid alone, neighbouring nodes joined; and how many nodes each atom occupies."""
    space = space_of(problem)
    grid = space.grid(nodes)
    solved = solve_on_points(lambda i: space.kernel(grid, grid[i : i + 1])[:, 0], space.half_potential(grid).value)
    joined, labels = merged(space, grid[solved.active], solved.masses, 1.5 * space.spacing(nodes))
    return joined, np.bincount(labels).astype(float)


def _name(space: Space) -> str:
    return "rings" if isinstance(space, ZonalSpace) else "circle" if space.problem.d == 2 else "sphere"


def _has_rings(space: Space, atoms: PointMasses) -> bool:
    """Whether some polar angle is that of a whole ring and not of a pole."""
    return isinstance(space, ZonalSpace) and bool(np.any(np.sin(atoms.points) > 1e-9))


def _rise(space: Space) -> float:
    """How much the kernel varies, from the antipode to its peak."""
    return float(-np.expm1(-2 * space.beta) / space.beta)


def _negative(jet: Jet) -> Jet:
    return Jet(-jet.value, -jet.gradient, -jet.hessian)


def _on_ring(problem: Problem, polar: float) -> Float[np.ndarray, "1 d"]:
    axis = problem.axis
    assert axis is not None
    across = np.eye(problem.d)[int(np.argmin(np.abs(axis)))]
    across = across - (across @ axis) * axis
    return (np.cos(polar) * axis + np.sin(polar) * across / np.linalg.norm(across))[None]
