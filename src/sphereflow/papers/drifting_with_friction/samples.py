"""Pictures of trained models: samples of the plane, a translated mixture, quality against compute."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.drifting import TwoSidedField
from sphereflow.drifting.domains import two_domains
from sphereflow.drifting.latents import principal_components
from sphereflow.drifting.pictures import NAMES, before_and_after, quality
from sphereflow.drifting.training import Recipe
from sphereflow.drifting.translation import RATES, Point, median_width, quality_against_compute, split, translator
from sphereflow.observables import sampling_floor
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.training import FRESH, samples, sizes, toy
from sphereflow.papers.drifting_with_friction.translation import pair, points
from sphereflow.pictures import PALETTE, blank, look


@PAPER.figure(
    "toy-samples",
    caption="Data (grey) and samples of one-step generators (blue) after 400 steps of 256 samples in the quick preset "
    "(the swiss roll), when the shape begins to show, or 2000 of 512 with the paper's sizes, with the energy distance "
    "between fresh data and samples, and in brackets what chance makes of two samples of the data.",
    shows=("swiss-roll",),
)
def toy_samples(run: Run) -> Figure:
    steps, batch = sizes(run)
    with look():
        laws = ("swiss-roll",) if run.quick else ("swiss-roll", "checkerboard")
        figure = blank(4.2 * len(laws), 4.4)
        for row, name in zip(figure.subplots(1, len(laws), squeeze=False)[0], laws, strict=True):
            seen = toy(name, steps, batch, run.seed)
            floor = sampling_floor(seen.fresh, seen.again)
            row.plot(*np.concatenate([seen.fresh, seen.again]).T, ".", color="0.82", ms=2, rasterized=True)
            row.plot(*samples(seen.after, FRESH, run.seed).T, ".", color=PALETTE[0], ms=1.5, rasterized=True)
            row.set(title=f"{name}: {seen.told[steps]:.4f} (0 ± {floor:.4f})", aspect="equal", xlabel="$x_1$")
        figure.axes[0].set_ylabel("$x_2$")
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
    model, _ = translator(x, y, recipe, TwoSidedField(width=median_width(y)), 64 if run.quick else 128)
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
    caption="Frechet distance and squared MMD to held-out points of the target against compute, mean and standard "
    "error over seeds. The affine map between the two Gaussians with the same moments trains nothing and is drawn as a "
    "line. Right: drifting with friction and the two learning-rate schedules it must be told from, over drifting with "
    "neither, paired by seed.",
    shows=("flow-matching-optimum", "bridge-optimum"),
)
def quality_figure(run: Run) -> Figure:
    return quality(points(run.quick, run.seed))


@PAPER.figure(
    "images",
    caption="Held-out images of one kind, and what every method makes of them after 500 steps, trained without pairs "
    "on 32 principal components (16 for digits). Friction and its schedules differ less from one another than from the "
    "other methods.",
    presets=("paper",),
)
def images(run: Run) -> Figure:
    domains = two_domains()
    projection = principal_components(np.concatenate([domains.first, domains.second]), domains.components)
    source, target = projection.encode(domains.first), projection.encode(domains.second)
    rows = {"before": split(domains.first)[1][:10]}

    def show(point: Point, moved: np.ndarray) -> None:
        rows[NAMES[point.method]] = projection.decode(moved[:10])

    quality_against_compute(
        source,
        target,
        methods=("drift", "drift-friction", "drift-effective", "ofm", "lightsb", "affine"),
        budgets=(500,),
        seeds=(run.seed,),
        batch=128,
        hidden=128,
        show=show,
        progress=False,
    )
    return before_and_after(rows, domains.name)
