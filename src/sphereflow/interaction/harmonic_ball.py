r"""Harmonics for queries of any length: $e^{\beta\langle q,y\rangle}$ with $|q|=r$ between a and b, y on S^2.

$$e^{\beta r(s-1)} \approx \sum_{p\le P}T_p(u)\,c_p(s), \qquad r=\tfrac{a+b}2+\tfrac{b-a}2u, \qquad
  c_p(s)=\sum_l(2l+1)\,\hat\lambda_{pl}\,P_l(s),$$

where $\hat\lambda_{pl}$ is the discrete cosine transform of $\lambda_l(\beta r_p)$ over the Chebyshev nodes r_p. A sum
at a query is then P + 1 sums on the sphere at its direction, combined by Chebyshev polynomials of its length.

How many: the p-th coefficient of $e^{-\beta r(1-s)}$ in u is at most $2\hat I_p(z)$ with $z=\beta(b-a)(1-s)/2$, at most
$\beta(b-a)$, as $(a+b)/2\ge(b-a)/2$; so the series beyond P is bounded by the tail on the circle at the temperature
$\beta(b-a)$, and interpolation at the nodes by twice that.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction.expansion import circle_modes_bound, circle_tail, sphere_coefficients, sphere_tail
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.modes import direction, unit_roundoff

_SLACK = 1e-6  # by which lengths may leave the interval, through rounding


def radial_terms(beta: float, lengths: tuple[float, float], error: float) -> int:
    """P for an error of the kernel."""
    return circle_modes_bound(beta * (lengths[1] - lengths[0] + 2 * _SLACK * lengths[1]), error / 2)


@dataclass(frozen=True)
class SphereBall(SphereModes):
    """Harmonics up to degree L and Chebyshev polynomials up to P for queries whose lengths lie in an interval."""

    lengths: tuple[float, float] = (1.0, 1.0)
    radial: int = 0
    any_query = True

    def features(self, columns: int) -> int:
        return super().features(columns * (self.radial + 1))

    def coefficients(self, beta: Float[Array, ""]) -> Float[Array, "p l"]:
        order = np.arange(self.radial + 1)
        angle = np.pi * (order + 0.5) / len(order)
        radius = jnp.asarray(self._middle + self._half * np.cos(angle), beta.dtype)
        cosines = np.cos(np.outer(order, angle)) * np.where(order > 0, 2, 1)[:, None] / len(order)
        return jnp.asarray(cosines, beta.dtype) @ sphere_coefficients(self.degree, beta * radius).T

    def weigh(self, moments: Float[Array, "m k 2 c"], coefficients: Float[Array, "p l"]) -> Float[Array, "m k 2 e"]:
        each = jax.vmap(super().weigh, (None, 0), 3)(moments, coefficients)  # (m, k, 2, p, c)
        return each.reshape(*moments.shape[:3], -1)

    def evaluate(
        self, queries: Float[Array, "n 3"], weighed: Float[Array, "m k 2 e"], beta: Float[Array, ""]
    ) -> Float[Array, "n c"]:
        sums = super().evaluate(queries, weighed, beta).reshape(queries.shape[0], self.radial + 1, -1)
        u = (direction(queries)[1] - self._middle) / self._half
        terms = [jnp.ones_like(u), u]
        while len(terms) <= self.radial:
            terms.append(2 * u * terms[-1] - terms[-2])
        return jnp.einsum("np,npc->nc", jnp.stack(terms[: self.radial + 1], axis=1), sums)

    def pairs(
        self, queries: Float[Array, "m 3"], keys: Float[Array, "n 3"], beta: Float[Array, ""]
    ) -> Float[Array, "m n"]:
        return jnp.exp(beta * (queries @ keys.T - direction(queries)[1][:, None]))

    def tail(self, beta: Float[Array, ""]) -> Float[Array, ""]:
        longest = self._middle + self._half
        return sphere_tail(self.degree, beta * longest) + 2 * circle_tail(self.radial, 2 * beta * self._half)

    def row_tail(self, beta: Float[Array, ""], length: Float[Array, " m"]) -> Float[Array, " m"]:
        """Infinite for a query whose length lies outside the interval: its sum is then a direct one."""
        return jnp.where(jnp.abs(length - self._middle) <= self._half, self.tail(beta), jnp.inf)

    def rounding(self, beta: Float[Array, "..."]) -> Float[Array, "..."]:
        # Chebyshev polynomials by their recurrence err by p^2 units, and the p-th has a coefficient of 2 I_p(z) e^-z.
        spread = 2 * self._half / (self._middle - self._half) if self._middle > self._half else jnp.inf
        return super().rounding(beta) + unit_roundoff(beta) * beta * jnp.minimum(spread, self.radial**2)

    @property
    def _middle(self) -> float:
        return (self.lengths[0] + self.lengths[1]) / 2

    @property
    def _half(self) -> float:
        """Half the interval, a little more than asked for."""
        return (self.lengths[1] - self.lengths[0]) / 2 + _SLACK * self.lengths[1]
