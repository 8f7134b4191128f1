"""The paper's pictures: modes of a sample, where modes are, how many, the law of slope and curvature, and clusters."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from sphereflow.claims import Run
from sphereflow.modes import (
    belt,
    circle_modes,
    expected_modes,
    fastest_harmonic,
    find_modes,
    gaussian_modes,
    limit_constant,
    mode_density,
)
from sphereflow.modes.moments import normal_moments
from sphereflow.papers.kde_modes import PAPER, clusters, formulas, table
from sphereflow.pictures import PALETTE, blank, look


def _estimate(t: np.ndarray, sample: np.ndarray, beta: float) -> np.ndarray:
    """The density estimate on a grid, from the sum itself."""
    kernel = np.exp(-beta / 2 * np.subtract.outer(t, sample) ** 2)
    return kernel.mean(axis=1) * np.sqrt(beta / (2 * np.pi))


@PAPER.figure(
    "sample-and-modes",
    caption="Density estimate of 10,000 normal samples at beta = 300, with its modes, all certain. Shaded: the two "
    "belts of the theory, in which almost all modes are as n grows. The true density is dashed.",
    shows=("belt",),
)
def sample_and_modes(run: Run) -> Figure:
    n, beta = 10_000, 300.0
    sample = np.random.default_rng(run.seed).standard_normal(n)
    modes = find_modes(sample, beta).positions
    t = np.linspace(-4.4, 4.4, 700)
    inner, outer = belt(n, beta)
    with look():
        figure = blank(7.0, 3.4)
        axes = figure.add_subplot()
        for side in (-1, 1):
            axes.axvspan(side * inner, side * outer, color="0.93", lw=0)
        axes.semilogy(t, _estimate(t, sample, beta), color=PALETTE[0])
        axes.plot(t, np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi), "--", color="0.4", lw=1)
        axes.plot(modes, _estimate(modes, sample, beta), "o", color=PALETTE[1], label=f"{len(modes)} modes")
        axes.set(xlabel="$t$", ylabel="density", ylim=(2e-5, 1), xlim=(-4.4, 4.4))
        axes.legend(loc="lower center")
    return figure


@PAPER.figure(
    "locations",
    caption="Where the modes are: histogram over many samples of 10,000 points at beta = 100, the parameters of the "
    "authors' code, and the predicted density of modes. Dotted: edges of the belt.",
    shows=("kac-rice", "belt"),
)
def locations(run: Run) -> Figure:
    n, beta, runs = 10_000, 100.0, 200 if run.quick else 3100
    sample = table.sampled(n, beta, runs, run.seed + 1)
    edges = np.linspace(-4.8, 4.8, 97)
    counts = np.histogram(sample.modes.positions, edges)[0] / runs / np.diff(edges)
    t = np.linspace(-4.8, 4.8, 961)
    with look():
        figure = blank(6.6, 3.4)
        axes = figure.add_subplot()
        axes.stairs(counts, edges, fill=True, color=PALETTE[5], alpha=0.6, label=f"{runs} samples")
        axes.plot(t, mode_density(t, n, beta), color=PALETTE[0], label="predicted")
        for place in belt(n, beta):
            for side in (-1, 1):
                axes.axvline(side * place, ls=":", color="0.3", lw=1)
        axes.set(xlabel="$t$", ylabel="modes per unit length", ylim=(0, 4.2), xlim=(-4.8, 4.8))
        axes.legend(loc="upper center", ncols=2)
    return figure


@PAPER.figure(
    "numbers",
    caption="Mean number of modes against beta: uniform predictor (lines), Gaussian formula on [-T0, T0] (dashed), "
    "Monte Carlo on the line (dots; error bars are smaller than the dots). Right: the ratio to sqrt(beta log beta) "
    "creeps to its limit (horizontal lines) over dozens of orders of magnitude.",
    shows=("gaussian-values", "uniform-predictor", "logarithm-in-the-count", "constant"),
)
def numbers(run: Run) -> Figure:
    with look():
        figure = blank(8.4, 3.6)
        axes, far = figure.subplots(1, 2)
        for colour, n in zip(PALETTE, (1000, 10_000, 1_000_000), strict=False):
            betas = np.geomspace(3, n**1.6, 20)
            axes.loglog(
                betas, [expected_modes(n, b) for b in betas], color=colour, label=f"$n=10^{round(np.log10(n))}$"
            )
            axes.loglog(betas, [gaussian_modes(n, b) for b in betas], "--", color=colour, lw=1)
            found = [(s.beta, float(s.everywhere.value)) for s in table.samples(run) if s.n == n]
            if found:
                axes.plot(*np.transpose(found), "o", color=colour)
        axes.set(xlabel=r"$\beta$", ylabel="modes", ylim=(0.8, None))
        axes.legend(loc="upper left")
        sizes = np.geomspace(1e3, 1e60, 16)
        for colour, a in zip(PALETTE, (0.5, 0.75, 1.0, 1.5), strict=False):
            scale = [np.sqrt(n**a * np.log(n**a)) for n in sizes]
            values = [expected_modes(n, n**a) / s for n, s in zip(sizes, scale, strict=True)]
            far.semilogx(sizes, values, color=colour, label=rf"$\beta=n^{{{a:g}}}$")
            far.axhline(limit_constant(a), color=colour, lw=0.8, ls=":")
        far.set(xlabel="$n$", ylabel=r"modes$\,/\sqrt{\beta\log\beta}$", ylim=(0.1, 0.62))
        far.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure


@PAPER.figure(
    "slope-and-curvature",
    caption="Slope and curvature of the density estimate at t = 3 for n = 6,500 and beta = 81 (dots), with the "
    "ellipses of one, two and three standard deviations of the Gaussian that the Kac-Rice formula uses. A mode at t "
    "needs F = 0 and F' > 0.",
    shows=("joint-law", "moments"),
)
def joint_law(run: Run) -> Figure:
    draws = formulas.joint_draws(4000, run.seed + 21)
    m, n = normal_moments(formulas.PLACE, formulas.BETA), formulas.SAMPLES
    root, scale = float(np.exp(m.log_scale / 2)), float(np.exp(m.log_scale))
    covariance = n * scale * np.array([[m.s11, m.s12], [m.s12, m.s22]])
    values, vectors = np.linalg.eigh(covariance)
    centre = (n * root * float(m.mean), n * root * float(m.mean_slope))
    angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
    with look():
        figure = blank(4.6, 4.0)
        axes = figure.add_subplot()
        axes.plot(*draws.T, ".", ms=1.5, color=PALETTE[5], rasterized=True)
        for k in (1, 2, 3):
            width, height = 2 * k * np.sqrt(values[::-1])
            axes.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, color=PALETTE[0], lw=1))
        axes.axvline(0, color="0.5", lw=0.7)
        axes.set(xlabel="$F$", ylabel="$F'$")
    return figure


@PAPER.figure(
    "mode-tree",
    caption="The modes of one sample of 60 points as the bandwidth shrinks: modes split and never vanish.",
    shows=("monotone-in-bandwidth",),
)
def mode_tree(run: Run) -> Figure:
    sample = np.random.default_rng(run.seed + 4).standard_normal(60)
    betas = np.geomspace(0.3, 3e4, 300)
    modes = find_modes(np.tile(sample, (len(betas), 1)), betas)
    with look():
        figure = blank(6.6, 3.8)
        axes = figure.add_subplot()
        at = betas[modes.run]
        axes.scatter(modes.positions, at, c=np.log(at), s=1.2, linewidths=0, rasterized=True)
        axes.plot(sample, np.full(60, betas[-1] * 1.6), "|", color="0.4", ms=6, mew=0.7)
        axes.set(xlabel="$t$", ylabel=r"$\beta$", yscale="log")
    return figure


@PAPER.figure(
    "clusters",
    caption="Attention on the circle from uniform tokens: modes of the density estimate (line) and clusters (dots) in "
    "time, means over independent runs; dashed: the linear theory, dotted: the fastest harmonic.",
    shows=("modes-under-attention", "circle-modes"),
)
def side_by_side(run: Run) -> Figure:
    early, late = clusters.runs_of_attention(run.quick, run.seed)
    fine = np.linspace(0, clusters.LATE[-1], 60)
    with look():
        figure = blank(6.2, 3.6)
        axes = figure.subplots()
        axes.plot(late.times, late.modes.mean(axis=1), color=PALETTE[0], label="modes, 128 tokens")
        axes.plot(early.times, early.modes.mean(axis=1), color=PALETTE[1], label="modes, 384 tokens")
        axes.plot(late.times, late.clusters.mean(axis=1), "o", color=PALETTE[0], label="clusters, 128 tokens")
        axes.plot(fine, [circle_modes(late.beta, t) for t in fine], "--", color="0.4", lw=1, label="linear theory")
        axes.axhline(fastest_harmonic(late.beta), ls=":", color="0.4", lw=1)
        axes.set(xlabel="$t$", ylabel="number", yscale="log", ylim=(5, 100))
        axes.set_yticks([5, 10, 20, 50, 100], labels=["5", "10", "20", "50", "100"])
        axes.minorticks_off()
        axes.legend()
    return figure
