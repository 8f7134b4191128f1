r"""The fast first phase of a crowd, and everything under a perceptron: steps in time itself.

Thousands of tokens are evolved by the general solver, a stretch of time after another; between stretches, tokens that
have come within the gluing radius become one atom. Stretches grow with time, so there are few of them. The number of
atoms is padded to n, n/16, n/256, ... with atoms of mass 1e-300, which follow the others and act on none, so that the
solver is compiled only when fifteen sixteenths of the crowd are gone.

With a perceptron the velocity is not exponentially small between clusters, and the run may end at several clusters
held by its potential; it is followed in time until the field vanishes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sphereflow.dynamics import SA, USA, Attention, Perceptron
from sphereflow.dynamics.base import Dynamics
from sphereflow.errors import SphereflowError
from sphereflow.evolution import evolve
from sphereflow.evolution.status import Status
from sphereflow.interaction import attend
from sphereflow.metastability.atoms import Atoms, close_pairs
from sphereflow.metastability.slow import Collision, Leg
from sphereflow.sphere import project

# Above this many atoms a crowd is stepped in time, with compiled sums, until it rests.
FEW = 64
# The largest speed at which a crowd counts as resting, in units of the rate at which clusters collapse inside: 1 in
# SA, the mass of the cluster in USA.
_RESTING = 1e-3
_STATIONARY = 1e-10
_GHOST = 1e-300
# Collisions in a crowd are timed by interpolation; positions more accurate than this would be wasted on them.
_CROWD_TOL = 1e-7

# The number of atoms of a crowd is padded to that of tokens over a power of this.
_PADDED = 16


class Rest(NamedTuple):
    """Whether only exponentially slow motion is left, and whether no motion at all is left."""

    slow: bool
    full: bool


MOVING = Rest(False, False)


def stretch(
    atoms: Atoms,
    n: int,
    beta: float,
    kind: str,
    perceptron: Perceptron | None,
    elapsed: float,
    radius: float,
    tol: float,
) -> tuple[Leg, Rest]:
    """Evolve for a stretch of time; returns the leg, and whether the atoms have come to rest."""
    positions, attention = _padded(atoms, n, beta, kind)
    model: Dynamics = attention if perceptron is None else attention + perceptron
    rate = 1.0 if kind == "sa" else float(atoms.masses.max())
    duration = max(1 / rate if perceptron is None else 1.0, 0.2 * elapsed)
    tol = max(tol, _CROWD_TOL)
    run = evolve(model, positions, saveat=[0.0, duration], tol=tol, progress=False)
    if run.status is Status.INTERRUPTED:  # caught by the solver, meant for the whole run
        raise KeyboardInterrupt
    if not run.status.complete:
        raise SphereflowError(f"the crowd could not be followed: {run.status.value}")
    k = len(atoms)
    ends = run.final
    energy, speed = _state(attention, perceptron, ends, tol)
    log_elapsed = math.log(duration)
    curve = np.array([[log_elapsed, energy, 0.0, 0.0]])
    collisions = _collisions(atoms.positions, ends[:k], radius, duration)
    leg = Leg(np.asarray(ends[:k]), log_elapsed, 0.0, 0.0, collisions, curve, "time")
    return leg, Rest(speed < _RESTING * rate, speed < _STATIONARY)


def start_energy(atoms: Atoms, beta: float, kind: str, tol: float) -> float:
    r"""$2\beta E_\beta$ of a crowd, by the program that its stretches use."""
    positions, attention = _padded(atoms, len(atoms), beta, kind)
    return _state(attention, None, positions, max(tol, _CROWD_TOL))[0]


def _state(attention: Attention, perceptron: Perceptron | None, x: np.ndarray, tol: float) -> tuple[float, float]:
    r"""$2\beta E_\beta$, and the largest speed."""
    n, d = x.shape
    energy, speed = _measured(attention.tuned(n, d, tol), perceptron, jnp.asarray(x))
    return float(energy), float(speed)


@eqx.filter_jit
def _measured(attention: Attention, perceptron: Perceptron | None, x: Array) -> tuple[Array, Array]:
    r"""$\sum_iw_iZ_i$ and $\max_i|\dot x_i|$, from one pass over the sums: they are most of the program to compile."""
    sums = attend(x, x, x, attention.beta, weights=attention.weights, method=attention.engine)
    partition = jnp.exp(sums.log_partition)
    velocity = project(x, sums.average if attention.normalise == "softmax" else sums.average * partition[:, None])
    if perceptron is not None:
        velocity = velocity + perceptron.field(jnp.zeros(()), x)
    assert attention.weights is not None  # a crowd has masses
    return attention.weights @ partition, jnp.max(jnp.linalg.norm(velocity, axis=1))


def _padded(atoms: Atoms, tokens: int, beta: float, kind: str) -> tuple[np.ndarray, Attention]:
    size = tokens
    while size // _PADDED >= max(len(atoms), 16):
        size //= _PADDED
    ghosts = size - len(atoms)
    positions = np.concatenate([atoms.positions, np.repeat(atoms.positions[:1], ghosts, axis=0)])
    weights = jnp.asarray(np.concatenate([atoms.masses, np.full(ghosts, _GHOST)]))
    return positions, (SA if kind == "sa" else USA)(beta, weights=weights)


def _collisions(before: np.ndarray, after: np.ndarray, radius: float, duration: float) -> tuple[Collision, ...]:
    """Who met, at moments interpolated in log distance, which falls about linearly in time."""
    collisions = []
    for length, i, j in close_pairs(after, radius):
        earlier = max(float(np.linalg.norm(before[i] - before[j])), radius)
        share = math.log(earlier / radius) / max(math.log(earlier / max(length, 1e-300)), 1e-300)
        moment = max(min(share, 1.0), 1e-3) * duration
        collisions.append(Collision(i, j, math.log(moment), duration / moment))
    return tuple(sorted(collisions, key=lambda c: c.log_elapsed))
