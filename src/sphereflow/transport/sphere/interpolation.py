"""N measures to N targets on the sphere by one schedule of Transformer weights.

```python
from sphereflow.transport import interpolate
found = interpolate([cloud_a, cloud_b], [point_a, point_b])
found.schedule, found.w2, found.hulls
found.plot().savefig("stages.png")
```
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.unit_vectors import angle_table, angles
from sphereflow.observables import in_open_hemisphere
from sphereflow.results import recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.transport.sphere.cap import into_cap
from sphereflow.transport.sphere.certificates import separated_pairs
from sphereflow.transport.sphere.construction import ConstructionState
from sphereflow.transport.sphere.disentangling import disentangle
from sphereflow.transport.sphere.inputs import (
    Measure,
    distinct,
    images,
    laws_and_nodes,
    measure,
    pairs,
    parted,
    quantised,
)
from sphereflow.transport.sphere.laws import SphereLaw
from sphereflow.transport.sphere.margins import Clusters, cluster
from sphereflow.transport.sphere.matching import Group, match
from sphereflow.transport.sphere.result import Interpolation
from sphereflow.transport.sphere.schedule import SphereSchedule
from sphereflow.transport.sphere.splitting import draw_together, gather_all, singles, split, whole

# Target atoms closer than this are parted by a schedule of their own before they are matched.
_TOO_CLOSE = 1e-3
_ATTEMPTS = 4
_SIX = 6.0  # standard errors of the means
_MOST_NODES = 200_000


@recorded_call
def interpolate(
    sources: Any,
    targets: Any,
    *,
    tol: float = 1e-5,
    atoms: int = 12,
    nodes: int = 2000,
    margins: bool = True,
    seed: Seed = 0,
) -> Interpolation:
    r"""One parameter curve theta with $W_2(\mu^i(T),\mu_1^i)\le$ `tol` for every i (Theorems 1.1 and 1.2).

    **Arguments:**

    - `sources`: N measures, all different, d >= 3; each a `SphereLaw`, an array (n, d) of unit vectors or a pair
      (points, masses). An array may be a sample of a law or the measure itself.
    - `targets`: N measures; each a point (d,), atoms (m, d), a pair (atoms, masses), a `SphereLaw`, or a function of
      points, the map T whose push-forward of the source is meant. Equal targets are reached to within `tol`.
    - `tol`: how far a particle may end from its atom.
    - `atoms`: a target with more points than this, and not the same number of points as its source, stands for a
      density and is replaced by this many atoms; what that costs is in `.quantisation`.
    - `nodes`: the points by which a law is represented while the schedule is built; up to 200,000 where fewer do not
      tell two laws apart by six standard errors.
    - `margins`: with one point per target, build for every law whose mean is near that of the points given
      (`.safety`, `.reach`, `held_out`); False builds for these particles alone, as the proof does.
    - `seed`: of the choices among directions, and of the nodes.

    **Returns:** an `Interpolation`: `schedule`, `w2`, `hulls`, `phases`, `final`, `held_out()`, `plot()`.

    *Reference:* Geshkovski, Rigollet, Ruiz-Balet, Measure-to-measure interpolation using Transformers, 2024.
    """
    rng = rng_from(seed)
    nodes = whole_number("nodes", nodes, least=2, most=10**6)
    laws, sources = laws_and_nodes(sources, nodes, rng, "sources")
    wanted, targets = laws_and_nodes(images(targets, laws, sources), nodes, rng, "targets")
    real_number("tol", tol, above=1e-12, most=0.1)
    whole_number("atoms", atoms)
    starts, ends = pairs(sources, targets)
    kept = sorted(set(distinct(starts)))
    goals = [
        e if len(e) == len(s) and law is None else quantised(e.merged(), atoms)
        for s, e, law in zip(starts, ends, wanted, strict=True)
    ]
    aims = parted([goals[i] for i in kept], tol)
    plan, clusters = _plan([starts[i] for i in kept], aims, tol, margins, rng)
    if (more := _nodes_needed(clusters, [laws[i] for i in kept], nodes)) > nodes:
        drawn = [
            m if law is None else measure(law.drawn(more, rng), "sources") for m, law in zip(starts, laws, strict=True)
        ]
        starts = [drawn[i] if i in kept else m for i, m in enumerate(starts)]
        plan, clusters = _plan([starts[i] for i in kept], aims, tol, margins, rng)
    return Interpolation(
        schedule=plan.schedule,
        phases=tuple(plan.phases),
        sources=tuple(starts),
        targets=tuple(ends),
        atoms=tuple(goals),
        arrived=_arrived(plan, starts, kept),
        tol=tol,
        clusters=clusters,
        laws=tuple(laws),
        target_laws=tuple(wanted),
    )


def _nodes_needed(clusters: Clusters | None, laws: list[SphereLaw | None], nodes: int) -> int:
    """How many points tell the laws apart by `_SIX` standard errors; as many as there are if no law was given."""
    if clusters is None or all(law is None for law in laws):
        return nodes
    least = min(margin.safety for margin in clusters.margins)
    return nodes if least >= _SIX else int(min(_MOST_NODES, 1.5 * nodes * (_SIX / max(least, 0.1)) ** 2))


def _arrived(plan: ConstructionState, starts: list[Measure], kept: list[int]) -> tuple[np.ndarray, ...]:
    """Where each source ended; one equal to an earlier source, in whatever order, goes through the schedule now."""
    return tuple(
        plan.clouds[kept.index(i)] if i in kept else plan.schedule.apply(start.points, start.masses)
        for i, start in enumerate(starts)
    )


def _plan(
    starts: list[Measure], goals: list[Measure], tol: float, margins: bool, rng: np.random.Generator
) -> tuple[ConstructionState, Clusters | None]:
    """The pieces, with the clusters made smaller until every particle is within the tolerance of its atom."""
    if margins and all(len(goal) == 1 for goal in goals) and any(len(start) > 1 for start in starts):
        return _to_points(starts, np.concatenate([goal.points for goal in goals]), tol, rng)
    if _apart_already(starts, goals):
        opened = ConstructionState([m.points for m in starts], [m.masses for m in starts])
    else:
        opened = separate(starts, rng)
    back: SphereSchedule | None = None
    if _crowded(goals):
        parting = separate(goals, rng)
        back = parting.schedule.inverse()
        goals = [Measure(x, m) for x, m in zip(parting.clouds, parting.masses, strict=True)]
    wanted = tol / 4
    for _ in range(_ATTEMPTS):
        route = opened.branch()
        ends = [goal.points for goal in goals]
        groups = group(route, goals, wanted, rng)
        match(route, [g for own in groups for g in own], np.concatenate(ends), rng)
        if back is not None:
            route.enter("return the targets")
            arrived = [back.apply(x, g.masses) for x, g in zip(ends, goals, strict=True)]
            route.extend(back)
            ends = arrived
        spread = max(
            float(angles(route.clouds[g.measure][g.members], y).max())
            for own, points in zip(groups, ends, strict=True)
            for g, y in zip(own, points, strict=True)
        )
        if spread <= tol:
            return route, None
        wanted /= max(10.0, 3 * spread / tol)
    raise _too_far(spread, tol)


def _to_points(
    starts: list[Measure], ends: np.ndarray, tol: float, rng: np.random.Generator
) -> tuple[ConstructionState, Clusters]:
    """Clusters with margins, and their rims carried to the targets."""
    opened = ConstructionState([m.points for m in starts], [m.masses for m in starts])
    wanted = tol / 4
    choices = rng.integers(2**62)
    for _ in range(_ATTEMPTS):
        route = opened.branch()
        clusters = cluster(route, wanted, np.random.default_rng(choices))
        rims = clusters.marks()
        match(rims, [whole(rims, i) for i in range(len(ends))], ends, np.random.default_rng(choices + 1))
        route.enter("match")
        route.extend(rims.schedule)
        spread = max(float(angles(rim, y).max()) for rim, y in zip(rims.clouds, ends, strict=True))
        if spread <= tol:
            return route, clusters
        wanted /= max(10.0, 3 * spread / tol)
    raise _too_far(spread, tol)


def _too_far(spread: float, tol: float) -> SphereflowError:
    return SphereflowError(
        f"the clusters arrive within {spread:.1e} of their targets only, more than tol = {tol:.1e}; "
        "ask for less, or try another seed."
    )


def separate(starts: list[Measure], rng: np.random.Generator) -> ConstructionState:
    """Into one cap and apart: afterwards hulls are pairwise disjoint."""
    route = ConstructionState([m.points for m in starts], [m.masses for m in starts])
    into_cap(route, rng)
    disentangle(route, rng)
    return route


def _apart_already(starts: list[Measure], goals: list[Measure]) -> bool:
    """Whether nothing overlaps, so that clusters or particles can be matched as they are."""
    clouds = [m.points for m in starts]
    if all(len(goal) == 1 for goal in goals):
        separated, pairs = separated_pairs(clouds)
        return separated == pairs and all(in_open_hemisphere(cloud) for cloud in clouds)
    paired = all(len(s) == len(g) and _masses_agree(s.masses, g.masses) for s, g in zip(starts, goals, strict=True))
    return paired and not _crowded(starts)


def group(route: ConstructionState, goals: list[Measure], wanted: float, rng: np.random.Generator) -> list[list[Group]]:
    """For each measure one group of particles per target atom, in the order of the atoms."""
    if all(len(goal) == 1 for goal in goals):
        gather_all(route, wanted)
        return [[whole(route, i)] for i in range(len(goals))]
    route.enter("split")
    groups: list[list[Group]] = [[] for _ in goals]
    for i, goal in enumerate(goals):
        if exact := _one_to_one(route, i, goal):
            groups[i] = exact
    to_split = [i for i in range(len(goals)) if not groups[i]]
    for position, i in enumerate(to_split):
        if len(goals[i]) > len(route.clouds[i]):
            raise SphereflowError(
                f"a source of {len(route.clouds[i])} points cannot become {len(goals[i])} atoms: a flow cannot divide "
                "a point; give a finer sample of the source."
            )
        if len(goals[i]) == 1:
            groups[i] = [whole(route, i)]
            draw_together(route, groups[i][0], wanted)
        else:
            groups[i] = split(route, i, goals[i].masses, wanted, to_split[position + 1 :], rng)
    return groups


def _one_to_one(route: ConstructionState, i: int, goal: Measure) -> list[Group]:
    """Particles paired with atoms of the same mass, near ones first; nothing if the masses do not allow it."""
    masses = route.masses[i]
    if len(goal) != len(masses) or not _masses_agree(masses, goal.masses):
        return []
    unlike = np.abs(masses[:, None] - goal.masses) > 1e-12
    cost = angle_table(route.clouds[i], goal.points) ** 2 + 1e3 * unlike
    rows, columns = linear_sum_assignment(cost)
    order = rows[np.argsort(columns)]
    particles = singles(route, i)
    return [particles[k] for k in order]


def _masses_agree(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.abs(np.sort(first) - np.sort(second)).max() < 1e-12)


def _crowded(goals: list[Measure]) -> bool:
    """Whether two atoms, of any of the measures, are too close to be matched as they stand."""
    points = np.concatenate([goal.points for goal in goals])
    if len(goals) == 1 or all(len(goal) == 1 for goal in goals):
        return False
    return len(cKDTree(points).query_pairs(2 * np.sin(_TOO_CLOSE / 2), output_type="ndarray")) > 0
