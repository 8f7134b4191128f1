"""Pictures of the limits: where tokens go for each kind of V, and what becomes of the attention matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from sphereflow.claims import Run
from sphereflow.evolution import hardmax_flow
from sphereflow.observables import followed, leaders, numerical_rank
from sphereflow.papers.emergence_of_clusters import PAPER
from sphereflow.papers.emergence_of_clusters.boolean import LINE
from sphereflow.papers.emergence_of_clusters.flow import PLANAR, attention, original, rescaled, start
from sphereflow.papers.emergence_of_clusters.hyperplanes import distinct_values, left_eigenvector
from sphereflow.papers.emergence_of_clusters.mixed import VALUE as MIXED_VALUE
from sphereflow.pictures import PALETTE, blank, look

BLUE, RED, GREEN, PINK, *_ = PALETTE
_PATH: dict[str, Any] = {"color": "0.6", "linewidth": 0.7, "zorder": 1}
_BEGIN: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.35", "s": 14, "linewidth": 0.8, "zorder": 3}
_END: dict[str, Any] = {"color": RED, "s": 22, "zorder": 4}


@PAPER.figure(
    "limit-geometries",
    caption="Twenty tokens, from their start (hollow) to the end (red). V = I: the hull shrinks from the dashed to the "
    "solid polygon, whose corners attract the tokens. A simple leading eigenvalue: parallel lines. "
    "V = diag(1, 1, -1/2): a polygon times a line, along which the third coordinate diverges. V = -I: the tokens "
    "themselves decay to the origin.",
    shows=("spectrum-decides-the-limit", "hyperplanes", "cross-polytope", "mixed-product"),
)
def limit_geometries(run: Run) -> Figure:
    with look():
        figure = blank(8.4, 8.0)
        _polytope_panel(figure.add_subplot(2, 2, 1))
        _hyperplane_panel(figure.add_subplot(2, 2, 2))
        _mixed_panel(figure.add_subplot(2, 2, 3, projection="3d"))
        _decay_panel(figure.add_subplot(2, 2, 4))
    return figure


def _paths(axes: Axes, tokens: np.ndarray) -> None:
    axes.plot(tokens[:, :, 0], tokens[:, :, 1], **_PATH)
    axes.scatter(*tokens[0].T, **_BEGIN)
    axes.scatter(*tokens[-1].T, **_END)


def _polygon(points: np.ndarray) -> np.ndarray:
    corners = ConvexHull(points).vertices
    return points[np.append(corners, corners[0])]


def _polytope_panel(axes: Axes) -> None:
    z = rescaled(start(20, 2, 1.0), np.linspace(0, 10, 65))
    limits = hardmax_flow(z[-1], 10.0).z
    _paths(axes, np.concatenate([z, limits[None]]))
    axes.plot(*_polygon(z[0]).T, color="0.35", linestyle="--", linewidth=0.9)
    axes.plot(*_polygon(limits).T, color=BLUE)
    axes.set(title="$V=I$: a polytope", xlabel="$z_1$", ylabel="$z_2$")
    axes.set_aspect("equal", adjustable="datalim")


def _hyperplane_panel(axes: Axes) -> None:
    z = rescaled(start(20, 2, 1.0), np.linspace(0, 8, 65), value=PLANAR)
    _, phi = left_eigenvector(PLANAR)
    _paths(axes, z)
    reach = 1.15 * np.abs(z).max()
    along = np.outer(np.linspace(-3 * reach, 3 * reach, 2), [-phi[1], phi[0]])
    for group in distinct_values(z[-1] @ phi, gap=1e-3):
        axes.plot(*(along + group.mean() * phi).T, color=BLUE, zorder=2)
    axes.set(title=r"$\lambda_1$ simple: parallel lines $\varphi_1^*(z)=c$", xlabel="$z_1$", ylabel="$z_2$")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")


def _mixed_panel(axes: Any) -> None:
    z = rescaled(start(20, 3, 1.0), np.linspace(0, 5, 65), value=MIXED_VALUE)
    for path in np.moveaxis(z, 1, 0):
        axes.plot(*path.T, **_PATH)
    axes.scatter(*z[0].T, **_BEGIN)
    axes.scatter(*z[-1].T, **_END)
    base = _polygon(z[-1, :, :2])
    low, high = z[..., 2].min(), z[..., 2].max()
    for corner in base[:-1]:
        axes.plot(*np.column_stack([[corner, corner], [low, high]]).T, color=BLUE, linewidth=0.9)
    for level in (low, high):
        axes.plot(*np.column_stack([base, np.full(len(base), level)]).T, color=BLUE, linewidth=0.9)
    axes.set(title=r"$V=\mathrm{diag}(1,1,-\frac{1}{2})$: polytope $\times$ line")
    axes.set(xlabel="$z_1$", ylabel="$z_2$", zlabel="$z_3$")
    axes.view_init(elev=18, azim=-62)
    axes.set_box_aspect((1, 1, 0.9), zoom=0.85)  # room for the label of the vertical axis


def _decay_panel(axes: Axes) -> None:
    x = original(start(20, 2, 1.0), np.concatenate([np.linspace(0, 4, 33), np.geomspace(5, 400, 32)]), value=-np.eye(2))
    _paths(axes, x)
    axes.set(title="$V=-I$: decay to the origin, $t\\leq 400$", xlabel="$x_1$", ylabel="$x_2$")
    axes.set_aspect("equal", adjustable="datalim")


@PAPER.figure(
    "boolean-limit",
    caption="Eight tokens on the line. Above: the attention matrix, with its numerical rank (singular values above "
    "1e-3), becomes Boolean: every row points at the first or the last token. Below: the rescaled tokens; the two "
    "leaders are drawn thick, and each token has the colour of the leader it ends up following.",
    shows=("boolean-attention", "boolean-positions"),
)
def boolean_limit(run: Run) -> Figure:
    times = (0.0, 2.0, 3.0, 4.0, 6.0)
    with look():
        figure = blank(8.4, 4.6)
        grid = figure.add_gridspec(2, len(times), height_ratios=(1, 1.1))
        dense = np.linspace(0, 6, 61)
        z = rescaled(LINE, dense)
        image: Any = None
        for column, t in enumerate(times):
            axes = figure.add_subplot(grid[0, column])
            matrix = attention(np.exp(t) * z[np.argmin(np.abs(dense - t))])
            image = heat_map(axes, matrix, f"$t={t:g}$, rank {numerical_rank(matrix)}")
        figure.colorbar(image, ax=figure.axes, shrink=0.85, pad=0.01, label="$P_{ij}$")
        axes = figure.add_subplot(grid[1, :])
        chosen = followed(attention(np.exp(6) * z[-1]))
        for i in range(len(LINE)):
            axes.plot(dense, z[:, i, 0], color=BLUE if chosen[i] == 0 else RED, linewidth=2.6 if i in chosen else 1.0)
        axes.set(xlabel="$t$", ylabel="$z_i(t)=e^{-t}x_i(t)$", xlim=(0, 6))
    return figure


def heat_map(axes: Axes, matrix: np.ndarray, title: str) -> Any:
    image = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    axes.set(title=title, xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(True)
    return image


@PAPER.figure(
    "attention-rank",
    caption="Numerical rank of the attention matrix (singular values above 1e-3) against time. It need not be "
    "monotone: sharp attention first tells tokens apart, then all follow few leaders.",
    shows=("one-hot-rows",),
)
def attention_rank(run: Run) -> Figure:
    times = np.linspace(0, 8, 65)
    cases = (
        ("$d=1$, $V=1$, $n=8$", LINE, np.eye(1)),
        ("$d=2$, $V=I$, $n=12$", start(12, 2, 1.0), np.eye(2)),
        (r"$d=2$, $\lambda_1$ simple, $n=20$", start(20, 2, 1.0), PLANAR),
    )
    with look():
        figure = blank(6.4, 3.4)
        axes = figure.add_subplot()
        for (label, x0, value), colour in zip(cases, (BLUE, RED, GREEN), strict=True):
            ranks = [numerical_rank(p) for p in attention_along(times, rescaled(x0, times, value=value), value)]
            axes.step(times, ranks, where="mid", label=label, color=colour)
            axes.annotate(f"{ranks[-1]}", (times[-1], ranks[-1]), (4, -3), textcoords="offset points", color=colour)
        axes.set(xlabel="$t$", ylabel="rank of $P(t)$", xlim=(0, 8), ylim=(0, None))
        axes.legend()
    return figure


def attention_along(times: np.ndarray, z: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
    """Attention matrices along a rescaled trajectory, in the variables x = exp(tV) z."""
    rates, right = np.linalg.eig(value)
    left = np.linalg.inv(right)
    return [attention(frame @ ((right * np.exp(t * rates)) @ left).real.T) for t, frame in zip(times, z, strict=True)]


@PAPER.figure(
    "leaders",
    caption="Who attends to whom: an edge from each token to every token it gives attention above 1e-4, shaded by the "
    "attention. Tokens are drawn at their rescaled positions; leaders, which receive more than their share, in red.",
    shows=("leaders-in-the-plane", "context-decides-the-leader"),
)
def leader_graph(run: Run) -> Figure:
    random = np.random.default_rng(run.seed)
    n, times = 20, (0.0, 1.0, 2.0, 10.0)
    value, form = (_positive(random, 2) for _ in range(2))
    z = rescaled(random.uniform(-1, 1, (n, 2)), times, value=value, query=form)
    rates, basis = np.linalg.eigh(value)
    with look():
        figure = blank(10.0, 3.0)
        for column, (t, frame) in enumerate(zip(times, z, strict=True)):
            x = frame @ ((basis * np.exp(t * rates)) @ basis.T)
            matrix = attention(x, query=form)
            axes = figure.add_subplot(1, len(times), column + 1)
            for i, j in np.argwhere((matrix > 1e-4) & ~np.eye(n, dtype=bool)):
                weight = float(matrix[i, j])
                axes.plot(*frame[[i, j]].T, color=BLUE, alpha=0.08 + 0.8 * weight, linewidth=0.3 + weight, zorder=1)
            heads = leaders(matrix) if t > 0 else np.array([], dtype=int)
            axes.scatter(*frame.T, **_BEGIN)
            axes.scatter(*frame[heads].T, **_END)
            axes.set(title=f"$t={t:g}$" + (f", {len(heads)} leaders" if t > 0 else ""), xticks=[], yticks=[])
            axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
            axes.spines[["left", "bottom"]].set_visible(False)
    return figure


def _positive(random: np.random.Generator, d: int) -> np.ndarray:
    """A random positive semidefinite matrix (2U-1)(2U-1)^T, U uniform."""
    factor = random.uniform(-1, 1, (d, d))
    return factor @ factor.T
