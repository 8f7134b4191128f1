r"""Attention in linear time through an expansion of the kernel, with the error of the softmax ratio under control.

$$|\delta Z_i| \le (T+u)\,W_i, \qquad
  |\delta(M_i/Z_i)| \le \frac{2(T+u)\,W_i}{Z_i}\,\max_j|v_j|, \qquad W_i=\sum_j p_{ij}w_j,$$

where T bounds the error of the kernel by truncation and u that by rounding. In self-attention $Z_i\ge w_i$, so a T of
tol/n is enough; but a query far from all keys has a Z that no series in double precision can resolve. Rows whose bound
exceeds the tolerance are therefore computed again by the direct sum: what comes back is accurate or exact, never noise.
In self-attention few rows can be affected, since those near a token they see often have a large Z.

Derivatives are again kernel sums, with more charges: $\partial_q\sum_j e^{\beta(\langle q,k_j\rangle-1)}c_j =
\beta\sum_j e^{\beta(\langle q,k_j\rangle-1)}c_j\otimes k_j$. No feature is ever differentiated, so they are as accurate
as the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal import unvmap_any
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import DTypeLike

from sphereflow.errors import SphereflowError
from sphereflow.interaction.causal import causal_sums, prefix_mass
from sphereflow.interaction.direct import Attended, default_block, direct_attention
from sphereflow.interaction.masks import Alibi, Causal, Mask
from sphereflow.interaction.modes import Expansion, direction, evaluate_all, project_all

# Rows computed again are taken this many at a time.
RESCUE = 64


class Expanded(NamedTuple):
    """What `attend` returns, with a bound of its relative error and the number of rows that were computed directly.

    The bound holds for Z relative to itself and for the average relative to the largest value.
    """

    attended: Attended
    error_bound: Float[Array, ""]
    recomputed: Int[Array, ""]


def kernel_error(tol: float, n: int, dtype: DTypeLike = np.float64) -> float:
    """The error of the kernel to aim at: tol/n is safe for self-attention, less than rounding is of no use."""
    return max(tol / (4 * n), float(np.finfo(np.dtype(dtype)).eps) / 4)


@dataclass(frozen=True)
class Plan:
    """An expansion and the part of the mask that is known before any number is."""

    expansion: Expansion
    causal: bool = False
    strict: bool = False

    @classmethod
    def of(cls, expansion: Expansion, mask: Mask | None) -> Plan:
        if mask is None:
            return cls(expansion)
        if not isinstance(mask, Causal | Alibi):
            raise SphereflowError(
                f"expansions serve the masks Causal and Alibi, or none; got {type(mask).__name__}: use method='direct'."
            )
        if expansion.whole:
            raise SphereflowError("the non-uniform FFT has no causal form: use the pure-JAX expansion.")
        return cls(expansion, causal=True, strict=mask.strict)


@partial(jax.jit, static_argnames=("expansion", "rescue"))
def expand(
    expansion: Expansion,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, " n"] | None = None,
    mask: Mask | None = None,
    tol: Float[Array, ""] | float = 1e-9,
    rescue: bool = True,
) -> Expanded:
    """`attend` through `expansion`, for unit keys (and unit queries, unless the expansion takes any).

    Rows whose error bound exceeds `tol` are computed directly; `rescue=False` leaves them as they are (enough for
    unnormalised attention, whose error is absolute) and the bound then says how bad the worst is.
    """
    plan = Plan.of(expansion, mask)
    if plan.causal and queries.shape[0] != keys.shape[0]:
        raise SphereflowError(
            f"linear-time causal attention needs one query per key, got {queries.shape[0]} and {keys.shape[0]}."
        )
    dtype = jnp.result_type(queries, keys, values)
    queries, keys, values, beta = (jnp.asarray(x, dtype) for x in (queries, keys, values, beta))
    slope = jnp.asarray(mask.slope, dtype) if isinstance(mask, Alibi) else None
    n = keys.shape[0]
    # Equal weights enter as ones, whose sums are exact, and are divided out at the end.
    w = jnp.ones(n, dtype) if weights is None else jnp.asarray(weights, dtype)
    log_unit = -jnp.log(jnp.asarray(n, dtype)) if weights is None else jnp.zeros((), dtype)
    columns = jnp.concatenate([w[:, None] * values, w[:, None]], axis=1)
    sums = kernel_sums(plan, queries, keys, columns, beta, slope)
    total = sums[:, -1]

    mass = jax.lax.stop_gradient(prefix_mass(w, slope, plan.strict) if plan.causal else jnp.sum(w))
    relative, shift = row_error(expansion, queries, beta)
    error = relative * mass
    doubtful = jax.lax.stop_gradient(total) * tol < error
    good = (total > 0) & ~doubtful if rescue else total > 0
    safe = jnp.where(good, total, 1)
    average = jnp.where(good[:, None], sums[:, :-1] / safe[:, None], 0)
    log_z = jnp.where(good, jnp.log(safe) + shift, -jnp.inf)
    bound = jnp.max(jnp.where(good, error / safe, 0 if rescue else jnp.inf))
    redo = ~good & (jnp.broadcast_to(mass, good.shape) > 0) if rescue else jnp.zeros_like(good)
    if rescue:
        average, log_z = _rescue(redo, Attended(average, log_z), queries, keys, values, beta, w, mask)
    return Expanded(Attended(average, log_z + log_unit), jax.lax.stop_gradient(bound), jnp.sum(redo))


def row_error(
    expansion: Expansion, queries: Float[Array, "m d"], beta: Float[Array, ""]
) -> tuple[Float[Array, "#m"], Float[Array, "#m"]]:
    r"""$2(T+u)$ for each row, and the logarithm $\beta(|q|-1)$ of the factor that its sums are without."""
    beta = jax.lax.stop_gradient(beta)
    if not expansion.any_query:
        return jnp.reshape(2 * (expansion.tail(beta) + expansion.rounding(beta)), 1), jnp.zeros(1, beta.dtype)
    length = jax.lax.stop_gradient(direction(queries)[1])
    return 2 * (expansion.tail(beta * length) + expansion.rounding(beta * length)), beta * (length - 1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel_sums(
    plan: Plan,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
    slope: Float[Array, ""] | None,
) -> Float[Array, "m c"]:
    r"""$\sum_j p_{ij}e^{\beta(\langle q_i,k_j\rangle-|q_i|)}c_j$; derivatives take $e^{-\beta|q_i|}$ as constant."""
    return _sums(plan, queries, keys, columns, beta, slope)


def _sums(plan: Plan, queries: Array, keys: Array, columns: Array, beta: Array, slope: Array | None) -> Array:
    if plan.causal:
        return causal_sums(plan.expansion, queries, keys, columns, beta, slope, plan.strict)
    weighed = plan.expansion.weigh(project_all(plan.expansion, keys, columns), beta)
    return evaluate_all(plan.expansion, queries, weighed, beta, columns.shape[1])


@kernel_sums.defjvp
def _kernel_sums_jvp(plan: Plan, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    queries, keys, columns, beta, slope = primals
    d_queries, d_keys, d_columns, d_beta, d_slope = tangents
    c = columns.shape[1]
    position = jnp.arange(keys.shape[0], dtype=keys.dtype)[:, None]
    charges = [columns, *(keys[:, a : a + 1] * columns for a in range(keys.shape[1]))]
    moving = [d_columns, *(d_keys[:, a : a + 1] * columns for a in range(keys.shape[1]))]
    if slope is not None:
        charges.append(position * columns)
    fixed = kernel_sums(plan, queries, keys, jnp.concatenate(charges, axis=1), beta, slope)
    moved = _sums(plan, queries, keys, jnp.concatenate(moving, axis=1), beta, slope)
    fixed, moved = (x.reshape(x.shape[0], -1, c).swapaxes(0, 1) for x in (fixed, moved))
    d = queries.shape[1]
    along = jnp.einsum("ma,amc->mc", queries, fixed[1 : d + 1])
    change = moved[0] + d_beta * (along - fixed[0])
    change = change + beta * jnp.einsum("ma,amc->mc", queries, moved[1:])
    change = change + beta * jnp.einsum("ma,amc->mc", d_queries, fixed[1 : d + 1])
    if slope is not None:
        change = change + d_slope * (fixed[-1] - position * fixed[0])
    return fixed[0], change


class _Rows(Mask):
    """Some rows of another mask."""

    mask: Mask
    rows: Int[Array, " r"]

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return self.mask.log_weight(self.rows[i], j)


def _rescue(
    redo: Bool[Array, " m"],
    attended: Attended,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""],
    weights: Float[Array, " n"],
    mask: Mask | None,
) -> Attended:
    """Put the direct sum into the rows marked; costs nothing if there are none."""
    m = redo.shape[0]
    size = min(RESCUE, m)

    def some_rows(order: Int[Array, " r"]) -> Attended:
        rows = jnp.minimum(order, m - 1)

        def compute() -> Attended:
            row_mask = None if mask is None else _Rows(mask, rows)
            return direct_attention(queries[rows], keys, values, beta, weights, row_mask, block=default_block())

        def skip() -> Attended:
            return jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), attended)

        return jax.lax.cond(unvmap_any(order[0] < m), compute, skip)

    def all_rows() -> Attended:
        # Marked rows first, then fillers beyond the end, which are not written.
        order = jnp.nonzero(redo, size=m + -m % size, fill_value=m)[0]
        exact = jax.lax.map(some_rows, order.reshape(-1, size))
        return jax.tree.map(
            lambda old, new: old.at[order].set(new.reshape(-1, *old.shape[1:]), mode="drop"), attended, exact
        )

    return jax.lax.cond(unvmap_any(jnp.any(redo)), all_rows, lambda: attended)
