"""Files and arrays from elsewhere, read with suspicion: what they promise is checked before memory is spent on it.

A file may be cut, of another kind, a pipe that never ends, nested a hundred thousand deep, or promise 10^15 numbers and
hold none. Each of these is one sentence. Nothing that a file contains is ever executed: no pickles.
"""

from __future__ import annotations

import io
import json
import math
import os
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, enough_memory, whole_number

# An array may promise this many times the bytes that it holds: numbers that repeat are packed well, others not at all.
_SURELY_HARMLESS, _MOST_EXPANSION, _MOST_PACKING = 2**26, 1000, 100


def regular_file(path: str | Path) -> int:
    """The number of bytes of a file that can be read to its end: not of a folder, a pipe or a device."""
    source = Path(path)
    with _spoken(source):
        status = source.stat()
    if stat.S_ISDIR(status.st_mode):
        raise SphereflowError(f"cannot read {source}: it is a folder.")
    if not stat.S_ISREG(status.st_mode):  # a pipe or a device may never end
        raise SphereflowError(f"cannot read {source}: it is not a file.")
    return status.st_size


def file_bytes(path: str | Path) -> bytes:
    """The content of a file that fits in memory."""
    enough_memory(regular_file(path), f"reading {path}")
    with _spoken(Path(path)):
        return Path(path).read_bytes()


def plain_folder(path: str | Path, *, links_out: bool = False) -> int:
    """The bytes of the largest file in a folder that holds, at any depth, nothing but files and folders.

    Libraries that read whole folders open whatever lies in them: a pipe would keep them for ever, a link lead them
    elsewhere. `links_out` allows links to files outside, as in the cache of a model hub.
    """
    root = Path(path)
    largest = 0
    with _spoken(root):
        home = root.resolve()
        waiting = [home]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink() and not (links_out or Path(entry.path).resolve().is_relative_to(home)):
                        raise SphereflowError(f"cannot read {root}: {entry.name} is a link to something outside of it.")
                    if entry.is_dir():
                        if not entry.is_symlink():  # what a link shows is met under its own name, or is not ours
                            waiting.append(Path(entry.path))
                    elif not entry.is_file():
                        raise SphereflowError(f"cannot read {root}: {entry.name} in it is not a file.")
                    else:
                        largest = max(largest, entry.stat().st_size)
    return largest


@contextmanager
def _spoken(source: Path) -> Iterator[None]:
    """What the system objects to, in one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise SphereflowError(f"there is no file {source}.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, SphereflowError):
            raise
        raise SphereflowError(f"cannot read {source}: {getattr(error, 'strerror', None) or error}.") from None


def real_array(name: str, value: Any, *, shape: tuple[int | str, ...] | None = None, finite: bool = True) -> np.ndarray:
    """Numbers that a user gives, as lists or as any array, in float64; or one sentence about what is wrong with them.

    `shape` has a number where one is needed and a letter where any will do, as in (3, "d"). NaN is always refused,
    infinities if `finite`.
    """
    try:
        given = np.asarray(value)
        if given.dtype.kind == "c":
            raise SphereflowError(f"{name} must be an array of real numbers, got complex ones.")
        array = given.astype(float) if given.dtype.kind in "biuf" else np.array(value, dtype=float)
    except SphereflowError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise SphereflowError(f"{name} must be an array of numbers, got {brief_value(value)}.") from None
    if shape is not None and (
        array.ndim != len(shape)
        or any(isinstance(want, int) and want != have for want, have in zip(shape, array.shape, strict=True))
    ):
        wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        raise SphereflowError(f"{name} must have the shape ({wanted}), got {array.shape}.")
    if np.isnan(array).any() or (finite and not np.isfinite(array).all()):
        raise SphereflowError(
            f"{name} must be finite: {np.count_nonzero(~np.isfinite(array))} entries are NaN or infinity."
        )
    return array


def whole_numbers(name: str, given: Any, *, least: int = 1) -> list[int]:
    """Whole numbers that a user gives in a list, a tuple or an array."""
    if isinstance(given, (str, bytes)) or not np.iterable(given):
        raise SphereflowError(f"{name} must be a list of whole numbers, got {brief_value(given)}.")
    return [whole_number(f"an entry of {name}", each, least=least) for each in given]


def density_values(name: str, function: Any, *places: np.ndarray, zero: bool = False) -> np.ndarray:
    """A density that a user gives as a function, at these places: finite, not negative; all may be zero if `zero`."""
    if not callable(function):
        raise SphereflowError(f"{name} must be a function of arrays, got {brief_value(function)}.")
    shape = np.broadcast_shapes(*(np.shape(at) for at in places))
    try:
        values = np.broadcast_to(np.asarray(function(*places), dtype=float), shape)
    except (TypeError, ValueError) as error:
        raise SphereflowError(f"{name} could not be evaluated on arrays: {error}") from None
    if not np.isfinite(values).all() or values.min(initial=0.0) < 0:
        raise SphereflowError(f"{name} must be finite and not negative, but it takes the value {_worst(values):.3g}.")
    if not zero and values.max(initial=0.0) <= 0:
        raise SphereflowError(f"{name} must have a positive mean, but it is zero.")
    return values


def _worst(values: np.ndarray) -> float:
    bad = values[~np.isfinite(values)]
    return float(bad[0] if bad.size else values.min())


def brief_value(value: Any) -> str:
    """What was given, short enough for a sentence."""
    return " ".join(repr(value).split())[:100]


def file_text(path: str | Path) -> str:
    """The content of a text file."""
    try:
        return file_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise SphereflowError(f"cannot read {path}: it is not a text in UTF-8.") from None


def plain_data(content: str | bytes) -> Any:
    """What a JSON text says; ValueError if it is none, or nested beyond all use."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def file_array(path: str | Path) -> np.ndarray:
    """The array that numpy.save wrote; ValueError if the file is something else, or was cut."""
    content = file_bytes(path)
    return _array(io.BytesIO(content), len(content))


