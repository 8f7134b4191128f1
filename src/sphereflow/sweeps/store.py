"""One dataset on disk that grows block by block and survives its process.

The folder is a zarr group that xarray opens at any time: coordinates, and one array per variable, with a missing value
where nothing is known yet. Every block is written as whole chunks, and then one line is added to the journal beside
the folder. What has no line, or does not match it, is computed again. When the last block is there, the digests of the
whole arrays are added to the folder, which from then on can be moved without its journal. One process writes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.provenance import versions
from sphereflow.reading import distrusted, file_bytes, plain_data, plausible_size
from sphereflow.saving import promote_folder
from sphereflow.sweeps import journal
from sphereflow.sweeps.grid import Grid, Region
from sphereflow.sweeps.specification import difference

FORMAT = "sphereflow sweep, version 2"
STATE = "cell_state"  # the array that says of every cell what became of it
COMPUTED, FAILED = 1, 2  # and 0 for cells that nobody computed
_AT_ONCE = 2**22  # numbers read at a time


class CellBlock(NamedTuple):
    """What a block of cells returned: arrays whose first axis counts them, and which of them failed."""

    values: dict[str, np.ndarray]
    failed: np.ndarray


class Store:
    """The result of a sweep on disk, open for writing."""

    def __init__(self, folder: Path, grid: Grid):
        self._folder, self._grid = folder, grid
        self._lines = journal.entries(folder)
        self._state = np.zeros(grid.shape, np.uint8)
        with distrusted(folder, "sweep; remove it, or choose another name"):
            self._group: Any = _group(folder, mode="r+")
            about = dict(self._group.attrs)
            check_coordinates(self._group, about, {axis.name: list(axis.values) for axis in grid.axes})
            self.batch = whole_number("batch", about["batch"])
            self.variables: dict[str, Any] = {name: self._group[name] for name in about.get("variables", [])}
            for name, array in self.variables.items():
                if array.shape[: len(grid.shape)] != grid.shape or array.dtype != float:
                    raise ValueError(f"the array '{name}' is not of this grid")
        self.complete = about.get("complete") is True and damaged(self._group, about) is None
        if about.get("complete") and not self.complete:
            self._group.attrs["complete"] = False  # until what is damaged has been computed again

    @classmethod
    @contextmanager
    def open(
        cls, path: str | Path, grid: Grid, record: Mapping[str, Any], *, title: str, batch: int | None, usual: int
    ) -> Iterator[Store]:
        """Start or continue the sweep at `path`; nobody else can write there meanwhile.

        `record` says what is swept, and a sweep goes on only if it says the same. So do the sizes of its blocks: a
        sweep that began with another `batch` is refused, because rounding may depend on which cells share a call.
        """
        folder = Path(os.path.realpath(path))
        with _spoken(folder):
            if folder.exists() and not is_sweep(folder) and (not folder.is_dir() or any(folder.iterdir())):
                raise SphereflowError(f"{path} exists and is not a sweep of this version: choose another name.")
            folder.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            with _spoken(folder):
                stack.enter_context(journal.locked(folder))
            fresh = not is_sweep(folder)
            try:
                with _spoken(folder):
                    if fresh:
                        _create(folder, grid, record, title, usual if batch is None else batch)
                    _same(folder, record)
                    journal.close_last_line(folder)
                    store = cls(folder, grid)
                    if batch is not None and batch != store.batch:
                        raise SphereflowError(
                            f"{path} was begun with batch = {store.batch}; got {batch}: leave it out to go on."
                        )
                    if title and title != store._group.attrs.get("title"):
                        store._group.attrs["title"] = title
                yield store
            except BaseException:
                if fresh and not journal.entries(folder):  # nothing was computed that could be lost
                    shutil.rmtree(folder, ignore_errors=True)
                    journal.journal_of(folder).unlink(missing_ok=True)
                raise

    def declare(self, extra: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[str, ...]], chunks: tuple) -> None:
        """Make the arrays, once it is known what a cell returns: names, and the dimensions beside the axes."""
        if self.variables:
            return
        with _spoken(self._folder):
            for name in (*extra, *shapes):
                self._remove(name)  # what a process left that died right here
            for name, values in extra.items():
                _put(self._group, name, values)
            for name, dimensions in shapes.items():
                lengths = tuple(len(extra[dimension]) for dimension in dimensions)
                self.variables[name] = self._group.create_array(
                    name,
                    shape=self._grid.shape + lengths,
                    chunks=chunks + lengths,
                    dtype="float64",
                    fill_value=float("nan"),
                    dimension_names=(*self._grid.names, *dimensions),
                )
            # Last and in one step, because from here on the arrays count.
            self._group.attrs.update(
                {
                    "coordinates": {name: journal.digest({name: values}) for name, values in extra.items()},
                    "variables": list(self.variables),
                }
            )

    def recall(self, number: int, regions: Sequence[Region]) -> CellBlock | None:
        """The values of a block, if it was written and is still what was written."""
        entry = self._lines.get(number)
        if entry is None or not self.variables or entry.regions != journal.written(regions):
            return None
        try:
            stored = {name: _read(array, regions) for name, array in self.variables.items()}
            failed = entry.failed_cells(_count(regions))
        except Exception:  # what the decoder raises for a chunk that was cut or exchanged has many kinds
            return None
        if journal.Entry.of(number, regions, failed, stored) != entry:
            return None
        self._note(regions, failed)
        return CellBlock(stored, failed)

    def write(self, number: int, regions: Sequence[Region], block: CellBlock) -> None:
        """Write the cells of a block, in the order of its regions, and enter it in the journal."""
        # One kind of NaN: a chunk of nothing else is not stored at all, and must be read back as it was written.
        values = {name: np.where(np.isnan(value), np.nan, value) for name, value in block.values.items()}
        with _spoken(self._folder):
            for name, array in self.variables.items():
                _fill(array, regions, values[name])
            self._note(regions, block.failed)
            self._lines[number] = journal.Entry.of(number, regions, block.failed, values)
            journal.add(self._folder, number, self._lines[number])

    def finish(self) -> None:
        """Say that everything asked for is there, and what it was."""
        with _spoken(self._folder):
            self._remove(STATE)
            state = self._group.create_array(
                STATE,
                shape=self._state.shape,
                dtype="uint8",
                chunks=self._state.shape,
                dimension_names=self._grid.names,
            )
            state[...] = self._state
            state.attrs.update({"flag_values": [0, COMPUTED, FAILED], "flag_meanings": "not_computed computed failed"})
            checksums = {name: _whole_digest(self._group[name]) for name in (*self.variables, STATE)}
            self._group.attrs.update(
                {
                    "complete": True,
                    "checksums": checksums,
                    "cells_computed": int((self._state > 0).sum()),
                }
            )

    def _remove(self, name: str) -> None:
        """Without asking zarr, which would read it first."""
        shutil.rmtree(self._folder / name, ignore_errors=True)

    def _note(self, regions: Sequence[Region], failed: np.ndarray) -> None:
        _fill(self._state, regions, np.where(failed, FAILED, COMPUTED))


def header(path: str | Path) -> dict[str, Any]:
    """What a sweep's folder says of itself: specification, versions, whether it is complete."""
    folder = Path(path)
    if not folder.exists():
        raise SphereflowError(f"there is no sweep at {path}.")
    if not is_sweep(folder):
        raise SphereflowError(f"{path} is not a sweep of this version.")
    with distrusted(folder, "sweep"):
        return dict(_group(folder, mode="r").attrs)


