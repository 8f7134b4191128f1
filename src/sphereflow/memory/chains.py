r"""The overlap with the target as a Markov chain of its own: the bulk landscape at any N, one number per chain.

In the bulk landscape H depends on $\phi$ only, so the N-dimensional dynamics closes on it. A Metropolis proposal needs
the noise along the target, along the rest of the state, and the length of what remains, a $\chi^2_{N-2}$ variable:
the chain has exactly the law of the N-dimensional one. Langevin:
$d\phi=-h'(\phi)(1-\phi^2)dt-\frac{N-1}NT\phi\,dt+\sqrt{2T(1-\phi^2)/N}\,dB$.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sphereflow.memory.escape import potential
from sphereflow.memory.sampling import curvature_step
from sphereflow.memory.state import lse_overlap
from sphereflow.seeds import Seed, key_from, rng_from

_LATTICE_SHIFT = 0.5826  # -zeta(1/2)/sqrt(2 pi)


class BulkChains(NamedTuple):
    """Mean overlaps after the discarded steps, last overlaps and shares of accepted moves; chains are the last axis."""

    overlap: Float[np.ndarray, "... c"]
    final: Float[np.ndarray, "... c"]
    acceptance: Float[np.ndarray, "... c"]


class Escapes(NamedTuple):
    """How often walkers escaped (each time they start again) in how much time; the mean time and its error."""

    number: int
    exposure: float

    @property
    def mean(self) -> float:
        return self.exposure / max(self.number, 1)

    @property
    def error(self) -> float:
        """Standard error for waiting times close to exponential."""
        return self.mean / np.sqrt(max(self.number, 1))


def bulk_metropolis(
    n: int,
    beta: float,
    temperature: Float[np.ndarray, "*g"],
    noise: Float[np.ndarray, "*g"],
    chains: int,
    steps: int,
    discard: int,
    seed: Seed = 0,
) -> BulkChains:
    """Chains started at the retrieval overlap, for every pair of temperature and noise floor."""
    rng = rng_from(seed, n)
    shape = (*np.shape(temperature), chains)
    t, floor = (np.broadcast_to(np.asarray(a, dtype=float)[..., None], shape) for a in (temperature, noise))
    sigma = curvature_step(n, t)
    phi = lse_overlap(t)
    energy = potential(phi, n, beta, floor)
    overlap, accepted = np.zeros(shape), np.zeros(shape)
    for step in range(steps):
        along = np.sqrt(n) * phi + sigma * rng.standard_normal(shape)
        aside = np.sqrt(n * (1 - phi * phi)) + sigma * rng.standard_normal(shape)
        proposal = along / np.sqrt(along**2 + aside**2 + sigma**2 * rng.chisquare(n - 2, shape))
        new = potential(proposal, n, beta, floor)
        taken = -rng.standard_exponential(shape) < -n * (new - energy) / t
        phi, energy = np.where(taken, proposal, phi), np.where(taken, new, energy)
        accepted += taken
        if step >= discard:
            overlap += phi
    return BulkChains(overlap / (steps - discard), phi, accepted / steps)


def bulk_escapes(
    n: int,
    beta: float,
    temperature: float,
    noise: float,
    *,
    start: float,
    stop: float,
    walkers: int,
    duration: float,
    settle: float,
    dt: float,
    seed: Seed = 0,
) -> Escapes:
    """Langevin walkers from the overlap `start`, put back there whenever they fall below `stop`.

    Escapes are counted for the `duration` after a time `settle`, when the renewals have forgotten their common start:
    their rate is then exactly the inverse of the mean escape time.
    """
    # A path seen only at multiples of dt misses excursions below the level; raising the level by a fixed part of a
    # step makes up for them to leading order.
    level = stop + _LATTICE_SHIFT * np.sqrt(2 * temperature * (1 - stop**2) / n * dt)
    first, steps = int(np.ceil(settle / dt)), int(np.ceil(duration / dt))
    parameters = (jnp.asarray(float(v)) for v in (n, beta, temperature, noise, start, level, dt))
    count = _count_escapes(key_from(seed), *parameters, first, first + steps, walkers)
    return Escapes(int(count), walkers * steps * dt)


@partial(jax.jit, static_argnames=("walkers",))
def _count_escapes(
    key: Array,
    n: Array,
    beta: Array,
    t: Array,
    noise: Array,
    start: Array,
    stop: Array,
    dt: Array,
    first: Int[Array, ""] | int,
    steps: Int[Array, ""] | int,
    walkers: int,
) -> Array:
    size = 2 * t * dt / n

    def advance(step: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        phi, count = carry
        slope = jax.nn.sigmoid(beta * n * (phi - noise))  # -h'(phi)
        across = jnp.sqrt(1 - phi * phi)
        # Normal numbers in single precision: their rounding is nothing beside their spread, at less than half the time.
        drawn = jax.random.normal(jax.random.fold_in(key, step), phi.shape, jnp.float32)
        v = slope * across * dt + jnp.sqrt(size) * drawn
        # The other N - 2 directions enter through their mean length: their fluctuation is of higher order in dt.
        phi = (phi + across * v) / jnp.sqrt(1 + v * v + size * (n - 2))
        left = phi < stop
        return jnp.where(left, start, phi), count + jnp.where(step >= first, jnp.sum(left), 0)

    return jax.lax.fori_loop(0, steps, advance, (jnp.full(walkers, start), jnp.zeros((), int)))[1]
