"""Movies of points of the plane that a map carries: a schedule from piece to piece, a generator while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, whole_number, writable_target
from sphereflow.pictures import AROUND, blank, check_movie, look, movie_writer
from sphereflow.progress import progress_bar
from sphereflow.reading import real_array
from sphereflow.saving import whole_file
from sphereflow.shapes import ArrayLike

_ALONG = 61  # points of each line of the grid


def samples_movie(
    carry: Callable[[np.ndarray], ArrayLike],
    x: ArrayLike,
    path: str | Path,
    *,
    target: ArrayLike | None = None,
    grid: int = 0,
    titles: Sequence[str] | None = None,
    fps: int = 20,
    overwrite: bool = True,
) -> Path:
    """A movie (.mp4, .gif) of points (n, 2), coloured by where they began.

    **Arguments:**

    - `carry`: a function that takes points (n, 2) to all their places (frames, n, 2).
    - `target`: samples of the law that is aimed at, in grey.
    - `grid`: so many lines each way over the points are carried along, which shows the map. `titles`: of the frames.

    ```python
    target = sf.transport.Mixture([[-1.5, 0.0], [1.5, 0.0]], 0.4).sample(1000)
    schedule, x = sf.transport.gaussianise(target).schedule, sf.transport.gaussian(2).sample(300)
    sf.figures.samples_movie(lambda points: schedule.frames(points, 12), x, "map.gif", grid=8)
    ```
    """
    if not callable(carry):
        raise SphereflowError(f"carry must be a function of points, got {type(carry).__name__}.")
    points = real_array("x", x, shape=("n", 2))
    behind = None if target is None else real_array("target", target, shape=("m", 2))
    count = whole_number("grid", grid, least=0, most=100)
    file = writable_target(path, overwrite=overwrite)
    check_movie(file.suffix.lower())
    frames = real_array("what carry gives", carry(points), shape=("frames", len(points), 2))
    lines = carried_lines(carry, points, count, len(frames))
    if titles is not None and len(titles) != len(frames):
        raise SphereflowError(f"titles must be one for each of the {len(frames)} frames, got {len(titles)}.")
    middle = points.mean(axis=0)
    colours = AROUND((np.arctan2(*(points - middle).T[::-1]) / (2 * np.pi)) % 1)
    writer = movie_writer(file.suffix.lower(), fps)
    with look(), whole_file(file) as temporary:
        figure = _stage(frames, behind)
        (axes,) = figure.axes
        dots = axes.scatter(frames[0, :, 0], frames[0, :, 1], c=colours, s=7, linewidths=0, zorder=3)
        drawn = LineCollection([], colors="0.5", linewidths=0.6, zorder=2)
        axes.add_collection(drawn)
        with writer.saving(figure, str(temporary), dpi=120), progress_bar("drawing", None, total=len(frames)) as bar:
            for index, places in enumerate(frames):
                dots.set_offsets(places)
                drawn.set_segments(list(lines[index]))
                axes.set_title(titles[index] if titles is not None else f"{index} of {len(frames) - 1}")
                writer.grab_frame()
                bar.advance()
    return file


def carried_lines(carry: Callable[[np.ndarray], ArrayLike], points: np.ndarray, count: int, frames: int) -> np.ndarray:
    """The lines of a grid over the points in every frame, of shape (frames, 2 count, points of a line, 2)."""
    if count == 0:
        return np.zeros((frames, 0, _ALONG, 2))
    low, high = points.min(axis=0), points.max(axis=0)
    steps, along = np.linspace(0, 1, count), np.linspace(0, 1, _ALONG)
    across = np.stack(np.broadcast_arrays(steps[:, None], along), axis=-1)  # (count, points of a line, 2)
    lines = low + np.concatenate([across, across[..., ::-1]]) * (high - low)
    shape = (frames, 2 * count * _ALONG, 2)
    return real_array("what carry gives", carry(lines.reshape(-1, 2)), shape=shape).reshape(frames, -1, _ALONG, 2)


def _stage(frames: np.ndarray, behind: np.ndarray | None) -> Figure:
    """Axes that hold where points begin and end, and the target, but for one in two hundred on each side.

    Between the two a few may leave the picture for a moment.
    """
    clouds = [frames[0], frames[-1], *([] if behind is None else [behind])]
    edges = np.stack([np.quantile(cloud, [0.005, 0.995], axis=0) for cloud in clouds])
    low, high = edges[:, 0].min(axis=0), edges[:, 1].max(axis=0)
    middle, reach = (low + high) / 2, 0.58 * float(max((high - low).max(), 1e-9))
    figure = blank(5.0, 5.2)
    axes = figure.add_subplot()
    axes.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach), aspect="equal")
    if behind is not None:
        axes.scatter(behind[:, 0], behind[:, 1], color="0.8", s=5, linewidths=0, zorder=1)
    return figure
