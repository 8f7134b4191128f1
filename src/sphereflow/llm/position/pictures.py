"""Pictures of what a place in the prompt is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from sphereflow.llm.position.influence import APART, MEASURES
from sphereflow.pictures import PALETTE, blank, look

if TYPE_CHECKING:
    from sphereflow.llm.position.influence import InfluenceProfile
    from sphereflow.llm.position.keyvalue import KeyValueProfile


def draw_key_value(profile: KeyValueProfile) -> Figure:
    """Probability among the values of the list, and hit rate, by place."""
    with look():
        figure = blank(6.0, 3.6)
        ax = figure.subplots()
        for name, colour, label in (
            ("probability", PALETTE[0], "probability of the right value"),
            ("hit", PALETTE[1], "hit rate"),
        ):
            ax.errorbar(
                profile.places,
                profile.profile(name),
                profile.error(name),
                fmt="o-",
                ms=4,
                capsize=2,
                lw=1,
                color=colour,
                label=label,
            )
        ax.axhline(profile.chance, color="0.6", linewidth=0.8)
        ax.annotate("chance", (0.99, profile.chance), color="0.4", va="top", ha="right", fontsize=9)
        ax.set(xlabel="place of the pair in the list", xlim=(0, 1), ylim=(0, None))
        ax.legend(loc="upper center")
    return figure


def draw_influence(found: InfluenceProfile) -> Figure:
    """Influence relative to the mean of a prompt, in bins of positions, with standard errors over prompts."""
    bins = min(24, found.n - APART)
    with look():
        figure = blank(9.0, 3.6)
        for ax, measure in zip(figure.subplots(1, 2), MEASURES, strict=True):
            for depth in found.depths:
                rows = found.rows(measure, depth=depth, bins=bins)
                error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
                ax.errorbar(found.places(bins), rows.mean(axis=0), error, fmt="-", lw=1, label=f"{depth} layers")
            ax.axhline(1.0, color="0.7", lw=0.8)
            ax.set(xlabel="position of the source", title=measure, xlim=(0, 1), yscale="log")
            ax.grid(True)
        figure.axes[0].set_ylabel("influence on the last token / mean")
        figure.axes[1].legend(loc="upper right")
    return figure
