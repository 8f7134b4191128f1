r"""What independent directions do: exact chances that an unselected vector comes closer to the sum than a selected one.

Vectors $y_i=a_iu_i$ with independent $u_i$, uniform on the unit sphere of $\mathbb R^d$; S the $N$ largest weights,
$s=\sum_Sy_i$, $s_{-i}=s-y_i$, $D_i=\|y_i-s\|$. Selected $i$ and unselected $j$ are inverted when

$$ D_j\le D_i\iff\|s_{-i}+y_i-y_j\|\le\|s_{-i}\| . $$

Given the length $\rho$ of $s_{-i}$ and its cosine $\tau$ with $u_i$, both $|s|$ and $D_i$ are known and the unselected
directions are still independent, so sums and products over $j$ of

$$ \Pr(D_j>D_i)=F_d\Big(\frac{a_j^2+a_i^2+2\rho a_i\tau}{2a_j|s|}\Big),\qquad |s|^2=\rho^2+a_i^2+2\rho a_i\tau, $$

are exact, $F_d$ being the distribution of one coordinate of a uniform direction. What is left is an integral over
$\rho$ and $\tau$. The moments of $\rho^2$ follow from adding one vector after the other; Gauss nodes of these moments
do the first integral, equal steps the second.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
from scipy.special import betainc

_NODES = 6  # Gauss nodes of the squared length: its first eleven moments are exact
_REACH = 9.0  # standard deviations of a coordinate beyond which nothing happens
_BLOCK = 2_000_000
_TABLE = 6001


def coordinate_below(t: np.ndarray, d: int) -> np.ndarray:
    r"""$F_d(t)$: the chance that a coordinate of a uniform direction of $\mathbb R^d$ is at most t."""
    t = np.clip(t, -1.0, 1.0)
    half = 0.5 * betainc((d - 1) / 2, 0.5, 1 - t**2)
    return np.asarray(np.where(t < 0, half, 1 - half))


@lru_cache(maxsize=8)
def _table(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t, 1 - F_d(t) and log F_d(t), on a grid so fine that straight lines between its points err by less than 1e-6."""
    reach = np.arcsin(min(1.0, 14.0 / np.sqrt(d)))
    t = np.sin(np.linspace(-reach, reach, _TABLE))  # in angles, because F has infinite slopes at its ends for d = 2
    return t, coordinate_below(-t, d), np.log(np.maximum(coordinate_below(t, d), 1e-300))


