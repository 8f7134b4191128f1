"""Pictures of drifting: samples and maps of the plane, paths, quality against compute, translated images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from sphereflow.drifting.translation import Point
from sphereflow.errors import SphereflowError, whole_number
from sphereflow.pictures import PALETTE, styled_figure
from sphereflow.reading import real_array


def scatter(samples: Float[np.ndarray, "n D"], title: str) -> Figure:
    """The first two coordinates of samples."""
    with styled_figure(4.6, 4.6) as figure:
        axes = figure.subplots()
        axes.plot(samples[:, 0], samples[:, min(1, samples.shape[1] - 1)], ".", ms=1.5, rasterized=True)
        axes.set(title=title, aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    return figure


def trajectories(
    positions: Float[np.ndarray, "T n D"], times: Float[np.ndarray, " T"], shown: int = 40, title: str = ""
) -> Figure:
    """Some paths with all starts and ends: in the plane of the first two coordinates, or against time on the line."""
    positions, times = real_array("positions", positions, shape=("T", "n", "D")), real_array("times", times)
    if not positions.size or times.shape != positions.shape[:1]:
        raise SphereflowError(
            f"positions (T, n, D) and times (T,) must agree and not be empty; got {positions.shape} and {times.shape}."
        )
    shown = whole_number("shown", shown)
    flat = positions.shape[2] == 1
    # Evenly among the rows: neighbours in an ordered sample would show one corner only.
    some = np.unique(np.linspace(0, positions.shape[1] - 1, min(shown, positions.shape[1])).astype(int))
    with styled_figure(5.0, 4.4) as figure:
        axes = figure.subplots()
        for row in some:
            path = positions[:, row]
            axes.plot(*((times, path[:, 0]) if flat else path[:, :2].T), color="0.72", lw=0.7, zorder=1)
        for place, colour, label in ((0, PALETTE[1], "start"), (-1, PALETTE[0], "end")):
            cloud = positions[place]
            at = (np.full(len(cloud), times[place]), cloud[:, 0]) if flat else cloud[:, :2].T
            axes.plot(*at, ".", ms=2, color=colour, label=f"{label}, t = {times[place]:g}", rasterized=True)
        axes.set(title=title, xlabel="$t$" if flat else "$x_1$", ylabel="$x_1$" if flat else "$x_2$")
        axes.set_aspect("auto" if flat else "equal")
        axes.legend(fontsize=8)
    return figure


def straight_paths(
    function: Callable[[Array], Array], x0: Float[np.ndarray, "n D"], times: Float[np.ndarray, " T"]
) -> Float[np.ndarray, "T n D"]:
    """The paths (1 - t) z + t T(z) of a map T, along which Optimal Flow Matching moves, for `trajectories`."""
    z, t = real_array("x0", x0, shape=("n", "D")), real_array("times", times, shape=("T",))[:, None, None]
    return np.asarray((1 - t) * z + t * real_array("the image of the map", function(jnp.asarray(z)), shape=z.shape))


def map_of_plane(
    function: Callable[[Array], Array],
    source: Float[np.ndarray, "n 2"],
    target: Float[np.ndarray, "m 2"] | None = None,
    lines: int = 15,
    title: str = "",
) -> Figure:
    """A map of the plane: the lines of a grid about the source before and after, the source and where it goes.

    With a sample of the target beneath. The map of Optimal Flow Matching is `learned.potential.map`.
    """
    x = real_array("source", source, shape=("n", 2))
    if not len(x):
        raise SphereflowError("source must have at least one row.")
    lines = whole_number("lines", lines, least=2, most=1000)

    def moved(rows: np.ndarray) -> np.ndarray:
        return real_array("the image of the map", function(jnp.asarray(rows)), shape=rows.shape)

    low, high = x.min(axis=0) - 0.05 * np.ptp(x, axis=0), x.max(axis=0) + 0.05 * np.ptp(x, axis=0)
    along = np.linspace(0, 1, 60)
    across = [np.stack([np.full(60, c), along], axis=1) for c in np.linspace(0, 1, lines)]
    grid = low + (high - low) * np.stack([*across, *(line[:, ::-1] for line in across)])
    images = moved(grid.reshape(-1, 2)).reshape(grid.shape)
    with styled_figure(8.6, 4.2) as figure:
        for axes, name, curves, points, colour in (
            (figure.add_subplot(1, 2, 1), "before", grid, x, PALETTE[1]),
            (figure.add_subplot(1, 2, 2), "after", images, moved(x), PALETTE[0]),
        ):
            if target is not None and name == "after":
                axes.plot(*real_array("target", target, shape=("m", 2)).T, ".", color="0.8", ms=2, rasterized=True)
            for curve in curves:
                axes.plot(*curve.T, color="0.55", lw=0.6)
            axes.plot(*points.T, ".", color=colour, ms=2, rasterized=True)
            axes.set(title=name, aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
        figure.suptitle(title, fontsize=11)
    return figure


# What each method is called in pictures: friction beside the two schedules it must be told from.
NAMES = {
    "drift": "drifting",
    "drift-friction": "drifting with friction",
    "drift-schedule": "no friction, rate times 1 - t/T",
    "drift-restoring": "drifting, restoring friction",
    "drift-effective": "no friction, rate as Adam leaves it",
    "ofm": "Optimal Flow Matching",
    "lightsb": "Light Schroedinger Bridge",
    "affine": "affine, not trained",
}
_MARKS = {"drift-schedule": "s--", "drift-effective": "^:"}
_MEASURES = (("passes", "network passes over samples"), ("operations", "multiply-adds"), ("seconds", "seconds"))
_QUALITIES = (("frechet", "Frechet distance"), ("mmd", "squared MMD"))


def quality(points: list[Point]) -> Figure:
    """Two distances to held-out data against three counts of compute: mean and standard error over seeds.

    The last column is friction alone: each budget of drifting with friction and of the two schedules, as a ratio to
    the run with neither, paired by seed.
    """
    trained = [p for p in points if p.method != "affine"]
    methods = list(dict.fromkeys(p.method for p in trained))
    colours = dict(zip(methods, PALETTE, strict=False))
    with styled_figure(13.0, 6.2) as figure:
        grid = figure.subplots(2, 4)
        for line, (measure, title) in zip(grid, _QUALITIES, strict=True):
            for axes, (name, label) in zip(line[:3], _MEASURES, strict=True):
                for method in methods:
                    x, mean, error = _curve([p for p in trained if p.method == method], name, measure)
                    # A logarithmic axis cannot show what reaches below zero: unbiased estimates do by chance.
                    positive = mean > 0
                    axes.errorbar(
                        x[positive],
                        mean[positive],
                        np.minimum(error, 0.9 * np.abs(mean))[positive],
                        fmt=_MARKS.get(method, "o-"),
                        ms=4,
                        color=colours[method],
                        capsize=2,
                        label=NAMES[method],
                    )
                floor = [getattr(p, measure) for p in points if p.method == "affine"]
                if floor and np.mean(floor) > 0:
                    axes.axhline(np.mean(floor), color="0.5", ls="--", lw=0.9, label=NAMES["affine"])
                axes.set_xlabel(label)
                if not axes.dataLim.minpos.max() < np.inf:  # nothing above zero was drawn
                    continue
                axes.set(xscale="log", yscale="log")
                low, high = axes.get_xlim()
                if high < 20 * low:  # a decade or less would be labelled at every digit
                    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                    axes.xaxis.set_major_formatter("{x:g}")
                axes.xaxis.set_minor_formatter(NullFormatter())
            line[0].set_ylabel(f"{title} to held-out target")
            _friction(line[3], trained, measure, colours)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _friction(axes: Axes, points: list[Point], measure: str, colours: dict[str, str]) -> None:
    plain = {(p.seed, p.steps): getattr(p, measure) for p in points if p.method == "drift"}
    shift = 0.94
    for method in ("drift-friction", "drift-effective", "drift-schedule"):
        mine = [p for p in points if p.method == method and (p.seed, p.steps) in plain]
        if not mine:
            continue
        budgets = sorted({p.steps for p in mine})
        ratios = [[getattr(p, measure) / plain[p.seed, p.steps] for p in mine if p.steps == b] for b in budgets]
        axes.errorbar(
            np.array(budgets) * shift,
            [np.mean(r) for r in ratios],
            [_error(r) for r in ratios],
            fmt=_MARKS.get(method, "o-"),
            ms=4,
            color=colours[method],
            capsize=2,
        )
        shift *= 1.06  # side by side, or the bars hide one another
    axes.axhline(1.0, color=colours.get("drift", "0.5"), lw=0.9)
    axes.set(xscale="log", xlabel="steps", ylabel="ratio to drifting")
    budgets = sorted({p.steps for p in points})
    axes.set_xticks(budgets, [str(b) for b in budgets])
    axes.minorticks_off()


def _curve(points: list[Point], compute: str, measure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean compute, mean quality and its standard error at every budget."""
    budgets = sorted({p.steps for p in points})
    groups = [[p for p in points if p.steps == b] for b in budgets]
    values = [[getattr(p, measure) for p in group] for group in groups]
    x = np.array([np.mean([getattr(p, compute) for p in group]) for group in groups])
    return x, np.array([np.mean(v) for v in values]), np.array([_error(v) for v in values])


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def can_be_shown(rows: Float[np.ndarray, "n P"]) -> bool:
    """Whether rows of numbers are square images of a size that shows anything."""
    return math.isqrt(rows.shape[1]) ** 2 == rows.shape[1] >= 36


def before_and_after(rows: Mapping[str, Float[np.ndarray, "n P"]], title: str = "") -> Figure:
    """Square images as rows of numbers: the originals in the first line, what became of each in the lines below."""
    first = next(iter(rows.values()))
    if not can_be_shown(first):
        raise SphereflowError(f"only square images can be shown; a row has {first.shape[1]} numbers.")
    side, low, high = math.isqrt(first.shape[1]), float(first.min()), float(first.max())
    with styled_figure(1.9 + 0.72 * len(first), 0.76 * len(rows) + (0.3 if title else 0.0)) as figure:
        grid = figure.subplots(len(rows), len(first), squeeze=False)
        for line, (label, images) in zip(grid, rows.items(), strict=True):
            for axes, row in zip(line, images, strict=True):
                axes.imshow(row.reshape(side, side), cmap="gray_r", vmin=low, vmax=high)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            line[0].set_ylabel(label, rotation=0, ha="right", va="center")
        figure.suptitle(title, fontsize=11)
    return figure
