"""One dataset on disk that grows block by block and survives its process.

The folder is a zarr group that xarray opens at any time: coordinates, and one array per variable, with a missing value
where nothing is known yet. Every block is written as whole chunks, and then one line is added to the journal beside
the folder: the block's number and the checksum of its values. What has no line, or does not match it, is computed
again. One process writes; a lock on the journal, which the operating system releases with the process, keeps others
out.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.provenance import versions
from sphereflow.reading import distrusted, file_bytes, honest_size, plain_data
from sphereflow.saving import promote_folder
from sphereflow.sweeps.grid import Grid, Region
from sphereflow.sweeps.specification import Specification, difference

FORMAT = "sphereflow sweep, version 1"
# A line of the journal: the number of a block and its checksum. What looks otherwise is not counted.
_LINE = re.compile(r"^([0-9]{1,18}) ([0-9a-f]{8})\n", re.MULTILINE)


class Store:
    """The result of a sweep on disk, open for writing."""

    def __init__(self, folder: Path, grid: Grid):
        self._folder, self._grid = folder, grid
        self._lines = _entries(journal_of(folder))
        with distrusted(folder, "sweep; remove it, or choose another name"):
            self._group: Any = _group(folder, mode="r+")
            names: Any = self._group.attrs.get("variables", [])
            self.variables: dict[str, Any] = {name: self._group[name] for name in names}
            for name, array in self.variables.items():
                if array.shape[: len(grid.shape)] != grid.shape or array.dtype != float:
                    raise ValueError(f"the array '{name}' is not of this grid")

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, specification: Specification) -> Iterator[Store]:
        """Start or continue the sweep at `path`; nobody else can write there meanwhile."""
        folder = Path(path)
        with _spoken(folder):
            if folder.exists() and not _is_sweep(folder) and (not folder.is_dir() or any(folder.iterdir())):
                raise SphereflowError(f"{folder} exists and is not a sweep: choose another name.")
            folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(journal_of(folder)):
            fresh = not _is_sweep(folder)
            try:
                with _spoken(folder):
                    if fresh:
                        _create(folder, specification)
                    _same(folder, specification)
                    _close_last_line(journal_of(folder))
                    store = cls(folder, specification.grid)
                yield store
            except BaseException:
                if fresh and not _entries(journal_of(folder)):  # nothing was computed that could be lost
                    shutil.rmtree(folder, ignore_errors=True)
                    journal_of(folder).unlink(missing_ok=True)
                raise

    def declare(self, extra: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[str, ...]], chunks: tuple) -> None:
        """Make the arrays, once it is known what a cell returns: names, and the dimensions beside the axes."""
        with _spoken(self._folder):
            for name, values in extra.items():
                if name not in self._group:
                    _put(self._group, name, values)
            for name, dimensions in shapes.items():
                if name in self.variables:
                    continue
                if name in self._group:  # left by a process that died right here
                    del self._group[name]
                lengths = tuple(len(extra[dimension]) for dimension in dimensions)
                self.variables[name] = self._group.create_array(
                    name, shape=self._grid.shape + lengths, chunks=chunks + lengths, dtype="float64",
                    fill_value=float("nan"), dimension_names=(*self._grid.names, *dimensions),
                )  # fmt: skip
            # Last, because from here on the arrays count.
            self._group.attrs["variables"] = list(self.variables)

    def recall(self, number: int, regions: Sequence[Region]) -> dict[str, np.ndarray] | None:
        """The values of a block, if it was written and is still what was written."""
        if self._lines.get(number) is None or not self.variables:
            return None
        try:
            found = {name: self._read(array, regions) for name, array in self.variables.items()}
        except Exception:  # what the decoder raises for a chunk that was cut or exchanged has many kinds
            return None
        return found if _checksum(found) == self._lines[number] else None

    def write(self, number: int, regions: Sequence[Region], values: Mapping[str, np.ndarray]) -> None:
        """Write the cells of a block, in the order of its regions, and enter it in the journal."""
        with _spoken(self._folder):
            begin = 0
            for region in regions:
                box = tuple(part.stop - part.start for part in region)
                count = int(np.prod(box))
                for name, array in self.variables.items():
                    array[region] = values[name][begin : begin + count].reshape(box + values[name].shape[1:])
                begin += count
            ordered = {name: values[name] for name in self.variables}
            self._lines[number] = _checksum(ordered)
            with open(journal_of(self._folder), "a") as journal:
                journal.write(f"{number} {self._lines[number]:08x}\n")

    def finish(self, cells: int) -> None:
        """Say that everything asked for is there."""
        with _spoken(self._folder):
            self._group.attrs.update({"complete": True, "cells_computed": cells})

    def _read(self, array: Any, regions: Sequence[Region]) -> np.ndarray:
        lead = len(self._grid.shape)
        boxes = [np.asarray(array[region]) for region in regions]
        return np.concatenate([box.reshape((-1, *box.shape[lead:])) for box in boxes])


def header(path: str | Path) -> dict[str, Any]:
    """What a sweep's folder says of itself: specification, versions, whether it is complete, blocks written."""
    folder = Path(path)
    if not folder.exists():
        raise SphereflowError(f"there is no sweep at {path}.")
    if not _is_sweep(folder):
        raise SphereflowError(f"{path} is not a sweep.")
    with distrusted(folder, "sweep"):
        group = _group(folder, mode="r")
        for name, array in group.arrays():
            if array.ndim == 1:  # coordinates, which are read at once
                honest_size(array, name)
        attributes = dict(group.attrs)
    return attributes | {"blocks_written": len(_entries(journal_of(folder)))}


