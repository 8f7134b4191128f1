r"""Retrieval by gradient flow on the sphere: every query slides down the energy of the memory.

$$\dot y=-P_y\nabla H(\sqrt N y)/\sqrt N,\qquad |y|=1.$$

For LSE the velocity is $P_y$ of the softmax average of the unit patterns: one layer of cross-attention, with no
interaction between the queries. Solved by `sphereflow.evolve`; the token axis is the axis of queries.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.dynamics import Dynamics, Traits
from sphereflow.memory.energies import Energy
from sphereflow.sphere import project


class Retrieval(Dynamics):
    r"""Queries y (unit vectors) in the energy landscape of `patterns` (length $\sqrt N$)."""

    traits = Traits(masses="any", gradient=1.0)
    memory: Energy
    patterns: Float[Array, "M N"]

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        root = jnp.sqrt(x.shape[-1])
        return project(x, -self.memory.gradient(root * x, self.patterns) / root)

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        r"""$-\sum_i w_iH(\sqrt N y_i)/N$, with equal weights 1/n if none are given: increases along the flow."""
        each = -self.memory.energy(jnp.sqrt(x.shape[-1]) * x, self.patterns) / x.shape[-1]
        return jnp.mean(each) if weights is None else jnp.sum(weights * each)
