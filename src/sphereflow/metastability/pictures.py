"""Pictures of long runs: energy against log log t, and the staircase in its clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.metastability.history import MergeHistory
from sphereflow.pictures import PALETTE, styled_figure

if TYPE_CHECKING:
    from sphereflow.metastability.staircases import Staircase


def plot_history(history: MergeHistory) -> Figure:
    """Normalised energy against log(1+t) on a logarithmic axis, that is against log log t."""
    with styled_figure(6.4, 3.8) as figure:
        axes = figure.add_subplot()
        draw_energy(axes, history, color=PALETTE[0])
        for level in {p.level for p in history.plateaus[-8:]}:
            axes.axhline(level, color="0.85", lw=0.7, zorder=0)
        axes.set_title(
            f"{history.n} tokens, $d={history.d}$, {history.kind.upper()}, $\\beta={history.beta:g}$: "
            f"last merger at $\\log t={history.log_times[-1]:.5g}$"
            if len(history)
            else "no merger"
        )
    return figure


def draw_energy(axes: Axes, history: MergeHistory, **style: Any) -> None:
    """The energy curve of a run against log log t, on given axes."""
    rows = history.curve[np.isfinite(history.curve[:, 0])]
    axes.plot(np.logaddexp(0, rows[:, 0]), rows[:, 1], lw=1.4, **style)
    axes.set_xscale("log")
    axes.set_xlabel(r"$\log(1+t)$  (logarithmic axis: $\log\log t$)")
    axes.set_ylabel(r"normalised energy $2\beta E_\beta$")
    axes.set_ylim(0, 1.03)


def plot_staircase(stairs: Staircase) -> Figure:
    """Left: against log t / beta with the limit. Right: against the clock, unglued and glued."""
    with styled_figure(9.6, 3.8) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        x, y = stairs.curve("log_t_over_beta")
        left.plot(np.maximum(x, 0), y, color=PALETTE[0], lw=1.6, label="unglued")
        heights = np.concatenate([[0.0], stairs.limit_heights, [1.1 * stairs.limit_heights[-1]]])
        first = float(np.sum(stairs.unglued.masses**2))
        levels = np.concatenate([[first], stairs.limit_levels, stairs.limit_levels[-1:]])
        left.step(heights, levels, where="post", color="0.55", lw=1, ls="--", label=r"limit $\beta\to\infty$")
        left.set_xlabel(r"$\log t\,/\,\beta$")
        left.set_ylabel(r"normalised energy $2\beta E_\beta$")
        for glued, colour, name in ((False, PALETTE[0], "unglued"), (True, PALETTE[1], "glued at $r_c$")):
            x, y = stairs.curve("clock", glued=glued)
            right.plot(x, y, color=colour, lw=1.6, label=name)
        right.set_xlabel(r"clock $\tau$")
        for axes in (left, right):
            axes.legend(loc="lower right")
            axes.set_ylim(0, 1.03)
        run = stairs.unglued
        figure.suptitle(f"{run.n} tokens, {run.kind.upper()}, $\\beta={run.beta:g}$", fontsize=11)
    return figure
