r"""Tokens split over devices: each holds n/D of them, and what travels is small.

$$m_a=\sum_{\text{devices}}\sum_{j\in\text{device}}\phi_a(k_j)c_j\ \text{(one sum of moments)},\qquad
  S_i=\sum_{r<D}\sum_{j\in\text{device}\,r}e^{s_{ij}}c_j\ \text{(keys pass around a ring)}.$$

Expansions exchange their moments only, a few kilobytes whatever n. The direct sum passes blocks of keys around a
ring of devices and joins the partial softmaxes by their log Z, so no device holds more than two blocks. The same
program runs on several processors, several accelerators, and several hosts after `jax.distributed.initialize()`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.interaction.direct import Attended, default_block, direct_attention
from sphereflow.interaction.linear import Expanded, row_error
from sphereflow.interaction.masks import Mask
from sphereflow.interaction.modes import Expansion, evaluate_all, project_all

AXIS = "tokens"


def token_mesh(devices: list[jax.Device] | None = None) -> Mesh:
    """All devices (of all hosts) in one row."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (AXIS,))


def spread(x: Float[Array, "n ..."], mesh: Mesh) -> Float[Array, "n ..."]:
    """Put an array onto the devices of the mesh, split by rows; n must be a multiple of their number."""
    if x.shape[0] % mesh.size:
        raise SphereflowError(
            f"{x.shape[0]} tokens cannot be split evenly over {mesh.size} devices: use a multiple of {mesh.size}."
        )
    return jax.device_put(x, NamedSharding(mesh, PartitionSpec(AXIS)))


def sharded_expansion(
    mesh: Mesh,
    expansion: Expansion,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, "n"] | None = None,
    tol: float = 1e-9,
) -> Expanded:
    """`expand` with tokens split over the devices of `mesh`, without a mask.

    Each device finds the rows it cannot trust; if any device has some, all take part in one ring of direct sums.
    """
    columns, beta = _columns(keys, values, weights), jnp.asarray(beta, keys.dtype)
    split, whole = PartitionSpec(AXIS), PartitionSpec()

    def local(queries: Array, keys: Array, columns: Array, beta: Array) -> tuple[Array, Array, Array]:
        moments = jax.lax.psum(project_all(expansion, keys, columns), AXIS)
        sums = evaluate_all(expansion, queries, expansion.weigh(moments, beta), beta, columns.shape[1])
        mass = jax.lax.psum(jnp.sum(columns[:, -1]), AXIS)
        relative, shift = row_error(expansion, queries, beta)
        total = sums[:, -1]
        return sums, jnp.broadcast_to(relative * mass, total.shape), jnp.broadcast_to(shift, total.shape)

    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=(split, split, split, whole), out_specs=(split, split, split), check_vma=False
    )
    sums, error, shift = mapped(queries, keys, columns, beta)
    total = sums[:, -1]
    good = total * tol >= error
    safe = jnp.where(good, total, 1)
    series = Attended(sums[:, :-1] / safe[:, None], jnp.log(safe) + shift)

    def replace() -> Attended:
        exact = sharded_direct(mesh, queries, keys, values, beta, weights=weights)
        return Attended(
            jnp.where(good[:, None], series.average, exact.average),
            jnp.where(good, series.log_partition, exact.log_partition),
        )

    attended = jax.lax.cond(jnp.all(good), lambda: series, replace)
    return Expanded(attended, jnp.max(jnp.where(good, error / safe, 0)), jnp.sum(~good))


def sharded_direct(
    mesh: Mesh,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, "n"] | None = None,
    mask: Mask | None = None,
) -> Attended:
    """`attend` with tokens split over the devices of `mesh`, keys passing around a ring; any mask."""
    beta = jnp.asarray(beta, keys.dtype)
    w = jnp.full(keys.shape[0], 1 / keys.shape[0], keys.dtype) if weights is None else weights
    split, whole = PartitionSpec(AXIS), PartitionSpec()
    count = mesh.size
    ring = [(i, (i + 1) % count) for i in range(count)]

    def local(
        queries: Array, keys: Array, values: Array, w: Array, beta: Array, mask: Mask | None
    ) -> tuple[Array, Array]:
        here = jax.lax.axis_index(AXIS)

        def visit(step: Array, state: tuple[Array, Array, tuple[Array, ...]]) -> tuple[Array, Array, tuple[Array, ...]]:
            average, log_z, (k, v, weight) = state
            owner = (here - step) % count
            shifted = None if mask is None else _Shifted(mask, here * queries.shape[0], owner * k.shape[0])
            part = direct_attention(queries, k, v, beta, weight, shifted, block=default_block())
            average, log_z = _join(Attended(average, log_z), part)
            return average, log_z, jax.lax.ppermute((k, v, weight), AXIS, ring)

        start = (
            jnp.zeros((queries.shape[0], values.shape[1]), values.dtype),
            jnp.full(queries.shape[0], -jnp.inf, values.dtype),
            (keys, values, w),
        )
        average, log_z, _ = jax.lax.fori_loop(0, count, visit, start)
        return average, log_z

    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=(split, split, split, split, whole, whole), out_specs=(split, split), check_vma=False
    )
    return Attended(*mapped(queries, keys, values, w, beta, mask))


def _join(a: Attended, b: Attended) -> Attended:
    """The softmax over two sets of keys from the softmax over each."""
    log_z = jnp.logaddexp(a.log_partition, b.log_partition)
    safe = jnp.where(jnp.isneginf(log_z), 0, log_z)
    share_a, share_b = jnp.exp(a.log_partition - safe), jnp.exp(b.log_partition - safe)
    return Attended(share_a[:, None] * a.average + share_b[:, None] * b.average, log_z)


class _Shifted(Mask):
    """A mask seen by tokens whose positions start elsewhere."""

    mask: Mask
    first_query: Int[Array, ""]
    first_key: Int[Array, ""]

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return self.mask.log_weight(i + self.first_query, j + self.first_key)


def _columns(
    keys: Float[Array, "n d"], values: Float[Array, "n p"], weights: Float[Array, "n"] | None
) -> Float[Array, "n c"]:
    n = keys.shape[0]
    w = jnp.full(n, 1 / n, keys.dtype) if weights is None else weights
    return jnp.concatenate([w[:, None] * values, w[:, None]], axis=1)
