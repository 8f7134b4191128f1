r"""When tokens with equal inner products meet: the curve that phase diagrams follow in high dimension.

If $\langle x_i,x_j\rangle=\gamma$ for all $i\ne j$ at the start, it stays so, and

$$\dot\gamma = \frac{2(1-\gamma)((n-1)\gamma+1)}{e^{\beta(1-\gamma)}+n-1}\ \text{(SA)},\qquad
  \dot\gamma = \frac{2}{n}\,e^{\beta\gamma}(1-\gamma)((n-1)\gamma+1)\ \text{(USA, raw kernel)}.$$

With $u=-\log(1-\gamma)$ the right-hand sides become smooth up to collapse, and the time to reach $1-\delta$ is an
integral over $0\le u\le\log(1/\delta)$.
"""

from __future__ import annotations

import numpy as np


def log_gap_speed(u: np.ndarray | float, n: int, beta: float, model: str) -> np.ndarray:
    r"""$\dot u$ for $u=-\log(1-\gamma)$: $2((n-1)\gamma+1)/(e^{\beta(1-\gamma)}+n-1)$, or with $e^{\beta\gamma}/n$."""
    gap = np.exp(-np.asarray(u, dtype=float))
    linear = 2 * (n - (n - 1) * gap)
    return np.asarray(linear / (np.exp(beta * gap) + n - 1) if model == "sa" else linear * np.exp(beta * (1 - gap)) / n)


def log_collapse_time(n: int, beta: float, delta: float = 1e-3, model: str = "sa") -> float:
    r"""$\log t^*$, $t^*=\int_0^{\log 1/\delta} du/\dot u$: the time from orthogonality to $1-\delta$.

    For SA the factor $e^\beta$ is taken out of the integrand, so that any beta works.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    last = -np.log(delta)
    edges = np.concatenate([[0.0], np.geomspace(1e-4 / (1 + beta + n), last, 60)])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    u = middle[:, None] + half[:, None] * nodes
    gap = np.exp(-u)
    if model == "sa":
        numerator, log_factor = np.exp(beta * (gap - 1)) + (n - 1) * np.exp(-beta), beta
    else:
        numerator, log_factor = n * np.exp(beta * (gap - 1)), 0.0
    integrand = numerator / (2 * (n - (n - 1) * gap))
    return float(log_factor + np.log(np.sum(half * (integrand @ weights))))


def collapse_time(n: int, beta: float, delta: float = 1e-3, model: str = "sa") -> float:
    """t* itself; beyond beta of about 700 use its logarithm."""
    return float(np.exp(log_collapse_time(n, beta, delta, model)))
