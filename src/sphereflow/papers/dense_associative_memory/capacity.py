r"""Capacity at zero temperature: the load at which a pattern stops dominating its own softmax.

$$\alpha_c(\beta,0)=\beta-g_{max}(\beta),\qquad \text{Gaussian overlaps: } \tfrac12\ (\beta\ge1).$$
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import softmax

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction, mean
from sphereflow.memory import gaussian, spherical
from sphereflow.memory.landscapes import random_patterns
from sphereflow.memory.noise import median_crossing
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.sources import CAPACITY, DRAFT


@PAPER.claim(
    "capacity",
    says="On the sphere the capacity at zero temperature grows with the sharpness of the kernel without bound, like "
    r"$\frac12\ln\beta+\frac12$: 0.6226 at $\beta=1$, above 2.8 at $\beta=100$. It is the load, extrapolated in $1/N$, "
    "at which the median one-step weight of a stored pattern is 1/2.",
    prints="The maximum capacity at zero temperature, in the regime of sharp kernels, is 0.5.",
    basis=CAPACITY,
    formula=r"\alpha_{1/2}(N)=\alpha_c(\beta)+\frac{\ln\sqrt{1-\phi^{*4}}}{N}+O(N^{-2}),\qquad "
    r"\alpha_c=\beta-g_{max}(\beta)",
)
def capacity(run: Run) -> Check:
    sizes = np.array([24, 32, 48, 96, 192])
    check = Check(
        parameters={"N": sizes.tolist()},
        note="The printed value holds for Gaussian overlaps (see capacity-of-gaussian-overlaps), which need "
        "patterns of unequal length; on the sphere no other pattern comes near a stored one.",
    )
    other, slopes, bound = {}, {}, {}
    for beta in (0.5, 1.0, 2.0, 4.0, 100.0):
        measured = [median_crossing(int(n), beta, 200 if run.quick else 4000, run.seed) for n in sizes]
        points, spreads = (np.array(each) for each in zip(*measured, strict=True))
        # Noise fluctuates little at large N; what remains there is the next term of the expansion, 1/N^2.
        sigma = spreads + 0.3 / sizes**2
        (slope, value), covariance = np.polyfit(1 / sizes, points, 1, w=1 / sigma, cov="unscaled")
        because = "standard errors of the weighted fit, which include a term of order 1/N^2"
        name = rf"$\beta={beta:g}$"
        check.row(
            name, predicted=spherical.capacity(beta), measured=value, error=np.sqrt(covariance[1, 1]), because=because
        )
        check.row(
            f"slope in 1/N, {name}",
            predicted=np.log1p(-(float(spherical.saddle(beta)) ** 4)) / 2,
            measured=slope,
            error=np.sqrt(covariance[0, 0]),
            because=because,
        )
        other[name] = np.log1p(beta) / 2 + beta / (2 * (1 + beta))
        slopes[f"slope in 1/N, {name}"] = 0.0
        bound[name] = spherical.separation_bound(beta)
    check.printed({rf"$\beta={b:g}$": 0.5 for b in (1, 2, 4, 100)})
    check.rival("independent Gaussian patterns with the same kernel", other)
    check.rival("the load up to which separated patterns guarantee retrieval", bound)
    check.rival("no correction of order 1/N", slopes)
    return check


def gaussian_capacity(beta: float) -> float:
    """The load at which max of alpha - phi^2/2 - beta(1 - phi) over overlaps that occur, phi^2 <= 2 alpha, is 0."""

    def noise(alpha: float) -> float:
        best = minimize_scalar(
            lambda p: -(alpha - p * p / 2 - beta * (1 - p)),
            bounds=(0.0, np.sqrt(2 * alpha)),
            method="bounded",
            options={"xatol": 1e-12},
        )
        return -float(best.fun)

    return float(brentq(noise, 1e-3, 4.0, xtol=1e-12))


@PAPER.claim(
    "capacity-of-gaussian-overlaps",
    says=r"For Gaussian overlaps the capacity at zero temperature is $\beta(1-\beta/2)$ up to $\beta=1$ and 1/2 "
    r"beyond.",
    basis=basis.Equation("of the zero-temperature capacity", via=DRAFT),
    formula=r"\alpha_c=\beta(1-\tfrac\beta2)\ (\beta\le1),\qquad \tfrac12\ (\beta\ge1)",
)
def capacity_of_gaussian_overlaps(run: Run) -> Check:
    betas = (0.25, 0.5, 0.9, 1.5, 4.0)
    check = Check()
    check.series(
        [rf"$\beta={b:g}$" for b in betas],
        predicted=[gaussian.lse_capacity(b) for b in betas],
        measured=[gaussian_capacity(b) for b in betas],
        tolerance=1e-6,
        because="a root of a maximum at the edge of its interval, which is searched to 1e-12 times the slope",
    )
    check.rival("overlaps that do not occur counted as well", [b - b * b / 2 for b in betas])
    check.rival("1/2 at every sharpness", 0.5)
    check.rival("the sphere", [float(spherical.capacity(b)) for b in betas])
    return check


STEPS = (1, 2, 3, 40)


def iterated(n: int, alpha: float, beta: float, seed: int, projected: bool) -> np.ndarray:
    """Overlaps with the first pattern after `STEPS` attention updates from it."""
    patterns = random_patterns(n, round(np.exp(alpha * n)), seed)
    x = patterns[0]
    overlap = np.empty(max(STEPS))
    for step in range(max(STEPS)):
        x = softmax(beta * patterns @ x) @ patterns
        x = np.sqrt(n) * x / np.linalg.norm(x) if projected else x
        overlap[step] = x @ patterns[0] / n
    return overlap[np.array(STEPS) - 1]


def recursion(n: int, alpha: float, beta: float) -> np.ndarray:
    r"""$q'=w+(1-w)\phi^*(\beta q)$: a state q times the pattern is an attention step at the sharpness $\beta q$."""
    q, path = 1.0, []
    for _ in range(max(STEPS)):
        phi = float(spherical.saddle(beta * q))
        noise = n * (alpha - float(spherical.capacity(beta * q))) - np.log1p(-(phi**4)) / 2
        weight = 1 / (1 + np.exp(noise))
        q = weight + (1 - weight) * phi
        path.append(q)
    return np.array(path)[np.array(STEPS) - 1]


