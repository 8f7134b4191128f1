r"""Two tokens at any temperature: their overlap r is a diffusion on [-1, 1].

$$dr=\tfrac1d\big[(d-2+r^2)S-(d-1)rP\big]d\tau+\sqrt{\tfrac2d(1-r^2)(P-rS)}\,dB,\qquad P=r+(1-r)f,\quad S=r+(1-r)g,$$

$f=E[\mathrm{sig}(\delta_1)^2+\mathrm{sig}(-\delta_1)^2]$, $g=E[\mathrm{sig}(\delta_1)\mathrm{sig}(\delta_2)+
\mathrm{sig}(-\delta_1)\mathrm{sig}(-\delta_2)]$; for large d $(\delta_1,\delta_2)$ is Gaussian with variance
$2(1-r)s^2$ and correlation r. Both coefficients vanish suitably at $\pm1$, so expectations solve the backward equation
by collocation at Chebyshev points without boundary conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.chebyshev import chebyshev, interpolation
from sphereflow.numerics.overlaps import overlap_drift, overlap_variance
from sphereflow.reading import real_array

_HERMITE = 80


def pair_moments(
    r: Float[np.ndarray, "..."] | float, s: float
) -> tuple[Float[np.ndarray, "..."] | float, Float[np.ndarray, "..."] | float]:
    """(f, g) of two tokens in high dimension, by Gauss-Hermite quadrature; closed forms at s = 0 and infinity."""
    c = np.asarray(r, dtype=float)
    if s == 0:
        return np.full(c.shape, 0.5), np.full(c.shape, 0.5)
    if math.isinf(s):
        return np.ones(c.shape), 0.5 + np.arcsin(np.clip(c, -1, 1)) / np.pi
    real_number("s", s, above=0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE)
    weights = weights / weights.sum()
    size = s * np.sqrt(2 * (1 - c))[..., None, None]
    first = size * nodes[:, None]
    second = size * (c[..., None, None] * nodes[:, None] + np.sqrt(np.clip(1 - c * c, 0, 1))[..., None, None] * nodes)
    one, other = special.expit(first), special.expit(second)
    both = weights[:, None] * weights
    f = np.sum(both * (one**2 + (1 - one) ** 2), axis=(-2, -1))
    g = np.sum(both * (one * other + (1 - one) * (1 - other)), axis=(-2, -1))
    return f, g


def pair_drift(r: Float[np.ndarray, "..."] | float, d: float, s: float) -> Float[np.ndarray, "..."] | float:
    """Drift of the overlap of two tokens per unit of tau."""
    c, own, shared = _means(r, s)
    return overlap_drift(c, shared, own, d) / d


def pair_variance_rate(r: Float[np.ndarray, "..."] | float, d: float, s: float) -> Float[np.ndarray, "..."] | float:
    """Variance of the overlap of two tokens per unit of tau."""
    c, own, shared = _means(r, s)
    return overlap_variance(c, shared, own) / d


def _means(r: Float[np.ndarray, "..."] | float, s: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    c = real_array("r", r)
    if np.any(np.abs(c) > 1):
        raise SphereflowError(f"r must be overlaps, from -1 to 1, got {c.flat[np.abs(c).argmax()]:g}.")
    f, g = pair_moments(c, s)
    return c, np.asarray(c + (1 - c) * f), np.asarray(c + (1 - c) * g)


def pair_expectation(
    observable: Callable[[np.ndarray], np.ndarray], start: float, tau: float, d: int, s: float, *, points: int = 64
) -> float:
    r"""$E[\varphi(r(\tau))\,|\,r(0)=r_0]$ from the generator $D\partial_r+\tfrac12Q\partial_r^2$."""
    # 64 points give nine digits; the finite differences of `numerics.backward` give four with 1600 cells.
    real_number("start", start, least=-1, most=1)
    real_number("tau", tau, least=0)
    whole_number("d", d, least=2)
    nodes, derivative = chebyshev(whole_number("points", points, least=4))
    generator = np.asarray(pair_drift(nodes, d, s))[:, None] * derivative
    generator = generator + np.asarray(pair_variance_rate(nodes, d, s))[:, None] / 2 * (derivative @ derivative)
    at_nodes = real_array("the values of observable", observable(nodes))
    values = linalg.expm(tau * generator) @ np.broadcast_to(at_nodes, nodes.shape)
    return float(interpolation(nodes, np.array([float(start)]))[0] @ values)


def network_expectation(
    observable: Callable[[np.ndarray], np.ndarray],
    start: float,
    layers: int,
    step: float,
    d: int,
    heads: int = 1,
    *,
    points: int = 40,
) -> float:
    r"""$E\varphi(r_L)$ of the network with two tokens at beta = 0, by quadrature instead of sampling.

    At beta = 0 both tokens add the same $\delta\sim N(0,\sigma^2I)$, $\sigma^2=\frac{\eta^2}{Hd}\frac{1+r}2$: three
    numbers matter, its parts along $x_1+x_2$ and $x_1-x_2$ and the length of the rest.
    """
    whole_number("d", d, least=3)
    nodes, _ = chebyshev(points)
    z, wz = np.polynomial.hermite_e.hermegauss(24)
    q, wq = special.roots_genlaguerre(16, (d - 2) / 2 - 1)
    wz, wq = wz / wz.sum(), wq / wq.sum()
    a, b, rest = z[:, None, None], z[None, :, None], 2 * q[None, None, :]
    weight = (wz[:, None, None] * wz[None, :, None] * wq[None, None, :]).ravel()
    operator = np.empty((points + 1, points + 1))
    for row, r in enumerate(nodes):
        sigma = step * np.sqrt((1 + r) / (2 * heads * d))
        along, across = np.sqrt((1 + r) / 2) + sigma * a, sigma * b
        half = np.sqrt((1 - r) / 2)
        far = sigma**2 * rest
        inner = along**2 + (across + half) * (across - half) + far
        lengths = (along**2 + (across + half) ** 2 + far) * (along**2 + (across - half) ** 2 + far)
        # At r = -1 the mean vanishes and nothing moves.
        arrived = np.broadcast_to(inner / np.sqrt(lengths), (len(z), len(z), len(q))).ravel()
        operator[row] = weight @ interpolation(nodes, np.clip(arrived, -1, 1))
    values = observable(nodes)
    for _ in range(layers):
        values = operator @ values
    return float(interpolation(nodes, np.array([start]))[0] @ values)
