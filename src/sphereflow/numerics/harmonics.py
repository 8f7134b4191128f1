r"""Real spherical harmonics on the sphere in three dimensions, their gradients, and points to integrate over it.

$$Y_{lm}(x)=N_{lm}\frac{d^{m}P_l}{dz^{m}}(x_3)\,\begin{cases}\mathrm{Re}\\\mathrm{Im}\end{cases}(x_1+ix_2)^{m},\qquad
  N_{l0}=1,\quad N_{lm}^2=2\frac{(l-m)!}{(l+m)!},\qquad \sum_mY_{lm}(x)Y_{lm}(y)=P_l(\langle x,y\rangle).$$

With this scaling the harmonics $c_{lm}=\int Y_{lm}d\mu$ of a law have $\sum_mc_{lm}^2=\iint P_l\,d\mu\,d\mu\le1$, and
the density with respect to the uniform law is $\sum_l(2l+1)\sum_mc_{lm}Y_{lm}$.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int


def degrees(degree: int) -> Int[np.ndarray, " N"]:
    """The degree l of each of the $(L+1)^2$ harmonics, in their order."""
    return np.repeat(np.arange(degree + 1), 2 * np.arange(degree + 1) + 1)


def harmonic_values(x: Float[np.ndarray, "*n 3"], degree: int) -> Float[np.ndarray, "*n N"]:
    """Values at unit vectors alone, in the same order."""
    flat = x.reshape(-1, 3)
    slopes, turned = _derivatives(flat[:, 2], degree), flat[:, 0] + 1j * flat[:, 1]
    values, wave = np.empty((len(flat), (degree + 1) ** 2)), np.ones(len(flat), complex)
    for m in range(degree + 1):
        for order in range(m, degree + 1):
            size = math.sqrt((2 if m else 1) * math.factorial(order - m) / math.factorial(order + m))
            height, place = size * slopes[m][order], order**2 + max(2 * m - 1, 0)
            values[:, place] = height * wave.real
            if m:
                values[:, place + 1] = height * wave.imag
        wave = wave * turned
    return values.reshape(*x.shape[:-1], -1)


def harmonics(x: Float[np.ndarray, "n 3"], degree: int) -> tuple[Float[np.ndarray, "n N"], Float[np.ndarray, "n 3 N"]]:
    """Values at unit vectors, and gradients along the sphere; for each l, m = 0, then cosine and sine of m = 1..l."""
    turned, slopes = x[:, 0] + 1j * x[:, 1], _derivatives(x[:, 2], degree)
    gradients = []
    for order in range(degree + 1):
        for m in range(order + 1):
            size = math.sqrt((2 if m else 1) * math.factorial(order - m) / math.factorial(order + m))
            wave, below = turned**m, m * turned ** max(m - 1, 0)
            height, steeper = size * slopes[m][order], size * slopes[m + 1][order]
            gradients.append(np.stack([height * below.real, -height * below.imag, steeper * wave.real], axis=1))
            if m:
                gradients.append(np.stack([height * below.imag, height * below.real, steeper * wave.imag], axis=1))
    along = np.stack(gradients, axis=2)
    along -= x[:, :, None] * np.einsum("na,nak->nk", x, along)[:, None]
    return harmonic_values(x, degree), along


def sphere_points(exact: int) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, " n"]]:
    """Points and weights, of sum 1, that integrate polynomials up to a degree; the second half is minus the first."""
    rings = exact // 2 + 1
    rings += rings % 2
    z, weight = np.polynomial.legendre.leggauss(rings)
    z, weight = z[rings // 2 :], weight[rings // 2 :]
    around = exact + 1 + (exact + 1) % 2
    phi = 2 * np.pi * np.arange(around) / around
    wide = np.sqrt(1 - z**2)[:, None]
    half = np.stack([wide * np.cos(phi), wide * np.sin(phi), z[:, None] + 0 * phi], axis=-1).reshape(-1, 3)
    weights = np.repeat(weight / (2 * around), around)
    return np.concatenate([half, -half]), np.concatenate([weights, weights])


def _derivatives(z: np.ndarray, degree: int) -> list[np.ndarray]:
    """For m = 0..L+1 the derivatives of order m of the Legendre polynomials 0..L."""
    tables = []
    for m in range(degree + 2):
        table = np.zeros((degree + 1, len(z)))
        for order in range(m, degree + 1):
            if order == m:
                table[order] = math.prod(range(1, 2 * m, 2))
            else:
                before = table[order - 2] if order - m >= 2 else 0.0
                table[order] = ((2 * order - 1) * z * table[order - 1] - (order + m - 1) * before) / (order - m)
        tables.append(table)
    return tables
