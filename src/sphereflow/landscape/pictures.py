"""Pictures of critical points: the potential, the first variation above its minimum, and the atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from sphereflow.pictures import PALETTE, blank, look, styled_figure

if TYPE_CHECKING:
    from sphereflow.landscape.critical import CriticalPoints
    from sphereflow.landscape.result import CriticalPoint

_POINTS = 1441


def draw(result: CriticalPoint) -> Figure:
    """Curves over the angle on the circle and for rings, a map of the sphere on S^2."""
    with look():
        if result.problem.d > 2 and not result.rings:
            return _map(result)
        figure = blank(6.4, 4.8)
        potential, variation = figure.subplots(2, 1, sharex=True)
        curves(result, potential, variation)
        figure.suptitle(_title(result), fontsize=10)
    return figure


def curves(result: CriticalPoint, top: Axes, low: Axes) -> None:
    """The two panels: v/2 with the atoms as stems of their mass, and g - lambda, which vanishes at the atoms."""
    if result.rings:
        angle = np.union1d(np.linspace(0, np.pi, _POINTS), result.angles)
        points, label = angle[:, None], r"polar angle $\varphi$"
        ticks, names = [0, np.pi / 2, np.pi], ["0", r"$\pi/2$", r"$\pi$"]
    else:
        # The atoms are among the points, so that every contact is drawn down to the floor.
        angle = np.union1d(np.linspace(0, 2 * np.pi, _POINTS), result.angles)
        points, label = np.stack([np.cos(angle), np.sin(angle)], axis=1), r"$\theta$"
        ticks = [0, np.pi / 2, np.pi, 1.5 * np.pi, 2 * np.pi]
        names = ["0", r"$\pi/2$", r"$\pi$", r"$3\pi/2$", r"$2\pi$"]
    top.plot(angle, result.problem.factor * result.space.half_potential(points).value, color=PALETTE[0])
    top.set_ylabel(r"$v/2$", color=PALETTE[0])
    mass = top.twinx()
    mass.vlines(result.angles, 0, result.masses, color=PALETTE[1], lw=1.2)
    mass.plot(result.angles, result.masses, "o", color=PALETTE[1], ms=4)
    mass.set_ylim(0, 1.15 * result.masses.max())
    mass.set_ylabel("mass", color=PALETTE[1])
    mass.spines["right"].set_visible(True)
    minimised = result.sign == "minimise"
    above = (result.first_variation(points) - result.multiplier) * (1 if minimised else -1)
    floor = max(1e-8 * float(np.abs(above).max()), 1e-14 * result.problem.factor)
    low.semilogy(angle, np.maximum(above, floor), color="black")
    low.plot(result.angles, np.full(len(result), floor), "o", color=PALETTE[1], ms=4, clip_on=False, zorder=3)
    low.set(xlabel=label, ylabel=r"$g-\lambda$" if minimised else r"$\lambda-g$", xlim=(angle[0], angle[-1]))
    low.set_ylim(floor, None)
    low.set_xticks(ticks, names)


def _map(result: CriticalPoint) -> Figure:
    """g - lambda over longitude and latitude, with the atoms as discs of their mass; d = 3."""
    figure = blank(6.8, 3.6)
    axes = figure.add_subplot(projection="mollweide")
    points = result.points
    if result.problem.d == 3:
        longitude, latitude = np.meshgrid(np.linspace(-np.pi, np.pi, 241), np.linspace(-np.pi / 2, np.pi / 2, 121))
        flat = np.stack(
            [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=-1
        )
        gap = result.first_variation(flat.reshape(-1, 3)).reshape(longitude.shape) - result.multiplier
        above = np.abs(gap)
        scale = LogNorm(max(1e-6 * float(above.max()), 1e-14), max(float(above.max()), 1e-13), clip=True)
        shown = axes.pcolormesh(longitude, latitude, above, norm=scale, shading="gouraud", rasterized=True)
        figure.colorbar(shown, ax=axes, shrink=0.75, label=r"$|g-\lambda|$")
        axes.scatter(
            np.arctan2(points[:, 1], points[:, 0]),
            np.arcsin(np.clip(points[:, 2], -1, 1)),
            s=400 * result.masses,
            color=PALETTE[1],
            edgecolor="white",
            lw=0.7,
            zorder=3,
        )
    axes.set_xticklabels([])
    axes.set_yticklabels([])
    axes.grid(True, color="white", lw=0.3, alpha=0.6)
    axes.set_title(_title(result), fontsize=10, pad=12)
    return figure


def _title(result: CriticalPoint) -> str:
    problem = result.problem
    neurons = f"{problem.neurons} neuron{'s' * (problem.neurons != 1)}"
    return (
        rf"{problem.activation}, {neurons}, $\beta={problem.beta:g}$ ({problem.kernel_scale}): "
        rf"$E={result.energy:.8g}$, gap {result.gap:.0e}"
    )


def draw_critical_points(result: CriticalPoints) -> Figure:
    """Atoms of each stationary measure against its energy: by angle on the circle, by first coordinate elsewhere."""
    with styled_figure(6.4, 3.6) as figure:
        axes = figure.subplots()
        circle = result.problem.d == 2
        across = result.angles if circle else result.points[..., 0]
        for index in np.unique(result.index):
            chosen = result.index == index
            energies = np.repeat(result.energy[chosen, None], across.shape[1], axis=1)
            colour = PALETTE[int(index) % len(PALETTE)]
            axes.plot(across[chosen].T, energies.T, "-", color=colour, lw=0.6)
            axes.plot(across[chosen].ravel(), energies.ravel(), "o", color=colour, ms=4, label=f"index {index}")
        axes.set(xlabel=r"$\theta$" if circle else r"$x_1$", ylabel=r"$\mathsf{E}$")
        if len(result):
            axes.legend(fontsize=8)
    return figure