def pair_chances(sizes: np.ndarray, count: int, d: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """For each selected vector: the mean number of its inversions, and the chance that it has none.

    `sizes` are in the order of selection; the first `count` are selected.
    """
    others, times = np.unique(sizes[count:], return_counts=True)
    chosen, first, alike = np.unique(sizes[:count], return_index=True, return_inverse=True)
    squares, chances = squared_lengths(sizes[:count], first, d)
    grid, above, log_below = _table(d)
    inverted, none = np.zeros(len(chosen)), np.zeros(len(chosen))
    for i, a in enumerate(chosen):
        possible = chances[i] > 0
        cosines, density = _cosines(d, steps * _NODES // int(possible.sum()))
        lean = 2 * a * np.sqrt(squares[i, possible])[:, None] * cosines  # 2 <s_-i, y_i>
        weight = (chances[i, possible, None] * density).ravel()
        length = np.sqrt(np.maximum(squares[i, possible, None] + a**2 + lean, 0.0)).ravel()
        offset = (a**2 + lean).ravel()  # |s|^2 - D_i^2
        for start in range(0, len(weight), max(1, _BLOCK // len(others))):
            part = slice(start, start + max(1, _BLOCK // len(others)))
            with np.errstate(divide="ignore", invalid="ignore"):
                t = (others**2 + offset[part, None]) / (2 * others * length[part, None])
            t = np.where(np.isnan(t), -np.inf, t)  # equal distances are inverted
            inverted[i] += weight[part] @ (np.interp(t, grid, above) @ times)
            none[i] += weight[part] @ np.exp(np.interp(t, grid, log_below) @ times)
    return inverted[alike], none[alike]


@lru_cache(maxsize=8)
def _cosines(d: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a coordinate: as cos(angle) it has the density sin(angle)^(d-2), smooth for every d."""
    half = min(np.pi / 2, _REACH / np.sqrt(d))
    angle = np.pi / 2 + half * (2 * (np.arange(steps) + 0.5) / steps - 1)
    density = np.sin(angle) ** (d - 2)
    return np.cos(angle), density / density.sum()


def pair_bounds(sizes: np.ndarray, count: int, d: int) -> np.ndarray:
    r"""(N, L - N) bounds of the chance of an inversion, proved for every d:

    $$ \Pr(D_j\le D_i)\le\exp\Big(-\mu(a_i^2+a_j^2)+\frac{2\mu^2a_i^2a_j^2}d\Big),\qquad
       \mu=\frac d{8B},\quad B=\sum_{k\in S,k\ne i}a_k^2 . $$

    From $E e^{\kappa\tau}\le e^{\kappa^2/2d}$ for each direction, first of those in $s_{-i}$, then of $u_j$ against
    $u_i$. Any smaller $\mu$ is allowed too, and taken where it is better.
    """
    inside, outside = sizes[:count, None] ** 2, sizes[None, count:] ** 2
    rest = np.sum(inside) - inside
    if count == 1:
        rest = np.zeros_like(inside)  # not what rounding leaves
    with np.errstate(divide="ignore", invalid="ignore"):
        mu = np.minimum(d / (8 * rest), d * (inside + outside) / (4 * inside * outside))
        exponent = -mu * (inside + outside) + 2 * mu**2 * inside * outside / d
    # Nothing but s_-i moves a vector of size zero: no chance if that is zero too, unless both coincide.
    exponent = np.where(np.isnan(exponent), np.where(inside + outside > 0, -np.inf, 0.0), exponent)
    return np.asarray(np.exp(np.minimum(exponent, 0.0)))


def squared_lengths(sizes: np.ndarray, without: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights of $|s_{-i}|^2$ for each i in `without`: the sum of independent vectors of all other sizes.

    With $x=B+\xi$, $B$ its mean, one more vector of size a makes $\xi'=\xi+2a\sqrt{B+\xi}\,\tau$; only even powers of
    $\tau$ have a mean, so the central moments of $\xi'$ are polynomials in those of $\xi$.
    """
    count, top = len(without), 2 * _NODES
    order = np.arange(top // 2 + 1)
    # E tau^(2e) = prod (2k - 1) / (d + 2k - 2)
    even = np.cumprod(np.concatenate([[1.0], (2 * order[1:] - 1) / (d + 2 * order[1:] - 2)]))
    scale = float(np.sum(sizes**2)) or 1.0
    moments = np.zeros((top, count))
    moments[0] = 1.0
    base = np.zeros(count)
    for place, size in enumerate(sizes):
        a2 = np.full(count, size**2 / scale)
        a2[without == place] = 0.0
        new = np.zeros_like(moments)
        for p in range(top):
            for e in range(p // 2 + 1):
                inner = sum(comb(e, k) * base ** (e - k) * moments[p - 2 * e + k] for k in range(e + 1))
                new[p] += comb(p, 2 * e) * even[e] * (4 * a2) ** e * inner
        moments, base = new, base + a2
    spread = np.sqrt(moments[2])
    nodes, weights = np.empty((count, _NODES)), np.empty((count, _NODES))
    for i in range(count):
        if spread[i] <= 1e-12 * base[i]:  # one vector, or none, whose length is certain
            nodes[i], weights[i] = base[i], np.eye(_NODES)[0]
            continue
        x, w = _gauss(moments[:, i] / spread[i] ** np.arange(top))
        nodes[i], weights[i] = np.maximum(base[i] + spread[i] * x, 0.0), w
    return nodes * scale, weights


def _gauss(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights of a law of mean 0 and variance 1 from its moments, by the three-term recurrence."""
    n = _NODES
    hankel = moments[np.add.outer(np.arange(n), np.arange(n))]
    shifted = moments[np.add.outer(np.arange(n), np.arange(n)) + 1]
    lower = np.linalg.cholesky(hankel)
    inverse = np.linalg.inv(lower)
    jacobi = inverse @ shifted @ inverse.T
    x, vectors = np.linalg.eigh((jacobi + jacobi.T) / 2)
    return x, vectors[0] ** 2
