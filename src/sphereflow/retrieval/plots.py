"""Pictures of retrieval: the profile with its minimum, measured accuracies on it, and the (beta, t) phase diagram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.evolution import evolve
from sphereflow.pictures import PALETTE, check_movie, styled_figure
from sphereflow.retrieval.closed_form import Profile, critical_time, theorem_time
from sphereflow.retrieval.decoding import decoder, on_circle
from sphereflow.retrieval.task import MeasuredProfile
from sphereflow.seeds import Seed, rng_from


def plot_profile(profile: Profile, measured: MeasuredProfile | None = None) -> Figure:
    """N (accuracy - baseline) against the position of the source, with minima marked, and error bars if measured."""
    with styled_figure(6.4, 3.8) as figure:
        axes = figure.add_subplot()
        draw_profile(axes, profile, color=PALETTE[0], label="closed form")
        if measured is not None:
            _bars(axes, measured, profile.readout, PALETTE[1], rf"particles, $N={measured.n}$, $3\sigma$")
        axes.set_title(_title(profile))
        axes.set_ylabel("N (accuracy − baseline)")
        axes.legend(loc="best")
    return figure


def plot_measured(measured: MeasuredProfile) -> Figure:
    """N (accuracy - baseline) of both readouts against the position of the source, with three standard errors."""
    with styled_figure(6.4, 3.8) as figure:
        axes = figure.add_subplot()
        for readout, colour in (("soft", PALETTE[0]), ("hard", PALETTE[1])):
            _bars(axes, measured, readout, colour, rf"{readout} readout, $3\sigma$")
        axes.set(xlim=(0, 1), xlabel=r"position of the source $\sigma_0$", ylabel="N (accuracy − baseline)")
        axes.set_title(f"$N={measured.n}$, $M={measured.vocab}$")
        axes.legend(loc="best")
    return figure


def _bars(axes: Axes, measured: MeasuredProfile, readout: str, colour: str, label: str) -> None:
    value, error = measured.excess(readout)
    axes.errorbar(measured.sigma0, value, 3 * error, fmt="o", ms=3.5, color=colour, capsize=2, lw=1, label=label)


def draw_profile(axes: Axes, profile: Profile, *, first: float = 0.005, color: object = None, label: str = "") -> None:
    """The curve N (accuracy - baseline) with its minima as dots, on given axes."""
    sigma0 = np.concatenate([np.geomspace(first, 0.1, 150), np.linspace(0.1, 1, 250)[1:]])
    line = axes.plot(sigma0, profile.excess(sigma0), color=color, label=label)[0]
    minima = [turn.sigma0 for turn in profile.turns() if turn.kind == "minimum" and turn.sigma0 >= first]
    if minima:
        axes.plot(minima, profile.excess(minima), "o", ms=5, color=line.get_color(), mec="white", mew=0.8, zorder=4)
    axes.set(xlim=(0, 1), xlabel=r"position of the source $\sigma_0$")


def draw_phase_diagram(axes: Axes, slope: float, vocab: int, betas: np.ndarray) -> None:
    """Where in the (beta, t) plane the profile is U-shaped, with the region that the theorem covers."""
    critical = np.array([critical_time(beta, slope, vocab) for beta in betas])
    proved = np.array([theorem_time(beta, slope) for beta in betas])
    top = critical.max() * 3
    axes.fill_between(betas, critical, top, color="0.93", lw=0)
    axes.fill_between(betas, proved, critical, color=PALETTE[5], alpha=0.35, lw=0)
    axes.fill_between(betas, critical.min() / 30, proved, color=PALETTE[0], alpha=0.25, lw=0)
    axes.plot(betas, critical, color=PALETTE[1], label=r"$t_{crit}$")
    axes.plot(betas, proved, color=PALETTE[0], ls="--", label="bound of the theorem")
    axes.set(yscale="log", xlim=(betas[0], betas[-1]), ylim=(critical.min() / 10, top), xlabel=r"$\beta$", ylabel="$t$")
    axes.legend(loc="lower left")


def circle_movie(
    path: str | Path,
    *,
    n: int = 64,
    beta: float = 1.0,
    slope: float = 1.0,
    t1: float = 10.0,
    seed: Seed = 17,
    fps: int = 12,
) -> Path:
    """Write a movie (.mp4 or .gif) of tokens on the circle that start in four clusters and look back only."""
    check_movie(Path(path).suffix.lower())
    rng = rng_from(seed)
    centres = np.pi * np.linspace(0.1, 1.9, 4)
    angles = centres[np.arange(n) * 4 // n] + 0.075 * rng.normal(size=n)
    run = evolve(decoder(beta, slope, n, 2), on_circle(angles), t1, saveat=round(t1 / 0.2) + 1, tol=1e-7)
    return run.movie(path, fps=fps)


def _title(profile: Profile) -> str:
    what = profile.shape
    if len(profile.heads) == 1:
        head = profile.heads[0]
        return rf"$\beta={head.beta:g}$, $\lambda={head.slope:g}$, $t={profile.t:g}$, $M={profile.vocab}$: {what}"
    return rf"{len(profile.heads)} heads, $t={profile.t:g}$, $M={profile.vocab}$: {what}"
