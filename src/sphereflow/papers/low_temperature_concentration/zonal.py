r"""Laws that are symmetric about one axis, in three and four dimensions: rings at polar angles, an exact reduction.

$$\dot\theta=-v_1\sin\theta\,m_1+v_2\cos\theta\,m_2,\qquad V=\mathrm{diag}(v_1,v_2I),\ B=\mathrm{diag}(b_1,b_2I).$$

A ring at $\theta_j$ seen from $\theta$ has the weight $e^{\beta b_1\cos\theta\cos\theta_j}\kappa^{-\nu}I_\nu(\kappa)$
and the barycentre $(\cos\theta_j,\frac{I_{\nu+1}}{I_\nu}(\kappa)\sin\theta_j)$, where
$\kappa=\beta b_2\sin\theta\sin\theta_j$ and $\nu=(d-3)/2$. The distance $W_2$ to the law on the equator is the root
mean square latitude, since moving along meridians is optimal. Plain loops in time, nothing shared with the library.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import i0e, i1e

NODES = 72


Pair = tuple[float, float]


def ring(d: int, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""$(\ln\kappa^{-\nu}I_\nu(\kappa)+\mathrm{const},\ I_{\nu+1}/I_\nu)$ for three and four dimensions."""
    if d == 3:
        low = i0e(kappa)
        return kappa + np.log(low), i1e(kappa) / low
    small = kappa < 1e-3
    safe = np.where(small, 1.0, kappa)
    # sinh(kappa)/kappa and coth(kappa) - 1/kappa.
    log_weight = np.where(small, kappa**2 / 6, safe + np.log(-np.expm1(-2 * safe) / (2 * safe)))
    return log_weight, np.where(small, kappa / 3, 1 / np.tanh(safe) - 1 / safe)


def speed(theta: np.ndarray, masses: np.ndarray, d: int, beta: float, v: Pair, b: Pair) -> np.ndarray:
    """The velocity of every ring."""
    cos, sin = np.cos(theta), np.sin(theta)
    log_weight, shrunk = ring(d, beta * b[1] * sin[:, None] * sin[None, :])
    log_weight = log_weight + beta * b[0] * cos[:, None] * cos[None, :]
    weight = masses * np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    along, across = weight @ cos, (weight * shrunk) @ sin
    return np.asarray(-v[0] * sin * along + v[1] * cos * across)


@lru_cache(maxsize=32)
def run_rings(
    d: int, beta: float, v: Pair, b: Pair, tilt: float, last: float, step: float = 0.25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(times, polar angles, masses) from the density 1 + tilt cos(theta), by Runge-Kutta steps of fourth order."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    theta = np.pi * (nodes + 1) / 2
    masses = weights * np.sin(theta) ** (d - 2) * (1 + tilt * np.cos(theta))
    masses /= masses.sum()
    path = [theta]
    for _ in range(round(last / step)):
        k1 = speed(theta, masses, d, beta, v, b)
        k2 = speed(theta + step / 2 * k1, masses, d, beta, v, b)
        k3 = speed(theta + step / 2 * k2, masses, d, beta, v, b)
        k4 = speed(theta + step * k3, masses, d, beta, v, b)
        theta = theta + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(theta)
    return step * np.arange(len(path)), np.stack(path), masses


def to_equator(path: np.ndarray, masses: np.ndarray) -> np.ndarray:
    r"""$W_2$ to the law on the equator, at every time."""
    return np.asarray(np.sqrt((path - np.pi / 2) ** 2 @ masses))
