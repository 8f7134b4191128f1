"""Matching points with points by gates: exact arrival, exact rest of all others, and what no flow can do."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.claims.basis import Derived, Equation
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.sources import TEXT, theorem
from sphereflow.papers.measure_to_measure.test_measures import A, B, cap, points, shared_atom
from sphereflow.transport.sphere.construction import ConstructionState, random_orthogonal_units
from sphereflow.transport.sphere.flows import gate, gate_times
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.matching import Group, move, single_gate_move
from sphereflow.transport.sphere.pieces import Gate, Piece, RankOne
from sphereflow.transport.sphere.schedule import SphereSchedule


def single_points(count: int, d: int, seed: int) -> ConstructionState:
    x = points(count, d, seed)
    return ConstructionState([p[None] for p in x], [np.ones(1)] * count)


@PAPER.claim(
    "match-one-point",
    says="Five pieces carry one point exactly to its target and bring five other points back to where they were, in "
    "dimensions 3, 5 and 8; where a cap around the way is empty of others, one piece does.",
    basis=theorem("Proposition 4.2"),
    formula=r"x\mapsto y,\qquad x_j\mapsto x_j\ (j\ne i)",
)
def match_one_point(run: Run) -> Check:
    hit, rest, pieces, left = 0.0, 0.0, 0, 0.0
    for d in (3, 5, 8):
        for trial in range(3 if run.quick else 20):
            start = single_points(6, d, 10 * trial + run.seed)
            goal, first = points(1, d, 77 + trial)[0], Group(0, np.array([0]))
            gathered, alone = start.branch(), start.branch()
            move(gathered, first, goal, np.random.default_rng(trial))
            left = max(left, _without_restoring(start, gathered))
            for route in (gathered, alone) if single_gate_move(alone, first, goal) else (gathered,):
                hit = max(hit, float(angles(route.clouds[0][0], goal)))
                moved = [np.abs(a - b).max() for a, b in zip(route.clouds[1:], start.clouds[1:], strict=True)]
                rest = max(rest, float(max(moved)))
                pieces = max(pieces, len(route.pieces))
    detour = interpolate([A, unit(A + B)], [B, unit(A + B)])
    check = Check()
    because = "the travel time is closed and the inverse gates are exact: rounding, grown by the gathering"
    check.row("active point misses its target by", predicted=0.0, measured=hit, tolerance=1e-9, because=because)
    check.row("others moved by", predicted=0.0, measured=rest, tolerance=1e-10, because=because)
    check.at_most("pieces", bound=5, measured=pieces, because="a count")
    past = "past a point on the great circle"
    check.row(past, predicted=0.0, measured=detour.w2.max(), tolerance=1e-9, because=because)
    check.rival("four pieces are enough", {"pieces": 4})
    check.null("without the pieces that restore the others", {"others moved by": left})
    return check


def _without_restoring(start: ConstructionState, route: ConstructionState) -> float:
    """How far the others are away after gathering and corridor."""
    schedule = SphereSchedule(route.pieces[: (len(route.pieces) + 1) // 2], start.d)
    there = schedule.apply([x.copy() for x in start.clouds[1:]])
    return max(float(np.abs(a - b).max()) for a, b in zip(there, start.clouds[1:], strict=True))


@PAPER.claim(
    "both-endpoints-in-the-slab",
    says=r"The matching step leaves its active point at rest if $\gamma$ is orthogonal to both endpoints. For a random "
    r"$\gamma$ orthogonal to their difference only, the gathering gates carry it away with a probability near one.",
    prints=r"$\langle\gamma,x-y\rangle=0$ suffices for the gathering gates to leave $x$ and $y$ at rest "
    "(Propositions 4.1 and 4.2).",
    basis=theorem("Propositions 4.1 and 4.2"),
    formula=r"P(\text{moved})=1-\frac{\varepsilon}{2\cos(\vartheta/2)}\quad(d=4),\qquad\vartheta=d(x,y)",
)
def both_endpoints_in_the_slab(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    x, y = points(2, 4, run.seed)
    epsilon, omega, draws = 0.2, -unit(x + y), 200 if run.quick else 4000

    def share(normals: np.ndarray) -> float:
        """Share of the gamma orthogonal to these under which the gate on one side or the other moves x."""
        moved = 0
        for gamma in random_orthogonal_units(rng, draws, normals):
            sides = [gate(x[None], s * gamma, -epsilon / 2, unit(omega + 0.4 * s * gamma), 5.0) for s in (1, -1)]
            moved += any(bool(np.any(after != x)) for after in sides)
        return moved / draws

    # In the sphere of the complement <gamma, x> is uniform up to its largest value, the cosine of half the angle.
    exact = 1 - epsilon / 2 / np.cos(float(angles(x, y)) / 2)
    check = Check(parameters={"epsilon": epsilon, "d": 4, "draws": draws})
    check.row(
        "moved, orthogonal to the difference",
        predicted=exact,
        measured=share(np.stack([x - y])),
        error=np.sqrt(exact * (1 - exact) / draws),
        because="a share of independent draws",
    )
    check.same("moved, orthogonal to both", predicted=0, measured=share(np.stack([x, y])), because="decided by a sign")
    check.printed({"moved, orthogonal to the difference": 0.0})
    check.rival("only one of the two gates moves it", {"moved, orthogonal to the difference": exact / 2})
    return check


def random_schedule(rng: np.random.Generator, d: int, pieces: int = 6) -> SphereSchedule:
    """Gates and rank-one attention with random weights."""
    made: list[Piece] = []
    for v, w in zip(unit(rng.normal(size=(pieces, d))), unit(rng.normal(size=(pieces, d))), strict=True):
        made += [Gate(duration=1.0, a=v, beta=float(rng.uniform(-0.5, 0.5)), omega=w), RankOne(duration=1.0, alpha=w)]
    return SphereSchedule(made, d)


def same_cyclic_order(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether points keep their order around the circle of their first two coordinates."""
    first, second = (np.argsort(np.arctan2(x[:, 1], x[:, 0])) for x in (before, after))
    start = int(np.flatnonzero(second == first[0])[0])
    return bool(np.array_equal(np.roll(second, -start), first))


