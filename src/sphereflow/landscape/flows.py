r"""Particles that climb or descend the landscape, with equal or with changing masses.

$$\dot x_i=\pm\mathcal V[\mu](x_i),\qquad \dot m_i=\pm r\,m_i\Big(g(x_i)-\int g\,d\mu\Big),\qquad
  \dot{\mathsf E}=\pm\Big(\int|\mathcal V|^2d\mu+r\operatorname{Var}_\mu g\Big).$$

Plus is the ascent (attention attracts, the usual sign of a Transformer), minus the descent. With rate r = 0 masses stay
equal; with r > 0 they flow to where the first variation is better, which equal particles cannot do. The normalised flow
divides the attraction by its partition function; it is not a gradient flow of the energy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sphereflow.dynamics import SA, USA, Dynamics, Kinks, Perceptron, Traits
from sphereflow.errors import SphereflowError, one_of, real_number
from sphereflow.evolution import Trajectory, evolve
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.validate import given_atoms
from sphereflow.numerics.unit_vectors import unit
from sphereflow.results import Result, Variables, recorded_call, span
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import normalise, project

SIGNS = ("ascent", "descent")


def dynamics(problem: Problem, sign: str = "descent", *, normalised: bool = False) -> Dynamics:
    """The vector field of equal particles, to be used with `evolve` and everything that belongs to it."""
    one_of("sign", sign, SIGNS)
    attention = SA(problem.beta) if normalised else USA(problem.beta, kernel_scale=problem.kernel_scale)
    climbing = attention + problem.perceptron
    return climbing if sign == "ascent" else -climbing


def flow(
    problem: Problem, x0: ArrayLike, t1: float, *, sign: str = "descent", normalised: bool = False, **options: Any
) -> Trajectory:
    """Equal particles from x0, shape (n, d), to time t1; options as for `evolve`.

    Time is that of the convention: t in the peak convention is e^beta times t in the raw one.
    """
    return evolve(dynamics(problem, sign, normalised=normalised), x0, t1, **({"tol": 1e-10} | options))


class Particles(Dynamics):
    """Positions and logarithms of masses as rows (x, log m) in R^{d+1}; positions count by their direction only.

    All four flows are one program: `direction` is +1 or -1, `rate` that of the masses, and the attraction is divided by
    the partition function to the power `normalised`, 0 or 1. `moving` moves positions in the place of the perceptron,
    with its neurons continued beyond their kinks; masses follow a potential whose derivative has none.
    """

    beta: Float[Array, ""]
    perceptron: Perceptron
    direction: Float[Array, ""]
    rate: Float[Array, ""]
    normalised: Float[Array, ""]
    moving: Dynamics | None = None

    traits = Traits(space="euclidean")

    def check(self, n: int, d: int) -> None:
        self.perceptron.check(n, d - 1)  # the last component is a mass

    def field(self, t: Float[Array, ""], x: Float[Array, "n e"]) -> Float[Array, "n e"]:
        points, masses = normalise(x[:, :-1]), jax.nn.softmax(x[:, -1])
        kernel = jnp.exp(self.beta * (points @ points.T - 1))
        partition = kernel @ masses
        pull = (kernel * masses) @ points / partition[:, None] ** self.normalised
        velocity = project(points, pull) + (self.moving or self.perceptron).field(t, points)
        variation = partition / self.beta + self.perceptron.potential(points) / 2
        growth = self.rate * (variation - masses @ variation)
        return self.direction * jnp.concatenate([velocity, growth[:, None]], axis=1)

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n e"]) -> Kinks | None:
        return self.perceptron.kinks(t, normalise(x[:, :-1]))

    def continued(self, t: Float[Array, ""], sides: Bool[Array, "n J"] | None) -> Dynamics:
        return replace(self, moving=self.perceptron.continued(t, sides))


@dataclass(frozen=True, eq=False, repr=False)
class WeightedFlow(Result):
    """Positions (T, n, d) and masses (T, n) at times `ts`, with the energy at each."""

    problem: Problem
    ts: Float[np.ndarray, " T"]
    positions: Float[np.ndarray, "T n d"]
    masses: Float[np.ndarray, "T n"]
    steps: int

    @cached_property
    def energy(self) -> Float[np.ndarray, " T"]:
        """E at each saved time."""
        space = SphereSpace(self.problem.converted("peak"))
        frames, n, d = self.positions.shape
        potential = space.half_potential(self.positions.reshape(-1, d)).value.reshape(frames, n)
        pairs = np.array([m @ space.kernel(x, x) @ m for x, m in zip(self.positions, self.masses, strict=True)])
        centred = pairs / 2 + np.sum(self.masses * potential, axis=1)
        return self.problem.factor * (1 / (2 * self.problem.beta) + centred)

    def variables(self) -> Variables:
        return {
            "t": ("t", self.ts),
            "position": (("t", "particle", "component"), self.positions),
            "mass": (("t", "particle"), self.masses),
            "energy": ("t", self.energy),
        }

    def facts(self) -> list[str]:
        return [
            f"{self.masses.shape[1]} particles, {span(self.ts)}",
            f"energy {self.energy[0]:.8g} to {self.energy[-1]:.8g}",
        ]


@recorded_call
def weighted_flow(
    problem: Problem,
    x0: ArrayLike,
    t1: float,
    masses: ArrayLike | None = None,
    *,
    sign: str = "descent",
    rate: float = 1.0,
    normalised: bool = False,
    **options: Any,
) -> WeightedFlow:
    """Particles whose masses change too; the energy is monotone and reaches masses that equal particles cannot."""
    one_of("sign", sign, SIGNS)
    real_number("rate", rate, least=0)
    if normalised and rate > 0:
        raise SphereflowError("the normalised flow has no energy for masses to follow: set rate=0.")
    start = given_atoms(problem.d, x0, masses)
    # The normalised flow knows no convention of the kernel, and its weights are taken as they are.
    peak = problem if normalised else problem.converted("peak")
    direction, speed = 1.0 if sign == "ascent" else -1.0, 1.0 if normalised else problem.factor
    way, growth, power = (jnp.asarray(float(value)) for value in (direction, rate, normalised))
    model = Particles(jnp.asarray(peak.beta), peak.perceptron, way, growth, power)
    rows = np.concatenate([start.points, np.log(start.masses)[:, None]], axis=1)
    # Raw time runs e^beta times faster than the peak time in which the flow is computed.
    options = {"tol": 1e-10} | options
    if "saveat" in options and not isinstance(options["saveat"], int):
        options["saveat"] = np.asarray(options["saveat"]) * speed
    run = evolve(model, rows, t1 * speed, **options)
    states = np.asarray(run.xs)
    points = unit(states[..., :-1])
    weights = np.exp(states[..., -1] - states[..., -1].max(axis=-1, keepdims=True))
    return WeightedFlow(problem, run.ts / speed, points, weights / weights.sum(axis=-1, keepdims=True), run.steps)
