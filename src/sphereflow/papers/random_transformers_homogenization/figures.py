"""The pictures: collapse and its delay, Gram matrices along depth, orders in the step, regimes, slow motion."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.papers.random_transformers_homogenization import PAPER, orders
from sphereflow.papers.random_transformers_homogenization.collapse import GRID, START, N, network_path
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.random_transformers.equiangular import overlap_path
from sphereflow.random_transformers.low_temperature_pairs import cold_pairs
from sphereflow.random_transformers.time_scales import clock


@PAPER.figure(
    "collapse",
    caption="Left: mean overlap of 8 equiangular tokens in networks (dots, d = 32, 400 networks) and the equation of "
    "dimension d (lines), for two temperatures, with the published drift dotted. Right: collapse of n tokens from "
    "overlap zero with flat attention (dashed) and with hard attention (solid): the cold network is slower.",
    shows=("simplex-equation", "logistic-collapse", "networks-follow-the-simplex"),
)
def collapse(run: Run) -> Figure:
    with look():
        figure = blank(8.4, 3.4)
        left, right = figure.subplots(1, 2)
        fine = np.linspace(0, 4, 81)
        for colour, s in zip(PALETTE, (0.2, 20.0), strict=False):
            seen = network_path(32, 0.2, 1, s, 400, run.seed).overlap
            left.plot(fine, overlap_path(fine, N, s, 32, START), color=colour, label=f"$s={s:g}$")
            left.errorbar(GRID, seen.value, yerr=3 * seen.error, fmt="o", color=colour, capsize=2)
        left.plot(fine, overlap_path(fine, N, 0.2, math.inf, START), color="0.5", ls=":", label=r"$d=\infty$, $s=0.2$")
        left.set(xlabel=r"$\tau=\eta^2L/H$", ylabel="mean overlap", ylim=(0, 1))
        left.legend(loc="lower right")
        wide = np.linspace(0, 36, 145)
        for colour, n in zip(PALETTE, (8, 32, 128), strict=False):
            right.plot(wide, overlap_path(wide, n, math.inf), color=colour, label=f"$n={n}$")
            right.plot(wide, overlap_path(wide, n, 0.0), color=colour, ls="--", lw=1)
        right.set(xlabel=r"$\tau$", ylabel=r"overlap $\gamma$", ylim=(0, 1))
        right.legend(loc="lower right")
    return figure


@PAPER.figure(
    "gram-matrices",
    caption="Gram matrix of 8 tokens in one network (d = 32, s = 0.2) along depth: all entries drift to one together.",
    shows=("networks-follow-the-simplex",),
)
def gram_matrices(run: Run) -> Figure:
    with look():
        figure = blank(8.4, 2.3)
        axes = figure.subplots(1, 5)
        seen = network_path(32, 0.2, 1, 0.2, 400, run.seed).gram
        for axis, k in zip(axes, (0, 2, 4, 6, 8), strict=True):
            image = axis.imshow(seen[k], vmin=-1, vmax=1, cmap="RdBu_r")
            axis.set(title=rf"$\tau={GRID[k]:g}$", xticks=[], yticks=[])
        figure.colorbar(image, ax=axes, shrink=0.8, label="overlap")
    return figure


@PAPER.figure(
    "weak-error",
    caption="Difference between the mean of the squared centre in the network and in its limits at t = 1, against the "
    "step, with three standard errors: first order for the plain equation, second for the modified one.",
    shows=("weak-order", "modified-equation"),
)
def weak_error(run: Run) -> Figure:
    steps, networks = orders.sizes(run)
    found = orders.weak_errors(steps, networks, run.seed)
    with look():
        figure = blank(4.6, 3.4)
        axis = figure.subplots()
        eta = np.array(steps)
        for colour, (name, power) in zip(PALETTE, (("plain", 1), ("modified", 2)), strict=False):
            size, bar = np.abs(found[name].value), found[name].error
            axis.errorbar(eta, size, yerr=3 * bar, fmt="o", color=colour, capsize=2, label=f"{name} equation")
            axis.plot(eta, size[0] * (eta / eta[0]) ** power, color=colour, lw=0.8, ls="--", label=f"slope {power}")
        axis.set(xscale="log", yscale="log", xlabel=r"step $\eta$", ylabel="weak error")
        axis.set_xticks(eta, [f"{e:g}" for e in eta])
        axis.minorticks_off()
        axis.legend()
    return figure


@PAPER.figure(
    "regimes",
    caption="Which limit describes a network of 1000 layers (d = 64): by the size of eta^3 L, of all the noise "
    "(alpha eta L) and of eta^2 L, each compared with 0.1.",
)
def regimes(run: Run) -> Figure:
    names = ("ballistic", "modified", "diffusive", "outside")
    steps, heads = np.logspace(-3.5, -0.5, 121), np.logspace(0, 3, 61)
    table = np.array(
        [[names.index(clock(64, 1000, max(1, round(h)), float(e)).regime) for e in steps] for h in heads], dtype=float
    )
    with look():
        figure = blank(4.8, 3.4)
        axis = figure.subplots()
        axis.contourf(
            steps, heads, table, levels=[-0.5, 0.5, 1.5, 2.5, 3.5], colors=("#dbe9f6", "#9ecae1", "#fdd0a2", "#eeeeee")
        )
        axis.set(xscale="log", yscale="log", xlabel=r"step $\eta$", ylabel="heads $H$")
        places = {
            "ballistic": (1.2e-3, 30),
            "modified": (0.0215, 300),
            "diffusive": (0.0215, 2.0),
            "outside": (0.12, 30),
        }
        for name, (x, y) in places.items():
            axis.text(x, y, name, ha="center", va="center")
    return figure


@PAPER.figure(
    "slow-motion-paths",
    caption="artanh of the overlap of two tokens in a cold network with a diffuse cloud (d = 16), on the clock "
    "theta = tau/d. Orthogonal weights: the pair aligns up to sign. Product weights: a Brownian motion that keeps "
    "returning. Dashed: slope 2 - a.",
    shows=("slow-motion", "aligned-up-to-sign"),
)
def slow_motion(run: Run) -> Figure:
    d, layers, paths = 16, 1600, 12
    with look():
        figure = blank(8.4, 3.0)
        axes = figure.subplots(1, 3, sharey=True)
        for axis, factors, name in zip(axes, range(3), ("orthogonal", "one Gaussian", "product"), strict=True):
            seen = cold_pairs(d, factors, 0.0, 0.2, layers, paths, every=8, seed=run.seed)
            theta = seen.times / d
            axis.plot(theta, seen.artanh.T, lw=0.7, color=PALETTE[factors], alpha=0.7)
            slope = 1 - factors / 2
            for sign in (1, -1):
                axis.plot(theta, sign * slope * theta, color="0.3", ls="--", lw=0.8)
            axis.set(title=rf"{name}, $a={1 + factors / 2:g}$", xlabel=r"$\theta$")
        axes[0].set_ylabel(r"$\mathrm{artanh}\,r$")
    return figure
