r"""Networks that map a point in one pass: noise to a sample, or a sample of one law to another.

$$ f_\theta(\epsilon)=\mathrm{MLP}(\epsilon)\ \text{or, in translation,}\ f_\theta(x)=x+\mathrm{MLP}(x) . $$

the last layer of the translator starts at zero, so that it begins as the identity.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from sphereflow.errors import whole_number


class Generator(eqx.Module):
    """A multilayer perceptron with SiLU, or the identity plus one."""

    network: eqx.nn.MLP
    residual: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, *, width: int = 256, depth: int = 3, residual: bool = False, key: PRNGKeyArray
    ):
        whole_number("width", width)
        whole_number("depth", depth)
        network = eqx.nn.MLP(inputs, outputs, width, depth, jax.nn.silu, key=key)
        if residual:
            last: Any = network.layers[-1]
            network = eqx.tree_at(
                lambda n: (n.layers[-1].weight, n.layers[-1].bias), network,
                (jnp.zeros_like(last.weight), jnp.zeros_like(last.bias)),
            )  # fmt: skip
        self.network = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, network)
        self.residual = residual

    @eqx.filter_jit
    def __call__(self, x: Float[Array, "n k"]) -> Float[Array, "n D"]:
        """All rows in one pass, in float32."""
        x = x.astype(jnp.float32)
        moved = jax.vmap(self.network)(x)
        return x + moved if self.residual else moved
