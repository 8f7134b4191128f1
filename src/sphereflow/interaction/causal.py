r"""Causal attention in linear time: moments of the past, carried along the sequence.

$$\sum_{j\le i}e^{-\lambda(i-j)}k_\beta(\langle q_i,k_j\rangle)\,c_j
  = \underbrace{\sum_{j\ge s}\cdots}_{\text{own chunk, pair by pair}}
  + e^{-\lambda(i-s)}\sum_a\phi_a(q_i)\,g_a\,A_a(s),\qquad
  A(s+C)=e^{-\lambda C}A(s)+\sum_{s\le j<s+C}e^{-\lambda(s+C-j)}\phi(k_j)\,c_j .$$

The chunk that holds token i starts at s. Tokens of the same chunk meet directly, so each of them sees exactly those
before it; the past enters through a first-order recursion of moments (lambda = 0 without positional weights).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.interaction.modes import Expansion, split


def causal_sums(
    expansion: Expansion,
    queries: Float[Array, "n d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
    slope: Float[Array, ""] | None,
    strict: bool,
    before: Array | None = None,
) -> Float[Array, "n c"]:
    r"""$\sum_{j\le i}p_{ij}k_\beta(\langle q_i,k_j\rangle)\,c_j$ for every i (j < i if strict), as `evaluate` has it.

    `before` are moments of tokens that stand in front of the first, where it sees them.
    """
    n = keys.shape[0]
    size = min(expansion.causal_chunk, n)
    step = jnp.arange(size, dtype=keys.dtype)
    rate = jnp.zeros((), keys.dtype) if slope is None else slope
    distance = step[:, None] - step[None, :]
    visible = distance > 0 if strict else distance >= 0
    p = jnp.exp(jnp.where(visible, -rate * distance, -jnp.inf))
    to_here, to_end, over = jnp.exp(-rate * step), jnp.exp(-rate * (size - step)), jnp.exp(-rate * size)

    coefficients = expansion.coefficients(beta)

    @jax.checkpoint
    def one_chunk(past: Array, part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        q, k, c = part
        here = (p * expansion.pairs(q, k, beta)) @ c
        before = to_here[:, None] * expansion.evaluate(q, expansion.weigh(past, coefficients), beta)
        return over * past + expansion.project(k, to_end[:, None] * c), here + before

    start = jnp.zeros_like(expansion.project(keys[:1], columns[:1])) if before is None else before
    parts = tuple(split(x, size) for x in (queries, keys, columns))
    return jax.lax.scan(one_chunk, start, parts)[1].reshape(-1, columns.shape[1])[:n]


def prefix_mass(weights: Float[Array, " n"], slope: Float[Array, ""] | None, strict: bool) -> Float[Array, " n"]:
    r"""$\sum_{j\le i}p_{ij}w_j$, the mass that token i sees (j < i if strict)."""
    decay = jnp.ones_like(weights) if slope is None else jnp.full_like(weights, jnp.exp(-slope))

    def join(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] * b[0], a[1] * b[0] + b[1]

    mass = jax.lax.associative_scan(join, (decay, weights))[1]
    return decay * jnp.concatenate([jnp.zeros_like(mass[:1]), mass[:-1]]) if strict else mass
