r"""A schedule of Transformer pieces on the sphere: one and the same for every measure it is given.

```python
from sphereflow.transport.sphere.schedule import SphereSchedule
moved = schedule.apply([first_cloud, second_cloud])   # each cloud is a measure of its own and feels only itself
back = schedule.inverse().apply(moved)
```
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import tokens
from sphereflow.transport.abstract import AbstractSchedule
from sphereflow.transport.sphere.pieces import KINDS, Gate, Piece, TransformerBlock

# A closed flow map leaves the sphere by rounding only; more than this is an error in the map and is not hidden.
_OFF_THE_SPHERE = 1e-10
_BLOCK_FIELDS = ("V", "B", "W", "U", "b")


class SphereSchedule(AbstractSchedule):
    r"""Pieces of $\dot x=P_x^\perp(VA_B[\mu](x)+W(Ux+b)_+)$ on the sphere of R^d, run one after another.

    `apply(x)` takes one measure, an array (n, d) of unit vectors, or a list of them; `masses` (one array, or one per
    measure) are the weights of the particles, equal unless given. A particle of mass zero is carried and not felt.
    """

    space: ClassVar[str] = "sphere"

    pieces: tuple[Piece, ...]
    dimension: int

    def __init__(self, pieces: Iterable[Piece], d: int):
        self.pieces = tuple(pieces)
        self.dimension = whole_number("d", d, least=2)
        for piece in self.pieces:
            real_number("the duration of a piece", piece.duration, least=0)
            if piece.matrices()["V"].shape != (d, d):
                raise SphereflowError(f"a piece of kind '{piece.kind}' does not act in dimension {d}.")

    @property
    def d(self) -> int:
        return self.dimension

    def apply(self, x: ArrayLike, masses: ArrayLike | None = None) -> Any:
        """Where the particles are at the end: an array for one measure, a list for several."""
        return self._over(x, masses, lambda cloud, mass: self._carried(cloud, mass)[-1])

    def stages(self, x: Float[np.ndarray, "n d"], masses: Float[np.ndarray, " n"] | None = None) -> list[np.ndarray]:
        """One measure at the start and after every piece."""
        return self._over(x, masses, self._carried)

    def log_det(self, x: ArrayLike, masses: ArrayLike | None = None) -> Any:
        """Logarithm of the factor by which area around each particle has grown; the density falls by it."""

        def grown(cloud: np.ndarray, mass: np.ndarray) -> np.ndarray:
            total = np.zeros(len(cloud))
            for piece in self.pieces:
                cloud, part = piece.flow_and_log_det(cloud, mass)
                total += part
            return total

        return self._over(x, masses, grown)

    def _carried(self, x: np.ndarray, masses: np.ndarray) -> list[np.ndarray]:
        seen = [x]
        for piece in self.pieces:
            seen.append(on_sphere(piece.flow(seen[-1], masses)))
        return seen

    def _over(self, x: Any, masses: Any, act: Any) -> Any:
        if isinstance(x, (list, tuple)) or np.ndim(x) == 3:
            given = [None] * len(x) if masses is None else masses
            if len(given) != len(x):
                raise SphereflowError(f"{len(x)} measures need {len(x)} arrays of masses, got {len(given)}.")
            return [self._over(np.asarray(cloud), mass, act) for cloud, mass in zip(x, given, strict=True)]
        cloud = np.asarray(tokens(x, "the points of a measure"), dtype=float)
        if cloud.ndim != 2 or cloud.shape[1] != self.d:
            raise SphereflowError(f"a measure for this schedule has shape (n, {self.d}), got {cloud.shape}.")
        return act(cloud, checked_masses(masses, len(cloud)))

    def inverse(self) -> SphereSchedule:
        """Pieces in the other order, V and W with the other sign."""
        return SphereSchedule((piece.inverse() for piece in reversed(self.pieces)), self.d)

    def __add__(self, other: Any) -> SphereSchedule:
        if not isinstance(other, SphereSchedule):
            return NotImplemented
        if other.d != self.d:
            raise SphereflowError(f"schedules can follow each other only in one dimension, got {self.d} and {other.d}.")
        return SphereSchedule(self.pieces + other.pieces, self.d)

    def __getitem__(self, chosen: slice) -> SphereSchedule:
        return SphereSchedule(self.pieces[chosen], self.d)

    def __iter__(self) -> Iterator[Piece]:
        return iter(self.pieces)

    def between(self, start: float, stop: float) -> SphereSchedule:
        index = np.arange(self.n_pieces)
        share = np.clip(np.minimum(stop, index + 1) - np.maximum(start, index), 0, 1)
        kept = [p.timed(p.duration * s, p.speed) for p, s in zip(self.pieces, share.tolist(), strict=True) if s > 0]
        return SphereSchedule(kept, self.d)

    def rescaled(self, T: float) -> SphereSchedule:
        """The same map in total time T: durations shrink by a factor, V and W grow by it."""
        factor = self.duration / real_number("T", T, above=0)
        return SphereSchedule((p.timed(p.duration / factor, p.speed * factor) for p in self.pieces), self.d)

    def sup_norm(self) -> float:
        """Largest spectral norm of V, B, W, U (length of b) over the schedule, in its own time."""
        norms = [np.linalg.norm(m, 2) for p in self.pieces for m in p.matrices().values()]
        return float(max(norms, default=0.0))

    def matrices(self) -> list[dict[str, np.ndarray]]:
        """theta(t): for each piece V, B, W, U, b and its duration dt."""
        return [{"dt": np.asarray(p.duration)} | p.matrices() for p in self.pieces]

    def count(self, kind: type[Piece] = Gate) -> int:
        return sum(isinstance(piece, kind) for piece in self.pieces)

    def arrays(self) -> dict[str, np.ndarray]:
        d, rows = self.d, [{"kind": p.kind} | p.row() for p in self.pieces]
        shapes: dict[str, tuple[int, ...]] = {
            "speed": (),
            "beta": (),
            "sign": (),
            "a": (d,),
            "alpha": (d,),
            "omega": (d,),
        }
        if any(isinstance(piece, TransformerBlock) for piece in self.pieces):
            shapes |= {name: (d,) if name == "b" else (d, d) for name in _BLOCK_FIELDS}
        named = {"dt": np.array([p.duration for p in self.pieces]), "kind": np.array([p.kind for p in self.pieces])}
        for name, shape in shapes.items():
            blank = np.zeros(shape)
            filled = [blank if row.get(name) is None else np.asarray(row[name]) for row in rows]
            named[name] = np.array(filled).reshape((len(rows), *shape))
        return named

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], d: int) -> SphereSchedule:
        return cls([_piece({n: v[k] for n, v in arrays.items()}, d) for k in range(len(arrays["dt"]))], d)

    def animate(
        self, x: ArrayLike, path: str | Path, *, frames: int = 120, fps: int = 20, masses: ArrayLike | None = None
    ) -> Path:
        """Write an .mp4 or .gif of the measures on the sphere, each in its colour, with the open gate drawn."""
        from sphereflow.transport.sphere.pictures import movie

        several = isinstance(x, (list, tuple)) or np.ndim(x) == 3  # type: ignore[arg-type]
        clouds = list(x) if several else [x]  # type: ignore[arg-type]
        return movie(self, clouds, path, frames=frames, fps=fps, masses=masses)


def on_sphere(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Take rounding off the lengths; more than rounding is refused."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    if not np.abs(lengths - 1).max() < _OFF_THE_SPHERE:
        raise ArithmeticError(f"a piece left the sphere by {np.abs(lengths - 1).max():.1e}")
    return x / lengths


def checked_masses(masses: Any, n: int, name: str = "masses") -> Float[np.ndarray, " n"]:
    """Masses of n particles, of sum one; equal unless given."""
    if masses is None:
        return np.full(n, 1 / n)
    given = np.asarray(masses, dtype=float)
    if given.shape != (n,) or not np.isfinite(given).all() or (given < 0).any() or given.sum() <= 0:
        raise SphereflowError(f"{name} must be {n} numbers, none negative and not all zero; got shape {given.shape}.")
    return given if abs(given.sum() - 1) < 1e-12 else given / given.sum()


def _piece(row: dict[str, Any], d: int) -> Piece:
    kind = KINDS[str(row["kind"])]
    given: dict[str, Any] = {"duration": float(row["dt"])}
    for name in (field.name for field in dataclasses.fields(kind)):
        if name == "d":
            given[name] = d
        elif name != "duration":
            value = np.asarray(row[name], dtype=float)
            given[name] = float(value) if value.ndim == 0 else value
    return kind(**given)