def check_coordinates(group: Any, about: Mapping[str, Any], axes: dict[str, list[Any]]) -> None:
    """ValueError where the coordinates of a sweep are not those that were written."""
    if about.get("record_digest") != journal.digest({}, str(about["specification"])):
        raise ValueError("what it says of itself was changed")
    for name, expected in (axes | dict(about.get("coordinates", {}))).items():
        plausible_size(group[name], name)
        values = np.asarray(group[name][...])
        if isinstance(expected, list) and values.tolist() != expected:
            raise ValueError(f"the axis '{name}' was changed")
        if not isinstance(expected, list) and journal.digest({name: values}) != expected:
            raise ValueError(f"the coordinate '{name}' was changed")


def damaged(group: Any, about: Mapping[str, Any]) -> str | None:
    """The first array of a complete sweep whose values are not those that were written."""
    for name in (*about.get("variables", ()), STATE):
        try:
            plausible_size(group[name], name)
            whole = _whole_digest(group[name]) == about["checksums"][name]
        except Exception:  # what the decoder raises for a chunk that was cut or exchanged has many kinds
            whole = False
        if not whole:
            return str(name)
    return None


def verified(folder: Path, group: Any, names: Sequence[str], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """For a sweep that is not complete: the cells whose block is what its line in the journal says, and their state."""
    known = {STATE: np.zeros(shape, np.uint8)}
    for name in names:
        plausible_size(group[name], name)
        known[name] = np.full(group[name].shape, np.nan)
    for number, entry in journal.entries(Path(os.path.realpath(folder))).items():
        try:
            regions = journal.read_regions(entry.regions)
            stored = {name: _read(group[name], regions) for name in names}
            failed = entry.failed_cells(_count(regions))
            if journal.Entry.of(number, regions, failed, stored) != entry:
                continue
        except Exception:  # as above; a block that cannot be read is not known
            continue
        for name, values in (stored | {STATE: np.where(failed, FAILED, COMPUTED)}).items():
            _fill(known[name], regions, values)
    return known


def _create(folder: Path, grid: Grid, record: Mapping[str, Any], title: str, batch: int) -> None:
    """Made under another name and then renamed, so that it is there as a whole or not at all."""
    text = json.dumps(record)
    attributes: dict[str, Any] = {
        "format": FORMAT,
        "specification": text,
        "record_digest": journal.digest({}, text),
        "title": title,
        "versions": versions(),
        "batch": batch,
        "complete": False,
    }
    beginning = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beginning, ignore_errors=True)
    try:
        group = _group(beginning, mode="w", attributes=attributes)
        for axis in grid.axes:
            _put(group, axis.name, axis.coordinate)
        journal.journal_of(folder).write_text("")
        promote_folder(beginning, folder)
    finally:
        shutil.rmtree(beginning, ignore_errors=True)


