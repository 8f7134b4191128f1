r"""Selected vectors that stay closer to their sum than every vector left out, for independent directions.

$$y_i=\alpha_ix_i,\quad s=\sum_{i\in S}y_i,\quad z_i=|y_i|^2-2\langle y_i,s\rangle,\qquad
  R=\frac1{|S|}\#\{i\in S:\ z_i<\min_{j\notin S}z_j\},\qquad P=\frac{|S|}{|S|+\#\{j\notin S:\ z_j\le\max_Sz_i\}}.$$

Directions are uniform on the sphere of $\mathbb R^d$ and inner products taken as Gaussian, which is exact as d grows:
with $A=\sum_S\alpha_i^2$, $z_i\sim N(-\alpha_i^2,4\alpha_i^2(A-\alpha_i^2)/d)$ on S and
$z_j\sim N(\alpha_j^2,4\alpha_j^2A/d)$ off S.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr

from sphereflow.numerics.quadrature import panels

_REACH = 9.0  # standard deviations
_NEAR, _STEP = 1e-8, 0.08


def expected_recall(chosen: Float[np.ndarray, " N"], others: Float[np.ndarray, " M"], d: float) -> float:
    r"""$E[R]=\frac1N\sum_{i\in S}E\prod_{j\notin S}\Pr(z_j>z_i)$ for these positive weights; to 1e-6."""
    return _Laws.of(chosen, others, d).recall()


def expected_separation(
    chosen: Float[np.ndarray, " N"], others: Float[np.ndarray, " M"], d: float
) -> tuple[float, float]:
    r"""$E[R]$, and $E[P]=E\big[N/(N+\sum_{j\notin S}\Pr(z_j\le M))\big]$ with $M=\max_Sz_i$; to 1e-6 and 5e-6."""
    laws = _Laws.of(chosen, others, d)
    return laws.recall(), laws.precision()


@dataclass(frozen=True)
class _Laws:
    r"""Centres and spreads of the $z_i$, and what all of them share: $\sum_j\log\Pr(z_j>z)$ and $\sum_j\Pr(z_j\le z)$.

    Both sums are tabulated once. Small weights make them steep at zero: the table is uniform in
    $\mathrm{arsinh}(z/\varepsilon)$.
    """

    centre: np.ndarray
    spread: np.ndarray
    small: float
    table: CubicSpline
    marks: np.ndarray

    @classmethod
    def of(cls, chosen: np.ndarray, others: np.ndarray, d: float) -> _Laws:
        total = np.sum(chosen**2)
        centre = -(chosen**2)
        spread = np.maximum(2 * chosen * np.sqrt(np.maximum(total - chosen**2, 0) / d), 1e-12 * total)
        furthest = float(np.max(np.abs(centre) + _REACH * spread))
        small = _NEAR * furthest
        end = np.arcsinh(1 / _NEAR)
        u = np.linspace(-end, end, 2 * round(end / _STEP) + 1)
        logs = log_ndtr((others**2 - small * np.sinh(u)[:, None]) / (2 * others * np.sqrt(total / d)))
        table = CubicSpline(u, np.stack([logs.sum(axis=1), -np.expm1(logs).sum(axis=1)], axis=1))
        away = np.geomspace(small, furthest, 30)
        return cls(centre, spread, small, table, np.concatenate([-away[::-1], [0.0], away]))

    def recall(self) -> float:
        # No panel spans more than a standard deviation of its law, nor more than a factor of two in z.
        steps = np.arange(-_REACH, _REACH + 1)
        near = np.clip((self.marks - self.centre[:, None]) / self.spread[:, None], -_REACH, _REACH)
        each = np.concatenate([np.broadcast_to(steps, (len(near), len(steps))), near], axis=1)
        g, width = panels(np.sort(each, axis=1), 6)
        z = self.centre[:, None, None] + self.spread[:, None, None] * g
        alone = np.exp(np.minimum(self.table(np.arcsinh(z / self.small))[..., 0], 0.0))
        density = width * np.exp(-(g**2) / 2)
        return float(np.mean(np.sum(density * alone, axis=(1, 2)) / np.sum(density, axis=(1, 2))))

    def precision(self) -> float:
        steps = np.arange(-_REACH, _REACH + 1)
        low, high = ((self.centre + side * _REACH * self.spread).max() for side in (-1, 1))
        edges = np.append(self.centre[:, None] + self.spread[:, None] * steps, self.marks)
        largest, width = (part.ravel() for part in panels(np.unique(np.clip(edges, low, high)), 3))
        standard = (largest[:, None] - self.centre) / self.spread
        below = log_ndtr(standard)
        hazard = np.exp(-(standard**2) / 2 - below) / self.spread
        density = width * np.exp(below.sum(axis=1)) * hazard.sum(axis=1)
        intruders = np.maximum(self.table(np.arcsinh(largest / self.small))[:, 1], 0.0)
        size = len(self.centre)
        return float(density @ (size / (size + intruders)) / density.sum())
