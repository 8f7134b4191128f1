"""What figures are given: runs, and several of them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sphereflow.errors import SphereflowError
from sphereflow.evolution import Trajectory


def checked_run(given: Any) -> Trajectory:
    """A run, or one sentence."""
    if not isinstance(given, Trajectory):
        raise SphereflowError(f"run must be what `evolve` or `simulate` gives, got {type(given).__name__}.")
    return given


def checked_names(name: str, given: Any) -> dict[Any, Any]:
    """Several things by name, or one sentence."""
    if not isinstance(given, Mapping):
        raise SphereflowError(f"{name} must be a dictionary of several by name, got {type(given).__name__}.")
    return dict(given)
