r"""The attention weights of equiangular tokens: their overlaps f and g, and how they freeze.

$$f=E\sum_k\pi_{ik}^2,\qquad g=E\sum_k\pi_{ik}\pi_{jk},\qquad \pi_i=\mathrm{softmax}(s\sqrt{1-\gamma}\,z_i).$$
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.random_transformers_homogenization import PAPER, independent
from sphereflow.random_transformers.equiangular import time_between
from sphereflow.random_transformers.softmax_moments import moments, same_argmax, sampled_moments

LARGE = basis.Derived("logits of equiangular tokens in high dimension, which are Gaussian")
LEVELS = (0.25, 0.5, 0.75, 0.9)


@PAPER.claim(
    "same-argmax",
    says="With hard attention two of 2, 8, 32 or 128 equiangular tokens share their key with the probability of a "
    "common argmax of Gaussian vectors whose correlation is the overlap.",
    basis=LARGE,
    formula=r"g=n\iint\varphi_\gamma(a,b)\,\Phi_\gamma(a,b)^{n-1}\,da\,db,\quad n=2:\ \tfrac12+\tfrac1\pi\arcsin\gamma",
)
def hard_moments(run: Run) -> Check:
    check = Check()
    square, apart = {}, {}
    for n in (2, 8, 32, 128):
        for level in LEVELS:
            row = f"n={n}, overlap {level:g}"
            exact = 0.5 + np.arcsin(level) / np.pi if n == 2 else independent.same_argmax(n, level)
            check.row(
                row,
                predicted=exact,
                measured=same_argmax(n, level),
                tolerance=1e-11 if n == 2 else 2e-5,
                because="closed form" if n == 2 else "a grid of spacing 0.04",
            )
            square[row], apart[row] = independent.same_argmax(n, level**2), 1 / n
    check.rival("logits whose correlation is the square of the overlap", square)
    check.rival("independent logits", apart)
    return check


@PAPER.claim(
    "soft-moments",
    says="At finite temperature f and g of two and of eight tokens agree with Gauss quadrature and with plain "
    "sampling; for orthogonal tokens $g=1/n$ at two temperatures.",
    basis=LARGE,
    formula=r"\pi_i=\mathrm{softmax}(s\sqrt{1-\gamma}\,z_i),\qquad f(1)=g(1)=g(0)=1/n",
)
def soft_moments(run: Run) -> Check:
    check = Check()
    two, eight = moments(2, 2.0), moments(8, 2.0)
    plain = {}
    for level in (0.0, 0.5, 0.9):
        for name, exact, found in zip("fg", independent.two_token_moments(2.0, level), (two.f, two.g), strict=True):
            row = f"{name}, n=2, s=2, overlap {level:g}"
            check.row(row, predicted=exact, measured=found(level), tolerance=1e-3, because="quasi-Monte-Carlo points")
            if level:
                plain[row] = independent.two_token_moments(2.0 / math.sqrt(1 - level), level)["fg".index(name)]
    draws = 40_000 if run.quick else 1_000_000
    rng = np.random.default_rng(run.seed)
    z, other = rng.standard_normal((2, draws, 8))
    size = 2.0 * math.sqrt(0.5)
    first, second = softmax(size * z, axis=1), softmax(size * (0.5 * z + math.sqrt(0.75) * other), axis=1)
    samples = {"f": np.sum(first**2, axis=1), "g": np.sum(first * second, axis=1)}
    for name, sample in samples.items():
        known = mean(sample)
        check.row(
            f"{name}, n=8, s=2, overlap 0.5",
            predicted=known.value,
            measured={"f": eight.f, "g": eight.g}[name](0.5),
            error=known.error,
            repeats=draws,
            tolerance=5e-4,
            because="the error bar of plain sampling; quasi-Monte-Carlo points",
        )
    for s in (2.0, 8.0):
        row = f"g, n=8, s={s:g}, orthogonal tokens"
        check.row(
            row, predicted=1 / 8, measured=moments(8, s).g(0.0), tolerance=2e-3, because="quasi-Monte-Carlo points"
        )
    check.rival("logits of size s at every overlap", plain)
    check.rival("keys shared as often as by one token", {"g, n=8, s=2, overlap 0.5": samples["f"].mean()})
    return check


@PAPER.claim(
    "temperature-cancels",
    says="The speed of collapse of eight equiangular tokens at overlap 1/2 depends on the temperature only from the "
    "order $s^4$ on.",
    basis=LARGE,
    formula=r"g-\gamma f=\frac{1-\gamma}{n}+O(s^4)",
)
def temperature_cancels(run: Run) -> Check:
    def rest(n: int, s: float) -> float:
        f, g = sampled_moments(n, s, 0.5)
        return g - 0.5 * f - 0.5 / n

    # The points are the same for all s: what is left is the expansion, and the sampled error of its s^2 term.
    check = Check(parameters={"overlap": 0.5})
    check.row(
        "order in s, n=8",
        predicted=4.0,
        measured=math.log2(abs(rest(8, 0.8) / rest(8, 0.4))),
        tolerance=0.5,
        because="the next order of the expansion, relatively s^2",
    )
    f, g = independent.two_token_moments(0.8, 0.5)
    predicted = g - 0.5 * f - 0.25
    check.row(
        "n=2, s=0.8", predicted=predicted, measured=rest(2, 0.8), tolerance=1e-3, because="quasi-Monte-Carlo points"
    )
    check.rival("a term of second order", {"order in s, n=8": 2.0})
    first_order = -0.5 * 0.5 * 0.8**2 * 0.5 * 0.5
    check.rival("the second order of f alone", {"n=2, s=0.8": first_order})
    return check


@PAPER.claim(
    "long-context-exponent",
    says="With hard attention the chance of a common key falls like a power of the context length, here between $10^8$ "
    "and $10^{10}$ keys and with a power of the logarithm removed.",
    basis=LARGE,
    formula=r"g\sim n^{-(1-\gamma)/(1+\gamma)}(\log n)^{-\gamma/(1+\gamma)}",
)
def long_context(run: Run) -> Check:
    check = Check()
    lengths = np.array([10**8, 10**10])
    naive, square = {}, {}
    for c in (0.25, 0.5, 0.75):
        log_g = np.log([float(same_argmax(int(n), c)) for n in lengths]) + c / (1 + c) * np.log(np.log(lengths))
        row = f"exponent, overlap {c:g}"
        check.row(
            row,
            predicted=(1 - c) / (1 + c),
            measured=-(log_g[1] - log_g[0]) / np.log(100),
            tolerance=0.02,
            because="corrections of relative order 1/log n",
        )
        naive[row], square[row] = 1 - c, (1 - c**2) / (1 + c**2)
    check.rival("the power 1 - gamma", naive)
    check.rival("the power of the squared overlap", square)
    return check


@PAPER.claim(
    "freezing",
    says="Attention freezes on single keys like a random energy model: sampled softmax of 4096 keys has the exact "
    "participation of that n, and the exact one of $10^{1000}$ keys is near its limit $1-1/x$ above $x=1$ and 0 below.",
    basis=LARGE,
    formula=r"f\to0\ (x<1),\qquad f\to1-1/x\ (x>1),\qquad x=s\sqrt{1-\gamma}/\sqrt{2\log n}",
)
def freezing(run: Run) -> Check:
    n, draws = 4096, 400 if run.quick else 4000
    check = Check(parameters={"n": n, "draws": draws})
    z = np.random.default_rng(run.seed).standard_normal((draws, n))
    limit_now = {}
    for x in (0.5, 1.0, 1.5, 2.0, 4.0):
        size = x * math.sqrt(2 * math.log(n))
        found = mean(np.sum(softmax(size * z, axis=1) ** 2, axis=1))
        row = f"4096 keys, x={x:g}"
        check.row(
            row,
            predicted=independent.participation(math.log(n), size),
            measured=found.value,
            error=found.error,
            repeats=draws,
            tolerance=1e-3,
            because="the error bar; Poisson instead of binomial counts of large logits, 1/n",
        )
        limit_now[row] = max(0.0, 1 - 1 / x)
    far = 1000 * math.log(10)
    inverse = {}
    for x in (0.8, 1.5, 2.0, 4.0):
        row = f"10^1000 keys, x={x:g}"
        exact = independent.participation(far, x * math.sqrt(2 * far))
        check.row(row, predicted=max(0.0, 1 - 1 / x), measured=exact, tolerance=0.01, because="order log log n/log n")
        inverse[row] = max(0.0, 1 - 1 / x**2)
    check.rival("the limit already at 4096 keys", limit_now)
    check.rival("the limit 1 - 1/x^2", inverse)
    return check


@PAPER.claim(
    "cold-attention-delays-collapse",
    says="In the limit equation equiangular tokens go from overlap 0 to 1/2 in a time that grows like $\\log n$ with "
    "flat attention, and like a power of n with hard attention (8, 32, 128 tokens).",
    basis=LARGE,
    formula=r"\tau=\int_0^{1/2}\frac{dc}{(1-c)\,(c+g-cf)},\qquad s=0:\ \log\frac{m(1-m_0)}{m_0(1-m)}",
)
def cold_attention_delays(run: Run) -> Check:
    check = Check()
    flat, linear = {}, {}
    for n in (8, 32, 128):
        row, last = f"flat, n={n}", (n + 1) / (2 * n)
        exact = math.log(last / (1 - last)) + math.log(n - 1)
        check.row(row, predicted=exact, measured=time_between(0.0, 0.5, n, 0.0), tolerance=1e-9, because="closed form")
        linear[row] = n / 8 * math.log(9)
        row = f"hard, n={n}"
        hard = independent.time_at_zero_temperature(0.5, n)
        found = time_between(0.0, 0.5, n, math.inf)
        check.row(row, predicted=hard, measured=found, relative=1e-4, because="two quadratures of g")
        flat[row] = exact
    check.rival("temperature does not matter", flat)
    check.rival("times proportional to n at every temperature", linear)
    return check
