r"""Histograms of tokens on the circle and on $S^2$, over the uniform law: 1 everywhere for uniform tokens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.evolution.density import circle_density
from sphereflow.figures.angles import TICKS, Potential, potential_values
from sphereflow.pictures import PALETTE, styled_figure
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import tokens

KINDS = ("linear", "circular")


def histogram(
    samples: Mapping[str, ArrayLike] | ArrayLike,
    *,
    kind: str = "linear",
    bins: int = 72,
    potential: Potential | None = None,
) -> Figure:
    """The density of tokens (n, 2) on the circle, or of several sets of them by name, one over the other.

    **Arguments:**

    - `kind`: "linear", against the angle, or "circular", around the circle.
    - `potential`: a perceptron or a function of the angle, as a grey line with its own axis (linear kind only).

    ```python
    run = sf.simulate(n=2000, d=2, beta=9.0, t1=2.0, saves=3)
    sf.figures.histogram({"start": run.frame(0), "end": run.final}, kind="circular")
    ```
    """
    one_of("kind", kind, KINDS)
    bins = whole_number("bins", bins, least=4, most=10_000)
    named = samples if isinstance(samples, Mapping) else {"": samples}
    if not 1 <= len(named) <= len(PALETTE):
        raise SphereflowError(f"samples must be 1 to {len(PALETTE)} sets of tokens, got {len(named)}.")
    if potential is not None and kind == "circular":
        raise SphereflowError("a potential is drawn behind a linear histogram only.")
    with styled_figure(*((6.4, 3.8) if kind == "linear" else (4.8, 4.8))) as figure:
        axes = figure.add_subplot(projection=None if kind == "linear" else "polar")
        for (name, given), colour in zip(named.items(), PALETTE, strict=False):
            angles, density = circle_density(_on(given, 2), bins)
            axes.bar(angles, density, 2 * np.pi / bins, color=colour, alpha=0.45, lw=0, label=name)
        if kind == "linear":
            axes.set(xlim=(-np.pi, np.pi), xlabel=r"$\theta$", ylabel="density over uniform")
            axes.set_xticks(*TICKS)
        else:
            axes.set_yticklabels([])
        if potential is not None:
            theta = np.linspace(-np.pi, np.pi, 721)
            line = axes.twinx()
            line.plot(theta, potential_values(potential, theta), color="0.4", lw=1)
            line.set_ylabel("potential", color="0.4")
        if any(named):
            figure.legend(loc="outside lower center", ncols=len(named))
    return figure


def sphere_cells(x: np.ndarray, bands: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Edges in longitude and in height, and densities over uniform in cells of equal area on $S^2$."""
    longitude, height = np.linspace(-np.pi, np.pi, 2 * bands + 1), np.linspace(-1, 1, bands + 1)
    at = np.arctan2(x[:, 1], x[:, 0]), np.clip(x[:, 2], -1, 1)
    counts, _, _ = np.histogram2d(*at, bins=(longitude, height))
    return longitude, height, counts * counts.size / len(x)


def sphere_histogram(x: ArrayLike, *, bands: int = 16) -> Figure:
    r"""The density of tokens (n, 3) on $S^2$ in cells of equal area, `bands` in height and twice as many around.

    ```python
    sf.figures.sphere_histogram(sf.draw("vmf", 4000, 3))
    ```
    """
    bands = whole_number("bands", bands, least=2, most=500)
    longitude, height, density = sphere_cells(_on(x, 3), bands)
    with styled_figure(6.8, 3.6) as figure:
        axes = figure.add_subplot(projection="mollweide")
        shown = axes.pcolormesh(longitude, np.arcsin(height), density.T, rasterized=True)
        figure.colorbar(shown, ax=axes, shrink=0.75, label="density over uniform")
        axes.set(xticklabels=[], yticklabels=[])
    return figure


def _on(given: ArrayLike, d: int) -> np.ndarray:
    x = np.asarray(tokens(given, "samples"))
    if x.ndim != 2 or x.shape[1] != d:
        raise SphereflowError(f"samples must be tokens of shape (n, {d}), got {x.shape}.")
    return x
