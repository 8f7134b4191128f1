r"""Laws that are symmetric about one axis, in any dimension: rings at polar angles, an exact reduction.

$$\dot\theta=-v_1\sin\theta\,m_1+v_2\cos\theta\,m_2,\qquad V=\mathrm{diag}(v_1,v_2I),\ B=\mathrm{diag}(b_1,b_2I).$$

A ring at $\theta_j$ seen from $\theta$ has the weight $e^{\beta b_1\cos\theta\cos\theta_j}\kappa^{-\nu}I_\nu(\kappa)$ and
the barycentre $(\cos\theta_j,\frac{I_{\nu+1}}{I_\nu}(\kappa)\sin\theta_j)$, where
$\kappa=\beta b_2\sin\theta\sin\theta_j$ and $\nu=(d-3)/2$. The distance $W_2$ to the law on the equator is the root
mean square latitude, since moving along meridians is optimal. Plain loops in time, nothing shared with the library.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ive

NODES = 100


def speed(theta: np.ndarray, masses: np.ndarray, d: int, beta: float, v: tuple, b: tuple) -> np.ndarray:  # type: ignore[type-arg]
    """The velocity of every ring."""
    nu = (d - 3) / 2
    cos, sin = np.cos(theta), np.sin(theta)
    kappa = beta * b[1] * sin[:, None] * sin[None, :] + 1e-12
    low = ive(nu, kappa)
    log_weight = beta * b[0] * cos[:, None] * cos[None, :] + kappa + np.log(low) - nu * np.log(kappa)
    weight = masses * np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    along, across = weight @ cos, (weight * ive(nu + 1, kappa) / low) @ sin
    return np.asarray(-v[0] * sin * along + v[1] * cos * across)


@lru_cache(maxsize=32)
def run_rings(
    d: int, beta: float, v: tuple[float, float], b: tuple[float, float], tilt: float, last: float, step: float = 0.125
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
