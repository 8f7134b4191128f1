"""Pictures of a run: the tokens, the energy and the inner products, still or moving."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution.density import DensityView
from sphereflow.evolution.token_view import MOST_DRAWN, Drawing, TokenView
from sphereflow.pictures import blank, check_movie, look, movie_writer
from sphereflow.progress import progress_bar
from sphereflow.saving import whole_file

if TYPE_CHECKING:
    from sphereflow.evolution.trajectory import Trajectory

_MOST_PAIRS_TOKENS = 600


def plot_trajectory(run: Trajectory) -> Figure:
    """Tokens with their paths, coloured by final cluster; energy and inner products against time."""
    with look():
        figure = blank(10, 4.2)
        grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.1))
        view = TokenView(figure, grid[:, 0], run)
        view.draw_paths()
        view.show(len(run) - 1)
        curves = figure.add_subplot(grid[0, 1])
        _draw_energy(curves, run)
        _draw_overlaps(figure.add_subplot(grid[1, 1], sharex=curves), run)
    return figure


def make_movie(
    named: Mapping[str, Trajectory],
    path: str | Path,
    drawing: Drawing | None = None,
    *,
    fps: int = 20,
    overwrite: bool = True,
) -> Path:
    """Write an .mp4 or .gif of the tokens of runs side by side, each under its name; all have the same times."""
    target = writable_target(path, overwrite=overwrite)
    check_movie(target.suffix.lower())
    first, *others = named.values()
    if any(not np.array_equal(run.ts, first.ts) for run in others):
        raise SphereflowError("runs in one movie must be saved at the same times.")
    writer = movie_writer(target.suffix.lower(), fps)
    with look(), whole_file(target) as temporary:
        figure = blank(5 * len(named), 5.2)
        cells = figure.add_gridspec(1, len(named))
        views = [_view(figure, cells[0, place], run, drawing, name) for place, (name, run) in enumerate(named.items())]
        with (
            writer.saving(figure, str(temporary), dpi=120),
            progress_bar("drawing", None, total=len(first)) as bar,
        ):
            for index in range(len(first)):
                for view in views:
                    view.show(index)
                writer.grab_frame()
                bar.advance()
    return target


def _view(figure: Figure, cell: Any, run: Trajectory, drawing: Drawing | None, name: str) -> TokenView | DensityView:
    crowd = run.d == 2 and run.n > MOST_DRAWN and run.model.traits.space == "sphere"
    if not crowd:
        return TokenView(figure, cell, run, drawing, name)
    if drawing is not None and (not isinstance(drawing.colour, str) or drawing != Drawing()):
        raise SphereflowError(f"of more than {MOST_DRAWN} tokens the density is drawn, which has no colours or trails.")
    return DensityView(figure, cell, run)


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
