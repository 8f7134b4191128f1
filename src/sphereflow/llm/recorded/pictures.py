"""The picture of a recording: cosines of tokens through the layers, their histograms, and where the heads look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from sphereflow.pictures import PALETTE, blank, look

if TYPE_CHECKING:
    from sphereflow.llm.recorded.recorder import Recording


def draw_recording(recording: Recording) -> Figure:
    """Mean cosine against depth, all cosines by depth (each row a histogram), and effective tokens against the sink."""
    depth = np.arange(recording.histogram.shape[1])
    layers = np.broadcast_to(np.arange(recording.shape[1])[:, None], recording.shape[1:])
    with look():
        figure = blank(10.2, 3.3)
        cosines, histograms, heads = figure.subplots(1, 3)
        for name, label, colour in (
            ("mean_cosine", "as they are", PALETTE[0]),
            ("centred_cosine", "centred", PALETTE[1]),
        ):
            rows = recording.stream[name]
            cosines.plot(depth, rows.mean(axis=0), "-", color=colour, label=label)
            cosines.fill_between(depth, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        cosines.set(xlabel="layer", ylabel="mean cosine of two tokens", ylim=(min(0, cosines.get_ylim()[0]), 1))
        cosines.legend(loc="best")
        share = np.sqrt(recording.histogram.mean(axis=0))
        histograms.imshow(share, aspect="auto", origin="lower", extent=(-1, 1, -0.5, len(depth) - 0.5), cmap="magma")
        histograms.set(xlabel="cosine of two tokens", ylabel="layer", title="square root of the share of pairs")
        shown = heads.scatter(
            recording.heads["sink_mass"].mean(axis=0),
            recording.heads["entropy_number"].mean(axis=0),
            c=layers,
            s=12,
            cmap="viridis",
        )
        heads.set(xlabel="weight on the first token", ylabel="effective tokens of a head", yscale="log")
        figure.colorbar(shown, ax=heads, label="layer")
    return figure
