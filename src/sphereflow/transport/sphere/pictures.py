"""Pictures of measures on the sphere: the stages of an interpolation, what each phase does, and movies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.errors import whole_number, writable_target
from sphereflow.pictures import PALETTE, blank, check_movie, look, movie_writer
from sphereflow.progress import progress_bar
from sphereflow.saving import whole_file
from sphereflow.transport.sphere.pieces import Gate, Piece
from sphereflow.transport.sphere.schedule import SphereSchedule

if TYPE_CHECKING:
    from sphereflow.transport.sphere.result import Interpolation

_MOST_DRAWN = 600
_DONE = {
    "cap": "in one cap",
    "part barycentres": "barycentres parted",
    "disentangle": "disentangled",
    "cluster": "clustered",
    "split": "split",
    "match": "matched",
    "return the targets": "targets returned",
}


def view_along(direction: np.ndarray) -> np.ndarray:
    """An orthogonal frame (rows: right, up, towards the eye) that looks at the sphere from this direction."""
    eye = direction / np.linalg.norm(direction)
    up = np.eye(3)[int(np.argmin(np.abs(eye)))]
    up = up - (up @ eye) * eye
    up /= np.linalg.norm(up)
    return np.stack([np.cross(up, eye), up, eye])


def draw_sphere(axes: Axes, frame: np.ndarray) -> None:
    """The outline and a few meridians, the far side paler."""
    turn = np.linspace(0, 2 * np.pi, 181)
    for angle in np.linspace(0, np.pi, 6, endpoint=False):
        ring = np.stack([np.cos(turn) * np.cos(angle), np.cos(turn) * np.sin(angle), np.sin(turn)], axis=1)
        _ring(axes, ring @ frame.T)
    for height in (-0.75, -0.4, 0.0, 0.4, 0.75):
        r = np.sqrt(1 - height**2)
        ring = np.stack([r * np.cos(turn), r * np.sin(turn), np.full_like(turn, height)], axis=1)
        _ring(axes, ring @ frame.T)
    axes.plot(np.cos(turn), np.sin(turn), color="0.6", lw=0.8)
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes.set_axis_off()


def _ring(axes: Axes, ring: np.ndarray, **style: Any) -> None:
    near = ring[:, 2] >= 0
    look_of: dict[str, Any] = {"color": "0.8", "lw": 0.4} | style
    axes.plot(*np.where(near[:, None], ring, np.nan)[:, :2].T, **look_of)
    axes.plot(*np.where(near[:, None], np.nan, ring)[:, :2].T, **(look_of | {"alpha": 0.35}))


def draw_clouds(axes: Axes, clouds: Sequence[np.ndarray], frame: np.ndarray, size: float = 9.0) -> None:
    """Each measure in its colour; what is on the far side is drawn hollow."""
    for i, cloud in enumerate(clouds):
        every = np.linspace(0, len(cloud) - 1, min(len(cloud), _MOST_DRAWN)).astype(int)
        seen = cloud[every] @ frame.T
        near, colour = seen[:, 2] >= 0, PALETTE[i % len(PALETTE)]
        axes.scatter(
            seen[~near, 0], seen[~near, 1], s=size, facecolors="none", edgecolors=colour, linewidths=0.5, alpha=0.7
        )
        axes.scatter(seen[near, 0], seen[near, 1], s=size, color=colour, linewidths=0, zorder=3)


def draw_atoms(axes: Axes, clouds: Sequence[np.ndarray], frame: np.ndarray) -> None:
    """Targets as crosses."""
    for i, cloud in enumerate(clouds):
        seen = cloud @ frame.T
        for point, near in zip(seen[:, :2], seen[:, 2] >= 0, strict=True):
            axes.plot(*point, "+", ms=11, mew=1.4, color=PALETTE[i % len(PALETTE)], alpha=1 if near else 0.5, zorder=2)


def draw_gate(axes: Axes, piece: Piece, frame: np.ndarray) -> None:
    """The rim of the cap in which a gate is open."""
    if not isinstance(piece, Gate) or abs(piece.beta) >= np.linalg.norm(piece.a):
        return
    axis = piece.a / np.linalg.norm(piece.a)
    level = -piece.beta / np.linalg.norm(piece.a)
    basis = np.linalg.svd(axis[None])[2][1:]
    turn = np.linspace(0, 2 * np.pi, 121)
    rim = level * axis + np.sqrt(1 - level**2) * (np.cos(turn)[:, None] * basis[0] + np.sin(turn)[:, None] * basis[1])
    _ring(axes, rim @ frame.T, color="black", lw=1.0)


def draw_stages(figure: Any, result: Interpolation) -> None:
    """One sphere for the start and one for the end of every phase that has pieces, all seen from the same side."""
    ends = [start for _, start in result.phases[1:]] + [result.n_pieces]
    shown = [(0, "sources")]
    for (name, start), end in zip(result.phases, ends, strict=True):
        if end > start:
            shown.append((end, _DONE[name]))
    frame = view_along(np.concatenate([m.points for m in (*result.sources, *result.atoms)]).sum(axis=0) + 1e-9)
    for axes, (piece, title) in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown, strict=True):
        draw_sphere(axes, frame)
        clouds = result.clouds_at(piece)
        if title in (_DONE["match"], _DONE["return the targets"]):
            draw_atoms(axes, [m.points for m in result.atoms], frame)
        draw_clouds(axes, clouds, frame)
        axes.set_title(f"{title}\nafter piece {piece}" if piece else f"{title}\n", fontsize=10)


def draw_history(figure: Any, result: Interpolation) -> None:
    """Radius of each measure and distance of its nearest foreign particle against the piece."""
    left, right = figure.subplots(1, 2, sharex=True)
    pieces = np.arange(result.n_pieces + 1)
    for i in range(len(result.sources)):
        colour = PALETTE[i % len(PALETTE)]
        left.semilogy(pieces, np.maximum(result.history["radius"][i], 1e-16), color=colour)
        right.semilogy(pieces, np.maximum(result.history["gap"][i], 1e-16), color=colour, label=f"measure {i + 1}")
    left.set(xlabel="pieces", ylabel="radius")
    right.set(xlabel="pieces", ylabel="nearest foreign particle")
    names = [name for name, _ in result.phases]
    for axes in (left, right):
        axes.set_xlim(0, result.n_pieces)
        for name, start in result.phases:
            if name != names[0] and 0 < start < result.n_pieces:
                axes.axvline(start, color="0.8", lw=0.7, zorder=0)


def draw_interpolation(result: Interpolation) -> Figure:
    """Stages (in R^3) above, radii and distances below."""
    with look():
        if result.schedule.d != 3:
            figure = blank(9.0, 3.2)
            draw_history(figure, result)
            return figure
        figure = blank(11.5, 6.0)
        above, below = np.ravel(np.asarray(figure.subfigures(2, 1, height_ratios=(1.15, 1))))
        draw_stages(above, result)
        draw_history(below, result)
    return figure


def movie(
    schedule: SphereSchedule, clouds: Sequence[Any], path: str | Path, *, frames: int, fps: int, masses: Any = None
) -> Path:
    """The measures carried by the schedule, evenly in pieces; beyond three dimensions on three main directions."""
    target = writable_target(path, overwrite=True)
    check_movie(target.suffix.lower())
    moments = np.linspace(0, schedule.n_pieces, whole_number("frames", frames) + 1)
    shown = [[np.asarray(cloud, dtype=float) for cloud in clouds]]
    for start, stop in itertools.pairwise(moments):
        shown.append(schedule.between(float(start), float(stop)).apply(shown[-1], masses))
    both = np.concatenate([*shown[0], *shown[-1]])
    if schedule.d == 3:
        frame = view_along(both.sum(axis=0) + 1e-9)
    else:
        frame = np.linalg.svd(both, full_matrices=False)[2][:3]
        frame = np.pad(frame, ((0, 3 - len(frame)), (0, 0)))
    with look():
        writer = movie_writer(target.suffix.lower(), fps)
        figure = blank(5.0, 5.3)
        axes = figure.subplots()
        with (
            whole_file(target) as temporary,
            writer.saving(figure, str(temporary), dpi=120),
            progress_bar("drawing", None, total=len(shown)) as bar,
        ):
            for moment, current in zip(moments, shown, strict=True):
                axes.clear()
                draw_sphere(axes, np.eye(3) if schedule.d != 3 else frame)
                piece = schedule.pieces[min(int(moment), schedule.n_pieces - 1)]
                if schedule.d == 3:
                    draw_gate(axes, piece, frame)
                draw_clouds(axes, current, frame)
                axes.set_title(f"piece {moment:.1f} of {schedule.n_pieces}: {piece.kind}")
                writer.grab_frame()
                bar.advance()
    return target
