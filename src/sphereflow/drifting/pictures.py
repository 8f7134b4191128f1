"""Pictures of drifting: samples in the plane, quality against compute."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sphereflow.drifting.translation import Point
from sphereflow.pictures import PALETTE, blank, look


def scatter(samples: Float[np.ndarray, "n D"], title: str) -> Figure:
    """The first two coordinates of samples."""
    with look():
        figure = blank(4.6, 4.6)
        axes = figure.subplots()
        axes.plot(samples[:, 0], samples[:, min(1, samples.shape[1] - 1)], ".", ms=1.5, rasterized=True)
        axes.set(title=title, aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    return figure


def quality(points: list[Point]) -> Figure:
    """Frechet distance against passes and against seconds, mean and spread over seeds, one curve per method."""
    with look():
        figure = blank(9.0, 3.8)
        for axes, (name, label) in zip(
            figure.subplots(1, 2, sharey=True), (("passes", "network passes over samples"), ("seconds", "seconds")),
            strict=True,
        ):  # fmt: skip
            for colour, method in zip(PALETTE, dict.fromkeys(p.method for p in points), strict=False):
                mine = [p for p in points if p.method == method]
                budgets = sorted({p.steps for p in mine})
                x = [np.mean([getattr(p, name) for p in mine if p.steps == b]) for b in budgets]
                y = [[p.frechet for p in mine if p.steps == b] for b in budgets]
                mean, spread = np.array([np.mean(v) for v in y]), np.array([np.std(v) for v in y])
                axes.errorbar(x, mean, spread, fmt="o-", color=colour, capsize=2, label=method)
            axes.set(xscale="log", yscale="log", xlabel=label)
        figure.axes[0].set_ylabel("Frechet distance to held-out target")
        figure.axes[1].legend(fontsize=8)
    return figure
