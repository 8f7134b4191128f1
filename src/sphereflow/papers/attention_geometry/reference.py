r"""The formulas of `independent` by plain means: adaptive quadrature, Stieltjes sums and loops.

They share no code with the library, and are evaluated when the claims are.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import betainc, log_ndtr, ndtr, roots_hermitenorm


def _product(g: np.ndarray, a: float, rest: np.ndarray, total: float, d: float) -> np.ndarray:
    """Pr(every unselected z is larger) for the selected weight a, given its projection g in standard deviations."""
    z = -(a**2) - 2 * a * math.sqrt(max(total - a**2, 0.0) / d) * np.atleast_1d(g)
    return np.asarray(np.exp(log_ndtr((rest**2 - z[:, None]) / (2 * rest * math.sqrt(total / d))).sum(axis=1)))


def recall(weights: np.ndarray, n: int, d: float) -> float:
    """R_N by adaptive quadrature, token by token."""
    chosen, rest = weights[:n], weights[n:]
    total = float(np.sum(chosen**2))

    def one(a: float) -> float:
        def integrand(g: float) -> float:
            return float(_product(np.array(g), a, rest, total, d)[0]) * math.exp(-g * g / 2)

        return quad(integrand, -10, 10, epsabs=1e-8, limit=200)[0] / math.sqrt(2 * math.pi)

    return float(np.mean([one(float(a)) for a in chosen]))


def recall_by_hermite(weights: np.ndarray, n: int, d: float, nodes: int = 200) -> float:
    """R_N by Gauss-Hermite nodes, which miss that the product is nearly a step."""
    chosen, rest = weights[:n], weights[n:]
    total = float(np.sum(chosen**2))
    x, w = roots_hermitenorm(nodes)
    values = [_product(x, float(a), rest, total, d) @ w for a in chosen]
    return float(np.mean(values) / math.sqrt(2 * math.pi))


def recall_of_pairs(weights: np.ndarray, n: int, d: float) -> float:
    """R_N if all pairs were independent: the projection that the pairs of one token share is ignored."""
    inside, outside = weights[:n, None] ** 2, weights[None, n:] ** 2
    total = float(inside.sum())
    x = math.sqrt(d) * (inside + outside) / (2 * np.sqrt(inside * (total - inside) + outside * total))
    return float(np.exp(log_ndtr(x).sum(axis=1)).mean())


def precision(weights: np.ndarray, n: int, d: float, *, self_term: bool = False) -> float:
    """P_N by a Stieltjes sum over the distribution of the largest z; with `self_term` the variance is A for all."""
    chosen, rest = weights[:n], weights[n:]
    total = float(np.sum(chosen**2))
    spread = 2 * chosen * np.sqrt((total - (0 if self_term else 1) * chosen**2) / d)
    around = np.linspace(-10, 10, 1201)
    few = rest[:: max(1, len(rest) // 12)]
    grid = np.concatenate(
        [
            (-(chosen**2) + spread * around[:, None]).ravel(),
            (few**2 + 2 * few * math.sqrt(total / d) * around[::12, None]).ravel(),
        ]
    )
    low, high = (-(chosen**2) - 10 * spread).max(), (-(chosen**2) + 10 * spread).max()
    grid = np.unique(np.clip(grid, low, high))
    law = np.exp(log_ndtr((grid[:, None] + chosen**2) / spread).sum(axis=1))
    middle = (grid[1:] + grid[:-1]) / 2
    intruders = ndtr((middle[:, None] - rest**2) / (2 * rest * math.sqrt(total / d))).sum(axis=1)
    return float(np.diff(law) @ (n / (n + intruders)))


def inversions(weights: np.ndarray, n: int, d: float, *, self_term: bool = False) -> float:
    """E GInv by a double loop; with `self_term` the projection of a selected token counts its own part."""
    total = sum(a * a for a in weights[:n])
    found = 0.0
    for a in weights[:n]:
        for b in weights[n:]:
            noise = a * a * (total - (0 if self_term else a * a)) + b * b * total
            found += math.erfc(math.sqrt(d / 8) * (a * a + b * b) / math.sqrt(noise)) / 2
    return found


def inversions_of_two(weights: np.ndarray, d: int) -> float:
    """E GInv for N = 2 on the sphere by adaptive quadrature: the other selected vector has a known length."""

    def closer(angle: float, a: float, r: float, b: float) -> float:
        lean = 2 * a * r * math.cos(angle)
        t = (b * b + a * a + lean) / (2 * b * math.sqrt(r * r + a * a + lean))
        tail = betainc((d - 1) / 2, 0.5, max(1 - t * t, 0.0)) / 2
        return math.sin(angle) ** (d - 2) * float(tail if t > 0 else 1 - tail)

    whole = quad(lambda angle: math.sin(angle) ** (d - 2), 0, math.pi)[0]
    pairs = ((weights[0], weights[1]), (weights[1], weights[0]))
    found = (quad(closer, 0, math.pi, args=(a, r, b), epsabs=1e-7)[0] for a, r in pairs for b in weights[2:])
    return sum(found) / whole
