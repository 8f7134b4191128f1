"""What every kind of schedule can do: a sequence of pieces, each with constant weights and a duration."""

from __future__ import annotations

import abc
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from sphereflow.errors import whole_number
from sphereflow.shapes import AnyArray, ArrayLike

# No construction asks for more; a million pieces are a file of a hundred megabytes.
MOST_PIECES = 10**7

KINDS: dict[str, type[AbstractSchedule]] = {}


class AbstractSchedule(eqx.Module):
    """The verbs of a schedule, whatever its pieces are.

    A kind of schedule names its `space` and gives `arrays` (one row per piece, for files), `from_arrays`, `d`,
    `apply`, `inverse`, `log_det`, `between` and `__add__`; the rest follows. A map may depend on all the points it is
    given at once.
    """

    space: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "space" in cls.__dict__:
            KINDS[cls.space] = cls

    @property
    @abc.abstractmethod
    def d(self) -> int:
        """The dimension of the points."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Everything there is, as arrays with one row per piece; "dt" holds the durations."""

    @classmethod
    @abc.abstractmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], d: int) -> AbstractSchedule:
        """The schedule with these rows; raises KeyError, TypeError or ValueError when they make no sense."""

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> Float[AnyArray, "... d"]:
        """Where the points are at the end."""

    @abc.abstractmethod
    def inverse(self) -> AbstractSchedule:
        """The schedule that brings every point back."""

    @abc.abstractmethod
    def log_det(self, x: ArrayLike) -> Float[AnyArray, "..."]:
        """log det of the derivative of the map, at the starting points x."""

    @abc.abstractmethod
    def between(self, start: float, stop: float) -> AbstractSchedule:
        """The part from `start` to `stop`, counted in pieces from 0 to `n_pieces`; fractions cut a piece in time."""

    @abc.abstractmethod
    def __add__(self, other: Any) -> Any:
        """This schedule first, the other one next."""

    @property
    def n_pieces(self) -> int:
        return len(self.arrays()["dt"])

    @property
    def n_switches(self) -> int:
        """Jumps of the weights: one fewer than pieces."""
        return max(self.n_pieces - 1, 0)

    @property
    def duration(self) -> float:
        return float(np.sum(self.arrays()["dt"]))

    def __len__(self) -> int:
        return self.n_pieces

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_pieces} pieces, {self.n_switches} switches, d={self.d})"

    def frames(self, x: ArrayLike, count: int = 60) -> Float[np.ndarray, "frames n d"]:
        """Points at `count` + 1 moments, evenly spaced in pieces from the start to the end; exact at each of them."""
        moments = np.linspace(0, self.n_pieces, whole_number("count", count) + 1)
        shown = [np.asarray(x, dtype=float)]
        for start, stop in pairwise(moments):
            shown.append(np.asarray(self.between(float(start), float(stop)).apply(shown[-1])))
        return np.stack(shown)

    def animate(self, x: ArrayLike, path: str | Path, *, frames: int = 60, fps: int = 20) -> Path:
        """Write an .mp4 or .gif of the points being carried."""
        from sphereflow.transport.pictures import movie

        return movie(self, x, path, frames=frames, fps=fps)

    def save(self, path: str | Path) -> None:
        """Write the schedule as .json (to read) or .npz (compact); `load` gives it back bit for bit."""
        from sphereflow.transport.files import save

        save(self, path)
