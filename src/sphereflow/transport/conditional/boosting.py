r"""Pieces found one at a time by the score test: each makes given data a little more normal.

A piece $z\mapsto z+w\,s_+\,(e^{\lambda}-1)/\lambda$, $s=a\cdot u+c\,z+b$, $\lambda=cw$, moves one coordinate z and
reads what is known, u. The mean of $\log N(z)+L$ over the data is near w = 0 about $Gw-\frac12Hw^2$ above its start,

$$G=\overline{-z\,s_++c\,1_{s>0}},\qquad H=\overline{s_+^2+c\,z\,s_++\tfrac12c^2\,1_{s>0}},$$

the derivative of the rim of the half-space being in G. Of many random candidates the one with the largest $G^2/H$ is
played with a share of the step G/H, until rows kept aside see no more gain.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

_CANDIDATES = 120
_SCORED = 1500  # rows on which candidates are compared
_TILTS = np.array([0.0, 0.3, 0.6, 1.0])  # squared share of z in the normal of a candidate
_LARGEST_STRETCH = 0.5  # of |c w|


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Pieces that move one coordinate z and read u: rows of a (for u), c (for z), b and w."""

    a: Float[np.ndarray, "m p"]
    c: Float[np.ndarray, " m"]
    b: Float[np.ndarray, " m"]
    w: Float[np.ndarray, " m"]

    def __len__(self) -> int:
        return len(self.b)

    def carry(
        self, u: Float[np.ndarray, "n p"], z: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """(image, log-derivative) of z, all pieces in order."""
        reads = u @ self.a.T + self.b
        log_det = np.zeros(len(z))
        for k, (c, w) in enumerate(zip(self.c, self.w, strict=True)):
            z, stretch = _played(reads[:, k] + c * z, z, c, w)
            log_det += stretch
        return z, log_det

    def back(self, u: Float[np.ndarray, "n p"], z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The inverse of `carry`: the same pieces with -w, the last one first."""
        reads = u @ self.a.T + self.b
        for k in range(len(self))[::-1]:
            z = _played(reads[:, k] + self.c[k] * z, z, self.c[k], -self.w[k])[0]
        return z


def _played(s: np.ndarray, z: np.ndarray, c: float, w: float) -> tuple[np.ndarray, np.ndarray]:
    stretch = c * w
    gain = np.expm1(stretch) / stretch if abs(stretch) > 1e-12 else 1.0
    return z + w * gain * np.maximum(s, 0.0), stretch * (s > 0)


def boost(
    u: Float[np.ndarray, "n p"],
    z: Float[np.ndarray, " n"],
    kept_aside: tuple[Float[np.ndarray, "m p"], Float[np.ndarray, " m"]],
    pieces: int,
    rng: np.random.Generator,
    *,
    share: float = 0.4,
    patience: int = 40,
) -> Pieces:
    """At most `pieces` pieces, cut where the log-density of rows kept aside is highest."""
    v, y = kept_aside
    log_det = np.zeros(len(y))
    start = float(np.mean(-0.5 * y**2))
    best, length = 0.0, 0
    found: list[tuple[np.ndarray, float, float, float]] = []
    for step in range(pieces):
        a, c, b = _candidates(u, z, rng)
        rows = rng.choice(len(z), _SCORED, replace=False) if len(z) > _SCORED else slice(None)
        slope, curvature = _score_test(u[rows] @ a.T + np.outer(z[rows], c) + b, z[rows], c)
        k = int(np.argmax(slope**2 / curvature))
        s = u @ a[k] + c[k] * z + b[k]
        slope, curvature = _score_test(s[:, None], z, c[k : k + 1])
        w = float(share * slope[0] / curvature[0])
        if abs(c[k] * w) > _LARGEST_STRETCH:
            w = float(np.sign(w) * _LARGEST_STRETCH / c[k])
        z, _ = _played(s, z, c[k], w)
        y, stretch = _played(v @ a[k] + c[k] * y + b[k], y, c[k], w)
        log_det += stretch
        found.append((a[k], c[k], b[k], w))
        gain = float(np.mean(log_det - 0.5 * y**2)) - start
        if gain > best:
            best, length = gain, len(found)
        elif step - length >= patience:
            break
    rows_of = [np.array(part) for part in zip(*found[:length], strict=True)] or [np.zeros(0)] * 4
    return Pieces(rows_of[0].reshape(length, u.shape[1]), *rows_of[1:])


def _candidates(u: np.ndarray, z: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit normals, half of them along one or two columns of u, with rims near random rows.

    Near and not through: a row exactly on a rim would be on the one side or the other by rounding.
    """
    p = u.shape[1]
    a = rng.standard_normal((_CANDIDATES, p))
    if p > 2:
        ranks = np.argsort(rng.uniform(size=(_CANDIDATES // 2, p)), axis=1)
        a[: _CANDIDATES // 2][ranks >= rng.integers(1, 3, size=(_CANDIDATES // 2, 1))] = 0.0
    tilt = rng.choice(_TILTS, _CANDIDATES)
    a *= (np.sqrt(1 - tilt) / np.linalg.norm(a, axis=1))[:, None]
    c = np.sqrt(tilt) * rng.choice([-1.0, 1.0], _CANDIDATES)
    at = rng.integers(len(z), size=_CANDIDATES)
    return a, c, rng.uniform(-0.1, 0.1, _CANDIDATES) - np.einsum("kp,kp->k", a, u[at]) - c * z[at]


def _score_test(s: np.ndarray, z: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G and H, the latter kept positive."""
    on = s > 0
    active = np.where(on, s, 0.0)
    share = on.mean(axis=0)
    cross = z @ active / len(z)
    squares = np.einsum("nk,nk->k", active, active) / len(z)
    curvature = np.maximum(squares + c * cross + 0.5 * c**2 * share, 0.3 * (squares + c**2 * share))
    return c * share - cross, curvature + 1e-12