@PAPER.claim(
    "iterated-update",
    says=r"Iterating the attention update is no test of capacity. At $\beta=0.5$ and load 0.35, below the capacity "
    "0.387, the plain iteration from a stored pattern shrinks, hence softens its own kernel, and collapses to the "
    r"mean; at $\beta=1$ and load 0.65, above the capacity 0.623, the iteration that returns to the sphere stays at "
    "the pattern in most draws.",
    basis=basis.Derived("an attention step from q times a pattern is one at sharpness beta q"),
    formula=r"q'=w(\beta q)+(1-w(\beta q))\,\phi^*(\beta q)",
)
def iterated_update(run: Run) -> Check:
    draws = 40 if run.quick else 400
    check = Check(parameters={"draws": draws})
    plain = mean(np.stack([iterated(18, 0.35, 0.5, run.seed + 1000 * k, False) for k in range(draws)]))
    names = [rf"plain, $N=18$, $\beta=0.5$, load 0.35, step {s}" for s in STEPS]
    check.series(
        names,
        predicted=recursion(18, 0.35, 0.5),
        measured=plain.value,
        error=plain.error,
        repeats=draws,
        tolerance=0.05,
        because="standard error, and the fluctuations of the noise at N = 18",
    )
    stays, repeats = "projected, $N=14$, load 0.65, share that stays", 60 if run.quick else 400
    kept, left = (
        fraction(np.array([iterated(14, 0.65, 1.0, run.seed + 1000 * k, projected)[-1] > 0.9 for k in range(count)]))
        for projected, count in ((True, repeats), (False, 10))
    )
    check.at_least(
        stays,
        bound=0.5,
        measured=kept.value,
        error=kept.error,
        repeats=repeats,
        because="most of the draws, up to the error bar of the share",
    )
    check.rival("one step decides: the weight stays above one half", {names[-1]: float(recursion(18, 0.35, 0.5)[0])})
    check.rival(r"the state keeps its length: $q'=w(\beta)$", dict.fromkeys(names, float(recursion(18, 0.35, 0.5)[0])))
    check.null("the iteration that does not return to the sphere", {stays: float(left.value)})
    return check
