"""Unit vectors as NumPy arrays: what `sphereflow.sphere` does with JAX, where nothing is traced or compiled."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def unit(x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
    """x / |x| along the last axis, also where squares of x overflow."""
    with np.errstate(over="ignore"):
        length = np.linalg.norm(x, axis=-1, keepdims=True)
    if np.isinf(length).any():
        return unit(x / np.abs(x).max(axis=-1, keepdims=True))
    return x / length


def exponential(x: Float[np.ndarray, "*n d"], tangent: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
    r"""$\cos|v|\,x+\sin|v|\,v/|v|$: along the great circle in the direction of v, as far as v is long."""
    length = np.linalg.norm(tangent, axis=-1, keepdims=True)
    return unit(np.cos(length) * x + np.sinc(length / np.pi) * tangent)


def on_the_way(start: Float[np.ndarray, " d"], end: Float[np.ndarray, " d"], angle: float) -> Float[np.ndarray, " d"]:
    """The point at `angle` from `start` on the great circle to `end`; `start` itself where there is no direction."""
    tangent = end - (start @ end) * start
    return exponential(start, angle * unit(tangent)) if tangent.any() else start


def angles(x: Float[np.ndarray, "... d"], y: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "..."]:
    r"""Geodesic distances $2\,\mathrm{atan2}(|x-y|,|x+y|)$: accurate for equal and for antipodal points."""
    return np.asarray(2 * np.arctan2(np.linalg.norm(x - y, axis=-1), np.linalg.norm(x + y, axis=-1)))


def angle_table(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n m"]:
    """Angles of all pairs, one column after another: n m numbers are held and never n m d."""
    if len(y) > len(x):
        return angle_table(y, x).T
    table = np.empty((len(x), len(y)))
    for j, point in enumerate(y):
        table[:, j] = angles(x, point)
    return table


def tangent_frames(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d p"]:
    """An orthonormal basis of the tangent space at each unit vector, p = d - 1; on the circle of growing angle."""
    if x.shape[1] == 2:
        return np.stack([-x[:, 1], x[:, 0]], axis=1)[:, :, None]
    # The reflection that takes x to -+e_1 is orthogonal: its other columns are tangent at x.
    mirror = x.copy()
    mirror[:, 0] += np.where(x[:, 0] >= 0, 1.0, -1.0)
    mirror = unit(mirror)
    full = np.eye(x.shape[1]) - 2 * mirror[:, :, None] * mirror[:, None, :]
    return full[:, :, 1:]
