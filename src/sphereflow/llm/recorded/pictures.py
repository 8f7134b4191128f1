"""Pictures of a recording: its tokens and heads, lengths of its values, and the forms of curves of its heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sphereflow.pictures import PALETTE, blank, look

if TYPE_CHECKING:
    from sphereflow.llm.recorded.geometry import FormsOfHeads, ValueNorms
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


def draw_norms(found: ValueNorms) -> Figure:
    """Variation of the norms, and lengths over the median: the sink of each head, and the other positions as a band."""
    layers, groups = found.variation.shape
    spread = np.linspace(-0.25, 0.25, groups) if groups > 1 else np.zeros(1)
    places = np.arange(layers)[:, None] + spread
    with look():
        figure = blank(9.0, 3.4)
        variation, lengths = figure.subplots(1, 2)
        variation.plot(places.ravel(), found.variation.ravel(), "o", ms=3, color=PALETTE[0])
        variation.plot(np.arange(layers), np.median(found.variation, axis=1), color=PALETTE[0], lw=1)
        variation.set(xlabel="layer", ylabel="standard deviation of norms over their mean", ylim=(0, None))
        seen = found.asked.any(axis=1)
        if seen.any():
            others = np.full((3, layers), np.nan)
            others[:, seen] = np.nanquantile(found.other[seen].reshape(int(seen.sum()), -1), [0.05, 0.5, 0.95], axis=1)
            lengths.fill_between(
                np.arange(layers), others[0], others[2], color="0.85", label="other positions, 5 to 95 %"
            )
            lengths.plot(
                places.ravel(), found.compression.ravel(), "o", ms=3, color=PALETTE[1], label="the first token"
            )
            lengths.axhline(1.0, color="0.6", lw=0.8)
            lengths.legend(loc="best")
        else:
            lengths.text(0.5, 0.5, "no layer sees the first token", transform=lengths.transAxes, ha="center")
        lengths.set(xlabel="layer", ylabel="length of a value over the median", ylim=(0, None))
        for axes in (variation, lengths):
            axes.set_xlim(-0.7, layers - 0.3)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def draw_forms(found: FormsOfHeads) -> Figure:
    """Shares of heads by AICc, with jackknife errors, and on unseen text; the best form of every head by layer."""
    place, colours = np.arange(len(found.names)), [PALETTE[k % len(PALETTE)] for k in range(len(found.names))]
    with look():
        figure = blank(9.4, 3.4)
        shares, layers = figure.subplots(1, 2, width_ratios=(1.2, 1))
        tested = bool(np.isfinite(found.share_error).all())
        error = found.share_error if tested else None
        shares.barh(place - 0.18, found.share, 0.34, xerr=error, color=colours, ecolor="0.3", capsize=2)
        if tested:
            shares.barh(place + 0.18, found.share_held_out, 0.34, color=colours, alpha=0.45)
        shares.set_yticks(place, found.names)
        shares.invert_yaxis()
        pale = "; pale: on text that a fit has not seen" if tested else ""
        shares.set(xlim=(0, 1), xlabel=f"share of heads{pale}", title=found.about)
        depth = int(found.heads[:, 0].max()) + 1
        counts = np.stack([np.bincount(found.heads[found.best == k, 0], minlength=depth) for k in place])
        layers.bar(np.arange(depth), counts[0], 0.85, color=colours[0])
        for k in place[1:]:
            layers.bar(np.arange(depth), counts[k], 0.85, bottom=counts[:k].sum(axis=0), color=colours[k])
        layers.set(xlabel="layer", ylabel="heads, by their best form (AICc)")
        for axis in (layers.xaxis, layers.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    return figure
