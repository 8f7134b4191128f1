r"""The attention weights of equiangular tokens: their overlaps f and g, and how they freeze.

$$f=E\sum_k\pi_{ik}^2,\qquad g=E\sum_k\pi_{ik}\pi_{jk},\qquad \pi_i=\mathrm{softmax}(s\sqrt{1-\gamma}\,z_i).$$
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.random_transformers.equiangular import drift, time_between
from sphereflow.random_transformers.softmax_moments import moments, same_argmax, sampled_moments

# g at s = infinity for overlaps 0.25, 0.5, 0.75, 0.9, exact to the digits shown (bivariate-normal quadrature).
HARD = {
    8: (0.209961, 0.326507, 0.498652, 0.668503),
    32: (0.081374, 0.174640, 0.348300, 0.549238),
    128: (0.03286, 0.09840, 0.25424, 0.46478),
}
# Times from overlap 0 to 0.5 and to 0.9 at s = infinity.
BRAKE = {8: (3.289748, 6.54896), 32: (9.026344, 13.83801), 128: (25.27756, 32.17710)}
LEVELS = (0.25, 0.5, 0.75, 0.9)


@PAPER.claim(
    "same-argmax",
    statement="With hard attention two tokens share their key with the probability of a common argmax.",
    source="Simplex data: the function g at zero temperature",
    formula=r"g=n\iint\varphi_\gamma(a,b)\,\Phi_\gamma(a,b)^{n-1}\,da\,db",
    falsifier="a wrong correlation of the logits",
)
def hard_moments(run: Run) -> Measurement:
    levels = np.array(LEVELS)
    two = 0.5 + np.arcsin(levels) / np.pi
    return agreement(
        [*two, *(v for n in HARD for v in HARD[n]), 1 / 8, 1.0],
        [
            *same_argmax(2, levels),
            *(v for n in HARD for v in same_argmax(n, levels)),
            *same_argmax(8, np.array([0.0, 1.0])),
        ],
        absolute=[1e-12] * 4 + [6e-7] * 8 + [6e-6] * 4 + [1e-12] * 2,
        because="closed form for two tokens and at the ends; otherwise the digits of the reference",
        labels=(*[f"n={n}, overlap {c:g}" for n in (2, *HARD) for c in LEVELS], "n=8, 0", "n=8, 1"),
    )


@PAPER.claim(
    "soft-moments",
    statement="At finite temperature f and g take their known values, and g(0) = 1/n at every temperature.",
    source="Simplex data: the functions f and g",
    formula=r"f(1)=g(1)=g(0)=1/n",
    falsifier="logits with another covariance",
)
def soft_moments(run: Run) -> Measurement:
    known = moments(8, 2.0)
    measured = [float(h(c)) for c in (0.0, 0.5, 0.9) for h in (known.f, known.g)]
    ends = [float(h(1.0)) for h in (known.f, known.g)]
    return agreement(
        [0.430, 0.125, 0.317, 0.205, 0.170, 0.165, 1 / 8, 1 / 8],
        [*measured, *ends],
        absolute=[1e-3] * 6 + [1e-6] * 2,
        because="three digits of the reference (Monte Carlo); the ends are exact",
        labels=(*[f"{h}({c:g})" for c in (0, 0.5, 0.9) for h in "fg"], "f(1)", "g(1)"),
        parameters={"n": 8, "s": 2},
    )


@PAPER.claim(
    "temperature-cancels",
    statement="To second order in s the temperature does not enter the collapse of equiangular tokens.",
    source="Simplex data: expansion for high temperature",
    formula=r"g-\gamma f=\frac{1-\gamma}{n}+O(s^4)",
    falsifier="a difference that shrinks only like s^2",
)
def temperature_cancels(run: Run) -> Measurement:
    def rest(s: float) -> float:
        f, g = sampled_moments(8, s, 0.5)
        return g - 0.5 * f - 0.5 / 8

    # The points are the same for all s: what is left is the expansion, and the sampled error of its s^2 term.
    big, small = rest(0.8), rest(0.4)
    return agreement(
        [4.0, -3.4e-6],
        [math.log2(abs(big / small)), rest(0.2)],
        absolute=[0.5, 4e-6],
        because="next order of the expansion and quasi-Monte-Carlo error; reference with 2e6 samples",
        labels=("order in s", "remainder at s = 0.2"),
        parameters={"n": 8, "overlap": 0.5},
    )


@PAPER.claim(
    "long-context-exponent",
    statement="With hard attention the chance of a common key falls like a power of the context length.",
    source="Simplex data: large n",
    formula=r"g\sim n^{-(1-\gamma)/(1+\gamma)}\quad\text{up to powers of }\log n",
    falsifier="another power",
)
def long_context(run: Run) -> Measurement:
    lengths = np.array([10**6, 10**8, 10**10])
    levels = (0.25, 0.5, 0.75)
    slopes = []
    for c in levels:
        # The power of the logarithm is that of the tail of two correlated normals, g/(1+g).
        log_g = np.log([float(same_argmax(int(n), c)) for n in lengths]) + c / (1 + c) * np.log(np.log(lengths))
        slopes.append(-float(np.diff(log_g)[-1] / np.log(100)))
    return agreement(
        [(1 - c) / (1 + c) for c in levels],
        slopes,
        absolute=0.02,
        because="corrections of relative order 1/log n at n = 10^10",
        labels=tuple(f"overlap {c:g}" for c in levels),
    )


@PAPER.claim(
    "freezing",
    statement="Attention freezes on single keys like a random energy model; at n = 4096 f is still above its limit.",
    source="Simplex data: threshold in s / sqrt(2 log n)",
    formula=r"f\to0\ (x<1),\qquad f\to1-1/x\ (x>1),\qquad x=s\sqrt{1-\gamma}/\sqrt{2\log n}",
    falsifier="no freezing at x = 4, or freezing at x = 0.5",
)
def freezing(run: Run) -> Measurement:
    n, draws = 4096, 400 if run.quick else 4000
    levels = (0.5, 1.0, 1.5, 2.0, 4.0)
    rng = np.random.default_rng(run.seed)
    z = rng.standard_normal((draws, n))
    found = [np.sum(softmax(x * math.sqrt(2 * math.log(n)) * z, axis=1) ** 2, axis=1) for x in levels]
    reference = np.array([0.0112, 0.214, 0.427, 0.570, 0.779])
    error = np.array([0.0003, 0.003, 0.003, 0.004, 0.002])
    bars = np.array([f.std(ddof=1) / math.sqrt(draws) for f in found])
    return agreement(
        reference,
        [f.mean() for f in found],
        absolute=3.5 * np.hypot(bars, error),
        because="three and a half standard errors of both samples",
        labels=tuple(f"x = {x:g}" for x in levels),
        note="The limits for infinite n are 0, 0, 0.333, 0.5, 0.75.",
        parameters={"n": n, "draws": draws},
    )


@PAPER.claim(
    "temperature-as-a-brake",
    statement="Flat attention collapses in a time of order log n, hard attention in a time like a power of n.",
    source="Simplex data: time to collapse",
    formula=r"\tau=\int_0^\gamma\frac{dc}{(1-c)\,(c+g-cf)}",
    falsifier="times that do not grow with n at zero temperature",
)
def brake(run: Run) -> Measurement:
    def logit(gamma: float, n: int) -> float:
        m = (1 + (n - 1) * gamma) / n
        return math.log(m / (1 - m))

    flat = [logit(c, n) - logit(0.0, n) for n in BRAKE for c in (0.5, 0.9)]
    hard = [t for n in BRAKE for t in BRAKE[n]]
    cells = [(n, c) for n in BRAKE for c in (0.5, 0.9)]
    measured = [time_between(0.0, c, n, s) for s in (0.0, math.inf) for n, c in cells]
    return agreement(
        [*flat, *hard],
        measured,
        absolute=[1e-9] * 6 + [1e-6, 1e-5, 1e-6, 1e-5, 1e-5, 1e-5],
        because="logistic times are exact; the others are known to the digits shown",
        labels=tuple(f"s={s}, n={n}, 0 to {c:g}" for s in ("0", "inf") for n, c in cells),
        note=f"speed at overlap 0.5, n = 32: {float(drift(0.5, 32, 0.0)):.4f} flat, "
        f"{float(drift(0.5, 32, math.inf)):.4f} hard.",
    )
