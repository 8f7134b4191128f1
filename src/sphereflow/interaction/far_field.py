r"""Sums over tokens that have gathered in clusters, in any dimension: every cluster acts through a few moments.

Queries $q=c_a+\xi$ near the centre of cluster a, keys $k=c_b+\eta$ near that of cluster b:

$$e^{\beta\langle q,k\rangle}=
  e^{\beta\langle\xi,c_b\rangle}\,e^{\beta\langle c_a,k\rangle}\,e^{\beta\langle\xi,\eta\rangle},\qquad
  e^{\beta\langle\xi,\eta\rangle}\approx\sum_{|\alpha|\le p}\frac{\beta^{|\alpha|}}{\alpha!}\xi^\alpha\eta^\alpha,$$
$$\sum_jw_je^{\beta\langle q,k_j\rangle}v_j
  \approx\sum_be^{\beta\langle\xi,c_b\rangle}\sum_\alpha\xi^\alpha M^{ab}_\alpha,\qquad
  M^{ab}_\alpha=\frac{\beta^{|\alpha|}}{\alpha!}\sum_{j\in b}w_je^{\beta\langle c_a,k_j\rangle}\eta_j^\alpha v_j .$$

The remainder of the exponential series bounds the error of every row by numbers that are summed with the moments:

$$|\delta Z_i|\le\frac{(\beta|\xi_i|)^{p+1}}{(p+1)!}\sum_be^{\beta\langle\xi_i,c_b\rangle+\beta|\xi_i|h_b}
  \sum_{j\in b}w_je^{\beta\langle c_a,k_j\rangle}|\eta_j|^{p+1},\qquad h_b=\max_{j\in b}|\eta_j| .$$

It is of order $(\beta\delta^2)^{p+1}$ for clusters of radius $\delta$. Rows that do not keep their tolerance, such as
tokens between clusters, are summed directly, and a number of keys, those furthest from their centres, meet every query
one by one. Time grows as $n\,k\binom{d+p}{p}$ with k clusters: nothing is gained while tokens fill the sphere, and
nearly everything once they have gathered. Derivatives are those of the direct sum.
"""

from __future__ import annotations

from functools import partial
from math import factorial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction.clusters import Clusters, blocks_of, clustered
from sphereflow.interaction.direct import Attended, default_block, direct_attention, kernel_sums
from sphereflow.interaction.linear import read_off, rescued, working_precision
from sphereflow.interaction.polynomial import exponents, monomials, powers
from sphereflow.kernels import EXPONENTIAL
from sphereflow.shapes import ArrayLike

# Around how much of the radius that a tolerance allows centres are looked for: the mean of the tokens near one of them
# is not in their middle.
NARROW = 0.7
# Units of rounding of a sum of positive terms, and of every unit of the exponent.
_SUMMED, _EXPONENT = 64, 8
# Exponents of factors that are not allowed to overflow.
_FAR = 600


class Plan(NamedTuple):
    """How many clusters, the order of their moments, how many keys are summed one by one, and the tolerance."""

    clusters: int
    order: int
    apart: int
    tol: float


class Moments(NamedTuple):
    r"""What queries near centre a need of the keys near centre b, over the exponential of `top` of a.

    $M^{ab}_\alpha$, $\sum_{j\in b}w_je^{\beta\langle c_a,k_j\rangle}|\eta_j|^{p+1}$ and $h_b$.
    """

    moments: Float[Array, "b f a c"]
    spread: Float[Array, "b a"]
    reach: Float[Array, " b"]
    top: Float[Array, " a"]


def radius(beta: Float[ArrayLike, ""], order: int, tol: float) -> Float[Array, ""]:
    r"""The radius $\delta$ of clusters with $(\beta\delta^2)^{p+1}/(p+1)!=tol/8$.

    An eighth, since the error of an average is twice that of Z, and centres lie beside the middle of their clusters.
    """
    return jnp.sqrt((tol / 8 * factorial(order + 1)) ** (1 / (order + 1)) / jnp.maximum(jnp.asarray(beta), 1e-300))


def moments(clusters: int, order: int, d: int, columns: int) -> int:
    """How many numbers the moments of all clusters, as seen from all, are."""
    return clusters**2 * monomials(order, d) * columns


def far_field_sums(
    plan: Plan,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
) -> tuple[Float[Array, "m c"], Float[Array, " m"], Float[Array, " m"]]:
    r"""$\sum_je^{\beta\langle q_i,k_j\rangle-s_i}c_j$, a bound of the error of the last column (masses), and $s_i$."""
    within = NARROW * radius(beta, plan.order, plan.tol)
    sources = clustered(keys, within, plan.clusters)
    targets = sources if queries is keys else clustered(queries, within, plan.clusters)
    _, apart = jax.lax.top_k(sources.away, min(plan.apart, len(keys)))
    together = columns.at[apart].set(0)
    summed = _moments(sources, targets.centres, keys, together, beta, plan.order)
    sums, missed = _evaluated(targets, sources.centres, queries, summed, beta, plan.order)
    top = summed.top[targets.nearest]
    alone, shift = kernel_sums(queries, keys[apart], columns[apart], beta, block=default_block())
    shift = jnp.where(alone[:, -1] > 0, shift + beta, -jnp.inf)
    highest = jnp.maximum(top, shift)
    highest = jnp.where(jnp.isfinite(highest), highest, 0)  # of a row without any mass
    less = jnp.exp(top - highest)
    sums = sums * less[:, None] + alone * jnp.exp(shift - highest)[:, None]
    exponent = jnp.max(jnp.abs(beta * targets.centres @ sources.centres.T)) + 2 * beta
    rounding = float(np.finfo(keys.dtype).eps) * (_SUMMED + _EXPONENT * exponent)
    return sums, missed * less + rounding * jnp.abs(sums[:, -1]), highest


