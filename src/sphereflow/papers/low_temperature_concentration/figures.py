"""The paper's pictures: three phases, rates against beta, the phase diagram, a Gaussian cluster beside tokens."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.estimates import fit_power
from sphereflow.meanfield import concentrate
from sphereflow.papers.low_temperature_concentration import PAPER, phases, rates
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SPLIT_B,
    SPLIT_V,
    axis_distance,
    follow,
    follow_limit,
    quantile_points,
    tilted,
)
from sphereflow.pictures import PALETTE, blank, look

_MOMENTS = (0.5, 1.0, 2.0)
# Mean and variance of the tilted density on the half circle around e2, where it is 1 + 0.3 sin y + 0.2 cos y.
_FIRST_MEAN = 0.6 / (np.pi + 0.4)
_FIRST_VARIANCE = (np.pi**3 / 12 + 0.2 * (np.pi**2 / 2 - 4)) / (np.pi + 0.4) - _FIRST_MEAN**2


@PAPER.figure(
    "three-phases",
    caption="Left: angles of tokens at beta = 100 against time; they gather at +-e2 (dominant eigenspace of V B^T), "
    "rest, and leave for +-e1 (leading eigenvector of V). Right: distance D to the points +-e2; it follows zero "
    "temperature (black), has a minimum (dots), and grows again.",
    shows=("decay-from-uniform", "terminal-rate", "limit-alone"),
)
def three_phases(run: Run) -> Figure:
    with look():
        figure = blank(9.4, 3.8)
        left, right = figure.subplots(1, 2)
        times = 0.25 * np.arange(FRAMES)
        angles = follow(100.0, SPLIT_V, SPLIT_B, quantile_points(phases.TOKENS), times, 0.25)
        for row in angles[:, ::12].T:
            left.plot(times, row / np.pi, color=PALETTE[0], lw=0.5, alpha=0.6)
        for place, word in ((0.5, "$e_2$"), (-0.5, "$-e_2$"), (0.0, "$e_1$")):
            left.axhline(place, color="0.75", lw=0.7, zorder=0)
            left.annotate(word, (times[-1], place), xytext=(4, -3), textcoords="offset points", annotation_clip=False)
        left.set(xlabel="$t$", ylabel=r"$\theta/\pi$", xlim=(0, times[-1]), title=r"$\beta=100$")
        grid = np.linspace(0, 16.5, FRAMES)
        limit = follow_limit(SPLIT_V, SPLIT_B, quantile_points(phases.TOKENS), grid)
        right.plot(grid, axis_distance(limit, phases.HALF), color="black", lw=1, label=r"$\beta=\infty$")
        best = phases.measured_best(run)
        for colour, beta, row in zip(PALETTE, phases.betas(run), best, strict=False):
            law = phases.split_law(beta, run.quick)
            used = law.ts <= row[2] + 3
            right.plot(law.ts[used], law.support_distance()[used], color=colour, label=rf"$\beta={beta:g}$")
            right.plot(row[1], row[0], "o", color=colour, mec="white", mew=0.7, ms=5.5, zorder=4)
        right.set(xlabel="$t$", ylabel="$D$", yscale="log", ylim=(0.008, 2))
        right.legend(loc="lower left")
    return figure


@PAPER.figure(
    "rates",
    caption="Left: distance between the laws at finite and at zero temperature; at fixed times it falls like 1/beta, "
    "at t = 6, with clusters thinner than the kernel, more slowly; the guaranteed rate is the dotted line. Right: the "
    "best concentration over time and its fitted exponent; dashed, beta to the power -1/2.",
    shows=("one-over-beta", "best-concentration", "bound"),
)
def rates_figure(run: Run) -> Figure:
    sharp = np.array(rates.betas(run))
    with look():
        figure = blank(9.4, 3.8)
        left, right = figure.subplots(1, 2)
        for colour, t in zip(PALETTE, _MOMENTS, strict=False):
            gaps = rates.early_gaps(run, t)
            fit = fit_power(sharp[2:], gaps[2:])
            left.plot(sharp, gaps, "o-", color=colour, label=rf"$t={t:g}$: {fit.exponent:.3f} ± {fit.error:.3f}")
        used, gaps = rates.late_gaps(run, 6.0)
        fit = fit_power(np.array(used), gaps)
        left.plot(used, gaps, "o-", color=PALETTE[3], label=rf"$t=6$: {fit.exponent:.2f} ± {fit.error:.2f}")
        dense = np.geomspace(sharp[0], sharp[-1], 100)
        left.plot(
            dense,
            0.06 * np.sqrt(np.log(dense + 1) / dense),
            ":",
            color="0.4",
            label=r"$\propto\sqrt{\log(\beta+1)/\beta}$",
        )
        left.set(xscale="log", yscale="log", xlabel=r"$\beta$", ylabel=r"$W_2(\mu_\beta(t),\mu_\infty(t))$")
        left.legend(loc="lower left", fontsize=8)
        betas, best = np.array(phases.betas(run)), phases.measured_best(run)
        fit = fit_power(betas, best[:, 0])
        right.plot(betas, best[:, 0], "o", color=PALETTE[0], label=f"exponent {fit.exponent:.3f} ± {fit.error:.3f}")
        right.plot(betas, fit.factor * betas**fit.exponent, color=PALETTE[0], lw=1)
        right.plot(betas, 1.08 * betas**-0.5, "--", color="0.5", label=r"$1.08\,\beta^{-1/2}$")
        right.set(xscale="log", yscale="log", xlabel=r"$\beta$", ylabel=r"$\min_t D(t)$")
        right.legend(loc="lower left")
    return figure


@PAPER.figure(
    "phase-diagram",
    caption="Distance to the push-forward over temperature and time. Solid: the crossover t* at which attention stops "
    "resolving the clusters; dashed: the time of departure predicted from it. Concentration below the dark ridge, rest "
    "in it, terminal phase above.",
    shows=("best-concentration", "predicted-rates"),
)
def phase_diagram(run: Run) -> Figure:
    if run.quick:
        betas = np.array([3.0, 10.0, 30.0, 100.0, 300.0])
        laws = [phases.split_law(float(b), True) for b in betas]
    else:
        betas = np.geomspace(10**0.5, 1e4, 15)
        laws = []
        for i, b in enumerate(betas):
            laws.append(concentrate(SPLIT_V, SPLIT_B, float(b), tilted, 60.0, saveat=241, tol=1e-4))
            run.notify((i + 1) / len(betas), f"beta = {b:.0f}")
    times = laws[0].ts
    table = np.array([law.wasserstein() for law in laws]).T
    crossover, leave = predicted_times(betas)
    with look():
        figure = blank(6.6, 4.4)
        axes = figure.subplots()
        colours = axes.contourf(np.log10(betas), times, np.log10(table), levels=24, cmap="viridis")
        axes.plot(np.log10(betas), crossover, color="white", lw=1.4)
        axes.plot(np.log10(betas), leave, "--", color="white", lw=1.4)
        middle = len(betas) // 2
        for curve, word, offset, side in (
            (crossover, "$t^*$", (8, -12), "left"),
            (leave, "$t_{exit}$", (-8, 8), "right"),
        ):
            axes.annotate(
                word,
                (np.log10(betas[middle]), curve[middle]),
                xytext=offset,
                textcoords="offset points",
                color="white",
                fontsize=12,
                ha=side,
            )
        axes.set(xlabel=r"$\log_{10}\beta$", ylabel="$t$", ylim=(0, times[-1]))
        figure.colorbar(colours, label=r"$\log_{10}W_2(\mu_\beta(t),\Pi_\#\mu_0)$")
    return figure


def predicted_times(betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""$t^*$, and $t_{exit}=t^*+\frac1{v_t-v_e}\log\frac{1/2}{|\bar y(t^*)|}$ with the mean from the two equations.

    Both start from the initial law on the half circle around $e_2$.
    """
    cluster = phases.CLUSTER
    crossover = np.array([cluster.crossover(float(b), _FIRST_VARIANCE) for b in betas])
    left = []
    for beta, t in zip(betas, crossover, strict=True):
        mean = cluster.moments(float(beta), _FIRST_MEAN, _FIRST_VARIANCE, np.array([0.0, max(t, 1e-3)]))[0][-1]
        left.append(t + np.log(0.5 / mean) / cluster.departure)
    return crossover, np.array(left)


