r"""What is asked of an engine, in one record.

$$\mathrm{average}_i = \frac{\sum_j w_j\,p_{ij}\,k(\langle q_i,k_j\rangle)\,v_j}
                            {\left|\sum_j w_j\,p_{ij}\,k(\langle q_i,k_j\rangle)\right|}, \qquad
  \log Z_i = \log\left|\sum_j w_j\,p_{ij}\,k(\langle q_i,k_j\rangle)\right|.$$
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError
from sphereflow.interaction.masks import Mask
from sphereflow.kernels import EXPONENTIAL, Kernel
from sphereflow.parameters import array, known
from sphereflow.shapes import ArrayLike


class Request(eqx.Module):
    """m queries, n keys with their values, and how they meet.

    - `kernel` at the inverse temperature `beta`, positional weights `mask` (None: all 1).
    - `weights`: masses of the keys; None is 1/n each.
    - `self_attention`: the query at position i is the key at position i, all are unit vectors, and $w_i > 0$.
    - `divide`: divide the sums by |Z|; a kernel of both signs has sums where Z = 0.
    """

    queries: Float[Array, "m d"]
    keys: Float[Array, "n d"]
    values: Float[Array, "n p"]
    beta: Float[Array, ""] | float
    weights: Float[Array, " n"] | None = None
    mask: Mask | None = None
    kernel: Kernel = eqx.field(static=True, default=EXPONENTIAL)
    self_attention: bool = eqx.field(static=True, default=False)
    divide: bool = eqx.field(static=True, default=True)


def checked(
    queries: ArrayLike, keys: ArrayLike, values: ArrayLike, weights: ArrayLike | None
) -> tuple[Array, Array, Array, Array | None]:
    """Arrays that go together, or one sentence about what does not."""
    q, k, v = _rows({"queries": queries, "keys": keys, "values": values})
    w = None if weights is None else _weights(weights)
    _check_shapes(q, k, v, w)
    return q, k, v, w


def _rows(named: dict[str, ArrayLike]) -> list[Array]:
    """Arrays in their own precision, lists as arrays; what was one array for two roles stays one."""
    made: dict[int, Array] = {}
    for name, given in named.items():
        if id(given) not in made:
            plain = isinstance(given, (jax.Array, np.ndarray)) and given.ndim == 2
            made[id(given)] = jnp.asarray(given) if plain else array(name, given, "n d")
    return [made[id(given)] for given in named.values()]


def _weights(given: ArrayLike) -> Array:
    w = given if isinstance(given, jax.Array) else array("weights", given, "n")
    # In NumPy, since operations of JAX on known numbers are traced as well where a function around them is.
    if known(w) and not (np.asarray(w) >= 0).all():
        raise SphereflowError(f"weights must be masses, at least 0; got {float(np.min(np.asarray(w))):g}.")
    return w


def _check_shapes(queries: Array, keys: Array, values: Array, weights: Array | None) -> None:
    if 0 in (*queries.shape, *keys.shape):
        raise SphereflowError(f"attention needs queries and keys, got shapes {queries.shape} and {keys.shape}.")
    if keys.shape[1] != queries.shape[1]:
        raise SphereflowError(
            f"queries and keys must have the same dimension d, got shapes {queries.shape} and {keys.shape}."
        )
    if values.shape[0] != keys.shape[0]:
        raise SphereflowError(f"there must be one value per key, got {values.shape[0]} for {keys.shape[0]} keys.")
    if weights is not None and weights.shape != keys.shape[:1]:
        raise SphereflowError(f"weights must have shape ({keys.shape[0]},), one per key, got {weights.shape}.")
