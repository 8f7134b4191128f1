r"""Collapse to one point: hemispheres, cones, fixed points.

Tokens in an open hemisphere collapse exponentially; n uniform tokens lie in one with Wendel's probability
$2^{-(n-1)}\sum_{k<d}\binom{n-1}{k}$.
"""

from __future__ import annotations

from math import comb

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction
from sphereflow.observables import cluster_count, in_open_hemisphere
from sphereflow.papers.mathematical_perspective import sources
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
    says="n uniform tokens in dimension d lie in an open hemisphere with Wendel's probability, for five pairs with "
    "$n\\ne2d$.",
    basis=basis.Theorem("Wendel's formula", via=sources.LEAN),
    formula=r"P=2^{-(n-1)}\sum_{k=0}^{d-1}\binom{n-1}{k}",
)
def wendel_claim(run: Run) -> Check:
    draws = 1500 if run.quick else 20_000
    check, more, half = Check(parameters={"draws": draws}), {}, {}
    for index, (n, d) in enumerate(((5, 2), (7, 3), (5, 3), (12, 5), (6, 8))):
        found = fraction(np.array([in_open_hemisphere(x) for x in uniform_tokens(run.seed + index, draws, n, d)]))
        row = f"n={n}, d={d}"
        error = 0.0 if n <= d else float(found.error)
        check.row(
            row,
            predicted=wendel(n, d),
            measured=found.value,
            error=error,
            repeats=draws,
            because="the error bar of the share; certain if n <= d",
        )
        more[row], half[row] = wendel(n, d + 1), wendel(n, d - 1)
    check.rival("one term more in the sum", more)
    check.rival("one term less in the sum", half)
    return check


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
    says="From a hemisphere ten SA tokens in dimension 4 collapse in the end like $e^{-t}$: with $Q=K=I$ at "
    "$\\beta=2$ and with random $Q$, $K$ of $\\beta|Q^\\top K|=3$.",
    basis=basis.Derived("the softmax average of nearly equal points; the lemma on cone collapse gives a slower bound"),
    formula=r"\max_{i,j}|x_i-x_j|\sim e^{-t}",
)
def cone_rate(run: Run) -> Check:
    check = Check()
    for k, (times, xs) in enumerate(_cone_runs(run)):
        check.row(
            f"random Q, K {k}" if k else "Q=K=I",
            predicted=-1.0,
            measured=diameter_slope(times, xs),
            tolerance=1e-3,
            because="the softmax average of points at distance r differs from their mean by order r, here below 1e-2",
        )
    check.rival("the rate of squared distances", -2.0)
    check.rival("the bound of the proof, 1/(2n e^(2 beta))", -1 / (20 * np.exp(4)))
    check.rival("a rate n/(n-1), without the token itself", -10 / 9)
    return check


@PAPER.claim(
    "cone-shrinks",
    says="The smallest component of these tokens along the axis of the hemisphere never decreases between saved times.",
    basis=sources.CONE,
    formula=r"\frac{d}{dt}\min_i\langle x_i,w\rangle\ge0",
)
def cone_shrinks(run: Run) -> Check:
    check, reversed_ = Check(), {}
    for k, (_, xs) in enumerate(_cone_runs(run)):
        steps = np.diff(xs[:, :, 0].min(axis=1))
        row = f"largest decrease, run {k}"
        check.at_most(row, bound=0.0, measured=-steps.min(), tolerance=1e-10, because="solved to 1e-12")
        reversed_[row] = float(steps.max())
    check.null("the same runs with time reversed", reversed_)
    return check


@PAPER.claim(
    "many-dimensions",
    says="Eight uniform tokens in dimension 12 collapse like $e^{-t}$ in the end, at $\\beta=0$, 1 and 3.",
    basis=basis.Theorem("thm: d.infty", via=sources.LEAN),
    formula=r"d\ge n\ \Rightarrow\ |x_i(t)-x^*|\le Ce^{-\lambda t}",
)
def many_dimensions(run: Run) -> Check:
    check, times = Check(), np.linspace(0, 60, 25)[1:]
    for beta in (0.0, 1.0, 3.0):
        xs = follow("sa", beta, uniform_tokens(run.seed, 8, 12), times, tol=1e-12)
        check.row(
            f"beta={beta:g}",
            predicted=-1.0,
            measured=diameter_slope(times, xs),
            tolerance=1e-3,
            because="the softmax average of points at distance r differs from their mean by order r, here below 1e-2",
        )
    check.rival("the rate of squared distances", -2.0)
    check.rival("a rate n/(n-1), without the token itself", -8 / 7)
    return check


