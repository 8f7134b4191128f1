"""Numbers that a user gives to bridges and inversions: finite, and small enough that their squares are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array

LARGEST = 1e100


def moderate(name: str, value: Any, *, shape: tuple[int | str, ...] | None = None) -> np.ndarray:
    """`real_array` of entries up to 1e100, at least one of them."""
    array = real_array(name, value, shape=shape)
    if not array.size:
        raise SphereflowError(f"{name} must not be empty, got the shape {array.shape}.")
    if np.max(np.abs(array)) > LARGEST:
        raise SphereflowError(f"{name} must hold numbers of at most {LARGEST:g}, got {np.max(np.abs(array)):g}.")
    return array
