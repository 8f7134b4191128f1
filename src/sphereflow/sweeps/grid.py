r"""Named axes and their product: which cells there are, and in which blocks they are computed and stored.

A cell is one choice of a value on every axis. A block is a box of neighbouring cells that are computed by one call,
stored together and entered in the journal by one line; its shape takes whole trailing axes first, so that seeds, which
come last by habit, share a call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError

Region = tuple[slice, ...]
LARGEST = 10**8  # cells; beyond that the list of blocks alone would not fit


@dataclass(frozen=True)
class Axis:
    """A name and its values: all numbers, or all words."""

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise SphereflowError(f"an axis is named like a variable, letters first; got {self.name!r}.")
        if not self.values:
            raise SphereflowError(f"the axis '{self.name}' has no values.")
        words = [isinstance(value, str) for value in self.values]
        numbers = [isinstance(v, (int, float)) and not isinstance(v, bool) for v in self.values]
        if not (all(words) or all(numbers)):
            raise SphereflowError(f"the values of axis '{self.name}' must be all numbers or all words.")
        if all(numbers):
            object.__setattr__(self, "values", self._alike())
        if len(set(self.values)) < len(self.values):
            raise SphereflowError(f"the axis '{self.name}' has a value twice.")

    def _alike(self) -> tuple[Any, ...]:
        """All whole numbers or all real ones, so that a function gets what the dataset says."""
        for value in self.values:
            if isinstance(value, float) and not math.isfinite(value):
                raise SphereflowError(f"the values of axis '{self.name}' must be finite.")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise SphereflowError(
                    f"whole numbers of axis '{self.name}' must fit into 64 bits; got one of {value.bit_length()}."
                )
        if all(isinstance(value, int) for value in self.values):
            return self.values
        for value in self.values:
            if int(value) == value != float(value):
                raise SphereflowError(f"axis '{self.name}' has real numbers, and {value} is not one in 64 bits.")
        return tuple(float(value) for value in self.values)

    @property
    def coordinate(self) -> np.ndarray:
        """The values as an array for a dataset."""
        if isinstance(self.values[0], str):
            return np.array(self.values)
        return np.array(self.values, dtype=int if all(isinstance(v, int) for v in self.values) else float)


@dataclass(frozen=True)
class Grid:
    """The product of axes, first axis slowest."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if not self.axes:
            raise SphereflowError("a sweep needs at least one axis.")
        if len(set(self.names)) < len(self.names):
            raise SphereflowError("two axes have the same name.")
        if self.size > LARGEST:
            raise SphereflowError(f"a sweep has at most {LARGEST:,} cells; these axes make {self.size:,}.")

    @classmethod
    def of(cls, axes: Mapping[str, Iterable[Any]]) -> Grid:
        """From names and values, as in `Grid.of({"beta": np.linspace(1, 9, 17), "seed": range(8)})`."""
        return cls(tuple(Axis(str(name), _plain(name, values)) for name, values in axes.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def cells(self, region: Region) -> list[dict[str, Any]]:
        """The cells of a box, as names and values, last axis fastest."""
        chosen = [axis.values[part] for axis, part in zip(self.axes, region, strict=True)]
        return [dict(zip(self.names, values, strict=True)) for values in itertools.product(*chosen)]

    def first_cell(self) -> dict[str, Any]:
        """The cell at the beginning of every axis."""
        return {axis.name: axis.values[0] for axis in self.axes}

    def block_shape(self, batch: int) -> tuple[int, ...]:
        """The largest box of at most `batch` cells made of whole trailing axes and a stretch of the next one."""
        shape, cells_left = [], max(batch, 1)
        for length in reversed(self.shape):
            taken = min(length, cells_left)
            shape.append(taken)
            cells_left = cells_left // taken if taken == length else 1
        return tuple(reversed(shape))

    def blocks(self, shape: tuple[int, ...]) -> Iterator[Region]:
        """The boxes of this shape that cover the grid; those at the far edges may be smaller."""
        starts = [range(0, length, step) for length, step in zip(self.shape, shape, strict=True)]
        for corner in itertools.product(*starts):
            yield tuple(
                slice(begin, min(begin + step, length))
                for begin, step, length in zip(corner, shape, self.shape, strict=True)
            )


def _plain(name: str, values: Any) -> tuple[Any, ...]:
    """Python numbers and words, so that they print and compare the same wherever they come from."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__") or getattr(values, "ndim", 1) != 1:
        raise SphereflowError(f"the axis '{name}' needs a list of values; got {values!r}.")
    values = list(values)
    if any(str(getattr(value, "dtype", "")).startswith("key<") for value in values):
        raise SphereflowError(
            f"the axis '{name}' has JAX keys, but a coordinate is a number or a word: give whole numbers, and make the "
            "key of each within the function."
        )
    return tuple(value.item() if getattr(value, "ndim", None) == 0 else value for value in values)
