r"""Collapse to one point: hemispheres, cones, fixed points.

Tokens in an open hemisphere collapse exponentially; n uniform tokens lie in one with Wendel's probability
$2^{-(n-1)}\sum_{k<d}\binom{n-1}{k}$.
"""

from __future__ import annotations

from math import comb

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.observables import cluster_count, in_open_hemisphere
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import (
    Model,
    follow,
    gaps,
    speeds,
    uniform_tokens,
)
from sphereflow.sphere import equiangular_frame

_SMALLEST, _LARGEST = 1e-8, 1e-2


def wendel(n: int, d: int) -> float:
    r"""Probability that n uniform points of S^{d-1} lie in an open hemisphere: $2^{-(n-1)}\sum_{k<d}\binom{n-1}{k}$."""
    return sum(comb(n - 1, k) for k in range(d)) / 2 ** (n - 1)


def cone_start(seed: int, n: int, d: int) -> np.ndarray:
    """Uniform tokens of the open hemisphere around the first axis."""
    x = uniform_tokens(seed, n, d)
    x[:, 0] = np.abs(x[:, 0])
    return x


def random_query_key(seed: int, d: int, norm: float) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian Q and K with the operator norm of Q^T K as given."""
    query, key = np.random.default_rng(seed).normal(size=(2, d, d))
    return query, key * norm / np.linalg.norm(query.T @ key, 2)


def diameter_slope(times: np.ndarray, xs: np.ndarray) -> float:
    """Slope of log max|x_i - x_j| against time, between diameters 1e-2 and 1e-8."""
    diameter = np.sqrt(2 * gaps(xs).max(axis=-1))
    window = (diameter < _LARGEST) & (diameter > _SMALLEST)
    return float(np.polyfit(times[window], np.log(diameter[window]), 1)[0]) if window.sum() > 2 else np.nan


@PAPER.claim(
    "wendel",
    statement="n uniform tokens lie in an open hemisphere with Wendel's probability.",
    source="Section on collapse from a hemisphere, after Wendel",
    formula=r"P=2^{-(n-1)}\sum_{k=0}^{d-1}\binom{n-1}{k}",
    falsifier="A sum up to d instead of d-1; with n = 2d the answer is 1/2 and hides it.",
)
def wendel_claim(run: Run) -> Measurement:
    cases, draws = [(5, 2), (7, 3), (5, 3), (12, 5), (6, 8)], 1500 if run.quick else 20_000
    predicted = np.array([wendel(n, d) for n, d in cases])
    measured = [
        np.mean([in_open_hemisphere(x) for x in uniform_tokens(run.seed + index, draws, n, d)])
        for index, (n, d) in enumerate(cases)
    ]
    return agreement(
        predicted,
        measured,
        absolute=4 * np.sqrt(predicted * (1 - predicted) / draws),
        because=f"four standard errors of {draws} draws; certain if n <= d",
        labels=tuple(f"n={n} d={d}" for n, d in cases),
    )


def _cone_runs(run: Run) -> list[tuple[np.ndarray, np.ndarray]]:
    """Times and tokens of runs from a hemisphere: Q = K = I first, then random Q and K with beta |Q^T K| = 3."""
    runs = []
    times = np.linspace(0, 60, 25)[1:]
    for draw in range(3 if run.quick else 10):
        seed = 1000 * run.seed + draw
        query, key = (np.eye(4), np.eye(4)) if draw == 0 else random_query_key(seed, 4, 1.5)
        x0 = cone_start(seed, 10, 4)
        xs = follow("sa", 2.0, x0, times, query=query, key=key, tol=1e-12)
        runs.append((np.insert(times, 0, 0.0), np.concatenate([x0[None], xs])))
    return runs


@PAPER.claim(
    "cone-rate",
    statement="From a hemisphere SA tokens collapse, whatever Q and K (V = I), in the end like exp(-t).",
    source="Lemma on cone collapse",
    formula=r"\max_{i,j}|x_i-x_j|\sim e^{-t}",
)
def cone_rate(run: Run) -> Measurement:
    slopes = [diameter_slope(times, xs) for times, xs in _cone_runs(run)]
    return agreement(
        [-1.0] * len(slopes),
        slopes,
        absolute=1e-3,
        because="the softmax average of points at distance r differs from their mean by order r, here below 1e-2",
        labels=("Q=K=I", *(f"random Q, K {i}" for i in range(1, len(slopes)))),
    )


@PAPER.claim(
    "cone-shrinks",
    statement="The smallest component of the tokens along the axis of the hemisphere never decreases.",
    source="Lemma on cone collapse, proof",
    formula=r"\frac{d}{dt}\min_i\langle x_i,w\rangle\ge0",
)
def cone_shrinks(run: Run) -> Measurement:
    drops = [-np.diff(xs[:, :, 0].min(axis=1)).min() for _, xs in _cone_runs(run)]
    return at_most(0.0, np.array(drops), slack=1e-10, because="the particles are solved to 1e-12")


@PAPER.claim(
    "many-dimensions",
    statement="If d >= n, uniform tokens always lie in a hemisphere and collapse exponentially fast, at any beta.",
    source="Theorem for dimension at least the number of tokens",
    formula=r"d\ge n\ \Rightarrow\ |x_i(t)-x^*|\le Ce^{-\lambda t}",
)
def many_dimensions(run: Run) -> Measurement:
    betas = (0.0, 1.0, 3.0)
    times = np.linspace(0, 60, 25)[1:]
    slopes = [diameter_slope(times, follow("sa", b, uniform_tokens(run.seed, 8, 12), times, tol=1e-12)) for b in betas]
    return agreement(
        [-1.0] * len(betas),
        slopes,
        absolute=1e-3,
        because="the softmax average of points at distance r differs from their mean by order r, here below 1e-2",
        labels=tuple(f"beta={beta:g}" for beta in betas),
    )


@PAPER.claim(
    "one-cluster",
    statement="Uniform tokens end in one cluster: d >= 3 at any beta >= 0, and d = 2 (illustrated by finite runs).",
    source="Theorems on clustering; the circle by later work (arXiv:2507.22857)",
    formula=r"\lim_{t\to\infty}x_i(t)=x^*",
    falsifier="Two clusters that persist from generic starts.",
)
def one_cluster(run: Run) -> Measurement:
    cases: list[tuple[Model, int, float]] = [
        ("sa", 2, 0.0),
        ("sa", 2, 1 / 32),
        ("sa", 2, 1.0),
        ("sa", 3, 1.0),
        ("sa", 3, 3.0),
        ("usa", 2, 0.0),
        ("usa", 3, 1.0),
        ("usa", 3, 2.0),
    ]
    counts = []
    for model, d, beta in cases:
        final = follow(model, beta, uniform_tokens(run.seed + d, 24, d), np.array([200.0]), tol=1e-8)[-1]
        counts.append(cluster_count(final))
    return agreement(
        [1] * len(cases),
        counts,
        absolute=0.0,
        because="whole numbers",
        labels=tuple(f"{model.upper()} d={d} beta={beta:.3g}" for model, d, beta in cases),
        note="24 tokens at t=200.",
    )


@PAPER.claim(
    "fixed-points",
    statement="An antipodal pair and a regular simplex stand still for every beta.",
    source="Remarks on exceptional starts",
    formula=r"x_2=-x_1\ \Rightarrow\ \dot x=0",
    falsifier="Dropping the projection on the tangent space.",
)
def fixed_points(run: Run) -> Measurement:
    pair = np.array([[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0]])
    simplex = np.asarray(equiangular_frame(5, 5, -0.25))
    cases: list[tuple[str, np.ndarray, Model, float]] = [
        (name, x, model, beta)
        for name, x in (("pair", pair), ("simplex", simplex))
        for model in ("sa", "usa")
        for beta in (0.0, 2.0, 9.0)
    ]
    return at_most(
        0.0,
        np.array([speeds(model, beta, x).max() for _, x, model, beta in cases]),
        slack=[1e-13 * np.exp(beta) for *_, beta in cases],
        because="rounding, amplified by the kernel exp(beta)",
        labels=tuple(f"{name} {model.upper()} beta={beta:g}" for name, _, model, beta in cases),
    )


@PAPER.claim(
    "frame-speed",
    statement="From an orthogonal frame every token starts at speed sqrt(n-1)/(e^beta + n - 1) under SA.",
    source="Theorem on orthogonal initial tokens",
    formula=r"|\dot x_i|=\frac{\sqrt{n-1}}{e^\beta+n-1}",
    falsifier="Leaving out the self-term.",
)
def frame_speed(run: Run) -> Measurement:
    cases = [(5, 0.0), (5, 2.0), (32, 6.0)]
    predicted = np.array([np.sqrt(n - 1) / (np.exp(beta) + n - 1) for n, beta in cases])
    spread = np.array([[(s := speeds("sa", beta, np.eye(n))).min(), s.max()] for n, beta in cases])
    return agreement(
        np.repeat(predicted, 2),
        spread.ravel(),
        relative=1e-12,
        because="rounding of one evaluation of the field",
        labels=tuple(f"{which} n={n} beta={beta:g}" for n, beta in cases for which in ("slowest", "fastest")),
    )


@PAPER.claim(
    "small-beta-rate",
    statement="Under USA with small beta, tokens from a start of non-zero mean reach one point at least at rate 1/100.",
    source="Survey, theorem on exponential clustering of the mean field",
    formula=r"W_2(\mu_t,\delta_{x_\infty})\le C_0e^{-t/100}",
    falsifier="Atoms of unequal mass at opposite points stand still: a density is needed.",
)
def small_beta_rate(run: Run) -> Measurement:
    times = np.linspace(0, 40, 25)[1:]
    rates, labels = [], []
    for beta in (0.05, 0.2):
        xs = follow("usa", beta, uniform_tokens(run.seed, 32, 3), times, tol=1e-12)
        centre = xs[-1].mean(axis=0) / np.linalg.norm(xs[-1].mean(axis=0))
        distance = 2 * np.arcsin(np.clip(np.linalg.norm(xs - centre, axis=-1) / 2, 0, 1))
        w2 = np.sqrt(np.mean(distance**2, axis=1))
        window = w2 > 1e-8
        rates.append(-np.polyfit(times[window][-6:], np.log(w2[window][-6:]), 1)[0])
        labels.append(f"beta={beta:g}")
    # The bound is far from sharp: close to one point the linearised flow has the rate e^beta, measured as well.
    short = np.maximum(1 / 100 - np.array(rates), 0)
    return agreement(
        [0.0, 0.0, *np.exp([0.05, 0.2])],
        [*short, *rates],
        absolute=[0.0, 0.0, 1e-4, 1e-4],
        because="an inequality without slack; the rate of the linearised flow, up to distances of 1e-4 in the window",
        labels=(*(f"short of 1/100, {name}" for name in labels), *(f"rate against e^beta, {name}" for name in labels)),
    )
