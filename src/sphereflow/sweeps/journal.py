"""The file beside a sweep that says which blocks are in it: one line for each, and a lock for the one who writes.

A line has the number of the block, a digest, the boxes of cells that it covers and which of its cells failed. The
digest is of all of that and of the values, so that a line holds for these values at these places and for no others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.reading import file_bytes
from sphereflow.sweeps.grid import Region

# What looks otherwise, such as a line that was cut, is not counted.
_LINE = re.compile(r"^([0-9]{1,18}) ([0-9a-f]{16}) ([0-9:,;]+) ([0-9,]+|-)\n", re.MULTILINE)


class Entry(NamedTuple):
    """A line without its number."""

    digest: str
    regions: str
    failed: str

    @classmethod
    def of(cls, number: int, regions: Sequence[Region], failed: np.ndarray, values: Mapping[str, np.ndarray]) -> Entry:
        """The line that a block deserves; `failed` says which of its cells did."""
        place = written(regions)
        which = ",".join(map(str, np.flatnonzero(failed))) or "-"
        return cls(digest(values, f"{number} {place} {which}"), place, which)

    def failed_cells(self, count: int) -> np.ndarray:
        """Which of the `count` cells of the block failed."""
        failed = np.zeros(count, bool)
        if self.failed != "-":
            failed[[int(position) for position in self.failed.split(",")]] = True
        return failed


def journal_of(folder: Path) -> Path:
    """The journal of the sweep in this folder."""
    return folder.with_name(folder.name + ".journal")


def entries(folder: Path) -> dict[int, Entry]:
    """The last line of every block."""
    try:
        text = file_bytes(journal_of(folder)).decode("ascii", errors="replace")
    except SphereflowError:
        return {}
    return {int(number): Entry(*rest) for number, *rest in _LINE.findall(text)}


def add(folder: Path, number: int, entry: Entry) -> None:
    """Enter a block that has been written."""
    with open(journal_of(folder), "a") as journal:
        journal.write(f"{number} {' '.join(entry)}\n")


def close_last_line(folder: Path) -> None:
    """A line that was cut must not swallow the next one."""
    path = journal_of(folder)
    content = file_bytes(path) if path.exists() else b""
    if content and not content.endswith(b"\n"):
        with open(path, "a") as journal:
            journal.write("\n")


def written(regions: Sequence[Region]) -> str:
    """Boxes as text: begin and end on every axis."""
    return ";".join(",".join(f"{part.start}:{part.stop}" for part in region) for region in regions)


def read_regions(text: str) -> list[Region]:
    """The boxes that `written` wrote; ValueError if it did not."""
    ends = [[part.split(":") for part in box.split(",")] for box in text.split(";")]
    return [tuple(slice(int(begin), int(end)) for begin, end in box) for box in ends]


def cells_in(region: Region) -> tuple[int, ...]:
    """The lengths of a box."""
    return tuple(part.stop - part.start for part in region)


def digest(values: Mapping[str, np.ndarray], words: str = "") -> str:
    """Sixteen hexadecimal digits for named arrays and a text."""
    hashed = hashlib.sha256(words.encode())
    for name in sorted(values):
        hashed.update(f"\n{name} {values[name].shape}\n".encode())
        hashed.update(np.ascontiguousarray(values[name]).tobytes())
    return hashed.hexdigest()[:16]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out; the operating system opens the lock when this one ends, however it ends."""
    path = journal_of(folder)
    with ExitStack() as stack:
        handle = stack.enter_context(open(path, "a"))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A journal that its owner took away between the two lines above is no longer the one that others see.
            mine = path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat())
        except OSError:
            mine = False
        if not mine:
            raise SphereflowError(f"another process is writing {folder}: wait for it, or use another name.")
        yield
