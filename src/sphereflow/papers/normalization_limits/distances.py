r"""The distance between what is selected and the rest: $\tilde d=\|z-2s\|$, its exact forms and its collapse."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.normalisation import (
    critical_counts,
    distance_profile,
    equicorrelated_profile,
    random_selection_profile,
)
from sphereflow.normalisation.distance import top_mass
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.papers.normalization_limits.sources import COLLAPSE, DISTANCE


def equicorrelated(length: int, cosine: float) -> np.ndarray:
    """Unit vectors of R^L with the same cosine between any two: rows of the square root of their Gram matrix."""
    gram = np.full((length, length), cosine) + (1 - cosine) * np.eye(length)
    values, vectors = np.linalg.eigh(gram)
    return vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T


@PAPER.claim(
    "distance-identity",
    says="The distance between the rest and the selected part is the length of $z-2s$.",
    basis=DISTANCE,
    formula=r"\tilde d^2=\|z\|^2-4\langle z,s\rangle+4\|s\|^2",
)
def distance_identity(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    alpha, x = rng.dirichlet(np.full(60, 0.5)), rng.normal(size=(60, 12))
    profile = distance_profile(alpha, x)
    order = np.argsort(-alpha)
    check = Check(parameters={"L": 60, "d": 12})
    once, renormalised = {}, {}
    for n in (1, 7, 30, 59):
        inside, outside = order[:n], order[n:]
        s, z = alpha[inside] @ x[inside], alpha @ x
        name = f"$N={n}$"
        literal = np.linalg.norm(alpha[outside] @ x[outside] - s)
        check.row(name, predicted=literal, measured=profile[n - 1], tolerance=1e-12, because="rounding")
        once[name] = float(np.linalg.norm(z - s))
        renormalised[name] = float(np.linalg.norm(z - s - s / alpha[inside].sum()))
    check.rival("$|z-s|$", once)
    check.rival("weights renormalised on the selected set", renormalised)
    return check


@PAPER.claim(
    "orthogonal-tokens",
    says="For orthogonal unit vectors the distance does not depend on how many keys are selected.",
    basis=basis.Derived("the definition of the distance"),
    formula=r"\tilde d=\sqrt{\sum_i\alpha_i^2}",
)
def orthogonal_tokens(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    alpha = rng.dirichlet(np.full(40, 0.7))
    rotation = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    check = Check(parameters={"L": 40})
    check.series(
        [f"$N={n}$" for n in range(1, 41)],
        predicted=np.sqrt(np.sum(alpha**2)),
        measured=distance_profile(alpha, rotation),
        tolerance=1e-12,
        because="rounding",
    )
    largest = np.sort(alpha)[::-1]
    mass, inside = np.cumsum(largest), np.cumsum(largest**2)
    check.rival("weights renormalised on the selected set", np.sqrt(inside / mass**2 + inside[-1] - inside))
    check.rival("the part that is not selected alone", np.sqrt(np.maximum(inside[-1] - inside, 0)))
    return check


@PAPER.claim(
    "equicorrelated-tokens",
    says="For unit vectors with a positive common cosine the distance is a V in the number of selected keys, lowest "
    "where they carry half of the weight; with a negative one the closed form is the same and it is largest there.",
    basis=basis.Derived("the definition of the distance"),
    formula=r"\tilde d^2=(1-c)\sum_i\alpha_i^2+c\,(1-2m_N)^2",
)
def equicorrelated_tokens(run: Run) -> Check:
    length = 50
    alpha = np.random.default_rng(run.seed).dirichlet(np.full(length, 0.4))
    check = Check(parameters={"L": length})
    linear: dict[str, float] = {}
    half = int(np.argmin(np.abs(top_mass(alpha) - 0.5))) + 1
    for c in (-0.015, 0.1, 0.6):
        measured, predicted = distance_profile(alpha, equicorrelated(length, c)), equicorrelated_profile(alpha, c)
        names = [f"$c={c}$, $N={n}$" for n in range(1, length + 1)]
        check.series(names, predicted=predicted, measured=measured, tolerance=1e-12, because="rounding")
        share = np.sqrt((1 - c) * np.sum(alpha**2) + c * (1 - 2 * np.arange(1, length + 1) / length) ** 2)
        linear |= dict(zip(names, share.tolist(), strict=True))
        end, at = ("maximum", np.argmax(measured)) if c < 0 else ("minimum", np.argmin(measured))
        check.same(f"$N$ at the {end}, $c={c}$", predicted=half, measured=float(at + 1))
        linear[f"$N$ at the {end}, $c={c}$"] = length / 2
    check.rival("turned where half of the keys are selected", linear)
    return check


@PAPER.claim(
    "random-selection",
    says="If the selected keys are drawn at random, the mean squared distance has a closed form; all 84 subsets of a "
    "small case and draws of a larger one agree.",
    basis=basis.Derived("exchangeable selections; the right-hand side of Theorem 1 was not available"),
    formula=r"E\,\tilde d^2=\kappa\|z\|^2+(1-\kappa)\sum_i\alpha_i^2\|x_i\|^2,\quad\kappa=\frac{(L-2N)^2-L}{L(L-1)}",
)
def random_selection(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)

    def independent(alpha: np.ndarray, x: np.ndarray, n: int) -> float:
        """Each key selected with probability N/L by itself: kappa is (1 - 2N/L)^2."""
        kappa = (1 - 2 * n / len(alpha)) ** 2
        z, squares = alpha @ x, alpha**2 @ np.sum(x**2, axis=1)
        return float(kappa * z @ z + (1 - kappa) * squares)

    alpha, x = rng.dirichlet(np.ones(9)), rng.normal(1.0, 1.0, size=(9, 5))
    y = alpha[:, None] * x
    squares = [np.sum((y.sum(0) - 2 * y[list(chosen)].sum(0)) ** 2) for chosen in combinations(range(9), 3)]
    beta, w = rng.dirichlet(np.ones(40)), rng.normal(1.0, 1.0, size=(40, 6))
    v = beta[:, None] * w
    draws = 20_000
    chosen = np.argsort(rng.random((draws, 40)), axis=1)[:, :11]
    drawn = mean(np.sum((v.sum(0) - 2 * v[chosen].sum(axis=1)) ** 2, axis=1))
    check = Check(parameters={"draws": draws})
    check.row(
        "all subsets, $L=9$, $N=3$",
        predicted=random_selection_profile(alpha, x)[2] ** 2,
        measured=np.mean(squares),
        relative=1e-12,
        because="rounding",
    )
    check.row(
        "draws, $L=40$, $N=11$",
        predicted=random_selection_profile(beta, w)[10] ** 2,
        measured=drawn.value,
        error=drawn.error,
        repeats=draws,
        because="standard error of the draws",
    )
    check.rival("keys selected independently of each other", [independent(alpha, x, 3), independent(beta, w, 11)])
    return check


@PAPER.claim(
    "distance-collapse",
    says=r"With bounded logits and isotropic tokens the distance falls like $L^{-1/2}$ when a tenth, a quarter or a "
    "half of the keys is selected.",
    basis=COLLAPSE,
    formula=r"E\,\tilde d^2=\sum_i\alpha_i^2\le e^{2\Delta/T}/L",
)
def distance_collapse(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    lengths, d, draws = np.array([64, 256, 1024, 2048]), 48, 32 if run.quick else 200
    shares = (0.1, 0.25, 0.5)
    logs, errors, largest = [], [], 0.0
    for length in lengths:
        alpha = np.exp(rng.uniform(-1, 1, (draws, length)))
        alpha /= alpha.sum(axis=1, keepdims=True)
        x = rng.normal(size=(draws, length, d))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        profile = distance_profile(alpha, x) ** 2
        squares = [mean(profile[:, round(share * length) - 1]) for share in shares]
        logs.append([0.5 * np.log(each.value) for each in squares])
        errors.append([0.5 * each.error / each.value for each in squares])
        largest = max(largest, float(np.max(np.sum(alpha**2, axis=1) * length)))
    design = np.log(lengths) - np.log(lengths).mean()
    slopes = design @ np.array(logs) / (design @ design)
    spread = np.sqrt(np.sum((design[:, None] * np.array(errors)) ** 2, axis=0)) / (design @ design)
    check = Check(parameters={"L": lengths.tolist(), "d": d, "draws": draws})
    for share, slope, error in zip(shares, slopes, spread, strict=True):
        # The mean of sum alpha^2 times L rises by 0.2 / L towards its limit: a bias of the slope far below its error.
        check.row(
            f"slope, $N={share:g}L$",
            predicted=-0.5,
            measured=slope,
            error=error,
            repeats=draws,
            because="standard error of the fitted slope",
        )
    names = [row.name for row in check.rows]
    because = "the bound for logits in [-1, 1]; rounding"
    check.at_most("$L\\sum\\alpha^2$", bound=np.exp(2), measured=largest, relative=1e-12, because=because)
    check.rival("falls like $1/L$", {name: -1.0 for name in names})
    check.rival("falls like $L^{-1/3}$", {name: -1 / 3 for name in names})
    return check


@PAPER.claim(
    "distance-bounds",
    says=r"The distance never exceeds the longest token and never falls below the gap between $|z|$ and $2|s|$; both "
    "are reached.",
    basis=basis.Derived("the triangle inequality"),
    formula=r"\big|\,\|z\|-2\|s\|\,\big|\le\tilde d\le\max_i\|x_i\|",
)
def distance_bounds(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    alpha, x = rng.dirichlet(np.full(30, 0.3), size=200), rng.normal(size=(200, 30, 4)) + 0.5
    x[0] = np.eye(4)[0]  # all tokens alike: both ends are reached
    profile = distance_profile(alpha, x)
    order = np.argsort(-alpha, axis=1, kind="stable")
    y = np.take_along_axis(alpha[..., None] * x, order[..., None], axis=1)
    s = np.linalg.norm(np.cumsum(y, axis=1), axis=-1)
    gap, longest = np.abs(s[:, -1:] - 2 * s), np.linalg.norm(x, axis=-1).max(axis=1, keepdims=True)
    check = Check(parameters={"L": 30, "heads": 200})
    above, below = float(np.max(profile / longest)), float(np.max(gap[gap > 0.1] / profile[gap > 0.1]))
    check.at_most("distance over the longest token", bound=1.0, measured=above, tolerance=1e-12, because="rounding")
    check.at_most("gap over the distance", bound=1.0, measured=below, tolerance=1e-12, because="rounding")
    check.rival("nine tenths of the longest token", {"distance over the longest token": 0.9})
    check.rival("twice the gap", {"gap over the distance": 0.5})
    return check


@PAPER.claim(
    "half-of-the-mass",
    says="For equal weights the selected keys carry half of the mass when half of them are selected, and for "
    "equicorrelated tokens choosing them is then no better than chance at any number of keys.",
    basis=basis.Derived("equal weights make every selection of $N$ keys alike"),
    formula=r"\tilde d^2(N)=E\,\tilde d^2_{\rm random}(N)\ \text{for all }N",
)
def half_of_the_mass(run: Run) -> Check:
    length, cosine = 100, 0.3
    alpha, x = np.full(length, 1 / length), equicorrelated(length, cosine)
    counts = critical_counts(alpha, x)
    check = Check(parameters={"L": length, "c": cosine})
    check.same("keys that carry half of the mass", predicted=50, measured=float(counts.half_mass))
    profile, chance = distance_profile(alpha, x), random_selection_profile(alpha, x)
    for n in (5, 25, 50, 75):
        check.row(f"$N={n}$", predicted=chance[n - 1], measured=profile[n - 1], tolerance=1e-12, because="rounding")
    check.rival(
        "the same distance at every number of keys",
        {f"$N={n}$": float(np.sqrt((1 - cosine) / length)) for n in (5, 25, 75)},
    )
    return check
