"""Pictures of tokens under an iterated layer, and of heads in the diagram of inverse temperature and length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from sphereflow.llm.depth.betas import BETAS
from sphereflow.pictures import PALETTE, blank, look

if TYPE_CHECKING:
    from sphereflow.llm.depth.betas import EffectiveBetas
    from sphereflow.llm.depth.iterated import IteratedLayer


def draw_iterated(found: IteratedLayer) -> Figure:
    """Clusters and effective rank, raw and centred, and the change of a step."""
    steps = np.arange(found.steps + 1)
    with look():
        figure = blank(9.6, 3.2)
        left, middle, right = figure.subplots(1, 3)
        for ax, name, title in ((left, "clusters", "clusters at cosine 0.9"), (middle, "rank", "effective rank")):
            ax.semilogy(steps, found.median(name), color=PALETTE[0], label="raw")
            ax.semilogy(steps, found.median(f"centred_{name}"), "--", color=PALETTE[1], label="centred")
            ax.set(title=title, xlabel="step")
        left.legend(loc="upper right")
        right.semilogy(steps[1:], np.maximum(found.change.T, 1e-9), color="0.6", lw=0.8)
        right.semilogy(steps[1:], np.maximum(np.median(found.change, axis=0), 1e-9), color=PALETTE[0])
        right.set(title="change of unit vectors", xlabel="step")
        figure.suptitle(f"layer {found.layer}, {found.variant}, {'rescaled' if found.rescaled else 'plain'}")
    return figure


def draw_betas(found: EffectiveBetas) -> Figure:
    """Beta of every head by layer, three ways; above the line equiangular tokens are kept apart."""
    layers = np.arange(found.norms.shape[1])
    border = np.log(found.n) / (1 - found.mean_cosine.astype(float).mean(axis=0))
    with look():
        figure = blank(9.6, 3.2)
        for ax, by in zip(figure.subplots(1, 3), BETAS, strict=True):
            values = found.per_head(by)
            ax.plot(layers, values, ".", color="0.6", ms=3)
            ax.plot(layers, np.median(values, axis=1), color=PALETTE[0], label="median of heads")
            ax.plot(layers, border, "--", color=PALETTE[1], label=r"$\log n/(1-\rho)$")
            ax.set(xlabel="layer", title=f"beta by {by}")
            ax.grid(True)
        figure.axes[1].legend(loc="upper left")
    return figure
