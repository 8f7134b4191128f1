r"""Measures that are invariant under rotations about an axis: rings, described by their polar angle.

The mean of the peak kernel over two rings at polar angles $\varphi,\psi$ in $S^{d-1}$ is

$$\kappa(\varphi,\psi)=e^{\beta(\cos\varphi\cos\psi-1)}A_\nu(\beta\sin\varphi\sin\psi),\qquad
  A_\nu(s)={}_0F_1(;\nu+1;s^2/4)=\Gamma(\nu+1)(2/s)^\nu I_\nu(s),\quad\nu=\tfrac{d-3}2,$$

with $A_\nu'(s)=\frac{s}{2(\nu+1)}A_{\nu+1}(s)$. As a function of the angle it is smooth across the poles. When all
inner weights are parallel, the unique global minimiser is of this kind, in every dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from sphereflow.landscape.potential import respond
from sphereflow.landscape.space import BallCover, Jet, PointMasses, Space
from sphereflow.numerics.bessel import log_ive

_SMALL, _TERMS = 0.5, 9  # so many terms of the series are exact to rounding up to there


def scaled_bessel(order: float, s: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    r"""$e^{-s}A_\nu(s)$ for s >= 0, which is 1 at s = 0 and never overflows."""
    small, large = np.minimum(s, _SMALL), np.maximum(s, _SMALL)
    series = np.ones_like(small)
    for term in range(_TERMS, 0, -1):
        series = 1 + series * small**2 / (4 * term * (order + term))
    tail = np.exp(special.gammaln(order + 1) + order * np.log(2 / large) + log_ive(order, large))
    return np.where(s <= _SMALL, series * np.exp(-small), tail)


class _Parts(NamedTuple):
    """What all derivatives of the kernel are made of, each of shape (n, k)."""

    height: np.ndarray
    plain: np.ndarray
    once: np.ndarray
    twice: np.ndarray
    cos_cos: np.ndarray
    sin_sin: np.ndarray
    sin_cos: np.ndarray
    cos_sin: np.ndarray


@dataclass(frozen=True, eq=False)
class ZonalSpace(Space):
    r"""Points are polar angles in $[0,\pi]$, of shape (n, 1); the axis is that of the problem."""

    @property
    def p(self) -> int:
        return 1

    @property
    def reach(self) -> Float[np.ndarray, " J"]:
        """Inner weights along the axis."""
        axis = self.problem.axis
        return self.problem.inner @ (np.zeros(self.problem.d) if axis is None else axis)

    def grid(self, nodes: int) -> Float[np.ndarray, "n 1"]:
        return np.linspace(0, np.pi, nodes)[:, None]

    def spacing(self, nodes: int) -> float:
        return np.pi / (nodes - 1)

    def arguments(self, points: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, "n J"]:
        return np.cos(points) * self.reach + self.problem.bias

    def half_potential(self, points: Float[np.ndarray, "n 1"]) -> Jet:
        outer, reach = self.problem.outer, self.reach
        response = respond(self.problem.activation, self.arguments(points))
        first, second = -np.sin(points) * reach, -np.cos(points) * reach
        return Jet(
            response.primitive @ outer,
            ((response.value * first) @ outer)[:, None],
            ((response.slope * first**2 + response.value * second) @ outer)[:, None, None],
        )

    def _parts(self, x: np.ndarray, y: np.ndarray) -> _Parts:
        cx, sx, cy, sy = np.cos(x), np.sin(x), np.cos(y).T, np.sin(y).T
        order, argument = (self.problem.d - 3) / 2, self.beta * np.abs(sx * sy)
        # A_nu, A_nu'/s and the part of A_nu'' beyond it, all without their common factor e^s.
        zeroth, first, second = (scaled_bessel(order + i, argument) for i in range(3))
        width = self.problem.d - 1
        height = np.exp(self.beta * (cx * cy - 1) + argument)
        once = argument * first / width
        twice = first / width + argument**2 * second / (width * (width + 2))
        return _Parts(height, zeroth, once, twice, cx * cy, sx * sy, sx * cy, cx * sy)

    def interaction(self, points: Float[np.ndarray, "n 1"], atoms: PointMasses) -> Jet:
        q = self._parts(points, atoms.points)  # Bessel functions once for all three
        value = (self._value(q) @ atoms.masses, self._slope(q) @ atoms.masses, self._bend(q) @ atoms.masses)
        return Jet(value[0], value[1][:, None], value[2][:, None, None])

    def kernel(self, x: Float[np.ndarray, "n 1"], y: Float[np.ndarray, "k 1"]) -> Float[np.ndarray, "n k"]:
        return self._value(self._parts(x, y))

    def kernel_slope(self, x: Float[np.ndarray, "n 1"], y: Float[np.ndarray, "k 1"]) -> Float[np.ndarray, "n 1 k"]:
        return self._slope(self._parts(x, y))[:, None, :]

    def kernel_bend(self, x: Float[np.ndarray, "n 1"], atoms: PointMasses) -> Float[np.ndarray, "n 1 1"]:
        return (self._bend(self._parts(x, atoms.points)) @ atoms.masses)[:, None, None]

    def _value(self, q: _Parts) -> np.ndarray:
        return (q.height * q.plain - 1) / self.beta

    def _slope(self, q: _Parts) -> np.ndarray:
        return q.height * (-q.sin_cos * q.plain + q.cos_sin * q.once)

    def _bend(self, q: _Parts) -> np.ndarray:
        b = self.beta
        return q.height * (
            (b * q.sin_cos**2 - q.cos_cos) * q.plain
            - (2 * b * q.sin_cos * q.cos_sin + q.sin_sin) * q.once
            + b * q.cos_sin**2 * q.twice
        )

    def kernel_cross(self, x: Float[np.ndarray, "n 1"], y: Float[np.ndarray, "k 1"]) -> Float[np.ndarray, "n 1 k 1"]:
        q, b = self._parts(x, y), self.beta
        cross = q.height * (
            (b * q.sin_cos * q.cos_sin + q.sin_sin) * q.plain
            + (q.cos_cos - b * q.sin_cos**2 - b * q.cos_sin**2) * q.once
            + b * q.sin_cos * q.cos_sin * q.twice
        )
        return cross[:, None, :, None]

    def move(self, points: Float[np.ndarray, "n 1"], steps: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, "n 1"]:
        return self.place(points + steps)

    def place(self, coordinates: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, "n 1"]:
        # A ring that passes a pole comes back on the other side, at the same polar angle.
        return np.abs(np.remainder(coordinates + np.pi, 2 * np.pi) - np.pi)

    def ambient(
        self, coordinates: Float[np.ndarray, "n 1"], slope: Float[np.ndarray, "n 1"]
    ) -> Float[np.ndarray, "n 1"]:
        return slope * np.where(np.remainder(coordinates, 2 * np.pi) > np.pi, -1.0, 1.0)

    def distance(self, x: Float[np.ndarray, "n 1"], y: Float[np.ndarray, "k 1"]) -> Float[np.ndarray, "n k"]:
        return np.abs(x - y.T)

    def cells(self, nodes: int) -> BallCover:
        edges = np.linspace(0, np.pi, nodes + 1)
        return Intervals((edges[1:] + edges[:-1]) / 2, np.full(nodes, np.pi / (2 * nodes)))


@dataclass(frozen=True, eq=False)
class Intervals(BallCover):
    """Intervals of the polar angle, by middle and half length."""

    middles: Float[np.ndarray, " n"]
    radii: Float[np.ndarray, " n"]

    @property
    def centres(self) -> Float[np.ndarray, "n 1"]:  # type: ignore[override]
        return self.middles[:, None]

    def split(self, chosen: np.ndarray) -> Intervals:
        half, middles = self.radii[chosen] / 2, self.middles[chosen]
        return Intervals(np.concatenate([middles - half, middles + half]), np.concatenate([half, half]))
