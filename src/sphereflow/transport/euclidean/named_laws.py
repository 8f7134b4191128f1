"""Laws by name, and clouds from files: what the command line understands as a source or a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.reading import file_array, file_text
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.laws import Histogram, Law, Mixture, StudentT, gaussian

_CIRCLE = 2 * math.pi * np.arange(8) / 8


def two_modes() -> Mixture:
    """Half N(-2, 1/4), half N(2, 1/4)."""
    return Mixture([[-2.0], [2.0]], 0.5)


def three_modes() -> Mixture:
    """Three equal Gaussians of standard deviation 1/2 in the plane."""
    return Mixture([[1.5, 0.0], [-0.75, 1.3], [-0.75, -1.3]], 0.5)


def eight_modes() -> Mixture:
    """Eight narrow Gaussians on a circle of radius 2."""
    return Mixture(2 * np.stack([np.cos(_CIRCLE), np.sin(_CIRCLE)], axis=1), 0.3)


NAMES: dict[str, Callable[[int | None], Law]] = {
    "gaussian": lambda d: gaussian(d or 1),
    "two-modes": lambda d: two_modes(),
    "three-modes": lambda d: three_modes(),
    "eight-modes": lambda d: eight_modes(),
    "student-t": lambda d: StudentT(2.0, d or 1),
    "uniform": lambda d: Histogram([0.0, 1.0]),
}
# These exist in any dimension and take that of the other side.
_ANY_DIMENSION = ("gaussian", "student-t")


def read(source: str, target: str) -> tuple[Law | np.ndarray, Law | np.ndarray]:
    """Both sides of a transport, each a name or a file of points."""
    first = None if source in _ANY_DIMENSION else _one(source, None)
    second = _one(target, None if first is None else _dimension(first))
    if first is None:
        first = _one(source, _dimension(second))
    if _dimension(first) != _dimension(second):
        raise SphereflowError(
            f"source and target must share one dimension: {source} has d = {_dimension(first)}, {target} has "
            f"d = {_dimension(second)}."
        )
    return first, second


def read_points(path: str | Path) -> np.ndarray:
    """The points of a .npy file, or of a text file with one point per line."""
    place = Path(path)
    wanted = "it is neither an array saved by numpy.save nor lines of numbers with commas"
    try:
        if place.suffix == ".npy":
            points = file_array(place)
        else:
            lines = file_text(place).splitlines()
            points = np.loadtxt(lines, delimiter=",", ndmin=2) if lines else np.empty((0, 1))
    except SphereflowError:
        raise
    except ValueError:
        raise SphereflowError(f"cannot read {place}: {wanted}.") from None
    if points.dtype.kind not in "biuf":
        raise SphereflowError(f"cannot read {place}: {wanted}.")
    return points


def _one(name: str, d: int | None) -> Law | np.ndarray:
    if name in NAMES:
        return NAMES[name](d)
    if Path(name).suffix == "" and not Path(name).exists():
        raise SphereflowError(f"{name} is neither a file nor one of the laws {', '.join(NAMES)}.")
    return checked_cloud(read_points(name), name)


def _dimension(law: Any) -> int:
    return law.d if isinstance(law, Law) else law.shape[1]
