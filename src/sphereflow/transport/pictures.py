"""Pictures of a schedule: the grid being carried, densities on the line, and movies of points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, whole_number, writable_target
from sphereflow.pictures import PALETTE, blank, check_movie, look, movie_writer
from sphereflow.progress import progress_bar
from sphereflow.saving import whole_file
from sphereflow.transport.abstract import AbstractSchedule
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.schedule import Schedule

if TYPE_CHECKING:
    from sphereflow.transport.conditional.sampler import ConditionalFit

_LINES = 25  # of the grid, each way
_ALONG = 400  # points on each line
_MOST_DRAWN = 4000
_PANELS = (0.0, 1 / 3, 2 / 3, 1.0)


def draw(schedule: Schedule, source: Law | np.ndarray, target: Law | np.ndarray | None = None) -> Figure:
    """The schedule at work: the map and the densities on the line; the carried grid and points in higher dimension."""
    return _draw_line(schedule, source, target) if schedule.d == 1 else _draw_plane(schedule, source, target)


def carried_grid(axes: Axes, schedule: Schedule, reach: float, until: float = 1.0) -> None:
    """A square grid of the first two coordinates after a fraction of the pieces; colours follow the lines."""
    part = schedule.between(0.0, until * schedule.n_pieces)
    at, along = np.linspace(-reach, reach, _LINES), np.linspace(-reach, reach, _ALONG)
    for axis, colour in ((0, PALETTE[0]), (1, PALETTE[1])):
        points = np.zeros((_LINES, _ALONG, schedule.d))
        points[..., axis], points[..., 1 - axis] = at[:, None], along[None]
        moved = np.asarray(part.apply(points))[..., :2]
        axes.add_collection(LineCollection(list(moved), colors=colour, linewidths=0.5, alpha=0.6))


def draw_conditional(fit: ConditionalFit) -> Figure:
    """The first coordinates of x and of y: pairs that were kept aside, and y sampled at the same x."""
    x = fit.held_out[:, : fit.dx]
    made = fit.push(x, np.random.default_rng(fit.number).standard_normal((len(x), fit.dy)))
    with look():
        figure = blank(7.2, 3.4)
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axes, y, title in zip(panels, (fit.held_out[:, fit.dx :], made), ("held out", "sampled"), strict=True):
            axes.plot(x[:_MOST_DRAWN, 0], y[:_MOST_DRAWN, 0], ".", ms=2, color=PALETTE[0], rasterized=True)
            axes.set(xlabel="$x_1$", title=title)
        panels[0].set_ylabel("$y_1$")
    return figure


def draw_map(schedule: Schedule, box: tuple[tuple[float, float], tuple[float, float]]) -> Figure:
    """A grid of the box, and where the schedule carries it."""
    low, high = np.array(box, dtype=float).T
    at = np.linspace(0, 1, _ALONG)
    with look():
        figure = blank(7.2, 3.6)
        for axes, moved in zip(figure.subplots(1, 2), (False, True), strict=True):
            for axis, colour in ((0, PALETTE[0]), (1, PALETTE[1])):
                for level in np.linspace(0, 1, 11):
                    line = np.empty((_ALONG, 2))
                    line[:, axis], line[:, 1 - axis] = level, at
                    points = low + line * (high - low)
                    points = np.asarray(schedule.apply(points)) if moved else points
                    axes.plot(*points.T, color=colour, lw=0.7)
            axes.set(aspect="equal", title="image" if moved else "box")
    return figure


def _draw_plane(schedule: Schedule, source: Any, target: Any) -> Figure:
    start = _points(source)
    wanted = None if target is None else _points(target)
    reach = 1.15 * max(np.quantile(np.abs(cloud[:, :2]), 0.995) for cloud in (start, wanted) if cloud is not None)
    with look():
        figure = blank(3.1 * len(_PANELS), 3.9)
        panels = figure.subplots(1, len(_PANELS), sharex=True, sharey=True)
        for axes, until in zip(panels, _PANELS, strict=True):
            carried_grid(axes, schedule, reach, until)
            part = schedule.between(0.0, until * schedule.n_pieces)
            moved = np.asarray(part.apply(start))
            if until == 1 and wanted is not None and not isinstance(target, Law):
                axes.plot(*wanted[:, :2].T, ".", ms=2, color=PALETTE[2], alpha=0.4, rasterized=True)
            axes.plot(*moved[:, :2].T, ",", color="black", alpha=0.5, rasterized=True)
            done = round(until * schedule.n_pieces)
            axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="$x_1$")
            axes.set_title(f"after {done} of {schedule.n_pieces} pieces" if until else "source", fontsize=10)
        panels[0].set_ylabel("$x_2$")
        if isinstance(target, Law) and target.d == 2:
            _contours(panels[-1], target, reach)
    return figure


def _contours(axes: Axes, target: Law, reach: float) -> None:
    at = np.linspace(-reach, reach, 160)
    level = np.exp(target.log_density(np.stack(np.meshgrid(at, at), axis=-1)))
    axes.contour(at, at, level, levels=level.max() * np.array([0.05, 0.25, 0.6]), colors=PALETTE[2], linewidths=1.2)


def _draw_line(schedule: Schedule, source: Any, target: Any) -> Figure:
    start = _points(source)[:, 0]
    moved = np.asarray(schedule.apply(start[:, None]))[:, 0]
    ends = np.quantile(start, [0.0005, 0.9995])
    x = np.linspace(ends[0], ends[1], 800)
    with look():
        figure = blank(8.6, 3.4)
        left, right = figure.subplots(1, 2)
        left.plot(x, np.asarray(schedule.apply(x[:, None]))[:, 0])
        left.set(xlabel="$x$", ylabel=r"$\phi_\theta(x)$", title=f"the map, {schedule.n_pieces} pieces")
        clouds = [moved] if target is None else [moved, _points(target)[:, 0]]
        low, high = np.quantile(np.concatenate(clouds), [0.002, 0.998])
        y = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 1500)[:, None]
        if isinstance(source, Law):
            right.plot(y[:, 0], np.exp(schedule.density(source).log_density(y)), label="image")
        else:
            right.hist(moved, bins=120, range=(y[0, 0], y[-1, 0]), density=True, histtype="step", label="image")
        if isinstance(target, Law):
            right.plot(y[:, 0], np.exp(target.log_density(y)), "--", label="target")
        elif target is not None:
            right.hist(clouds[1], bins=120, range=(y[0, 0], y[-1, 0]), density=True, histtype="step", label="target")
        right.set(xlabel="$y$", ylabel="density", ylim=(0, None))
        right.legend()
    return figure


def _points(law: Any) -> np.ndarray:
    points = law.sample(_MOST_DRAWN, 0) if isinstance(law, Law) else np.asarray(law, dtype=float)
    return points[:_MOST_DRAWN]


def movie(schedule: AbstractSchedule, x: Any, path: str | Path, *, frames: int = 60, fps: int = 20) -> Path:
    """Points of shape (n, d) carried by the schedule, evenly in pieces: on a line, in the plane, or in space.

    In more than three dimensions the first three coordinates are shown.
    """
    target = writable_target(path, overwrite=True)
    check_movie(target.suffix.lower())
    cloud = np.asarray(x, dtype=float)
    if cloud.ndim != 2 or len(cloud) == 0 or cloud.shape[1] != schedule.d:
        raise SphereflowError(f"a movie needs points of shape (n, {schedule.d}) with n at least 1, got {cloud.shape}.")
    shown = schedule.frames(cloud, whole_number("frames", frames))[..., :3]
    height = np.zeros(len(cloud)) if schedule.d == 1 else None
    bound = 1.05 * np.abs(shown).max(initial=1e-9)
    with look():
        writer = movie_writer(target.suffix.lower(), fps)
        figure = blank(5.0, 2.0 if schedule.d == 1 else 5.2)
        axes: Any = figure.add_subplot(projection="3d" if schedule.d >= 3 else None)
        axes.set(xlim=(-bound, bound))
        axes.set(ylim=(-1, 1) if schedule.d == 1 else (-bound, bound))
        if schedule.d >= 3:
            axes.set(zlim=(-bound, bound))
        colours = np.arctan2(cloud[:, 1], cloud[:, 0]) if schedule.d > 1 else cloud[:, 0]
        with whole_file(target) as temporary, writer.saving(figure, str(temporary), dpi=120):
            dots: Any = None
            with progress_bar("drawing", None, total=len(shown)) as bar:
                for index, points in enumerate(shown):
                    if dots is not None:
                        dots.remove()
                    places = points.T if height is None else (points[:, 0], height)
                    dots = axes.scatter(*places, c=colours, cmap="twilight", s=8, linewidths=0)
                    done = index * schedule.n_pieces / max(len(shown) - 1, 1)
                    axes.set_title(f"piece {done:.1f} of {schedule.n_pieces}")
                    writer.grab_frame()
                    bar.advance()
    return target