def packed_arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays that numpy.savez wrote; ValueError if the bytes are something else, or were cut.

    The sizes that the parts promise, unpacked, are added up before any of them is.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            promised = parts.infolist()
            size = sum(part.file_size for part in promised)
            if size > _SURELY_HARMLESS and size > _MOST_PACKING * len(content):
                raise ValueError(f"it promises {size} bytes, and there are only {len(content)}")
            enough_memory(size, "unpacking the file")
            arrays = {}
            for part in promised:
                with parts.open(part) as stream:
                    arrays[part.filename.removesuffix(".npy")] = _array(stream, part.file_size)
            return arrays
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, zlib.error) as error:
        raise ValueError(str(error)) from None


@contextmanager
def distrusted(path: str | Path, kind: str) -> Iterator[None]:
    """Whatever a library underneath objects to, while it reads a damaged folder or file, becomes one sentence.

    For zarr and xarray, which raise dozens of kinds of errors and warn before they do, and open whatever lies there.
    """
    if Path(path).is_dir():
        enough_memory(plain_folder(path), f"reading {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SphereflowError:
        raise
    except Exception as error:
        raise SphereflowError(f"{path} is not a whole {kind}: {brief(error)}.") from None


def brief(error: Exception) -> str:
    """What a library said, on one line that fits into a sentence."""
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


def plausible_size(array: Any, name: str, *, parts: int = 1) -> None:
    """Refuse an array of zarr of which one of `parts` promises far more bytes than all of it holds on disk."""
    piece = math.prod(array.shape) // parts * array.dtype.itemsize
    promised = max(piece, math.prod(array.chunks) * array.dtype.itemsize)
    if promised > _SURELY_HARMLESS and promised > _MOST_EXPANSION * array.nbytes_stored():
        raise ValueError(f"'{name}' promises {promised} bytes, and there are only {array.nbytes_stored()}")


def _array(stream: Any, size: int) -> np.ndarray:
    """One array, once its header agrees with the number of bytes that follow it."""
    try:
        version = np.lib.format.read_magic(stream)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, kind = readers[version](stream)
    except Exception as error:  # the header is a Python literal, and its reader raises whatever a parser can
        raise ValueError(str(error)) from None
    if kind.hasobject or kind.kind not in "biufcSU":
        raise ValueError("it holds something other than numbers and words")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or kind.itemsize == 0 or count * kind.itemsize != size - stream.tell():
        raise ValueError("it is cut, or promises more than it holds")
    content = stream.read(count * kind.itemsize)
    if len(content) != count * kind.itemsize:
        raise ValueError("it is cut")
    return np.frombuffer(content, kind, count).reshape(shape, order="F" if fortran else "C").copy()
