"""The paper's pictures: potential, atoms and first variation; the cascades; the exact minimiser beside the flow."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow import landscape
from sphereflow.claims import Run
from sphereflow.landscape import CriticalPoint, Problem
from sphereflow.landscape.pictures import curves
from sphereflow.papers.perceptrons_localization import PAPER, confinement, flows, linear, splitting
from sphereflow.pictures import PALETTE, blank, look

_ARC = ([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], [r"$-\pi$", r"$-\pi/2$", "0", r"$\pi/2$", r"$\pi$"])


def signed(found: CriticalPoint) -> np.ndarray:
    """Angles in (-pi, pi]."""
    return np.mod(found.angles + np.pi, 2 * np.pi) - np.pi


@PAPER.figure(
    "potential-atoms-variation",
    caption="Top: half the potential (blue) and the atoms of the certified minimiser (orange, by mass). Bottom: the "
    "first variation above its minimum, which vanishes exactly at the atoms. Left: one repelling neuron at beta = 5. "
    "Right: three random relu neurons at beta = 3.",
    shows=("no-perceptron", "generic-atoms"),
)
def potential_atoms_variation(run: Run) -> Figure:
    left = landscape.minimise(confinement.problem(5.0))
    right = landscape.minimise(Problem.random(3.0, 2, 3, seed=5, scale=0.3))
    with look():
        figure = blank(8.4, 4.6)
        panels = figure.subplots(2, 2, sharex="col")
        for column, found in enumerate((left, right)):
            curves(found, panels[0, column], panels[1, column])
            panels[0, column].set_title(f"{len(found)} atoms, gap {found.gap:.0e}", fontsize=10)
    return figure


@PAPER.figure(
    "splitting-cascade",
    caption="Angles of the atoms of the minimiser against the strength w of an attracting relu neuron at beta = 5: the "
    "Dirac splits at w = 1 along the closed form (line), a third atom appears at w = 0.4202, and so on; dots have the "
    "area of their mass. For weak weights atoms fill the whole circle.",
    shows=("splitting", "dirac-threshold", "third-atom"),
)
def splitting_cascade(run: Run) -> Figure:
    weights = np.linspace(0.02, 1.15, 30 if run.quick else 240)
    found = [landscape.minimise(splitting.problem(5.0, float(w)), 720) for w in weights]
    dense = np.linspace(0.4202, 1.0, 200)
    closed = np.array([splitting.half_angle(5.0, float(w)) for w in dense])
    with look():
        figure = blank(6.4, 4.2)
        axes = figure.subplots()
        for w, result in zip(weights, found, strict=True):
            axes.scatter(np.full(len(result), w), signed(result), s=6 + 45 * result.masses, color=PALETTE[0], lw=0)
        axes.plot(dense, closed, color=PALETTE[1], lw=1, label=r"$\cos2\delta=1-\ln(1/w)/\beta$")
        axes.plot(dense, -closed, color=PALETTE[1], lw=1)
        axes.axvline(0.420235, color="0.75", lw=0.8, ls="--", label="third atom")
        axes.set_yticks(*_ARC)
        axes.set(xlabel="$w$", ylabel=r"$\theta$", xlim=(0, 1.15), ylim=(-np.pi, np.pi))
        axes.legend(loc="upper right")
    return figure


@PAPER.figure(
    "ring-cascade",
    caption="The same in dimension three, where each branch is a ring about the neuron: polar angles against w at "
    "beta = 5 and 20.",
    shows=("ring", "ring-range"),
)
def ring_cascade(run: Run) -> Figure:
    weights = np.linspace(0.04, 1.15, 16 if run.quick else 160)
    with look():
        figure = blank(6.4, 3.6)
        axes = figure.subplots()
        for colour, beta in zip(PALETTE, (5.0, 20.0), strict=False):
            for w in weights:
                found = landscape.minimise(splitting.problem(beta, float(w), 3), 181)
                axes.scatter(np.full(len(found), w), found.angles, s=5 + 40 * found.masses, color=colour, lw=0)
            axes.plot([], [], "o", color=colour, label=rf"$\beta={beta:g}$")
        axes.set(xlabel="$w$", ylabel=r"polar angle $\delta$", xlim=(0, 1.15), ylim=(-0.05, np.pi))
        axes.legend(loc="upper right")
    return figure


@PAPER.figure(
    "exact-against-flow",
    caption="Left: energy above the certified minimum along the descent of 60 particles, with equal and with changing "
    "masses (two relu neurons, beta = 5). Right: the share of mass up to an angle for both at the last time, beside "
    "the exact minimiser: equal particles have not reached it.",
    shows=("exact-below-flow", "monotone-energy"),
)
def exact_against_flow(run: Run) -> Figure:
    beta, name = 5.0, "two neurons"
    exact = landscape.minimise(flows.problem(beta, name))
    runs = {
        "equal masses": flows.run_flow(beta, name, "descent", 80.0, run.seed),
        "changing masses": flows.run_flow(beta, name, "descent", 80.0, run.seed, 1.0),
    }
    with look():
        figure = blank(8.2, 3.6)
        left, right = figure.subplots(1, 2)
        for colour, (label, flow) in zip(PALETTE[1:], runs.items(), strict=False):
            left.semilogy(flow.ts, flow.energy - exact.energy, color=colour, label=label)
            angles = np.mod(np.arctan2(flow.positions[-1, :, 1], flow.positions[-1, :, 0]), 2 * np.pi)
            _steps(right, angles, flow.masses[-1], colour, label, 1.2)
        _steps(right, exact.angles, exact.masses, "black", "exact minimiser", 1.8)
        left.set(xlabel="$t$", ylabel=r"$E-\min E$")
        left.legend()
        right.set_xticks([0, np.pi, 2 * np.pi], ["0", r"$\pi$", r"$2\pi$"])
        right.set(xlabel=r"$\theta$", ylabel=r"$\mu([0,\theta])$", xlim=(0, 2 * np.pi), ylim=(0, 1.02))
        right.legend(loc="upper left", fontsize=8)
    return figure


def _steps(axes: object, angles: np.ndarray, masses: np.ndarray, colour: str, label: str, width: float) -> None:
    order = np.argsort(angles)
    at = np.concatenate([[0.0], angles[order], [2 * np.pi]])
    share = np.concatenate([[0.0], np.cumsum(masses[order]), [1.0]])
    axes.step(at, share, where="post", color=colour, label=label, lw=width)  # type: ignore[attr-defined]


@PAPER.figure(
    "counts",
    caption="Number of atoms of the exact minimiser (one repelling relu neuron) against the square root of beta, in "
    "both conventions, and the mass of the heaviest atom. In the peak convention atoms stay in the silent half circle.",
    shows=("atom-count",),
)
def counts(run: Run) -> Figure:
    betas = np.array([1, 2, 3, 5, 8, 12, 18]) if run.quick else np.geomspace(0.5, 80, 40)
    with look():
        figure = blank(7.6, 3.4)
        left, right = figure.subplots(1, 2)
        for colour, scale in zip(PALETTE, ("peak", "raw"), strict=False):
            kept = betas if scale == "peak" else betas[betas <= 12]
            found = [landscape.minimise(Problem(float(b), [1.0], [[1.0, 0.0]], kernel_scale=scale)) for b in kept]
            left.plot(np.sqrt(kept), [len(f) for f in found], "o-", color=colour, label=scale)
            right.plot(np.sqrt(kept), [f.masses.max() for f in found], "o-", color=colour, label=scale)
        root = np.linspace(0, np.sqrt(betas.max()), 2)
        left.plot(root, 2.6 * root, color="0.6", lw=0.8, ls="--", label=r"$2.6\sqrt{\beta}$")
        left.set(xlabel=r"$\sqrt{\beta}$", ylabel="atoms", xlim=(0, None), ylim=(0, None))
        right.set(xlabel=r"$\sqrt{\beta}$", ylabel="heaviest mass", xlim=(0, None), ylim=(0, None))
        left.legend()
    return figure


@PAPER.figure(
    "density-to-atoms",
    caption="Linear activation at beta = 3: the minimiser is a density up to a threshold B_c and atomic beyond. Left: "
    "energy above the formula of the density. Right: angles of the atoms, with the area of their mass.",
    shows=("linear-density", "linear-atoms"),
)
def density_to_atoms(run: Run) -> Figure:
    ratios = np.concatenate([[0.4, 0.7, 0.95], np.linspace(1.1, 5, 15 if run.quick else 120)])
    found = [landscape.minimise(linear.problem(float(r)), 720) for r in ratios]
    excess = [f.energy - linear.closed_energy(float(r)) for f, r in zip(found, ratios, strict=True)]
    with look():
        figure = blank(7.8, 3.4)
        left, right = figure.subplots(1, 2)
        left.semilogy(ratios, np.maximum(np.abs(excess), 1e-17), "o-", ms=3)
        left.set(xlabel="$B/B_c$", ylabel=r"$E-E_{\mathrm{density}}$")
        for ratio, result in zip(ratios, found, strict=True):
            if result.kind == "atoms":
                right.scatter(
                    np.full(len(result), ratio), result.angles, s=4 + 60 * result.masses, color=PALETTE[0], lw=0
                )
        right.axvspan(0.3, 1, color="0.9", lw=0)
        right.text(0.42, np.pi, "density", rotation=90, va="center", color="0.4")
        right.set_yticks(
            [0, np.pi / 2, np.pi, 1.5 * np.pi, 2 * np.pi], ["0", r"$\pi/2$", r"$\pi$", r"$3\pi/2$", r"$2\pi$"]
        )
        right.set(xlabel="$B/B_c$", ylabel=r"$\theta$", xlim=(0.3, 5.1), ylim=(0, 2 * np.pi))
    return figure
