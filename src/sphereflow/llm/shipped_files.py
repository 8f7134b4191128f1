"""Files of results of real models that come with the package: their names, and how one is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from sphereflow.errors import SphereflowError, one_of
from sphereflow.reading import file_bytes, packed_arrays
from sphereflow.results import SUFFIX, Result, read_result

R = TypeVar("R", bound=Result)
FOLDER = Path(__file__).parent / "recordings"


def shipped_names(*folders: str) -> tuple[str, ...]:
    """The names of the files in these folders, with the folder in front where there are several."""
    found = [(folder, path.stem) for folder in folders for path in (FOLDER / folder).glob(f"*{SUFFIX}")]
    return tuple(sorted(name if len(folders) == 1 else f"{folder}/{name}" for folder, name in found))


def opened(name: str, known: tuple[str, ...], kind: type[R], folder: str = "") -> R:
    """One of the known files, which must hold this kind of result; its arrays cannot be written to."""
    one_of("the recording", name, known)
    path = FOLDER / folder / f"{name}{SUFFIX}"
    arrays = packed_arrays(file_bytes(path))
    for array in arrays.values():
        array.flags.writeable = False
    found = read_result(path, arrays)
    if not isinstance(found, kind):
        raise SphereflowError(f"{path} holds {type(found).__name__}, not a {kind.__name__}.")
    return found
