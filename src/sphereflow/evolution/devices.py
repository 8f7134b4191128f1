"""Runs on several devices: which ones, how tokens get there, and how frames come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.interaction.sharded import spread, token_mesh
from sphereflow.sphere import check_unit, tokens

Devices = str | int | Sequence[jax.Device] | None


def chosen_mesh(devices: Devices, x0: Any) -> Mesh | None:
    """The devices asked for, or those on which x0 lies already; None if that is one."""
    if devices is None:
        there = _spread_over(x0)
        return token_mesh(there) if len(there) > 1 else None
    here = jax.devices()
    if isinstance(devices, str):
        if devices != "all":
            raise SphereflowError(f"devices must be 'all', a number, or a list of devices; got {devices!r}.")
        chosen: Sequence[jax.Device] = here
    elif isinstance(devices, (int, np.integer)):
        count = whole_number("devices", devices)
        if count > len(here):
            raise SphereflowError(f"devices={count} were asked for, but there are {len(here)}.")
        chosen = here[:count]
    else:
        chosen = list(devices)
        if not chosen or not all(isinstance(each, jax.Device) for each in chosen):
            raise SphereflowError("devices must be 'all', a number, or a list of devices as jax.devices() gives them.")
    return token_mesh(list(chosen)) if len(chosen) > 1 else None


def _spread_over(x0: Any) -> list[jax.Device]:
    """The devices that hold tokens, in the order of the tokens."""
    if not isinstance(x0, jax.Array) or isinstance(x0, jax.core.Tracer) or len(x0.sharding.device_set) < 2:
        return []
    places = x0.sharding.devices_indices_map(x0.shape)
    return sorted(places, key=lambda device: (places[device][0].start or 0, device.id))


def start_tokens(x0: Any, mesh: Mesh | None, on_sphere: bool) -> Float[Array, "... n d"]:
    """Checked tokens, on the devices of the mesh if there is one."""
    if mesh is None:
        return tokens(x0, "x0", on_sphere=on_sphere)
    if isinstance(x0, jax.Array) and not x0.is_fully_addressable:  # on other hosts as well: looked at where it lies
        if x0.ndim == 2 and not bool(jnp.isfinite(x0).all()):
            raise SphereflowError("x0 must be finite.")
        start = x0
        if on_sphere:
            check_unit("x0", float(jnp.abs(jnp.linalg.norm(x0, axis=-1) - 1).max()), str(x0.dtype))
    else:
        start = tokens(x0, "x0", on_sphere=on_sphere)
    if start.ndim != 2:
        raise SphereflowError(f"devices share the tokens of one system (n, d), got x0 of shape {start.shape}.")
    return spread(start, mesh)


def fetched(x: Any) -> Any:
    """Arrays on this host, whole, wherever their parts are."""
    if all(leaf.is_fully_addressable for leaf in jax.tree.leaves(x)):
        return jax.tree.map(np.asarray, x)
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(x, tiled=True)
