r"""Discrete Transformers, layer by layer.

$$x_i \leftarrow \frac{x_i + h\,A_i(x)}{|x_i + h\,A_i(x)|},\qquad A_i = \text{attention output, not projected.}$$

This is not the flow: with h = 0.1 collapse times are late by several per cent. Use it to study the layer map. A list of
blocks, each with weights of its own, is run as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.dynamics import Attention, Block
from sphereflow.dynamics.blocks import chain, start
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import normalise, tokens


def run_layers(
    model: Attention | Sequence[Block], x0: ArrayLike, layers: int | None = None, step: float | None = None
) -> Float[Array, "layers_plus_1 *batch n d"]:
    """Tokens after 0, 1, ..., L layers of a discrete network.

    **Arguments:**

    - `model`: attention such as `SA(beta)`, the same in every layer: one step of size `step` (0.1 by default) and one
      normalisation for each of `layers` layers, from unit tokens (n, d). Or a list of `Block`, one per layer: neither
      `layers` nor `step` is given then.
    - `x0`: for blocks, tokens (n, d) or (..., n, d) of any length.

    Blocks are run by a pure function: it can be compiled, mapped and differentiated in x0 and in the weights, and keeps
    float32.
    """
    if isinstance(model, (list, tuple)):
        blocks = chain(model)
        for name, given in (("layers", layers), ("step", step)):
            if given is not None:
                raise SphereflowError(f"{name} is for attention that is the same in every layer, not for blocks.")
        frames = [start(x0, blocks)]
        for block in blocks:
            frames.append(block(frames[-1]))
        return jnp.stack(frames)
    if not isinstance(model, Attention):
        raise SphereflowError(f"layers are defined for attention or a list of blocks, not for {type(model).__name__}.")
    count = whole_number("layers", layers, least=0)
    size = real_number("step", 0.1 if step is None else step, above=0)
    x = tokens(x0, "x0")
    if x.ndim != 2:
        raise SphereflowError(f"x0 must be tokens of shape (n, d), got {x.shape}.")
    return jnp.concatenate([x[None], _scan_layers(model, x, jnp.asarray(size, x.dtype), count)])


@eqx.filter_jit
def _scan_layers(model: Attention, x0: Array, step: Array, count: int) -> Array:
    def layer(x: Array, _: None) -> tuple[Array, Array]:
        moved = normalise(x + step * model.pull(x))
        return moved, moved

    return jax.lax.scan(layer, x0, None, length=count)[1]
