r"""Networks that map a point in one pass: noise to a sample, or a sample of one law to another.

$$ f_\theta(\epsilon)=\mathrm{MLP}(\epsilon)\ \text{or, in translation,}\ f_\theta(x)=x+\mathrm{MLP}(x) . $$

The last layer of the translator starts at zero, so that it begins as the identity.
"""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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
        # Drawn by NumPy, as PyTorch and Equinox do, uniform within one over the root of the inputs: the draws of JAX
        # would be a program to compile for every layer.
        shape = _shape(inputs, outputs, width, depth)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        layers = []
        for number, layer in enumerate(shape.layers):
            rows, columns = layer.weight.shape
            bound = 0.0 if residual and number == depth else 1 / np.sqrt(columns)
            drawn = [jnp.asarray(rng.uniform(-bound, bound, size), jnp.float32) for size in ((rows, columns), (rows,))]
            layers.append(eqx.tree_at(lambda one: (one.weight, one.bias), layer, drawn))
        self.network = eqx.tree_at(lambda one: one.layers, shape, tuple(layers))
        self.residual = residual

    @eqx.filter_jit
    def __call__(self, x: Float[Array, "n k"]) -> Float[Array, "n D"]:
        """All rows in one pass, in float32."""
        x = x.astype(jnp.float32)
        moved = jax.vmap(self.network)(x)
        return x + moved if self.residual else moved


@cache
def _shape(inputs: int, outputs: int, width: int, depth: int) -> eqx.nn.MLP:
    """A network without numbers in it."""
    return eqx.filter_eval_shape(eqx.nn.MLP, inputs, outputs, width, depth, jax.nn.silu, key=jax.random.key(0))
