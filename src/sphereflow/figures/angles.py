"""Angles of tokens on the circle against time, with their potential behind them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sphereflow.dynamics import Perceptron
from sphereflow.errors import SphereflowError
from sphereflow.evolution import Trajectory
from sphereflow.figures.checks import checked_run
from sphereflow.pictures import AROUND, styled_figure
from sphereflow.reading import real_array
from sphereflow.sphere import from_angles

_MOST = 400
_SHADES = 361
TICKS = ([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], [r"$-\pi$", r"$-\pi/2$", "0", r"$\pi/2$", r"$\pi$"])

Potential = Perceptron | Callable[[np.ndarray], np.ndarray]


def angles_of(run: Trajectory) -> np.ndarray:
    """Angles (T, n) of the tokens of the first replica, for a run on the circle."""
    checked_run(run)
    if run.d != 2 or run.model.traits.space != "sphere":
        raise SphereflowError(f"angles are those of tokens on the circle (d=2), got d={run.d}.")
    xs = np.stack([run.frame(i).reshape((-1, run.n, 2))[0] for i in range(len(run))])
    return np.arctan2(xs[..., 1], xs[..., 0])


def potential_values(potential: Potential, theta: np.ndarray) -> np.ndarray:
    """The potential at angles: v of a perceptron, or a function of the angle."""
    if isinstance(potential, Perceptron):
        return np.asarray(potential.potential(from_angles(theta)))
    if not callable(potential):
        raise SphereflowError(f"potential must be a perceptron or a function of the angle, got {potential!r}.")
    return real_array("potential", potential(theta), shape=theta.shape)


def angle_paths(run: Trajectory, *, potential: Potential | None = None, log_time: bool = False) -> Figure:
    """Angle against time for each token (the first replica, at most 400 of them), coloured by where it began.

    **Arguments:**

    - `potential`: a perceptron, or a function of the angle: drawn behind the paths, light where it is high.
    - `log_time`: time on a logarithmic axis, from the first saved time after t0 on.

    ```python
    neuron = sf.Perceptron([1.0], [[1.0, 0.0]])
    run = sf.evolve(sf.USA(4.0) + neuron, sf.draw("uniform", 60, 2), 20.0)
    sf.figures.angle_paths(run, potential=neuron, log_time=True)
    ```
    """
    theta, ts = angles_of(run), run.ts - run.t0
    chosen = np.linspace(0, run.n - 1, min(run.n, _MOST)).astype(int)
    first = int(np.argmax(ts > 0)) if log_time else 0
    if len(ts) - first < 2:
        raise SphereflowError("paths need two frames or more after the start.")
    with styled_figure(6.4, 4.2) as figure:
        axes = figure.add_subplot()
        if potential is not None:
            edges = np.linspace(-np.pi, np.pi, _SHADES)
            values = potential_values(potential, (edges[:-1] + edges[1:]) / 2)
            shown = axes.pcolormesh(ts[[first, -1]], edges, values[:, None], cmap="Greys_r", alpha=0.6, rasterized=True)
            figure.colorbar(shown, ax=axes, label="potential", shrink=0.8, pad=0.01)
        for token in chosen:
            pieces = _pieces(ts[first:], theta[first:, token])
            colour = AROUND((theta[0, token] / (2 * np.pi)) % 1)
            axes.add_collection(LineCollection(pieces, colors=[colour], linewidths=0.9))
        axes.set(xlim=ts[[first, -1]], ylim=(-np.pi, np.pi), xlabel="$t$" if run.t0 == 0 else "$t-t_0$")
        axes.set_ylabel(r"$\theta$")
        if log_time:
            axes.set_xscale("log")
        axes.set_yticks(*TICKS)
    return figure


def _pieces(ts: np.ndarray, theta: np.ndarray) -> list[np.ndarray]:
    """The path cut where it passes from one end of the range of angles to the other."""
    cuts = np.flatnonzero(np.abs(np.diff(theta)) > np.pi) + 1
    return [np.stack(both, axis=1) for both in zip(np.split(ts, cuts), np.split(theta, cuts), strict=True)]
