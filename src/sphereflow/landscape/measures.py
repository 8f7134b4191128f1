r"""Energy, field, first variation and Hessian of a measure given by atoms, in any dimension.

$$\mathsf E[\mu],\qquad \mathcal V[\mu](x)=\nabla g(x),\qquad g(x)=\frac1\beta\int k(x,y)\,d\mu(y)+\tfrac12v(x),\qquad
  \mathrm{Hess}(\xi,\xi)=\frac{d^2}{dt^2}\mathsf E[(\exp t\xi)_\#\mu].$$

The gradient of the energy in the position of an atom of mass m is m times the field there.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.landscape import space as spaces
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.validate import given_atoms
from sphereflow.numerics.unit_vectors import tangent_frames
from sphereflow.shapes import ArrayLike


def energy(problem: Problem, positions: ArrayLike, masses: ArrayLike | None = None) -> float:
    r"""$\mathsf E$ of atoms, equal masses by default; the diagonal of the double sum is part of it."""
    space, atoms = _space_and_atoms(problem, positions, masses)
    return problem.factor * (1 / (2 * problem.beta) + spaces.centred_energy(space, atoms))


def first_variation(
    problem: Problem, positions: ArrayLike, masses: ArrayLike | None, at: Float[np.ndarray, "n d"]
) -> np.ndarray:
    """g of the measure at other points of the sphere."""
    space, atoms = _space_and_atoms(problem, positions, masses)
    return problem.factor * (
        1 / problem.beta + spaces.first_variation(space, atoms, given_atoms(problem.d, at).points).value
    )


def field(problem: Problem, positions: ArrayLike, masses: ArrayLike | None = None) -> Float[np.ndarray, "k d"]:
    r"""$\mathcal V[\mu]$ at the atoms: the velocity of the ascent flow, minus that of the descent flow."""
    space, atoms = _space_and_atoms(problem, positions, masses)
    slope = spaces.first_variation(space, atoms, atoms.points).gradient
    return problem.factor * np.einsum("ndp,np->nd", tangent_frames(atoms.points), slope)


def hessian(problem: Problem, positions: ArrayLike, masses: ArrayLike | None = None) -> Float[np.ndarray, "kp kp"]:
    """The Hessian as a symmetric matrix in tangent coordinates of all atoms; on the circle, in their angles."""
    space, atoms = _space_and_atoms(problem, positions, masses)
    return problem.factor * spaces.hessian(space, atoms)


def _space_and_atoms(
    problem: Problem, positions: ArrayLike, masses: ArrayLike | None
) -> tuple[SphereSpace, spaces.PointMasses]:
    return SphereSpace(problem.converted("peak")), given_atoms(problem.d, positions, masses)
