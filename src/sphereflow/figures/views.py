"""Tokens of runs: one frame, several frames in a row, and movies of several runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError
from sphereflow.evolution import Trajectory
from sphereflow.evolution.plots import make_movie
from sphereflow.evolution.token_view import Drawing, TokenView
from sphereflow.evolution.trajectory import CAMERA
from sphereflow.figures.checks import checked_names, checked_run
from sphereflow.pictures import styled_figure
from sphereflow.reading import real_array
from sphereflow.shapes import ArrayLike


def tokens(
    run: Trajectory,
    frame: int = -1,
    *,
    colour: str | ArrayLike = "cluster",
    trails: float = 0.0,
    labels: bool = False,
    camera: tuple[float, float] = CAMERA,
) -> Figure:
    """Tokens of one frame on the circle, the sphere or the plane; of d > 3 their three main directions.

    **Arguments:**

    - `colour`: "cluster" (that of the last frame), "start" (where a token began: its angle on the circle, its place
      along the main direction of the starts elsewhere), "token" (its number), or n numbers of one's own.
    - `trails`: how much time of its path a token draws behind itself. `labels`: its number beside each token.
    - `camera`: elevation and azimuth in degrees.

    ```python
    run = sf.simulate(n=32, d=3, beta=9.0, t1=5.0, start="hemisphere")
    sf.figures.tokens(run, colour="start", trails=1.0).savefig("tokens.pdf")
    ```
    """
    checked_run(run)
    if not isinstance(frame, (int, np.integer)) or not -len(run) <= frame < len(run):
        raise SphereflowError(f"frame must be a number of one of the {len(run)} frames, got {frame!r}.")
    with styled_figure(4.6, 4.8) as figure:
        cell = figure.add_gridspec(1, 1)[0, 0]
        TokenView(figure, cell, run, Drawing(colour, trails, labels, camera)).show(range(len(run))[frame])
    return figure


def snapshots(
    run: Trajectory,
    times: ArrayLike,
    *,
    colour: str | ArrayLike = "start",
    trails: float = 0.0,
    labels: bool = False,
    camera: tuple[float, float] = CAMERA,
) -> Figure:
    """The frames nearest to given times in one row; each says its own time. Other arguments as for `tokens`."""
    checked_run(run)
    wanted = real_array("times", times, shape=("k",))
    if not 1 <= len(wanted) <= 8 or wanted.min() < run.ts[0] or wanted.max() > run.ts[-1]:
        raise SphereflowError(f"times must be 1 to 8 times between {run.ts[0]:g} and {run.ts[-1]:g}.")
    with styled_figure(3.2 * len(wanted), 3.5) as figure:
        cells = figure.add_gridspec(1, len(wanted))
        for place, time in enumerate(wanted):
            view = TokenView(figure, cells[0, place], run, Drawing(colour, trails, labels, camera))
            view.show(int(np.argmin(np.abs(run.ts - time))))
    return figure


def movie(
    trajectories: Trajectory | Mapping[str, Trajectory],
    path: str | Path,
    *,
    fps: int = 20,
    overwrite: bool = True,
    colour: str | ArrayLike = "cluster",
    trails: float = 0.0,
    labels: bool = False,
    camera: tuple[float, float] = CAMERA,
    turn: float = 0.0,
) -> Path:
    """An .mp4 or .gif of one run, or of runs with their names side by side, saved at the same times.

    `turn`: how many degrees the camera turns from the first frame to the last; the rest as for `tokens`.
    """
    named = {"": trajectories} if isinstance(trajectories, Trajectory) else checked_names("trajectories", trajectories)
    for each in named.values():
        checked_run(each)
    if not 1 <= len(named) <= 4:
        raise SphereflowError(f"trajectories must be one run, or up to four by name, got {len(named)}.")
    drawing = Drawing(colour, trails, labels, camera, turn)
    return make_movie(named, path, drawing, fps=fps, overwrite=overwrite)
