"""Frames as the player reads them: positions in three coordinates as 16-bit integers, with what is measured on them.

The layout is described at the top of player/index.js. One token takes eight bytes per frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.evolution.webpage.groups import Names, groups, reach

BINS = 40
_MOST_IN_HISTOGRAM = 400
_FULL = 32_767


def viewing_directions(x0: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d 3"]:
    """Three orthonormal directions to look at tokens in more than three dimensions.

    The last, drawn upwards, is that of the mean of the first tokens, near which they will meet; the other two are
    their main directions across it.
    """
    mean = x0.mean(axis=0)
    up = mean / np.linalg.norm(mean) if np.linalg.norm(mean) > 1e-9 else np.eye(x0.shape[1])[0]
    # A trace of every other direction keeps the two apart from the first where tokens do not span enough.
    others = np.eye(x0.shape[1]) - np.outer(up, up)
    across = np.linalg.svd(np.concatenate([x0 @ others, 1e-9 * others]), full_matrices=False)[2][:2]
    return np.stack([*across, up], axis=1)


@dataclass(frozen=True)
class Camera:
    """How tokens in R^d become points of three-dimensional space, and the words that say so."""

    n: int
    d: int
    on_sphere: bool
    scale: float = 1.0
    basis: np.ndarray | None = None

    @classmethod
    def facing(cls, x0: Float[np.ndarray, "n d"], on_sphere: bool, largest: float | None = None) -> Camera:
        """For tokens that start at x0; beyond the sphere nothing may lie farther out than `largest` (that of x0)."""
        n, d = x0.shape
        basis = viewing_directions(x0) if d > 3 else None
        farthest = float(np.linalg.norm(x0, axis=1).max()) if largest is None else largest
        return cls(n, d, on_sphere, 1.0 if on_sphere else 1 / max(1.0, farthest), basis)

    def points(self, x: Float[np.ndarray, "n d"]) -> np.ndarray:
        """The tokens as int16 of shape (n, 3)."""
        seen = (x if self.basis is None else x @ self.basis) * self.scale
        padded = np.pad(seen, ((0, 0), (0, 3 - seen.shape[1])))
        return np.round(np.clip(padded, -1, 1) * _FULL).astype("<i2")

    @property
    def flat(self) -> bool:
        return self.d <= 2

    @property
    def projected(self) -> bool:
        return self.d > 3

    @property
    def note(self) -> str:
        if self.projected:
            return f"{self.d} dimensions, seen in three: upwards is the mean of the first tokens"
        where = ("the plane", "circle") if self.flat else ("space", "sphere")
        return "" if self.on_sphere else f"tokens move in {where[0]}; the unit {where[1]} is drawn for scale"


@dataclass
class Recorder:
    """Measures frames one after the other and writes them as bytes."""

    camera: Camera
    delta: float = field(init=False)
    _names: Names = field(default_factory=Names, init=False)

    def __post_init__(self) -> None:
        self.delta = reach(self.camera.n, self.camera.d)

    def record(self, t: float, x: Float[np.ndarray, "n d"], energy: float) -> bytes:
        """One frame."""
        labels = groups(x, self.delta)
        sizes = np.bincount(labels)
        names = self._names.follow(labels)
        head = struct.pack("<ddII", t, energy, len(sizes), int(sizes.max()))
        pieces = (overlap_histogram(x), names.astype("<u2"), self.camera.points(x))
        return head + b"".join(piece.tobytes() for piece in pieces)

    def about(self, times: Float[np.ndarray, " T"], **more: Any) -> dict[str, Any]:
        """What the player has to know before the first frame."""
        camera = self.camera
        steps = np.diff(times)
        logarithmic = len(steps) > 2 and steps[-1] > 3 * steps[len(steps) // 2]
        known = {
            "n": camera.n,
            "frames": len(times),
            "flat": camera.flat,
            "logarithmic": bool(logarithmic),
            "onSphere": camera.on_sphere and not camera.projected,
            "unit": camera.scale,
            "note": camera.note,
            "firstTime": float(times[times > 0][0]),
            "lastTime": float(times[-1]),
        }
        return known | more


def overlap_histogram(x: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Shares of pairs by cosine, BINS bins from -1 to 1, as fractions of 65535; at most 400 tokens are looked at."""
    chosen = x[np.linspace(0, len(x) - 1, min(len(x), _MOST_IN_HISTOGRAM)).astype(int)]
    unit = chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-300)
    upper = np.triu_indices(len(chosen), k=1)
    cosines = np.clip((unit @ unit.T)[upper], -1, 1)
    counts = np.histogram(cosines, BINS, (-1, 1))[0]
    return np.round(counts / max(counts.sum(), 1) * 65_535).astype("<u2")
