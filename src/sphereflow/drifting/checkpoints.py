"""A training run on disk: what it was asked, and everything it needs to go on. Arrays only, no pickle."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from sphereflow.drifting.generators import Generator
from sphereflow.drifting.training import Recipe, State, beginning
from sphereflow.errors import SphereflowError
from sphereflow.provenance import versions
from sphereflow.reading import file_bytes, packed_arrays, plain_data
from sphereflow.saving import write_bytes

FORMAT = "sphereflow drifting generator, version 4"


def save(path: str | Path, state: State, asked: dict[str, Any]) -> None:
    """One file, replaced as a whole: the arrays of the state, and what was asked as JSON inside."""
    if state.optimiser is None:
        raise SphereflowError(
            "a run with an optimiser of your own is kept only if it has a name: give the recipe a version, such as "
            'Recipe(optimiser=..., version="1").'
        )
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(state, eqx.is_array))]
    about = {"format": FORMAT, "asked": asked, "optimiser": state.optimiser, "leaves": len(leaves)}
    head = json.dumps(about | {"versions": versions()}).encode()
    content = io.BytesIO()
    np.savez(content, head=np.frombuffer(head, np.uint8), **{f"leaf{i}": leaf for i, leaf in enumerate(leaves)})  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())


def read(path: str | Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What was asked, and the arrays."""
    return _stored(path)[1:]


def _stored(path: str | Path) -> tuple[str, dict[str, Any], list[np.ndarray]]:
    try:
        stored = packed_arrays(file_bytes(path))
        head = plain_data(bytes(stored["head"]))
        if head["format"] == FORMAT:
            return str(head["optimiser"]), dict(head["asked"]), [stored[f"leaf{i}"] for i in range(int(head["leaves"]))]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, SphereflowError):
            raise
        raise SphereflowError(f"{path} is damaged or not a drifting generator.") from None
    raise SphereflowError(f"{path} is not a {FORMAT}: it cannot be used by this release; train a new one.")


def restore(path: str | Path, model: Generator, recipe: Recipe) -> State:
    """The state that a file holds, in the form of a fresh run with this network and recipe."""
    fresh = beginning(model, recipe)
    arrays, rest = eqx.partition(fresh, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    optimiser, _, stored = _stored(path)
    if optimiser != fresh.optimiser:
        raise SphereflowError(f"{path} was made by the optimiser {optimiser!r}, the recipe has {fresh.optimiser!r}.")
    if [(a.shape, a.dtype) for a in leaves] != [(a.shape, a.dtype) for a in stored]:
        raise SphereflowError(f"{path} holds another network; train a new one or choose another name.")
    state = eqx.combine(jax.tree.unflatten(structure, [jax.numpy.asarray(a) for a in stored]), rest)
    if not np.array_equal(state.key, fresh.key):
        raise SphereflowError(f"{path} was made with another seed; choose another name.")
    return state
