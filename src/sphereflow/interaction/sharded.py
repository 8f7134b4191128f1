r"""Tokens split over devices: each holds n/D of them, and what travels is small.

$$m_a=\sum_{\text{devices}}\sum_{j\in\text{device}}\phi_a(k_j)c_j\ \text{(one sum of moments)},\qquad
  S_i=\sum_{r<D}\sum_{j\in\text{device}\,r}e^{s_{ij}}c_j\ \text{(keys pass around a ring)}.$$

Expansions exchange their moments only, a few kilobytes whatever n; under a causal mask each device takes the moments
of the devices before it, weighed by how far back they lie. The direct sum passes blocks of keys around a ring of
devices and joins the partial sums, so no device holds more than two blocks. The same program runs on several
processors, several accelerators, and several hosts after `jax.distributed.initialize()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.interaction.causal import causal_sums, prefix_mass
from sphereflow.interaction.direct import Attended, default_block, kernel_sums, ratio
from sphereflow.interaction.engines import DIRECT, Engine, Expanding
from sphereflow.interaction.linear import Plan, read_off, row_error, working_precision
from sphereflow.interaction.masks import Alibi, Mask
from sphereflow.interaction.modes import evaluate_all, project_all
from sphereflow.interaction.request import Request
from sphereflow.kernels import Kernel

AXIS = "tokens"
_SPLIT, _WHOLE = PartitionSpec(AXIS), PartitionSpec()


def token_mesh(devices: list[jax.Device] | None = None) -> Mesh:
    """All devices (of all hosts) in one row."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (AXIS,))


def spread(x: Float[Array, "n ..."], mesh: Mesh) -> Float[Array, "n ..."]:
    """Put an array onto the devices of the mesh, split by rows; n must be a multiple of their number."""
    _check_even(x.shape[0], mesh)
    return jax.device_put(x, NamedSharding(mesh, _SPLIT))


def _check_even(n: int, mesh: Mesh) -> None:
    if n % mesh.size:
        raise SphereflowError(
            f"{n} tokens cannot be split evenly over {mesh.size} devices: use a multiple of {mesh.size}."
        )


@dataclass(frozen=True)
class Sharded(Engine):
    """Another engine, with tokens split over the devices of `mesh` in the order of their positions."""

    engine: Engine
    mesh: Mesh

    def __post_init__(self) -> None:
        if not isinstance(self.engine, Engine) or isinstance(self.engine, Sharded):
            raise SphereflowError(f"engine must be an engine of one device such as Direct(), got {self.engine!r}.")
        if not isinstance(self.mesh, Mesh):
            raise SphereflowError(f"mesh must be a mesh of devices such as token_mesh(), got {self.mesh!r}.")
        if not isinstance(self.engine, Expanding):  # others are no sums over devices: every pair is summed
            object.__setattr__(self, "engine", DIRECT)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.engine.name

    @property
    def tol(self) -> float:  # type: ignore[override]
        return self.engine.tol

    @property
    def any_query(self) -> bool:  # type: ignore[override]
        return self.engine.any_query

    @property
    def all_pairs(self) -> bool:  # type: ignore[override]
        return self.engine.all_pairs

    def saved_as(self) -> Engine:
        """Over which devices tokens are split is no part of a saved model."""
        return self.engine

    def over(self, engine: Engine) -> Sharded:
        return Sharded(engine, self.mesh)

    def check_kernel(self, kernel: Kernel, beta: float) -> None:
        self.engine.check_kernel(kernel, beta)

    def attend(self, request: Request) -> Attended:
        queries, keys, values = request.queries, request.keys, request.values
        given = jnp.result_type(queries, keys, values)
        dtype = working_precision(given) if isinstance(self.engine, Expanding) else given
        _check_even(queries.shape[0], self.mesh)
        _check_even(keys.shape[0], self.mesh)
        queries, keys, values, beta = (jnp.asarray(a, dtype) for a in (queries, keys, values, request.beta))
        n = keys.shape[0]
        w = jnp.full(n, 1 / n, dtype) if request.weights is None else jnp.asarray(request.weights, dtype)
        columns = jnp.concatenate([w[:, None] * values, w[:, None]], axis=1)
        direct = lambda: self._direct(request, queries, keys, columns, beta)  # noqa: E731
        if not isinstance(self.engine, Expanding):
            return direct()
        self.engine.check(request)
        series, good = self._series(self.engine, request, queries, keys, columns, beta)

        def replace() -> Attended:
            exact = direct()
            return Attended(
                jnp.where(good[:, None], series.average, exact.average),
                jnp.where(good, series.log_partition, exact.log_partition),
            )

        found = jax.lax.cond(jnp.all(good), lambda: series, replace)
        return Attended(found.average.astype(given), found.log_partition.astype(given))

    def _mapped(self, local: Any, split: tuple[Array, ...], whole: tuple[Any, ...]) -> tuple[Array, Array]:
        specs = (*(_SPLIT for _ in split), *(_WHOLE for _ in whole))
        mapped = jax.shard_map(local, mesh=self.mesh, in_specs=specs, out_specs=(_SPLIT, _SPLIT), check_vma=False)
        return mapped(*split, *whole)

    def _series(
        self, engine: Expanding, request: Request, queries: Array, keys: Array, columns: Array, beta: Array
    ) -> tuple[Attended, Bool[Array, " m"]]:
        """What the expansion gives, and the rows that keep the tolerance."""
        plan = Plan.of(engine.expansion(keys.shape[1]).of(request.kernel), request.mask)
        slope = jnp.asarray(request.mask.slope, keys.dtype) if isinstance(request.mask, Alibi) else None
        sums, error = self._mapped(
            lambda q, k, c, beta, slope: _local_series(plan, q, k, c, beta, slope, self.mesh.size),
            (queries, keys, columns),
            (beta, slope),
        )
        longest = jnp.max(jnp.sum(jax.lax.stop_gradient(request.values) ** 2, axis=1)) ** 0.5
        shift = row_error(plan.expansion, queries, beta)[1]
        found, errors = read_off(plan.expansion.kernel, sums, error, shift, engine.tol, longest, request.divide)
        return found, jnp.isfinite(errors)

    def _direct(self, request: Request, queries: Array, keys: Array, columns: Array, beta: Array) -> Attended:
        """Keys pass around a ring; any mask, any kernel."""
        count = self.mesh.size
        ring = [(i, (i + 1) % count) for i in range(count)]
        kernel = request.kernel

        def local(queries: Array, keys: Array, columns: Array, beta: Array, mask: Mask | None) -> tuple[Array, Array]:
            here = jax.lax.axis_index(AXIS)

            def visit(step: Array, state: tuple[Any, ...]) -> tuple[Any, ...]:
                sums, top, (k, c) = state
                owner = (here - step) % count
                shifted = None if mask is None else _Shifted(mask, here * queries.shape[0], owner * k.shape[0])

                def meet() -> tuple[Array, Array]:
                    part, of_part = kernel_sums(queries, k, c, beta, shifted, kernel=kernel, block=default_block())
                    new = jnp.maximum(top, of_part)
                    safe = jnp.where(jnp.isneginf(new), 0, new)
                    return sums * jnp.exp(top - safe)[:, None] + part * jnp.exp(of_part - safe)[:, None], new

                hidden = owner > here if mask is not None and mask.causal else False
                sums, top = jax.lax.cond(hidden, lambda: (sums, top), meet)
                return sums, top, jax.lax.ppermute((k, c), AXIS, ring)

            rows = queries.shape[0]
            start = (jnp.zeros((rows, columns.shape[1]), keys.dtype), jnp.full(rows, -jnp.inf, keys.dtype))
            sums, top, _ = jax.lax.fori_loop(0, count, visit, (*start, (keys, columns)))
            return sums, top

        return ratio(*self._mapped(local, (queries, keys, columns), (beta, request.mask)), kernel, request.divide)


