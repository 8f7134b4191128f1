"""Measures under way: the pieces chosen so far, and where every particle of every measure is after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sphereflow.numerics.unit_vectors import unit
from sphereflow.transport.sphere.pieces import Piece
from sphereflow.transport.sphere.schedule import SphereSchedule, on_sphere

Cloud = Float[np.ndarray, "n d"]
Masses = Float[np.ndarray, "n"]


class ConstructionState:
    """The construction's working state. Each piece is applied to every measure separately, the same for all."""

    def __init__(self, clouds: Sequence[Cloud], masses: Sequence[Masses]):
        self.clouds = [cloud.copy() for cloud in clouds]
        self.masses = list(masses)
        self.pieces: list[Piece] = []
        self.phases: list[tuple[str, int]] = []

    @property
    def d(self) -> int:
        return self.clouds[0].shape[1]

    @property
    def schedule(self) -> SphereSchedule:
        return SphereSchedule(self.pieces, self.d)

    @property
    def means(self) -> Float[np.ndarray, "N d"]:
        """The barycentre of each measure, inside the ball."""
        return np.stack([mass @ cloud for cloud, mass in zip(self.clouds, self.masses, strict=True)])

    @property
    def pooled(self) -> Cloud:
        return np.concatenate(self.clouds)

    def emit(self, piece: Piece) -> None:
        """Add a piece and let every measure go through it."""
        self.clouds = [on_sphere(piece.flow(x, m)) for x, m in zip(self.clouds, self.masses, strict=True)]
        self.pieces.append(piece)

    def extend(self, schedule: SphereSchedule) -> None:
        for piece in schedule:
            self.emit(piece)

    def enter(self, phase: str) -> None:
        """Name what the following pieces are for."""
        self.phases.append((phase, len(self.pieces)))

    def branch(self) -> ConstructionState:
        """A copy to try something on."""
        other = ConstructionState(self.clouds, self.masses)
        other.pieces, other.phases = list(self.pieces), list(self.phases)
        return other

    def adopt(self, other: ConstructionState) -> None:
        """Go on from where the branch ended."""
        self.clouds, self.pieces, self.phases = other.clouds, other.pieces, other.phases


def random_orthogonal_units(
    rng: np.random.Generator, count: int, normals: Float[np.ndarray, "k d"]
) -> Float[np.ndarray, "count d"]:
    """Random unit vectors orthogonal to the given ones, to rounding."""
    basis = np.linalg.qr(normals.T)[0]
    v = rng.normal(size=(count, normals.shape[1]))
    for _ in range(2):
        v = v - (v @ basis) @ basis.T
    v = unit(v)
    return unit(v - (v @ basis) @ basis.T)
