"""The paper's pictures of the surrogate: phase portrait, cobwebs, bifurcation, friction; and fields in the plane."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.drifting import Friction, PopulationField, spurious_scale, surrogate_field
from sphereflow.drifting.friction import gain_bound, restoring_bound
from sphereflow.drifting.surrogate import attractor
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.estimators import cloud_radius
from sphereflow.pictures import PALETTE, blank, look


@PAPER.figure(
    "phase-portrait",
    caption="Left: drift of two particles at distance a from their target; repulsive up to the marked roots. Right: "
    "where the iteration ends against the step size: at the root, and beyond 4/ln 2 on cycles and worse.",
    shows=("contraction-threshold", "spurious-limit"),
)
def phase_portrait(run: Run) -> Figure:
    with look():
        figure = blank(8.4, 3.6)
        left, right = figure.subplots(1, 2)
        a = np.linspace(0, 4, 300)
        for colour, kernel in zip(PALETTE, ("laplace", "gaussian"), strict=False):
            root = spurious_scale(kernel)
            left.plot(a, surrogate_field(a, kernel), color=colour, label=f"{kernel.capitalize()}, root {root:.4f}")
            left.plot([root], [0], "o", color=colour)
        left.axhline(0, color="0.7", lw=0.8)
        left.set(xlabel=r"distance to the target $a/\tau$", ylabel=r"$V(a)/\tau$", xlim=(0, 4))
        left.legend()
        steps = np.linspace(0.05, 12, 600)
        seen = attractor(steps, visited=80, discarded=1000)
        right.plot(
            np.repeat(steps[None], len(seen), axis=0).ravel(), seen.ravel(), ",", color=PALETTE[0], rasterized=True
        )
        right.axvline(4 / np.log(2), color="0.6", lw=0.8, ls="--")
        right.set(xlabel=r"step $\eta$", ylabel=r"visited $a/\tau$", xlim=(0, 12), ylim=(0, None))
    return figure


@PAPER.figure(
    "cobwebs",
    caption="The map a to a + eta V(a): monotone, oscillating, and a cycle of two, from the start 0.05.",
    shows=("contraction-threshold",),
)
def cobwebs(run: Run) -> Figure:
    with look():
        figure = blank(9.0, 3.2)
        for axes, step in zip(figure.subplots(1, 3, sharey=True), (1.0, 4.0, 6.0), strict=True):
            a = np.linspace(0, 1.3, 200)
            axes.plot(a, a + step * surrogate_field(a), color=PALETTE[0])
            axes.plot(a, a, color="0.6", lw=0.8)
            at, corners = 0.05, [(0.05, 0.0)]
            for _ in range(40):
                after = float(at + step * surrogate_field(at))
                corners += [(at, after), (after, after)]
                at = after
            axes.plot(*zip(*corners, strict=True), color=PALETTE[1], lw=0.8)
            axes.set(xlabel=r"$a_t/\tau$", title=rf"$\eta={step:g}$", xlim=(0, 1.3), ylim=(0, 1.3))
        figure.axes[0].set_ylabel(r"$a_{t+1}/\tau$")
    return figure


@PAPER.figure(
    "friction-modes",
    caption="Distance to the target over a horizon of 60 steps of size 1 with friction growing from 0 to 1 "
    "(restoring: to 3, step 0.3), from four starts. Dashed: the proven bounds for the start 0.3.",
    shows=("finite-horizon-bound", "certain-decay"),
)
def friction_modes(run: Run) -> Figure:
    starts = np.array([0.05, 0.3, 1.0, 3.0])
    cases = (("none", 1.0, 1.0), ("gain", 1.0, 1.0), ("restoring", 3.0, 0.3), ("viscous", 1.0, 1.0))
    with look():
        figure = blank(9.6, 3.0)
        for axes, (mode, end, step) in zip(figure.subplots(1, 4, sharey=True), cases, strict=True):
            friction = Friction(mode, 0.0, end, 60)
            path = friction.follow(starts, surrogate_field, step)
            for colour, column in zip(PALETTE, path.T, strict=False):
                axes.plot(column, color=colour, lw=1.1)
            if mode == "gain":
                axes.axhline(float(gain_bound(0.3, step)), color=PALETTE[1], ls="--", lw=0.9)
            if mode == "restoring":
                axes.plot(restoring_bound(0.3, step, friction), color=PALETTE[1], ls="--", lw=0.9)
            axes.axhline(np.log(2), color="0.7", lw=0.8, zorder=0)
            axes.set(title=mode, xlabel="step", ylim=(-0.6, 3.1))
        figure.axes[0].set_ylabel(r"$a/\tau$")
    return figure


@PAPER.figure(
    "fields",
    caption="The drift of a cloud of 30 points (orange) towards data on a ring (grey), for the three policies: with "
    "itself included, masked, and the masked field of a cloud that has matched the data. Colour: speed.",
    shows=("product-form",),
)
def fields(run: Run) -> Figure:
    rng = np.random.default_rng(run.seed)
    turn = rng.uniform(0, 2 * np.pi, 200)
    data = np.stack([np.cos(turn), np.sin(turn)], axis=1) + 0.05 * rng.normal(size=(200, 2))
    cloud = 0.25 * rng.normal(size=(30, 2)) + [0.3, 0.1]
    matched = data[rng.choice(200, 30, replace=False)] + 0.05 * rng.normal(size=(30, 2))
    with look():
        figure = blank(9.0, 3.3)
        panels = (("itself included", cloud, False), ("masked", cloud, True), ("matched, masked", matched, True))
        for axes, (title, samples, masked) in zip(figure.subplots(1, 3, sharey=True), panels, strict=True):
            _quiver(axes, data, samples, masked)
            axes.set(title=title, aspect="equal", xlabel="$x_1$")
        figure.axes[0].set_ylabel("$x_2$")
    return figure


def _quiver(axes: Axes, data: np.ndarray, samples: np.ndarray, masked: bool) -> None:
    side = np.linspace(-1.5, 1.5, 17)
    places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    given = jnp.asarray(data), jnp.asarray(samples)
    everywhere = jnp.asarray(np.concatenate([places, samples]))
    seen = np.asarray(PopulationField("laplace", 0.3, itself="include").at(everywhere, *given).value)
    value, moved = seen[: len(places)], seen[len(places) :]
    if masked:
        moved = np.asarray(PopulationField("laplace", 0.3, itself="mask")(*given).value)
    speed = np.linalg.norm(value, axis=1)
    axes.plot(*data.T, ".", color="0.8", ms=2)
    axes.quiver(*places.T, *(value / np.maximum(speed, 1e-9)[:, None]).T, speed, scale=26, width=0.004, cmap="viridis")
    axes.quiver(*samples.T, *moved.T, color=PALETTE[1], angles="xy", scale_units="xy", scale=1, width=0.006)
    axes.plot(*samples.T, "o", color=PALETTE[1], ms=3)


@PAPER.figure(
    "cloud-radius",
    caption="Radius of a cloud of n particles around one target after 600 steps of size 0.3: with the mask few "
    "particles fly apart and many keep a distance; included in their own mean they contract, slowly.",
    shows=("few-particles-diverge",),
)
def cloud_radii(run: Run) -> Figure:
    sizes = (4, 8, 16, 32) if run.quick else (4, 8, 16, 32, 64, 128)
    with look():
        figure = blank(5.6, 3.8)
        axes = figure.subplots()
        for itself, marker in (("mask", "o-"), ("include", "s-")):
            axes.loglog(sizes, [cloud_radius(n, 600, 0, itself) for n in sizes], marker, label=f"itself: {itself}")
        axes.set(xlabel="particles $n$", ylabel=r"mean radius$/\tau$")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        axes.legend()
    return figure
