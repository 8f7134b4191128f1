"""Pictures of trained models: samples of the plane, a translated mixture, quality against compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.drifting import TwoSidedField
from sphereflow.drifting.pictures import quality
from sphereflow.drifting.samplers import law
from sphereflow.drifting.training import Recipe
from sphereflow.drifting.translation import RATES, median_width, split, translator
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.training import samples, sizes, toy
from sphereflow.papers.drifting_with_friction.translation import pair, points
from sphereflow.pictures import PALETTE, blank, look


@PAPER.figure(
    "toy-samples",
    caption="Data (grey) and samples of one-step generators (blue) after 200 steps of 256 samples in the quick preset, "
    "when the moments fit but the shape is not yet there, or 2000 of 512 with the paper's sizes.",
)
def toy_samples(run: Run) -> Figure:
    steps, batch = sizes(run)
    with look():
        figure = blank(8.4, 4.4)
        for row, name in zip(figure.subplots(1, 2), ("swiss-roll", "checkerboard"), strict=True):
            _, model, told = toy(name, steps, batch, run.seed)
            data = np.asarray(law(name)(jax.random.key(9), 4000))
            row.plot(*data.T, ".", color="0.82", ms=2, rasterized=True)
            row.plot(*samples(model, 3000, run.seed).T, ".", color=PALETTE[0], ms=1.5, rasterized=True)
            row.set(title=f"{name}, energy distance {told[-1][1]:.4f}", aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    return figure


@PAPER.figure(
    "translated",
    caption="Translation between two mixtures of ten Gaussians (two coordinates): held-out points before, the target, "
    "and where drifting takes them; lines join a point to its image.",
)
def translated(run: Run) -> Figure:
    source, target = pair(run.quick, run.seed)
    (x, test_x), (y, test_y) = split(source), split(target)
    recipe = Recipe(steps=100 if run.quick else 1000, batch=64 if run.quick else 128, rate=RATES["drift"], decay=0.99)
    model, _ = translator(x, y, recipe, TwoSidedField(median_width(y)), 64 if run.quick else 512)
    moved = np.asarray(model(jnp.asarray(test_x)))
    with look():
        figure = blank(9.6, 3.5)
        left, middle, right = figure.subplots(1, 3, sharex=True, sharey=True)
        left.plot(*test_x[:, :2].T, ".", color=PALETTE[1], ms=2)
        middle.plot(*test_y[:, :2].T, ".", color="0.6", ms=2)
        middle.plot(*moved[:, :2].T, ".", color=PALETTE[0], ms=2)
        for a, b in zip(test_x[:60, :2], moved[:60, :2], strict=True):
            right.plot(*np.stack([a, b]).T, color="0.75", lw=0.7)
        right.plot(*test_x[:60, :2].T, ".", color=PALETTE[1], ms=4)
        right.plot(*moved[:60, :2].T, ".", color=PALETTE[0], ms=4)
        for axes, title in ((left, "before"), (middle, "target (grey), after (blue)"), (right, "which goes where")):
            axes.set(title=title, aspect="equal", xlabel="$x_1$")
        left.set_ylabel("$x_2$")
    return figure


@PAPER.figure(
    "quality-against-compute",
    caption="Frechet distance to held-out points of the target against compute, mean and spread over three seeds. "
    "The affine map between the two Gaussians with the same moments trains nothing and is drawn as a line.",
)
def quality_figure(run: Run) -> Figure:
    return quality(points(run.quick, run.seed))
