r"""What a Light Schroedinger Bridge does between its ends: paths, and the law of the position at any time.

Paths are drawn in two ways that have one law: end points $y$ from the plan and a Brownian bridge between,
$X_t=(1-t)x+ty+\sqrt\epsilon\,(W_t-tW_1)$, which is exact at every time; or Euler-Maruyama steps of
$dX=b(X,t)\,dt+\sqrt\epsilon\,dW$, which have an error of the order of the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from sphereflow.drifting.inputs import moderate
from sphereflow.drifting.lightsb import LightBridge
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, key_from, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("bridge", "euler")
_ALIKE = 1e-9  # times closer than this are one


@dataclass(frozen=True, eq=False, repr=False)
class BridgePaths(Result):
    """Positions (times, rows, D) of paths that start at given rows."""

    times: Float[np.ndarray, " T"]
    positions: Float[np.ndarray, "T n D"]

    def variables(self) -> Variables:
        return {"time": ("time", self.times), "positions": (("time", "path", "coordinate"), self.positions)}

    def facts(self) -> list[str]:
        far = float(np.mean(np.sum((self.positions[-1] - self.positions[0]) ** 2, axis=1)))
        return [
            f"{self.positions.shape[1]} paths in dimension {self.positions.shape[2]} at {len(self.times)} times",
            f"mean squared distance from t = {self.times[0]:g} to t = {self.times[-1]:g}: {far:.4g}",
        ]

    def plot(self) -> Figure:
        """Starts, some paths and ends in the plane of the first two coordinates, or against time on the line."""
        from sphereflow.drifting.pictures import trajectories

        return trajectories(self.positions, self.times)


@recorded_call
def bridge_paths(
    bridge: LightBridge,
    x0: ArrayLike,
    *,
    saveat: ArrayLike = (0.0, 0.25, 0.5, 0.75, 1.0),
    method: str = "bridge",
    steps: int = 100,
    seed: Seed = 0,
) -> BridgePaths:
    """One path from every row of x0, at increasing times in [0, 1]: samples of the marginals there.

    `method="bridge"` is exact, `"euler"` takes at least `steps` equal steps, which end at the times asked for.
    """
    one_of("method", method, METHODS)
    steps = whole_number("steps", steps, most=10**6)
    start = _rows("x0", x0, bridge)
    times = moderate("saveat", saveat, shape=("T",))
    if times[0] < 0 or times[-1] > 1 or np.any(np.diff(times) <= _ALIKE):
        raise SphereflowError("saveat must be increasing times between 0 and 1.")
    key = key_from(seed)
    if method == "bridge":
        positions = np.asarray(_pinned(bridge, start, jnp.asarray(times), key))
    else:
        # A stream of its own: starts are often drawn by the plain generator of the same seed.
        positions = _euler(bridge, np.asarray(start), times, steps, rng_from(seed, 1))
    return BridgePaths(times, positions)


def bridge_log_density(bridge: LightBridge, x0: ArrayLike, places: ArrayLike, t: float) -> Float[np.ndarray, " m"]:
    r"""$\log\frac1n\sum_ip_t(y\,|\,x_i)$ at every place y: the marginal at time 0 < t <= 1 of starts at the rows x0."""
    t = real_number("t", t, above=0, most=1)
    start, where = _rows("x0", x0, bridge), _rows("places", places, bridge)
    return np.asarray(_marginal(bridge, start, where, jnp.asarray(t)))


def _rows(name: str, given: ArrayLike, bridge: LightBridge) -> Array:
    if not isinstance(bridge, LightBridge):
        raise SphereflowError(f"bridge must be a LightBridge, got {type(bridge).__name__}.")
    return jnp.asarray(moderate(name, given, shape=("n", bridge.centres.shape[1])))


@eqx.filter_jit
def _pinned(bridge: LightBridge, x: Array, times: Array, key: Array) -> Array:
    plan, noise = jax.random.split(key)
    y = bridge.sample(x, plan)
    # A Brownian motion at the times and at one, then tied down.
    gaps = jnp.diff(jnp.concatenate([jnp.zeros(1), times, jnp.ones(1)]))
    shaken = jnp.cumsum(jnp.sqrt(gaps)[:, None, None] * jax.random.normal(noise, (len(gaps), *x.shape)), axis=0)
    t = times[:, None, None]
    return (1 - t) * x + t * y + jnp.sqrt(bridge.epsilon) * (shaken[:-1] - t * shaken[-1])


def _euler(bridge: LightBridge, x: np.ndarray, times: np.ndarray, steps: int, rng: np.random.Generator) -> np.ndarray:
    """Only the positions asked for are kept; the drift is the one program that is compiled."""
    grid = np.linspace(0, 1, steps + 1)
    apart = np.min(np.abs(grid[:, None] - times), axis=1) > _ALIKE
    grid = np.sort(np.concatenate([grid[apart], times]))
    # The first time of the grid is zero, or so close to it that it stands for it.
    frames = [x] if grid[0] in times else []
    for t, after in pairwise(grid[grid <= times[-1]]):
        gap = after - t
        noise = np.sqrt(bridge.epsilon * gap) * rng.normal(size=x.shape)
        x = x + gap * np.asarray(bridge.drift(jnp.asarray(x), t)) + noise
        if after in times:
            frames.append(x)
    return np.stack(frames)


@eqx.filter_jit
def _marginal(bridge: LightBridge, x: Array, places: Array, t: Array) -> Array:
    def one(y: Array) -> Array:
        return jax.scipy.special.logsumexp(bridge.log_transition(x, jnp.broadcast_to(y, x.shape), t))

    return jax.lax.map(one, places) - jnp.log(len(x))
