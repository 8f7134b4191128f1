"""Tokens of a run as they are drawn: coloured, with trails and numbers, seen by a camera that may turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, real_number
from sphereflow.evolution.trajectory import CAMERA, Trajectory
from sphereflow.observables import cluster_labels
from sphereflow.pictures import AROUND, PALETTE
from sphereflow.reading import real_array

MOST_DRAWN = 5000
_MOST_PATHS = 200
_MOST_LABELS = 100
COLOURS = ("cluster", "start", "token")


@dataclass(frozen=True)
class Drawing:
    """How tokens are drawn.

    - `colour`: "cluster" (that of the last frame), "start" (the place where a token began: its angle on the circle,
      its coordinate along the main direction of the starts elsewhere), "token" (its number), or n numbers of one's own.
    - `trails`: how much time of its path a token draws behind itself.
    - `labels`: the number of each token beside it.
    - `camera`: elevation and azimuth in degrees; `turn`: how far the azimuth turns during a movie.
    """

    colour: Any = "cluster"
    trails: float = 0.0
    labels: bool = False
    camera: tuple[float, float] = CAMERA
    turn: float = 0.0

    def __post_init__(self) -> None:
        real_number("trails", self.trails, least=0)
        real_number("turn", self.turn)
        if not isinstance(self.labels, (bool, np.bool_)):
            raise SphereflowError(f"labels must be True or False, got {self.labels!r}.")
        if isinstance(self.colour, str) and self.colour not in COLOURS:
            raise SphereflowError(f"colour must be one of {', '.join(COLOURS)} or n numbers, got '{self.colour}'.")
        real_array("camera", self.camera, shape=(2,))


class TokenView:
    """Tokens of one replica on the circle, the sphere, the plane, or projected on their main directions."""

    def __init__(self, figure: Figure, cell: Any, run: Trajectory, drawing: Drawing | None = None, title: str = ""):
        self._run, self._drawing, self._name = run, drawing or Drawing(), title
        self._chosen = np.linspace(0, run.n - 1, min(run.n, MOST_DRAWN)).astype(int)
        self._on_sphere = run.model.traits.space == "sphere"
        self._basis = None if run.d <= 3 else self._main_directions()
        self._solid = run.d >= 3
        self._axes: Any = figure.add_subplot(cell, projection="3d" if self._solid else None)
        self._axes.set_axis_off()
        self._axes.set_aspect("equal")
        self._moving: list[Any] = []
        self._size = 24 if run.n <= _MOST_PATHS else 14
        self._colours = self._token_colours()
        self._draw_ground()

    def points(self, index: int) -> np.ndarray:
        """Tokens of a frame in two or three coordinates."""
        x = self._tokens(index)
        if self._basis is not None:
            return x @ self._basis
        return np.concatenate([x, np.zeros_like(x)], axis=1) if x.shape[1] == 1 else x

    def show(self, index: int) -> None:
        """Draw a frame in the place of the one before."""
        for artist in self._moving:
            artist.remove()
        points = self.points(index)
        self._moving = [self._axes.scatter(*points.T, c=self._colours, s=self._size, zorder=5, linewidths=0)]
        first = int(np.searchsorted(self._run.ts, self._run.ts[index] - self._drawing.trails))
        if first < index:
            self._moving.append(self._draw_trails(first, index))
        if self._drawing.labels:
            if len(points) > _MOST_LABELS:
                raise SphereflowError(f"labels are for at most {_MOST_LABELS} tokens, got {len(points)}.")
            self._moving += [
                self._axes.text(*(1.06 * point), str(number), fontsize=7, ha="center", va="center")
                for number, point in enumerate(points)
            ]
        if self._solid:
            elevation, azimuth = self._drawing.camera
            self._axes.view_init(elevation, azimuth + self._drawing.turn * index / max(len(self._run) - 1, 1))
        projected = "" if self._basis is None else f"  (three main directions of {self._run.d})"
        before = f"{self._name}, " if self._name else ""
        self._axes.set_title(f"{before}$t = {self._run.ts[index]:.2f}${projected}")

    def draw_paths(self) -> None:
        """Whole paths of some tokens."""
        every = self._some()
        paths = np.stack([self.points(i)[every] for i in range(len(self._run))])
        for k, token in enumerate(every):
            self._axes.plot(*paths[:, k].T, color=self._colours[token], lw=0.6, alpha=0.5, zorder=2)

    def _some(self) -> np.ndarray:
        return np.linspace(0, len(self._chosen) - 1, min(len(self._chosen), _MOST_PATHS)).astype(int)

    def _draw_trails(self, first: int, index: int) -> Any:
        """Pieces of the paths between frames, fainter the older they are."""
        every = self._some()
        paths = np.stack([self.points(i)[every] for i in range(first, index + 1)])
        pieces = np.stack([paths[:-1], paths[1:]], axis=2).reshape(-1, 2, paths.shape[-1])
        fading = np.linspace(0.05, 0.8, index - first)
        shades = np.repeat(self._colours[every][None], index - first, axis=0)
        shades[..., 3] = fading[:, None]
        if self._solid:
            from mpl_toolkits.mplot3d.art3d import Line3DCollection

            return self._axes.add_collection3d(Line3DCollection(pieces, colors=shades.reshape(-1, 4), linewidths=1.0))
        return self._axes.add_collection(
            LineCollection(list(pieces), colors=shades.reshape(-1, 4), linewidths=1.0, zorder=3)
        )

    def _tokens(self, index: int) -> np.ndarray:
        return self._run.frame(index).reshape((-1, self._run.n, self._run.d))[0][self._chosen]

    def _main_directions(self) -> np.ndarray:
        """Principal directions of the first and last frame together."""
        both = np.concatenate([self._tokens(0), self._tokens(len(self._run) - 1)])
        return np.linalg.svd(both, full_matrices=False)[2][:3].T

    def _token_colours(self) -> np.ndarray:
        colour, first, last = self._drawing.colour, self._tokens(0), self._tokens(len(self._run) - 1)
        if not isinstance(colour, str):
            return _shades(real_array("colour", colour, shape=(self._run.n,))[self._chosen])
        if colour == "token":
            return _shades(self._chosen.astype(float))
        if colour == "start":
            if self._run.d == 2:  # the ends of the range are one place, and one colour
                return AROUND((np.arctan2(first[:, 1], first[:, 0]) / (2 * np.pi)) % 1)
            return _shades((first - first.mean(axis=0)) @ np.linalg.svd(first - first.mean(axis=0))[2][0])
        small = self._run.d == 2 or len(last) <= MOST_DRAWN
        labels = cluster_labels(last) if self._on_sphere and small else np.zeros(len(last), dtype=int)
        return to_rgba_array(PALETTE)[labels % len(PALETTE)]

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


def _shades(values: np.ndarray) -> np.ndarray:
    """Colours of numbers, from the least to the largest."""
    width = np.ptp(values)
    return colormaps["viridis"]((values - values.min()) / width if width > 0 else np.zeros(len(values)))
