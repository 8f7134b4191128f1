"""Matching points with points by gates: exact arrival, exact rest of all others, and when it must refuse."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.scenes import A, B, C, points
from sphereflow.transport.sphere.construction import Route, within
from sphereflow.transport.sphere.flows import gate
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.matching import Collision, Group, hop, move


def single_points(count: int, d: int, seed: int) -> Route:
    x = points(count, d, seed)
    return Route([p[None] for p in x], [np.ones(1)] * count)


@PAPER.claim(
    "match-one-point",
    statement="Five pieces carry one point exactly to its target and bring every other point back to where it was; "
    "where a cap around the way is empty of others, one piece does.",
    source="Proposition 4.2, six pieces; one corridor piece instead of two",
    formula=r"x\mapsto y,\qquad x_j\mapsto x_j\ (j\ne i)",
    falsifier="a great circle measured to cluster centres only; a corridor that stops early",
)
def match_one_point(run: Run) -> Measurement:
    hit, rest, pieces = [], [], []
    for d in (3, 5, 8):
        for trial in range(3 if run.quick else 20):
            start = single_points(6, d, 10 * trial + run.seed)
            goal, first = points(1, d, 77 + trial)[0], Group(0, np.array([0]))
            gathered, alone = start.branch(), start.branch()
            move(gathered, first, goal, np.random.default_rng(trial))
            for route in (gathered, alone) if hop(alone, first, goal) else (gathered,):
                hit.append(angles(route.clouds[0][0], goal))
                rest.append(max(np.abs(a - b).max() for a, b in zip(route.clouds[1:], start.clouds[1:], strict=True)))
                pieces.append(len(route.pieces))
    return at_most(
        [1e-9, 1e-10, 5],
        [max(hit), max(rest), max(pieces)],
        labels=("active point", "all others", "pieces"),
        because="the travel time is closed and the inverse gates are exact: rounding, grown by the gathering",
    )


@PAPER.claim(
    "both-endpoints-in-the-slab",
    statement="The matching step needs gamma orthogonal to both endpoints. Orthogonal to their difference only, as "
    "printed, the first gathering gate carries the active point away.",
    source="Propositions 4.1 and 4.2, hypothesis on gamma",
    formula=r"\langle\gamma,x-y\rangle=0\ \text{printed};\quad"
    r" \langle\gamma,x\rangle=\langle\gamma,y\rangle=0\ \text{needed}",
    falsifier="an active point that rests under the printed hypothesis",
)
def both_endpoints_in_the_slab(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    x, y = points(2, 4, run.seed)
    epsilon, omega = 0.2, -unit(x + y)
    shares = []
    for normals in (np.stack([x - y]), np.stack([x, y])):
        moved = []
        for gamma in within(rng, 50, normals):
            gamma = gamma if gamma @ x >= 0 else -gamma
            if normals.shape[0] == 1 and gamma @ x < epsilon:
                continue
            after = gate(x[None], gamma, -epsilon / 2, unit(omega + 0.4 * gamma), 5.0)
            moved.append(float(np.any(after != x)))
        shares.append(float(np.mean(moved)))
    return agreement(
        [1.0, 0.0],
        shares,
        absolute=0.0,
        printed=[0.0, 0.0],
        labels=("moved, printed hypothesis", "moved, both orthogonal"),
        because="moved or not is decided by a sign",
    )


def refused(sources: list[np.ndarray], targets: list[np.ndarray]) -> float:
    """One if the request is turned down with a sentence, zero if something is returned."""
    try:
        interpolate(sources, targets)
    except SphereflowError:
        return 1.0
    return 0.0


@PAPER.claim(
    "impossible-requests-refused",
    statement="What no flow can do is refused: parting equal inputs, merging different inputs, changing the cyclic "
    "order of points of the circle, and a great circle that runs through another point.",
    source="Section 1.2 (distinct inputs, d >= 3) and Proposition 4.2",
    formula=r"\mu_0^1=\mu_0^2\Rightarrow\mu^1(t)=\mu^2(t)",
    falsifier="a schedule returned for any of these",
)
def impossible_requests_refused(run: Run) -> Measurement:
    circle = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    answers = [
        refused([np.stack([A, B]), np.stack([B, A])], [A, C]),
        refused([A, B], [C, C]),
        refused(list(circle), list(circle[[1, 0, 2, 3]])),
        _collision_noticed(),
    ]
    return agreement(
        np.ones(4),
        answers,
        absolute=0.0,
        because="refused or not",
        labels=("equal inputs", "equal targets", "order on the circle", "point on the great circle"),
    )


def _collision_noticed() -> float:
    """A point half-way between start and target on S^2: the one great circle there is goes through it."""
    route = Route([A[None], unit(A + B)[None]], [np.ones(1)] * 2)
    try:
        move(route, Group(0, np.array([0])), B, np.random.default_rng(0))
    except Collision:
        return 1.0
    return 0.0
