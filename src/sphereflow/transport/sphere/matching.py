r"""Matching: one group of particles after another is carried to its target, all others end where they were.

To carry x to y, with $\gamma\perp x,y$ and $\omega=-(x+y)/|x+y|$ (Proposition 4.2 of the paper, corrected: both
endpoints, not their difference alone, must be orthogonal to gamma):

1. two gates open where $\pm\langle\gamma,\cdot\rangle>\varepsilon/2$ gather all other particles in $B(\omega,3\pi/16)$;
2. one gate open outside that ball moves the group along the great circle from x through y, stopped at y in closed form;
3. the inverses of the two gates bring the others back.

Where the cap around the way from x to y is empty of others, one gate over that cap does it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.transport.sphere.construction import ConstructionState, random_orthogonal_units
from sphereflow.transport.sphere.flows import gate_times
from sphereflow.transport.sphere.pieces import Gate

_BALL = 3 * np.pi / 16
_NARROW = 1e-5  # gathering takes a time like 1/epsilon; closer than this to the great circle counts as on it
_WIDEST = 0.3
_DRAWS = 400
_WAYS = 30
_THERE = 1e-13
_MARGIN = 0.1  # by which a cap must clear the other particles: the gate's opening, and so its time, depends on it


@dataclass(frozen=True, eq=False)
class Group:
    """Particles of one measure that travel together."""

    measure: int
    members: Int[np.ndarray, " k"]


class Collision(SphereflowError):
    """Another particle lies on the great circle through start and target."""


def centre(route: ConstructionState, group: Group) -> Float[np.ndarray, " d"]:
    """Direction of the group's mean."""
    masses = route.masses[group.measure][group.members]
    return unit(masses @ route.clouds[group.measure][group.members])


def other_particles(route: ConstructionState, group: Group) -> Float[np.ndarray, "m d"]:
    """Every particle outside the group, its own measure's included."""
    clouds = list(route.clouds)
    clouds[group.measure] = np.delete(clouds[group.measure], group.members, axis=0)
    return np.concatenate(clouds)


def move(route: ConstructionState, group: Group, y: Float[np.ndarray, " d"], rng: np.random.Generator) -> None:
    """Emit the 1, 3 or 5 pieces that carry the group to y and leave everything else where it is."""
    x, others = centre(route, group), other_particles(route, group)
    if angles(x, y) < _THERE:
        return
    if angles(x, -y) < 0.05:
        raise Collision("start and target are opposite points: every great circle joins them.")
    gamma, width = _slab_normal(x, y, others, rng)
    size = float(np.abs(route.clouds[group.measure][group.members] @ gamma).max())
    if width < max(_NARROW, 4 * size):
        raise Collision(
            f"a particle lies within {width:.1e} of the great circle from a cluster to its target; move the target "
            "a little or change the order."
        )
    omega = -unit(x + y)
    gathers = []
    for side in (1.0, -1.0):
        aim = np.cos(np.pi / 8) * omega + side * np.sin(np.pi / 8) * gamma
        these = others[side * (others @ gamma) > 0]
        time = float(gate_times(these, side * gamma, -width / 2, aim, 0.98 * np.pi / 16).max(initial=0.0))
        if time > 0:
            gathers.append(Gate(duration=time, a=side * gamma, beta=-width / 2, omega=aim))
    corridor = _corridor(x, y, omega)
    for piece in (*gathers, corridor, *(gather.inverse() for gather in reversed(gathers))):
        route.emit(piece)


def single_gate_move(route: ConstructionState, group: Group, y: Float[np.ndarray, " d"]) -> bool:
    """Emit the one gate that carries the group to y, if a cap holds the way and nobody else; say whether it did."""
    x, others = centre(route, group), other_particles(route, group)
    turn, middle = float(angles(x, y)), x + y
    if turn > np.pi - 2 * _MARGIN or turn < _THERE:
        return turn < _THERE
    middle = unit(middle)
    nearest = float(angles(others, middle).min(initial=np.pi / 2))
    if nearest < turn / 2 + _MARGIN:
        return False
    rim = min((turn / 2 + nearest) / 2, turn / 2 + 0.5)
    route.emit(_toward(x, y, (rim - turn / 2) / 2, middle, -float(np.cos(rim))))
    return True