def _create(folder: Path, specification: Specification) -> None:
    """Made under another name and then renamed, so that it is there as a whole or not at all."""
    attributes: dict[str, Any] = {
        "format": FORMAT,
        "specification": json.dumps(specification.plain()),
        "title": specification.title,
        "versions": versions(),
        "complete": False,
    }
    beginning = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beginning, ignore_errors=True)
    try:
        group = _group(beginning, mode="w", attributes=attributes)
        for axis in specification.grid.axes:
            _put(group, axis.name, axis.coordinate)
        journal_of(folder).write_text("")
        promote_folder(beginning, folder)
    finally:
        shutil.rmtree(beginning, ignore_errors=True)


def journal_of(folder: Path) -> Path:
    """The file beside the folder that says which blocks are in it."""
    return folder.with_name(folder.name + ".journal")


def _group(folder: Path, **options: Any) -> Any:
    import zarr  # slow to load, and most programs that load this one sweep nothing

    return zarr.open_group(folder, **options)


def _put(group: Any, name: str, values: np.ndarray) -> None:
    words = values.dtype.kind == "U"
    array = group.create_array(
        name, shape=values.shape, dtype="string" if words else values.dtype, chunks=values.shape,
        dimension_names=(name,),
    )  # fmt: skip
    array[...] = values.astype(object) if words else values


def _is_sweep(folder: Path) -> bool:
    try:
        return plain_data(file_bytes(folder / "zarr.json"))["attributes"]["format"] == FORMAT
    except (ValueError, KeyError, TypeError):
        return False


def _same(folder: Path, specification: Specification) -> None:
    with distrusted(folder, "sweep"):
        stored = dict(plain_data(str(_group(folder, mode="r").attrs["specification"])))
    changed = difference(stored, json.loads(json.dumps(specification.plain())))
    if changed is not None:
        raise SphereflowError(f"{folder} holds another sweep: {changed}; remove it or choose another name.")


def _entries(path: Path) -> dict[int, int]:
    """Block numbers and checksums; a last line that was cut is not counted."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    return {int(number): int(checksum, 16) for number, checksum in _LINE.findall(text)}


def _close_last_line(path: Path) -> None:
    """A line that was cut must not swallow the next one."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        with open(path, "a") as journal:
            journal.write("\n")


def _checksum(values: Mapping[str, np.ndarray]) -> int:
    total = 0
    for name in sorted(values):
        total = zlib.crc32(np.ascontiguousarray(values[name], dtype=float).tobytes(), total)
    return total


@contextmanager
def _locked(journal: Path) -> Iterator[None]:
    with ExitStack() as stack:
        with _spoken(journal):
            handle = stack.enter_context(open(journal, "a"))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            target = journal.with_suffix("")
            raise SphereflowError(f"another process is writing {target}: wait for it, or use another name.") from None
        yield


@contextmanager
def _spoken(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SphereflowError(f"cannot write {folder}: {error.strerror or error}; what was written is kept.") from None