@PAPER.claim(
    "one-cluster",
    says="24 uniform tokens are in one cluster at $t=200$: SA on the circle for $\\beta\\le1$ and on $S^2$ for "
    "$\\beta\\le3$, USA for $\\beta\\le2$. At $\\beta=20$ there are still several at that time on $S^2$, from the same "
    "start.",
    basis=basis.Abstract("clusters emerge in long time"),
    formula=r"\lim_{t\to\infty}x_i(t)=x^*",
)
def one_cluster(run: Run) -> Check:
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
    check, last, warm = Check(parameters={"n": 24, "t": 200}), np.array([200.0]), 0
    for model, d, beta in cases:
        final = follow(model, beta, uniform_tokens(run.seed + d, 24, d), last, tol=1e-8)[-1]
        count = cluster_count(final)
        check.same(f"{model.upper()}, d={d}, beta={beta:.3g}", predicted=1, measured=count)
        if (model, d, beta) == ("sa", 3, 3.0):
            warm = count
    final = follow("sa", 20.0, uniform_tokens(run.seed + 3, 24, 3), last, tol=1e-8)[-1]
    cold = "SA, d=3, beta=20, still"
    check.at_least(cold, bound=2, measured=cluster_count(final), because="a count")
    check.rival("two clusters persist", dict.fromkeys([row.name for row in check.rows if row.name != cold], 2.0))
    check.null("beta = 3", {cold: float(warm)})
    return check


@PAPER.claim(
    "fixed-points",
    says="An antipodal pair and a regular simplex stand still under SA and USA at $\\beta=0$, 2 and 9; an orthogonal "
    "frame does not.",
    basis=basis.Theorem("remark on exceptional starts", via=sources.LEAN),
    formula=r"x_2=-x_1\ \Rightarrow\ \dot x=0",
)
def fixed_points(run: Run) -> Check:
    pair = np.array([[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0]])
    simplex = np.asarray(equiangular_frame(5, 5, -0.25))
    models: tuple[Model, Model] = ("sa", "usa")
    check, frame = Check(), {}
    for name, x in (("pair", pair), ("simplex", simplex)):
        for model in models:
            for beta in (0.0, 2.0, 9.0):
                row = f"{name}, {model.upper()}, beta={beta:g}"
                check.at_most(
                    row,
                    bound=0.0,
                    measured=speeds(model, beta, x).max(),
                    tolerance=1e-13 * np.exp(beta),
                    because="rounding, amplified by the kernel exp(beta)",
                )
                frame[row] = float(speeds(model, beta, np.eye(5)).max())
    check.null("an orthogonal frame", frame)
    return check


@PAPER.claim(
    "frame-speed",
    says="From an orthogonal frame every token starts at the speed $\\sqrt{n-1}/(e^\\beta+n-1)$ under SA, for three "
    "pairs of n and $\\beta$.",
    basis=sources.ORTHOGONAL,
    formula=r"|\dot x_i|=\frac{\sqrt{n-1}}{e^\beta+n-1}",
)
def frame_speed(run: Run) -> Check:
    check, alone, more = Check(), {}, {}
    for n, beta in ((5, 0.0), (5, 2.0), (32, 6.0)):
        found = speeds("sa", beta, np.eye(n))
        for which, value in (("slowest", found.min()), ("fastest", found.max())):
            row = f"{which}, n={n}, beta={beta:g}"
            exact = np.sqrt(n - 1) / (np.exp(beta) + n - 1)
            check.row(row, predicted=exact, measured=value, relative=1e-12, because="rounding of one evaluation")
            alone[row], more[row] = 1 / np.sqrt(n - 1), np.sqrt(n - 1) / (np.exp(beta) + n)
    check.rival("without the token itself", alone)
    check.rival("one token more in the normaliser", more)
    return check


@PAPER.claim(
    "small-beta-rate",
    says="Under USA at $\\beta=0.05$ and 0.2 the Wasserstein distance of 32 tokens on $S^2$ to one point falls in "
    "the end at the rate $e^\\beta$, far above the 1/100 of the theorem.",
    basis=basis.Theorem("thm: mfclust", via=sources.SURVEY),
    formula=r"W_2(\mu_t,\delta_{x_\infty})\le C_0e^{-t/100}",
)
def small_beta_rate(run: Run) -> Check:
    times, check = np.linspace(0, 40, 25)[1:], Check()
    flat, double = {}, {}
    for beta in (0.05, 0.2):
        xs = follow("usa", beta, uniform_tokens(run.seed, 32, 3), times, tol=1e-12)
        centre = xs[-1].mean(axis=0) / np.linalg.norm(xs[-1].mean(axis=0))
        distance = 2 * np.arcsin(np.clip(np.linalg.norm(xs - centre, axis=-1) / 2, 0, 1))
        w2 = np.sqrt(np.mean(distance**2, axis=1))
        window = w2 > 1e-8
        rate = -np.polyfit(times[window][-6:], np.log(w2[window][-6:]), 1)[0]
        row = f"rate, beta={beta:g}"
        because = "the linearised flow, up to distances of 1e-4 in the window"
        check.row(row, predicted=np.exp(beta), measured=rate, tolerance=1e-4, because=because)
        check.at_least(f"bound, beta={beta:g}", bound=0.01, measured=rate, tolerance=1e-4, because="as above")
        flat[row], double[row] = 1.0, 2 * np.exp(beta)
    check.rival("the rate at beta = 0", flat)
    check.rival("the rate of squared distances", double)
    return check
