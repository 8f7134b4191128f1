"""`sweep`: measure a function on a grid, keep what is done, go on where it stopped."""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.fingerprints import Unidentified, fingerprint, sources
from sphereflow.progress import Progress, progress_bar
from sphereflow.provenance import circumstances
from sphereflow.sweeps.functions import cell_name, of_function, refuse_other_shapes
from sphereflow.sweeps.grid import Grid, Region
from sphereflow.sweeps.quantities import FAILED, Cell, Quantity, Values, quantity
from sphereflow.sweeps.refine import Refinement
from sphereflow.sweeps.result import Sweep, opened
from sphereflow.sweeps.specification import Specification, is_plain
from sphereflow.sweeps.store import STATE, CellBlock, Store
from sphereflow.sweeps.workers import connected, here, on_cluster

_CHUNK = 32  # points per refined axis

Piece = tuple[int, tuple[Region, ...]]


def sweep(
    function: Callable[..., Any] | str,
    grid: Mapping[str, Iterable[Any]] | Grid,
    *,
    fixed: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    version: str | None = None,
    vmap: bool = False,
    batch: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    refine: Any = None,
    title: str = "",
    progress: Progress = None,
) -> Sweep:
    """Call `function` in every cell of a grid of named axes and return one dataset.

    **Arguments:**

    - `function`: called with one keyword per axis and per entry of `fixed`; returns a number, or a dictionary of
      numbers and arrays. Or the name of a quantity, such as "clustering" (see `sphereflow.sweeps.QUANTITIES`).
    - `grid`: names and values; seeds are an axis like any other.
    - `out`: a zarr folder. The same call continues a sweep that was cut short; without it the result is in memory.
    - `version`: a word of your own for the state of a function that cannot be identified by its code, such as one that
      holds an open file. Without it a sweep in `out` is continued only if the function, its globals, helpers, closures
      and `fixed` are the same; with it, if the function's name and this word are.
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
    rules = refine if refine is None or isinstance(refine, Refinement) else Refinement.from_table(refine, axes)
    named = isinstance(function, str)
    measured = quantity(function) if isinstance(function, str) else of_function(function, axes, dict(fixed or {}), vmap)
    if version is not None and (named or not isinstance(version, str) or not version):
        raise SphereflowError(f"version is a word for the state of a function of your own; got {version!r}.")
    specification = Specification(measured.name, axes, dict(fixed or {}), rules, title)
    record = _record(specification, measured, out)
    if not named:
        record["vmap"] = bool(vmap)
    if version is not None:
        record["function"] = {"version": version}
    elif out is not None:
        record["fixed"] = _marks(specification)
        record["function"] = None if named else {"digest": _digest(function, "the function")}
    return _run(specification, measured, record, out, batch, workers, scheduler, progress)


def run_specification(
    specification: Specification,
    *,
    out: str | Path | None = None,
    batch: int | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress = None,
) -> Sweep:
    """Run or continue the sweep of a specification."""
    measured = quantity(specification.quantity)
    record = _record(specification, measured, out) | {"fixed": _marks(specification), "function": None}
    return _run(specification, measured, record, out, batch, workers, scheduler, progress)


def _record(specification: Specification, measured: Quantity, out: str | Path | None) -> dict[str, Any]:
    """What is measured, where, and with what; kept beside the values, to know the same sweep again."""
    given = {*specification.fixed, *specification.grid.names}
    record = specification.plain()
    if measured.shipped:
        record["defaults"] = {name: value for name, value in measured.parameters.items() if name not in given}
    if out is not None:
        record["made_with"] = circumstances()
        if measured.shipped:
            record["made_with"]["sources"] = sources()
    return record


def _marks(specification: Specification) -> dict[str, Any]:
    """The fixed values; those that cannot be written down, such as arrays and models, by their digests."""
    return {
        name: value
        if is_plain(value)
        else {"type": type(value).__qualname__, "digest": _digest(value, f"'{name}' of fixed")}
        for name, value in sorted(specification.fixed.items())
    }


def _digest(thing: Any, name: str) -> str:
    try:
        return fingerprint(thing, name)
    except Unidentified as error:
        raise SphereflowError(
            f'{str(error).rstrip(".")}: pass version="1", a word of your own that you change whenever the '
            "function's values do."
        ) from None


def _run(
    specification: Specification,
    measured: Quantity,
    record: Mapping[str, Any],
    out: str | Path | None,
    batch: int | None,
    workers: int | None,
    scheduler: str | None,
    progress: Progress,
) -> Sweep:
    grid, fixed, rules = specification.grid, dict(specification.fixed), specification.refine
    measured.check_axes(grid.names)
    first = measured.completed({**fixed, **grid.first_cell()})
    if batch is not None:
        whole_number("batch", batch)
    if workers is not None:
        whole_number("workers", workers, most=1024)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "sweep" if out is None else _target(out)
        store = stack.enter_context(
            Store.open(place, grid, record, title=specification.title, batch=batch, usual=measured.batch)
        )
        if store.complete:
            return opened(place, trusted=True)
        shape = grid.block_shape(store.batch)
        if rules is not None:
            # Blocks are scattered points; chunks are larger, or a fine grid would be a million files.
            shape = tuple(min(len(a.values), _CHUNK) if a.name in rules.axes else len(a.values) for a in grid.axes)
        if measured.variables is not None:  # otherwise the first block tells
            _declare(store, specification, measured.coordinates(first), measured.variables, shape)
        work = functools.partial(evaluate, measured, grid, fixed)
        computer: Callable[[Iterable[Piece]], Any] = functools.partial(here, work)
        if workers is not None or scheduler is not None:
            client = stack.enter_context(connected(workers, scheduler))
            computer = functools.partial(on_cluster, client, work)
        plan = _Plan(specification, shape, store.batch)
        with progress_bar(specification.quantity, progress, total=grid.size) as bar:
            for pieces in plan.rounds():
                missing = []
                for piece in pieces:
                    known = store.recall(*piece)
                    if known is None:
                        missing.append(piece)
                    else:
                        bar.advance(plan.note(piece, known.values))
                for piece, block in computer(missing):
                    if not store.variables:
                        _declare(store, specification, *_seen(block.values), shape)
                    _check_shapes(store, grid, piece, block)
                    store.write(piece[0], piece[1], block)
                    bar.advance(plan.note(piece, block.values))
        store.finish()
        sweep_result = opened(place, trusted=True)
        return sweep_result.in_memory() if out is None else sweep_result


def _target(out: str | Path) -> Path:
    """Where the folder goes; a name that promises another kind of file is refused."""
    path = Path(out)
    if path.suffix.lower() != ".zarr" and any(letter.isalpha() for letter in path.suffix):
        raise SphereflowError(f"out must end in .zarr or have no ending, for it becomes a folder; got {str(out)!r}.")
    return path


def _declare(
    store: Store, specification: Specification, extra: Values, variables: Mapping[str, tuple[str, ...]], shape: tuple
) -> None:
    """Allocate what a cell returns, once it is clear that nothing collides."""
    names = [*specification.grid.names, STATE]
    for name in (*extra, *variables):
        if name in names:
            raise SphereflowError(f"'{name}' is part of the result and cannot be the name of something else as well.")
        names.append(name)
    rules = specification.refine
    if rules is not None and rules.variable not in variables:
        raise SphereflowError(f"[refine] variable must be one of {', '.join(variables)}; got '{rules.variable}'.")
    store.declare(extra, variables, shape)


def _seen(values: Values) -> tuple[Values, dict[str, tuple[str, ...]]]:
    """Dimensions, numbered from zero, of what a first block returned."""
    variables = {name: tuple(f"{name}_{i}" for i in range(value.ndim - 1)) for name, value in values.items()}
    extra = {
        dimension: np.arange(length)
        for name, value in values.items()
        for dimension, length in zip(variables[name], value.shape[1:], strict=True)
    }
    return extra, variables


def _check_shapes(store: Store, grid: Grid, piece: Piece, block: CellBlock) -> None:
    """A block must have the variables and shapes of the blocks before it."""
    lead = len(grid.shape)
    shapes = {name: array.shape[lead:] for name, array in store.variables.items()}
    computed = {name: value.shape[1:] for name, value in block.values.items()}
    refuse_other_shapes(computed, shapes, cell_name(grid.cells(piece[1][0])[0], grid.names))


def evaluate(measured: Quantity, grid: Grid, fixed: Cell, piece: Piece) -> CellBlock:
    """The values of a block, cells in the order of its regions; an error names the first of its cells."""
    cells = [measured.completed({**fixed, **cell}) for region in piece[1] for cell in grid.cells(region)]
    try:
        values = measured.evaluate(cells)
    except SphereflowError as error:
        raise SphereflowError(f"in the block from {cell_name(cells[0], grid.names)}: {error}") from None
    except Exception as error:
        raise SphereflowError(
            f"the function failed in the block from {cell_name(cells[0], grid.names)}: {type(error).__name__}: {error}."
        ) from error
    failed = values.pop(FAILED, None) if measured.shipped else None
    return CellBlock(values, np.zeros(len(cells), bool) if failed is None else failed)


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
