r"""The discrete Transformer itself: one Euler step and one layer normalisation per layer.

$$x_i \leftarrow \frac{x_i + h\,A_i(x)}{|x_i + h\,A_i(x)|},\qquad A_i = \text{attention output, not projected.}$$

This is not the flow: with h = 0.1 collapse times are late by several per cent. Use it to study the layer map.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.dynamics import Attention
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.sphere import normalise, tokens


def run_layers(
    model: Attention, x0: Float[Array, "n d"], layers: int, step: float = 0.1
) -> Float[Array, "layers_plus_1 n d"]:
    """Tokens after 0, 1, ..., `layers` layers of the discrete network."""
    if not isinstance(model, Attention):
        raise SphereflowError(f"layers are defined for attention, not for {type(model).__name__}.")
    count = whole_number("layers", layers, least=0)
    size = real_number("step", step, above=0)
    start = tokens(x0)
    return jnp.concatenate([start[None], _scan_layers(model, start, jnp.asarray(size), count)])


@eqx.filter_jit
def _scan_layers(model: Attention, x0: Array, step: Array, count: int) -> Array:
    def layer(x: Array, _: None) -> tuple[Array, Array]:
        moved = normalise(x + step * model.pull(x))
        return moved, moved

    return jax.lax.scan(layer, x0, None, length=count)[1]
