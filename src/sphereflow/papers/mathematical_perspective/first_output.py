r"""How long the output of the first attention layer is, from uniform tokens.

With $w_k=e^{\beta s}$, $s=\langle\theta_j,\theta_k\rangle$, $m_0=\mathbb E w$, $m_1=\mathbb E[ws]$ (hypergeometric
functions) and $a=m_1/m_0$, up to relative corrections of order 1/n,

$$\mathbb E|A_j|^2\approx\frac{(e^\beta+(n-1)m_1)^2+(n-1)\,\mathbb E|w(\theta_k-a\theta_j)|^2}{(e^\beta+(n-1)m_0)^2} .$$

The bound of the theorem, $C(\sqrt{\log n/n}+\log n/d)$ with C = 128, has these two parts.
"""

from __future__ import annotations

import numpy as np
from scipy.special import hyp0f1

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import uniform_tokens


def moments(beta: float, d: int) -> tuple[float, float]:
    r"""$\mathbb E e^{\beta s}$ and $\mathbb E[s\,e^{\beta s}]$ for one coordinate s of a uniform unit vector."""
    square = beta**2 / 4
    return float(hyp0f1(d / 2, square)), float(beta / d * hyp0f1(d / 2 + 1, square))


def mean_square(n: int, d: int, beta: float) -> float:
    """The formula above."""
    (m0, m1), (m2, s2) = moments(beta, d), moments(2 * beta, d)
    a, own = m1 / m0, np.exp(beta)
    spread = m2 * (1 + a**2) - 2 * a * s2
    return float(((own + (n - 1) * m1) ** 2 + (n - 1) * spread) / (own + (n - 1) * m0) ** 2)


def first_outputs(x: np.ndarray, beta: float) -> np.ndarray:
    """|A_j| of every token: the length of its softmax average of all tokens."""
    weights = np.exp(beta * x @ np.swapaxes(x, -1, -2))
    return np.linalg.norm(weights @ x, axis=-1) / weights.sum(axis=-1)


@PAPER.claim(
    "first-output-is-short",
    says="From uniform tokens at $\\beta=1$ the softmax averages have the mean square length of a formula with two "
    "parts, one of order $1/n$ and one of order $1/d^2$, for three shapes; and all lengths are below "
    "$\\sqrt{\\log n/n}+\\log n/d$, the bound of the theorem with the constant 1 in place of 128.",
    basis=basis.Theorem("bound on |A_j(0)|", via=sources.SURVEY),
    formula=r"|A_j(0)|\le C\Big(\sqrt{\tfrac{\log n}{n}}+\tfrac{\log n}{d}\Big)",
)
def first_output_is_short(run: Run) -> Check:
    repeats = 16 if run.quick else 400
    check = Check(parameters={"beta": 1, "starts": repeats})
    noise, drift, root = {}, {}, {}
    for n, d in ((128, 8), (128, 64), (64, 256)):
        lengths = first_outputs(uniform_tokens(run.seed, repeats, n, d), 1.0)
        found = mean((lengths**2).mean(axis=1))
        row = f"n={n}, d={d}: mean square length"
        exact = mean_square(n, d, 1.0)
        because = "terms of relative order 1/n are left out, and the error bar"
        check.row(
            row,
            predicted=exact,
            measured=found.value,
            error=found.error,
            repeats=repeats,
            tolerance=2 * exact / n,
            because=because,
        )
        noise[row], drift[row] = 1 / n, 1 / d**2
        row = f"n={n}, d={d}: longest"
        bound = np.sqrt(np.log(n) / n) + np.log(n) / d
        spread = lengths.max(axis=1).std(ddof=1)
        because = "the bound of the theorem with C = 1; how much the longest differs between starts"
        check.at_most(row, bound=bound, measured=lengths.max(), tolerance=spread, because=because)
        root[row] = np.sqrt(1 / n) / 2 + 1 / (2 * d)
    check.rival("independent weights only, 1/n", noise)
    check.rival("the drift towards the token only, 1/d", drift)
    check.rival("a bound of half 1/sqrt(n) + 1/d", root)
    return check
