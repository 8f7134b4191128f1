"""Measures as users give them: clouds of points on the sphere with masses, and the requests no flow can serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.sphere import to_angles, tokens
from sphereflow.transport.sphere.certificates import w2
from sphereflow.transport.sphere.laws import SphereLaw
from sphereflow.transport.sphere.schedule import checked_masses

_SAME = 1e-10  # points closer than this are one point
_LEAST_PARTED = 2e-4  # tolerance from which on equal targets can be told apart while they are reached


@dataclass(frozen=True, eq=False)
class Measure:
    """Unit vectors and their masses, of sum one."""

    points: Float[np.ndarray, "n d"]
    masses: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.points)

    @property
    def d(self) -> int:
        return self.points.shape[1]

    def merged(self) -> Measure:
        """Equal points made one, masses added, in a fixed order; particles without mass left out."""
        held = self.masses > 0
        keys, first, label = np.unique(
            np.round(self.points[held] / _SAME / 10), axis=0, return_index=True, return_inverse=True
        )
        masses = np.bincount(np.ravel(label), self.masses[held], minlength=len(keys))
        return Measure(self.points[held][first], masses)

    def same_as(self, other: Measure) -> bool:
        mine, theirs = self.merged(), other.merged()
        return mine.points.shape == theirs.points.shape and bool(
            np.abs(mine.points - theirs.points).max() < 100 * _SAME and np.abs(mine.masses - theirs.masses).max() < 1e-9
        )

    def distance(self, other: Measure) -> float:
        """W2 with the geodesic distance."""
        return w2(self.points, self.masses, other.points, other.masses)


def measure(value: Any, name: str) -> Measure:
    """A point (d,), a cloud (n, d), or a pair (points, masses)."""
    if isinstance(value, Measure):
        return value
    masses = None
    if isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 2:
        value, masses = value
    if np.ndim(value) == 1 and np.size(value):
        value = np.asarray(value)[None]
    if np.size(value) == 0:
        raise SphereflowError(f"{name} is an empty cloud: a measure needs at least one point.")
    points = np.asarray(tokens(value, name), dtype=float)
    if points.ndim != 2:
        raise SphereflowError(f"{name} must have shape (n, d), got {points.shape}.")
    return Measure(unit(points), checked_masses(masses, len(points), f"the masses of {name}"))


def measures(values: Any, name: str) -> list[Measure]:
    """One measure per entry, all in one dimension."""
    try:
        entries = list(values)
    except TypeError:
        raise SphereflowError(f"{name} must be a list of measures, got {type(values).__name__}.") from None
    if not entries:
        raise SphereflowError(f"{name} is empty: give at least one measure.")
    return [measure(entry, f"{name}[{i}]") for i, entry in enumerate(entries)]


def pairs(sources: Any, targets: Any) -> tuple[list[Measure], list[Measure]]:
    """Both sides, or the one sentence that says why no Transformer can do this."""
    starts, ends = measures(sources, "sources"), measures(targets, "targets")
    if len(starts) != len(ends):
        raise SphereflowError(f"there are {len(starts)} sources and {len(ends)} targets; each source needs one target.")
    dimensions = {m.d for m in (*starts, *ends)}
    if len(dimensions) != 1:
        raise SphereflowError(f"all measures must live on one sphere, got the dimensions {sorted(dimensions)}.")
    d = dimensions.pop()
    if d < 3:
        _refuse_circle(starts, ends, d)
    for i in range(len(starts)):
        for j in range(i):
            if starts[i].same_as(starts[j]) and not ends[i].same_as(ends[j]):
                raise SphereflowError(
                    f"sources[{j}] and sources[{i}] are the same measure but their targets differ: equal measures "
                    "stay equal under any Transformer, so no schedule can part them."
                )
    return starts, ends


def laws_and_nodes(
    values: Any, nodes: int, rng: np.random.Generator, name: str
) -> tuple[list[SphereLaw | None], list[Any]]:
    """For each measure its law, if it was given as one, and what stands for it: nodes of the law, or what was given."""
    try:
        entries = list(values)
    except TypeError:
        raise SphereflowError(f"{name} must be a list of measures, got {type(values).__name__}.") from None
    laws = [entry if isinstance(entry, SphereLaw) else None for entry in entries]
    return laws, [e if law is None else law.drawn(nodes, rng) for e, law in zip(entries, laws, strict=True)]


def images(targets: Any, laws: Sequence[SphereLaw | None], sources: Sequence[Any]) -> Any:
    """The targets, with a map in the place of a target replaced by its push-forward of the source."""
    if not isinstance(targets, (list, tuple)) or len(targets) != len(sources):
        return targets
    found = []
    for i, (target, law, source) in enumerate(zip(targets, laws, sources, strict=True)):
        if isinstance(target, SphereLaw) or not callable(target):
            found.append(target)
        elif law is not None:
            found.append(law.pushed(target))
        else:
            start = measure(source, f"sources[{i}]")
            shape = start.points.shape
            found.append(
                (
                    real_array(f"the map targets[{i}] of {shape[0]} points", target(start.points), shape=shape),
                    start.masses,
                )
            )
    return found


def parted(goals: list[Measure], tol: float) -> list[Measure]:
    """Equal targets moved apart by at most the tolerance: a flow is invertible and merges nothing exactly."""
    aims: list[Measure] = []
    for i, goal in enumerate(goals):
        again = sum(goal.same_as(other) for other in goals[:i])
        total = sum(goal.same_as(other) for other in goals)
        if total > 1 and tol < _LEAST_PARTED:
            raise SphereflowError(
                f"targets[{i}] and another target are equal but their sources differ: a flow is invertible and "
                f"merges nothing exactly; to within tol it does, for tol of at least {_LEAST_PARTED:g}, got {tol:g}."
            )
        aims.append(goal if total == 1 else _turned(goal, 0.8 * tol * (again / (total - 1) - 0.5)))
    return aims


def _turned(goal: Measure, angle: float) -> Measure:
    """Turned by a small angle in the plane of the two axes in which the points move most."""
    moment = (goal.points**2).T @ goal.masses
    first, second = np.argsort(-moment)[:2]
    points = goal.points.copy()
    c, s = np.cos(angle), np.sin(angle)
    points[:, first], points[:, second] = (
        c * goal.points[:, first] - s * goal.points[:, second],
        s * goal.points[:, first] + c * goal.points[:, second],
    )
    return Measure(unit(points), goal.masses)


def distinct(starts: Sequence[Measure]) -> list[int]:
    """For each measure the index of the first one equal to it."""
    return [next(j for j in range(i + 1) if starts[i].same_as(starts[j])) for i in range(len(starts))]


def _refuse_circle(starts: list[Measure], ends: list[Measure], d: int) -> None:
    if d < 2:
        raise SphereflowError("on the sphere of R^1, two points, nothing can move; the construction needs d >= 3.")
    if all(len(a) == len(b) == 1 for a, b in zip(starts, ends, strict=True)) and len(starts) > 2:
        before, after = (np.concatenate([m.points for m in side]) for side in (starts, ends))
        if not _same_cyclic_order(before, after):
            raise SphereflowError(
                "on the circle a flow keeps the cyclic order of the points, and the targets are in another order: "
                "no schedule exists; use d >= 3."
            )
    raise SphereflowError("the construction needs d >= 3: on the circle (d = 2) points cannot pass each other.")


def _same_cyclic_order(before: np.ndarray, after: np.ndarray) -> bool:
    order = np.argsort(np.asarray(to_angles(before)))
    turned = np.asarray(to_angles(after))[order]
    return int(np.count_nonzero(np.diff(np.append(turned, turned[0])) < 0)) == 1


def quantised(target: Measure, atoms: int) -> Measure:
    """At most this many atoms of nearly equal mass: halves along the longest axis, again and again."""
    if len(target) <= atoms:
        return target
    parts = [np.arange(len(target))]
    while len(parts) < atoms:
        heaviest = max(range(len(parts)), key=lambda k: target.masses[parts[k]].sum() if len(parts[k]) > 1 else -1.0)
        cut = parts.pop(heaviest)
        spread = target.points[cut] - target.points[cut].mean(axis=0)
        axis = np.linalg.svd(spread, full_matrices=False)[2][0]
        order = cut[np.argsort(spread @ axis, kind="stable")]
        held = np.cumsum(target.masses[order])
        middle = int(np.clip(np.argmin(np.abs(held - held[-1] / 2)) + 1, 1, len(order) - 1))
        parts += [order[:middle], order[middle:]]
    masses = np.array([target.masses[part].sum() for part in parts])
    centres = np.stack([target.masses[part] @ target.points[part] for part in parts])
    return Measure(unit(centres), masses)
