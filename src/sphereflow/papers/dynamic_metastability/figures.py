"""Pictures: the staircase, clocks, direct integration against coarsening, certificates, saddles."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.metastability import coarsen_to_one, staircase
from sphereflow.metastability.pictures import draw_energy
from sphereflow.metastability.staircases import limit
from sphereflow.papers.dynamic_metastability.caps import on_circle, random_brackets, uniform
from sphereflow.papers.dynamic_metastability.mergers import sequences
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.separation import BETAS, SIZES, fraction
from sphereflow.papers.dynamic_metastability.staircase import START, merge
from sphereflow.pictures import PALETTE, blank, look

ENERGY = r"normalised energy $2\beta E_\beta$"


@PAPER.figure(
    "staircase-sharpens",
    caption="Five tokens, SA and USA: energy against log t / beta for growing beta, up to t = e^7662. Dashed: the "
    "limit, repeated merging of the closest pair. SA and USA end at different heights because merged clusters land "
    "at different places.",
    shows=("plateau-levels", "staircase-clock", "landing-point"),
)
def staircase_sharpens(run: Run) -> Figure:
    with look():
        figure = blank(9.6, 3.8)
        for axes, kind in zip(figure.subplots(1, 2, sharey=True), ("sa", "usa"), strict=True):
            for colour, beta in zip(PALETTE, (20, 50, 200, 1000, 4000), strict=False):
                rows = merge(kind, float(beta)).curve[1:]
                axes.plot(np.maximum(rows[:, 0], 0) / beta, rows[:, 1], color=colour, lw=1.4, label=f"$\\beta={beta}$")
            heights, levels = limit(on_circle(START), kind)
            axes.step([0, *heights, 2.1], [0.2, *levels, 1.0], where="post", color="0.4", ls="--", lw=1, label="limit")
            axes.set_title(kind.upper())
            axes.set_xlabel(r"$\log t\,/\,\beta$")
            axes.set_ylim(0, 1.03)
            axes.legend(loc="upper left")
        figure.axes[0].set_ylabel(ENERGY)
    return figure


@PAPER.figure(
    "unglued-and-glued",
    caption="The clock of the theorem: energy of five tokens under USA, unglued and with gluing at 1/sqrt(beta log "
    "beta), which differ only at the top of each step. Plateaus at the sums of squared masses.",
    shows=("merge-clock", "merge-clock-limit"),
)
def unglued_and_glued(run: Run) -> Figure:
    with look():
        figure = blank(9.6, 3.8)
        for axes, beta in zip(figure.subplots(1, 2, sharey=True), (50.0, 2000.0), strict=True):
            stairs = staircase(beta=beta, model="usa", x0=on_circle(START))
            for level in (0.2, 0.28, 0.44, 0.52, 1.0):
                axes.axhline(level, color="0.88", lw=0.8, zorder=0)
            for glued, colour, width, name in ((True, PALETTE[1], 3.0, "glued"), (False, PALETTE[0], 1.2, "unglued")):
                x, y = stairs.curve("clock", glued=glued)
                axes.plot(x, y, color=colour, lw=width, label=name)
            axes.set_title(f"$\\beta={beta:g}$")
            axes.set_xlabel(r"clock $\tau$")
            axes.set_ylim(0, 1.03)
            axes.legend(loc="upper left")
        figure.axes[0].set_ylabel(ENERGY)
    return figure


@PAPER.figure(
    "five-fifty-five-hundred",
    caption="From 5 and 50 (at full size also 500) uniform tokens to the single cluster: energy against log log t.",
    shows=("one-cluster-in-the-end",),
)
def five_fifty_five_hundred(run: Run) -> Figure:
    sizes = (5, 50) if run.quick else (5, 50, 500)
    with look():
        figure = blank(6.4, 3.8)
        axes = figure.add_subplot()
        for colour, n in zip(PALETTE, sizes, strict=False):
            history = coarsen_to_one("sa", uniform(n, 2, run.seed), 200.0, tol=1e-6, errors=False)
            draw_energy(axes, history, color=colour, label=f"{n} tokens, last at $\\log t={history.log_times[-1]:.0f}$")
        axes.set_title(r"SA, $\beta=200$, circle")
        axes.legend(loc="upper left")
    return figure


@PAPER.figure(
    "direct-against-coarse",
    caption="Random starts of six tokens at beta = 5: last merger with coarsening against direct stiff integration, "
    "and their relative difference.",
    shows=("last-merger-direct", "same-sequence"),
)
def direct_against_coarse(run: Run) -> Figure:
    rows = sequences(run, 8 if run.quick else 60)
    direct = np.array([row[2] for row in rows])
    coarse = np.array([row[1] for row in rows])
    with look():
        figure = blank(9.0, 3.6)
        left, right = figure.subplots(1, 2)
        left.loglog(direct, coarse, "o", ms=5)
        ends = np.array([direct.min() / 2, direct.max() * 2])
        left.loglog(ends, ends, color="0.7", lw=1, zorder=0)
        left.set_xlabel("last merger, direct")
        left.set_ylabel("last merger, coarsened")
        right.loglog(direct, np.maximum(np.abs(coarse / direct - 1), 1e-12), "o", ms=5)
        right.axhline(0.005, color=PALETTE[1], lw=1)
        right.text(direct.min(), 0.0065, "0.5 %", color=PALETTE[1], fontsize=9)
        right.set_ylim(1e-11, 0.05)
        right.set_xlabel("last merger, direct")
        right.set_ylabel("relative difference")
        same = sum(row[0] for row in rows)
        figure.suptitle(f"merge sequences identical in {same} of {len(rows)} starts", fontsize=11)
    return figure


@PAPER.figure(
    "certificates",
    caption="Random separated starts: simulated collapse against the bound on T1, and first exit against T2. The "
    "statement of the theorem is the shaded side.",
    shows=("brackets", "exit-time"),
)
def certificates(run: Run) -> Figure:
    rows = random_brackets(run.seed, 8 if run.quick else 60)
    with look():
        figure = blank(9.0, 3.8)
        left, right = figure.subplots(1, 2)
        _against(left, rows, "log_T1", "log_collapse", below=True)
        left.set_xlabel(r"bound on $\log T_1$")
        left.set_ylabel("log of the collapse time")
        finite = [row for row in rows if math.isfinite(row["log_exit"])]
        _against(right, finite, "log_T2", "log_exit", below=False)
        right.set_xlabel(r"$\log T_2$")
        right.set_ylabel("log of the first exit")
    return figure


@PAPER.figure(
    "separated-fractions",
    caption="Fraction of uniform starts on the circle that are separated (epsilon = .01): it falls geometrically.",
    shows=("circle-fractions",),
)
def separated_fractions(run: Run) -> Figure:
    draws = 500 if run.quick else 20_000
    with look():
        figure = blank(5.2, 3.6)
        axes = figure.add_subplot()
        for colour, beta in zip(PALETTE, BETAS, strict=False):
            shares = np.array([fraction(n, beta, draws, run.seed + n) for n in SIZES])
            spread = 2 * np.sqrt(shares * (1 - shares) / draws)
            axes.errorbar(SIZES, shares, spread, marker="o", ms=4, lw=1, color=colour, label=f"$\\beta={beta}$")
        axes.set_yscale("log")
        axes.set_xlabel("tokens $n$")
        axes.set_ylabel("fraction separated")
        axes.legend()
    return figure


@PAPER.figure(
    "saddle-to-saddle",
    caption="Each plateau is a saddle: the time at which it is left against 1 over its largest unstable eigenvalue "
    "(log scales), for the five tokens at four beta.",
    shows=("unstable-directions", "saddle-index", "heteroclinic-distance"),
)
def saddle_to_saddle(run: Run) -> Figure:
    with look():
        figure = blank(5.2, 4.2)
        axes = figure.add_subplot()
        for colour, beta in zip(PALETTE, (20.0, 50.0, 200.0, 1000.0), strict=False):
            stairs = staircase(beta=beta, model="sa", x0=on_circle(START))
            lives = [modes.log_lifetime for modes in stairs.modes]
            axes.loglog(lives, stairs.unglued.log_times[1:], "o", ms=6, color=colour, label=f"$\\beta={beta:g}$")
        ends = np.array([3.0, 4000.0])
        axes.loglog(ends, ends, color="0.7", lw=1, zorder=0)
        axes.set_xlabel(r"$\log(1/\lambda_{\max})$ of the plateau")
        axes.set_ylabel(r"$\log t$ at its end")
        axes.legend()
    return figure


def _against(axes: Axes, rows: list[dict[str, float]], x: str, y: str, *, below: bool) -> None:
    xs, ys = (np.array([row[name] for row in rows]) for name in (x, y))
    low, high = min(xs.min(), ys.min()) - 1, max(xs.max(), ys.max()) + 3
    ends = np.array([low, high])
    axes.plot(ends, ends, color="0.5", lw=1)
    axes.fill_between(ends, ends, low if below else high, color=PALETTE[2], alpha=0.12, lw=0)
    axes.plot(xs, ys, "o", ms=5, color=PALETTE[0])
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
