r"""Wasserstein distances along the circle, exactly, by quantiles.

$$W_p^p(\mu,\nu)=\min_a\int_0^1|F^{-1}(m)-G^{-1}(m+a)|^p\,dm,\qquad G^{-1}(m+1)=G^{-1}(m)+2\pi .$$

The integral is a convex function of the shift a (p >= 1). For n equal masses on either side the best shift is a whole
number of masses; for unequal masses it is found by golden section on the merged steps of both quantile functions.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.reading import real_array

_GOLDEN = (np.sqrt(5) - 1) / 2


def circle_wasserstein(
    theta: Float[np.ndarray, " n"],
    phi: Float[np.ndarray, " m"],
    p: float = 2.0,
    *,
    theta_weights: Float[np.ndarray, " n"] | None = None,
    phi_weights: Float[np.ndarray, " m"] | None = None,
) -> float:
    """W_p between two clouds of angles for the distance along the circle; equal masses unless weights are given."""
    p = real_number("p", p, least=1)
    a, b = (np.mod(real_array(name, x), 2 * np.pi) for name, x in (("theta", theta), ("phi", phi)))
    if a.ndim != 1 or b.ndim != 1 or 0 in (a.size, b.size):
        raise SphereflowError(f"angles must be two non-empty rows of numbers, got shapes {a.shape} and {b.shape}.")
    if len(a) == len(b) and theta_weights is None and phi_weights is None:
        return _equal(np.sort(a), np.sort(b), p)
    return _weighted(*_sorted(a, theta_weights), *_sorted(b, phi_weights), p)


def wasserstein_to_pair(
    angles: Float[np.ndarray, "... n"], places: tuple[float, float], first_mass: float, p: float = 2.0
) -> Float[np.ndarray, "..."]:
    """W_p along the circle from n equal tokens to two atoms, the first with mass `first_mass`.

    The optimal plan fills the first atom with the tokens that gain most by going there; one token may be divided.
    """
    share, p = real_number("first_mass", first_mass, least=0, most=1), real_number("p", p, least=1)
    angles = real_array("angles", angles)
    if 0 in angles.shape or angles.ndim == 0:
        raise SphereflowError(f"angles must be at least one row of numbers, got the shape {angles.shape}.")
    near, far = (
        np.abs(np.mod(angles - place + np.pi, 2 * np.pi) - np.pi) ** p
        for place in real_array("places", places, shape=(2,))
    )
    gain = np.sort(near - far, axis=-1)
    n = gain.shape[-1]
    filled = np.clip(share * n - np.arange(n), 0, 1)
    return np.asarray((np.mean(far, axis=-1) + gain @ filled / n) ** (1 / p))


def _equal(a: np.ndarray, b: np.ndarray, p: float) -> float:
    n = len(a)

    def cost(shift: int) -> float:
        turns, start = divmod(shift, n)
        moved = np.concatenate([b[start:], b[:start] + 2 * np.pi]) + 2 * np.pi * turns
        return float(np.mean(np.abs(a - moved) ** p))

    low, high = -n, n
    while high - low > 2:  # ternary search; a tie of neighbours means the minimum is between them
        left, right = low + (high - low) // 3, high - (high - low) // 3
        if cost(left) < cost(right):
            high = right
        else:
            low = left
    return min(cost(k) for k in range(low, high + 1)) ** (1 / p)


def _sorted(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    w = np.full(len(x), 1 / len(x)) if weights is None else real_array("weights", weights)
    if w.shape != x.shape or w.min() < 0 or w.sum() <= 0:
        raise SphereflowError("weights must be one per angle, not negative, with a positive sum.")
    order = np.argsort(x)
    return x[order], w[order] / w.sum()


def _weighted(a: np.ndarray, wa: np.ndarray, b: np.ndarray, wb: np.ndarray, p: float) -> float:
    ends_a, ends_b = np.cumsum(wa), np.cumsum(wb)
    ends_a[-1] = ends_b[-1] = 1.0

    def cost(shift: float) -> float:
        # Steps of G(m + shift) inside [0, 1], over as many turns as are touched.
        turns = np.arange(np.floor(shift) - 1, np.floor(shift) + 3)
        jumps = (ends_b + turns[:, None]).ravel() - shift
        cuts = np.concatenate([[0.0], ends_a, jumps[(jumps > 0) & (jumps < 1)]])
        cuts.sort()
        widths, middles = np.diff(cuts), (cuts[1:] + cuts[:-1]) / 2
        place = middles + shift
        turn = np.floor(place)
        left = a[np.minimum(np.searchsorted(ends_a, middles), len(a) - 1)]
        right = b[np.minimum(np.searchsorted(ends_b, place - turn), len(b) - 1)] + 2 * np.pi * turn
        return float(widths @ np.abs(left - right) ** p)

    low, high = -1.0, 1.0
    x, y = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    fx, fy = cost(x), cost(y)
    while high - low > 1e-13:
        if fx < fy:
            high, y, fy = y, x, fx
            x = high - _GOLDEN * (high - low)
            fx = cost(x)
        else:
            low, x, fx = x, y, fy
            y = low + _GOLDEN * (high - low)
            fy = cost(y)
    return min(fx, fy) ** (1 / p)
