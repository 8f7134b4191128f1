r"""Weights that are constant on time intervals, as the layers of a network with several blocks.

$$\dot x = f_k(x) \quad\text{for}\quad t_k \le t < t_{k+1}.$$
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.dynamics.base import Dynamics
from sphereflow.errors import SphereflowError
from sphereflow.shapes import ArrayLike


class PiecewiseConstant(Dynamics):
    """Dynamics of one kind whose parameters switch at given times.

    **Arguments:**

    - `switches`: increasing times t_1 < ... < t_{m-1} at which piece k+1 takes over from piece k.
    - `pieces`: m dynamics of the same type and shapes; the first holds before t_1, the last after t_{m-1}.
    """

    switches: Float[Array, "m_minus_1"]
    stacked: Dynamics

    def __init__(self, switches: ArrayLike, pieces: Sequence[Dynamics]):
        times = jnp.asarray(switches, dtype=float)
        if len(pieces) != times.shape[0] + 1:
            raise SphereflowError(f"{len(pieces)} pieces need {len(pieces) - 1} switching times, got {times.shape[0]}.")
        if not bool(jnp.all(jnp.diff(times) > 0)):
            raise SphereflowError("the switching times must increase.")
        if len({jax.tree.structure(piece) for piece in pieces}) != 1:
            raise SphereflowError("all pieces must be of the same kind, with the same parts present.")
        if pieces[0].space != "sphere":
            raise SphereflowError("piecewise-constant weights are for dynamics on the sphere.")
        self.switches = times
        self.stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pieces)

    def piece(self, t: Float[Array, ""] | float) -> Dynamics:
        """The dynamics in force at time t."""
        index = jnp.searchsorted(self.switches, t, side="right")
        return jax.tree.map(lambda leaf: leaf[index], self.stacked)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return self.piece(t).field(t, x)

    @property
    def jump_times(self) -> Float[Array, "k"] | None:
        return self.switches
