r"""Flows on the sphere in closed form: the drift, the gate, and rank-one attention.

Along the great circle through x and a unit vector $\omega$, with $\vartheta$ the angle from $\omega$ and
$y=\ln\tan(\vartheta/2)$,

$$\dot x = g(x)\,P_x^\perp\omega \iff \dot y = -g, \qquad x = -\tanh(y)\,\omega + \operatorname{sech}(y)\,e .$$

- drift, $g=1$: $y(t) = y_0 - t$ (a Moebius map of the sphere);
- gate, $g=(\langle a,x\rangle+\beta)_+$: the travel time between two angles is elementary, and the map inverts it;
- rank-one attention $V=\alpha\alpha^\top$, B = 0: every particle of a measure drifts along $\alpha$ by one and the same
  $\tau(t)$, $\dot\tau=\sum_i w_i\tanh(\tau-y_i)$.

A gate that is zero stays zero, so a particle is either moved by a piece or left exactly where it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from scipy.integrate import quad, solve_ivp

from sphereflow.numerics.roots import increasing_roots

# At y = -60 a particle is within 2e-26 of omega: float64 cannot tell it from omega.
_POLE = 60.0
# A gate that touches zero at omega or -omega to within this is integrated numerically.
_SINGULAR = 1e-6
# Below this the mean of a measure along alpha is rounding, and the measure rests (an unstable equilibrium).
RESTING = 1e-14
_TIGHT = 2.5e-14  # relative; the smallest that DOP853 takes
_MANY = 2000  # particles from which on the mean of a measure is interpolated
_NODES = chebyshev.chebpts1(32)


def polar(
    x: Float[np.ndarray, "n d"], omega: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n d"]]:
    r"""$y=\ln(|x-\omega|/|x+\omega|)$ and the unit tangent e at $\omega$ towards x (zero at the poles)."""
    near, far = np.linalg.norm(x - omega, axis=1), np.linalg.norm(x + omega, axis=1)
    with np.errstate(divide="ignore"):
        y = np.clip(np.log(near) - np.log(far), -_POLE, _POLE)
    e = x - np.outer(x @ omega, omega)
    e -= np.outer(e @ omega, omega)  # close to a pole the first difference leaves rounding along omega
    length = np.linalg.norm(e, axis=1, keepdims=True)
    return y, np.divide(e, length, out=np.zeros_like(e), where=length > 0)


def placed(
    y: Float[np.ndarray, " n"], e: Float[np.ndarray, "n d"], omega: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """The point at polar coordinates (y, e) about omega."""
    return np.outer(-np.tanh(y), omega) + e / np.cosh(y)[:, None]


def log_tan_half_angle(angle: float) -> float:
    r"""$y=\ln\tan(\vartheta/2)$ of an angle."""
    return float(np.log(np.tan(angle / 2)))


def drift(
    x: Float[np.ndarray, "n d"], omega: Float[np.ndarray, " d"], tau: Float[np.ndarray, " n"] | float
) -> Float[np.ndarray, "n d"]:
    r"""$\dot x = P_x^\perp\omega$ for time tau: $\langle x(\tau),\omega\rangle=\tanh(\tau+\mathrm{artanh}\,u)$."""
    y, e = polar(x, omega)
    return placed(y - tau, e, omega)


def gate_value(x: Float[np.ndarray, "n d"], a: Float[np.ndarray, " d"], beta: float) -> Float[np.ndarray, " n"]:
    r"""$\langle a,x\rangle+\beta$: particles move where this is positive."""
    return x @ a + beta


def gate(
    x: Float[np.ndarray, "n d"],
    a: Float[np.ndarray, " d"],
    beta: float,
    omega: Float[np.ndarray, " d"],
    t: float,
) -> Float[np.ndarray, "n d"]:
    r"""$\dot x = (\langle a,x\rangle+\beta)_+P_x^\perp\omega$ for time t; particles outside the gate are untouched."""
    active = gate_value(x, a, beta) > 0
    moved = x.copy()
    if t > 0 and active.any():
        y, e = polar(x[active], omega)
        moved[active] = placed(_gate_heights(y, e @ a, float(a @ omega), beta, t), e, omega)
    return moved


def gate_times(
    x: Float[np.ndarray, "n d"],
    a: Float[np.ndarray, " d"],
    beta: float,
    omega: Float[np.ndarray, " d"],
    angle: float,
) -> Float[np.ndarray, " n"]:
    """Time each particle needs to come within `angle` of omega: 0 if it is there, infinite if it never comes."""
    y, e = polar(x, omega)
    goal = log_tan_half_angle(angle)
    active, away = gate_value(x, a, beta) > 0, y > goal
    times = np.where(away, np.inf, 0.0)
    going = active & away
    if going.any():
        A, B = float(a @ omega), e[going] @ a
        reached = _rims(y[going], B, A, beta) < goal
        spent = np.full(len(B), np.inf)
        for_these = reached.nonzero()[0]
        spent[for_these] = _time_to(goal, y[going][for_these], B[for_these], A, beta)
        times[going] = spent
    return times


def _time_to(goal: float, y: np.ndarray, B: np.ndarray, A: float, beta: float) -> np.ndarray:
    if not _singular(B, A, beta):
        return _travel(y, np.full(len(y), goal), B, A, beta)
    slow = [
        quad(lambda z, b=b: float(1 / _slope(z, b, A, beta)), goal, high, epsabs=0, epsrel=1e-12, limit=200)[0]
        for high, b in zip(y.tolist(), B.tolist(), strict=True)
    ]
    return np.array(slow)


def _slope(y: np.ndarray, B: np.ndarray, A: float, beta: float) -> np.ndarray:
    """The gate along the great circle, A cos + B sin + beta."""
    return -A * np.tanh(y) + B / np.cosh(y) + beta


def _rims(y: np.ndarray, B: np.ndarray, A: float, beta: float) -> np.ndarray:
    r"""Height of the nearest zero of the gate between the particle and omega: it is never crossed; -inf if none.

    Zeros are at the angles $\varphi\pm\arccos(-\beta/R)$ with $(A,B)=R(\cos\varphi,\sin\varphi)$.
    """
    R, phi = np.hypot(A, B), np.arctan2(B, A)
    half = np.arccos(np.clip(-beta / np.maximum(R, 1e-300), -1, 1))
    start = 2 * np.arctan(np.exp(y))
    nearest = np.full(len(y), -np.inf)
    for zero in (phi - half, phi + half, phi - half + 2 * np.pi):
        inside = (abs(beta) < R) & (zero > 0) & (zero < start)
        with np.errstate(divide="ignore", invalid="ignore"):
            nearest = np.where(inside, np.maximum(nearest, np.log(np.tan(np.clip(zero, 0, np.pi) / 2))), nearest)
    return nearest


def _travel(y0: np.ndarray, y1: np.ndarray, B: np.ndarray, A: float, beta: float) -> np.ndarray:
    r"""$\int_{y_1}^{y_0}dy/g$ with $u=e^y$, $p=\beta-A$, $s=\beta+A$, $q(u)=pu^2+2Bu+s$, $D=B^2-ps$:

    $$t=\tfrac1s\Big[y_0-y_1+\tfrac Ap\ln\tfrac{q(u_0)}{q(u_1)}-\tfrac{2B\beta}p(J(u_0)-J(u_1))\Big],\; J=\int du/q .$$

    With real roots, $q=(\sigma u+\kappa)v$ for $r=\sqrt D$, $\sigma=\operatorname{sign}B$, $h=1/(|B|+r)$, $\kappa=sh$,
    $v=\sigma pu+|B|+r$, and nothing is divided by p or s except logarithms that vanish with them:

    $$t=\tfrac1s\ln\tfrac{u_0(\sigma u_1+\kappa)}{u_1(\sigma u_0+\kappa)}-\tfrac{\beta h}r\ln\tfrac{\sigma u_0+\kappa}
    {\sigma u_1+\kappa}+\tfrac{|B|-Ahp}{pr}\ln\tfrac{v_0}{v_1}.$$
    """
    p, s = np.float64(beta - A), np.float64(beta + A)
    D = B**2 - p * s
    r = np.sqrt(np.abs(D))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u0, u1, step = np.exp(y0), np.exp(y1), np.exp(y0) - np.exp(y1)
        sigma, h = np.where(B < 0, -1.0, 1.0), 1 / (np.abs(B) + r)
        outer0, outer1 = sigma * u0 + s * h, sigma * u1 + s * h
        rooted = _log_over(s, h * step / (u1 * outer0)) - beta * h / r * np.log(outer0 / outer1)
        rooted += (np.abs(B) - A * h * p) / r * _log_over(p, sigma * step / (sigma * p * u1 + np.abs(B) + r))
        ratio = np.log(_slope(y0, B, A, beta) / _slope(y1, B, A, beta))
        ratio += np.logaddexp(0, 2 * y0) - np.logaddexp(0, 2 * y1)
        w0, w1 = p * u0 + B, p * u1 + B
        touching = np.where(D > 0, np.log1p(2 * r * p * step / ((w0 + r) * (w1 - r))) / (2 * r), p * step / (w0 * w1))
        J = np.where(D < 0, np.arctan2(r * p * step, r**2 + w0 * w1) / r, touching)
        smooth = (y0 - y1 + (A / p) * ratio - (2 * B * beta / p) * J) / s
        time = np.where(_rooted(D, B), rooted, smooth)
    return np.where(np.isnan(time), np.inf, np.maximum(time, 0.0))


def _log_over(c: np.float64, x: np.ndarray) -> np.ndarray:
    """ln(1 + c x) / c, which is x where c is zero."""
    return x if c == 0 else np.log1p(c * x) / c


def _rooted(D: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Whether q has two real roots well apart."""
    return D / np.maximum(B**2, 1e-6) > 1e-6