def _group(folder: Path, **options: Any) -> Any:
    import zarr  # slow to load, and most programs that load this one sweep nothing

    return zarr.open_group(folder, **options)


def _put(group: Any, name: str, values: np.ndarray) -> None:
    words = values.dtype.kind == "U"
    array = group.create_array(
        name,
        shape=values.shape,
        dtype="string" if words else values.dtype,
        chunks=values.shape,
        dimension_names=(name,),
    )
    array[...] = values.astype(object) if words else values


def _read(array: Any, regions: Sequence[Region]) -> np.ndarray:
    """The values of a block, cells in the order of its regions."""
    boxes = [np.asarray(array[region]) for region in regions]
    return np.concatenate([box.reshape((-1, *box.shape[len(regions[0]) :])) for box in boxes])


def _fill(table: Any, regions: Sequence[Region], values: np.ndarray) -> None:
    """Put the values of a block where they belong in an array of the whole grid."""
    begin = 0
    for region in regions:
        box = journal.cells_in(region)
        table[region] = values[begin : begin + math.prod(box)].reshape(box + values.shape[1:])
        begin += math.prod(box)


def _count(regions: Sequence[Region]) -> int:
    return sum(math.prod(journal.cells_in(region)) for region in regions)


def _whole_digest(array: Any) -> str:
    """The digest of all values in order, read in slabs of whole chunks."""
    per_row = max(math.prod(array.shape[1:]), 1)
    rows = max(array.chunks[0], _AT_ONCE // per_row // array.chunks[0] * array.chunks[0])
    slabs = (np.asarray(array[i : i + rows]) for i in range(0, array.shape[0], rows))
    return journal.digest({}, " ".join([str(array.shape), *(journal.digest({"": slab}) for slab in slabs)]))


def is_sweep(folder: Path) -> bool:
    """Whether a folder says of itself that it is a sweep of this version."""
    try:
        return plain_data(file_bytes(folder / "zarr.json"))["attributes"]["format"] == FORMAT
    except (ValueError, KeyError, TypeError):
        return False


def _same(folder: Path, record: Mapping[str, Any]) -> None:
    with distrusted(folder, "sweep"):
        stored = dict(plain_data(str(_group(folder, mode="r").attrs["specification"])))
    changed = difference(stored, json.loads(json.dumps(record)))
    if changed is not None:
        raise SphereflowError(f"{folder} holds another sweep: {changed}; remove it or choose another name.")


@contextmanager
def _spoken(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SphereflowError(f"cannot write {folder}: {error.strerror or error}; what was written is kept.") from None
