r"""Moderate dimension and small beta: the kernel as a polynomial of the inner product.

$$k_\beta(t) \approx \sum_{k\le L}g_k\,T_k(t) = \sum_{l\le L}a_l\,t^l, \qquad
  \langle x,y\rangle^l=\sum_{|\alpha|=l}\binom{l}{\alpha}x^\alpha y^\alpha .$$

The Chebyshev series has the coefficients of the circle (t = cos), hence the same truncation in every dimension; its
$\binom{L+d}{d}$ monomials are the features. They pay where beta is small: see `choose`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction.modes import Expansion, direction, long_product, unit_roundoff
from sphereflow.interaction.series import circle_missed, circle_terms
from sphereflow.kernels import EXPONENTIAL, Kernel


def monomials(degree: int, d: int) -> int:
    """Number of monomials of degree at most L in d variables."""
    return comb(degree + d, d)


def exponents(degree: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Degree and multinomial coefficient of every monomial of degree at most L in d variables."""
    return _table(degree, d)[:2]


def powers(coordinates: Float[Array, "d n"], degree: int) -> Float[Array, "a n"]:
    """All monomials: each is one of a degree less, times a coordinate."""
    _, _, parents, factors = _table(degree, coordinates.shape[0])
    rows = [jnp.ones_like(coordinates[:1])]
    for parent, factor in zip(parents, factors, strict=True):
        rows.append(rows[-1][parent] * coordinates[factor])
    return jnp.concatenate(rows)


@dataclass(frozen=True)
class Monomials(Expansion):
    """Powers of the inner product up to degree L, for unit keys and unit queries in d dimensions."""

    degree: int
    d: int
    kernel: Kernel = EXPONENTIAL

    def features(self, columns: int) -> int:
        return monomials(self.degree, self.d)

    def project(self, keys: Float[Array, "n d"], columns: Float[Array, "n c"]) -> Float[Array, "a c"]:
        return long_product(self._features(keys), columns.T)

    def terms(self, beta: Float[Array, ""]) -> Float[Array, " k"]:
        return circle_terms(self.kernel, self.degree, beta)

    def coefficients(self, beta: Float[Array, ""]) -> Float[Array, " l"]:
        # In float64 whatever the type of the tokens: large powers of opposite signs nearly cancel.
        powers = jnp.asarray(_chebyshev_powers(self.degree)) @ self.terms(jnp.asarray(beta, float))
        return powers.astype(beta.dtype)

    def weigh(self, moments: Float[Array, "a c"], coefficients: Float[Array, " l"]) -> Float[Array, "a c"]:
        degrees, multinomials = exponents(self.degree, self.d)
        weights = coefficients[degrees] * jnp.asarray(multinomials, moments.dtype)
        return weights[:, None] * moments

    def evaluate(
        self, queries: Float[Array, "m d"], weighed: Float[Array, "a c"], beta: Float[Array, ""]
    ) -> Float[Array, "m c"]:
        return (weighed.T @ self._features(queries)).T

    def _features(self, tokens: Float[Array, "n d"]) -> Float[Array, "a n"]:
        return powers(direction(tokens)[0].T, self.degree)

    def tail(self, beta: Float[Array, ""]) -> Float[Array, ""]:
        return circle_missed(self.kernel, self.degree, beta)

    def rounding(self, beta: Float[Array, ""]) -> Float[Array, ""]:
        beta = jax.lax.stop_gradient(beta)
        powers = jnp.sum(jnp.abs(self.coefficients(beta)))
        cancelled = np.abs(_chebyshev_powers(self.degree)).sum(axis=0) @ jnp.abs(self.terms(jnp.asarray(beta, float)))
        converted = np.finfo(np.float64).eps * cancelled.astype(beta.dtype)
        return unit_roundoff(beta) * (32 * self.size(beta)[0] + 4 * powers) + converted


@lru_cache(maxsize=16)
def _chebyshev_powers(degree: int) -> np.ndarray:
    """Column k holds the powers of the Chebyshev polynomial T_k."""
    table = np.zeros((degree + 1, degree + 1))
    for k in range(degree + 1):
        table[: k + 1, k] = np.polynomial.chebyshev.cheb2poly(np.eye(degree + 1)[k][: k + 1])
    return table


@lru_cache(maxsize=16)
def _table(degree: int, d: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Degree and multinomial coefficient of every monomial; for each degree, the parents one below and the factors."""
    exponents = [np.zeros((1, d), int)]
    last = [np.zeros(1, int)]  # the first coordinate by which a monomial may still be multiplied
    parents, factors = [], []
    for _ in range(degree):
        pairs = [(p, f) for p, first in enumerate(last[-1]) for f in range(first, d)]
        parent, factor = (np.array(side) for side in zip(*pairs, strict=True))
        grown = exponents[-1][parent]
        grown[np.arange(len(factor)), factor] += 1
        exponents.append(grown)
        last.append(factor)
        parents.append(parent)
        factors.append(factor)
    everything = np.concatenate(exponents)
    degrees = everything.sum(axis=1)
    factorials = np.array([float(np.prod(np.arange(1, k + 1, dtype=float))) for k in range(degree + 1)])
    return degrees, factorials[degrees] / factorials[everything].prod(axis=1), parents, factors
