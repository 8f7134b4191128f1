r"""The Kac-Rice density of modes with the Edgeworth expansion of the joint law of slope and curvature.

With $u=-\sqrt n\,m_1/\sqrt{S_{11}}$, $b=S_{12}/S_{11}$, $v=S_{22}-S_{12}^2/S_{11}$, $r=\sqrt n(m_2-bm_1)/\sqrt v$ and
the joint cumulants $\lambda_{ij}$ of the whitened pair,

$$\rho_E(t)=\sqrt{\tfrac v{S_{11}}}\,\phi(u)\Big[I_0+\sum_{i+j=3,4}\frac{\lambda_{ij}}{i!j!}He_i(u)I_j
  +\frac12\sum_{i+j=3}\sum_{p+q=3}\frac{\lambda_{ij}\lambda_{pq}}{i!j!p!q!}He_{i+p}(u)I_{j+q}\Big],$$
$$I_0=r\Phi(r)+\phi(r),\quad I_1=\Phi(r),\quad I_j=(-1)^jHe_{j-2}(r)\phi(r)\ (j\ge2).$$

Order 2 is the Gaussian density. Order 3 is smaller by the root of the samples per bandwidth x, order 4 by x: the
expansion is good from about x = 1 on. It matters where the slope of the true density competes with the noise, at the
inner side of the belt.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from sphereflow.errors import SphereflowError
from sphereflow.modes.moments import Density, normal_moments
from sphereflow.modes.sparse import DENSE_RATE, sparse_rate
from sphereflow.reading import density_values

_NODES = 128
# Below this many samples per bandwidth the expansion is left; above, the sparse rate is 1 - SATURATION / x.
FEWEST, SATURATION = 0.3, 0.00201
# Below this every sample is alone, and the slope of the true density does not matter.
_ISOLATED = 0.02

Table = dict[tuple[int, int], np.ndarray]


def raw_moments(t: np.ndarray, beta: float, density: Density | None = None) -> Table:
    """E[G^i G'^j] over B^{(i+j)/2} for i + j up to 4; B is the scale of second moments of normal samples, or 1."""
    return _normal(t, beta) if density is None else _any(t, beta, density)


def cumulants(t: np.ndarray, beta: float, density: Density | None = None) -> Table:
    """Joint cumulants of (G, G') of one sample, orders 1 to 4, over the same scale."""
    raw = raw_moments(t, beta, density)
    m1, m2 = raw[1, 0], raw[0, 1]

    def centred(i: int, j: int) -> np.ndarray:
        total = np.zeros_like(m1)
        for a in range(i + 1):
            for b in range(j + 1):
                sign = (-m1) ** (i - a) * (-m2) ** (j - b)
                total = total + math.comb(i, a) * math.comb(j, b) * raw[a, b] * sign
        return total

    c = {(i, j): centred(i, j) for i in range(5) for j in range(5 - i) if i + j >= 2}
    table = {(1, 0): m1, (0, 1): m2} | {key: value for key, value in c.items() if sum(key) < 4}
    table[4, 0] = c[4, 0] - 3 * c[2, 0] ** 2
    table[3, 1] = c[3, 1] - 3 * c[2, 0] * c[1, 1]
    table[2, 2] = c[2, 2] - c[2, 0] * c[0, 2] - 2 * c[1, 1] ** 2
    table[1, 3] = c[1, 3] - 3 * c[0, 2] * c[1, 1]
    table[0, 4] = c[0, 4] - 3 * c[0, 2] ** 2
    return table


def density_of_modes(t: np.ndarray, n: float, beta: float, order: int, density: Density | None = None) -> np.ndarray:
    """rho_E at checked arguments; it can be negative where samples are sparse."""
    shape, t = np.shape(t), np.ravel(t)  # numpy turns arrays without axes into numbers
    k = cumulants(t, beta, density)
    s11, s12 = k[2, 0], k[1, 1]
    b, v = s12 / s11, k[0, 2] - s12**2 / s11

    def whitened(i: int, j: int) -> np.ndarray:
        mixed = sum(math.comb(j, a) * (-b) ** a * k[i + a, j - a] for a in range(j + 1))
        return np.asarray(n ** (1 - (i + j) / 2) * s11 ** (-i / 2) * v ** (-j / 2) * mixed)

    u = -math.sqrt(n) * k[1, 0] / np.sqrt(s11)
    r = math.sqrt(n) * (k[0, 1] - b * k[1, 0]) / np.sqrt(v)
    he_u, he_r = _hermite(u, 6), _hermite(r, 4)
    bell = norm.pdf(r)
    parts = [r * ndtr(r) + bell, ndtr(r)] + [(-1) ** j * he_r[j - 2] * bell for j in range(2, 7)]
    total = parts[0]
    thirds = {(i, 3 - i): whitened(i, 3 - i) / (math.factorial(i) * math.factorial(3 - i)) for i in range(4)}
    if order >= 3:
        total = total + sum(value * he_u[i] * parts[j] for (i, j), value in thirds.items())
    if order >= 4:
        for i in range(5):
            weight = math.factorial(i) * math.factorial(4 - i)
            total = total + whitened(i, 4 - i) / weight * he_u[i] * parts[4 - i]
        for (i, j), first in thirds.items():
            for (p, q), second in thirds.items():
                total = total + first * second / 2 * he_u[i + p] * parts[j + q]
    with np.errstate(under="ignore"):
        return np.reshape(np.sqrt(v / s11) * norm.pdf(u) * total, shape)


def samples_in_bandwidth(t: np.ndarray, n: float, beta: float, density: Density | None = None) -> np.ndarray:
    """How many samples are expected in a bandwidth at t, for smoothed standard normal samples or a density."""
    if density is not None:
        return np.asarray(n * density_values("density", density, t, zero=True) / math.sqrt(beta))
    s2 = 1 / (2 * beta + 1)
    return np.asarray(n * math.sqrt(s2 / math.pi) * np.exp(-beta * t**2 * s2))


def uniform(t: np.ndarray, n: float, beta: float, density: Density | None = None) -> np.ndarray:
    """The expansion where samples are dense, joined to the rate of sparse samples: good on the whole line."""
    x = samples_in_bandwidth(t, n, beta, density)
    rate = sparse_rate(x) / DENSE_RATE
    dense = x > FEWEST
    safe = np.where(dense, x, 1.0)
    corrected = density_of_modes(t, n, beta, 4, density) / (1 - SATURATION / safe)
    plain = np.where(x > _ISOLATED, density_of_modes(t, n, beta, 2, density), math.sqrt(beta) * DENSE_RATE)
    return np.asarray(np.maximum(np.where(dense, corrected, plain), 0.0) * rate)


def checked_order(order: int) -> int:
    """The order of the expansion, refused unless 2, 3 or 4."""
    if order not in (2, 3, 4):
        raise SphereflowError(f"order must be 2 (Gaussian), 3 or 4, got {order}.")
    return order


def _hermite(x: np.ndarray, most: int) -> list[np.ndarray]:
    polynomials = [np.ones_like(x), x]
    for k in range(1, most):
        polynomials.append(x * polynomials[k] - k * polynomials[k - 1])
    return polynomials


def _normal(t: np.ndarray, beta: float) -> Table:
    s2 = 1 / (2 * beta + 1)
    table: Table = {(0, 0): np.ones_like(t)}
    for k in range(1, 5):
        s = 1 / (k * beta + 1)
        c = t * s
        # A_k over B^{k/2}: the exponents are subtracted by hand, s2 - s_k = (k - 2) beta s2 s_k.
        with np.errstate(over="ignore"):
            scale = math.sqrt(s) * s2 ** (-k / 4) * np.exp(k * (k - 2) * (beta * t) ** 2 * s2 * s / 2)
        powers = [np.ones_like(t), c]
        for q in range(2, 9):
            powers.append(c * powers[q - 1] + (q - 1) * s * powers[q - 2])
        for j in range(k + 1):
            i = k - j
            terms = [math.comb(j, a) * (-beta) ** a * powers[i + 2 * a] for a in range(j + 1)]
            table[i, j] = scale * sum(terms)
    # The mean curvature is a small difference: from its closed form.
    once = normal_moments(t, beta)
    table[1, 0], table[0, 1] = np.asarray(once.mean), np.asarray(once.mean_slope)
    return table


def _any(t: np.ndarray, beta: float, density: Density) -> Table:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    h = beta**-0.5
    table: Table = {(0, 0): np.ones_like(t)}
    for k in range(1, 5):
        u = nodes / math.sqrt(k)
        mass = weights * density_values("density", density, t[..., None] - u * h, zero=True) * h / math.sqrt(k)
        for j in range(k + 1):
            table[k - j, j] = np.sum(mass * (u * h) ** (k - j) * (1 - u**2) ** j, axis=-1)
    return table
