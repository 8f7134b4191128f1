"""The paper's pictures: the planes of both kernels, overlaps in a bath, the noise floor, capacity and escape times."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.memory import compact, gaussian, spherical
from sphereflow.memory.escape import log_escape_time, potential
from sphereflow.memory.noise import sample_log_noise
from sphereflow.memory.phases import PhaseDiagram, phase_diagram
from sphereflow.memory.pictures import draw
from sphereflow.memory.state import REFERENCE_B, lse_mean_overlap, lsr_mean_overlap
from sphereflow.papers.dense_associative_memory import PAPER, escape, simulations
from sphereflow.pictures import PALETTE, blank, look

_KINETIC = "Dotted curves are kinetic: where the escape time at that N equals the stated time, and no phase boundary."


@PAPER.figure(
    "plane-lse",
    caption=f"Load and temperature for the Gaussian kernel at beta = 1, with every named line. {_KINETIC}",
    shows=("published-lse-line", "boundary-of-the-gaussian-kernel", "kinetic-boundary"),
)
def plane_lse(run: Run) -> Figure:
    return draw(_plane(run, "lse", 1.0, 1.25 * float(spherical.capacity(1.0))))


@PAPER.figure(
    "plane-lsr",
    caption="Load and temperature for the compact kernel at b = 3.41421. The line as published contradicts the "
    f"published noise floor, which gives the other dashed line; neither is a boundary on the sphere. {_KINETIC}",
    shows=("printed-lsr-line", "compact-threshold", "boundary-of-the-compact-kernel"),
)
def plane_lsr(run: Run) -> Figure:
    return draw(_plane(run, "lsr", REFERENCE_B, 1.6 * compact.threshold(REFERENCE_B)))


def _plane(run: Run, kernel: str, sharpness: float, top: float) -> PhaseDiagram:
    """The plane up to a load, on a coarser grid in the quick preset."""
    if not run.quick:
        return phase_diagram(kernel, sharpness)
    return phase_diagram(
        kernel, sharpness, loads=np.linspace(top / 60, top, 60), temperatures=np.linspace(0.025, 2.0, 45)
    )


@PAPER.figure(
    "overlap-in-a-bath",
    caption="Mean overlap with the target at N = 50 with 148 patterns (dots, with standard errors) against one pattern "
    "alone (lines). LSE loses the memory during the run once the escape time is shorter than it; LSR keeps it.",
    shows=("one-memory-in-a-bath", "lost-and-kept"),
)
def overlap_in_a_bath(run: Run) -> Figure:
    dense = np.linspace(0.03, 2.6, 120)
    curves = {
        "lse": [lse_mean_overlap(simulations.N, t) for t in dense],
        "lsr": [lsr_mean_overlap(simulations.N, t, REFERENCE_B) for t in dense],
    }
    with look():
        figure = blank(6.4, 4.2)
        axes = figure.subplots()
        for colour, kernel in zip(PALETTE, ("lse", "lsr"), strict=False):
            mean, error = simulations.overlaps_in_bath(kernel, simulations.N, *simulations.preset(run), run.seed)
            axes.plot(dense, curves[kernel], color=colour, label=f"{kernel.upper()}, one pattern at $N=50$")
            axes.errorbar(
                simulations.TEMPERATURES[kernel],
                mean,
                error,
                fmt="o",
                color=colour,
                ms=4,
                capsize=2,
                label=f"{kernel.upper()}, 148 patterns",
            )
        axes.axvline(
            float(spherical.spinodal_temperature(0.1, 1.0)),
            color="0.6",
            lw=0.8,
            ls="--",
            label="spinodal of LSE at this load",
        )
        axes.set(xlabel="$T$", ylabel=r"$\langle\phi\rangle$", xlim=(0, 2.6), ylim=(-0.1, 1.05))
        figure.legend(fontsize=8, loc="outside lower center", ncols=3)
    return figure


@PAPER.figure(
    "noise-floor",
    caption="Typical noise at beta = 1, drawn in law without storing patterns: below alpha* it follows the extreme "
    "overlap, above it the straight line, in each case from below as N grows.",
    shows=("typical-noise", "mean-noise"),
)
def noise_floor(run: Run) -> Figure:
    loads, dense = np.linspace(0.04, 0.6, 12), np.linspace(0.001, 0.62, 300)
    with look():
        figure = blank(6.4, 3.8)
        axes = figure.subplots()
        axes.plot(dense, spherical.noise_overlap(dense, 1.0), color="black", label="limit, spherical layer")
        axes.plot(dense, 1 - gaussian.lse_noise_floor(dense, 1.0), color="0.6", ls="--", label="limit, Gaussian layer")
        axes.plot(dense, dense + spherical.g_max(1.0), color="0.75", ls=":", label="branch of the mean at every load")
        for colour, n in zip(PALETTE, (40, 150, 600), strict=False):
            values = [1 + np.mean(sample_log_noise(n, a, 1.0, 60, run.seed)) / n for a in loads]
            axes.plot(loads, values, "o", ms=3.5, color=colour, label=f"$N={n}$")
        axes.axvline(spherical.load_switch(1.0), color="0.8", lw=0.8)
        axes.annotate(r"$\alpha^*$", (spherical.load_switch(1.0) + 0.008, 0.04), color="0.4")
        axes.set(xlabel=r"$\alpha$", ylabel=r"$\phi_{noise}$", xlim=(0, 0.62), ylim=(0, 1.05))
        axes.legend(fontsize=8, loc="lower right")
    return figure


@PAPER.figure(
    "capacity-against-sharpness",
    caption="Capacity at zero temperature against the sharpness of the kernel: bounded by 1/2 in the Gaussian layer, "
    "unbounded on the sphere.",
    shows=("capacity", "capacity-of-gaussian-overlaps"),
)
def capacity_against_sharpness(run: Run) -> Figure:
    betas = np.geomspace(0.05, 50, 200)
    with look():
        figure = blank(5.6, 3.6)
        axes = figure.subplots()
        axes.plot(betas, spherical.capacity(betas), label=r"spherical layer, $\beta-g_{max}(\beta)$")
        axes.plot(betas, [gaussian.lse_capacity(b) for b in betas], "--", label="Gaussian layer")
        axes.plot(betas, [spherical.separation_bound(b) for b in betas], ":", label="bound from separated patterns")
        axes.plot(
            betas[betas > 1],
            np.log(betas[betas > 1]) / 2 + 0.5,
            color="0.6",
            lw=0.8,
            label=r"$\frac{1}{2}\ln\beta+\frac{1}{2}$",
        )
        axes.set(xscale="log", xlabel=r"$\beta$", ylabel=r"$\alpha_c$", xlim=(0.05, 50), ylim=(0, None))
        axes.legend(fontsize=8)
    return figure


@PAPER.figure(
    "escape",
    caption="Left: the free-energy profile at load 0.35, with its cusp at the noise floor. Right: mean escape times by "
    "quadrature (lines) and by Langevin walkers (dots, with standard errors).",
    shows=("escape-time", "escape-decades"),
)
def escape_figure(run: Run) -> Figure:
    cells = escape.points(run)
    _, seen = escape.observed(cells, escape.ESCAPES[run.preset], run.seed)
    noise, phi = float(spherical.noise_overlap(0.35, 1.0)), np.linspace(0.2, 0.995, 400)
    sizes = np.arange(8, 100)
    with look():
        figure = blank(9.0, 3.6)
        left, right = figure.subplots(1, 2)
        for n, colour in zip((20, 50, 200), PALETTE, strict=False):
            profile = potential(phi, n, 1.0, noise) - 0.35 * (n - 3) / (2 * n) * np.log1p(-phi * phi)
            left.plot(phi, profile - profile.min(), color=colour, label=f"$N={n}$")
        left.axvline(noise, color="0.7", lw=0.8, ls="--")
        left.annotate(r"$\phi_{noise}$", (noise + 0.01, 0.16), color="0.4")
        left.set(xlabel=r"$\phi$", ylabel=r"$V_N/N$", title="$T=0.35$", ylim=(0, 0.2))
        left.legend(fontsize=8)
        for t, colour in zip((0.22, 0.27, 0.35, 0.5, 0.9), PALETTE, strict=False):
            start = np.maximum(np.full(len(sizes), spherical.lse_overlap(t)), noise)
            right.plot(
                sizes,
                np.exp(log_escape_time(sizes, 1.0, t, noise, start=start, stop=escape.STOP, cells=600)),
                color=colour,
                label=f"$T={t:g}$",
            )
            mine = [k for k, cell in enumerate(cells) if cell[1] == t]
            right.errorbar(
                [cells[k][0] for k in mine],
                [seen[k].mean for k in mine],
                [seen[k].error for k in mine],
                fmt="o",
                color=colour,
                ms=4,
                capsize=2,
            )
        right.set(xlabel="$N$", ylabel=r"$\tau$", yscale="log", ylim=(0.5, 1e6))
        right.legend(fontsize=8)
    return figure
