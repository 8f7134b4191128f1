r"""Affine maps, exactly: $x\mapsto Mx+c$ with $\det M>0$ from shears, scalings and one translation.

A linear shear $x_p\mathrel{+}=c\,x_q$ is two pieces, one for each sign of $x_q$. Three shears make a rotation of the
plane (i, j) by $\vartheta$, with coefficients $-\tan(\vartheta/2),\ \sin\vartheta,\ -\tan(\vartheta/2)$; and
$M=USV^\top$ is rotations, scalings, rotations. Pieces: at most $2\cdot6\cdot d(d-1)/2+2d+1$ while no angle exceeds
$\pi/2$, where two half rotations take over.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.schedule import Schedule


def shear(p: int, q: int, amount: float, d: int) -> Schedule:
    """x_p += amount x_q: the half x_q > 0 and the half x_q < 0 each need their piece."""
    axes = np.eye(d)
    return Schedule(amount * np.stack([axes[p], -axes[p]]), np.stack([axes[q], -axes[q]]), np.zeros(2))


def rotation(i: int, j: int, angle: float, d: int) -> Schedule:
    """e_i to cos e_i + sin e_j: 6 pieces, or 12 beyond a right angle, where the tangent would grow."""
    angle = math.remainder(angle, 2 * math.pi)
    if abs(angle) > math.pi / 2:
        half = rotation(i, j, angle / 2, d)
        return half + half
    tilt = shear(i, j, -math.tan(angle / 2), d)
    return Schedule.join([tilt, shear(j, i, math.sin(angle), d), tilt])


def scaling(factors: ArrayLike) -> Schedule:
    """x_k to s_k x_k with s_k > 0: two pieces for every factor that is not 1."""
    rates = np.log(np.asarray(factors, dtype=float))
    axes = np.eye(len(rates))[rates != 0]
    rates = rates[rates != 0][:, None]
    w, a = np.stack([rates * axes, -rates * axes], axis=1), np.stack([axes, -axes], axis=1)
    d = axes.shape[1]
    return Schedule(w.reshape(-1, d), a.reshape(-1, d), np.zeros(2 * len(rates)))


def translation(shift: ArrayLike) -> Schedule:
    """x to x + shift: one piece with a = 0, b = 1."""
    shift = np.asarray(shift, dtype=float)
    return Schedule(shift[None], np.zeros((1, len(shift))), np.ones(1))


def affine_schedule(matrix: ArrayLike, shift: ArrayLike | None = None) -> Schedule:
    """The schedule whose map is x -> matrix x + shift; flows keep orientation, so the determinant must be positive."""
    m = real_array("matrix", matrix)
    if m.ndim != 2 or m.shape[0] != m.shape[1] or m.size == 0 or not np.isfinite(m).all():
        raise SphereflowError(f"an affine map needs a finite square matrix, got shape {m.shape}.")
    d = len(m)
    c = np.zeros(d) if shift is None else real_array("shift", shift)
    if c.shape != (d,) or not np.isfinite(c).all():
        raise SphereflowError(f"the shift must be {d} finite numbers, got shape {c.shape}.")
    if max(np.abs(m).max(), np.abs(c).max()) > 1e100:
        raise SphereflowError("the matrix and the shift must be within [-1e100, 1e100].")
    u, s, vt = np.linalg.svd(m)
    if not s[-1] > 1e-14 * s[0]:
        raise SphereflowError("the matrix is singular: it flattens space, which no flow does.")
    if np.linalg.det(m) < 0:
        raise SphereflowError("the matrix has a negative determinant: flows keep orientation, so none makes this map.")
    if np.linalg.det(u) < 0:
        u[:, -1] *= -1
        vt[-1] *= -1
    if np.array_equal(m, np.diag(np.diag(m))) and (np.diag(m) > 0).all():
        parts = [scaling(np.diag(m))]
    elif np.ptp(s) < 1e-15 * s[0] * d:  # a rotation, enlarged: one of the two turns will do
        parts = [*_turned(u @ vt), scaling(s)]
    else:
        parts = [*_turned(vt), scaling(s), *_turned(u)]
    parts += [translation(c)] if c.any() else []
    return Schedule.join(parts)


def _turned(q: Float[np.ndarray, "d d"]) -> list[Schedule]:
    """A rotation of R^d as rotations of coordinate planes: entries below the diagonal are turned away one by one."""
    q, d = q.copy(), len(q)
    parts: list[Schedule] = []
    for i in range(d):
        for j in range(i + 1, d):
            angle = math.atan2(q[j, i], q[i, i])
            if angle == 0:
                continue
            cos, sin = math.cos(angle), math.sin(angle)
            q[[i, j]] = np.array([[cos, sin], [-sin, cos]]) @ q[[i, j]]
            parts.append(rotation(i, j, angle, d))
    return parts[::-1]