def _slab_normal(
    x: np.ndarray, y: np.ndarray, others: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Of the unit vectors orthogonal to x and y the one from whose great sphere the others stay farthest."""
    ends = np.stack([x, y if angles(x, y) > 1e-6 else random_orthogonal_units(rng, 1, x[None])[0]])
    normals = random_orthogonal_units(rng, 1 if len(x) == 3 else _DRAWS, ends)
    clearance = np.abs(normals @ others.T).min(axis=1, initial=_WIDEST)
    best = int(np.argmax(clearance))
    return normals[best], float(clearance[best])


def _corridor(x: np.ndarray, y: np.ndarray, omega: np.ndarray) -> Gate:
    return _toward(x, y, min(np.pi / 8, (np.pi - float(angles(x, y))) / 2), -omega, float(np.cos(_BALL)))


def _toward(x: np.ndarray, y: np.ndarray, beyond: float, a: np.ndarray, beta: float) -> Gate:
    """The gate (a, beta) towards a point beyond y on the great circle from x through y, stopped when x is at y."""
    turn = float(angles(x, y))
    along = unit(y - (x @ y) * x)
    along = unit(along - (along @ x) * x)
    goal = np.cos(turn + beyond) * x + np.sin(turn + beyond) * along
    return Gate(duration=float(gate_times(x[None], a, beta, goal, beyond)[0]), a=a, beta=beta, omega=goal)


def match(
    route: ConstructionState, groups: list[Group], targets: Float[np.ndarray, "g d"], rng: np.random.Generator
) -> None:
    """Carry every group to its target; a group whose target is occupied waits, a cycle is broken by parking one."""
    route.enter("match")
    waiting, parked = list(range(len(groups))), 0
    while waiting:
        free = [index for index in waiting if _free(route, groups[index], targets[index])]
        there = _first_moved(route, groups, targets, free, rng)
        if there is not None:
            waiting.remove(there)
        elif len(free) < len(waiting) and parked < len(groups):
            index = next(index for index in waiting if index not in free)
            parked += _sent(route, groups[index], unit(rng.normal(size=route.d)), rng)
        else:
            raise SphereflowError(
                "no cluster can reach its target: every way tried passes through another cluster or target atom; "
                "move the targets a little apart."
            )


def _first_moved(
    route: ConstructionState, groups: list[Group], targets: np.ndarray, free: list[int], rng: np.random.Generator
) -> int | None:
    """The first group that can go straight to its target, or else by way of other points, having gone."""
    for way in (moved, _sent):
        for index in free:
            if way(route, groups[index], targets[index], rng):
                return index
    return None


def _sent(route: ConstructionState, group: Group, y: np.ndarray, rng: np.random.Generator) -> bool:
    """Go by way of a point near the start, the target, or both: on S^2 an opposite point bars every straight way."""
    for attempt in range(_WAYS):
        trial = route.branch()
        near_start, near_end = (unit(p + 0.3 * rng.normal(size=route.d)) for p in (centre(route, group), y))
        stops = ([near_end], [near_start], [near_start, near_end])[attempt % 3]
        if all(moved(trial, group, stop, rng) for stop in (*stops, y)):
            route.adopt(trial)
            return True
    return False


def moved(route: ConstructionState, group: Group, y: np.ndarray, rng: np.random.Generator) -> bool:
    """Carry a group straight to y if nothing is in the way; say whether it has gone."""
    if single_gate_move(route, group, y):
        return True
    trial = route.branch()
    try:
        move(trial, group, y, rng)
    except Collision:
        return False
    route.adopt(trial)
    return True


def _free(route: ConstructionState, group: Group, y: np.ndarray) -> bool:
    return bool(angles(other_particles(route, group), y).min(initial=np.pi) > _NARROW)
