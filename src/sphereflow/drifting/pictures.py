"""Pictures of drifting: samples in the plane, quality against compute."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sphereflow.drifting.translation import Point
from sphereflow.errors import SphereflowError
from sphereflow.pictures import PALETTE, blank, look


def scatter(samples: Float[np.ndarray, "n D"], title: str) -> Figure:
    """The first two coordinates of samples."""
    with look():
        figure = blank(4.6, 4.6)
        axes = figure.subplots()
        axes.plot(samples[:, 0], samples[:, min(1, samples.shape[1] - 1)], ".", ms=1.5, rasterized=True)
        axes.set(title=title, aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    return figure


_MEASURES = (("passes", "network passes over samples"), ("operations", "multiply-adds"), ("seconds", "seconds"))


def quality(points: list[Point]) -> Figure:
    """Frechet distance against three counts of compute, mean and spread over seeds, one curve per method."""
    trained = [p for p in points if p.method != "affine"]
    reference = [p.frechet for p in points if p.method == "affine"]
    with look():
        figure = blank(10.4, 3.8)
        for axes, (name, label) in zip(figure.subplots(1, 3, sharey=True), _MEASURES, strict=True):
            for colour, method in zip(PALETTE, dict.fromkeys(p.method for p in trained), strict=False):
                mine = [p for p in trained if p.method == method]
                budgets = sorted({p.steps for p in mine})
                x = [np.mean([getattr(p, name) for p in mine if p.steps == b]) for b in budgets]
                y = [[p.frechet for p in mine if p.steps == b] for b in budgets]
                mean, spread = np.array([np.mean(v) for v in y]), np.array([np.std(v) for v in y])
                axes.errorbar(
                    x, mean, np.minimum(spread, 0.9 * mean), fmt="o-", ms=4, color=colour, capsize=2, label=method
                )
            if reference:
                axes.axhline(np.mean(reference), color="0.5", ls="--", lw=0.9, label="affine, not trained")
            axes.set(xscale="log", yscale="log", xlabel=label)
        figure.axes[0].set_ylabel("Frechet distance to held-out target")
        figure.axes[2].legend(fontsize=7)
    return figure


def before_and_after(before: Float[np.ndarray, "n P"], after: Float[np.ndarray, "n P"]) -> Figure:
    """Square images as rows of numbers: the originals above, what became of each below."""
    side = math.isqrt(before.shape[1])
    if side * side != before.shape[1]:
        raise SphereflowError(f"only square images can be shown; a row has {before.shape[1]} numbers.")
    with look():
        figure = blank(0.8 * len(before), 1.9)
        grid = figure.subplots(2, len(before), squeeze=False)
        for line, rows, label in zip(grid, (before, after), ("before", "after"), strict=True):
            for axes, row in zip(line, rows, strict=True):
                axes.imshow(row.reshape(side, side), cmap="gray_r", vmin=0, vmax=1)
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            line[0].set_ylabel(label)
    return figure
