r"""Where atoms live, and the first variation there with its derivatives.

A space has points, p tangent coordinates at each point, a kernel and a potential. Two spaces share this interface: the
sphere itself (`SphereSpace`, points are unit vectors) and rings about an axis (`ZonalSpace`, points are polar angles).
Kernels are centred, $(k-1)/\beta$, which keeps all digits when beta is small and differs by a constant only.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sphereflow.landscape.potential import third_derivative_bound
from sphereflow.landscape.problem import Problem


class Jet(NamedTuple):
    """A function at n points with its gradient and Hessian in tangent coordinates (along geodesics)."""

    value: Float[np.ndarray, " n"]
    gradient: Float[np.ndarray, "n p"]
    hessian: Float[np.ndarray, "n p p"]


class PointMasses(NamedTuple):
    """Points of a space, one per row, with their masses."""

    points: Float[np.ndarray, "k q"]
    masses: Float[np.ndarray, " k"]

    def __len__(self) -> int:
        return len(self.masses)


@dataclass(frozen=True, eq=False)
class Space(abc.ABC):
    """The peak form of a problem, seen on a space."""

    problem: Problem

    @property
    def beta(self) -> float:
        return self.problem.beta

    @property
    @abc.abstractmethod
    def p(self) -> int:
        """Number of tangent coordinates."""

    @abc.abstractmethod
    def grid(self, nodes: int) -> Float[np.ndarray, "n q"]:
        """Points that cover the space evenly."""

    @abc.abstractmethod
    def spacing(self, nodes: int) -> float:
        """Distance of neighbours in the grid of this many nodes."""

    @abc.abstractmethod
    def arguments(self, points: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n J"]:
        r"""$\langle a_j,x\rangle+b_j$ at each point."""

    @abc.abstractmethod
    def half_potential(self, points: Float[np.ndarray, "n q"]) -> Jet:
        r"""$\tfrac12v$ with its derivatives."""

    @abc.abstractmethod
    def kernel(self, x: Float[np.ndarray, "n q"], y: Float[np.ndarray, "k q"]) -> Float[np.ndarray, "n k"]:
        r"""$(k(x_i,y_j)-1)/\beta$."""

    @abc.abstractmethod
    def kernel_slope(self, x: Float[np.ndarray, "n q"], y: Float[np.ndarray, "k q"]) -> Float[np.ndarray, "n p k"]:
        r"""$\nabla_xk(x_i,y_j)/\beta$."""

    @abc.abstractmethod
    def kernel_bend(self, x: Float[np.ndarray, "n q"], atoms: PointMasses) -> Float[np.ndarray, "n p p"]:
        r"""$\sum_jm_j\nabla^2_xk(x_i,y_j)/\beta$."""

    @abc.abstractmethod
    def kernel_cross(self, x: Float[np.ndarray, "n q"], y: Float[np.ndarray, "k q"]) -> Float[np.ndarray, "n p k p"]:
        r"""$\nabla_x\nabla_yk(x_i,y_j)/\beta$."""

    @abc.abstractmethod
    def move(self, points: Float[np.ndarray, "n q"], steps: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n q"]:
        """Along geodesics with these initial tangent coordinates."""

    @abc.abstractmethod
    def place(self, coordinates: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """The point of the space that free coordinates stand for."""

    @abc.abstractmethod
    def ambient(
        self, coordinates: Float[np.ndarray, "n q"], slope: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, "n q"]:
        """The gradient in free coordinates, from the one in tangent coordinates at their point."""

    @abc.abstractmethod
    def distance(self, x: Float[np.ndarray, "n q"], y: Float[np.ndarray, "k q"]) -> Float[np.ndarray, "n k"]:
        """Geodesic distances."""

    @abc.abstractmethod
    def cells(self, nodes: int) -> BallCover:
        """A cover of the whole space by balls, about as many as nodes."""

    def interaction(self, points: Float[np.ndarray, "n q"], atoms: PointMasses) -> Jet:
        r"""$\frac1\beta\int(k-1)\,d\mu$ with its derivatives."""
        return Jet(
            self.kernel(points, atoms.points) @ atoms.masses,
            self.kernel_slope(points, atoms.points) @ atoms.masses,
            self.kernel_bend(points, atoms),
        )

    @property
    def third_derivative_bound(self) -> float:
        r"""Of the first variation along great circles, between kinks.

        The kernel contributes $\sqrt{3\beta+1}$: its Fourier coefficients are the law of a difference of two Poisson
        variables of mean beta/2, whose second and fourth moments are $\beta$ and $3\beta^2+\beta$.
        """
        return float(np.sqrt(3 * self.beta + 1)) + third_derivative_bound(self.problem)


class BallCover(abc.ABC):
    """Balls that cover the space, each of which can be split into smaller ones."""

    centres: Float[np.ndarray, "n q"]
    radii: Float[np.ndarray, " n"]

    @abc.abstractmethod
    def split(self, chosen: np.ndarray) -> BallCover:
        """The parts of the chosen cells."""


def first_variation(space: Space, atoms: PointMasses, points: Float[np.ndarray, "n q"]) -> Jet:
    r"""$g=\frac1\beta\int(k-1)\,d\mu+\tfrac12v$ with its derivatives; the true one is larger by $1/\beta$."""
    inner, outer = space.interaction(points, atoms), space.half_potential(points)
    return Jet(inner.value + outer.value, inner.gradient + outer.gradient, inner.hessian + outer.hessian)


def centred_energy(space: Space, atoms: PointMasses) -> float:
    r"""$\mathsf E-\frac1{2\beta}$ of the peak form."""
    pairs = atoms.masses @ space.kernel(atoms.points, atoms.points) @ atoms.masses
    return float(pairs / 2 + atoms.masses @ space.half_potential(atoms.points).value)


def hessian(space: Space, atoms: PointMasses) -> Float[np.ndarray, "kp kp"]:
    r"""$\frac{d^2}{dt^2}\mathsf E$ along geodesics: $m_im_j\nabla_x\nabla_yk/\beta+\delta_{ij}m_i\nabla^2g(x_i)$.

    A symmetric matrix in the tangent coordinates of all atoms; the masses stay fixed.
    """
    size = len(atoms) * space.p
    cross = space.kernel_cross(atoms.points, atoms.points)
    full = cross * atoms.masses[:, None, None, None] * atoms.masses[None, None, :, None]
    own = first_variation(space, atoms, atoms.points).hessian * atoms.masses[:, None, None]
    index = np.arange(len(atoms))
    full[index, :, index, :] += own
    matrix = full.reshape(size, size)
    return (matrix + matrix.T) / 2


def strict_margin(space: Space, atoms: PointMasses) -> float:
    r"""The largest kappa with $\mathrm{Hess}(\xi,\xi)\ge\kappa\int|\xi|^2d\mu$."""
    root = np.repeat(np.sqrt(atoms.masses), space.p)
    return float(np.linalg.eigvalsh(hessian(space, atoms) / np.outer(root, root))[0])
