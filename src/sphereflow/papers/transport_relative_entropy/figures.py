"""The paper's pictures: error against switches with the line known beforehand, tails, carried grids, the frontier."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.estimates import Estimate
from sphereflow.papers.transport_relative_entropy import PAPER, gaussianisation, learning, line, plane, tails
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.transport.euclidean.comparison import Row, draw_frontier
from sphereflow.transport.euclidean.divergences import Divergences
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.line import LineDivergences
from sphereflow.transport.euclidean.named_laws import three_modes, two_modes
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.pictures import carried_grid


@PAPER.figure(
    "error-against-switches",
    caption="Left: both relative entropies and total variation against the number of knots, with the lines C/K^2 and "
    "C/K whose constants follow from the two densities alone. Right: the density that 8 and 32 knots make.",
    shows=("rate", "rate-constant"),
)
def rate(run: Run) -> Figure:
    knots = np.array(line.KNOTS)
    errors = [line.row(int(k))[1] for k in knots]
    y = np.linspace(-4, 4, 2000)
    with look():
        figure = blank(9.0, 3.6)
        left, right = figure.subplots(1, 2)
        left.plot(knots, line.problem().kl_constant / knots**2, color="0.6", lw=1, label=r"$C_{KL}/K^2$")
        left.plot(knots, line.problem().tv_constant / knots, color="0.6", lw=1, ls="--", label=r"$C_{TV}/K$")
        for name, values, marker in (
            (r"$\mathrm{KL}(\rho_\theta\|\rho_*)$", [e.reverse for e in errors], "o"),
            (r"$\mathrm{KL}(\rho_*\|\rho_\theta)$", [e.forward for e in errors], "x"),
            ("TV", [e.tv for e in errors], "s"),
        ):
            left.plot(knots, values, marker, ms=5, label=name)
        left.set(xscale="log", yscale="log", xlabel="knots $K$ (switches: $K+1$)", ylabel="error")
        left.legend()
        right.plot(y, np.exp(two_modes().log_density(y[:, None])), color="0.6", lw=3, alpha=0.6, label=r"$\rho_*$")
        for k, colour in ((8, PALETTE[1]), (32, PALETTE[0])):
            image = line.row(k)[0].density(gaussian(1)).log_density(y[:, None])
            right.plot(y, np.exp(image), color=colour, lw=1, label=rf"$\rho_\theta$, $K={k}$")
        right.set(xlabel="$y$", ylabel="density", ylim=(0, 0.52))
        right.legend(loc="upper center", ncols=3, fontsize=8)
    return figure


@PAPER.figure(
    "tail-divergence",
    caption="A Gaussian carried to Student's law with two degrees of freedom: the relative entropy integrated up to R "
    "grows without end, by ln 10 over the square of the end slope per decade. No schedule helps.",
    shows=("tail-growth", "tail-flag"),
)
def tail_divergence(run: Run) -> Figure:
    reaches = 10.0 ** np.linspace(1, 7, 25)
    with look():
        figure = blank(5.6, 3.6)
        axes = figure.subplots()
        for m, colour in zip(tails.SLOPES, PALETTE, strict=False):
            grown = tails.truncated(tails.stretched(m, 1), reaches)
            axes.plot(reaches, grown, "o", ms=3.5, color=colour, label=f"end slopes ${m:g}$")
            axes.plot(reaches, grown[-1] + np.log(reaches / reaches[-1]) / m**2, color=colour, lw=0.9)
        axes.set(xscale="log", xlabel="$R$", ylim=(0, None))
        axes.set_ylabel(r"$\int_{|y|\leq R}\rho_*\,\log(\rho_*/\rho_\theta)\,dy$")
        axes.annotate(r"lines: $m^{-2}\ln R$", (0.97, 0.45), xycoords="axes fraction", ha="right", color="0.4")
        axes.legend()
    return figure


@PAPER.figure(
    "carried-grid",
    caption="A square grid and the points of N(0, I) carried to three modes: treated cell by cell between shears "
    "(left: while the third of eight slabs is treated; middle: at the end), and by 8 pieces found by training (right).",
    shows=("plane-errors", "plane-round-trip"),
)
def carried(run: Run) -> Figure:
    slabs = plane.built(8)
    # The first coordinate takes 20 pieces, a slab 18 and its shears 2 to 4: this is inside the third.
    treated = 20 + 22 + 11
    learned = learning.trained(2, 8, "surrogate", learning.steps(run), run.seed)[0]
    views: list[tuple[Schedule, float, str]] = [
        (slabs, treated / slabs.n_pieces, "while one slab is treated"),
        (slabs, 1.0, f"constructed, {slabs.n_switches} switches"),
        (learned, 1.0, f"trained, {learned.n_switches} switches"),
    ]
    points = gaussian(2).sample(3000, run.seed)
    at = np.linspace(-3.2, 3.2, 150)
    level = np.exp(three_modes().log_density(np.stack(np.meshgrid(at, at), axis=-1)))
    with look():
        figure = blank(10.2, 3.9)
        for axes, (schedule, until, title) in zip(figure.subplots(1, 3), views, strict=True):
            carried_grid(axes, schedule, 3.2, until)
            moved = schedule.between(0, until * schedule.n_pieces).apply(points)
            axes.plot(*moved.T, ".", ms=1, color="black", alpha=0.5, rasterized=True)
            axes.contour(at, at, level, levels=[0.02, 0.1], colors=PALETTE[2], linewidths=1)
            axes.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal", title=title)
    return figure


def _row(name: str, schedule: Schedule, errors: Divergences | LineDivergences) -> Row:
    if isinstance(errors, LineDivergences):
        exact = errors.forward, errors.reverse, errors.tv
        forward, reverse, tv = (Estimate(np.asarray(x), np.zeros(())) for x in exact)
        errors = Divergences(forward, reverse, tv, 1.0)
    return Row(name, schedule.n_switches, schedule.sup_norm(), errors)


@PAPER.figure(
    "frontier",
    caption="Relative entropy against switches. On the line (left) training does no better than the construction "
    "once both are past a few switches, and without the boundary term it stays at the Gaussian; in the plane (right) "
    "it needs fewer switches.",
    shows=("training-frontier", "training-stall"),
)
def frontier(run: Run) -> Figure:
    pieces = (10,) if run.quick else (4, 10, 18)
    steps = learning.steps(run)
    on_line = {
        "constructed": [_row("", *line.row(k)) for k in (4, 8, 16, 32, 64)],
        "trained": [_row("", *learning.trained(1, k, "surrogate", steps, run.seed)) for k in pieces],
        "trained, naive gradient": [_row("", *learning.trained(1, k, "naive", steps, run.seed)) for k in pieces],
    }
    wide = (8,) if run.quick else (8, 16, 24)
    rows = [(plane.built(n), plane.row(n, plane.samples(run, n), run.seed)) for n in plane.SLABS]
    frames = [key for key in gaussianisation.FRAMES if not run.quick or key[1] == 8]
    in_plane = {
        "grid behind shears": [_row("", *pair) for pair in rows],
        "trained": [_row("", *learning.trained(2, k, "surrogate", steps, run.seed)) for k in wide],
        "Gaussianisation": [_row("", *gaussianisation.row(*key, run.seed)) for key in frames],
    }
    switches = np.geomspace(5, 70, 20)
    with look():
        figure = blank(9.4, 3.8)
        left, right = figure.subplots(1, 2)
        draw_frontier(left, on_line)
        left.plot(switches, line.problem().kl_constant / switches**2, color="0.6", lw=1, ls=":", label=r"$C_{KL}/S^2$")
        left.axhline(learning.stall(), color="0.7", lw=0.8, ls="--")
        left.annotate("Gaussian with the same moments", (70, 0.76), ha="right", color="0.4", fontsize=8)
        left.set(title="two modes on the line", xticks=[5, 10, 20, 50], xticklabels=["5", "10", "20", "50"])
        left.minorticks_off()
        left.legend(loc="lower left")
        draw_frontier(right, in_plane)
        right.set(title="three modes in the plane")
    return figure
