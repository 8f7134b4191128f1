"""Disentangling by attention: others come back exactly, hulls become disjoint, and one direction replaces a basis."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.scenes import chords, dirac, overlapping_caps, points
from sphereflow.transport.sphere.cap import into_cap
from sphereflow.transport.sphere.construction import Route
from sphereflow.transport.sphere.disentangling import shrink, smallest_sine
from sphereflow.transport.sphere.flows import gate_times
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.pieces import Gate, RankOne

SIZES = ((3, 3), (5, 4), (3, 6), (4, 6), (8, 8))
BASIS_TIME = 6.0


def in_cap(d: int, N: int, n: int, seed: int) -> Route:
    clouds = overlapping_caps(d, N, n, seed)
    route = Route(clouds, [np.full(n, 1 / n)] * N)
    into_cap(route, np.random.default_rng(seed))
    return route


def after_shrinking(route: Route, j: int, other: Route) -> tuple[float, float]:
    """(farthest that another measure ends from where it was, radius of measure j about its old barycentre)."""
    moved = [np.abs(a - b).max() for i, (a, b) in enumerate(zip(route.clouds, other.clouds, strict=True)) if i != j]
    return float(max(moved)), float(angles(other.clouds[j], unit(route.means[j])).max())


@PAPER.claim(
    "others-restored",
    statement="One measure is shrunk into a small ball about its barycentre while every other one, overlapping it, "
    "returns exactly to where it was; one direction alpha is enough in any dimension.",
    source="Lemma 3.3, with one direction instead of a basis",
    formula=r"\alpha\perp m_j,\ \langle\alpha,m_i\rangle\ne0:\quad \Phi\mu_i=\mu_i\ (i\ne j),\quad"
    r" \operatorname{supp}\Phi\mu_j\subset B(m_j/|m_j|,\varepsilon)",
    falsifier="alpha orthogonal to an old barycentre, or the mean taken over all measures together",
)
def others_restored(run: Run) -> Measurement:
    sizes = ((3, 3), (5, 4), (8, 8)) if run.quick else (*SIZES, (6, 7), (7, 5))
    restored, excess, labels = [], [], []
    for d, N in sizes:
        route = in_cap(d, N, 60 if run.quick else 200, run.seed)
        radius = 0.4 * float(np.arcsin(smallest_sine(route.means)))
        for j in (0, N - 1) if run.quick else range(N):
            trial = route.branch()
            shrink(trial, j, radius, np.random.default_rng(j))
            moved, own = after_shrinking(route, j, trial)
            restored.append(moved)
            excess.append(own - radius)
            labels.append(f"d={d}, N={N}, j={j + 1}")
    return at_most(
        np.append(np.full(len(restored), 1e-9), 1e-9),
        [*restored, max(excess)],
        labels=(*labels, "radius too large"),
        because="rounding grown by e^|tau| with |tau| at most 14",
    )


def separable(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether some h has Xh >= 1 and Yh <= -1, by linear programming."""
    rows = np.concatenate([-x, y])
    solved = linprog(np.zeros(x.shape[1]), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None), method="highs")
    return bool(solved.status == 0)


