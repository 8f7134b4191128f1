"""`sweep`: measure a function on a grid, keep what is done, go on where it stopped."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.progress import progress_bar
from sphereflow.sweeps.grid import Grid, Region
from sphereflow.sweeps.quantities import Cell, Quantity, Values, quantity, round_up
from sphereflow.sweeps.result import Sweep, open_sweep
from sphereflow.sweeps.specification import Specification
from sphereflow.sweeps.store import Store
from sphereflow.sweeps.workers import connected, here, on_cluster

_CHUNK = 32  # points per refined axis

Piece = tuple[int, tuple[Region, ...]]


def sweep(
    function: Callable[..., Any] | str,
    grid: Mapping[str, Sequence[Any] | np.ndarray] | Grid,
    *,
    fixed: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    vmap: bool = False,
    batch: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    refine: Any = None,
    title: str = "",
    progress: bool | None = None,
) -> Sweep:
    """Call `function` in every cell of a grid of named axes and return one dataset.

    **Arguments:**

    - `function`: called with one keyword per axis and per entry of `fixed`; returns a number, or a dictionary of
      numbers and arrays. Or the name of a quantity, such as "clustering" (see `sphereflow.sweeps.QUANTITIES`).
    - `grid`: names and values; seeds are an axis like any other.
    - `out`: a zarr folder. The same call continues a sweep that was cut short; without it the result is in memory.
    - `vmap`: the function takes JAX numbers, and `batch` cells (64) share one compiled call.
    - `workers`: this many local processes; `scheduler`: the address of a Dask cluster instead.
    - `refine`: a table as in a specification file, to compute only where a variable crosses a level.

    ```python
    import sphereflow as sf
    found = sf.sweep(lambda beta, seed: beta**2 + seed, {"beta": [1.0, 2.0], "seed": range(3)})
    found.dataset["value"].mean("seed")
    ```
    """
    axes = grid if isinstance(grid, Grid) else Grid.of(grid)
    kept = dict(fixed or {})
    for name in kept:
        if name in axes.names:
            raise SphereflowError(f"'{name}' is both an axis and fixed.")
    measured = quantity(function) if isinstance(function, str) else _of_function(function, axes, kept, vmap)
    rules = None
    if refine is not None:
        from sphereflow.sweeps.refine import Refinement

        rules = refine if isinstance(refine, Refinement) else Refinement.from_table(refine, axes)
    specification = Specification(measured.name, axes, kept, rules, title)
    return run_specification(
        specification, out=out, measured=measured, batch=batch, workers=workers, scheduler=scheduler, progress=progress
    )


def run_specification(
    specification: Specification,
    *,
    out: str | Path | None = None,
    measured: Quantity | None = None,
    batch: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Run or continue the sweep of a specification."""
    measured = quantity(specification.quantity) if measured is None else measured
    grid, fixed = specification.grid, dict(specification.fixed)
    first = measured.completed({**fixed, **grid.cells(tuple(slice(0, 1) for _ in grid.shape))[0]})
    per_call = measured.batch if batch is None else whole_number("batch", batch)
    if workers is not None:
        whole_number("workers", workers, most=1024)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sweep" if out is None else Path(out)
        store = stack.enter_context(Store.open(place, specification))
        rules = specification.refine
        shape = grid.block_shape(per_call)
        if rules is not None:
            # Blocks are scattered points; chunks are larger, or a fine grid would be a million files.
            shape = tuple(min(len(a.values), _CHUNK) if a.name in rules.axes else len(a.values) for a in grid.axes)
        if measured.variables is not None:
            _declare(store, specification, measured.coordinates(first), measured.variables, shape)
        work = functools.partial(evaluate, measured, grid, fixed)
        computer: Callable[[Iterable[Piece]], Any] = functools.partial(here, work)
        if workers is not None or scheduler is not None:
            client = stack.enter_context(connected(workers, scheduler))
            computer = functools.partial(on_cluster, client, work)
        plan = _Plan(specification, shape, per_call)
        with progress_bar(specification.quantity, progress, total=grid.size) as bar:
            for pieces in plan.rounds():
                missing = []
                for piece in pieces:
                    known = store.recall(*piece)
                    if known is None:
                        missing.append(piece)
                    else:
                        bar.advance(plan.note(piece, known))
                for piece, values in computer(missing):
                    if not store.variables:
                        _declare(store, specification, *_seen(values), shape)
                    store.write(piece[0], piece[1], values)
                    bar.advance(plan.note(piece, values))
        store.finish(plan.cells)
        found = open_sweep(place)
        return found.in_memory() if out is None else found


def _declare(
    store: Store, specification: Specification, extra: Values, variables: Mapping[str, tuple[str, ...]], shape: tuple
) -> None:
    """Make room for what a cell returns, once it is clear that nothing collides."""
    taken = [name for name in (*extra, *variables) if name in specification.grid.names]
    if taken:
        raise SphereflowError(f"'{taken[0]}' is part of the result and cannot be the name of an axis as well.")
    rules = specification.refine
    if rules is not None and rules.variable not in variables:
        raise SphereflowError(f"[refine] variable must be one of {', '.join(variables)}; got '{rules.variable}'.")
    store.declare(extra, variables, shape)


