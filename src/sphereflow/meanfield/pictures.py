"""Pictures of densities: curves at a few times, paths of the quantiles, tokens beside their density."""

from __future__ import annotations

import contextlib

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError
from sphereflow.meanfield.comparison import Comparison
from sphereflow.meanfield.concentrating import ConcentratingLaw
from sphereflow.meanfield.density_flow import DensityFlow
from sphereflow.meanfield.eulerian import EulerianFlow
from sphereflow.meanfield.zonal import ZonalFlow
from sphereflow.pictures import PALETTE, styled_figure

_CURVES = 5
_PATHS = 40


def _few(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(_CURVES, count)).round().astype(int))


def _angle_axis(axes: Axes) -> None:
    axes.set(xlim=(-np.pi, np.pi), xlabel=r"$\theta$")
    axes.set_xticks([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], [r"$-\pi$", r"$-\pi/2$", "0", r"$\pi/2$", r"$\pi$"])


def _scale(axes: Axes, highest: float) -> None:
    """A logarithmic axis once the density has peaked."""
    if highest > 20:
        axes.set(yscale="log", ylim=(1e-3, 2 * highest))
    else:
        axes.set_ylim(bottom=0)


def plot_density(flow: DensityFlow) -> Figure:
    """Left: the density at five times. Right: quantiles against time, each between equal masses."""
    theta = np.linspace(-np.pi, np.pi, 1200)
    shown = _few(len(flow.ts))
    with styled_figure(9.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        for index, colour in zip(shown, PALETTE, strict=False):
            left.plot(theta, flow.density(theta, int(index)), color=colour, label=f"$t={flow.ts[index]:.3g}$")
        left.set_ylabel(r"$\rho$ with respect to $d\theta/2\pi$")
        _scale(left, float(flow.node_density[shown].max()))
        _angle_axis(left)
        left.legend()
        masses = (np.arange(_PATHS) + 0.5) / _PATHS
        paths = np.array([flow.quantiles(masses, i) for i in range(len(flow.ts))])
        right.plot(flow.ts, paths, color=PALETTE[0], lw=0.7)
        right.set(xlabel="$t$", ylabel=r"$\Theta(m,t)$", title=rf"$\beta={flow.beta:g}$, {flow.nodes} nodes")
    return figure


def plot_eulerian(flow: EulerianFlow) -> Figure:
    """The density at five times."""
    with styled_figure(6.0, 3.6) as figure:
        axes = figure.subplots()
        for index, colour in zip(_few(len(flow.ts)), PALETTE, strict=False):
            closed = np.append(flow.values[index], flow.values[index][0])
            axes.plot(np.append(flow.theta, np.pi), closed, color=colour, label=f"$t={flow.ts[index]:.3g}$")
        axes.set_ylabel(r"$\rho$ with respect to $d\theta/2\pi$")
        _scale(axes, float(flow.values.max()))
        _angle_axis(axes)
        axes.legend()
    return figure


def plot_zonal(flow: ZonalFlow) -> Figure:
    """Heights of the shells against time; heavier shells are drawn darker."""
    strength = 0.15 + 0.85 * flow.masses / flow.masses.max()
    with styled_figure(6.0, 3.6) as figure:
        axes = figure.subplots()
        for height, alpha in zip(flow.heights.T, strength, strict=True):
            axes.plot(flow.ts, height, color=PALETTE[0], alpha=float(alpha), lw=1)
        axes.set(xlabel="$t$", ylabel=r"$\langle x,e\rangle$", ylim=(-1.02, 1.02))
        axes.set_title(rf"$d={flow.d}$, $\beta={flow.beta:g}$")
    return figure


def plot_comparison(both: Comparison) -> Figure:
    """Left: density and histogram of the tokens at the last time. Right: their distance against time."""
    theta = np.linspace(-np.pi, np.pi, 1200)
    bins = int(np.clip(np.sqrt(both.n), 20, 360))
    with styled_figure(9.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        counts, edges = np.histogram(both.angles(), bins=bins, range=(-np.pi, np.pi))
        left.stairs(counts * bins / both.n, edges, fill=True, color=PALETTE[5], alpha=0.6, label=f"{both.n:,} tokens")
        left.plot(theta, both.flow.density(theta), color=PALETTE[1], label="mean field")
        left.set(ylabel=r"$\rho$ with respect to $d\theta/2\pi$", title=f"$t={both.ts[-1]:g}$")
        _scale(left, float(both.flow.node_density[-1].max()))
        _angle_axis(left)
        left.legend()
        right.plot(both.ts, both.distance, "o-", color=PALETTE[0])
        right.set(xlabel="$t$", ylabel=r"$W_2$", ylim=(0, None))
    return figure


def plot_concentrating(flow: ConcentratingLaw) -> Figure:
    """Distances to the push-forward and to the leading eigenspace of V, on a logarithmic axis against time."""
    with styled_figure(6.4, 3.8) as figure:
        axes = figure.subplots()
        for k, p in enumerate((1, 2)):
            axes.semilogy(flow.ts, flow.wasserstein(p), color=PALETTE[k], label=rf"$W_{p}$ to $\Pi_\#\mu_0$")
        with contextlib.suppress(SphereflowError):  # a V that turns the clusters has no leading space
            axes.semilogy(flow.ts, flow.top_distance(), color=PALETTE[2], ls="--", label="to the leading space of $V$")
        axes.set(xlabel="$t$", ylabel="distance")
        axes.legend()
    return figure
