r"""Particles for the claims: small systems followed by one compiled program.

$$\dot x_i = P_{x_i}\sum_j w_j\,k(x_i,x_j)\,x_j \ \Big/\ \Big(\sum_j w_j\,k(x_i,x_j)\ \text{or}\ 1\Big).$$

A token of mass zero is carried along without acting on the others, and a coordinate that is zero at the start stays
zero. Every small system is therefore completed to the same number of tokens, coordinates and saved times: what is
asked for does not change, and the program is compiled once for all of them.
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from sphereflow.dynamics import Attention
from sphereflow.errors import SphereflowError
from sphereflow.evolution import evolve

Model = Literal["sa", "usa"]

_SIZE = 32
_FRAMES = 26
# Tokens of a quadrature on the circle or on S^2.
GRID = 512

velocity = eqx.filter_jit(lambda model, x: model.field(jnp.zeros(()), x))
energy = eqx.filter_jit(lambda model, x: model.energy(x))
energy_rate = eqx.filter_jit(lambda model, x: model.energy_rate(x))


def attention(model: Model, beta: float, **options: object) -> Attention:
    """SA, or USA with the raw kernel of the paper."""
    return Attention(beta, "softmax" if model == "sa" else "mean", kernel_scale="raw", **options)  # type: ignore[arg-type]


def velocities(
    model: Model, beta: float, x: np.ndarray, masses: np.ndarray | None = None, query: np.ndarray | None = None
) -> np.ndarray:
    """Velocity of each token."""
    n, d = x.shape
    filled, weights = _filled(x, masses)
    size = len(filled)
    dynamics = attention(model, beta, weights=weights, query=_completed(query, size), key=_completed(None, size))
    return np.asarray(velocity(dynamics, jnp.asarray(filled)))[:n, :d]


def weighted_velocities(model: Model, beta: float, x: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Velocity of each of at most `GRID` tokens in at most three coordinates, with their masses: one program again."""
    n, d = x.shape
    filled, weights = np.zeros((GRID, 3)), np.zeros(GRID)
    filled[:n, :d], filled[n:, :d], weights[:n] = x, x[0], masses
    return np.asarray(velocity(attention(model, beta, weights=weights), jnp.asarray(filled)))[:n, :d]


def speeds(model: Model, beta: float, x: np.ndarray, masses: np.ndarray | None = None) -> np.ndarray:
    """|velocity| of each token."""
    return np.linalg.norm(velocities(model, beta, x, masses), axis=-1)


def follow(
    model: Model,
    beta: float,
    x0: np.ndarray,
    times: np.ndarray,
    *,
    masses: np.ndarray | None = None,
    query: np.ndarray | None = None,
    key: np.ndarray | None = None,
    tol: float = 1e-10,
) -> np.ndarray:
    """Tokens of shape (len(times), n, d), starting from x0 at time 0."""
    n, d = x0.shape
    filled, weights = _filled(x0, masses)
    size = len(filled)
    dynamics = attention(model, beta, weights=weights, query=_completed(query, size), key=_completed(key, size))
    grid = _refined(times)
    run = evolve(dynamics, filled, saveat=grid, tol=tol, progress=False)
    if not run.status.complete:
        raise SphereflowError(f"a particle run of this paper did not finish: {run.status.value}")
    return np.asarray(run.xs)[np.searchsorted(grid, times)][:, :n, :d]


def gaps(xs: np.ndarray) -> np.ndarray:
    """1 - <x_i, x_j> for i < j (pairs on the last axis), from differences so that small gaps keep their digits."""
    i, j = np.triu_indices(xs.shape[-2], k=1)
    return np.sum((xs[..., i, :] - xs[..., j, :]) ** 2, axis=-1) / 2


def uniform_tokens(seed: int, *shape: int) -> np.ndarray:
    """Normalised Gaussian vectors."""
    x = np.random.default_rng(seed).normal(size=shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _filled(x: np.ndarray, masses: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    n, d = x.shape
    size = max(_SIZE, n, d)
    filled, weights = np.zeros((size, size)), np.zeros(size)
    filled[:n, :d], filled[n:, :d] = x, x[0]
    weights[:n] = 1 / n if masses is None else masses
    return filled, weights


def _completed(matrix: np.ndarray | None, size: int) -> np.ndarray:
    full = np.eye(size)
    if matrix is not None:
        full[: matrix.shape[0], : matrix.shape[1]] = matrix
    return full


def _refined(times: np.ndarray) -> np.ndarray:
    """The times from 0 on, with intermediate ones that bring their number to a fixed one."""
    grid = np.union1d(0.0, times)
    while len(grid) < _FRAMES:
        widest = int(np.argmax(np.diff(grid)))
        grid = np.insert(grid, widest + 1, (grid[widest] + grid[widest + 1]) / 2)
    return grid
