"""The paper's pictures: cells being carried, both errors against pieces, random play, conditionals, the trap."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.papers.diffeomorphism_pushforward import PAPER, banana, conditionals, learning, pipeline, random_play
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.transport.conditional.sampler import ConditionalSampler
from sphereflow.transport.euclidean.affine import rotation
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.pictures import carried_grid


def _colours(x: np.ndarray) -> np.ndarray:
    """Colour by place, darker on every other square of a checkerboard of eight."""
    shade = np.where(np.floor(8 * x).sum(axis=1) % 2, 1.0, 0.72)[:, None]
    return shade * np.stack([0.15 + 0.8 * x[:, 0], 0.45 + 0.25 * x[:, 1], 0.95 - 0.75 * x[:, 1]], axis=1)


@PAPER.figure(
    "cells-being-carried",
    caption="A coloured checkerboard on its way: cells are sorted by their Jacobian into columns, the columns are "
    "stretched, and fine cells are permuted to where the map wants them (last panel: the map itself).",
    shows=("three-cycle", "routing"),
)
def carried_cells(run: Run) -> Figure:
    found = pipeline.built(8, 4)
    side = 72 if run.quick else 128
    at = (np.arange(side) + 0.5) / side
    x = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    views = [(x, "start")]
    for part, name in zip(found.parts, ("sorted, $s_1$", r"stretched, $\nabla\psi$", "placed, $s_2$"), strict=True):
        views.append((np.asarray(part.apply(views[-1][0])), name))
    views.append((pipeline.swirl(x), r"the map $\varphi$"))
    with look():
        figure = blank(11.0, 2.6)
        for axes, (places, name) in zip(figure.subplots(1, 5), views, strict=True):
            axes.scatter(*places.T, c=_colours(x), s=2.2 * (128 / side) ** 2, marker="s", linewidths=0, rasterized=True)
            axes.set(xlim=(-0.17, 1.17), ylim=(-0.17, 1.17), aspect="equal", title=name, xticks=[0, 1], yticks=[0, 1])
    return figure


@PAPER.figure(
    "both-errors",
    caption="Left: the error of the map and the total variation between the push-forwards fall together, the former "
    "like one over the root of the number of pieces. Right: Jacobians of cells, sorted, and the slopes q/kappa that "
    "the columns get (N = 8, kappa = 4).",
    shows=("map-rate", "fall-together", "volume-bookkeeping"),
)
def both_errors(run: Run) -> Figure:
    found = pipeline.rows(run)
    pieces = np.array([pipeline.built(*key).schedule.n_pieces for key in found])
    order = np.argsort(pieces)
    span = np.array([0.8 * pieces.min(), 1.25 * pieces.max()])
    fit = pipeline.built(8, 4)
    at = (np.arange(64) + 0.5) / 64
    jacobian = 1 - (0.24 * math.pi) ** 2 * np.outer(np.cos(2 * np.pi * at), np.cos(2 * np.pi * at))
    with look():
        figure = blank(9.4, 3.6)
        left, right = figure.subplots(1, 2)
        for name, marker, colour in (("l2", "o", 0), ("median", "s", 2), ("tv", "D", 1)):
            values = np.array([getattr(e, name) for e in found.values()])
            label = {"l2": "map, $L^2$", "median": "map, median", "tv": "push-forward, TV"}[name]
            left.plot(pieces[order], values[order], marker + "-", color=PALETTE[colour], label=label)
        left.plot(span, 3.4 * span**-0.5, color="0.6", lw=1, ls="--", label=r"$\propto$ pieces$^{-1/2}$")
        left.set(xscale="log", yscale="log", xlabel="pieces", ylabel="error")
        left.legend()
        right.plot(
            np.linspace(0, 1, jacobian.size), np.sort(jacobian.ravel()), color="0.6", lw=2.5, label=r"$\det D\varphi$"
        )
        right.stairs(fit.slopes, np.arange(9) / 8, color=PALETTE[1], lw=1.4, label=r"$q_k/\kappa$", baseline=None)
        right.set(xlabel="share of the square, sorted", ylabel="Jacobian")
        right.legend()
    return figure


@PAPER.figure(
    "random-play-errors",
    caption="Errors of random play against pieces: the draw leaves one over the root of n in 2, 8 and 32 dimensions "
    "alike (left: map, right: log-determinant); rounds in random order do better.",
    shows=("maurey-slope", "without-replacement"),
)
def random_errors(run: Run) -> Figure:
    n = np.array(random_play.PLAYS)
    repetitions, in_rounds = (random_play.REPETITIONS,) * 2 if run.quick else (256, 64)
    with look():
        figure = blank(9.0, 3.5)
        for i, (axes, name) in enumerate(zip(figure.subplots(1, 2), ("map", "log-determinant"), strict=True)):
            for d, colour, marker in zip(random_play.DIMENSIONS, PALETTE, "osD", strict=False):
                errors = [random_play.played(d, int(k), repetitions, "iid", run.seed)[i] for k in n]
                axes.plot(n, errors, marker + "-", color=colour, label=f"$d={d}$")
            few = n[:3]
            rounds = [random_play.played(2, int(k), in_rounds, "shuffled", run.seed)[i] for k in few]
            axes.plot(few, rounds, "^:", color=PALETTE[3], label="$d=2$, in rounds")
            axes.plot(n, 2.2 * n**-0.5, color="0.6", lw=1, ls="--", label="$n^{-1/2}$")
            axes.set(xscale="log", yscale="log", xlabel="pieces $n$", ylabel=f"error of the {name}")
        axes.legend()
    return figure


@PAPER.figure(
    "banana-conditional",
    caption="Left: pairs (x, y) and three places where x is held. Middle: samples of y given x there, from a schedule "
    "fitted to the pairs, with the true densities. Right: mean squared error of the randomly played banana against the "
    "place, measured and in closed form.",
    shows=("conditional-banana", "conditional-from-samples", "banana-error"),
)
def banana_conditional(run: Run) -> Figure:
    found, _ = conditionals.from_samples(conditionals.pairs(run), run.seed)
    y = np.linspace(-4.0, 5.0, 200)
    places = np.linspace(-2, 2, 21)
    offsets = np.random.default_rng(run.seed).uniform(-banana.REACH, banana.REACH, (1500, banana.PLAYS))
    squares = banana.PLAYS * (banana.profiles(offsets, places) - 0.5 * (places**2 - 1)) ** 2
    fine = np.linspace(-2, 2, 201)
    with look():
        figure = blank(11.0, 3.5)
        left, middle, right = figure.subplots(1, 3)
        left.plot(*found.held_out.T, ".", ms=2, color="0.5", rasterized=True)
        left.set(xlabel="$x$", ylabel="$y$", xlim=(-3.2, 3.2), ylim=(-4, 6))
        for x0, colour in zip(conditionals.PLACES, PALETTE, strict=False):
            left.axvline(x0, color=colour, lw=1.2)
            drawn = found.sample(x0, 4000, run.seed)[:, 0]
            middle.hist(drawn, bins=60, range=(-4, 5), density=True, histtype="stepfilled", alpha=0.35, color=colour)
            middle.plot(
                y,
                np.exp(-0.5 * (y - 0.5 * (x0**2 - 1)) ** 2) / math.sqrt(2 * math.pi),
                color=colour,
                label=f"$x={x0:g}$",
            )
        middle.set(xlabel="$y$", ylabel="density given $x$", ylim=(0, 0.52))
        middle.legend(loc="upper right")
        right.plot(
            fine, 2 * banana.REACH / 3 * np.abs(fine) ** 3 - fine**4 / 4, color="0.6", lw=2.5, label="closed form"
        )
        right.errorbar(
            places,
            squares.mean(axis=0),
            2 * squares.std(axis=0) / math.sqrt(len(squares)),
            fmt="o",
            color=PALETTE[0],
            ms=3.5,
            lw=0.9,
            label="1500 draws",
        )
        right.set(xlabel="$x_0$", ylabel="$n\\,E\\,W_1^2$")
        right.legend(loc="upper center")
    return figure


def _trap_panel(axes: Axes, schedule: Schedule, x: np.ndarray, title: str) -> None:
    carried_grid(axes, schedule, 2.5)
    moved = np.asarray(schedule.apply(x))
    axes.scatter(
        moved[:, 0], moved[:, 1], c=x[:, 0], cmap="coolwarm", s=3, linewidths=0, vmin=-2.5, vmax=2.5, rasterized=True
    )
    axes.set(xlim=(-3.2, 3.2), ylim=(-3, 5.5), title=title, xlabel="$y_1$")


@PAPER.figure(
    "turned-banana",
    caption="The banana and the banana after a quarter turn carry the Gaussian to one law (colour: the first "
    "coordinate at the start); their conditional samples at x = 1.5 differ, and only one of them is right.",
    shows=("rotation-trap", "trap-conditional"),
)
def rotation_trap(run: Run) -> Figure:
    straight = banana.dense(100 if run.quick else 200)
    turned = rotation(0, 1, math.pi / 2, 2) + straight
    x = gaussian(2).sample(800 if run.quick else 1500, run.seed)
    y = np.linspace(-3.0, 5.0, 200)
    with look():
        figure = blank(10.4, 3.7)
        left, middle, right = figure.subplots(1, 3)
        _trap_panel(left, straight, x, r"$\varphi$")
        _trap_panel(middle, turned, x, r"$\varphi\circ Q$")
        left.set_ylabel("$y_2$")
        right.plot(y, np.exp(-0.5 * (y - 0.625) ** 2) / math.sqrt(2 * math.pi), color="0.3", label="true, $x=1.5$")
        for schedule, name, colour in ((straight, r"$\varphi$", PALETTE[0]), (turned, r"$\varphi\circ Q$", PALETTE[1])):
            drawn = ConditionalSampler(schedule, 1).sample(1.5, 4000, run.seed)[:, 0]
            right.hist(drawn, bins=80, range=(-3, 5), density=True, histtype="step", lw=1.3, color=colour, label=name)
        right.set(xlabel="$y_2$ given $x=1.5$", ylabel="density", ylim=(0, 1.3))
        right.legend()
    return figure


@PAPER.figure(
    "map-frontier",
    caption="Error of the map against switches for one map: permuted cells, which ask least of the map; neurons "
    "fitted to its velocity and played; and pieces that are trained. A smooth map needs far fewer switches.",
    shows=("fitted-neurons", "learned-map"),
)
def frontier(run: Run) -> Figure:
    cells = {pipeline.built(*key).schedule.n_switches: e.l2 for key, e in pipeline.rows(run).items()}
    sizes, pieces = ((20, 50, 100), (24,)) if run.quick else ((20, 50, 100, 200, 400), (12, 16, 24, 32, 48))
    played = [learning.playable(m, run.seed) for m in sizes]
    trained = [learning.trained(k, learning.steps(run), run.seed) for k in pieces]
    with look():
        figure = blank(5.8, 3.8)
        axes = figure.subplots()
        axes.plot(sorted(cells), [cells[k] for k in sorted(cells)], "o-", label="permuted cells")
        for name, schedules, marker in (("neurons, played", played, "s-"), ("trained", trained, "D-")):
            axes.plot([s.n_switches for s in schedules], [learning.l2(s) for s in schedules], marker, label=name)
        axes.axhline(learning.l2(learning.TURN), color="0.7", lw=0.8, ls="--")
        axes.annotate("the turn alone", (2e4, 0.122), ha="right", color="0.4", fontsize=8)
        axes.set(xscale="log", yscale="log", xlabel="switches", ylabel=r"$\|\varphi_\theta-\varphi\|_{L^2}$")
        axes.legend()
    return figure
