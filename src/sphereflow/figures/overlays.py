r"""Several results on one axis: retrieval profiles, and numbers of clusters against $\sqrt\beta$."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, real_number
from sphereflow.evolution import Trajectory
from sphereflow.figures.checks import checked_names, checked_run
from sphereflow.observables import cluster_masses
from sphereflow.pictures import PALETTE, styled_figure
from sphereflow.retrieval import Profile, PromptProfile
from sphereflow.retrieval.plots import draw_profile


def profiles(named: Mapping[str, Profile | PromptProfile]) -> Figure:
    """Retrieval profiles on one axis, each with its minimum.

    ```python
    sf.figures.profiles({f"t = {t}": sf.retrieval.profile(1.0, 1.0, t) for t in (0.5, 1.0, 2.0)})
    ```
    """
    curves = {name: each for name, each in checked_names("named", named).items() if isinstance(each, Profile)}
    if not named or len(curves) < len(named):
        raise SphereflowError("named must be profiles of `retrieval.profile` in closed form, by name.")
    with styled_figure(6.4, 4.0) as figure:
        axes = figure.add_subplot()
        for place, (name, profile) in enumerate(curves.items()):
            draw_profile(axes, profile, color=PALETTE[place % len(PALETTE)], label=name)
        axes.set_ylabel("N (accuracy − baseline)")
        axes.legend(loc="best")
    return figure


def cluster_statistics(run: Trajectory, threshold: float = 0.999) -> tuple[np.ndarray, np.ndarray]:
    """For each replica of the last frame: the number of clusters of two tokens or more, and the mass of the largest."""
    replicas = run.final.reshape((-1, run.n, run.d))
    masses = [cluster_masses(x, threshold) for x in replicas]
    return np.array([np.sum(m > 1.5 / run.n) for m in masses]), np.array([m[0] for m in masses])


def counts_against_beta(trajectories: Mapping[float, Trajectory], *, threshold: float = 0.999) -> Figure:
    r"""Clusters and the largest mass where flows ended, against $\sqrt\beta$: means over replicas, one standard error.

    `trajectories` are by inverse temperature; a cluster has two tokens or more. A line through the origin is fitted to
    the counts.

    ```python
    x0 = [sf.draw("uniform", 60, 2, seed) for seed in range(4)]
    runs = {beta: sf.evolve(sf.USA(beta), x0, 60.0, saveat=2) for beta in (4.0, 9.0, 16.0)}
    sf.figures.counts_against_beta(runs)
    ```
    """
    for each in checked_names("trajectories", trajectories).values():
        checked_run(each)
    if len(trajectories) < 2:
        raise SphereflowError(f"trajectories must be of two inverse temperatures or more, got {len(trajectories)}.")
    betas = np.array([real_number("beta", beta, above=0) for beta in trajectories])
    statistics = [cluster_statistics(run, threshold) for run in trajectories.values()]
    with styled_figure(8.4, 3.6) as figure:
        count, mass = figure.subplots(1, 2)
        for axes, values, label in (
            (count, [each[0] for each in statistics], "clusters"),
            (mass, [each[1] for each in statistics], "mass of the largest cluster"),
        ):
            means = np.array([np.mean(v) for v in values])
            errors = np.array([np.std(v, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in values])
            axes.errorbar(np.sqrt(betas), means, errors, fmt="o", color=PALETTE[0], capsize=2)
            over = len(values[0])
            words = label if over == 1 else f"{label}, mean of {over}"
            axes.set(xlabel=r"$\sqrt{\beta}$", ylabel=words, ylim=(0, None))
            if label == "clusters":
                slope = float(means @ np.sqrt(betas) / betas.sum())
                ends = np.array([0, np.sqrt(betas.max())])
                axes.plot(ends, slope * ends, "--", color="0.5", label=rf"${slope:.2f}\sqrt{{\beta}}$")
                axes.legend(loc="upper left")
    return figure
