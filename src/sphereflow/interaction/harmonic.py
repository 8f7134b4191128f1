r"""The sphere S^2: spherical harmonics, written as Fourier series in both angles.

$$k_\beta(\langle x,y\rangle)=\sum_{l\le L}\lambda_l\sum_{m=0}^{l}
  (2-\delta_{m0})N_{lm}(\theta)N_{lm}(\theta')\cos m(\varphi-\varphi'),\qquad
  N_{lm}(\theta)=\sum_{k\le l}B^m_{lk}\,\{\cos k\theta\ (m\text{ even}),\ \sin k\theta\ (m\text{ odd})\}.$$

The moments of the tokens are taken with the products of cos or sin of k theta and m phi, which are matrix products of
two small sets of features; the tables B, which depend on L only, turn them into harmonic moments and back. No
Legendre recurrence is run per token, and nothing is divided by sin(theta).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction.modes import RUN, Expansion, direction, long_product, multiples
from sphereflow.interaction.series import double_all_but_first, sphere_missed, sphere_terms
from sphereflow.kernels import EXPONENTIAL, Kernel


@dataclass(frozen=True)
class SphereModes(Expansion):
    """Harmonics up to degree L for unit keys and unit queries in three dimensions."""

    degree: int
    kernel: Kernel = EXPONENTIAL

    def features(self, columns: int) -> int:
        return 2 * (self.degree + 1) * (columns + 2)

    def chunk(self, columns: int) -> int:
        size = super().chunk(columns)
        return min(size, RUN) if jax.default_backend() == "cpu" else size

    @property
    def causal_chunk(self) -> int:
        return max(super().causal_chunk, min(2 ** round(np.log2(1.2 * self.degree**1.5 + 1)), 1024))

    def project(self, keys: Float[Array, "n 3"], columns: Float[Array, "n c"]) -> Float[Array, "m k 2 c"]:
        (cos_t, sin_t), azimuth = self._features(keys)
        charged = azimuth[:, :, None] * columns.T  # (m, 2, c, n)
        even, odd = (
            long_product(part.reshape(-1, part.shape[-1]), polar).reshape(part.shape[0], -1, len(polar))
            for part, polar in ((charged[::2], cos_t), (charged[1::2], sin_t))
        )
        shape = (self.degree + 1, self.degree + 1, 2, columns.shape[1])
        both = jnp.zeros((shape[0], even.shape[1], shape[1]), keys.dtype).at[::2].set(even).at[1::2].set(odd)
        return both.swapaxes(1, 2).reshape(shape)

    def coefficients(self, beta: Float[Array, ""]) -> Float[Array, " l"]:
        return sphere_terms(self.kernel, self.degree, beta)

    def terms(self, beta: Float[Array, ""]) -> Float[Array, " l"]:
        return (2 * jnp.arange(self.degree + 1) + 1) * self.coefficients(beta)

    def weigh(self, moments: Float[Array, "m k 2 c"], coefficients: Float[Array, " l"]) -> Float[Array, "m k 2 c"]:
        # A barrier, lest the compiler transpose a large table before the program runs: that takes it seconds.
        table = jax.lax.optimization_barrier(jnp.asarray(legendre_fourier(self.degree), moments.dtype))
        harmonic = jnp.einsum("mlk,mksc->mlsc", table, moments)
        both = coefficients[None] * double_all_but_first(jnp.ones_like(table[:, 0, 0]))[:, None]
        return jnp.einsum("mlk,mlsc->mksc", table, both[:, :, None, None] * harmonic)

    def evaluate(
        self, queries: Float[Array, "n 3"], weighed: Float[Array, "m k 2 c"], beta: Float[Array, ""]
    ) -> Float[Array, "n c"]:
        (cos_t, sin_t), azimuth = self._features(queries)
        total = jnp.zeros((weighed.shape[3], queries.shape[0]), queries.dtype)
        for first, polar in ((0, cos_t), (1, sin_t)):
            partial = jnp.einsum("mksc,kn->mscn", weighed[first::2], polar)
            total = total + jnp.sum(partial * azimuth[first::2, :, None], axis=(0, 1))
        return total.T

    def _features(
        self, tokens: Float[Array, "n 3"]
    ) -> tuple[tuple[Float[Array, "k n"], Float[Array, "k n"]], Float[Array, "m 2 n"]]:
        """cos and sin of k theta, and cos and sin of m phi."""
        unit, _ = direction(tokens)
        planar, sine = direction(unit[:, :2])
        count = self.degree + 1
        azimuth = multiples(jnp.where(sine > 0, planar[:, 0], 1), planar[:, 1], count)
        return multiples(unit[:, 2], sine, count), jnp.stack(azimuth, axis=1)

    def tail(self, beta: Float[Array, ""]) -> Float[Array, ""]:
        return sphere_missed(self.kernel, self.degree, beta)


@lru_cache(maxsize=8)
def legendre_fourier(degree: int) -> np.ndarray:
    r"""$B^m_{lk}$, shape (m, l, k): $N_{lm}=\sqrt{(2l+1)(l-m)!/(l+m)!}\,P_{lm}(\cos\theta)$ as a series in k theta.

    The functions are sampled on the whole circle (there sin theta has a sign, which makes odd m odd) by the stable
    recurrence upwards in l, and transformed.
    """
    size = degree + 1
    points = 2 * size + 1
    theta = 2 * np.pi * np.arange(points) / points
    x, s = np.cos(theta), np.sin(theta)
    table = np.zeros((size, size, size))
    diagonal = np.ones(points)
    for m in range(size):
        if m:
            diagonal = diagonal * s * np.sqrt((2 * m + 1) / (2 * m))
        older, old = np.zeros(points), diagonal
        rows = [old]
        for order in range(m + 1, size):
            a = np.sqrt((4 * order**2 - 1) / (order**2 - m**2))
            b = np.sqrt(((order - 1) ** 2 - m**2) / (4 * (order - 1) ** 2 - 1)) if order > 1 else 0.0
            older, old = old, a * (x * old - b * older)
            rows.append(old)
        modes = np.fft.rfft(np.stack(rows), axis=1)[:, :size] / points
        series = modes.real if m % 2 == 0 else -modes.imag
        series[:, 1:] *= 2
        table[m, m:] = series
    return table
