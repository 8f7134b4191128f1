r"""The circle: Fourier modes.

$$\sum_j k_\beta(\langle q,k_j\rangle)\,c_j = \sum_{k=0}^{K} g_k\,(P_k\cos k\theta + Q_k\sin k\theta),\qquad
  P_k=\sum_j c_j\cos k\theta_j,\quad Q_k=\sum_j c_j\sin k\theta_j,$$

with $k_\beta(\cos t)=\sum_kg_k\cos kt$. The exponential has $g_0=\hat I_0(\beta)$ and $g_k=2\hat I_k(\beta)$; its
queries may have any length, with $\beta|q|$ instead of $\beta$ and the factor $e^{\beta(|q|-1)}$ left out.

Modes are split as $k=aB+b$: the sums over tokens become products of a matrix of about sqrt(K) rows with another one, so
that few features per token are formed and nearly all work is matrix multiplication. Where nothing has to be transposed
(`sums`), a series of few modes is evaluated by Horner's rule instead, and on an NVIDIA GPU all is done in registers
(`fused_circle`).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction import fused_circle
from sphereflow.interaction.expansion import bessel_ratios
from sphereflow.interaction.modes import Expansion, direction, long_product, multiples, project_all
from sphereflow.interaction.series import circle_missed, circle_terms
from sphereflow.kernels import EXPONENTIAL, Kernel

# Beyond these, matrix products evaluate a series faster than one loop over its terms (measured on two cores).
_MOST_UNROLLED = 64


@dataclass(frozen=True)
class CircleModes(Expansion):
    """Modes up to K for keys on the unit circle and queries on it; `any_query` allows queries of any length."""

    modes: int
    any_query: bool = False
    kernel: Kernel = EXPONENTIAL

    def _split(self, columns: int) -> tuple[int, int]:
        """A and B with A B > K, near the sizes that form the fewest features."""
        low = 2 ** max(0, round(np.log2(np.sqrt((self.modes + 1) * columns))))
        low = min(low, 2 ** int(np.ceil(np.log2(self.modes + 1))))
        return -(-(self.modes + 1) // low), low

    def features(self, columns: int) -> int:
        a, b = self._split(columns)
        return 2 * b + 2 * a * columns

    def project(self, keys: Float[Array, "n 2"], columns: Float[Array, "n c"]) -> Float[Array, "2 k c"]:
        c = columns.shape[1]
        a, b = self._split(c)
        unit, _ = direction(keys)
        low, high = _two_scales(unit, a, b)
        charged = (high[:, :, None, :] * columns.T[None, None]).reshape(2 * a * c, -1)
        product = long_product(charged, low.reshape(2 * b, -1)).reshape(2, a, c, 2, b)
        cosine = product[0, :, :, 0] - product[1, :, :, 1]
        sine = product[1, :, :, 0] + product[0, :, :, 1]
        return jnp.stack([cosine, sine]).swapaxes(2, 3).reshape(2, a * b, c)[:, : self.modes + 1]

    def coefficients(self, beta: Float[Array, ""]) -> Float[Array, " k"]:
        return circle_terms(self.kernel, self.modes, beta)

    def terms(self, beta: Float[Array, ""]) -> Float[Array, " k"]:
        return self.coefficients(beta)

    def weigh(self, moments: Float[Array, "2 k c"], coefficients: Float[Array, " k"]) -> Float[Array, "2 k c"]:
        return moments if self.any_query else moments * coefficients[:, None]

    def pairs(
        self, queries: Float[Array, "m 2"], keys: Float[Array, "n 2"], beta: Float[Array, ""]
    ) -> Float[Array, "m n"]:
        if self.any_query:
            return jnp.exp(beta * (queries @ keys.T - direction(queries)[1][:, None]))
        return super().pairs(queries, keys, beta)

    def evaluate(
        self, queries: Float[Array, "m 2"], weighed: Float[Array, "2 k c"], beta: Float[Array, ""]
    ) -> Float[Array, "m c"]:
        unit, length = direction(queries)
        if self.any_query:
            return _horner(unit, beta * length, weighed)
        c = weighed.shape[2]
        a, b = self._split(c)
        low, high = _two_scales(unit, a, b)
        filled = jnp.pad(weighed, ((0, 0), (0, a * b - weighed.shape[1]), (0, 0)))
        p, q = filled.reshape(2, a, b, c).swapaxes(2, 3)
        matrix = jnp.stack([jnp.concatenate([p, q], axis=2), jnp.concatenate([q, -p], axis=2)])
        partial = (matrix.reshape(2 * a * c, 2 * b) @ low.reshape(2 * b, -1)).reshape(2, a, c, -1)
        return jnp.sum(partial * high[:, :, None], axis=(0, 1)).T

    def sums(
        self,
        queries: Float[Array, "m 2"],
        keys: Float[Array, "n 2"],
        columns: Float[Array, "n c"],
        beta: Float[Array, ""],
    ) -> Float[Array, "m c"]:
        """On an NVIDIA GPU all in registers, on a processor the series of few modes."""
        if self.whole or self.any_query:
            return super().sums(queries, keys, columns, beta)

        def fused(queries: Array, keys: Array, columns: Array, beta: Array) -> Array:
            moments = fused_circle.moments(keys, columns, self.modes)
            return fused_circle.series(queries, self.weigh(moments, self.coefficients(beta))).T

        def general(queries: Array, keys: Array, columns: Array, beta: Array) -> Array:
            if jax.default_backend() != "cpu" or self.modes > _MOST_UNROLLED:
                return super(CircleModes, self).sums(queries, keys, columns, beta)
            weighed = self.weigh(project_all(self, keys, columns), self.coefficients(beta))
            return _unrolled(direction(queries)[0], weighed)

        if not fused_circle.supported(self.modes, queries, keys, columns, columns=columns.shape[1]):
            return general(queries, keys, columns, beta)
        return jax.lax.platform_dependent(queries, keys, columns, beta, cuda=fused, default=general)

    def tail(self, beta: Float[Array, "..."]) -> Float[Array, "..."]:
        return circle_missed(self.kernel, self.modes, beta)


def _two_scales(unit: Float[Array, "n 2"], a: int, b: int) -> tuple[Float[Array, "2 b n"], Float[Array, "2 a n"]]:
    """cos and sin of (0, ..., b-1) t and of (0, b, ..., (a-1) b) t."""
    low = multiples(unit[:, 0], unit[:, 1], b + 1)
    high = multiples(low[0][b], low[1][b], a)
    return jnp.stack(low)[:, :b], jnp.stack(high)


def _unrolled(unit: Float[Array, "m 2"], weighed: Float[Array, "2 k c"]) -> Float[Array, "m c"]:
    r"""$\mathrm{Re}\,(g_0+z(g_1+z(g_2+\cdots)))$, g = P - iQ, written out: one loop over queries."""
    # Barriers, lest the compiler repeat the loop for everything that is read off its sums.
    x, y, weighed = jax.lax.optimization_barrier((unit[:, 0], unit[:, 1], weighed))
    sums = []
    for p, q in zip(*jnp.moveaxis(weighed, 2, 1), strict=True):
        re = im = jnp.zeros_like(x)
        for k in range(weighed.shape[1] - 1, 0, -1):
            re, im = re + p[k], im - q[k]
            re, im = re * x - im * y, re * y + im * x
        sums.append(re + p[0])
    return jax.lax.optimization_barrier(jnp.stack(sums, axis=1))


def _horner(unit: Float[Array, "m 2"], beta: Float[Array, " m"], moments: Float[Array, "2 k c"]) -> Float[Array, "m c"]:
    r"""$\hat I_0\,\mathrm{Re}\,(g_0+2 r_0z(g_1+r_1z(g_2+\cdots)))$, $r_k=I_{k+1}/I_k$, $g=P-iQ$, one beta per query."""
    modes = moments.shape[1] - 1
    if modes == 0:
        return jax.scipy.special.i0e(beta)[:, None] * moments[0]
    x, y = unit[:, :1], unit[:, 1:]

    def down(state: tuple[Array, Array], term: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], None]:
        re, im = state
        p, q, ratio = term
        re, im = p + re, im - q
        return (ratio[:, None] * (re * x - im * y), ratio[:, None] * (re * y + im * x)), None

    zero = jnp.zeros((unit.shape[0], moments.shape[2]), unit.dtype)
    terms = (moments[0, 1:], moments[1, 1:], bessel_ratios(0, modes, beta))
    (re, _), _ = jax.lax.scan(down, (zero, zero), terms, reverse=True)
    return jax.scipy.special.i0e(beta)[:, None] * (moments[0, 0] + 2 * re)
