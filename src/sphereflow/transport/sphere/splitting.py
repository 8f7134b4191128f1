r"""Clustering and splitting: a measure becomes one point, or m points with the masses asked for.

- One point each: the attention piece V = I, B = 0 for all measures at once; radii fall like $e^{-t}$.
- m points: m - 1 times a cap $\{\langle z,x\rangle>\ell\}$ that holds exactly the next share of one measure and
  nothing else is drawn together at z by the gate $(\langle z,x\rangle-\ell)_+P_x^\perp z$; the rest is drawn together
  at its own centre. The time is like one over the gap at the rim: what an atomless measure has there is the
  (1 - epsilon) of the theorem.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.transport.sphere.construction import ConstructionState, random_orthogonal_units
from sphereflow.transport.sphere.flows import cap_times, gate_times, polar
from sphereflow.transport.sphere.matching import Group, centre, moved, other_particles
from sphereflow.transport.sphere.pieces import Gate, Gathering

_DIRECTIONS = 100
_FEW = 4  # atoms that find room beside what they were cut from
_SPOTS = 400
_TRIED = 30
_CLEAR = 1.5  # radii between a new atom and what is still to be drawn together


def whole(route: ConstructionState, i: int) -> Group:
    """All particles of a measure as one group."""
    return Group(i, np.arange(len(route.clouds[i])))


def singles(route: ConstructionState, i: int) -> list[Group]:
    """Each particle of a measure as its own group."""
    return [Group(i, np.array([k])) for k in range(len(route.clouds[i]))]


def radius(route: ConstructionState, group: Group) -> float:
    """The largest angle between a group and its centre."""
    return float(angles(route.clouds[group.measure][group.members], centre(route, group)).max())


def gather_all(route: ConstructionState, wanted: float) -> None:
    """One attention piece after which every measure has at most this radius."""
    widest = max(radius(route, whole(route, i)) for i in range(len(route.clouds)))
    route.enter("cluster")
    if widest <= wanted:
        return
    time = float(np.log(np.tan(widest / 2) / np.tan(wanted / 2)))
    while time > 0:
        piece = Gathering(duration=time, d=route.d)
        trial = route.branch()
        trial.emit(piece)
        left = max(radius(trial, whole(trial, i)) for i in range(len(trial.clouds)))
        if left <= wanted:
            route.adopt(trial)
            return
        time += float(np.log(left / wanted)) + 0.05


def split(
    route: ConstructionState,
    i: int,
    shares: Float[np.ndarray, " m"],
    wanted: float,
    whole_yet: list[int],
    rng: np.random.Generator,
) -> list[Group]:
    """Emit one gate per share; afterwards measure i is len(shares) groups of radius at most `wanted`.

    `whole_yet` are the measures still to be split after this one, which the new atoms must not stand beside.
    """
    remainder = np.arange(len(route.clouds[i]))
    groups: list[Group] = []
    for k, share in enumerate(shares[:-1]):
        left_over = route.masses[i][remainder].sum()
        count_share = share / shares[k:].sum() * left_over
        chosen = _cut(route, Group(i, remainder), count_share, wanted, whole_yet, rng)
        groups.append(Group(i, chosen))
        remainder = np.setdiff1d(remainder, chosen)
        if len(shares) > _FEW:
            _out_of_the_way(route, groups[-1], rng)
    groups.append(Group(i, remainder))
    draw_together(route, groups[-1], wanted)
    return groups


def draw_together(route: ConstructionState, group: Group, wanted: float) -> None:
    """One gate about the group's centre, reaching half-way to the nearest other particle."""
    c, others = centre(route, group), other_particles(route, group)
    own = radius(route, group)
    if own <= wanted:
        return
    nearest = float(angles(others, c).min(initial=np.pi / 2))
    if nearest <= own:
        raise SphereflowError("a cap around a group of particles holds foreign particles as well; try another seed.")
    level = float(np.cos((own + nearest) / 2))
    time = float(gate_times(route.clouds[group.measure][group.members], c, -level, c, wanted).max())
    route.emit(Gate(duration=time, a=c, beta=-level, omega=c))


def _cut(
    route: ConstructionState, group: Group, share: float, wanted: float, whole_yet: list[int], rng: np.random.Generator
) -> Int[np.ndarray, " k"]:
    """Emit the quickest admissible gate that takes a share of the group away, and say which particles it took."""
    i, members = group.measure, group.members
    x, mass = route.clouds[i][members], route.masses[i][members]
    others, c, own = other_particles(route, group), centre(route, group), radius(route, group)
    avoid = [(centre(route, whole(route, k)), radius(route, whole(route, k))) for k in whole_yet]
    best: tuple[float, np.ndarray, float, np.ndarray] | None = None
    for z in _cap_centres(c, own, others, rng):
        height = x @ z
        order = np.argsort(-height)
        count = _nearest_count(mass[order], share)
        level = (height[order[count - 1]] + height[order[count]]) / 2
        if height[order[count - 1]] - height[order[count]] < 1e-12 or (others @ z).max(initial=-1.0) >= level:
            continue
        if any(angles(z, place) <= _CLEAR * size for place, size in avoid):
            continue
        rest = order[count:]
        middle = unit(mass[rest] @ x[rest])
        if angles(z, middle) <= _CLEAR * angles(x[rest], middle).max():
            continue
        last = polar(x[order[count - 1 : count]], z)[0]
        time = float(cap_times(last, np.array([level]), wanted)[0])
        if best is None or time < best[0]:
            best = (time, z, float(level), members[order[:count]])
    if best is None:
        raise SphereflowError(
            f"measure {i} cannot be split into the masses asked for: no cap holds the next share and nothing else "
            "(it may have atoms heavier than the target's, or too few particles)."
        )
    route.emit(Gate(duration=best[0], a=best[1], beta=-best[2], omega=best[1]))
    return np.sort(best[3])


def _out_of_the_way(route: ConstructionState, group: Group, rng: np.random.Generator) -> None:
    """Carry a new atom to one of the emptiest places it can reach, so that the next cap has room."""
    others = other_particles(route, group)
    spots = unit(rng.normal(size=(_SPOTS, route.d)))
    room = angles(spots[:, None], others).min(axis=1)
    for spot in spots[np.argsort(-room)[:_TRIED]]:
        if moved(route, group, spot, rng):
            return


def _cap_centres(c: np.ndarray, own: float, others: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    gap = max(float(angles(others, c).min(initial=np.pi)) - own, own)
    distances = [0.25, 0.5 * gap, 0.25 * gap, 0.1 * gap, 2.2 * own, 1.6 * own]
    v = random_orthogonal_units(rng, _DIRECTIONS, c[None])
    return np.concatenate([np.cos(off) * c + np.sin(off) * v for off in distances if off < np.pi / 2])


def _nearest_count(masses: np.ndarray, share: float) -> int:
    """How many of the first particles come nearest to this mass, at least one and not all."""
    return int(np.clip(np.argmin(np.abs(np.cumsum(masses) - share)) + 1, 1, len(masses) - 1))
