r"""Predictions that use nothing of the simulations: collocation, quadrature, plain sampling.

The overlap r of two tokens at infinite temperature, the logarithm $y=\log\frac m{1-m}$ of the mean overlap of many
tokens, and the centre of a Poisson kernel on the circle are diffusions of one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.integrate import cumulative_simpson, quad
from scipy.linalg.lapack import dgttrf, dgttrs
from scipy.special import expit, log_ndtr, logit, roots_genlaguerre, roots_jacobi

Array = np.ndarray


def diffusion_averages(
    drift: Callable[[Array], Any],
    square: Callable[[Array], Any],
    payoffs: Sequence[Callable[[Array], Array]],
    start: float | Array,
    times: Sequence[float],
    *,
    low: float = -14.0,
    high: float = 14.0,
    cells: int = 1400,
) -> Array:
    r"""$E\,\phi(y(t))$ for $dy=a\,dt+\sqrt{q}\,dB$: implicit midpoint steps, a row per payoff (and per start)."""
    y = np.linspace(low, high, cells + 1)
    h = y[1] - y[0]
    a, q = np.broadcast_to(drift(y), y.shape), np.broadcast_to(square(y), y.shape)
    up, down = q / (2 * h * h) + a / (2 * h), q / (2 * h * h) - a / (2 * h)
    up[0], down[-1] = q[0] / h**2, q[-1] / h**2
    middle = -(up + down)
    middle[0], middle[-1] = -up[0], -down[-1]
    f = np.stack([payoff(y) for payoff in payoffs], axis=1)
    now, out = 0.0, []
    for time in times:
        steps = max(1, round((time - now) / 0.005))
        k = (time - now) / steps / 2
        factors = dgttrf(-k * down[1:], 1 - k * middle, -k * up[:-1])[:5]
        for _ in range(steps):
            right = f + k * middle[:, None] * f
            right[:-1] += k * up[:-1, None] * f[1:]
            right[1:] += k * down[1:, None] * f[:-1]
            f = dgttrs(*factors, right)[0]
        now = time
        out.append([np.interp(start, y, column) for column in f.T])
    return np.array(out).T


def two_tokens(d: int, tau: float, start: float, drift: Callable[[Array], Array] | None = None) -> float:
    r"""$E\,r(\tau)$ of two tokens at infinite temperature, $D=\frac{(1-r^2)(d-2-r)}{2d}$, $Q=\frac{(1-r^2)^2}d$.

    In $z=\mathrm{artanh}\,r$: drift $\frac{d-2-r}{2d}+\frac rd$, variance $\frac1d$. `drift` replaces $D/(1-r^2)$.
    """
    own = drift or (lambda r: (d - 2 - r) / (2 * d))
    found = diffusion_averages(
        lambda z: own(np.tanh(z)) + np.tanh(z) / d, lambda z: 1 / d + 0 * z, [np.tanh], np.arctanh(start), [tau]
    )
    return float(found[0, 0])


def mean_overlaps(n: int, d: float, start: float, times: Sequence[float]) -> Array:
    r"""Mean overlap of pairs of n equiangular tokens at high temperature, to first order in 1/d.

    $dy=(1-\frac{4-3m}d)d\tau+\frac2{\sqrt d}dB$ for $y=\log\frac m{1-m}$, $m=\frac{1+(n-1)\gamma}n$.
    """
    m0 = (1 + (n - 1) * start) / n
    found = diffusion_averages(
        lambda y: 1 - (4 - 3 * expit(y)) / d, lambda y: 4 / d + 0 * y, [expit], float(logit(m0)), times
    )
    return np.asarray((n * found[0] - 1) / (n - 1))


@cache
def same_argmax(n: int, gamma: float) -> float:
    r"""$n\iint\varphi_\gamma\Phi_\gamma^{n-1}$: two Gaussian vectors of correlation $\gamma$ have the same argmax."""
    if gamma == 0:
        return 1 / n
    x = np.linspace(-8.4, 8.4, 421)
    a, b = x[:, None], x[None, :]
    density = np.exp(-(a * a - 2 * gamma * a * b + b * b) / (2 * (1 - gamma**2)))
    density /= 2 * np.pi * np.sqrt(1 - gamma**2)
    below = cumulative_simpson(cumulative_simpson(density, x=x, axis=0, initial=0), x=x, axis=1, initial=0)
    return float(n * np.sum(density * np.clip(below, 0, 1) ** (n - 1)) * (x[1] - x[0]) ** 2)


def time_at_zero_temperature(level: float, n: int) -> float:
    r"""$\int_0^\gamma\frac{dc}{(1-c)g(c)}$ with the function above."""
    x, w = np.polynomial.legendre.leggauss(10)
    c = level * (x + 1) / 2
    return float(np.sum(w / ((1 - c) * np.array([same_argmax(n, float(v)) for v in c]))) * level / 2)


def two_token_moments(s: float, gamma: float) -> tuple[float, float]:
    r"""f and g of two tokens: logit differences are Gaussian, of variance $2(1-\gamma)s^2$ and correlation $\gamma$."""
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    size = s * np.sqrt(2 * (1 - gamma))
    first = expit(size * z)
    second = expit(size * (gamma * z[:, None] + np.sqrt(1 - gamma**2) * z[None, :]))
    f = float(w @ (first**2 + (1 - first) ** 2))
    joint = first[:, None] * second + (1 - first)[:, None] * (1 - second)
    return f, float(w @ joint @ w)


def participation(log_n: float, sigma: float) -> float:
    r"""$E\sum_k\pi_k^2$ for n independent logits of size $\sigma$, for any n: $n\int_0^\infty t\,\psi_2\psi^{n-1}dt$.

    $\psi(t)=Ee^{-te^{\sigma g}}$ and $\psi_2=E[e^{2\sigma g-te^{\sigma g}}]$; with $t=e^{-u}$, $v=\sigma g-u$ only the
    neighbourhood of the largest logit matters.
    """
    v = np.linspace(-40, 8, 4801)
    kernel2 = np.exp(2 * v - np.exp(v))
    lost = -np.expm1(-np.exp(v))

    def integrand(u: float) -> float:
        g = (v + u) / sigma
        weight = np.exp(np.minimum(log_n - g**2 / 2, 600)) * (v[1] - v[0]) / (sigma * np.sqrt(2 * np.pi))
        above = np.exp(min(log_n + float(log_ndtr(-(v[-1] + u) / sigma)), 600))
        return float(np.sum(weight * kernel2)) * np.exp(-float(np.sum(weight * lost)) - above)

    edge = sigma * np.sqrt(2 * log_n)
    return quad(integrand, edge / 4, edge + 12 * sigma, points=[edge], limit=400, epsabs=1e-8)[0]


def log_growth_of_a_layer(d: int, sigma: float) -> float:
    r"""$E\log G^2$ for $x\to N(x+\sigma g)$ and a neighbour moved by the same $\sigma g$: $G^2=(|y|^2-b^2)/|y|^4$."""
    z, w = np.polynomial.hermite_e.hermegauss(30)
    w = w / w.sum()
    half, u = roots_genlaguerre(30, (d - 4) / 2)
    u = u / u.sum()
    along, beside, rest = 1 + sigma * z[:, None, None], sigma * z[None, :, None], 2 * sigma**2 * half
    length = along**2 + beside**2 + rest
    return float(np.einsum("a,b,c,abc->", w, w, u, np.log(length - beside**2) - 2 * np.log(length)))


def poisson_kernel(tau: float, start: float = 0.25, *, second: float = 1.0, stratonovich: bool = False) -> Array:
    r"""$E R$, $E R^2$ for $R=|c_1|^2$ of a Poisson kernel on the circle at $\beta=0$, where $c_k=a^k$.

    $dR=\frac R4(1+R^2-2\theta R)d\tau+\frac{R(1-R)}{\sqrt2}dB$ with $\theta=1$; in $y=\log\frac R{1-R}$. Other
    `second` multiply the second-order term of the equation; `stratonovich` reads the noise in that sense.
    """

    def drift(y: Array) -> Array:
        r = expit(y)
        if stratonovich:
            return (1 + r) / 8
        return (1 + r**2 - 2 * second * r) / (4 * (1 - r)) - (1 - 2 * r) / 4

    def squares(y: Array) -> Array:
        return expit(y) ** 2

    high = 20.0 if second == 1 or stratonovich else 6.0  # elsewhere the drift is singular at R = 1
    found = diffusion_averages(
        drift, lambda y: 0.5 + 0 * y, [expit, squares], float(logit(start)), [tau], low=-20.0, high=high
    )
    return np.asarray(found[:, 0])


def hyperbolic_centre(d: int, tau: float, start: float) -> Array:
    r"""$E m$, $E m^2$ and $E p_2$ at $\beta=0$ for Moebius images of the uniform law on the sphere, from m = `start`.

    $d\rho=\frac{(d-1)m}{2d}\coth\rho\,d\tau+\sqrt{m/d}\,dB$ for the hyperbolic distance of the centre; with the
    coordinate $y=\frac{u+T}{1+uT}$ along the axis, $T=\tanh\rho$, u that of a uniform point, $m=(Ey)^2$ and
    $p_2=(E\frac{dy^2-1}{d-1})^2$. In $z=\log\rho$.
    """
    u, weight = roots_jacobi(80, (d - 3) / 2, (d - 3) / 2)
    weight = weight / weight.sum()

    def powers(z: Array) -> tuple[Array, Array]:
        t = np.tanh(np.exp(z))[..., None]
        y = (u + t) / (1 + u * t)
        return (y @ weight) ** 2, (((d * y**2 - 1) / (d - 1)) @ weight) ** 2

    grid = np.linspace(-5, 2, 7001)
    first = float(np.interp(start, powers(grid)[0], grid))
    found = diffusion_averages(
        lambda z: powers(z)[0] / (2 * d) * ((d - 1) / np.tanh(np.exp(z)) * np.exp(-z) - np.exp(-2 * z)),
        lambda z: powers(z)[0] / d * np.exp(-2 * z),
        [lambda z: powers(z)[0], lambda z: powers(z)[0] ** 2, lambda z: powers(z)[1]],
        first,
        [tau],
        low=-5.0,
        high=2.0,
    )
    return np.asarray(found[:, 0])
