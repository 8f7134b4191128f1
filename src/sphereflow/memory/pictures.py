"""The phase diagram as a picture: regions, named lines, kinetic crossovers, escape times, and Monte Carlo beside it."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sphereflow.memory.boundaries import RetrievalBoundary
from sphereflow.memory.monte_carlo import MonteCarloSweep
from sphereflow.memory.phases import REGIONS, PhaseDiagram
from sphereflow.memory.recall import Recall
from sphereflow.pictures import PALETTE, blank, look

_SHADES = {"lse": ("#ffffff", "#dfe9f3", "#b5d0e8", "#86b3d9"), "lsr": ("#ffffff", "#dcefe2", "#a8d5b8")}
_SYMBOL = {"lse": r"\beta", "lsr": "b"}
_KERNEL = {"lse": "Gaussian kernel (LSE)", "lsr": "compact kernel (LSR)"}


def draw(diagram: PhaseDiagram, sweep: MonteCarloSweep | None = None) -> Figure:
    """Left: regions, lines and crossovers. Right: escape times of the largest size, or the Monte Carlo sweep."""
    with look():
        figure = blank(11.5, 6.4)
        left, right = figure.subplots(1, 2, sharey=True)
        handles = regions(left, diagram)
        if sweep is None:
            escape_map(right, diagram, diagram.sizes[-1])
        else:
            monte_carlo(right, diagram, sweep)
        title = f"{_KERNEL[diagram.kernel]}, ${_SYMBOL[diagram.kernel]}={diagram.sharpness:.5g}$"
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)
        figure.suptitle(f"{title}. Dotted curves are kinetic: they move with $N$ and with the time.", fontsize=10)
    return figure


def regions(axes: Axes, diagram: PhaseDiagram) -> list[Artist]:
    """Draws them and returns what a legend needs."""
    names, shades = REGIONS[diagram.kernel], _SHADES[diagram.kernel]
    axes.pcolormesh(
        diagram.loads,
        diagram.temperatures,
        diagram.region,
        cmap=ListedColormap(shades),
        vmin=-0.5,
        vmax=len(shades) - 0.5,
        shading="nearest",
        rasterized=True,
    )
    handles: list[Artist] = [
        Patch(facecolor=s, edgecolor="0.6", lw=0.5, label=n) for n, s in zip(names, shades, strict=True)
    ]
    shown = [line for line in diagram.lines if "N=" not in line.name]
    for index, line in enumerate(shown):
        colour = PALETTE[index % len(PALETTE)]
        style = "--" if line.layer == "gaussian" else "-"
        handles += axes.plot(
            line.loads, line.temperatures, style, color=colour, lw=1.4, label=_name(line.name, line.layer)
        )
    for index, n in enumerate(diagram.sizes):
        label = f"escape time {diagram.duration:g} at $N={n}$ (kinetic)"
        handles += axes.plot(
            diagram.crossover(n), diagram.temperatures, ":", color=str(0.55 - 0.2 * index), lw=1.8, label=label
        )
    _frame(axes, diagram)
    axes.set_title("regions (spherical layer) and lines")
    return handles


def escape_map(axes: Axes, diagram: PhaseDiagram, n: int) -> None:
    """Decades of the escape time at size n, over the plane."""
    decades = np.clip(diagram.log_escape[n] / np.log(10), 0, 20)
    mesh = axes.pcolormesh(
        diagram.loads,
        diagram.temperatures,
        decades,
        cmap="viridis",
        vmin=0,
        vmax=20,
        shading="nearest",
        rasterized=True,
    )
    curves = axes.contour(
        diagram.loads, diagram.temperatures, decades, levels=[1, 3, 6, 10, 15], colors="white", linewidths=0.8
    )
    axes.clabel(curves, fmt=lambda v: f"$10^{{{v:g}}}$", fontsize=8)
    axes.figure.colorbar(
        mesh, ax=axes, label=r"$\log_{10}\tau$" + ("" if diagram.kernel == "lse" else ", exponential rate only")
    )
    _frame(axes, diagram)
    axes.set_title(f"escape time at $N={n}$")


def draw_sweep(sweep: MonteCarloSweep) -> Figure:
    """The sampled overlaps alone."""
    with look():
        figure = blank(6.0, 4.2)
        axes = figure.add_subplot()
        _dots(axes, sweep)
        axes.set(xlabel=r"load $\alpha=\ln M/N$", ylabel="$T$")
        axes.set_title(f"{_KERNEL[sweep.kernel]}, ${_SYMBOL[sweep.kernel]}={sweep.sharpness:.5g}$")
    return figure


def draw_recall(found: Recall) -> Figure:
    """Confidence and overlap with the nearest pattern, query by query."""
    with look():
        figure = blank(6.0, 3.4)
        axes = figure.add_subplot()
        for name, marker, colour in (("confidence", "o", PALETTE[0]), ("overlap", "s", PALETTE[1])):
            axes.plot(np.atleast_1d(getattr(found, name)), marker, color=colour, ms=4, label=name)
        axes.set(xlabel="query", ylim=(-0.05, 1.05))
        axes.legend()
    return figure


def draw_boundary(found: RetrievalBoundary) -> Figure:
    """Loads against 1/N with error bars, their limit at 1/N = 0, and the exact line."""
    with look():
        figure = blank(5.6, 3.6)
        axes = figure.add_subplot()
        axes.errorbar(
            1 / found.sizes, found.load.value, found.load.error, fmt="o", ms=4, capsize=2, label="finite sizes"
        )
        axes.errorbar(
            0, found.limit.value, found.limit.error, fmt="s", ms=5, capsize=2, color=PALETTE[1], label="their limit"
        )
        axes.axhline(found.line, color="0.4", lw=0.9, ls="--", label="exact line")
        axes.set(
            xlabel="$1/N$", ylabel=r"load $\alpha=\ln M/N$", title=f"{_KERNEL[found.kernel]}, $T={found.temperature:g}$"
        )
        axes.legend(fontsize=8)
    return figure


def _dots(axes: Axes, sweep: MonteCarloSweep) -> None:
    """Sampled overlaps as dots over the plane."""
    mesh = axes.scatter(
        np.repeat(sweep.loads[None], len(sweep.temperatures), axis=0),
        np.repeat(sweep.temperatures[:, None], len(sweep.loads), axis=1),
        c=sweep.overlap,
        cmap="viridis",
        vmin=0,
        vmax=1,
        s=70,
        marker="s",
        edgecolor="none",
    )
    axes.figure.colorbar(mesh, ax=axes, label=r"mean overlap with the target, $\langle\phi\rangle$")


def monte_carlo(axes: Axes, diagram: PhaseDiagram, sweep: MonteCarloSweep) -> None:
    """Sampled overlaps over the plane, with the lines that matter."""
    _dots(axes, sweep)
    for line in diagram.lines:
        if line.name in ("spinodal", "static line", "threshold", "absolute stability"):
            style = "-" if line.name in ("spinodal", "threshold") else "--"
            axes.plot(line.loads, line.temperatures, color="0.2", lw=1.1, ls=style, label=line.name)
    _frame(axes, diagram)
    axes.set_xlim(0, max(diagram.loads[-1], sweep.loads[-1] + 0.03))
    solid, dashed = ("spinodal", "static line") if diagram.kernel == "lse" else ("threshold", "absolute stability")
    sizes = f"$M={sweep.patterns}$, $N={sweep.sizes.max()}$ to ${sweep.sizes.min()}$, {sweep.steps} moves"
    axes.set_title(f"Monte Carlo: {sizes}\nsolid: {solid}; dashed: {dashed}", fontsize=9)


def _name(name: str, layer: str) -> str:
    return f"{name} (Gaussian layer)" if layer == "gaussian" and "gaussian" not in name else name


def _frame(axes: Axes, diagram: PhaseDiagram) -> None:
    axes.set(
        xlim=(0, diagram.loads[-1]), ylim=(0, diagram.temperatures[-1]), xlabel=r"load $\alpha=\ln M/N$", ylabel="$T$"
    )
