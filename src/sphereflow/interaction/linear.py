r"""Attention in linear time through an expansion of the kernel, with the error of the softmax ratio under control.

$$|\delta Z_i| \le (T+u)\,W_i, \qquad
  |\delta(M_i/Z_i)| \le \frac{2(T+u)\,W_i}{Z_i}\,\max_j|v_j|, \qquad W_i=\sum_j p_{ij}w_j,$$

where T is the error of the kernel by truncation and u that by rounding. In self-attention with the exponential
$Z_i\ge w_i$, so a T of tol/n is enough; but a query far from all keys has a Z that no series in double precision can
resolve. Rows whose bound exceeds the tolerance are therefore computed again by the direct sum: what comes back is
accurate or exact, never noise. In self-attention few rows can be affected, since those near a token they see often have
a large Z.

A kernel of both signs can have $|M_i|>|Z_i|\max_j|v_j|$: the average is then accurate relative to itself.

**Precision.** Of float32 tokens the sums are formed in float64. In float32 they could be certain of the kernel to some
30 units of rounding of its largest value, $u\approx4\cdot10^{-6}$, hence of the average to 2u/Z: 6e-5 on the circle and
2e-4 on S^2 at beta = 10 for uniform tokens, where Z is the mean of the kernel (0.13 and 0.05), and of nothing for a
token between two clusters, whose Z can be 1e-4 (measured errors: 3e-7, 7e-7 and 3e-4). Runs in float32 are asked for
1e-5. In float64 $u\approx10^{-14}$, and what remains is that the result is rounded, by 6e-8.

Derivatives are again kernel sums, with more charges: $\partial_q\sum_j k(\langle q,k_j\rangle)c_j =
\sum_j k'(\langle q,k_j\rangle)\,c_j\otimes k_j$, where $k'=\beta k$ for the exponential. No feature is ever
differentiated, so they are as accurate as the values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from sphereflow.interaction.modes import Expansion, direction, sums_by_chunks
from sphereflow.kernels import EXPONENTIAL, Derivative, Kernel

# Rows computed again are taken this many at a time.
RESCUE, ACCELERATOR_RESCUE = 64, 2048


class Expanded(NamedTuple):
    """What `attend` returns, with a bound of its relative error and the number of rows that were computed directly.

    The bound holds for Z relative to itself and for the average relative to the largest value.
    """

    attended: Attended
    error_bound: Float[Array, ""]
    recomputed: Int[Array, ""]


def working_precision(dtype: DTypeLike) -> np.dtype:
    """The type in which sums over such tokens are formed: float64, unless it has been switched off."""
    return np.dtype(jax.dtypes.canonicalize_dtype(jnp.promote_types(dtype, np.float64)))


def kernel_error(tol: float, n: int, dtype: DTypeLike = np.float64) -> float:
    """The error of the kernel to aim at: tol/n is safe for self-attention, less than rounding is of no use."""
    return max(tol / (4 * n), float(np.finfo(working_precision(dtype)).eps) / 4)


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

    def derivative(self, *, by_beta: bool = False) -> Plan:
        """The same for the derivative of the kernel in the inner product, or in beta."""
        return replace(self, expansion=self.expansion.of(Derivative(self.expansion.kernel, by_beta)))


@partial(jax.jit, static_argnames=("expansion", "rescue", "divide"))
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
    divide: bool = True,
) -> Expanded:
    """`attend` through `expansion`, for unit keys (and unit queries, unless the expansion takes any).

    Rows whose error bound exceeds `tol` are computed directly; `rescue=False` leaves them as they are (enough for
    unnormalised attention, whose error is absolute) and the bound then says how bad the worst is. Without `divide`
    the sums themselves come back, with an error relative to the largest value times |Z|, or to the sum if larger.
    """
    plan = Plan.of(expansion, mask)
    if plan.causal and queries.shape[0] != keys.shape[0]:
        raise SphereflowError(
            f"linear-time causal attention needs one query per key, got {queries.shape[0]} and {keys.shape[0]}."
        )
    given = jnp.result_type(queries, keys, values)
    dtype = working_precision(given)
    queries, keys, values, beta = (jnp.asarray(x, dtype) for x in (queries, keys, values, beta))
    slope = jnp.asarray(mask.slope, dtype) if isinstance(mask, Alibi) else None
    n = keys.shape[0]
    # Equal weights enter as ones, whose sums are exact, and are divided out at the end.
    w = jnp.ones(n, dtype) if weights is None else jnp.asarray(weights, dtype)
    log_unit = -jnp.log(jnp.asarray(n, dtype)) if weights is None else jnp.zeros((), dtype)
    columns = jnp.concatenate([w[:, None] * values, w[:, None]], axis=1)
    sums = kernel_sums(plan, queries, keys, columns, beta, slope)
    mass = jax.lax.stop_gradient(prefix_mass(w, slope, plan.strict) if plan.causal else jnp.sum(w))
    relative, shift = row_error(expansion, queries, beta)
    longest = jnp.max(jnp.sum(jax.lax.stop_gradient(values) ** 2, axis=1)) ** 0.5
    trusted = tol if rescue else jnp.inf
    found, errors = read_off(expansion.kernel, sums, relative * mass, shift, trusted, longest, divide)
    good = jnp.isfinite(errors)
    bound = jnp.max(jnp.where(good, errors, 0)) if rescue else jnp.max(errors)
    redo = ~good & (jnp.broadcast_to(mass, good.shape) > 0) if rescue else jnp.zeros_like(good)
    if rescue:
        found = rescued(redo, found, queries, keys, values, beta, w, mask, expansion.kernel, divide)
    average = found.average if divide else found.average * jnp.exp(log_unit)
    attended = Attended(average.astype(given), (found.log_partition + log_unit).astype(given))
    rounded = float(np.finfo(given).eps) / 2 if given != dtype else 0.0
    return Expanded(attended, bound + rounded, jnp.sum(redo))


def read_off(
    kernel: Kernel,
    sums: Float[Array, "m c"],
    error: Float[Array, "#m"],
    shift: Float[Array, "#m"],
    tol: Float[Array, ""] | float,
    longest: Float[Array, ""],
    divide: bool,
) -> tuple[Attended, Float[Array, " m"]]:
    """What sums with a known error give, and the relative error of each row, infinite where it does not keep `tol`.

    `error` bounds that of Z, and that of the sums over the length of the `longest` value.
    """
    total = sums[:, -1] if kernel == EXPONENTIAL else jnp.abs(sums[:, -1])
    above = sums[:, :-1]
    known = jax.lax.stop_gradient(total)
    if not divide:
        size = jnp.sum(jax.lax.stop_gradient(above) ** 2, axis=1) ** 0.5
        known = jnp.maximum(known, size / jnp.where(longest > 0, longest, 1))
    good = (known > 0) & (known * tol >= error)
    seen = good & (total > 0)
    safe = jnp.where(seen, total, 1)
    log_z = jnp.where(seen, jnp.log(safe) + shift, -jnp.inf)
    read = above / safe[:, None] if divide else above * jnp.exp(shift)[:, None]
    errors = jax.lax.stop_gradient(jnp.where(good, error / jnp.where(good, known, 1), jnp.inf))
    return Attended(jnp.where(good[:, None], read, 0), log_z), errors


def row_error(
    expansion: Expansion, queries: Float[Array, "m d"], beta: Float[Array, ""]
) -> tuple[Float[Array, "#m"], Float[Array, "#m"]]:
    r"""$2(T+u)$ for each row, and the logarithm $\beta(|q|-1)$ of the factor that its sums are without."""
    beta = jax.lax.stop_gradient(beta)
    if not expansion.any_query:
        return jnp.reshape(2 * (expansion.tail(beta) + expansion.rounding(beta)), 1), jnp.zeros(1, beta.dtype)
    length = jax.lax.stop_gradient(direction(queries)[1])
    return 2 * (expansion.row_tail(beta, length) + expansion.rounding(beta * length)), beta * (length - 1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def kernel_sums(
    plan: Plan,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
    slope: Float[Array, ""] | None,
) -> Float[Array, "m c"]:
    r"""$\sum_jp_{ij}k(\langle q_i,k_j\rangle)c_j$; over $e^{\beta(|q_i|-1)}$ for any queries, a constant."""
    if plan.causal:
        return _sums(plan, queries, keys, columns, beta, slope)
    return plan.expansion.sums(queries, keys, columns, beta)


def _sums(plan: Plan, queries: Array, keys: Array, columns: Array, beta: Array, slope: Array | None) -> Array:
    """The same in a form that can be transposed in the columns."""
    if plan.causal:
        return causal_sums(plan.expansion, queries, keys, columns, beta, slope, plan.strict)
    return sums_by_chunks(plan.expansion, queries, keys, columns, beta)


@kernel_sums.defjvp
def _kernel_sums_jvp(plan: Plan, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    queries, keys, columns, beta, slope = primals
    d_queries, d_keys, d_columns, d_beta, d_slope = tangents
    c = columns.shape[1]
    position = jnp.arange(keys.shape[0], dtype=keys.dtype)[:, None]
    plain = columns if slope is None else jnp.concatenate([columns, position * columns], axis=1)
    sums, tilted, warmed = _derivative_sums(plan, queries, keys, plain, _lifted(keys, columns), beta, slope)
    moved, tilting = _moved_sums(plan, queries, keys, d_columns, _lifted(d_keys, columns), beta, slope)
    change = moved + d_beta * warmed
    change = change + _along(queries, tilting) + _along(d_queries, tilted)
    if slope is not None:
        change = change + d_slope * (sums[:, c:] - position * sums[:, :c])
    return sums[:, :c], change


def _lifted(vectors: Float[Array, "n d"], columns: Float[Array, "n c"]) -> Float[Array, "n e"]:
    """Charges times each coordinate, one coordinate after the other."""
    return (vectors[:, :, None] * columns[:, None]).reshape(columns.shape[0], -1)


def _along(vectors: Float[Array, "m d"], sums: Float[Array, "m e"]) -> Float[Array, "m c"]:
    """Sums of lifted charges, multiplied by a vector for each row."""
    return jnp.einsum("ma,mac->mc", vectors, sums.reshape(*vectors.shape, -1))


def _derivative_sums(
    plan: Plan, queries: Array, keys: Array, plain: Array, lifted: Array, beta: Array, slope: Array | None
) -> tuple[Array, Array, Array]:
    """Sums of the plain charges with k, of the lifted ones with dk/ds, and of those that were lifted with dk/dbeta."""
    c = lifted.shape[1] // keys.shape[1]
    if plan.expansion.kernel == EXPONENTIAL:  # k, beta k and (s - 1) k: one sum serves all three
        split = plain.shape[1]
        both = kernel_sums(plan, queries, keys, jnp.concatenate([plain, lifted], axis=1), beta, slope)
        sums, raised = both[:, :split], both[:, split:]
        return sums, beta * raised, _along(queries, raised) - sums[:, :c]
    tilted = kernel_sums(plan.derivative(), queries, keys, lifted, beta, slope)
    warmed = kernel_sums(plan.derivative(by_beta=True), queries, keys, plain[:, :c], beta, slope)
    return kernel_sums(plan, queries, keys, plain, beta, slope), tilted, warmed


def _moved_sums(
    plan: Plan, queries: Array, keys: Array, plain: Array, lifted: Array, beta: Array, slope: Array | None
) -> tuple[Array, Array]:
    """Sums of the plain charges with k and of the lifted ones with dk/ds, to be transposed in both."""
    if plan.expansion.kernel == EXPONENTIAL:
        both = _sums(plan, queries, keys, jnp.concatenate([plain, lifted], axis=1), beta, slope)
        return both[:, : plain.shape[1]], beta * both[:, plain.shape[1] :]
    tilted = _sums(plan.derivative(), queries, keys, lifted, beta, slope)
    return _sums(plan, queries, keys, plain, beta, slope), tilted


class _Rows(Mask):
    """Some rows of another mask."""

    mask: Mask
    rows: Int[Array, " r"]

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return self.mask.log_weight(self.rows[i], j)


def rescued(
    redo: Bool[Array, " m"],
    attended: Attended,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""],
    weights: Float[Array, " n"],
    mask: Mask | None,
    kernel: Kernel,
    divide: bool,
) -> Attended:
    """The same with the direct sum in the rows marked; costs nothing if there are none."""
    m = redo.shape[0]
    size = min(RESCUE if jax.default_backend() == "cpu" else ACCELERATOR_RESCUE, m)

    def some_rows(order: Int[Array, " r"]) -> Attended:
        rows = jnp.minimum(order, m - 1)

        def compute() -> Attended:
            row_mask = None if mask is None else _Rows(mask, rows)
            options: dict[str, Any] = {"kernel": kernel, "divide": divide, "block": default_block()}
            return direct_attention(queries[rows], keys, values, beta, weights, row_mask, **options)

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
