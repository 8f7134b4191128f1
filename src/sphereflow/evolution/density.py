"""The density of very many tokens on the circle, as a curve around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sphereflow.evolution.trajectory import Trajectory

_BINS = 360
_HEIGHT = 0.6  # how far the highest peak of the film reaches out from the circle


def circle_density(x: np.ndarray, bins: int = _BINS) -> tuple[np.ndarray, np.ndarray]:
    """Angles of the bins and the density with respect to dtheta/2pi: 1 everywhere for uniform tokens."""
    angles = np.arctan2(x[:, 1], x[:, 0])
    counts, edges = np.histogram(angles, bins=bins, range=(-np.pi, np.pi))
    return (edges[:-1] + edges[1:]) / 2, counts * bins / len(x)


class DensityView:
    """Frames of a run on the circle; the radius grows with the logarithm of the density."""

    def __init__(self, figure: Figure, cell: Any, run: Trajectory):
        self._run = run
        self._axes: Any = figure.add_subplot(cell)
        self._axes.set_axis_off()
        self._axes.set_aspect("equal")
        self._axes.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7))
        turn = np.linspace(0, 2 * np.pi, 361)
        self._axes.plot(np.cos(turn), np.sin(turn), color="0.8", lw=1)
        (self._curve,) = self._axes.plot([], [], color="C0", lw=1.2)
        self._highest = np.log1p(self._density(len(run) - 1)[1].max())

    def show(self, index: int) -> None:
        angles, density = self._density(index)
        radius = 1 + _HEIGHT * np.log1p(density) / self._highest
        closed = np.append(np.arange(len(angles)), 0)
        self._curve.set_data((radius * np.cos(angles))[closed], (radius * np.sin(angles))[closed])
        self._axes.set_title(f"$t = {self._run.ts[index]:.2f}$   ({self._run.n:,} tokens)")

    def _density(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return circle_density(self._run.frame(index).reshape((-1, self._run.n, 2))[0])
