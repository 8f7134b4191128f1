r"""The distance between what is selected and the rest: $\tilde d=\|z-2s\|$, its exact forms and its collapse."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.normalisation import (
    critical_counts,
    distance_profile,
    equicorrelated_profile,
    random_selection_profile,
)
from sphereflow.normalisation.distance import top_mass
from sphereflow.papers.normalization_limits import PAPER


def equicorrelated(length: int, cosine: float) -> np.ndarray:
    """Unit vectors of R^L with the same cosine between any two: rows of the square root of their Gram matrix."""
    gram = np.full((length, length), cosine) + (1 - cosine) * np.eye(length)
    values, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


@PAPER.claim(
    "distance-identity",
    statement="The distance between the rest and the selected part is the length of z - 2s, and expands into three "
    "inner products.",
    source="Cumulative representation distance",
    formula=r"\tilde d^2=\|z\|^2-4\langle z,s\rangle+4\|s\|^2",
    falsifier="the sign of s, or z - s in place of z - 2s",
)
def distance_identity(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    alpha, x = rng.dirichlet(np.full(60, 0.5)), rng.normal(size=(60, 12))
    profile = distance_profile(alpha, x)
    order = np.argsort(-alpha)
    literal, expanded = [], []
    for n in (1, 7, 30, 59):
        inside, outside = order[:n], order[n:]
        s, z = alpha[inside] @ x[inside], alpha @ x
        literal.append(np.linalg.norm(alpha[outside] @ x[outside] - s))
        expanded.append(np.sqrt(z @ z - 4 * z @ s + 4 * s @ s))
    measured = profile[[0, 6, 29, 58]]
    return agreement(
        np.r_[literal, expanded],
        np.r_[measured, measured],
        absolute=1e-12,
        because="rounding",
        labels=tuple(f"{what}, N={n}" for what in ("definition", "expansion") for n in (1, 7, 30, 59)),
    )


@PAPER.claim(
    "orthogonal-tokens",
    statement="For orthogonal unit vectors the distance does not depend on how many keys are selected.",
    source="Distance of orthogonal tokens",
    formula=r"\tilde d=\sqrt{\sum_i\alpha_i^2}",
    falsifier="weights renormalised on the selected set",
)
def orthogonal_tokens(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    alpha = rng.dirichlet(np.full(40, 0.7))
    rotation = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    return agreement(
        np.full(40, np.sqrt(np.sum(alpha**2))),
        distance_profile(alpha, rotation),
        absolute=1e-12,
        because="rounding",
        labels=tuple(f"N={n}" for n in range(1, 41)),
        parameters={"L": 40},
    )


@PAPER.claim(
    "equicorrelated-tokens",
    statement="For unit vectors with a common cosine the distance is a V in the number of selected keys, lowest where "
    "they carry half of the weight.",
    source="Distance of equicorrelated tokens",
    formula=r"\tilde d^2=(1-c)\sum_i\alpha_i^2+c\,(1-2m_N)^2",
    falsifier="a minimum away from half of the mass",
)
def equicorrelated_tokens(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    alpha = rng.dirichlet(np.full(50, 0.4))
    measured = np.concatenate([distance_profile(alpha, equicorrelated(50, c)) for c in (0.1, 0.6)])
    predicted = np.concatenate([equicorrelated_profile(alpha, c) for c in (0.1, 0.6)])
    lowest = int(np.argmin(measured[50:])) + 1
    nearest = int(np.argmin(np.abs(top_mass(alpha) - 0.5))) + 1
    return agreement(
        np.r_[predicted, nearest],
        np.r_[measured, lowest],
        absolute=1e-12,
        because="rounding",
        labels=(*(f"c={c}, N={n}" for c in (0.1, 0.6) for n in range(1, 51)), "N at the minimum"),
    )


@PAPER.claim(
    "random-selection",
    statement="If the selected keys are drawn at random, the mean squared distance has a closed form; all 84 subsets "
    "of a small case and draws of a larger one agree.",
    source="Theorem 1, second setting, exact counterpart",
    formula=r"E\,\tilde d^2=\kappa\|z\|^2+(1-\kappa)\sum_i\alpha_i^2\|x_i\|^2,\quad\kappa=\frac{(L-2N)^2-L}{L(L-1)}",
    falsifier="a wrong kappa",
)
def random_selection(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    alpha, x = rng.dirichlet(np.ones(9)), rng.normal(size=(9, 5))
    y = alpha[:, None] * x
    squares = [np.sum((y.sum(0) - 2 * y[list(chosen)].sum(0)) ** 2) for chosen in combinations(range(9), 3)]
    beta, w = rng.dirichlet(np.ones(40)), rng.normal(1.0, 1.0, size=(40, 6))
    v = beta[:, None] * w
    draws = 20_000
    chosen = np.argsort(rng.random((draws, 40)), axis=1)[:, :11]
    drawn = np.sum((v.sum(0) - 2 * v[chosen].sum(axis=1)) ** 2, axis=1)
    return agreement(
        [np.mean(squares), drawn.mean()],
        [random_selection_profile(alpha, x)[2] ** 2, random_selection_profile(beta, w)[10] ** 2],
        absolute=[1e-13, 3 * drawn.std(ddof=1) / np.sqrt(draws)],
        because="rounding; three standard errors of the draws",
        labels=("all subsets, L=9, N=3", "draws, L=40, N=11"),
        parameters={"draws": draws},
    )


@PAPER.claim(
    "distance-collapse",
    statement="With bounded logits and isotropic tokens the distance falls like one over the root of the length, "
    "whatever share of the keys is selected.",
    source="Theorem 1: the distance collapses when N grows in proportion to L",
    formula=r"E\,\tilde d^2=\sum_i\alpha_i^2\le e^{2\Delta/T}/L",
    falsifier="a slope of log distance against log length other than -1/2",
)
def distance_collapse(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    lengths, d, draws = np.array([64, 256, 1024, 4096]), 64, 24
    logs, errors, violation = [], [], 0.0
    for length in lengths:
        alpha = np.exp(rng.uniform(-1, 1, (draws, length)))
        alpha /= alpha.sum(axis=1, keepdims=True)
        x = rng.normal(size=(draws, length, d))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        squares = distance_profile(alpha, x)[:, length // 4] ** 2
        logs.append(0.5 * np.log(squares.mean()))
        errors.append(0.5 * squares.std(ddof=1) / squares.mean() / np.sqrt(draws))
        violation = max(violation, float(np.max(np.sum(alpha**2, axis=1) * length / np.exp(2))) - 1)
    design = np.log(lengths) - np.log(lengths).mean()
    slope = design @ np.array(logs) / (design @ design)
    error = np.sqrt(np.sum((design * np.array(errors)) ** 2)) / (design @ design)
    # The mean of sum alpha^2 times L rises by 0.2 / L towards its limit: a bias of the slope far below its error.
    return agreement(
        [-0.5, 0.0],
        [slope, max(violation, 0.0)],
        absolute=[4 * error, 0.0],
        because="four standard errors of the fitted slope",
        labels=("slope, N = L/4", "excess over the bound"),
        parameters={"L": "64 ... 4096", "d": d, "draws": draws},
    )


@PAPER.claim(
    "distance-bounds",
    statement="The distance never exceeds the longest token and never falls below the gap between |z| and 2|s|; for "
    "equal weights and a positive cosine the selection is no better than random from half of the keys on.",
    source="Bounds of the distance; critical number of keys",
    formula=r"\big|\,\|z\|-2\|s\|\,\big|\le\tilde d\le\max_i\|x_i\|",
    falsifier="one profile outside its bounds",
)
def distance_bounds(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    alpha, x = rng.dirichlet(np.full(30, 0.3), size=200), rng.normal(size=(200, 30, 4)) + 0.5
    profile = distance_profile(alpha, x)
    order = np.argsort(-alpha, axis=1, kind="stable")
    y = np.take_along_axis(alpha[..., None] * x, order[..., None], axis=1)
    s = np.linalg.norm(np.cumsum(y, axis=1), axis=-1)
    below = np.abs(s[:, -1:] - 2 * s)
    even = critical_counts(np.full(100, 0.01), equicorrelated(100, 0.3))
    return at_most(
        [0.0, 0.0, 0.0],
        [
            np.max(profile - np.linalg.norm(x, axis=-1).max(axis=1, keepdims=True)),
            np.max(below - profile),
            abs(float(even.half_mass) - 50),
        ],
        slack=[1e-12, 1e-12, 0.0],
        because="rounding; a count",
        labels=("above the longest token", "below the gap", "distance of half of the mass from N = 50"),
    )
