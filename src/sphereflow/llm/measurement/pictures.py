"""Pictures of a measurement: curves against N, maps of layers by heads, sink and regimes, theory beside practice.

Layers and heads are counted from 0, as in the tables and in the names of transformers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sphereflow.llm.heads.bootstrap import document_mean
from sphereflow.llm.heads.regimes import REGIMES
from sphereflow.llm.measurement.heads import SINKS, Heads
from sphereflow.llm.measurement.record import equiangular
from sphereflow.llm.position.keyvalue import KeyValueProfile
from sphereflow.pictures import PALETTE, blank, look

_REGIME_COLOURS = (PALETTE[0], PALETTE[4], PALETTE[1])


def draw_curves(heads: Heads, distance: str = "euclidean") -> Figure:
    """Precision, recall and F against N, with bootstrap bands over documents, beside the random control."""
    with look():
        figure = blank(9.6, 3.2)
        axes = figure.subplots(1, 3, sharey=True)
        names = (("precision", "precision $P_N$"), ("recall", "recall $R_N$"), ("f", "$F_N$"))
        for ax, (metric, title) in zip(axes, names, strict=True):
            for selection, sink, style, colour in (
                ("attention", SINKS[0], "-o", PALETTE[0]),
                ("attention", SINKS[1], "--s", PALETTE[5]),
                ("random", SINKS[0], ":^", PALETTE[1]),
            ):
                found = document_mean(heads.by_document(metric, selection, sink, distance))
                label = "random control" if selection == "random" else f"attention, {sink}"
                ax.plot(heads.sizes, found.value, style, color=colour, label=label)
                ax.fill_between(heads.sizes, found.low, found.high, color=colour, alpha=0.2, linewidth=0)
            ax.set(xscale="log", xlabel="selected tokens $N$", title=title, ylim=(0, 1.03), xticks=heads.sizes[::2])
            ax.set_xticklabels([str(n) for n in heads.sizes[::2]])
            ax.minorticks_off()
            ax.grid(True)
        axes[2].legend(loc="upper right")
    return figure


def draw_maps(heads: Heads) -> Figure:
    """Six numbers of every head: layers downwards, heads across."""
    four = heads.sizes.index(4) if 4 in heads.sizes else -1
    panels = (
        ("$F_4$, attention", heads.curve("f").mean(axis=0)[..., four], (0, 1), "viridis"),
        ("$F_4$, random control", heads.curve("f", "random").mean(axis=0)[..., four], (0, 1), "viridis"),
        ("weight on the sink", heads.mean_feature("sink_mass"), (0, 1), "viridis"),
        ("length of the sink value, / median", heads.mean_feature("compression"), (0, 2), "cividis"),
        ("cosine of sink and $s_4$", heads.mean_feature("sink_cosine"), (-1, 1), "RdBu_r"),
        ("$\\log_2$ effective number", np.log2(heads.mean_feature("effective_number")), (0, None), "magma"),
    )
    with look():
        figure = blank(9.6, 6.4)
        for ax, (title, values, (low, high), colours) in zip(figure.subplots(2, 3).ravel(), panels, strict=True):
            image = _map(ax, values, title, vmin=low, vmax=high, cmap=colours)
            figure.colorbar(image, ax=ax, shrink=0.85)
    return figure


def draw_sink(heads: Heads) -> Figure:
    """Sink cosine against recall over heads, and the regimes by depth."""
    kinds = heads.regimes
    with look():
        figure = blank(9.6, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        x, y = heads.mean_feature("sink_cosine"), heads.mean_feature("recall4")
        for k, name in enumerate(REGIMES):
            at = kinds == k
            left.scatter(x[at], y[at], s=14, color=_REGIME_COLOURS[k], alpha=0.75, linewidth=0, label=name)
        left.set(xlabel="cosine of sink and selected sum $s_4$", ylabel="recall $R_4$", ylim=(-0.02, 1.04))
        left.legend(loc="lower right", handletextpad=0.1)
        left.grid(True)
        counts = np.array([np.bincount(row, minlength=3) for row in kinds]) / heads.heads
        bottom = np.zeros(heads.layers)
        for k, name in enumerate(REGIMES):
            right.bar(range(heads.layers), counts[:, k], 0.9, bottom=bottom, color=_REGIME_COLOURS[k], label=name)
            bottom += counts[:, k]
        right.set(xlabel="layer", ylabel="share of heads", ylim=(0, 1), xlim=(-0.6, heads.layers - 0.4))
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def draw_regimes(heads: Heads) -> Figure:
    """Which head is what."""
    with look():
        figure = blank(4.4, 4.4)
        ax = figure.subplots()
        image = _map(ax, heads.regimes, "regime", vmin=-0.5, vmax=2.5, cmap=ListedColormap(_REGIME_COLOURS))
        bar = figure.colorbar(image, ax=ax, ticks=(0, 1, 2))
        bar.ax.set_yticklabels(REGIMES)
    return figure


def draw_theory(heads: Heads) -> Figure:
    """The particle picture layer by layer: cosines, collapse, clusters, effective beta, alignment, entropy."""
    depth, layers = np.arange(heads.layers + 1), np.arange(heads.layers)
    with look():
        figure = blank(9.6, 6.2)
        axes = figure.subplots(2, 3)
        density = heads.by_depth("histogram").mean(axis=0).T
        axes[0, 0].imshow(
            density / density.max(axis=0),
            aspect="auto",
            origin="lower",
            extent=(-0.5, depth[-1] + 0.5, -1, 1),
            cmap="Blues",
        )
        axes[0, 0].set(xlabel="depth", ylabel="cosine of two tokens", title="pairwise cosines")
        measured, predicted = heads.by_depth("mean_cosine").mean(axis=0), equiangular(heads)
        axes[0, 1].plot(depth, measured, "-o", label="model")
        axes[0, 1].plot(depth, predicted, "--", color=PALETTE[1], label="equiangular theory")
        axes[0, 1].set(xlabel="depth", ylabel="mean cosine", ylim=(min(0, measured.min()), 1.03), title="collapse")
        axes[0, 1].legend(loc="lower right")
        clusters = heads.by_depth("clusters").mean(axis=0)
        ranks = heads.by_depth("participation").mean(axis=0)
        axes[0, 2].semilogy(depth, clusters, "-o", label="clusters at cosine 0.9")
        axes[0, 2].semilogy(depth, ranks, "--s", color=PALETTE[2], label="participation ratio")
        axes[0, 2].set(xlabel="depth", ylim=(0.9, None), title="clusters and rank")
        axes[0, 2].legend(loc="center right")
        for ax, name, title, label in (
            (axes[1, 0], "beta", "inverse temperature", "effective $\\beta$"),
            (axes[1, 1], "alignment", "do cosines explain logits?", "correlation $r$"),
            (axes[1, 2], "entropy", "entropy of attention", "entropy / log of visible tokens"),
        ):
            values = heads.by_head(name).mean(axis=0)
            ax.plot(layers, values, ".", color="0.6", markersize=3)
            ax.plot(layers, np.median(values, axis=1), "-", color=PALETTE[0])
            ax.set(xlabel="layer", ylabel=label, title=title)
            ax.grid(True)
        axes[1, 0].set_ylim(0, None)
        axes[1, 1].set_ylim(-1, 1)
        axes[1, 2].set_ylim(0, 1)
    return figure


def draw_retrieval(profile: KeyValueProfile, theory: np.ndarray, label: str) -> Figure:
    """The key-value task by place, beside a curve of theory."""
    with look():
        figure = blank(5.6, 3.4)
        ax = figure.subplots()
        means = profile.profile()
        ax.errorbar(profile.places, means, yerr=profile.error(), fmt="o", capsize=2, label="model, with standard error")
        ax.plot(profile.places, theory, "--", color=PALETTE[1], label=label)
        ax.axhline(profile.chance, color="0.6", linewidth=0.8)
        ax.annotate("chance", (0.99, profile.chance), color="0.4", va="top", ha="right", fontsize=9)
        ax.set(
            xlabel="place of the pair in the list", ylabel="probability of the right value", xlim=(0, 1), ylim=(0, None)
        )
        ax.legend(loc="upper center")
    return figure


def _map(ax: Axes, values: np.ndarray, title: str, **look: Any) -> Any:
    image = ax.imshow(values, aspect="auto", interpolation="nearest", **look)
    ax.set(title=title, xlabel="head", ylabel="layer")
    ax.set_yticks(range(0, values.shape[0], max(1, values.shape[0] // 6)))
    ax.set_xticks(range(0, values.shape[1], max(1, values.shape[1] // 4)))
    ax.spines[:].set_visible(False)
    return image
