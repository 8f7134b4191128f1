r"""Equiangular tokens: one overlap gamma for all pairs, on the diffusive clock tau.

$$\dot\gamma=D(\gamma)=\frac{(d-2+\gamma^2)S-(d-1)\gamma P}{d},\qquad P=\gamma+(1-\gamma)f,\quad S=\gamma+(1-\gamma)g,$$

and for $d=\infty$ the published form $b(\gamma)=S-\gamma P=(1-\gamma)(\gamma+g-\gamma f)$. At $s=0$ the mean
$m=(1+(n-1)\gamma)/n$ solves $\dot u=u(1-u)$ exactly. The overlaps of a network fluctuate around these curves by
$O(d^{-1/2})$, and as D is not linear their mean lags behind by $O(1/d)$.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from sphereflow.errors import SphereflowError, real_number
from sphereflow.numerics.quadrature import interval
from sphereflow.random_transformers.softmax_moments import Moments, moments
from sphereflow.shapes import AnyArray

# Enough for eight digits between the overlaps 0 and 0.9 up to n = 128 (compared with adaptive quadrature).
_GAUSS_NODES = 24


def drift(
    gamma: Float[AnyArray, "..."] | float, n: int, s: float, d: float = math.inf
) -> Float[np.ndarray, "..."] | float:
    """D(gamma) in dimension d; the published b(gamma) for d infinite."""
    return _drift(np.asarray(gamma, dtype=float), moments(n, s), d)


def _drift(gamma: Float[np.ndarray, "..."] | float, known: Moments, d: float) -> Float[np.ndarray, "..."] | float:
    f, g = known.f(gamma), known.g(gamma)
    # 1 - gamma is a factor of the leading part: written out, so that it does not come from a cancellation.
    leading = (1 - gamma) * (gamma + g - gamma * f)
    if math.isinf(d):
        return leading
    own, shared = gamma + (1 - gamma) * f, gamma + (1 - gamma) * g
    return leading + (gamma * own - (2 - gamma**2) * shared) / d


def overlap_path(
    times: Float[AnyArray, " T"], n: int, s: float, d: float = math.inf, start: float = 0.0
) -> Float[np.ndarray, " T"]:
    """gamma at the given tau, from `start` at tau = 0."""
    real_number("start", start, least=-1.0, most=1.0)
    if start <= -1 / (n - 1):
        raise SphereflowError(f"{n} tokens cannot all have overlap {start:g}: it must be above -1/(n-1).")
    known = _any_overlap(n, s, start)
    t = np.asarray(times, dtype=float)
    solution = solve_ivp(
        lambda _, y: _drift(np.clip(y, -1, 1), known, d),
        (0, max(float(t.max()), 1e-12)),
        [start],
        t_eval=np.unique(t),
        rtol=1e-9,
        atol=1e-11,
        method="LSODA",
    )
    return np.interp(t, solution.t, solution.y[0])


def _any_overlap(n: int, s: float, start: float) -> Moments:
    if start < 0 and s > 0:
        raise SphereflowError("negative initial overlaps are supported at s = 0 only.")
    return moments(n, s)


def time_between(first: float, last: float, n: int, s: float, d: float = math.inf) -> float:
    r"""Diffusive time from overlap `first` to `last`: $\int d\gamma/D(\gamma)$."""
    # In the variable log(m/(1-m)) the integrand is constant at s = 0, and smooth at every temperature.
    low, high = (float(np.log(m / (1 - m))) for m in (mean_overlap(first, n), mean_overlap(last, n)))
    logit, weights = interval(low, high, _GAUSS_NODES)
    m = 1 / (1 + np.exp(-logit))
    gamma = (n * m - 1) / (n - 1)
    speed = drift(gamma, n, s, d)
    if np.any(speed <= 0):
        raise SphereflowError(f"the overlap never reaches {last:g}: the drift vanishes before, for d={d:g}, n={n}.")
    return float(np.sum(weights * m * (1 - m) / speed) * n / (n - 1))


def logistic(times: Float[AnyArray, " T"], start: float) -> Float[np.ndarray, " T"]:
    r"""$u=u_0/(u_0+(1-u_0)e^{-\tau})$, the solution of $\dot u=u(1-u)$."""
    return start / (start + (1 - start) * np.exp(-np.asarray(times, dtype=float)))


def mean_overlap(gamma: Float[AnyArray, "..."] | float, n: int) -> Float[np.ndarray, "..."] | float:
    r"""$m=n^{-2}\sum_{ij}R_{ij}=(1+(n-1)\gamma)/n$."""
    return (1 + (n - 1) * np.asarray(gamma, dtype=float)) / n
