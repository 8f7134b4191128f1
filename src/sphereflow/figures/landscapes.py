r"""What moves tokens: the first variation along the circle as they move, and neurons on $S^2$."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from sphereflow.dynamics import Perceptron
from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution import Trajectory
from sphereflow.figures.angles import TICKS, angles_of
from sphereflow.landscape import Problem, first_variation
from sphereflow.pictures import PALETTE, blank, check_movie, look, movie_writer, styled_figure
from sphereflow.progress import progress_bar
from sphereflow.saving import whole_file
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import tokens

_POINTS = 361


def landscape_movie(
    problem: Problem, run: Trajectory, path: str | Path, *, fps: int = 20, overwrite: bool = True
) -> Path:
    r"""A movie (.mp4, .gif) of $g=\delta E/\delta\mu$ along the circle, with the tokens on it as they move.

    ```python
    problem = sf.landscape.Problem(beta=4.0, outer=[1.0], inner=[[1.0, 0.0]])
    run = sf.landscape.flow(problem, sf.draw("uniform", 40, 2), 4.0, sign="ascent", saveat=20)
    sf.figures.landscape_movie(problem, run, "landscape.gif")
    ```
    """
    if not isinstance(problem, Problem) or problem.d != 2:
        raise SphereflowError("problem must be a `landscape.Problem` on the circle (d=2).")
    target = writable_target(path, overwrite=overwrite)
    check_movie(target.suffix.lower())
    theta = np.linspace(-np.pi, np.pi, _POINTS)
    angles, circle = angles_of(run), np.stack([np.cos(theta), np.sin(theta)], axis=1)
    frames = [np.stack([np.cos(row), np.sin(row)], axis=1) for row in angles]
    curves = [first_variation(problem, x, None, circle) for x in frames]
    heights = [first_variation(problem, x, None, x) for x in frames]
    low, high = min(map(np.min, curves)), max(map(np.max, curves))
    writer = movie_writer(target.suffix.lower(), fps)
    with look(), whole_file(target) as temporary:
        figure = blank(6.4, 4.0)
        axes = figure.add_subplot()
        margin = 0.05 * max(high - low, 1e-12)
        axes.set(xlim=(-np.pi, np.pi), ylim=(low - margin, high + margin), xlabel=r"$\theta$")
        axes.set_ylabel(r"$\delta E/\delta\mu$")
        axes.set_xticks(*TICKS)
        (curve,) = axes.plot(theta, curves[0], color=PALETTE[0])
        (dots,) = axes.plot(angles[0], heights[0], "o", color=PALETTE[1], ms=4)
        with writer.saving(figure, str(temporary), dpi=120), progress_bar("drawing", None, total=len(run)) as bar:
            for index, time in enumerate(run.ts):
                curve.set_ydata(curves[index])
                dots.set_data(angles[index], heights[index])
                axes.set_title(f"$t = {time:.2f}$")
                writer.grab_frame()
                bar.advance()
    return target


def neurons_on_sphere(perceptron: Perceptron, x: ArrayLike | None = None, *, potential: bool = True) -> Figure:
    r"""Where each neuron changes sign, $\langle a_j,x\rangle+b_j=0$, on $S^2$; tokens and the potential beneath.

    ```python
    neurons = sf.Perceptron([1.0, -1.0], [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]], [0.2, 0.0])
    sf.figures.neurons_on_sphere(neurons, sf.draw("uniform", 100, 3))
    ```
    """
    if not isinstance(perceptron, Perceptron) or perceptron.inner.shape[1] != 3:
        raise SphereflowError("perceptron must be a `Perceptron` on tokens of dimension 3.")
    longitude, latitude = np.meshgrid(np.linspace(-np.pi, np.pi, 361), np.linspace(-np.pi / 2, np.pi / 2, 181))
    flat = np.stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=-1
    ).reshape(-1, 3)
    inputs = flat @ np.asarray(perceptron.inner).T + np.asarray(perceptron.bias)
    with styled_figure(6.8, 3.6) as figure:
        axes = figure.add_subplot(projection="mollweide")
        if potential:
            values = np.asarray(perceptron.potential(jnp.asarray(flat))).reshape(longitude.shape)
            shown = axes.pcolormesh(longitude, latitude, values, shading="gouraud", cmap="Greys_r", rasterized=True)
            figure.colorbar(shown, ax=axes, shrink=0.75, label="potential")
        for neuron, row in enumerate(inputs.T):
            colour = PALETTE[neuron % len(PALETTE)]
            if row.min() < 0 < row.max():  # a neuron whose sign never changes has no line
                axes.contour(longitude, latitude, row.reshape(longitude.shape), levels=[0.0], colors=[colour])
        if x is not None:
            points = np.asarray(tokens(x, "x"))
            if points.shape[-1] != 3 or points.ndim != 2:
                raise SphereflowError(f"x must be tokens of shape (n, 3), got {points.shape}.")
            at = np.arctan2(points[:, 1], points[:, 0]), np.arcsin(np.clip(points[:, 2], -1, 1))
            axes.plot(*at, "o", ms=3, color=PALETTE[1], mec="white", mew=0.4)
        axes.set(xticklabels=[], yticklabels=[])
    return figure