def _singular(B: np.ndarray, A: float, beta: float) -> bool:
    """Whether the gate vanishes at omega or -omega and touches zero there: no closed form is accurate."""
    p, s = beta - A, beta + A
    return min(abs(p), abs(s)) < _SINGULAR and not _rooted(B**2 - p * s, B).all()


def _gate_heights(y0: np.ndarray, B: np.ndarray, A: float, beta: float, t: float) -> np.ndarray:
    """The height after time t: the root of travel(y0, y) = t."""
    if _singular(B, A, beta):
        solved = solve_ivp(
            lambda _, y: -np.maximum(_slope(y, B, A, beta), 0), (0, t), y0, method="DOP853", rtol=_TIGHT, atol=1e-15
        )
        return np.clip(solved.y[:, -1], -_POLE, _POLE)
    fastest = np.hypot(A, B) + beta
    low = np.maximum(np.maximum(_rims(y0, B, A, beta), y0 - t * fastest), -_POLE)
    there = (low == -_POLE) & (_travel(y0, low, B, A, beta) <= t)  # at omega, to all digits
    high = np.where(there, low, y0)
    y = np.maximum(y0 - t * np.maximum(_slope(y0, B, A, beta), 0), (low + high) / 2)
    y = np.minimum(y, high)

    def early(y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        left = t - _travel(y0[rows], y, B[rows], A, beta)
        slope = _slope(y, B[rows], A, beta)
        with np.errstate(invalid="ignore"):
            return left, left * slope, 2e-15 * (np.maximum(np.abs(y), 1) + t * np.abs(slope))

    return increasing_roots(early, low, high, y)


def attention_shift(y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"], sign: float, t: float) -> float:
    r"""$\tau(t)$ of $\dot\tau=\pm\sum_iw_i\tanh(\tau-y_i)$: how far rank-one attention carries a measure."""
    if abs(weights @ np.tanh(-y)) < RESTING:
        return 0.0
    mean = _direct_mean(y, weights) if len(y) < _MANY else _interpolated_mean(y, weights)
    solved = solve_ivp(
        lambda _, tau: np.array([sign * mean(float(tau[0]))]), (0, t), [0.0], method="DOP853", rtol=_TIGHT, atol=1e-15
    )
    return float(solved.y[0, -1])


def _direct_mean(y: np.ndarray, weights: np.ndarray) -> Callable[[float], float]:
    return lambda tau: float(weights @ np.tanh(tau - y))


def _interpolated_mean(y: np.ndarray, weights: np.ndarray) -> Callable[[float], float]:
    r"""The mean of $\tanh(\tau-y)$ from its values at Chebyshev points of panels of length 2, made when first needed.

    The poles are $\pi/2$ away from the real line, so that the error falls like $3.4^{-k}$ with k points: rounding.
    """
    panels: dict[int, np.ndarray] = {}

    def mean(tau: float) -> float:
        panel = int(np.floor(tau / 2))
        if panel not in panels:
            values = [weights @ np.tanh(2 * panel + 1 + node - y) for node in _NODES]
            panels[panel] = chebyshev.chebfit(_NODES, values, len(_NODES) - 1)
        return float(chebyshev.chebval(tau - 2 * panel - 1, panels[panel]))

    return mean


def cap_times(y: Float[np.ndarray, "..."], level: Float[np.ndarray, "..."], angle: float) -> Float[np.ndarray, "..."]:
    r"""Time to come within `angle` of omega under the gate $(\langle\omega,x\rangle-\ell)_+$, for many caps at once.

    $$t=\tfrac1{1-\ell}\Big[\ln\tfrac{u_0}{u_1}-\tfrac1{1+\ell}\ln\tfrac{q(u_0)}{q(u_1)}\Big],\, q=1-\ell-(1+\ell)u^2.$$
    """
    goal = log_tan_half_angle(angle)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log((-np.tanh(y) - level) / (-np.tanh(goal) - level)) + np.logaddexp(0, 2 * y)
        time = (y - goal - (ratio - np.logaddexp(0, 2 * goal)) / (1 + level)) / (1 - level)
    return np.where(y <= goal, 0.0, np.where(np.isnan(time), np.inf, time))
