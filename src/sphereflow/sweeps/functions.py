"""A user's function as something a sweep can measure: called cell by cell, or many cells in one compiled call.

What it returns is checked in every cell: the same names and shapes everywhere, and real numbers that fit into 64 bits
without change.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.sweeps.grid import Grid
from sphereflow.sweeps.quantities import Cell, Quantity, Values, round_up

Shapes = Mapping[str, tuple[int, ...]]
_WHOLE = 2**53  # up to here every whole number is a float64


def of_function(function: Callable[..., Any], grid: Grid, fixed: Mapping[str, Any], vmap: bool) -> Quantity:
    """The quantity that a function measures; its first block shows what it returns."""
    if not callable(function):
        raise SphereflowError(f"the function must be callable, or the name of a quantity; got {function!r}.")
    first = {**fixed, **grid.first_cell()}
    try:
        inspect.signature(function).bind(**first)
    except TypeError as error:
        raise SphereflowError(f"the function does not take the axes {', '.join(first)}: {error}.") from None
    except ValueError:
        pass  # some compiled functions have no signature to look at
    every = functools.partial(_vmapped, function, uuid.uuid4().hex) if vmap else functools.partial(_looped, function)
    return Quantity(
        name_of(function),
        "a function of the user",
        dict.fromkeys(first),
        None,
        functools.partial(every, grid.names),
        batch=64 if vmap else 1,
    )


def name_of(function: Any) -> str:
    """Where a function lives and what it is called, or what is called when it is."""
    if isinstance(function, functools.partial):
        return f"partial of {name_of(function.func)}"
    known = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(function, '__module__', '')}.{known.__qualname__}"


def cell_name(cell: Cell, names: Sequence[str]) -> str:
    """A cell as a person would name it, "beta=1, seed=0"."""
    return ", ".join(f"{name}={cell[name]}" for name in names)


def _looped(function: Callable[..., Any], names: Sequence[str], cells: Sequence[Cell]) -> Values:
    rows: list[Values] = []
    for cell in cells:
        rows.append(as_values(function(**cell), cell_name(cell, names)))
        refuse_other_shapes(_shapes(rows[-1]), _shapes(rows[0]), cell_name(cell, names))
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _vmapped(function: Callable[..., Any], token: str, names: Sequence[str], cells: Sequence[Cell]) -> Values:
    import jax.numpy as jnp

    padded = [*cells, *[cells[-1]] * (round_up(len(cells)) - len(cells))]
    columns = {name: jnp.asarray([cell[name] for cell in padded]) for name in cells[0]}
    returned = as_values(_compiled(token, function)(**columns), cell_name(cells[0], names))
    return {name: value[: len(cells)] for name, value in returned.items()}


# The compiled function of the sweep that runs in this process, by the token of the sweep and not by the function: one
# that is equal to an older one may still see other globals or another state, and a compiled program does not.
_programs: dict[str, Callable[..., Any]] = {}


def _compiled(token: str, function: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    program = _programs.get(token)
    if program is None:
        program = jax.jit(lambda **columns: jax.vmap(lambda cell: function(**cell))(columns))
        _programs.clear()
        _programs[token] = program
    return program


def as_values(returned: Any, cell: str) -> Values:
    """What a function returned as arrays of float64, if they can hold it exactly."""
    given = returned if isinstance(returned, Mapping) else {"value": returned}
    if not given:
        raise SphereflowError(f"the function returned an empty dictionary at {cell}.")
    return {_name(name, cell): _exact(name, value, cell) for name, value in given.items()}


def refuse_other_shapes(shapes: Shapes, before: Shapes, cell: str) -> None:
    """Refuse what a cell returned if names or shapes are not those of the cells before."""
    for name in (*before, *shapes):
        if name not in shapes:
            raise SphereflowError(f"the function returned no '{name}' at {cell}, and did so before.")
        if name not in before:
            raise SphereflowError(f"the function returned '{name}' at {cell}, and did not before.")
        if shapes[name] != before[name]:
            raise SphereflowError(
                f"the function returned '{name}' of shape {shapes[name]} at {cell}, and of shape {before[name]} before."
            )


def _shapes(values: Values) -> dict[str, tuple[int, ...]]:
    return {name: value.shape for name, value in values.items()}


def _name(name: Any, cell: str) -> str:
    if not isinstance(name, str) or not name or name.startswith((".", "__")) or "/" in name or name == "zarr.json":
        raise SphereflowError(f"the function returned an entry named {name!r} at {cell}: names are plain words.")
    return name


def _exact(name: str, value: Any, cell: str) -> np.ndarray:
    try:
        array = np.asarray(None if isinstance(value, np.ma.MaskedArray) else value)  # it would lose its mask
    except (TypeError, ValueError):
        array = np.asarray(None)
    real = array.dtype.kind in "biuf" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    if isinstance(value, int) and array.dtype.kind == "O":
        _too_long(name, cell)
    if not real:
        kind = "None" if value is None else type(value).__name__ if array.dtype.kind == "O" else f"{array.dtype.name}"
        raise SphereflowError(
            f"the function must return a number, or a dictionary of numbers and arrays; at {cell} '{name}' is {kind}."
        )
    if array.dtype.kind in "iu":
        exact = bool(((array <= _WHOLE) & (array >= -_WHOLE)).all())
    else:
        exact = array.dtype.itemsize <= 8 or np.array_equal(array.astype(float), array, equal_nan=True)
    if not exact:
        _too_long(name, cell)
    return array.astype(float)


def _too_long(name: str, cell: str) -> None:
    raise SphereflowError(f"'{name}' at {cell} does not fit into float64, in which a sweep is kept.")
