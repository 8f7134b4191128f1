"""The paper's pictures: profiles, the phase diagram, and particles on the closed form."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.papers.lost_in_the_middle import PAPER
from sphereflow.papers.lost_in_the_middle.monte_carlo import LARGE, WAVES, measured
from sphereflow.papers.lost_in_the_middle.thresholds import DOUBLE_WELL, DOUBLE_WELL_TIME
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.retrieval.bessel import growth_rates
from sphereflow.retrieval.closed_form import critical_time, profile, several_heads, two_time_influence
from sphereflow.retrieval.plots import draw_phase_diagram, draw_profile


@PAPER.figure(
    "u-shapes",
    caption="Left: N times the soft accuracy above chance against the position of the source, for beta = slope = 1 and "
    "8 codewords; dots mark the minimum, which moves from the first token to the last and is gone after the critical "
    "time 2.457. Right: four heads with weights of both signs make two wells.",
    shows=("profiles", "u-shape-theorem"),
)
def profiles(run: Run) -> Figure:
    times = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
    with look():
        figure = blank(9.2, 3.7)
        left, right = figure.subplots(1, 2)
        for t, shade in zip(times, np.linspace(0, 0.9, len(times)), strict=True):
            draw_profile(left, profile(1.0, 1.0, t), color=colormaps["viridis"](shade), label=f"$t={t:g}$")
        left.set(yscale="log", ylim=(0.05, 12), ylabel=r"$N\,$(accuracy $-$ baseline)")
        left.legend(ncols=3, loc="upper right", fontsize=8)
        draw_profile(right, several_heads(DOUBLE_WELL, DOUBLE_WELL_TIME), first=0.02, color=PALETTE[1])
        right.set(ylim=(-1.73, -1.6), title="four heads, $t=1.5$")
    return figure


@PAPER.figure(
    "phase-diagram",
    caption="Where the profile is U-shaped, in the plane of inverse temperature and time (slope 1, 8 codewords). Below "
    "the dashed line the theorem proves it, up to the critical time (solid) it is observed, above it falls.",
    shows=("recency-ends", "u-shape-theorem"),
)
def phase_diagram(run: Run) -> Figure:
    with look():
        figure = blank(5.8, 3.8)
        axes = figure.add_subplot()
        betas = np.linspace(0.1, 4.8, 95)
        draw_phase_diagram(axes, 1.0, 8, betas)
        axes.text(3.6, 8, "decreasing", color="0.35", ha="center")
        axes.text(1.2, 0.12, "U-shaped (theorem)", color=PALETTE[0], ha="center")
        axes.annotate(
            "U-shaped (observed)",
            xy=(2.6, 0.27),
            xytext=(3.0, 1.2),
            color="0.25",
            arrowprops={"arrowstyle": "-", "color": "0.4", "lw": 0.7},
        )
    return figure


@PAPER.figure(
    "worst-position",
    caption="Position of the minimum against time, in units of the critical time, for several slopes (beta = 1, 8 "
    "codewords). It starts at the first token. Up to a slope of about log 4 it ends at the last one, at the critical "
    "time; with a steeper slope it stays inside, and only recency is lost.",
    shows=("unique-minimum", "early-minimum", "minimum-outlives-recency"),
)
def minimum(run: Run) -> Figure:
    with look():
        figure = blank(5.2, 3.5)
        axes = figure.add_subplot()
        fractions = np.concatenate([np.linspace(0.01, 0.7, 5), np.linspace(0.8, 0.995, 7)])
        for slope, shade in zip((0.5, 1.0, 3.0, 10.0), np.linspace(0, 0.85, 4), strict=True):
            t_crit = critical_time(1.0, slope, 8)
            found = [profile(1.0, slope, f * t_crit).minimiser for f in fractions]
            axes.plot(
                fractions,
                np.array(found, dtype=float),
                color=colormaps["viridis"](shade),
                label=rf"$\lambda={slope:g}$",
            )
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=r"$t\,/\,t_{crit}$", ylabel=r"worst position $\sigma_\ast$")
        axes.legend(loc="upper left")
    return figure


@PAPER.figure(
    "particles-on-the-closed-form",
    caption="Simulated decoders on the closed form: N times the covariance of a wave at the start of the source with "
    "the same wave at the end of the last token, beta = slope = t = 1. Bars are three standard errors; what is left "
    "falls like 1/N.",
    shows=("particles", "finite-tokens"),
)
def particles(run: Run) -> Figure:
    quick = [(LARGE, k, 408) for k in (5, 17, 38, 56)]
    cases = quick if run.quick else [(LARGE, k, 2000) for k in (5, 14, 17, 38, 56)]
    if not run.quick:
        cases += [(512, k, 500) for k in (26, 64, 152, 304, 460)]
    with look():
        figure = blank(5.8, 3.8)
        axes = figure.add_subplot()
        sigma0 = np.concatenate([np.geomspace(0.02, 0.1, 60), np.linspace(0.1, 1, 120)])
        for i, n in enumerate(WAVES):
            curve = two_time_influence(growth_rates(1.0)[n - 1], 1.0, 1.0, sigma0, 1.0)
            axes.plot(sigma0, curve, color=PALETTE[i], label=f"closed form, wave {n}")
        named: set[int] = set()
        for n, k, repeats in cases:
            estimate = measured(n, k, 1.0, 1.0, repeats, run.seed)
            for i, (value, error) in enumerate(zip(estimate.value, estimate.error, strict=True)):
                axes.errorbar(
                    (k - 0.5) / n,
                    value,
                    3 * error,
                    fmt="o" if n == LARGE else "s",
                    ms=3.5,
                    capsize=2,
                    lw=1,
                    color=PALETTE[i],
                    mfc="white" if n == LARGE else PALETTE[i],
                    label=None if n in named else f"particles, $N={n}$",
                )
                named.add(n)
        axes.set(xlim=(0, 1), xlabel=r"position of the source $\sigma_0$")
        axes.set_ylabel(r"$N\,E\cos n(\theta_N(t)-\theta_k(0))$")
        axes.legend(loc="upper center")
    return figure
