r"""Predictions for two tokens that use nothing of the simulation: quadrature, collocation, one layer without sampling.

With $r=\cos\varphi$ the angle of two tokens under one field has the generator

$$\big(\kappa(1)-r\kappa(r)\big)\partial_\varphi^2-(d-2)\frac{\kappa(r)-r\kappa(1)}{\sin\varphi}\,\partial_\varphi .$$
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad, solve_ivp
from scipy.linalg import expm
from scipy.special import erf, expit, ndtr, roots_genlaguerre

Array = np.ndarray
Function = Callable[[Array], Array]

SIGMA: dict[str, tuple[Function, Function]] = {
    "constant": (np.ones_like, np.zeros_like),
    "linear": (lambda s: s, np.ones_like),
    "relu": (lambda s: np.maximum(s, 0), lambda s: 1.0 * (s > 0)),
    "leaky": (lambda s: np.where(s > 0, s, 0.1 * s), lambda s: np.where(s > 0, 1.0, 0.1)),
    "erf": (erf, lambda s: 2 / np.sqrt(np.pi) * np.exp(-(s**2))),
    "tanh": (np.tanh, lambda s: 1 / np.cosh(s) ** 2),
    "gelu": (lambda s: s * ndtr(s), lambda s: ndtr(s) + s * np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)),
    "silu": (lambda s: s * expit(s), lambda s: expit(s) + s * expit(s) * expit(-s)),
    "elu": (
        lambda s: np.where(s > 0, s, np.expm1(np.minimum(s, 0))),
        lambda s: np.where(s > 0, 1.0, np.exp(np.minimum(s, 0))),
    ),
    "sigmoid": (expit, lambda s: expit(s) * expit(-s)),
    "softplus": (lambda s: np.logaddexp(0, s), expit),
    "cos": (np.cos, lambda s: -np.sin(s)),
    "hermite2": (lambda s: (s**2 - 1) / np.sqrt(2), lambda s: np.sqrt(2) * s),
}


def gaussian_mean(f: Function, spread: float = 1.0) -> float:
    r"""$E f(s g)$ for a standard normal g, by adaptive quadrature on either side of 0."""

    def weighted(g: float) -> float:
        return float(f(np.asarray(spread * g))) * np.exp(-(g**2) / 2) / np.sqrt(2 * np.pi)

    return sum(quad(weighted, *ends, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for ends in ((-12, 0), (0, 12)))


@cache
def ends(name: str, bias: float = 0.0) -> tuple[float, float]:
    r"""$\kappa(1)=E\sigma^2$ and $\kappa'(1)=E\sigma'^2$, with pre-activations of variance $1+s_c^2$."""
    value, slope = SIGMA[name]
    spread = np.sqrt(1 + bias**2)
    return gaussian_mean(lambda s: value(s) ** 2, spread), gaussian_mean(lambda s: slope(s) ** 2, spread)


def antipode(name: str) -> float:
    r"""$\kappa(-1)=E\,\sigma(u)\sigma(-u)$."""
    value = SIGMA[name][0]
    return gaussian_mean(lambda s: value(s) * value(-s))


def exponent(d: int, one: float, slope: float) -> float:
    r"""$\lambda=\tfrac12[(d-3)\kappa'(1)-(d-1)\kappa(1)]$."""
    return ((d - 3) * slope - (d - 1) * one) / 2


def relu_kappa(r: Array) -> Array:
    r"""$(\sqrt{1-r^2}+r(\pi-\arccos r))/2\pi$."""
    return np.asarray((np.sqrt(np.maximum(1 - r**2, 0)) + r * (np.pi - np.arccos(r))) / (2 * np.pi))


def pair_averages(
    d: int,
    kappa: Function,
    times: Sequence[float],
    *,
    payoff: Function = lambda r: 1 - r,
    start: float | None = None,
    extra: Function = np.zeros_like,
    modes: int = 64,
) -> Array:
    r"""$E\,\phi(r(t))$ by collocation in the cosines of the angle, from the overlap `start` or two uniform tokens.

    `extra` is added to the drift of r: attention of two tokens gives $2v\,p(r)(1-r^2)$, $p=1/(1+e^{\beta(1-r)})$.
    """
    phi = np.pi * (np.arange(modes) + 0.5) / modes
    k = np.arange(modes)
    r, s = np.cos(phi), np.sin(phi)
    one, here = float(kappa(np.array(1.0))), kappa(r)
    value = np.cos(np.outer(phi, k))
    first, second = -k * np.sin(np.outer(phi, k)), -(k**2) * value
    generator = (one - r * here)[:, None] * second
    generator += (-((d - 2) * (here - r * one) + extra(r)) / s)[:, None] * first
    back = np.linalg.inv(value)
    if start is None:
        x, weight = np.polynomial.legendre.leggauss(200)
        angle = np.pi * (x + 1) / 2
        density = weight * np.sin(angle) ** (d - 2)
        reading = density / density.sum() @ np.cos(np.outer(angle, k))
    else:
        reading = np.cos(k * np.arccos(start))
    matrix = generator @ back
    return np.array([reading @ back @ (expm(t * matrix) @ payoff(r)) for t in times])


def attention_drift(v: float, beta: float, self_included: bool = True) -> Function:
    r"""What attention of strength v adds to the drift of the overlap of two tokens."""
    return lambda r: 2 * v * (1 - r**2) / (1 + np.exp(beta * (1 - r)) if self_included else 1.0)


def mean_meeting_times(d: int, distances: Sequence[float]) -> list[float]:
    """Mean times until two orthogonal ReLU tokens are within each distance (falling), by the equation LT = -1.

    It is solved for the derivative of T, from antipodal tokens down to the least distance.
    """

    def rhs(phi: float, y: Array) -> Array:
        # kappa(1) - r kappa(r) and (kappa(r) - r kappa(1))/sin(phi), in a form that does not cancel as tokens meet.
        s, c = np.sin(phi), np.cos(phi)
        lost = (s - phi * c) / (2 * np.pi)
        return np.array([(-1 + (d - 2) * lost / s * y[0]) / (s**2 / 2 - c * lost), y[0]])

    near = 1e-5
    start = [2 * near / (d - 1), 0.0]  # the regular solution at antipodal tokens
    angles = [np.pi / 2, *(2 * np.arcsin(x / 2) for x in distances)]
    found = solve_ivp(rhs, (np.pi - near, angles[-1]), start, t_eval=angles, method="LSODA", rtol=1e-9, atol=1e-12)
    return list(found.y[1, 0] - found.y[1, 1:])


@cache
def _nodes(d: int, points: int) -> tuple[Array, ...]:
    """Two normals, and half the square of d - 2 others, with weights."""
    g, w = hermegauss(points)
    half, u = roots_genlaguerre(points, (d - 4) / 2)
    return g, w / w.sum(), 2 * half, u / u.sum()


def growth_of_gaussian_layer(
    d: int, one: float, slope: float, h: float, *, attraction: float = 0.0, points: int = 14
) -> tuple[float, float]:
    r"""$(\tfrac1hE\log G,\ E G^2)$: growth G of a small distance in one layer with a Gaussian field, without sampling.

    A layer takes x to $y=(1+hv)x+\sqrt h\xi$ and a tangent vector u to $w=u+\sqrt h\eta$, with independent
    $\xi\sim N(0,\kappa(1)I)$ and $\eta\sim N(0,\kappa'(1)I)$; then $G=|y\wedge w|/|y|^2$. Given y, $|w|$ has components
    along y and in the plane of u, and the length of the rest.
    """
    g, w, chi, u = _nodes(d, points)
    a, b, rest = np.meshgrid(g, g, chi, indexing="ij")
    weight = (w[:, None, None] * w[None, :, None] * u[None, None, :]).ravel()
    along, beside = (1 + h * attraction) + np.sqrt(h * one) * a.ravel(), np.sqrt(h * one) * b.ravel()
    length = along**2 + beside**2 + h * one * rest.ravel()
    # The part of w orthogonal to y: d - 1 Gaussian components around a mean of this size.
    size = np.sqrt(1 - beside**2 / length)
    square = (size[:, None, None] + np.sqrt(h * slope) * g[:, None]) ** 2 + h * slope * chi
    inner = w[:, None] * u
    logs = np.sum(np.log(square) * inner, axis=(1, 2)) / 2 - np.log(length) / 2
    return float(weight @ logs) / h, float(weight @ ((size**2 + (d - 1) * h * slope) / length))


def growth_of_narrow_layer(name: str, d: int, h: float, points: int = 16) -> float:
    r"""$\tfrac1hE\log G$ for a layer of width one, $\xi=a\,\sigma(\langle w,x\rangle)$.

    Here y and w are $x+\sqrt h\sigma(u)a$ and $t+\sqrt h\sigma'(u)g\,a$ with scalar normals u and g.
    """
    value, slope = SIGMA[name]
    g, w, chi, c = _nodes(d, points)
    # Half-normal rules on either side of 0, where activations have their kinks.
    x, v = np.polynomial.legendre.leggauss(2 * points)
    u = np.concatenate([4 * (x - 1), 4 * (x + 1)])
    measure = np.concatenate([v, v]) * np.exp(-(u**2) / 2)
    a, b, rest = (part.ravel() for part in np.meshgrid(g, g, chi, indexing="ij"))
    weight = (w[:, None, None] * w[None, :, None] * c[None, None, :]).ravel()
    full = a**2 + b**2 + rest
    total = 0.0
    for s, t, m in zip(value(u), slope(u), measure / measure.sum(), strict=True):
        p, q = np.sqrt(h) * s, np.sqrt(h) * t * g[:, None]
        yy, ww, yw = 1 + 2 * p * a + p**2 * full, 1 + 2 * q * b + q**2 * full, p * b + q * a + p * q * full
        total += m * float(w @ (np.log(yy * ww - yw**2) / 2 - np.log(yy)) @ weight)
    return total / h
