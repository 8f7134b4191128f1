"""Pictures of modes: where they are, how many each run has, and their number beside that of clusters."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.modes.attention import ModesAndClusters
from sphereflow.modes.find import Modes
from sphereflow.pictures import PALETTE, styled_figure


def draw_modes(modes: Modes) -> Figure:
    """Left: histogram of the positions. Right: histogram of the number of modes of a run."""
    with styled_figure(9.0, 3.4) as figure:
        left, right = figure.subplots(1, 2)
        left.hist(modes.positions, bins=int(np.clip(np.sqrt(len(modes)), 10, 100)), color=PALETTE[5])
        left.set(xlabel="position", ylabel="modes")
        values, runs = np.unique(modes.counts, return_counts=True)
        right.bar(values, runs, color=PALETTE[0])
        right.set(xlabel="modes in a run", ylabel="runs")
    return figure


def draw_modes_and_clusters(both: ModesAndClusters) -> Figure:
    """Mean numbers of modes and of clusters against time, with standard errors."""
    with styled_figure(6.0, 3.6) as figure:
        axes = figure.add_subplot()
        for name, table, colour in (("modes", both.modes, PALETTE[0]), ("clusters", both.clusters, PALETTE[1])):
            error = table.std(axis=1) / np.sqrt(max(table.shape[1] - 1, 1))
            axes.errorbar(both.times, table.mean(axis=1), error, fmt="o-", color=colour, capsize=2, label=name)
        axes.set(xlabel="$t$", ylabel="number", title=rf"$\beta={both.beta:g}$, {table.shape[1]} runs")
        axes.legend()
    return figure
