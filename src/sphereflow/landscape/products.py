"""Cells of configurations of m atoms: products of arcs of the circle, or of triangles of S^2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from sphereflow.landscape.sphere_space import Triangles
from sphereflow.numerics.unit_vectors import angles, unit

# How many cells the first cover has for each atom.
_FIRST = {2: 16, 3: 32}


@dataclass(frozen=True, eq=False)
class ProductCells:
    """`where` holds angles (B, m) of arcs with half lengths `half`, or corners (B, m, 3, 3) of triangles."""

    where: np.ndarray
    half: np.ndarray

    @classmethod
    def cover(cls, m: int, d: int, groups: list[list[int]]) -> ProductCells:
        """All configurations; of those that differ by an exchange of equal atoms, one."""
        count = _FIRST[d]
        base = 2 * np.pi * np.arange(count) / count if d == 2 else Triangles.cover(count).corners
        choice = np.stack(np.meshgrid(*[np.arange(len(base))] * m, indexing="ij"), axis=-1).reshape(-1, m)
        for group in groups:
            choice = choice[np.all(np.diff(choice[:, group], axis=1) >= 0, axis=1)]
        return cls(base[choice], np.full(choice.shape, np.pi / count))

    def __len__(self) -> int:
        return len(self.where)

    @property
    def flat(self) -> bool:
        """Whether these are arcs."""
        return self.where.ndim == 2

    @cached_property
    def centres(self) -> Float[np.ndarray, "B m d"]:
        if self.flat:
            return np.stack([np.cos(self.where), np.sin(self.where)], axis=-1)
        return unit(self.where.sum(axis=2))

    @cached_property
    def radii(self) -> Float[np.ndarray, "B m"]:
        if self.flat:
            return self.half
        return angles(self.where, self.centres[:, :, None]).max(axis=2)

    @property
    def share(self) -> float:
        """Their part of the volume of all configurations, at most."""
        caps = self.half / math.pi if self.flat else (1 - np.cos(self.radii)) / 2
        return float(min(np.sum(np.prod(caps, axis=1)), 1.0))

    def chosen(self, which: np.ndarray) -> ProductCells:
        return ProductCells(self.where[which], self.half[which])

    def split(self) -> ProductCells:
        """Each cell split along its widest factor."""
        widest, every = np.argmax(self.radii, axis=1), np.arange(len(self))
        if self.flat:
            half = self.half.copy()
            half[every, widest] /= 2
            parts = []
            for side in (-1, 1):
                where = self.where.copy()
                where[every, widest] += side * half[every, widest]
                parts.append(where)
            return ProductCells(np.concatenate(parts), np.concatenate([half, half]))
        a, b, c = np.moveaxis(self.where[every, widest], 1, 0)
        ab, bc, ca = unit(a + b), unit(b + c), unit(c + a)
        parts = []
        for corners in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)):
            where = self.where.copy()
            where[every, widest] = np.stack(corners, axis=1)
            parts.append(where)
        return ProductCells(np.concatenate(parts), np.concatenate([self.half] * 4))
