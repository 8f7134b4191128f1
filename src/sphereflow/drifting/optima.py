r"""Pairs of laws whose optimal map or entropic plan is known: what baselines are judged by.

Gaussians: with $C=A^{-1/2}(A^{1/2}BA^{1/2})^{1/2}A^{-1/2}$ the map is $m_b+C(x-m_a)$. With entropy $\epsilon$ the mean
of the plan given $x$ is $m_b+C_\epsilon(x-m_a)$,

$$ C_\epsilon=A^{-1/2}\Big(\big(A^{1/2}BA^{1/2}+\tfrac{\epsilon^2}4I\big)^{1/2}-\tfrac\epsilon2I\Big)A^{-1/2}. $$

Any law $p$ and any convex $\varphi$: $\nabla\varphi$ is the optimal map from $p$ to its image.
The score is the unexplained part of the variance, $\mathrm{UVP}=100\,E|T-T^*|^2/\mathrm{Var}(T^*)$ per cent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Affine:
    r"""$x\mapsto m_b+C(x-m_a)$."""

    before: Float[np.ndarray, " D"]
    after: Float[np.ndarray, " D"]
    matrix: Float[np.ndarray, "D D"]

    def __call__(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        return self.after + (x - self.before) @ self.matrix.T


def gaussian_map(
    source: tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"]],
    target: tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"]],
    epsilon: float = 0.0,
) -> Affine:
    """The optimal map between Gaussians given as (mean, covariance), or the mean of the plan with entropy."""
    root = _power(source[1], 0.5)
    back = _power(source[1], -0.5)
    identity = np.eye(len(root))
    middle = _power(root @ target[1] @ root + epsilon**2 / 4 * identity, 0.5) - epsilon / 2 * identity
    return Affine(source[0], target[0], back @ middle @ back)


def fitted_gaussian_map(x: Float[np.ndarray, "n D"], y: Float[np.ndarray, "m D"]) -> Affine:
    """The optimal map between the Gaussians with the moments of two samples: nothing is trained."""
    return gaussian_map((x.mean(axis=0), np.cov(x, rowvar=False)), (y.mean(axis=0), np.cov(y, rowvar=False)))


@dataclass(frozen=True)
class SoftMaximum:
    r"""$\varphi(x)=\frac c2|x|^2+s\log\sum_ke^{a_k\cdot x+b_k}$, whose gradient bends between regions."""

    curvature: float
    strength: float
    slopes: Float[np.ndarray, "K D"]
    shifts: Float[np.ndarray, " K"]

    def gradient(self, x: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        logits = x @ self.slopes.T + self.shifts
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return self.curvature * x + self.strength * shares @ self.slopes


def unexplained(images: Float[np.ndarray, "n D"], truth: Float[np.ndarray, "n D"]) -> float:
    """The error of a map in per cent of the variance of the true one."""
    return float(100 * np.sum((images - truth) ** 2) / np.sum((truth - truth.mean(axis=0)) ** 2))


def _power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.atleast_2d(matrix))
    # Directions without variance are left alone: no map can be learned there.
    small = values <= 1e-12 * values[-1]
    powers = np.where(small, 0.0, np.where(small, 1.0, values) ** exponent)
    return np.asarray(vectors * powers @ vectors.T)
