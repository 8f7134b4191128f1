r"""Tokens with equal inner products: the whole evolution is one scalar equation.

If $\langle x_i,x_j\rangle=\gamma$ for all $i\ne j$ at the start, it stays so, and

$$\dot\gamma = \frac{2(1-\gamma)((n-1)\gamma+1)}{e^{\beta(1-\gamma)}+n-1}\ \text{(SA)},\qquad
  \dot\gamma = \frac{2}{n}\,e^{\beta\gamma}(1-\gamma)((n-1)\gamma+1)\ \text{(USA, raw kernel)}.$$

With $u=-\log(1-\gamma)$ the right-hand sides become smooth up to collapse.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.evolution.equiangular import collapse_time as collapse_time
from sphereflow.evolution.equiangular import log_collapse_time as log_collapse_time
from sphereflow.evolution.equiangular import log_gap_speed
from sphereflow.papers.mathematical_perspective.particles import Model


def log_gap(times: np.ndarray, n: int, beta: float, model: Model, gamma0: float = 0.0) -> np.ndarray:
    r"""$-\log(1-\gamma(t))$ at increasing times, from $\gamma(0)=\gamma_0$."""
    times = np.asarray(times, dtype=float)
    solution = solve_ivp(
        lambda t, u: log_gap_speed(u, n, beta, model),
        (0.0, float(times[-1])),
        [-np.log1p(-gamma0)],
        method="DOP853",
        t_eval=times,
        rtol=1e-13,
        atol=1e-13,
    )
    return solution.y[0]


def gamma(times: np.ndarray, n: int, beta: float, model: Model, gamma0: float = 0.0) -> np.ndarray:
    r"""$\gamma_\beta(t)$: the common inner product."""
    return -np.expm1(-log_gap(times, n, beta, model, gamma0))


def kuramoto_gamma(times: np.ndarray, n: int) -> np.ndarray:
    r"""The closed form at $\beta=0$: $\gamma(t)=(e^{2t}-1)/(e^{2t}+n-1)$."""
    grown = np.expm1(2 * np.asarray(times, dtype=float))
    return grown / (grown + n)


def layer_gamma(n: int, beta: float, step: float, layers: int) -> np.ndarray:
    r"""The common inner product after 0, 1, ... layers of the discrete network, by a scalar recursion.

    With softmax weights $w_1$ (self) and $w_2$ (each other token), $y_i=(1+hw_1)x_i+hw_2\sum_{j\ne i}x_j$ and
    $\gamma\mapsto\langle y_i,y_j\rangle/|y_i|^2$.
    """
    values = np.zeros(layers + 1)
    for k in range(layers):
        g = values[k]
        other = 1 / (np.exp(beta * (1 - g)) + n - 1)
        own = 1 - (n - 1) * other
        a, b = 1 + step * own, step * other
        square = a**2 + 2 * a * b * (n - 1) * g + b**2 * (n - 1) * (1 + (n - 2) * g)
        inner = a**2 * g + 2 * a * b * (1 + (n - 2) * g) + b**2 * ((n - 2) + ((n - 1) ** 2 - (n - 2)) * g)
        values[k + 1] = inner / square
    return values
