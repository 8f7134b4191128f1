r"""One verb for every sum over tokens.

$$\mathrm{average}_i = \frac{\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)} v_j}
                            {\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)}}, \qquad
  \log Z_i = \log\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)}.$$
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, one_of
from sphereflow.interaction.choose import METHODS, Choice, choose
from sphereflow.interaction.direct import Attended, default_block, direct_attention
from sphereflow.interaction.linear import expand
from sphereflow.interaction.masks import Mask
from sphereflow.parameters import array, known
from sphereflow.shapes import ArrayLike


def attend(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, "n"] | None = None,
    mask: Mask | None = None,
    self_attention: bool = False,
    method: str = "auto",
    tol: float = 1e-9,
    engine: Choice | None = None,
) -> Attended:
    r"""$\sum_j A_{ij} v_j$ with $A_{ij} \propto w_j\,p_{ij}\,e^{\beta\langle q_i,k_j\rangle}$, for every query.

    **Arguments:**

    - `queries`, `keys`, `values`: m queries, n keys with their values. Any vectors; unit vectors are the usual case.
    - `beta`: the inverse temperature, at least 0.
    - `weights`: mass $w_j \ge 0$ of each key, 1/n by default.
    - `mask`: positional weights $p_{ij}$, 1 by default.
    - `self_attention`: a promise that makes the sum faster: the query at position i is the key at position i, all are
      unit vectors up to rounding, and $w_i > 0$. Each row then holds a term of size $w_i$ and no shift of the
      exponent is needed (unless the mask hides a token from itself, which is noticed). If `queries` and `keys` are
      the very same array and there is no mask, each pair is moreover computed once for both its rows.

    - `method`: "direct" sums every pair; "fourier" (circle), "harmonic" (S^2) and "polynomial" (few dimensions, small
      beta) take linear time; "auto" chooses the fastest that keeps the tolerance. Naming one of the last three
      promises unit vectors; "auto" considers them in self-attention only, where that is promised already.
    - `tol`: relative error of Z, and of the average relative to the largest value, in the linear-time methods.
    - `engine`: a choice made before (`choose`), needed where beta is traced: the number of modes must be known then.

    **Returns:** the average, and log Z. Rows that see nothing give a zero average and log Z = -inf.

    Time grows as m n in the direct method, memory as m + n. Both results can be differentiated in all arguments,
    forwards and backwards, and no m x n array appears there either.
    """
    queries, keys, values = _rows({"queries": queries, "keys": keys, "values": values})
    weights = None if weights is None else _weights(weights)
    _check_shapes(queries, keys, values, weights)
    one_of("method", method, METHODS)
    if engine is None and method != "direct":
        engine = _choice(queries, keys, values, beta, mask, self_attention, method, tol)
    if engine is not None and engine.expansion is not None:
        accuracy = engine.error_bound
        return expand(
            engine.expansion, queries, keys, values, beta, weights=weights, mask=mask, tol=accuracy
        ).attended  # fmt: skip
    symmetric = self_attention and queries is keys
    plain = symmetric and values is keys and weights is None
    bounded = self_attention and (mask is None or mask.sees_itself)
    dtype = jnp.result_type(queries, keys, values)
    queries, keys, values, beta = (jnp.asarray(x, dtype) for x in (queries, keys, values, beta))
    n = keys.shape[0]
    w = jnp.full(n, 1 / n, dtype) if weights is None else jnp.asarray(weights, dtype)
    promises = {"bounded": bounded, "symmetric": symmetric, "plain": plain}
    return direct_attention(queries, keys, values, beta, w, mask, **promises, block=default_block())


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
    if known(w) and not bool((w >= 0).all()):
        raise SphereflowError(f"weights must be masses, at least 0; got {float(jnp.min(w)):g}.")
    return w


def _choice(
    queries: Array,
    keys: Array,
    values: Array,
    beta: Array | float,
    mask: Mask | None,
    self_attention: bool,
    method: str,
    tol: float,
) -> Choice | None:
    """The engine for this request; None is the direct sum, where nothing else can be considered."""
    if method == "auto" and (not self_attention or isinstance(beta, jax.core.Tracer)):
        return None
    with jax.ensure_compile_time_eval():  # the request is known, even while a function around it is being traced
        return choose(
            queries.shape[0],
            keys.shape[0],
            keys.shape[1],
            None if isinstance(beta, jax.core.Tracer) else float(beta),
            mask=mask,
            tol=tol,
            method=method,
            columns=values.shape[1] + 1,
            dtype=str(jnp.result_type(queries, keys, values)),
            self_attention=self_attention,
        )


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
