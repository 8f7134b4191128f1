"""Pictures of a run: the tokens, the energy and the inner products, still or moving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution.density import DensityView
from sphereflow.observables import cluster_labels
from sphereflow.pictures import look, movie_writer
from sphereflow.progress import progress_bar
from sphereflow.saving import whole_file

if TYPE_CHECKING:
    from sphereflow.evolution.trajectory import Trajectory

_MOST_DRAWN = 5000
_MOST_PATHS = 200
_MOST_PAIRS_TOKENS = 600


def plot_trajectory(run: Trajectory) -> Figure:
    """Tokens with their paths, coloured by final cluster; energy and inner products against time."""
    with look():
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.1))
        view = TokenView(figure, grid[:, 0], run)
        view.draw_paths()
        view.show(len(run) - 1)
        curves = figure.add_subplot(grid[0, 1])
        _draw_energy(curves, run)
        _draw_overlaps(figure.add_subplot(grid[1, 1], sharex=curves), run)
    return figure


def make_movie(run: Trajectory, path: str | Path, *, fps: int = 20, overwrite: bool = True) -> Path:
    """Write an .mp4 or .gif of the tokens."""
    target = writable_target(path, overwrite=overwrite)
    writer = movie_writer(target.suffix.lower(), fps)
    with look(), whole_file(target) as temporary:
        figure = Figure(figsize=(5, 5.2), layout="constrained")
        FigureCanvasAgg(figure)
        crowd = run.d == 2 and run.n > _MOST_DRAWN and run.model.traits.space == "sphere"
        view = (DensityView if crowd else TokenView)(figure, figure.add_gridspec(1, 1)[0, 0], run)
        with (
            writer.saving(figure, str(temporary), dpi=120),
            progress_bar("drawing", None, total=len(run)) as bar,
        ):
            for index in range(len(run)):
                view.show(index)
                writer.grab_frame()
                bar.advance()
    return target


class TokenView:
    """Tokens of one replica on the circle, the sphere, the plane, or projected on their main directions."""

    def __init__(self, figure: Figure, cell: Any, run: Trajectory):
        self._run = run
        self._chosen = np.linspace(0, run.n - 1, min(run.n, _MOST_DRAWN)).astype(int)
        self._on_sphere = run.model.traits.space == "sphere"
        self._basis = None if run.d <= 3 else self._main_directions()
        self._solid = run.d >= 3
        self._axes: Any = figure.add_subplot(cell, projection="3d" if self._solid else None)
        self._axes.set_axis_off()
        self._axes.set_aspect("equal")
        self._dots: Any = None
        self._colours = self._cluster_colours()
        self._draw_ground()

    def points(self, index: int) -> np.ndarray:
        """Tokens of a frame in two or three coordinates."""
        x = self._tokens(index)
        if self._basis is not None:
            return x @ self._basis
        return np.concatenate([x, np.zeros_like(x)], axis=1) if x.shape[1] == 1 else x

    def show(self, index: int) -> None:
        points = self.points(index)
        if self._dots is not None:
            self._dots.remove()
        self._dots = self._axes.scatter(*points.T, c=self._colours, s=14, zorder=5, linewidths=0)
        projected = "" if self._basis is None else f"  (three main directions of {self._run.d})"
        self._axes.set_title(f"$t = {self._run.ts[index]:.2f}${projected}")

    def draw_paths(self) -> None:
        every = np.linspace(0, len(self._chosen) - 1, min(len(self._chosen), _MOST_PATHS)).astype(int)
        paths = np.stack([self.points(i)[every] for i in range(len(self._run))])
        for k, token in enumerate(every):
            self._axes.plot(*paths[:, k].T, color=self._colours[token], lw=0.6, alpha=0.5, zorder=2)

    def _tokens(self, index: int) -> np.ndarray:
        frame = self._run.frame(index).reshape((-1, self._run.n, self._run.d))[0]
        return frame[self._chosen]

    def _main_directions(self) -> np.ndarray:
        """Principal directions of the first and last frame together."""
        both = np.concatenate([self._tokens(0), self._tokens(len(self._run) - 1)])
        return np.linalg.svd(both, full_matrices=False)[2][:3].T

    def _cluster_colours(self) -> np.ndarray:
        from matplotlib import colormaps

        last = self._tokens(len(self._run) - 1)
        if not self._on_sphere or (self._run.d > 2 and len(last) > _MOST_DRAWN):
            labels = np.zeros(len(last), dtype=int)
        else:
            labels = cluster_labels(last)
        return colormaps["tab10"](labels % 10)

    def _draw_ground(self) -> None:
        if not self._on_sphere:
            return
        turn = np.linspace(0, 2 * np.pi, 121)
        if not self._solid:
            self._axes.plot(np.cos(turn), np.sin(turn), color="0.8", lw=1, zorder=1)
            return
        for height in np.linspace(-0.75, 0.75, 5):
            r = np.sqrt(1 - height**2)
            self._axes.plot(r * np.cos(turn), r * np.sin(turn), height, color="0.85", lw=0.5, zorder=1)
        for angle in np.linspace(0, np.pi, 6, endpoint=False):
            ring = np.stack([np.cos(turn) * np.cos(angle), np.cos(turn) * np.sin(angle), np.sin(turn)])
            self._axes.plot(*ring, color="0.85", lw=0.5, zorder=1)
        self._axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
        self._axes.set_box_aspect((1, 1, 1), zoom=1.45)


def _draw_energy(axes: Axes, run: Trajectory) -> None:
    axes.tick_params(labelbottom=False)
    try:
        energy = run.energy.reshape(len(run), -1)
    except SphereflowError:
        axes.plot(run.ts, run.order_parameter.reshape(len(run), -1)[:, :20], lw=1)
        axes.set_ylabel("order parameter")
        return
    axes.plot(run.ts, energy[:, :20], lw=1.2)
    axes.set_ylabel(r"energy $E_\beta$")


def _draw_overlaps(axes: Axes, run: Trajectory) -> None:
    """Quantiles of the inner products of pairs of the first replica."""
    every = np.linspace(0, run.n - 1, min(run.n, _MOST_PAIRS_TOKENS)).astype(int)
    upper = np.triu_indices(len(every), k=1)
    levels = (0, 10, 50, 90, 100)
    bands = []
    for i in range(len(run)):
        x = run.frame(i).reshape((-1, run.n, run.d))[0][every]
        bands.append(np.percentile((x @ x.T)[upper], levels) if len(every) > 1 else np.ones(len(levels)))
    low, lower, middle, higher, high = np.array(bands).T
    axes.fill_between(run.ts, low, high, color="C0", alpha=0.15, lw=0, label="all pairs")
    axes.fill_between(run.ts, lower, higher, color="C0", alpha=0.3, lw=0, label="10-90 %")
    axes.plot(run.ts, middle, color="C0", lw=1.2, label="median")
    axes.set(xlabel="$t$", ylabel=r"$\langle x_i, x_j\rangle$")
    axes.legend(loc="lower right", fontsize=7)