@PAPER.claim(
    "disjoint-hulls",
    statement="After disentangling the geodesic hulls of all pairs of measures are disjoint, where before every pair "
    "met; a linear programme for a separating plane decides.",
    source="Proposition 3.1",
    formula=r"\operatorname{conv}_g\operatorname{supp}\mu^i\cap\operatorname{conv}_g\operatorname{supp}\mu^j=\emptyset",
    falsifier="one pair without a separating plane; comparing distances of points would not notice",
)
def disjoint_hulls(run: Run) -> Measurement:
    sizes = ((3, 3), (8, 8)) if run.quick else SIZES
    before: list[int] = []
    after: list[int] = []
    pairs, labels = [], []
    for d, N in sizes:
        found = dirac(d, N, 50 if run.quick else 150, run.seed)
        start = next(first for name, first in found.phases if name == "cluster")
        for counts, clouds in ((before, found.clouds_at(0)), (after, found.clouds_at(start))):
            counts.append(sum(separable(clouds[i], clouds[j]) for i in range(N) for j in range(i)))
        pairs.append(N * (N - 1) // 2)
        labels.append(f"d={d}, N={N}")
    return agreement(
        [*np.zeros(len(pairs)), *pairs],
        [*before, *after],
        absolute=0,
        because="a number of pairs",
        labels=tuple(f"separable {when}, {name}" for when in ("before", "after") for name in labels),
    )


def shrink_with_basis(route: Route, j: int, radius: float, rng: np.random.Generator) -> None:
    """Lemma 3.3 as printed: attention along each vector of an orthonormal basis of m_j^perp, one after another."""
    a = unit(route.means[j])
    basis = np.linalg.qr(np.column_stack([a, rng.normal(size=(route.d, route.d - 1))]))[0][:, 1:].T
    away = [RankOne(duration=BASIS_TIME, alpha=unit(v - (v @ a) * a)) for v in basis]
    for piece in away:
        route.emit(piece)
    level = float((route.clouds[j] @ a).min()) / 2
    time = float(gate_times(route.clouds[j], a, -level, a, 0.9 * radius).max())  # coming back displaces it a little
    route.emit(Gate(duration=time, a=a, beta=-level, omega=a))
    for piece in reversed(away):
        route.emit(piece.inverse())


@PAPER.claim(
    "one-direction-is-enough",
    statement="Disentangling one measure takes 2(d-1)+1 pieces with a basis of directions, 3 with a single one; both "
    "restore the others and shrink the measure alike.",
    source="Proposition 3.1, O(dN) switches; improved to O(N)",
    formula=r"N(2(d-1)+1)\ \to\ 3N:\quad 15\to9\ (d=3,N=3),\quad 36\to12\ (d=5,N=4)",
    falsifier="undoing the basis vectors in forward order",
)
def one_direction_is_enough(run: Run) -> Measurement:
    counts, errors = [], []
    for d, N in ((3, 3), (5, 4)):
        start = in_cap(d, N, 30 if run.quick else 150, run.seed)
        radius = 0.4 * float(np.arcsin(smallest_sine(start.means)))
        for way in (shrink_with_basis, shrink):
            route = start.branch()
            base, rng = len(route.pieces), np.random.default_rng(run.seed)
            for j in range(N):
                before = route.branch()
                way(route, j, radius, rng)
                moved, own = after_shrinking(before, j, route)
                errors.append(max(moved, own - radius))
            counts.append(len(route.pieces) - base)
    return agreement(
        [15, 9, 36, 12, 0.0],
        [*counts, max(0.0, *errors)],
        absolute=[0, 0, 0, 0, 1e-9],
        labels=("basis, d=3, N=3", "one, d=3, N=3", "basis, d=5, N=4", "one, d=5, N=4", "restored and shrunk"),
        because="counts of pieces; rounding grown by e^|tau|",
    )


@PAPER.claim(
    "colinear-barycentres",
    statement="Measures with the same barycentre direction are told apart after one perceptron gate over part of their "
    "supports; the whole construction then goes through with one piece more.",
    source="Lemma 3.4",
    formula=r"\sin\angle(m_1,m_2)=0\ \to\ \ge0.1",
    falsifier="crossing chords that stay colinear under every gate",
)
def colinear_barycentres(run: Run) -> Measurement:
    sines, errors, pieces = [], [], []
    for first, second in ((0.4, 0.4), (0.4, 0.5)):
        clouds = chords(first, second)
        found = interpolate(clouds, points(2, 3, run.seed), seed=run.seed)
        parted = next(start for name, start in found.phases if name == "disentangle")
        sines.append(smallest_sine(np.stack([x.mean(axis=0) for x in found.clouds_at(parted)])))
        errors.append(float(found.w2.max()))
        pieces.append(found.n_pieces)
    return at_least(
        [0.1, 0.1, -1e-5, -1e-5, -20, -20],
        [*sines, *(-np.array(errors)), *(-np.array(pieces))],
        labels=("sine, equal chords", "sine, unequal chords", "minus W2", "minus W2", "minus pieces", "minus pieces"),
        because="half of what the best of 200 gates is known to reach (0.285 and 0.183); the tolerance asked of the "
        "construction; 2+3N+1+5N pieces and one more",
        parameters={"N": 2, "d": 3},
    )
