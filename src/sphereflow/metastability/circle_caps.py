r"""Caps on the circle: exactly which starts are $(\beta,\varepsilon)$-separated.

Tokens nearer than $D^*-2a$ share a cap. A group from angle f to angle l can have its centre anywhere in
$[l-a,f+a]$, and neighbouring centres must be $D^*$ apart all around the circle. Pushing the first centre as far as it
can go and every next one as little as it must decides whether such centres exist.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float

from sphereflow.errors import real_number
from sphereflow.reading import real_array


def reach(n: int, beta: float, epsilon: float) -> float:
    r"""$D^*=2\arccos(1-2\varepsilon)+\arccos(1-8\varepsilon-\beta^{-1}\log(2n^2/\varepsilon))$, or infinity."""
    level = 1 - 8 * epsilon - math.log(2 * n**2 / epsilon) / beta
    return math.inf if level <= -1 else 2 * math.acos(1 - 2 * epsilon) + math.acos(level)


def circle_separated(angles: Float[np.ndarray, "m n"], beta: float, epsilon: float) -> Bool[np.ndarray, " m"]:
    """Which of m starts of n tokens on the circle are separated."""
    angles = real_array("angles", angles, shape=("m", "n"))
    beta, epsilon = real_number("beta", beta, above=0), real_number("epsilon", epsilon, above=0, most=1)
    n = angles.shape[1]
    half, apart = math.acos(1 - epsilon), reach(n, beta, epsilon)
    alone = 1 - 8 * epsilon - math.log(2 * n**2 / epsilon) / beta > 0  # gamma of a single cap, alpha = 0
    separated = np.zeros(len(angles), dtype=bool)
    ordered = np.sort(angles % (2 * np.pi), axis=1)
    steps = np.diff(ordered, axis=1, append=ordered[:, :1] + 2 * np.pi)
    # Neighbours too far apart for one cap and too near for two settle most cases at once.
    open_cases = np.flatnonzero(~((steps > 2 * half) & (steps < apart - 2 * half)).any(axis=1))
    for k in open_cases:
        placed = place_centres(angles[k], half, apart, balanced=False)
        separated[k] = not isinstance(placed, str) and (len(placed[0]) > 1 or alone)
    return separated


def place_centres(
    angles: Float[np.ndarray, " n"], half: float, apart: float, *, balanced: bool = True
) -> tuple[np.ndarray, np.ndarray] | str:
    """Angles of centres and the group of each token, or the reason why there are none.

    `balanced` centres lie as far from their neighbours as they can; the others are only far enough.
    """
    order = np.argsort(angles % (2 * np.pi), kind="stable")
    sorted_angles = (angles % (2 * np.pi))[order]
    steps = np.diff(sorted_angles, append=sorted_angles[0] + 2 * np.pi)
    breaks = np.flatnonzero(steps >= apart - 2 * half)
    n = len(angles)
    if len(breaks) == 0:
        return "the tokens form one chain around the circle."
    rolled = np.roll(order, -(breaks[0] + 1))
    unrolled = np.concatenate([[0.0], np.cumsum(np.roll(steps, -(breaks[0] + 1))[:-1])])
    origin = float(sorted_angles[(breaks[0] + 1) % n])
    starts = np.concatenate([[0], (breaks[1:] - breaks[0])]).astype(int)
    ends = np.concatenate([starts[1:] - 1, [n - 1]]).astype(int)
    first, last = unrolled[starts], unrolled[ends]
    if np.any(last - first > 2 * half):
        return f"a group of tokens spans {float(np.max(last - first)):.3g} rad, more than a cap, {2 * half:.3g} rad."
    k = len(starts)
    centres = _spread(last - half, first + half, apart) if k > 1 else (first + last) / 2
    if centres is None:
        return "the caps are too close to each other around the circle."
    if balanced and k > 1:
        centres = _balanced(centres, last - half, first + half)
    labels = np.empty(n, dtype=int)
    labels[rolled] = np.repeat(np.arange(k), ends - starts + 1)
    return (np.atleast_1d(centres) + origin), labels


def _spread(low: np.ndarray, high: np.ndarray, apart: float) -> np.ndarray | None:
    """Points c_q in [low_q, high_q] at least `apart` from each other around the circle, or None.

    The first as late as the others allow; each next one as early as it can be.
    """
    k = len(low)
    begin = float(np.min(high - apart * np.arange(k)))
    if begin < low[0]:
        return None
    centres = np.empty(k)
    centres[0] = begin
    for q in range(1, k):
        centres[q] = max(low[q], centres[q - 1] + apart)
    fits = bool(np.all(centres <= high + 1e-12)) and centres[-1] + apart <= centres[0] + 2 * np.pi
    return centres if fits else None


def _balanced(centres: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Move the centres, one at a time, to where the smaller of their two distances is largest.

    No distance that was large enough becomes too small: each move only raises the smaller of two.
    """
    placed, least, most = centres.tolist(), low.tolist(), high.tolist()
    for _ in range(50):
        for q in range(len(placed)):
            before = placed[q - 1] - (2 * math.pi if q == 0 else 0)
            after = placed[(q + 1) % len(placed)] + (2 * math.pi if q == len(placed) - 1 else 0)
            placed[q] = min(max((before + after) / 2, least[q]), most[q])
    return np.array(placed)