def _local_series(
    plan: Plan, queries: Array, keys: Array, columns: Array, beta: Array, slope: Array | None, count: int
) -> tuple[Float[Array, "m c"], Float[Array, " m"]]:
    """On one device: sums over the tokens of all devices, and a bound of their error."""
    expansion, here = plan.expansion, jax.lax.axis_index(AXIS)
    relative, _ = row_error(expansion, queries, beta)
    if not plan.causal:
        moments = jax.lax.psum(project_all(expansion, keys, columns), AXIS)
        weighed = expansion.weigh(moments, expansion.coefficients(beta))
        sums = evaluate_all(expansion, queries, weighed, beta, columns.shape[1])
        mass = jax.lax.psum(jnp.sum(columns[:, -1]), AXIS)
        return sums, jnp.broadcast_to(relative * mass, sums[:, -1].shape)
    rows = keys.shape[0]
    rate = jnp.zeros((), keys.dtype) if slope is None else slope
    to_end = jnp.exp(-rate * (rows - jnp.arange(rows, dtype=keys.dtype)))[:, None]
    # Moments and masses of every device, seen from its end; those before this one are further back by whole devices.
    ends = project_all(expansion, keys, to_end * columns), jnp.sum(to_end[:, 0] * columns[:, -1])
    back = here - 1 - jnp.arange(count)
    far = jnp.where(back >= 0, jnp.exp(-rate * rows * back), 0).astype(keys.dtype)
    before, mass_before = (jnp.tensordot(far, jax.lax.all_gather(end, AXIS), 1) for end in ends)
    sums = causal_sums(expansion, queries, keys, columns, beta, slope, plan.strict, before)
    fading = jnp.exp(-rate * jnp.arange(rows, dtype=keys.dtype))
    mass = prefix_mass(columns[:, -1], slope, plan.strict) + fading * mass_before
    return sums, relative * mass


class _Shifted(Mask):
    """A mask seen by tokens whose positions start elsewhere."""

    mask: Mask
    first_query: Int[Array, ""]
    first_key: Int[Array, ""]

    def log_weight(self, i: Int[Array, "..."], j: Int[Array, "..."]) -> Float[Array, "..."]:
        return self.mask.log_weight(i + self.first_query, j + self.first_key)