@PAPER.claim(
    "what-no-flow-can-do",
    says="Equal inputs have equal images, in whatever order their particles are given, and on the circle no schedule "
    "changes the cyclic order of particles: the theorem needs distinct inputs and three dimensions.",
    basis=Equation("hypotheses of Theorem 1.1, Section 1.2", via=TEXT),
    formula=r"\mu_0^1=\mu_0^2\Rightarrow\mu^1(t)=\mu^2(t)",
)
def what_no_flow_can_do(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    schedule = shared_atom().schedule
    first, second = schedule.apply([np.stack([A, B]), np.stack([B, A])])
    kept, free, count = 0, 0, 20 if run.quick else 40
    for _ in range(count):
        flat, round_ = unit(rng.normal(size=(6, 2))), unit(rng.normal(size=(6, 3)))
        kept += same_cyclic_order(flat, random_schedule(rng, 2).apply(flat))
        free += same_cyclic_order(round_, random_schedule(rng, 3).apply(round_))
    check = Check(parameters={"schedules": count})
    apart = np.abs(first - second[::-1]).max()
    check.row("equal inputs end apart by", predicted=0.0, measured=apart, tolerance=1e-9, because="rounding")
    check.same("schedules that keep the order on the circle", predicted=count, measured=kept)
    other = schedule.apply(shared_atom().sources[1].points)
    check.null("inputs that share one of two points", {"equal inputs end apart by": float(np.abs(first - other).max())})
    check.null("the order around an axis of the two-sphere", {"schedules that keep the order on the circle": free})
    return check


@PAPER.claim(
    "density-target",
    says="Three gates carry the uniform law of a cap to that of a cap elsewhere: gather it to a radius $r$, carry "
    "it, and open it again. Fresh points keep their distance from the centre up to order $r$, if the last gate "
    "allows for the factor by which the way between shrinks.",
    basis=Derived(
        "1.2 for one measure and a transport map; the factor is that of a gate with equal values at both ends"
    ),
    formula=r"s=\frac{\sin b}{\sin(\vartheta+b)},\qquad \vartheta=d(c,y),\ b\ \text{the distance from}\ y\ \text{to "
    r"the goal}",
)
def density_target(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    c, y = points(2, 3, 4)
    way, beyond, edge, rim, radius = float(angles(c, y)), 0.3, 0.5, 0.75, 0.005
    ahead = unit(y - np.cos(way) * c)
    goal = np.cos(way + beyond) * c + np.sin(way + beyond) * ahead
    factor = np.sin(beyond) / np.sin(way + beyond)
    middle, opened = unit(c + y), -float(np.cos(way / 2 + 0.3))
    carry = float(gate_times(c[None], middle, opened, goal, beyond).max())

    def about(centre: np.ndarray, small: float) -> Gate:
        """The gate that takes the edge of the cap to a small radius."""
        side = unit(np.cross(centre, goal))
        at_edge = (np.cos(edge) * centre + np.sin(edge) * side)[None]
        time = float(gate_times(at_edge, centre, -float(np.cos(rim)), centre, small).max())
        return Gate(duration=time, a=centre, beta=-float(np.cos(rim)), omega=centre)

    def play(shrink: float) -> SphereSchedule:
        across = Gate(duration=carry, a=middle, beta=opened, omega=goal)
        return SphereSchedule([about(c, radius), across, about(y, radius * shrink).inverse()], 3)

    x = cap(rng, c, edge, 500)
    start = angles(x, c)
    seen = play(factor).stages(x)
    check = Check(parameters={"distance": way, "r": radius, "edge": edge})
    near = angles(seen[1], c) > 0.2 * radius
    check.row(
        "factor of the way",
        predicted=factor,
        measured=np.mean((angles(seen[2], y) / angles(seen[1], c))[near]),
        relative=radius / 10,
        because="the size r of what is carried, whose first order drops out of an average over directions",
    )
    change = np.abs(angles(seen[3], y) - start).max()
    row = "change of the distance from the centre"
    check.row(row, predicted=0.0, measured=change, tolerance=4 * radius, because="of order r")
    check.rival(r"flat distances, $b/(\vartheta+b)$", {"factor of the way": beyond / (way + beyond)})
    check.rival(r"$\sin b/\sin\vartheta$", {"factor of the way": np.sin(beyond) / np.sin(way)})
    check.rival("no shrinking on the way", {"factor of the way": 1.0})
    unaware = np.abs(angles(play(1.0).apply(x), y) - start).max()
    check.null("opened without the factor", {"change of the distance from the centre": float(unaware)})
    return check
