"""Recordings of real models that come with the package, so that heads of real networks need no torch."""

from __future__ import annotations

import functools

from sphereflow.llm.recorded.lengths import LengthRecording
from sphereflow.llm.recorded.recorder import Recording
from sphereflow.llm.shipped_files import opened, shipped_names


def recordings() -> tuple[str, ...]:
    """The names of the recordings that come with the package."""
    return shipped_names("")


@functools.cache
def recording(name: str = "smollm2") -> Recording:
    """A recording that comes with the package: of windows of Python's help texts, by the name of the model.

    It is read once; its arrays cannot be written to. Files of one's own are read by `sphereflow.load`.
    """
    return opened(name, recordings(), Recording)


@functools.cache
def length_recording(name: str = "smollm2") -> LengthRecording:
    """A recording at several lengths that comes with the package: "smollm2", "gemma3-270m" or "stories15m"."""
    return opened(name, shipped_names("lengths"), LengthRecording, "lengths")
