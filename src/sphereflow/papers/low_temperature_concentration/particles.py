r"""Tokens on the circle with values V and scores $\beta x^\top By$, from quantile points, in fixed steps.

All runs share one compiled program per number of tokens and of saved times.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import SA
from sphereflow.meanfield.circle_density import OnCircle
from sphereflow.meanfield.initial import starting_law
from sphereflow.meanfield.quantiles import midpoints
from sphereflow.meanfield.zero_temperature import ZeroTemperature
from sphereflow.solving import CONSTANT, FORWARD, SOLVERS, solve

FRAMES = 67  # saved times of every quick run
TOKENS = 600

# V and M = V B^T have different leading eigenvectors: tokens gather at +-e2, then leave for +-e1.
SPLIT_V, SPLIT_B = np.diag([1.0, 0.5]), np.diag([0.2, 1.0])
# V and M agree: tokens gather at +-e1 and stay.
SHARED_V = np.diag([1.0, 0.3])


def tilted(theta: np.ndarray) -> np.ndarray:
    r"""$1+0.3\cos\theta+0.2\sin\theta$."""
    return 1 + 0.3 * np.cos(theta) + 0.2 * np.sin(theta)


def equispaced(n: int) -> Float[np.ndarray, " n"]:
    """Midpoints of n equal arcs."""
    return 2 * np.pi * midpoints(n)


@lru_cache(maxsize=8)
def quantile_points(n: int) -> Float[np.ndarray, " n"]:
    """Quantile points of the tilted density; masses are counted from the angle 0, as in the reference runs."""
    law = starting_law(tilted)
    return law.quantiles(np.sort(np.mod(midpoints(n) + law.cumulative(np.zeros(1)), 1)))


def follow(
    beta: float,
    value: np.ndarray,
    form: np.ndarray,
    start: Float[np.ndarray, " n"],
    times: Float[np.ndarray, " T"],
    dt: float,
) -> Float[np.ndarray, "T n"]:
    """Angles of the tokens at equally spaced times that are whole numbers of steps apart."""
    model = OnCircle(SA(beta, value=value, query=form.T))
    method = SOLVERS["tsit5"][0]
    found = solve(model, start[:, None], times, solver=method, controller=CONSTANT, first_step=dt, adjoint=FORWARD)
    return np.asarray(found.xs)[:, :, 0]


def wrapped(angle: np.ndarray) -> np.ndarray:
    """Angles reduced to [-pi, pi)."""
    return np.mod(angle + np.pi, 2 * np.pi) - np.pi


def axis_distance(angles: np.ndarray, axis: float) -> np.ndarray:
    """Root mean square angle to the nearer of the two points of an axis, over the last dimension."""
    off = np.mod(angles - axis + np.pi / 2, np.pi) - np.pi / 2
    return np.asarray(np.sqrt(np.mean(off**2, axis=-1)))


def follow_limit(
    value: np.ndarray, form: np.ndarray, start: Float[np.ndarray, " n"], times: Float[np.ndarray, " T"]
) -> Float[np.ndarray, "T n"]:
    """The same at zero temperature, where every token moves alone; steps are chosen by the error."""
    model = OnCircle(ZeroTemperature(value, form))
    return np.asarray(solve(model, start[:, None], times, tol=1e-10, adjoint=FORWARD).xs)[:, :, 0]
