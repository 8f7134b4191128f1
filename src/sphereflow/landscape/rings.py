r"""Minimisers on $S^2$ that are rings although the weights have no common axis.

Where only one relu neuron is active, the potential is that of this neuron alone. If the minimiser of the problem with
this neuron alone, a ring about its direction, lies in such a region and satisfies $g\ge\lambda$ in the full problem, it
is the minimiser of the full problem, which is then not atomic; and so it is for all nearby weights.

A ring of M equally spaced atoms differs from the uniform ring by Bessel functions $I_{jM}$: not at all, for M large.
"""

from __future__ import annotations

import numpy as np

from sphereflow.landscape.active_set import solve_on_points
from sphereflow.landscape.certificate import duality_gap
from sphereflow.landscape.refine import settle
from sphereflow.landscape.space import PointMasses, Space, centred_energy
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.zonal import ZonalSpace
from sphereflow.numerics.unit_vectors import tangent_frames, unit

_NODES = 361


def ring_points(axis: np.ndarray, polar: float, count: int) -> np.ndarray:
    """Equally spaced points at this polar angle about an axis of R^3; one point at a pole."""
    if polar < 1e-9 or polar > np.pi - 1e-9:
        return np.sign(np.cos(polar)) * axis[None]
    turn = 2 * np.pi * np.arange(count) / count
    across = tangent_frames(axis[None])[0]
    circle = np.cos(turn)[:, None] * across[:, 0] + np.sin(turn)[:, None] * across[:, 1]
    return np.cos(polar) * axis + np.sin(polar) * circle


def ring_size(beta: float, polar: float) -> int:
    r"""Points after which a ring is uniform to rounding: $e^{-x}I_M(x)<10^{-18}$ with $x=\beta\sin^2$."""
    strength = beta * np.sin(polar) ** 2
    return int(np.ceil(18 + 9 * np.sqrt(strength)))


def rings_of_one_neuron(space: Space, atoms: PointMasses, tol: float) -> tuple[PointMasses, float] | None:
    """The rings about one neuron that minimise the energy, with their gap, if such rings do."""
    problem = space.problem
    if not isinstance(space, SphereSpace) or problem.d != 3 or len(atoms) < 4:
        return None
    for j in problem.active:
        alone = ZonalSpace(problem.replaced(outer=problem.outer[[j]], inner=problem.inner[[j]], bias=problem.bias[[j]]))
        grid = alone.grid(_NODES)
        solved = solve_on_points(
            lambda i, here=alone, at=grid: here.kernel(at, at[i : i + 1])[:, 0],  # type: ignore[misc]
            alone.half_potential(grid).value,
        )
        rings, refined = settle(alone, PointMasses(grid[solved.active], solved.masses), grid, alone.spacing(_NODES))
        if not refined:
            continue
        axis = unit(problem.inner[j])
        parts = [ring_points(axis, polar, ring_size(space.beta, polar)) for polar in rings.points[:, 0]]
        masses = [np.full(len(part), mass / len(part)) for part, mass in zip(parts, rings.masses, strict=True)]
        measure = PointMasses(np.concatenate(parts), np.concatenate(masses))
        if max(map(len, parts)) == 1 or centred_energy(space, measure) > centred_energy(space, atoms):
            continue
        gap = duality_gap(space, measure, tol)
        if gap <= 10 * tol:
            return measure, gap
    return None
