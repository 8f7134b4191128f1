r"""Minimisers on the circle by plain means: the conditions of optimality written out and solved by SciPy.

For atoms $(\theta_i,m_i)$ and $g(\theta)=\frac1\beta\sum_jm_je^{\beta(\cos(\theta-\theta_j)-1)}+\frac12v(\theta)$ the
equations $g'(\theta_i)=0$, $g(\theta_i)=\lambda$, $\sum m_i=1$ are solved from a rough start. By convexity the result
is the minimiser if $g\ge\lambda$ on the whole circle, which is looked at on a fine grid. Peak convention.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import fsolve


class Minimiser(NamedTuple):
    """Angles, masses, energy, multiplier, and by how much g falls below the multiplier anywhere."""

    angles: np.ndarray
    masses: np.ndarray
    energy: float
    multiplier: float
    shortfall: float


def half_potential(theta: np.ndarray, weight: float, activation: str) -> tuple[np.ndarray, np.ndarray]:
    """v/2 and v'/2 of one neuron along the first axis, relu or linear."""
    on = (np.cos(theta) > 0) | (activation == "linear")
    return weight / 2 * np.where(on, np.cos(theta) ** 2, 0.0), -weight * np.where(
        on, np.cos(theta) * np.sin(theta), 0.0
    )


def variation(
    theta: np.ndarray, angles: np.ndarray, masses: np.ndarray, beta: float, weight: float, activation: str = "relu"
) -> tuple[np.ndarray, np.ndarray]:
    """g and g' at the places theta."""
    apart = np.subtract.outer(theta, angles)
    kernel = np.exp(beta * (np.cos(apart) - 1)) * masses
    half, slope = half_potential(theta, weight, activation)
    return kernel.sum(axis=1) / beta + half, -(np.sin(apart) * kernel).sum(axis=1) + slope


def minimiser(
    beta: float, weight: float, angles: tuple[float, ...], masses: tuple[float, ...], activation: str = "relu"
) -> Minimiser:
    """The minimiser near a rough start (two digits are enough)."""
    k = len(angles)

    def equations(unknown: np.ndarray) -> np.ndarray:
        theta, m, multiplier = unknown[:k], unknown[k : 2 * k], unknown[-1]
        g, slope = variation(theta, theta, m, beta, weight, activation)
        return np.concatenate([slope, g - multiplier, [m.sum() - 1]])

    start = np.concatenate(
        [
            angles,
            masses,
            [variation(np.array(angles), np.array(angles), np.array(masses), beta, weight, activation)[0].mean()],
        ]
    )
    solved = fsolve(equations, start, xtol=1e-12)
    theta, m, multiplier = solved[:k], solved[k : 2 * k], float(solved[-1])
    g = variation(np.linspace(0, 2 * np.pi, 20_001), theta, m, beta, weight, activation)[0]
    half = half_potential(theta, weight, activation)[0]
    energy = float(m @ (variation(theta, theta, m, beta, weight, activation)[0] + half) / 2)
    return Minimiser(theta, m, energy, multiplier, float(max(0.0, multiplier - g.min())))


def mirrored(half: tuple[float, ...], masses: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Angles up to pi with their masses, and their mirror images (pi itself once)."""
    back = [(2 * np.pi - a, m) for a, m in zip(half[::-1], masses[::-1], strict=True) if abs(a - np.pi) > 1e-3]
    return (*half, *(a for a, _ in back)), (*masses, *(m for _, m in back))


# (beta, weight of the repelling neuron): rough angles up to pi and rough masses, to start from.
ROUGH = {
    (2.0, 1.0): ((1.51, 2.69), (0.31, 0.19)),
    (5.0, 1.0): ((1.54, 2.33, 2.91), (0.23, 0.16, 0.11)),
    (10.0, 1.0): ((1.556, 2.13, 2.58, 2.96), (0.18, 0.13, 0.11, 0.09)),
    (5.0, 0.1): ((0.96, 1.44, 2.12, 2.69, np.pi), (0.06, 0.15, 0.13, 0.11, 0.09)),
    (2.0, float(np.exp(-2.0))): ((0.49, 1.34, 2.39, np.pi), (0.06, 0.22, 0.16, 0.12)),
}


def repelled(beta: float, weight: float) -> Minimiser:
    """The minimiser for a relu neuron that repels."""
    return minimiser(beta, weight, *mirrored(*ROUGH[beta, weight]))
