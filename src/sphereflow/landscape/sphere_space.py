r"""Atoms on the sphere $S^{d-1}$: kernel, potential and geodesics in tangent frames.

With $T_x$ an orthonormal frame of the tangent space at x and $k=e^{\beta(\langle x,y\rangle-1)}$,

$$\nabla_xk/\beta=k\,T_x^\top y,\qquad
  \nabla^2_xk/\beta=k\,(\beta\,T_x^\top yy^\top T_x-\langle x,y\rangle I),\qquad
  \nabla_x\nabla_yk/\beta=k\,T_x^\top(I+\beta\,yx^\top)T_y .$$
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from scipy.stats import qmc

from sphereflow import sphere
from sphereflow.errors import SphereflowError
from sphereflow.landscape.potential import respond
from sphereflow.landscape.space import BallCover, Jet, PointMasses, Space
from sphereflow.numerics.unit_vectors import angles, exponential, tangent_frames, unit

# Beyond this, covers of the sphere are larger than what can be searched.
MOST_DIMENSIONS = 6


@dataclass(frozen=True, eq=False)
class SphereSpace(Space):
    """Points are unit vectors of R^d, one per row."""

    @property
    def p(self) -> int:
        return self.problem.d - 1

    def grid(self, nodes: int) -> Float[np.ndarray, "n d"]:
        if self.problem.d == 2:
            return np.asarray(sphere.circle_grid(nodes))
        if self.problem.d == 3:
            return np.asarray(sphere.fibonacci(nodes))
        if self.problem.d <= MOST_DIMENSIONS:
            # Points of low discrepancy, taken to the sphere through the normal law.
            cube = qmc.Sobol(self.problem.d, scramble=True, rng=np.random.default_rng(0)).random_base2(
                math.ceil(math.log2(nodes))
            )
            return unit(ndtri(np.clip(cube[:nodes], 1e-12, 1 - 1e-12)))
        raise SphereflowError(
            f"the sphere is covered for d up to {MOST_DIMENSIONS}, got d={self.problem.d}; in higher dimension inner "
            "weights along one axis can be solved, and particle flows run in any d."
        )

    def spacing(self, nodes: int) -> float:
        """The side of a cube with an equal share of the surface."""
        d = self.problem.d
        return float((2 * math.pi ** (d / 2) / math.gamma(d / 2) / nodes) ** (1 / (d - 1)))

    def arguments(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n J"]:
        return points @ self.problem.inner.T + self.problem.bias

    def half_potential(self, points: Float[np.ndarray, "n d"]) -> Jet:
        inner, outer = self.problem.inner, self.problem.outer
        plain = points @ inner.T
        response = respond(self.problem.activation, plain + self.problem.bias)
        along = np.einsum("ndp,jd->njp", tangent_frames(points), inner)
        bend = np.einsum("nj,njp,njq->npq", response.slope * outer, along, along)
        pull = (response.value * plain) @ outer
        return Jet(
            response.primitive @ outer,
            np.einsum("nj,njp->np", response.value * outer, along),
            bend - pull[:, None, None] * np.eye(self.p),
        )

    def kernel(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "n k"]:
        return np.expm1(self.beta * (x @ y.T - 1)) / self.beta

    def _peak(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner = x @ y.T
        return inner, np.exp(self.beta * (inner - 1))

    def kernel_slope(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "n p k"]:
        return self._peak(x, y)[1][:, None, :] * (tangent_frames(x).transpose(0, 2, 1) @ y.T)

    def kernel_bend(self, x: Float[np.ndarray, "n d"], atoms: PointMasses) -> Float[np.ndarray, "n p p"]:
        inner, peak = self._peak(x, atoms.points)
        along = tangent_frames(x).transpose(0, 2, 1) @ atoms.points.T
        weights = peak * atoms.masses
        turning = np.sum(weights * inner, axis=1)
        return self.beta * (along * weights[:, None, :]) @ along.transpose(0, 2, 1) - turning[:, None, None] * np.eye(
            self.p
        )

    def kernel_cross(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "n p k p"]:
        at_x, at_y = tangent_frames(x), tangent_frames(y)
        plain = np.einsum("ndp,kdq->npkq", at_x, at_y)
        # One frame against the other point, in each order.
        left, right = np.einsum("ndp,kd->npk", at_x, y), np.einsum("kdq,nd->nkq", at_y, x)
        mixed = left[:, :, :, None] * right[:, None, :, :]
        return self._peak(x, y)[1][:, None, :, None] * (plain + self.beta * mixed)

    def move(self, points: Float[np.ndarray, "n d"], steps: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
        return exponential(points, np.einsum("ndp,np->nd", tangent_frames(points), steps))

    def place(self, coordinates: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return unit(coordinates)

    def ambient(
        self, coordinates: Float[np.ndarray, "n d"], slope: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, "n d"]:
        tangent = np.einsum("ndp,np->nd", tangent_frames(unit(coordinates)), slope)
        return tangent / np.linalg.norm(coordinates, axis=1, keepdims=True)

    def distance(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "n k"]:
        return angles(x[:, None], y)

    def cells(self, nodes: int) -> BallCover:
        if self.problem.d == 2:
            return Arcs.cover(nodes)
        return Triangles.cover(nodes) if self.problem.d == 3 else Boxes.cover(nodes, self.problem.d)


@dataclass(frozen=True, eq=False)
class Arcs(BallCover):
    """Arcs of the circle, by angle and half length."""

    angles: Float[np.ndarray, " n"]
    radii: Float[np.ndarray, " n"]

    @classmethod
    def cover(cls, count: int) -> Arcs:
        return cls(2 * np.pi * np.arange(count) / count, np.full(count, np.pi / count))

    @property
    def centres(self) -> Float[np.ndarray, "n 2"]:  # type: ignore[override]
        return np.stack([np.cos(self.angles), np.sin(self.angles)], axis=1)

    def split(self, chosen: np.ndarray) -> Arcs:
        half = self.radii[chosen] / 2
        angles = self.angles[chosen]
        return Arcs(np.concatenate([angles - half, angles + half]), np.concatenate([half, half]))


@dataclass(frozen=True, eq=False)
class Triangles(BallCover):
    """Triangles of the sphere S^2 by their corners, each inside the ball about its centre through its far corner."""

    corners: Float[np.ndarray, "n 3 3"]

    @classmethod
    def cover(cls, count: int) -> Triangles:
        """The octahedron, with faces split in four until there are about this many."""
        signs = np.array([[a, b, c] for a in (1, -1) for b in (1, -1) for c in (1, -1)], dtype=float)
        cells = cls(signs[:, :, None] * np.eye(3))
        while len(cells.corners) < count:
            cells = cells.split(np.arange(len(cells.corners)))
        return cells

    @property
    def centres(self) -> Float[np.ndarray, "n 3"]:  # type: ignore[override]
        return unit(self.corners.sum(axis=1))

    @property
    def radii(self) -> Float[np.ndarray, " n"]:  # type: ignore[override]
        return angles(self.corners, self.centres[:, None, :]).max(axis=1)

    def split(self, chosen: np.ndarray) -> Triangles:
        a, b, c = np.moveaxis(self.corners[chosen], 1, 0)
        ab, bc, ca = unit(a + b), unit(b + c), unit(c + a)
        parts = [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
        return Triangles(np.concatenate([np.stack(part, axis=1) for part in parts]))


@dataclass(frozen=True, eq=False)
class Boxes(BallCover):
    """The faces of a cube of R^d seen from its centre, cut into smaller cubes, each inside the ball of its corners."""

    face: Int[np.ndarray, " n"]
    low: Float[np.ndarray, "n p"]
    side: Float[np.ndarray, " n"]

    @classmethod
    def cover(cls, count: int, d: int) -> Boxes:
        """All 2d faces, cut in halves along every edge until there are about this many."""
        cells = cls(np.arange(2 * d), np.full((2 * d, d - 1), -1.0), np.full(2 * d, 2.0))
        while len(cells.low) < count:
            cells = cells.split(np.arange(len(cells.low)))
        return cells

    @property
    def centres(self) -> Float[np.ndarray, "n d"]:  # type: ignore[override]
        return self._projected(self.low + self.side[:, None] / 2)

    @property
    def radii(self) -> Float[np.ndarray, " n"]:  # type: ignore[override]
        centres, farthest = self.centres, np.zeros(len(self.low))
        for corner in self._corners:
            apart = angles(centres, self._projected(self.low + self.side[:, None] * corner))
            farthest = np.maximum(farthest, apart)
        return farthest

    @property
    def _corners(self) -> np.ndarray:
        return np.array(list(itertools.product((0.0, 1.0), repeat=self.low.shape[1])))

    def _projected(self, place: np.ndarray) -> np.ndarray:
        """The directions of points on the faces."""
        count, p = place.shape
        full, every = np.empty((count, p + 1)), np.arange(count)
        axis = self.face // 2
        full[every, axis] = np.where(self.face % 2, -1.0, 1.0)
        others = np.array([[i for i in range(p + 1) if i != a] for a in range(p + 1)])
        full[every[:, None], others[axis]] = place
        return unit(full)

    def split(self, chosen: np.ndarray) -> Boxes:
        half = self.side[chosen] / 2
        parts = [self.low[chosen] + half[:, None] * corner for corner in self._corners]
        return Boxes(np.tile(self.face[chosen], len(parts)), np.concatenate(parts), np.tile(half, len(parts)))
