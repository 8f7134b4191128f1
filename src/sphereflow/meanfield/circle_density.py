r"""The mean-field equation on the circle by quantiles, with error control.

$$\partial_t\rho+\partial_\theta(\rho\,v[\rho])=0\qquad\Longleftrightarrow\qquad
  \partial_t\Theta(m,t)=v[\rho](\Theta(m,t)),\quad 0<m<1 .$$

$\Theta$ is the quantile function. Nodes with fixed masses are followed as tokens, in any dynamics of the circle: SA,
USA, with a perceptron, with matrices V and B. Mass is conserved and the density stays positive by construction, as long
as the nodes keep their order; both are monitored. The grid is refined until the Fourier modes of the density that the
kernel sees no longer change.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import SA, USA, Attention, Dynamics, Perceptron, Traits
from sphereflow.dynamics.base import parts
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.interaction import Engine, Mask
from sphereflow.interaction.expansion import circle_modes
from sphereflow.kernels import EXPONENTIAL
from sphereflow.meanfield.density_flow import DensityFlow, fourier_modes
from sphereflow.meanfield.initial import Density, StartingLaw, starting_law
from sphereflow.meanfield.quantiles import ORDER, LabelGrid, Midpoints, Panels
from sphereflow.parameters import model_name
from sphereflow.reading import real_array
from sphereflow.results import recorded_call
from sphereflow.shapes import ArrayLike
from sphereflow.solving import FORWARD, SOLVERS, solve
from sphereflow.sphere import from_angles

# Name: (part of the nodes spread by mass, adaptive panels)
GRIDS = {"blend": (0.5, False), "quantiles": (1.0, False), "panels": (0.5, True)}
_MANY = 512  # nodes from which the Fourier engine is faster than the sum over pairs
_GAP = 0.2  # largest distance of neighbouring nodes in units of 1/sqrt(beta)


class OnCircle(Dynamics):
    """A dynamics of unit vectors in the plane as one of angles (n, 1), which are never wrapped."""

    plane: Dynamics

    @property
    def traits(self) -> Traits:
        return self.plane.traits.but(space="euclidean")

    def check(self, n: int, d: int) -> None:
        self.plane.check(n, 2)

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str | Engine = "auto") -> OnCircle:
        return OnCircle(self.plane.tuned(n, 2, tol, dtype, method))

    def field(self, t: Float[Array, ""], x: Float[Array, "n 1"]) -> Float[Array, "n 1"]:
        points = from_angles(x[:, 0])
        velocity = self.plane.field(t, points)
        return (points[:, :1] * velocity[:, 1:]) - points[:, 1:] * velocity[:, :1]


def circle_model(
    beta: float,
    model: str | Dynamics = "sa",
    *,
    value: ArrayLike | None = None,
    form: ArrayLike | None = None,
    perceptron: Perceptron | None = None,
) -> Dynamics:
    r"""SA or USA with values V and scores $\beta x^\top By$ (B is `form`), plus a perceptron if one is given."""
    if isinstance(model, str):
        make = SA if model_name(model) == "sa" else USA
        query = None if form is None else np.asarray(form, dtype=float).T
        model = make(real_number("beta", beta, least=0), value=value, query=query)
    elif value is not None or form is not None:
        raise SphereflowError("give value and form together with model='sa' or 'usa', not with a dynamics.")
    if any(isinstance(leaf, Mask) for leaf in jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, Mask))):
        raise SphereflowError("model must be one without a mask: the tokens of a density have no order.")
    return model if perceptron is None else model + perceptron


@recorded_call
def evolve_density(
    beta: float = 10.0,
    model: str | Dynamics = "sa",
    density: Density | str | StartingLaw = "uniform+cos",
    t1: float | None = None,
    *,
    saveat: int | Sequence[float] | np.ndarray = 21,
    value: ArrayLike | None = None,
    form: ArrayLike | None = None,
    perceptron: Perceptron | None = None,
    tol: float = 1e-7,
    nodes: int | None = None,
    grid: str = "blend",
    max_nodes: int = 2048,
    solver: str = "dopri8",
) -> DensityFlow:
    r"""Follow a density on the circle under attention: $\partial_t\rho+\partial_\theta(\rho v[\rho])=0$.

    **Arguments:**

    - `beta`: inverse temperature. `model`: "sa", "usa" (peak kernel), or any dynamics of tokens in the plane.
    - `density`: a function of the angle (with respect to dtheta/2pi, normalised for you) or a name: uniform,
      uniform+cos, bump, two-bumps.
    - `t1`: final time, 1 by default. `saveat`: number of saved times from 0, or the times themselves, the first being
      0 and the last the final time.
    - `value`, `form`: matrices V and B of the value and of the score $\beta x^\top By$; the identity by default.
    - `perceptron`: added to the attention.
    - `tol`: error aimed at in the Fourier modes of the density that the kernel sees; `nodes`: a fixed number of nodes
      instead, without refinement.
    - `grid`: "blend" (nodes spread by mass and by angle; spectrally accurate while the flow map is smooth),
      "quantiles" (by mass only) or "panels" (adaptive, for clusters).

    **Returns:** a `DensityFlow`; its `error_estimate` is the change of the modes under the last refinement.
    """
    dynamics = circle_model(beta, model, value=value, form=form, perceptron=perceptron)
    beta = _sharpness(dynamics, beta)
    law = starting_law(density)
    times = save_times(t1, saveat)
    tol = real_number("tol", tol, least=1e-12, most=0.1)
    share, adaptive = GRIDS[one_of("grid", grid, tuple(GRIDS))]
    most = whole_number("max_nodes", max_nodes, least=16)
    fixed = nodes is not None
    first = whole_number("nodes", nodes, least=4) if nodes is not None else _first_nodes(beta, law)
    places: LabelGrid = Midpoints(law, share, first)
    if adaptive:
        places = Panels(law, share, np.linspace(0, 1, -(-first // ORDER) + 1))
    wanted = max(8, circle_modes(beta, tol))
    began = time.perf_counter()
    angles = follow(dynamics, places, times, tol, solver)
    error = np.nan
    while not fixed and (np.isnan(error) or error > tol) and len(places) < most:
        finer = places.finer(angles, tol, _GAP / np.sqrt(max(beta, 1.0)))
        refined = follow(dynamics, finer, times, tol, solver)
        moments = fourier_modes(angles, places.weights, wanted)
        error = float(np.abs(fourier_modes(refined, finer.weights, wanted) - moments).max())
        places, angles = finer, refined
    return DensityFlow(
        ts=times,
        angles=angles,
        grid=places,
        model=dynamics.with_masses(places.weights),
        law=law,
        beta=beta,
        tol=tol,
        error_estimate=error,
        seconds=time.perf_counter() - began,
    )


def follow(
    model: Dynamics, grid: LabelGrid, times: Float[np.ndarray, " T"], tol: float, solver: str = "dopri8"
) -> Float[np.ndarray, "T n"]:
    r"""Angles of the nodes of a grid at the given times; steps keep a tenth of the tolerance."""
    start, n = grid.start, len(grid)
    if not grid.equal:
        # Filled up with nodes of no mass to a power of two: fewer sizes, fewer compilations.
        padded = 1 << (n - 1).bit_length() if isinstance(grid, Panels) else n
        start = np.pad(start, (0, padded - n), mode="edge")
        model = model.with_masses(np.pad(grid.weights, (0, padded - n)))
    local = max(tol * 0.1, 1e-13)
    fast = OnCircle(model.tuned(len(start), 2, local, method="fourier" if len(start) >= _MANY else "direct"))
    frames = solve(
        fast,
        start[:, None],
        times,
        tol=local,
        solver=SOLVERS[one_of("solver", solver, tuple(SOLVERS))][0],
        adjoint=FORWARD,
    )
    angles = np.asarray(frames.xs)[:, :n, 0]
    if bool(frames.hit_limit) or not np.isfinite(angles).all():
        raise SphereflowError("the density could not be followed to the end: try a smaller t1 or a larger tol.")
    return angles


def _first_nodes(beta: float, law: StartingLaw) -> int:
    """Enough to resolve the kernel and the start with a margin; a multiple of 32, so that programs are found again."""
    wanted = 8 * np.sqrt(beta) + 4 * len(law.modes) + 24
    return 32 * int(np.ceil(wanted / 32))


def _sharpness(model: Dynamics, beta: float) -> float:
    r"""The largest inverse temperature of the attention in a dynamics; for other kernels $\max|k'|/\max|k|$."""
    if isinstance(model, Attention):
        largest = jnp.max(model.beta)
        if model.kernel == EXPONENTIAL:
            return float(largest)
        s = jnp.linspace(-1.0, 1.0, 1001)
        values, slopes = jax.jvp(lambda s: model.kernel.value(s, largest), (s,), (jnp.ones_like(s),))
        return float(jnp.max(jnp.abs(slopes)) / jnp.max(jnp.abs(values)))
    return max((_sharpness(part, beta) for part in parts(model)), default=0.0 if model.traits.masses == "any" else beta)


def save_times(
    t1: float | None, saveat: int | Sequence[float] | np.ndarray, usual: float = 1.0
) -> Float[np.ndarray, " T"]:
    """The times asked for, from 0, where the law starts: so many equally spaced ones to t1 (`usual` unless given), or
    those given, of which the last is then t1."""
    if isinstance(saveat, (int, np.integer)):
        last = usual if t1 is None else real_number("t1", t1, above=0)
        return np.linspace(0.0, last, whole_number("saveat", saveat, least=2))
    times = real_array("saveat", saveat)
    if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        raise SphereflowError("saveat must be a number of frames, or at least two increasing finite times.")
    if times[0] != 0:
        raise SphereflowError(f"saveat must begin at t = 0, where the law starts, got {times[0]:g}.")
    if t1 is not None and real_number("t1", t1) != times[-1]:
        raise SphereflowError(f"the last time of saveat is the final time: {times[-1]:g}, but t1={t1:g} was given.")
    return times
