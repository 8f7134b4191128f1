"""Recordings of real models that come with the package, so that heads of real networks need no torch."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TypeVar

from sphereflow.errors import SphereflowError, one_of
from sphereflow.llm.recorded.lengths import LengthRecording
from sphereflow.llm.recorded.recorder import Recording
from sphereflow.reading import file_bytes, packed_arrays
from sphereflow.results import SUFFIX, Result, read_result

R = TypeVar("R", bound=Result)
_FOLDER = Path(__file__).parent.parent / "recordings"


def recordings() -> tuple[str, ...]:
    """The names of the recordings that come with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{SUFFIX}")))


@functools.cache
def recording(name: str = "smollm2") -> Recording:
    """A recording that comes with the package: of windows of Python's help texts, by the name of the model.

    It is read once; its arrays cannot be written to. Files of one's own are read by `sphereflow.load`.
    """
    one_of("the recording", name, recordings())
    return _opened(_FOLDER / f"{name}{SUFFIX}", Recording)


@functools.cache
def length_recording(name: str = "smollm2") -> LengthRecording:
    """A recording at several lengths that comes with the package, of a decoder: "smollm2" or "gemma3-270m"."""
    folder = _FOLDER / "lengths"
    one_of("the recording", name, tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}"))))
    return _opened(folder / f"{name}{SUFFIX}", LengthRecording)


def _opened(path: Path, kind: type[R]) -> R:
    arrays = packed_arrays(file_bytes(path))
    for array in arrays.values():
        array.flags.writeable = False
    found = read_result(path, arrays)
    if not isinstance(found, kind):
        raise SphereflowError(f"{path} holds {type(found).__name__}, not a {kind.__name__}.")
    return found
