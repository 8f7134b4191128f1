r"""One verb for every sum over tokens.

$$\mathrm{average}_i = \frac{\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)} v_j}
                            {\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)}}, \qquad
  \log Z_i = \log\sum_j w_j\,p_{ij}\,e^{\beta(\langle q_i,k_j\rangle-1)}.$$
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.interaction.masks import Mask


class Attended(NamedTuple):
    """The softmax average of the values and the logarithm of its denominator (peak convention)."""

    average: Float[Array, "m p"]
    log_partition: Float[Array, m]


def attend(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, n] | None = None,
    mask: Mask | None = None,
) -> Attended:
    """Attention of every query to every key; rows that see nothing give a zero average and log Z = -inf."""
    n = keys.shape[0]
    logits = beta * (queries @ keys.T - 1)
    if mask is not None:
        logits = logits + mask.log_weight(jnp.arange(queries.shape[0])[:, None], jnp.arange(n)[None, :])
    w = jnp.full(n, 1 / n, logits.dtype) if weights is None else weights
    top = jnp.max(logits, axis=1, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0)
    scores = jnp.exp(logits - top)
    folded = scores @ jnp.concatenate([w[:, None] * values, w[:, None]], axis=1)
    total = folded[:, -1]
    seen = total > 0
    safe = jnp.where(seen, total, 1)
    return Attended(folded[:, :-1] / safe[:, None], jnp.where(seen, jnp.log(safe) + top[:, 0], -jnp.inf))
