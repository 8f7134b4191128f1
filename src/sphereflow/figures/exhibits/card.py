"""The picture of a run on the index: tokens with their trails as SVG, in the colours of the player, light or dark."""

from __future__ import annotations

import numpy as np

from sphereflow.evolution.webpage import Shown, viewing_directions
from sphereflow.evolution.webpage.groups import groups, reach

_SIZE = 300
_RADIUS = 132.0
_MOST_TRAILS = 200
_POINTS = 16  # of each trail
# The player's palette; slot 0 is for tokens that are alone, and its colour follows the page.
PALETTE = (
    "var(--dust)", "#0072b2", "#e06a00", "#009e73", "#cc79a7", "#e6a100", "#3aa7e6", "#d6455d", "#7a5fd0", "#7fa32b",
    "#b5651d", "#14a3a8", "#c2489a",
)  # fmt: skip
_YAW, _PITCH = 0.5, 0.35  # from where the player looks first


def card(shown: Shown, moment: float, trail: float) -> str:
    """The frame at the share `moment` of all, with trails over the share `trail`; an inline SVG element."""
    last = round(moment * (len(shown.ts) - 1))
    first = max(0, last - round(trail * (len(shown.ts) - 1)))
    chosen = np.unique(np.linspace(first, last, _POINTS).round().astype(int))
    points, scale = _seen(shown, chosen)
    slots = shown.colours if shown.colours is not None else _clusters(shown.xs[-1])
    parts = [_ground(shown, scale)]
    some = set(np.linspace(0, points.shape[1] - 1, min(points.shape[1], _MOST_TRAILS)).astype(int).tolist())
    radius = 2.2 if points.shape[1] > 250 else 3.2
    for token in np.argsort(points[-1, :, 2]).tolist():  # those behind first
        colour, (x, y, depth) = PALETTE[slots[token]], points[-1, token]
        faint = "" if shown.xs.shape[2] == 2 or depth > 0 else ' opacity=".45"'
        path = _path(points[:, token, :2]) if token in some and last > first else ""
        if path:
            parts.append(f'<path d="{path}" stroke="{colour}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"{faint}/>')
    return f'<svg viewBox="0 0 {_SIZE} {_SIZE}" aria-hidden="true">{"".join(parts)}</svg>'


def _seen(shown: Shown, frames: np.ndarray) -> tuple[np.ndarray, float]:
    """Places (T, n, 3) on the picture, the third one towards the eye, and the length of a unit."""
    xs = shown.xs[frames]
    d = xs.shape[2]
    if d > 3:
        xs = xs @ viewing_directions(shown.xs[0])
    farthest = 1.0 if shown.on_sphere else max(1.0, float(np.linalg.norm(shown.xs, axis=2).max()))
    scale = _RADIUS / farthest
    if d == 2:
        flat = np.stack([xs[..., 0], -xs[..., 1], np.zeros(xs.shape[:2])], axis=2)
        return _SIZE / 2 * np.array([1, 1, 0]) + scale * flat, scale
    (cy, sy), (cp, sp) = (np.cos(_YAW), np.sin(_YAW)), (np.cos(_PITCH), np.sin(_PITCH))
    view = np.array([[cy, -sy, 0], [-sy * sp, -cy * sp, -cp], [-sy * cp, -cy * cp, sp]])
    return _SIZE / 2 * np.array([1, 1, 0]) + scale * xs @ view.T, scale


def _clusters(x: np.ndarray) -> np.ndarray:
    """A colour for each cluster of two tokens or more at the end, the largest first."""
    labels = groups(x, reach(*x.shape))
    sizes = np.bincount(labels)
    slots = np.zeros(len(sizes), dtype=int)
    for place, label in enumerate(np.argsort(-sizes, kind="stable")):
        slots[label] = 0 if sizes[label] < 2 else 1 + place % (len(PALETTE) - 1)
    return slots[labels]


def _ground(shown: Shown, scale: float) -> str:
    middle = _SIZE / 2
    kind = "ball" if shown.xs.shape[2] > 2 else "ring"
    return f'<circle class="{kind}" cx="{middle:g}" cy="{middle:g}" r="{scale:.1f}"/>'


def _path(points: np.ndarray) -> str:
    return "M" + " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
