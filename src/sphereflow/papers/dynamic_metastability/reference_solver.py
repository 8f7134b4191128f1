r"""Direct integration, with nothing merged and nothing rescaled: the reference that long runs are compared with.

The equations of the n tokens are handed to LSODA, which switches to an implicit method on plateaus. Feasible while
$e^{-\beta(1-\cos)}$ is far above rounding, that is for beta up to about ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.integrate import LSODA, solve_ivp
from scipy.optimize import brentq

Merger = tuple[float, frozenset[frozenset[int]]]


@dataclass(frozen=True, eq=False)
class Passage:
    """Mergers in order, (time, the two token sets that met); times at which the energy passed the levels; the end."""

    mergers: tuple[Merger, ...]
    levels: np.ndarray
    final: np.ndarray


def field(x: np.ndarray, beta: float, kind: str) -> np.ndarray:
    """SA or USA of tokens of equal mass, sums over all tokens, written out."""
    weights = np.exp(beta * (x @ x.T - 1))
    pull = weights @ x
    pull = pull / weights.sum(axis=1, keepdims=True) if kind == "sa" else pull / len(x)
    return pull - np.sum(pull * x, axis=1, keepdims=True) * x


def angular_field(theta: np.ndarray, beta: float, kind: str) -> np.ndarray:
    """The same on the circle, in angles."""
    difference = theta[None, :] - theta[:, None]
    weights = np.exp(beta * (np.cos(difference) - 1))
    pull = np.sum(weights * np.sin(difference), axis=1)
    return pull / weights.sum(axis=1) if kind == "sa" else pull / len(theta)


def integrate(
    start: np.ndarray, beta: float, kind: str, radius: float, *, levels: tuple[float, ...] = (), t1: float = 1e12
) -> Passage:
    """Follow tokens, given as angles (n,) or as points (n, d), until they have all met or until t1.

    Groups of tokens meet when their mean directions come within `radius`; the motion does not know of the groups.
    """
    circle = start.ndim == 1

    def points(y: np.ndarray) -> np.ndarray:
        if circle:
            return np.stack([np.cos(y), np.sin(y)], axis=1)
        x = y.reshape(start.shape)
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        return angular_field(y, beta, kind) if circle else field(points(y), beta, kind).ravel()

    def energy(y: np.ndarray) -> float:
        x = points(y)
        return float(np.mean(np.exp(beta * (x @ x.T - 1))))

    solver = LSODA(slope, 0.0, start.ravel().copy(), t1, rtol=1e-10, atol=1e-13)
    groups = [frozenset([i]) for i in range(len(start))]
    mergers: list[Merger] = []
    while (near := _near(points(solver.y), groups, radius)) is not None:  # those that begin together
        mergers.append((0.0, _join(groups, *near)))
    reached = np.full(len(levels), np.inf)
    before = energy(solver.y)
    while solver.status == "running" and len(groups) > 1:
        solver.step()
        now = energy(solver.y)
        for k, level in enumerate(levels):
            if before < level <= now and math.isinf(reached[k]):
                dense = solver.dense_output()
                reached[k] = _root(_missing(level, dense, energy), solver)
        before = now
        while _near(points(solver.y), groups, radius) is not None:
            time, pair = _first_meeting(solver, points, groups, radius)
            mergers.append((time, _join(groups, *pair)))
    return Passage(tuple(mergers), reached, points(solver.y))


def closing_time(x: np.ndarray, beta: float, kind: str, labels: np.ndarray, level: float, t1: float) -> float:
    """First time at which all tokens with one label are within the squared distance `level`; inf if not before t1."""
    same = np.asarray(labels)[:, None] == np.asarray(labels)[None, :]

    def spread(t: float, y: np.ndarray) -> float:
        z = y.reshape(x.shape)
        squares = np.sum((z[:, None] - z[None]) ** 2, axis=-1)
        return math.log(max(float(squares[same].max()), 1e-300) / level)

    spread.terminal = True  # type: ignore[attr-defined]

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        z = y.reshape(x.shape)
        return field(z / np.linalg.norm(z, axis=1, keepdims=True), beta, kind).ravel()

    if spread(0.0, x.ravel()) <= 0:
        return 0.0
    run = solve_ivp(slope, (0.0, t1), x.ravel(), method="DOP853", rtol=1e-11, atol=1e-13, events=spread)
    assert run.t_events is not None
    return float(run.t_events[0][0]) if len(run.t_events[0]) else math.inf


def _centres(x: np.ndarray, groups: list[frozenset[int]]) -> np.ndarray:
    means = np.stack([x[list(group)].mean(axis=0) for group in groups])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def _near(x: np.ndarray, groups: list[frozenset[int]], radius: float) -> tuple[int, int] | None:
    """Some pair of groups whose centres are within the radius."""
    if len(groups) == 1:
        return None
    centres = _centres(x, groups)
    distances = np.linalg.norm(centres[:, None] - centres[None], axis=-1)
    np.fill_diagonal(distances, np.inf)
    i, j = divmod(int(np.argmin(distances)), len(groups))
    return (i, j) if distances[i, j] < radius else None


def _first_meeting(
    solver: LSODA, points: Callable[[np.ndarray], np.ndarray], groups: list[frozenset[int]], radius: float
) -> tuple[float, tuple[int, int]]:
    """The earliest meeting of two groups inside the last step."""
    dense = solver.dense_output()

    def distance(t: float, i: int, j: int) -> float:
        centres = _centres(points(dense(t)), [groups[i], groups[j]])
        return float(np.linalg.norm(centres[0] - centres[1])) - radius

    found = []
    for i, j in combinations(range(len(groups)), 2):
        if distance(solver.t, i, j) < 0:
            met_before = distance(solver.t_old, i, j) <= 0
            time = solver.t_old if met_before else _root(partial(distance, i=i, j=j), solver)
            found.append((float(time), (i, j)))
    return min(found)


def _missing(level: float, dense: Any, energy: Callable[[np.ndarray], float]) -> Callable[[float], float]:
    """How much energy is missing to the level, as a function of time inside the last step."""
    return lambda t: level - energy(dense(t))


def _join(groups: list[frozenset[int]], i: int, j: int) -> frozenset[frozenset[int]]:
    pair = frozenset([groups[i], groups[j]])
    joined = groups[i] | groups[j]
    groups[:] = [g for k, g in enumerate(groups) if k not in (i, j)] + [joined]
    return pair


def _root(function: Callable[[float], float], solver: LSODA) -> float:
    """Where the function, positive at the old time, reaches zero inside the last step."""
    return float(brentq(function, solver.t_old, solver.t, xtol=1e-14 * max(solver.t, 1), rtol=1e-14))