def _moments(
    sources: Clusters,
    seen_from: Float[Array, "a d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
    order: int,
) -> Moments:
    count, d = sources.centres.shape
    features, heads = monomials(order, d), len(seen_from)
    blocks = blocks_of(sources.nearest, count, features)
    parts = blocks.cluster, blocks.arranged(keys), blocks.arranged(columns)

    def exponent(tokens: Array, charges: Array) -> Array:
        return jnp.where(charges[:, -1:] > 0, beta * tokens @ seen_from.T, -jnp.inf)

    top = jnp.max(jax.lax.map(lambda part: jnp.max(exponent(*part[1:]), axis=0), parts), axis=0)

    def add(state: tuple[Array, ...], part: tuple[Array, ...]) -> tuple[tuple[Array, ...], None]:
        total, spread, reach = state
        b, tokens, charges = part
        offsets = jnp.where(charges[:, -1:] > 0, tokens - sources.centres[b], 0)
        away = jnp.sqrt(jnp.sum(offsets**2, axis=1))
        factors = jnp.exp(exponent(tokens, charges) - jnp.where(jnp.isfinite(top), top, 0))
        weighted = (factors[:, :, None] * charges[:, None]).reshape(len(tokens), -1)
        total = total.at[b].add((powers(offsets.T, order) @ weighted).reshape(features, heads, -1))
        spread = spread.at[b].add((away ** (order + 1) * charges[:, -1]) @ factors)
        return (total, spread, reach.at[b].max(jnp.max(away))), None

    sizes = (count, features, heads, columns.shape[1]), (count, heads), (count,)
    start = tuple(jnp.zeros(size, columns.dtype) for size in sizes)
    (total, spread, reach), _ = jax.lax.scan(add, start, parts)
    degrees, multinomials = exponents(order, d)
    taylor = np.array([1 / factorial(k) for k in range(order + 1)])
    weights = jnp.asarray(multinomials * taylor[degrees], beta.dtype) * beta**degrees
    return Moments(total * weights[:, None, None], spread, reach, top)


def _evaluated(
    targets: Clusters,
    centres: Float[Array, "b d"],
    queries: Float[Array, "m d"],
    summed: Moments,
    beta: Float[Array, ""],
    order: int,
) -> tuple[Float[Array, "m c"], Float[Array, " m"]]:
    """The sums of every query, and what the order leaves out of them."""
    count, features, heads, c = summed.moments.shape
    blocks = blocks_of(targets.nearest, heads, features)
    of_cluster = summed.moments.transpose(2, 1, 0, 3).reshape(heads, features, count * c)

    def evaluate(part: tuple[Array, Array]) -> tuple[Array, Array]:
        a, tokens = part
        offsets = tokens - targets.centres[a]
        away = beta * jnp.sqrt(jnp.sum(offsets**2, axis=1))
        tilt = beta * offsets @ centres.T
        remains = tilt + away[:, None] * summed.reach
        # Far from its centre a query is summed directly: its numbers may be anything that does not overflow.
        factors = jnp.exp(jnp.minimum(tilt, _FAR))
        sums = (powers(offsets.T, order).T @ of_cluster[a]).reshape(-1, count, c)
        missed = jnp.exp(jnp.minimum(remains, _FAR)) @ summed.spread[:, a] * away ** (order + 1) / factorial(order + 1)
        return jnp.einsum("ib,ibc->ic", factors, sums), jnp.where(jnp.max(remains, axis=1) < _FAR, missed, jnp.inf)

    sums, missed = jax.lax.map(evaluate, (blocks.cluster, blocks.arranged(queries)))
    return sums.reshape(-1, c)[blocks.place], missed.reshape(-1)[blocks.place]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def far_field_attention(
    plan: Plan,
    divide: bool,
    queries: Float[Array, "m d"] | None,
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""],
    weights: Float[Array, " n"],
) -> Attended:
    """`attend` without a mask; queries are None where they are the keys."""
    return far_field_rows(plan, divide, queries, keys, values, beta, weights)[0]


@far_field_attention.defjvp
def _jvp(plan: Plan, divide: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    def direct(queries: Array | None, keys: Array, *others: Array) -> Attended:
        queries = keys if queries is None else queries
        return direct_attention(queries, keys, *others, kernel=EXPONENTIAL, divide=divide, block=default_block())

    _, moved = jax.jvp(direct, primals, tangents)
    return far_field_attention(plan, divide, *primals), moved


def far_field_rows(
    plan: Plan,
    divide: bool,
    queries: Float[Array, "m d"] | None,
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""],
    weights: Float[Array, " n"],
) -> tuple[Attended, Float[Array, " m"]]:
    """The sums, and a bound of the relative error of each row, infinite for those that were summed directly."""
    given = jnp.result_type(keys if queries is None else queries, keys, values)
    dtype = working_precision(given)
    keys, values, beta, weights = (jnp.asarray(x, dtype) for x in (keys, values, beta, weights))
    queries = keys if queries is None else jnp.asarray(queries, dtype)
    columns = jnp.concatenate([weights[:, None] * values, weights[:, None]], axis=1)
    sums, error, shift = far_field_sums(plan, queries, keys, columns, beta)
    longest = jnp.max(jnp.sum(values**2, axis=1)) ** 0.5
    attended, errors = read_off(EXPONENTIAL, sums, 2 * error, shift - beta, plan.tol, longest, divide)
    unresolved = ~jnp.isfinite(errors)
    attended = rescued(unresolved, attended, queries, keys, values, beta, weights, None, EXPONENTIAL, divide)
    return Attended(attended.average.astype(given), attended.log_partition.astype(given)), errors