def _seen(values: Values) -> tuple[Values, dict[str, tuple[str, ...]]]:
    """Dimensions, numbered from zero, of what a first block returned."""
    variables = {name: tuple(f"{name}_{i}" for i in range(value.ndim - 1)) for name, value in values.items()}
    extra = {dimension: np.arange(length) for name, value in values.items()
             for dimension, length in zip(variables[name], value.shape[1:], strict=True)}  # fmt: skip
    return extra, variables


def evaluate(measured: Quantity, grid: Grid, fixed: Cell, piece: Piece) -> Values:
    """The values of a block, cells in the order of its regions; an error names the first of its cells."""
    cells = [measured.completed({**fixed, **cell}) for region in piece[1] for cell in grid.cells(region)]
    try:
        return measured.evaluate(cells)
    except SphereflowError as error:
        raise SphereflowError(f"in the block from {_told(cells[0], grid)}: {error}") from None
    except Exception as error:
        raise SphereflowError(
            f"the function failed in the block from {_told(cells[0], grid)}: {type(error).__name__}: {error}."
        ) from error


class _Plan:
    """Numbered blocks, all at once or round by round; the numbers are the same however often the sweep is cut."""

    def __init__(self, specification: Specification, shape: tuple[int, ...], batch: int):
        self._grid, self._rules, self._shape, self._batch = specification.grid, specification.refine, shape, batch
        self._table = np.full(self._grid.shape if self._rules else (), np.nan)
        self.cells = 0

    def rounds(self) -> Iterator[list[Piece]]:
        """Lists of blocks; all of one must have been noted before the next is asked for."""
        if self._rules is None:
            yield [(number, (region,)) for number, region in enumerate(self._grid.blocks(self._shape))]
            return
        others = tuple(i for i, name in enumerate(self._grid.names) if name not in self._rules.axes)
        per_call, first = max(1, self._batch // math.prod(self._grid.shape[i] for i in others)), 0
        for regions in self._rules.rounds(self._grid, lambda: np.asarray(self._table.mean(axis=others))):
            groups = [tuple(regions[i : i + per_call]) for i in range(0, len(regions), per_call)]
            yield list(enumerate(groups, start=first))
            first += len(groups)

    def note(self, piece: Piece, values: Values) -> int:
        """Take in a block, and say how many cells it has."""
        begin = self.cells
        for region in piece[1]:
            box = tuple(part.stop - part.start for part in region)
            count = int(np.prod(box))
            if self._rules is not None:
                mine = values[self._rules.variable][self.cells - begin :][:count]
                for _ in range(mine.ndim - 1):
                    mine = mine[..., -1]  # the end of its own dimensions, such as time
                self._table[region] = mine.reshape(box)
            self.cells += count
        return self.cells - begin


def _told(cell: Cell, grid: Grid) -> str:
    return ", ".join(f"{name}={cell[name]}" for name in grid.names)


def _of_function(function: Callable[..., Any], grid: Grid, fixed: Mapping[str, Any], vmap: bool) -> Quantity:
    """A user's function as a quantity; its first block tells what it returns."""
    if not callable(function):
        raise SphereflowError(f"the function must be callable, or the name of a quantity; got {function!r}.")
    first = {**fixed, **grid.cells(tuple(slice(0, 1) for _ in grid.shape))[0]}
    try:
        inspect.signature(function).bind(**first)
    except TypeError as error:
        raise SphereflowError(f"the function does not take the axes {', '.join(first)}: {error}.") from None
    except ValueError:
        pass  # some compiled functions have no signature to look at
    every = functools.partial(_vmapped if vmap else _looped, function)
    return Quantity(
        _name(function), "a function of the user", dict.fromkeys(first), None, every, batch=64 if vmap else 1
    )  # fmt: skip


def _looped(function: Callable[..., Any], cells: Sequence[Cell]) -> Values:
    rows = [_as_values(function(**cell)) for cell in cells]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _vmapped(function: Callable[..., Any], cells: Sequence[Cell]) -> Values:
    import jax.numpy as jnp

    padded = [*cells, *[cells[-1]] * (round_up(len(cells)) - len(cells))]
    columns = {name: jnp.asarray([cell[name] for cell in padded]) for name in cells[0]}
    return {name: value[: len(cells)] for name, value in _as_values(_compiled(function)(**columns)).items()}


@functools.lru_cache(maxsize=32)
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda **columns: jax.vmap(lambda cell: function(**cell))(columns))


def _as_values(returned: Any) -> Values:
    given = returned if isinstance(returned, Mapping) else {"value": returned}
    try:
        return {str(name): np.asarray(value, dtype=float) for name, value in given.items()}
    except (TypeError, ValueError):
        raise SphereflowError(
            f"the function must return a number, or a dictionary of numbers and arrays; got {type(returned).__name__}."
        ) from None


def _name(function: Callable[..., Any]) -> str:
    """Where the function lives and what it says, so that another function does not continue its sweep."""
    code = getattr(function, "__code__", None)
    said = b"" if code is None else code.co_code + repr(code.co_consts).encode()
    place = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(type(function)))}"
    return f"{place} {hashlib.sha256(said).hexdigest()[:12]}"
