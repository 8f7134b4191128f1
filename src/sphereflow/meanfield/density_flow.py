r"""A density on the circle at saved times, kept as nodes with masses that move with the flow.

$$c_k=\int e^{-ik\theta}d\mu,\qquad \rho(\Theta)=\frac{2\pi}{\Theta'(m)}\ \Big(\frac{d\theta}{2\pi}\Big)
  =\frac1{\Theta'(m)}\ (d\theta).$$
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Float
from scipy.interpolate import PchipInterpolator

from sphereflow.dynamics import Dynamics
from sphereflow.errors import one_of
from sphereflow.meanfield.initial import StartingLaw
from sphereflow.meanfield.quantiles import LabelGrid, midpoints
from sphereflow.observables.circle_distance import circle_wasserstein
from sphereflow.results import Result, Variables, span
from sphereflow.sphere import from_angles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = ("dtheta/2pi", "dtheta")
_LEAST_QUANTILES = 4096
_LEAST_DENSITY = 1e-300

_energy = eqx.filter_jit(lambda model, theta, masses: model.energy(from_angles(theta), masses))
_energy_rate = eqx.filter_jit(lambda model, theta: model.energy_rate(from_angles(theta)))


def fourier_modes(
    angles: Float[np.ndarray, "T n"], weights: Float[np.ndarray, " n"], most: int
) -> Complex[np.ndarray, "T k"]:
    r"""$c_k=\sum_jw_je^{-ik\theta_j}$ for k = 0, ..., `most`."""
    k = np.arange(most + 1)
    return np.stack([np.exp(-1j * np.multiply.outer(k, theta)) @ weights for theta in angles])


@dataclass(frozen=True, eq=False, repr=False)
class DensityFlow(Result):
    """Nodes `angles` (T, n) at times `ts`; the masses they carry are `grid.weights`.

    Angles are not wrapped: node j has the mass `grid.mass[j]` to its left at all times. `error_estimate` is the change
    of the Fourier modes under the last refinement of the grid (NaN if the number of nodes was fixed).
    """

    ts: Float[np.ndarray, " T"]
    angles: Float[np.ndarray, "T n"]
    grid: LabelGrid
    model: Dynamics
    law: StartingLaw
    beta: float
    tol: float
    error_estimate: float
    seconds: float = field(compare=False)

    @property
    def nodes(self) -> int:
        return self.angles.shape[1]

    def modes(self, most: int = 8) -> Complex[np.ndarray, "T k"]:
        r"""$c_0,\dots,c_K$ at the saved times."""
        return fourier_modes(self.angles, self.grid.weights, most)

    @cached_property
    def node_density(self) -> Float[np.ndarray, "T n"]:
        """The density with respect to dtheta/2pi at the nodes."""
        return np.stack([self.grid.density(row) for row in self.angles])

    def density(
        self, theta: Float[np.ndarray, " k"], index: int = -1, measure: str = "dtheta/2pi"
    ) -> Float[np.ndarray, " k"]:
        """The density at any angles at one saved time, with respect to dtheta/2pi (uniform = 1) or dtheta.

        Its logarithm is interpolated between nodes, so it is positive; where nodes are not in order it is NaN.
        """
        scale = 1.0 if one_of("measure", measure, MEASURES) == "dtheta/2pi" else 1 / (2 * np.pi)
        nodes, values = self.angles[index], self.node_density[index]
        if values.min() < 0 or not (np.diff(nodes) > 0).all():
            return np.full(np.shape(theta), np.nan)
        turns = np.array([-1, 0, 1])
        places = (nodes + 2 * np.pi * turns[:, None]).ravel()
        curve = PchipInterpolator(places, np.tile(np.log(np.maximum(values, _LEAST_DENSITY)), 3))
        return scale * np.exp(curve(nodes[0] + np.mod(np.asarray(theta) - nodes[0], 2 * np.pi)))

    def quantiles(self, mass: Float[np.ndarray, " k"], index: int = -1) -> Float[np.ndarray, " k"]:
        r"""$\Theta(m)$ at any masses at one saved time."""
        return self.grid.at_mass(self.angles[index], np.asarray(mass, dtype=float))

    # --- monitors -------------------------------------------------------------------------------------------------

    @cached_property
    def smallest_gap(self) -> Float[np.ndarray, " T"]:
        """Smallest distance of neighbouring nodes: positive as long as the density is one."""
        closed = np.concatenate([self.angles, self.angles[:, :1] + 2 * np.pi], axis=1)
        return np.diff(closed, axis=1).min(axis=1)

    @cached_property
    def mass(self) -> Float[np.ndarray, " T"]:
        """The integral of the reconstructed density over the nodes, by trapezoids: one where nodes resolve it."""
        closed = np.concatenate([self.angles, self.angles[:, :1] + 2 * np.pi], axis=1)
        values = np.concatenate([self.node_density, self.node_density[:, :1]], axis=1)
        return np.trapezoid(values, closed, axis=1) / (2 * np.pi)

    @cached_property
    def energy(self) -> Float[np.ndarray, " T"]:
        """The energy of the model at the saved times."""
        masses = jnp.asarray(self.grid.weights)
        return np.array([float(_energy(self.model, jnp.asarray(a), masses)) for a in self.angles])

    @cached_property
    def dissipation(self) -> Float[np.ndarray, " T"]:
        """dE/dt as an integral of the squared speed."""
        return np.array([float(_energy_rate(self.model, jnp.asarray(a))) for a in self.angles])

    # --- distances ------------------------------------------------------------------------------------------------

    def distance_to(self, particles: Float[np.ndarray, " N"], index: int = -1, p: float = 2.0) -> float:
        """W_p between the density and equal particles at these angles, along the circle, exactly by quantiles."""
        particles = np.asarray(particles, dtype=float)
        each = -(-_LEAST_QUANTILES // len(particles))
        key = (each * len(particles), index % len(self.ts))
        if key not in self._quantile_tables:
            self._quantile_tables[key] = self.quantiles(midpoints(key[0]), index)
        return circle_wasserstein(self._quantile_tables[key], np.repeat(particles, each), p)

    @cached_property
    def _quantile_tables(self) -> dict[tuple[int, int], np.ndarray]:
        return {}

    # --- views ----------------------------------------------------------------------------------------------------

    def variables(self) -> Variables:
        """Angles and densities (with respect to dtheta/2pi) of the nodes, by time and mass to the left."""
        return {
            "t": ("t", self.ts),
            "mass": ("mass", self.grid.mass),
            "angle": (("t", "mass"), self.angles),
            "density": (("t", "mass"), self.node_density),
            "weight": ("mass", self.grid.weights),
            "smallest_gap": ("t", self.smallest_gap),
        }

    def plot(self) -> Figure:
        """Densities at a few times, and the flow of the quantiles."""
        from sphereflow.meanfield.pictures import plot_density

        return plot_density(self)

    def facts(self) -> list[str]:
        error = "fixed grid" if np.isnan(self.error_estimate) else f"modes to {self.error_estimate:.0e}"
        if self.error_estimate > self.tol:
            error += f" (asked: {self.tol:.0e}; try grid='panels' or more nodes)"
        order = "order kept" if self.smallest_gap.min() > 0 else "ORDER LOST"
        return [
            f"{self.law.name} on the circle, beta = {self.beta:g}, {span(self.ts)}",
            f"{self.nodes} nodes, {error}, {order}",
            f"|c_1| = {abs(self.modes(1)[-1, 1]):.6f}",
            f"{self.seconds:.2f} s",
        ]
