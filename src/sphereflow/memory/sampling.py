r"""Metropolis and Langevin dynamics of a state on the sphere of radius $\sqrt N$ in a bath of temperature T.

$$\text{Metropolis: } x'=\sqrt N\,\frac{x+\sigma\eta}{|x+\sigma\eta|}, \quad \min(1,e^{-(H(x')-H(x))/T}),\qquad
  \text{Langevin: } dx=-P_x\nabla H\,dt-\tfrac{N-1}NTx\,dt+\sqrt{2T}P_x\,dW.$$

A Langevin step moves along the tangent space and returns to the sphere; the return contributes exactly the term
$-\frac{N-1}NTx\,dt$, which must not be added a second time. Chains are independent and run together.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.memory.energies import to_sphere
from sphereflow.memory.landscapes import Landscape
from sphereflow.memory.overlaps import Numbers, Values
from sphereflow.memory.state import lse_overlap


class Chains(NamedTuple):
    """The last states, the mean overlap with the target after the discarded steps, and the share of accepted moves."""

    final: Float[Array, "*r c N"]
    overlap: Float[Array, "*r c"]
    acceptance: Float[Array, "*r c"]


def published_step(n: int, temperature: Numbers) -> Values:
    r"""$\sigma=2.4\,T/\sqrt N$."""
    return 2.4 * np.asarray(temperature, dtype=float) / np.sqrt(n)


def curvature_step(n: int, temperature: Numbers) -> Values:
    r"""$\sigma^2=2T/(\gamma N)$, $\gamma=T(1+\phi_{eq}^2)/(1-\phi_{eq}^2)^2$: matched to the basin of LSE at every N.

    Without the division by N the move turns the state by an angle of order one, and the chain freezes.
    """
    square = lse_overlap(temperature) ** 2
    return np.sqrt(2 / n * (1 - square) ** 2 / (1 + square))


@eqx.filter_jit
def metropolis(
    landscape: Landscape,
    x0: Float[Array, "c N"],
    temperature: Float[Array, " c"],
    sigma: Float[Array, " c"],
    key: Array,
    steps: int,
    discard: int = 0,
    on_sphere: bool = True,
) -> Chains:
    """`steps` moves of every chain in one landscape; `on_sphere=False` leaves proposals where they are, in R^N.

    A state outside all supports has H = +infinity and is never accepted.
    """
    return _metropolis(landscape, x0, temperature, sigma, key, steps, discard, on_sphere)


@eqx.filter_jit
def metropolis_each(
    landscapes: Landscape,
    x0: Float[Array, "r c N"],
    temperature: Float[Array, " c"],
    sigma: Float[Array, " c"],
    key: Array,
    steps: int,
    discard: int = 0,
) -> Chains:
    """The same in r landscapes of one kind, whose arrays have a leading axis; results have shape (r, c)."""

    def one(place: Landscape, x: Array, key: Array) -> Chains:
        return _metropolis(place, x, temperature, sigma, key, steps, discard)

    return eqx.filter_vmap(one)(landscapes, x0, jax.random.split(key, x0.shape[0]))


def _metropolis(
    landscape: Landscape,
    x0: Array,
    temperature: Array,
    sigma: Array,
    key: Array,
    steps: int,
    discard: int,
    on_sphere: bool = True,
) -> Chains:
    energies = jax.vmap(landscape)
    back = to_sphere if on_sphere else lambda x: x

    def move(carry: tuple[Array, Array, Array, Array], step: Array) -> tuple[tuple[Array, Array, Array, Array], None]:
        x, energy, overlap, accepted = carry
        turn, chance = jax.random.split(jax.random.fold_in(key, step))
        proposal = back(x + sigma[:, None] * jax.random.normal(turn, x.shape, x.dtype))
        new = energies(proposal)
        log_ratio = jnp.where(jnp.isfinite(new), -(new - energy) / temperature, -jnp.inf)
        taken = jnp.log(jax.random.uniform(chance, energy.shape, x.dtype)) < log_ratio
        x, energy = jnp.where(taken[:, None], proposal, x), jnp.where(taken, new, energy)
        here = x @ landscape.target / x.shape[-1]
        return (x, energy, overlap + jnp.where(step >= discard, here, 0), accepted + taken), None

    zero = jnp.zeros_like(temperature)
    start = (x0, energies(x0), zero, zero)
    (final, _, overlap, accepted), _ = jax.lax.scan(move, start, jnp.arange(steps))
    return Chains(final, overlap / (steps - discard), accepted / steps)


@eqx.filter_jit
def langevin(
    landscape: Landscape,
    x0: Float[Array, "c N"],
    temperature: Float[Array, ""] | float,
    dt: float,
    key: Array,
    steps: int,
    discard: int = 0,
) -> Chains:
    """`steps` Euler steps of size dt of every chain in one landscape."""

    def advance(carry: tuple[Array, Array], step: Array) -> tuple[tuple[Array, Array], None]:
        x, overlap = carry
        x = langevin_step(landscape, x, temperature, dt, jax.random.fold_in(key, step))
        here = x @ landscape.target / x.shape[-1]
        return (x, overlap + jnp.where(step >= discard, here, 0)), None

    start = (x0, jnp.zeros_like(x0[:, 0]))
    (final, overlap), _ = jax.lax.scan(advance, start, jnp.arange(steps))
    return Chains(final, overlap / (steps - discard), jnp.ones_like(overlap))


@eqx.filter_jit
def first_passage(
    landscape: Landscape,
    x0: Float[Array, "c N"],
    temperature: Float[Array, ""] | float,
    dt: float,
    key: Array,
    stop: float,
    most: int,
) -> Float[Array, " c"]:
    """Times at which Langevin walkers first have an overlap with the target below `stop`; infinity if not in `most`."""

    def running(carry: tuple[Array, Array, Array]) -> Array:
        step, _, times = carry
        return (step < most) & jnp.any(jnp.isinf(times))

    def advance(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        step, x, times = carry
        x = langevin_step(landscape, x, temperature, dt, jax.random.fold_in(key, step))
        left = jnp.isinf(times) & (x @ landscape.target / x.shape[-1] < stop)
        return step + 1, x, jnp.where(left, (step + 1) * dt, times)

    return jax.lax.while_loop(running, advance, (jnp.zeros((), int), x0, jnp.full(x0.shape[0], jnp.inf)))[2]


def langevin_step(
    landscape: Landscape, x: Float[Array, "c N"], temperature: Float[Array, ""] | float, dt: float, key: Array
) -> Float[Array, "c N"]:
    """One step of every chain: along the tangent space, then back to the sphere."""
    force = -jax.vmap(landscape.gradient)(x)
    noise = jnp.sqrt(2 * temperature * dt) * jax.random.normal(key, x.shape, x.dtype)
    move = dt * force + noise
    tangent = move - jnp.sum(move * x, axis=-1, keepdims=True) * x / x.shape[-1]
    return to_sphere(x + tangent)
