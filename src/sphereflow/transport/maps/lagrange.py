r"""The Lagrange interpolant of a map: affine on every simplex of a lattice, equal to the map at its nodes.

A cell of the lattice splits into d! simplices, one for each order of the coordinates u of a point in it. With
$u_{\sigma(1)}\ge\dots\ge u_{\sigma(d)}$ and the nodes $v_0$, $v_k=v_{k-1}+h\,e_{\sigma(k)}$ of its simplex,

$$\varphi_h(x)=\varphi(v_0)+\sum_ku_{\sigma(k)}\big(\varphi(v_k)-\varphi(v_{k-1})\big),\qquad
\|\varphi_h-\varphi\|_\infty=O(h^2),\quad \|D\varphi_h-D\varphi\|_\infty=O(h).$$

Its Jacobian is constant on each simplex, and is the ratio of the volumes of the image and of the simplex.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.reading import brief_value, real_array
from sphereflow.shapes import ArrayLike
from sphereflow.transport.maps.smooth_map import SmoothMap

_MOST_NODES = 4_000_000


@dataclasses.dataclass(frozen=True)
class LagrangeInterpolant:
    """Values at the nodes of a lattice of `cells` cells per axis on the box corner + [0, size]; call it at points."""

    values: Float[np.ndarray, "..."]
    corner: Float[np.ndarray, " d"]
    size: Float[np.ndarray, " d"]

    @property
    def cells(self) -> int:
        return self.values.shape[0] - 1

    def __call__(self, x: ArrayLike) -> Float[np.ndarray, "n d"]:
        """phi_h at points of the box; beyond it the outermost affine pieces go on."""
        local, node, order = self._simplex(x)
        y = self.values[tuple(node.T)]
        for axis in order.T:
            node = node + np.eye(len(self.corner), dtype=int)[axis]
            before, now = (
                self.values[tuple((node - np.eye(len(self.corner), dtype=int)[axis]).T)],
                self.values[tuple(node.T)],
            )
            y = y + np.take_along_axis(local, axis[:, None], axis=1) * (now - before)
        return y

    def det(self, x: ArrayLike) -> Float[np.ndarray, " n"]:
        """det D phi_h at points, constant on every simplex."""
        _, node, order = self._simplex(x)
        d = len(self.corner)
        matrix = np.empty((len(node), d, d))
        for axis in order.T:
            after = node + np.eye(d, dtype=int)[axis]
            matrix[np.arange(len(node)), :, axis] = self.values[tuple(after.T)] - self.values[tuple(node.T)]
            node = after
        return np.linalg.det(matrix) * np.prod(self.cells / self.size)

    def jacobians(self) -> Float[np.ndarray, "m ..."]:
        """det D phi_h on all d! simplices of every cell; their mean is the volume of the cell's image."""
        d = len(self.corner)
        found = []
        for order in permutations(range(d)):
            start = np.zeros(d, dtype=int)
            columns: list[Any] = [None] * d
            here = self._shifted(start)
            for axis in order:
                start[axis] = 1
                after = self._shifted(start)
                columns[axis], here = after - here, after
            found.append(np.linalg.det(np.stack(columns, axis=-1)) * np.prod(self.cells / self.size))
        return np.stack(found)

    def _shifted(self, start: np.ndarray) -> np.ndarray:
        """The values at one corner of every cell."""
        return self.values[tuple(slice(s, s + self.cells) for s in start)]

    def _simplex(self, x: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(coordinates in the cell, its lowest node, axes by falling coordinate) of each point."""
        at = real_array("x", x)
        if at.ndim != 2 or at.shape[1] != len(self.corner):
            raise SphereflowError(f"x must have shape (points, {len(self.corner)}), got {at.shape}.")
        scaled = (at - self.corner) / self.size * self.cells
        node = np.clip(np.floor(scaled), 0, self.cells - 1).astype(int)
        local = scaled - node
        return local, node, np.argsort(-local, axis=1, kind="stable")


def lagrange_interpolant(
    phi: SmoothMap | Callable[[Any], Any], *, cells: int = 8, box: ArrayLike = ((0.0, 1.0), (0.0, 1.0))
) -> LagrangeInterpolant:
    """The interpolant of phi on `box` = ((low, high), ...), one pair for every dimension, with `cells` cells per axis.

    ```python
    phi_h = lagrange_interpolant(phi, cells=16)
    phi_h(x), phi_h.det(x)                   # values and the Jacobian, constant on simplices
    ```
    """
    n = whole_number("cells", cells)
    corner, size = checked_box(box)
    d = len(corner)
    if (n + 1) ** d > _MOST_NODES:
        raise SphereflowError(f"cells must leave at most {_MOST_NODES} nodes, got {n} per axis in dimension {d}.")
    given = phi if isinstance(phi, SmoothMap) else SmoothMap(phi)
    nodes = np.stack(np.meshgrid(*[np.arange(n + 1) / n] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return LagrangeInterpolant(given(corner + size * nodes).reshape(*(n + 1,) * d, d), corner, size)


def checked_box(box: Any) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """(lowest corner, size) of a box of dimension two or more."""
    sides = real_array("box", box, finite=False)
    good = sides.ndim == 2 and sides.shape[1:] == (2,) and len(sides) > 1 and np.isfinite(sides).all()
    if not good or not (sides[:, 1] > sides[:, 0]).all():
        raise SphereflowError(
            f"a box is ((low, high), (low, high), ...), two pairs or more, with low below high, got {brief_value(box)}."
        )
    return sides[:, 0], sides[:, 1] - sides[:, 0]
