"""The paper's pictures: scalar curves against particles, and the experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.evolution import phase_diagram
from sphereflow.papers.mathematical_perspective.circle import growth_rate, measured_growth_rate
from sphereflow.papers.mathematical_perspective.energy import raw_energy
from sphereflow.papers.mathematical_perspective.equiangular import collapse_time, gamma
from sphereflow.papers.mathematical_perspective.high_dimension import N, tokens_in_span
from sphereflow.papers.mathematical_perspective.long_context import limit_inner, output_inner
from sphereflow.papers.mathematical_perspective.normalisation import (
    BETA,
    SCHEMES,
    SWITCH,
    TIMES,
    particle_schemes,
    reduction,
)
from sphereflow.papers.mathematical_perspective.normalisation import N as SCHEME_TOKENS
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import Model, follow, gaps, uniform_tokens
from sphereflow.papers.mathematical_perspective.phase import diagram
from sphereflow.pictures import look


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _shades(count: int) -> list[tuple[float, ...]]:
    return [colormaps["viridis"](v) for v in np.linspace(0.0, 0.85, count)]


@PAPER.figure(
    "gamma-family",
    caption="Inner products of 32 uniform tokens in dimension 8192 (bands: smallest to largest pair; dots: "
    "mean) against the scalar equation started from orthogonality (lines), under SA and USA.",
    shows=("high-dimension-mean", "high-dimension-error", "usa-in-high-dimension", "orthogonal-start"),
)
def gamma_family(run: Run) -> Figure:
    panels: list[tuple[Model, tuple[float, ...], float]] = [
        ("sa", (0, 1, 3, 5, 7), 40.0),
        ("usa", (0, 1, 2, 3, 5), 8.0),
    ]
    x0 = tokens_in_span(np.random.default_rng(run.seed), 1, N, 8192)[0]
    with look():
        figure = _figure(9, 3.6)
        for axes, (model, betas, last) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
            times, dense = np.geomspace(0.05, last, 25), np.geomspace(0.05, last, 300)
            for beta, shade in zip(betas, _shades(len(betas)), strict=True):
                inner = 1 - gaps(follow(model, beta, x0, times, tol=1e-8))
                axes.fill_between(times, inner.min(axis=1), inner.max(axis=1), color=shade, alpha=0.15, lw=0)
                axes.plot(dense, gamma(dense, N, beta, model), color=shade, lw=1.3, label=rf"$\beta={beta:g}$")
                axes.plot(times, inner.mean(axis=1), "o", ms=2.5, color=shade)
            axes.set(xscale="log", xlim=(0.05, last), xlabel="$t$", title=model.upper())
            axes.legend(loc="upper left", fontsize=8)
        axes.set_title("USA (raw kernel)")
        figure.axes[0].set_ylabel(r"$\langle x_i,x_j\rangle$")
    return figure


@PAPER.figure(
    "phase-diagram",
    caption="Fraction of pairs of tokens with inner product above 0.999 under SA from uniform starts, 32 tokens. "
    "White: the curve on which the scalar equation reaches 0.999, one integral per temperature. On the circle "
    "several clusters form early and persist; as the dimension grows the diagram follows the curve.",
    shows=("phase-curve", "phase-curve-needs-dimension", "phase-jump", "phase-diagram-accuracy"),
)
def phase_figure(run: Run) -> Figure:
    dimensions = (2, 16) if run.quick else (2, 8, 128)
    diagrams = [diagram(run, d) for d in dimensions]
    with look():
        figure = _figure(3.6 * len(diagrams) + 0.8, 3.6)
        panels = figure.subplots(1, len(diagrams), sharey=True)
        for axes, d, result in zip(panels, dimensions, diagrams, strict=True):
            mesh = axes.pcolormesh(
                result.times,
                result.betas,
                result.value,
                cmap="magma",
                vmin=0,
                vmax=1,
                shading="nearest",
                rasterized=True,
            )
            betas = np.linspace(0, 9, 200)
            axes.plot([collapse_time(32, b) for b in betas], betas, color="white", lw=1.5)
            axes.set(xlim=(0, 30), ylim=(0.1, 9), xlabel="$t$", title=f"$d={d}$, {len(result.samples)} starts")
        figure.axes[0].set_ylabel(r"$\beta$")
        figure.colorbar(mesh, ax=figure.axes, label="fraction of close pairs")
    return figure


@PAPER.figure(
    "phase-diagrams-of-matrices",
    presets=("paper",),
    caption="Other diagrams, 32 tokens, 32 replicas, each with its own matrices. USA with the raw kernel in "
    "dimension 2; the number of clusters if Q^T K and V come from the GOE, kept or drawn anew at every unit of "
    "time; and if V is their negative.",
    shows=("random-form-speed", "repulsion-finds-the-simplex", "clusters-as-a-rank"),
)
def matrices_figure(run: Run) -> Figure:
    betas, long, short = np.linspace(0.1, 9, 30), np.linspace(0, 30, 61), np.linspace(0, 1, 41)
    goe: Any = {"d": 8, "matrices": "goe", "observable": "clusters", "seed": run.seed, "progress": run.notify}
    diagrams = {
        "USA, raw kernel": phase_diagram(short, betas, model="usa", kernel_scale="raw", seed=run.seed),
        "GOE, $V=Q^TK$": phase_diagram(long, betas, value="form", **goe),
        "GOE, $V=Q^TK$, resampled": phase_diagram(long, betas, value="form", resample=1.0, **goe),
        "GOE, $V=-Q^TK$": phase_diagram(long, betas, value="-form", **goe),
    }
    with look():
        figure = _figure(9.6, 6.4)
        for axes, (title, found) in zip(figure.subplots(2, 2).flat, diagrams.items(), strict=True):
            value = np.ma.masked_invalid(found.value)
            drawn = axes.pcolormesh(found.times, found.betas, value, cmap="magma", shading="nearest", rasterized=True)
            if found.curve is not None:
                axes.plot(found.curve, found.betas, color="white", lw=1.5)
            axes.set(xlim=(0, found.times[-1]), xlabel="$t$", ylabel=r"$\beta$", title=title)
            figure.colorbar(drawn, ax=axes, label=found.words)
    return figure


@PAPER.figure(
    "energy",
    caption="The energy, relative to that of a single cluster, along SA from 32 uniform tokens on the sphere S^2. It "
    "never decreases; at large beta it rests on plateaus while clusters wait to merge.",
    shows=("energy-increases", "dissipation-identity"),
)
def energy_figure(run: Run) -> Figure:
    betas = (1, 3, 5, 7, 9)
    x0 = uniform_tokens(run.seed, 32, 3)
    with look():
        figure = _figure(5.2, 3.4)
        axes = figure.subplots()
        times = np.geomspace(0.1, 1000, 25)
        for beta, shade in zip(betas, _shades(len(betas)), strict=True):
            values = np.array([raw_energy(x, beta) for x in follow("sa", beta, x0, times, tol=1e-8)])
            axes.plot(times, values * 2 * beta * np.exp(-beta), "o-", ms=2.5, color=shade, label=rf"$\beta={beta}$")
        axes.set(xscale="log", xlabel="$t$", ylabel=r"$E_\beta\,/\,(e^\beta/2\beta)$", ylim=(0, 1.05))
        axes.legend(fontsize=8)
    return figure


@PAPER.figure(
    "growth-spectrum",
    caption="Growth rates of waves on the uniform density of the circle under SA: Bessel formula (lines) and "
    "velocities of 512 weighted tokens (dots). Right: the fastest wave number against sqrt(2 beta).",
    shows=("growth-rates", "fastest-mode"),
)
def growth_figure(run: Run) -> Figure:
    with look():
        figure = _figure(8.6, 3.4)
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        betas = (2.0, 8.0, 25.0, 50.0, 100.0)
        for beta, shade in zip(betas, _shades(len(betas)), strict=True):
            waves = np.arange(1, 31)
            left.plot(waves, growth_rate(waves, beta, "sa"), color=shade, lw=1.2, label=rf"$\beta={beta:g}$")
            left.plot(waves, [measured_growth_rate(int(k), beta, "sa") for k in waves], "o", ms=2.5, color=shade)
        left.set(xlabel="wave number $k$", ylabel=r"$\lambda_k$")
        left.legend(fontsize=8)
        many = np.geomspace(2, 400, 60)
        fastest = [1 + np.argmax(growth_rate(np.arange(1, 60), beta, "sa")) for beta in many]
        right.plot(many, np.sqrt(2 * many), color="0.6", lw=1.2, label=r"$\sqrt{2\beta}$")
        right.plot(many, fastest, ".", ms=4, color=_shades(2)[0], label=r"fastest $k$")
        right.set(xscale="log", yscale="log", xlabel=r"$\beta$", ylabel="$k$")
        right.set_yticks([2, 5, 10, 20], labels=["2", "5", "10", "20"])
        right.set_yticks([], minor=True)
        right.legend(fontsize=8)
    return figure


@PAPER.figure(
    "long-context",
    caption="One attention layer on n tokens with inner product 0.4 and beta = g log n: inner product of the outputs. "
    "As n grows, everything is averaged below the critical g = 1/(1 - 0.4), and left as it was above.",
    shows=("one-layer-exact", "long-context-transition"),
)
def long_context_figure(run: Run) -> Figure:
    rho, relative = 0.4, np.linspace(0.4, 1.8, 281)
    with look():
        figure = _figure(5.2, 3.4)
        axes = figure.subplots()
        lengths = (2, 4, 8, 16, 64)
        for power, shade in zip(lengths, _shades(len(lengths)), strict=True):
            n = 10.0**power
            values = [output_inner(n, rho, g / (1 - rho) * np.log(n)) for g in relative]
            axes.plot(relative, values, color=shade, lw=1.3, label=rf"$n=10^{{{power}}}$")
        axes.plot([0.4, 1, 1, 1.8], [1, 1, rho, rho], color="black", lw=0.8, ls="--", label=r"$n=\infty$")
        axes.plot(1, limit_inner(rho, 1.0), "o", ms=4, color="black")
        axes.annotate(r"$\frac{4\rho}{1+3\rho}$", (1, limit_inner(rho, 1.0)), xytext=(8, 2), textcoords="offset points")
        axes.set(xlabel=r"$g/g_c$", ylabel=r"$\langle\theta_i,\theta_j\rangle$", ylim=(0.3, 1.05))
        axes.legend(fontsize=8)
    return figure


@PAPER.figure(
    "normalisation",
    caption="How fast directions align under each normalisation scheme, from 10 orthogonal tokens at beta = 2: "
    "particles (dots) and the scalar equation (lines). Pre-LN and Peri-LN slow down to a power law: collapse is late.",
    shows=("scheme-reduction", "scheme-rates", "pre-norm-radius"),
)
def normalisation_figure(run: Run) -> Figure:
    names = {
        "post": "Post-LN",
        "ngpt": "nGPT",
        "ngpt-slow": r"nGPT, $\alpha_t=(1+t)^{-1/2}$",
        "sqrt": "sqrt-scaling",
        "peri": "Peri-LN",
        "pre": "Pre-LN",
        "ln-scaling": "LN-Scaling",
        "mix": f"Mix-LN, switch at {SWITCH:g}",
    }
    assert set(names) == set(SCHEMES)
    with look():
        figure = _figure(5.8, 3.8)
        axes = figure.subplots()
        dense = np.geomspace(0.1, 1000, 200)
        for (scheme, name), shade in zip(names.items(), _shades(len(names)), strict=True):
            axes.plot(dense, np.exp(-reduction(scheme, SCHEME_TOKENS, BETA, dense)[0]), color=shade, lw=1.2, label=name)
            gap = particle_schemes()[scheme][0]
            seen = (gap > 1e-16) & (TIMES > 0.1)
            axes.plot(TIMES[seen], gap[seen], "o", ms=2, color=shade)
        axes.set(xscale="log", yscale="log", xlim=(0.1, 1000), ylim=(1e-12, 2), xlabel="$t$", ylabel=r"$1-\rho(t)$")
        axes.legend(fontsize=8, loc="lower left")
    return figure


@PAPER.figure(
    "sphere",
    caption="Uniform tokens (64, in the quick preset 32) on the sphere under SA: at beta = 1 they collapse straight "
    "to one point, at beta = 9 they first gather in several clusters that persist.",
    shows=("one-cluster", "clusters-from-noise"),
)
def sphere_figure(run: Run) -> Figure:
    shown, times = (0.0, 3.0, 7.5, 15.0), np.linspace(0, 15, 21)
    with look():
        figure = _figure(9, 4.8)
        grid = figure.add_gridspec(2, len(shown))
        for row, beta in enumerate((1.0, 9.0)):
            x0 = uniform_tokens(run.seed, 32 if run.quick else 64, 3)
            xs = np.concatenate([x0[None], follow("sa", beta, x0, times[1:], tol=1e-8)])
            for column, t in enumerate(shown):
                axes = figure.add_subplot(grid[row, column], projection="3d")
                _draw_sphere(axes, xs[: int(np.argmin(np.abs(times - t))) + 1])
                axes.set_title(rf"$\beta={beta:g},\ t={t:g}$", y=0.98)
    return figure


def _draw_sphere(axes: object, xs: np.ndarray) -> None:
    """Tokens at the last of the given times with their paths, on a globe of thin circles."""
    draw: object = axes
    turn = np.linspace(0, 2 * np.pi, 61)
    for height in np.linspace(-0.75, 0.75, 5):
        radius = np.sqrt(1 - height**2)
        draw.plot(radius * np.cos(turn), radius * np.sin(turn), height, color="0.85", lw=0.4)  # type: ignore[attr-defined]
    for token in range(xs.shape[1]):
        draw.plot(*xs[:, token].T, color="0.6", lw=0.4)  # type: ignore[attr-defined]
    hue = colormaps["viridis"]((xs[0, :, 2] + 1) / 2)
    draw.scatter(*xs[-1].T, c=hue, s=10, depthshade=False)  # type: ignore[attr-defined]
    draw.set_axis_off()  # type: ignore[attr-defined]
    draw.set_box_aspect((1, 1, 1), zoom=1.5)  # type: ignore[attr-defined]
