r"""One attention piece with $V=I$, $B=\beta I$ disentangles generic inputs: each gathers in a point of its own.

$$\mu_0=\tfrac1n\sum_{i\le n}\delta_{x_i},\ x_i\ \text{uniform}:\qquad \mu_t\to\delta_z,\quad z\ \text{uniform},$$

since the law of the input and the flow commute with rotations. Before, the hulls of two inputs are disjoint with the
probability of Wendel that 2n uniform points lie in a half-space, $2^{1-2n}\sum_{k<d}\binom{2n-1}{k}$.
"""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.dynamics import SA
from sphereflow.estimates import fraction, mean
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.sources import theorem
from sphereflow.papers.measure_to_measure.test_measures import cap
from sphereflow.solving import solve
from sphereflow.transport.sphere.certificates import separated_pairs, w2
from sphereflow.transport.sphere.pieces import Drift, Gate

POINTS, TIME, BETA, D = 4, 60.0, 1.0, 3


def wendel(n: int, d: int) -> float:
    """The probability that n symmetric random points in general position lie in a half-space of R^d."""
    return sum(comb(n - 1, k) for k in range(d)) / 2 ** (n - 1)


@cache
def gathered(inputs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform points (inputs, n, d), and where attention with V = I, B = I has brought them."""
    start = unit(np.random.default_rng([seed, 62]).normal(size=(inputs, POINTS, D)))
    return start, np.asarray(solve(SA(BETA), start, np.array([0.0, TIME]), tol=1e-6).final)


@PAPER.claim(
    "one-piece-disentangles",
    says="Inputs of four uniform points in three dimensions, most pairs of which cannot be separated by a plane "
    "through the origin, gather each in one point under one attention piece with $V=B=I$; no two of these points are "
    "the same, and their overlaps have the moments of independent uniform points.",
    basis=theorem("Proposition 6.2"),
    formula=r"\mu^i_t\to\delta_{z_i},\qquad z_i\ne z_j\ \text{almost surely}",
)
def one_piece_disentangles(run: Run) -> Check:
    inputs = 400 if run.quick else 4000
    start, end = gathered(inputs, run.seed)
    diameter = np.linalg.norm(end - end[:, :1], axis=2).max(axis=1)
    limits = unit(end.mean(axis=1))
    check = Check(parameters={"inputs": inputs, "n": POINTS, "d": D, "beta": BETA, "t": TIME})
    check.same("inputs gathered within 1e-6", predicted=inputs, measured=int(np.sum(diameter < 1e-6)))
    apart = {}
    for name, clouds, share in (("before", start, wendel(2 * POINTS, D)), ("after", end, 1.0)):
        hit = np.array([separated_pairs([*clouds[k : k + 2]])[0] for k in range(0, inputs, 2)])
        row = f"share of pairs with disjoint hulls, {name}"
        check.row(
            row,
            predicted=share,
            measured=hit.mean(),
            error=fraction(hit).error if name == "before" else 0.0,
            repeats=len(hit),
            because="the error bar over independent pairs; none after",
        )
        apart[row] = wendel(2 * POINTS, D)
    overlap = np.sum(limits[::2] * limits[1::2], axis=1)
    same, axis = {}, {}
    for name, sample, moment in (("overlap", overlap, 0.0), ("squared overlap", overlap**2, 1 / D)):
        row = f"mean {name} of two limits"
        found = mean(sample)
        check.row(
            row,
            predicted=moment,
            measured=found.value,
            error=found.error,
            repeats=len(sample),
            because="the error bar over independent pairs",
        )
        same[row] = 1.0
        axis[row] = 0.0 if name == "overlap" else 1.0
    i, j = np.triu_indices(inputs, 1)
    near = np.linalg.norm(limits[i] - limits[j], axis=1) < 2e-6
    check.same("pairs of limits closer than 2e-6", predicted=0, measured=int(near.sum()))
    check.rival("hulls stay as they are, as under perceptrons without attention", apart)
    check.rival("one limit for all inputs", same)
    check.rival("limits at the ends of one axis, as for a V with a largest eigenvalue", axis)
    return check


def two_maps(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a cap under two different schedules of a drift and a gate."""
    rng = np.random.default_rng([seed, 52])
    x = cap(rng, unit(rng.normal(size=D)), 0.9, n)
    moved = []
    for _ in range(2):
        v = unit(rng.normal(size=(3, D)))
        y = Drift(duration=float(rng.uniform(0.2, 1.5)), omega=v[0]).flow(x, np.full(n, 1 / n))
        moved.append(Gate(duration=2.0, a=v[1], beta=0.2, omega=v[2]).flow(y, np.full(n, 1 / n)))
    return moved[0], moved[1]


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """W2 along the sphere between equal masses."""
    return w2(x, np.full(len(x), 1 / len(x)), y, np.full(len(y), 1 / len(y)))


def along(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Angles between the points of two clouds, one by one, from their chords."""
    return np.asarray(2 * np.arcsin(np.minimum(np.linalg.norm(x - y, axis=1) / 2, 1)))


@PAPER.claim(
    "push-forward-bound",
    says="The images of one measure under two maps are at most the distance of the maps in $L^2(\\mu)$ apart, in $W_2$ "
    "along the sphere: with equality for maps closer than the points are to each other, with less where another "
    "matching is better. With chords in the norm a constant is needed, up to $\\pi/2$.",
    basis=theorem("Lemma 5.2"),
    formula=r"W_2(T^1_\#\mu,T^2_\#\mu)\le\Big(\int d_g(T^1,T^2)^2d\mu\Big)^{1/2}",
)
def push_forward_bound(run: Run) -> Check:
    n, problems = (100, 12) if run.quick else (400, 60)
    check = Check(parameters={"n": n, "d": D, "problems": problems})
    ratios = []
    for k in range(problems):
        one, two = two_maps(100 * run.seed + k, n)
        ratios.append(distance(one, two) / np.sqrt(np.mean(along(one, two) ** 2)))
    check.at_most(
        "largest W2 over the norm, schedules of drifts and gates",
        bound=1.0,
        measured=max(ratios),
        tolerance=1e-12,
        because="rounding in the assignment",
    )
    rng = np.random.default_rng([run.seed, 53])
    x = cap(rng, unit(rng.normal(size=D)), 0.9, n)
    spacing = (angles(x[:, None], x) + 10 * np.eye(n)).min()
    pole = unit(x.mean(axis=0))
    near = Drift(duration=spacing / 4, omega=pole).flow(x, np.full(n, 1 / n))
    # A drift for the time tau takes the height u to tanh(tau + artanh u), along the meridian.
    height = x @ pole
    moved = np.arccos(height) - np.arccos(np.tanh(spacing / 4 + np.arctanh(height)))
    close = "W2 over the spacing of the points, maps closer than it"
    check.row(
        close,
        predicted=np.sqrt(np.mean(moved**2)) / spacing,
        measured=distance(x, near) / spacing,
        tolerance=1e-9 / spacing,
        because="rounding of angles from their cosines near the pole, 1e-9",
    )
    gap = 2 * np.pi / 12
    angle = gap * np.arange(12)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(12)], axis=1)
    turn = 5 / 6 * gap
    turned = np.stack([np.cos(angle + turn), np.sin(angle + turn), np.zeros(12)], axis=1)
    ring_row = "W2 of a ring of 12 and itself turned by 5/6 of a gap, in gaps"
    check.row(
        ring_row, predicted=1 / 6, measured=distance(ring, turned) / gap, tolerance=1e-7, because="rounding of angles"
    )
    pole = np.array([0.0, 0.0, 1.0])
    theta = np.arccos(np.tanh(np.arctanh(0.99) - 3.0)) - np.arccos(0.99)
    there = np.array([[np.sqrt(1 - 0.99**2), 0.0, 0.99]])
    end = Drift(duration=3.0, omega=-pole).flow(there, np.ones(1))
    chord = "one point carried far: W2 over the chord"
    check.row(
        chord,
        predicted=theta / (2 * np.sin(theta / 2)),
        measured=distance(there, end) / float(np.linalg.norm(there - end)),
        tolerance=1e-9,
        because="rounding of angles",
    )
    check.rival("equality for all maps", {ring_row: 5 / 6})
    check.rival("the mean distance in the place of its mean square", {close: float(np.mean(moved) / spacing)})
    check.rival("chords without a constant", {chord: 1.0})
    return check
