r"""The density on a fixed grid of the circle, pseudo-spectral: for early times, before it peaks.

$$\partial_t\rho=-\partial_\theta(\rho v),\qquad
  v=\frac{\sum_k\frac{ik}\beta\hat I_kc_ke^{ik\theta}}{\sum_k\hat I_kc_ke^{ik\theta}}\ \text{(SA)},\qquad
  v=\sum_k\frac{ik}\beta\hat I_kc_ke^{ik\theta}\ \text{(USA)}.$$

Products are formed on the grid and the upper third of the modes is cut after each. The mean of the density is conserved
to rounding; its smallest value and the size of its last modes say when the grid no longer carries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import Dynamics, Perceptron, Traits, attention_name
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.interaction.expansion import circle_coefficients, circle_modes
from sphereflow.meanfield.circle_density import OnCircle, save_times
from sphereflow.meanfield.initial import Density, StartingLaw, starting_law
from sphereflow.results import Result, Variables, recorded_call, span
from sphereflow.solving import FORWARD, SOLVERS, solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGIN = 4  # grid points per mode of the kernel, beyond the three that dealiasing needs


class EulerianCircle(Dynamics):
    """The right-hand side on values (M, 1) of the density at equally spaced angles."""

    traits = Traits(space="euclidean")

    beta: Float[Array, ""]
    drift: Float[Array, " M"]
    normalise: str = eqx.field(static=True)

    def velocity(self, rho: Float[Array, " M"]) -> Float[Array, " M"]:
        r"""$v[\rho]$ on the grid."""
        points = rho.shape[0]
        highest = points // 3
        # k I_k / beta = (I_{k-1} - I_{k+1})/2 also at beta = 0.
        peak = circle_coefficients(highest + 1, self.beta)
        force = jnp.concatenate([jnp.zeros(1), (peak[:-2] - peak[2:]) / 2])
        modes = jnp.fft.rfft(rho)[: highest + 1]
        pull = jnp.fft.irfft(1j * force * modes, points)
        if self.normalise == "softmax":
            pull = pull / jnp.fft.irfft(peak[: highest + 1] * modes, points)
        return pull + self.drift

    def field(self, t: Float[Array, ""], x: Float[Array, "M 1"]) -> Float[Array, "M 1"]:
        rho = x[:, 0]
        points = rho.shape[0]
        k = jnp.arange(points // 2 + 1)
        flux = jnp.fft.rfft(rho * self.velocity(rho))
        return -jnp.fft.irfft(jnp.where(k <= points // 3, 1j * k * flux, 0), points)[:, None]


@dataclass(frozen=True, eq=False, repr=False)
class EulerianFlow(Result):
    """Densities (T, M) with respect to dtheta/2pi at the angles `theta` and the times `ts`."""

    ts: Float[np.ndarray, " T"]
    theta: Float[np.ndarray, " M"]
    values: Float[np.ndarray, "T M"]
    beta: float
    law: StartingLaw

    def modes(self, most: int = 8) -> np.ndarray:
        r"""$c_0,\dots,c_K$ at the saved times."""
        signs = np.exp(1j * np.pi * np.arange(most + 1))  # the grid starts at -pi
        return np.fft.rfft(self.values, axis=1)[:, : most + 1] / len(self.theta) * signs

    @cached_property
    def mass(self) -> Float[np.ndarray, " T"]:
        """The integral of the density: one."""
        return self.values.mean(axis=1)

    @cached_property
    def smallest(self) -> Float[np.ndarray, " T"]:
        """The smallest value of the density: positive, or the grid is too coarse."""
        return self.values.min(axis=1)

    @cached_property
    def unresolved(self) -> Float[np.ndarray, " T"]:
        """Size of the last modes kept, relative to the first: small as long as the grid carries the density."""
        highest = len(self.theta) // 3
        modes = np.abs(np.fft.rfft(self.values, axis=1))
        return modes[:, highest - highest // 8 : highest + 1].max(axis=1) / modes[:, 0]

    def variables(self) -> Variables:
        """The densities with respect to dtheta/2pi, and what says whether the grid carries them."""
        return {
            "t": ("t", self.ts),
            "theta": ("theta", self.theta),
            "density": (("t", "theta"), self.values),
            "mass": ("t", self.mass),
            "smallest": ("t", self.smallest),
            "unresolved": ("t", self.unresolved),
        }

    def plot(self) -> Figure:
        """Densities at a few times."""
        from sphereflow.meanfield.pictures import plot_eulerian

        return plot_eulerian(self)

    def facts(self) -> list[str]:
        return [
            f"{self.law.name} on the circle, beta = {self.beta:g}, {span(self.ts)}",
            f"{len(self.theta)} points, mass {self.mass[-1]:.15g}, least density {self.smallest.min():.3g}, "
            f"last modes {self.unresolved.max():.0e}",
        ]


@recorded_call
def evolve_eulerian(
    beta: float = 10.0,
    model: str | Dynamics = "sa",
    density: Density | str | StartingLaw = "uniform+cos",
    t1: float | None = None,
    *,
    saveat: int | Sequence[float] | np.ndarray = 21,
    points: int | None = None,
    perceptron: Perceptron | None = None,
    tol: float = 1e-10,
    solver: str = "dopri8",
) -> EulerianFlow:
    """Follow a density on a grid of `points` angles; arguments as for `evolve_density`."""
    beta = real_number("beta", beta, least=0)
    normalise = "softmax" if attention_name(model, beta) == "sa" else "mean"
    law = starting_law(density)
    tol = real_number("tol", tol, least=1e-12, most=0.1)
    if points is None:
        points = 2 * ((3 + _MARGIN) * max(circle_modes(beta, 1e-14), len(law.modes), 8) // 2)
    points = whole_number("points", points, least=12)
    theta = -np.pi + 2 * np.pi * np.arange(points) / points
    drift = np.zeros(points)
    if perceptron is not None:
        drift = np.asarray(OnCircle(perceptron).field(jnp.zeros(()), jnp.asarray(theta)[:, None]))[:, 0]
    times = save_times(t1, saveat)
    field = EulerianCircle(jnp.asarray(beta), jnp.asarray(drift), normalise)
    start = np.asarray(law.density(theta))[:, None]
    frames = solve(
        field, start, times, tol=tol, solver=SOLVERS[one_of("solver", solver, tuple(SOLVERS))][0], adjoint=FORWARD
    )
    values = np.asarray(frames.xs)[:, :, 0]
    if bool(frames.hit_limit) or not np.isfinite(values).all():
        raise SphereflowError("the density left its grid: it has peaked; use evolve_density, or a smaller t1.")
    return EulerianFlow(times, theta, values, beta, law)