@PAPER.figure(
    "gaussian-cluster",
    caption="Mean (left) and variance (right) of the cluster at +e2 for beta = 300: the law (dots) and the two "
    "equations of the Gaussian reduction started from it at t = 8 (lines).",
    shows=("gaussian-clusters",),
)
def gaussian_cluster(run: Run) -> Figure:
    beta = 300.0
    times, measured, spread = phases.upper_cluster(phases.split_law(beta, run.quick), 8.0)
    shown = times <= 16
    mean, variance = phases.CLUSTER.moments(beta, measured[0], spread[0], times[shown])
    with look():
        figure = blank(8.6, 3.4)
        left, right = figure.subplots(1, 2)
        for axes, line, dots, word in (
            (left, -mean, -measured, r"$-\bar y$"),
            (right, variance, spread, r"$\Sigma$"),
        ):
            axes.plot(times[shown], dots[shown], "o", ms=3, color=PALETTE[1], label="law")
            axes.plot(times[shown], line, color=PALETTE[0], label="reduction")
            axes.set(xlabel="$t$", ylabel=word, yscale="log")
        right.axhline(1 / beta, color="0.6", lw=0.8, ls=":")
        right.annotate(r"$1/\beta$", (14.6, 1.2 / beta), color="0.4")
        left.legend()
    return figure
