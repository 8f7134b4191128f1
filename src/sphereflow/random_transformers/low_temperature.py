r"""Low temperature and a diffuse cloud: every token follows its own key, $m(x)=Ax/|Ax|$, and overlaps move slowly.

With $s_{11}=1$ and $s(r)=E\langle n_A(x),n_A(y)\rangle$ the overlap of two tokens has drift
$\frac1d(d-2+r^2)s(r)-\frac{d-1}dr$ and variance rate $\frac2d(1-r^2)(1-rs(r))$. With $\tau=d\,\theta$, for large d,
$$du=-a\,u(1-u^2)d\theta+\sqrt2(1-u^2)dB,\qquad a=1+\tfrac12\#\{\text{Gaussian factors of }A\},$$
that is $dx=(2-a)\tanh x\,d\theta+\sqrt2\,dB$ for $x=\mathrm{artanh}\,u$: for a < 2 the pair aligns up to sign, for
a = 2 (product weights) x is a Brownian motion and the overlap keeps returning to 0. At finite d the rate at which two
tokens meet is the exponent of `lyapunov`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import special

from sphereflow.errors import SphereflowError, real_number
from sphereflow.numerics.backward import advance, cell_means, generator, read_between
from sphereflow.numerics.overlaps import overlap_drift
from sphereflow.numerics.quadrature import jacobi
from sphereflow.random_transformers.lyapunov import slope_at_one

Observable = Callable[[np.ndarray], np.ndarray]
_REACH, _STEPS = 16.0, 80


def image_overlap(r: Float[np.ndarray, "..."] | float, d: int, factors: int) -> Float[np.ndarray, "..."] | float:
    r"""$s(r)=E\langle n_A(x),n_A(y)\rangle$: the mean cosine of the images of two vectors of cosine r.

    One Gaussian: $r\frac2d\big(\Gamma(\frac{d+1}2)/\Gamma(\frac d2)\big)^2{}_2F_1(\frac12,\frac12;\frac d2+1;r^2)$.
    Two: the mean of this over the random cosine of the first images, by quadrature (not its second iterate).
    """
    c = np.asarray(r, dtype=float)
    if factors == 0:
        return c.copy()
    if factors == 1:
        size = 2 / d * np.exp(2 * (special.gammaln((d + 1) / 2) - special.gammaln(d / 2)))
        return c * size * _hypergeometric(d / 2 + 1, c * c)
    if factors != 2:
        raise SphereflowError(f"the law of A has 0, 1 or 2 Gaussian factors, got {factors}.")
    cosine, weight = _image_cosines(c, d)
    return np.sum(weight * image_overlap(cosine, d, 1), axis=-1)


def _hypergeometric(c: float, z: np.ndarray | float) -> np.ndarray | float:
    r"""${}_2F_1(\frac12,\frac12;c;z)$: scipy's loses it for large c, where the plain series converges at once."""
    if c < 100:
        return np.asarray(special.hyp2f1(0.5, 0.5, c, z))
    term = total = np.ones_like(z)
    for k in range(40):
        term = term * (k + 0.5) ** 2 / ((c + k) * (k + 1)) * z
        total = total + term
    return total


def _image_cosines(c: Float[np.ndarray, "..."], d: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights for the cosine of $(u, ru+\sqrt{1-r^2}v)$, u and v normal vectors.

    Given $t=|u|/\sqrt{|u|^2+|v_\perp|^2}$, whose square is Beta, and $v_\parallel/\sqrt{\cdot}$, a Student variable.
    """
    share, wb = _beta_rule(24, d / 2, (d - 1) / 2)  # |u|^2 / (|u|^2 + |v_perp|^2)
    # v_par / sqrt(|u|^2 + |v_perp|^2) = k / sqrt(1 - k^2), with (1 + k)/2 a symmetric Beta variable
    k, wk = _beta_rule(40, d - 0.5, d - 0.5)
    k = 2 * k - 1
    joint = (wb[:, None] * wk).ravel()
    u, across = (np.repeat(np.sqrt(z), len(k)) for z in (share, 1 - share))
    along = np.tile(k / np.sqrt(1 - k * k), len(share))
    r = c[..., None]
    q = np.sqrt(1 - r * r)
    first, second = r * u + q * along, q * across
    return first / np.hypot(first, second), joint


def _beta_rule(points: int, p: float, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for a Beta(p, q) variable."""
    nodes, weights = jacobi(points, q - 1, p - 1)
    return (1 + nodes) / 2, weights


def coefficient(factors: int) -> float:
    """a = 1 + factors / 2, the strength of the pull to zero overlap in the limit equation."""
    return 1 + factors / 2


def aligned_probability(start: float, a: float) -> float:
    r"""$P(u\to+1)$ for a < 2, from the scale function $\int\cosh^{-(2-a)}$; $\frac12+\arcsin(u_0)/\pi$ at a = 1."""
    real_number("start", start, least=-1, most=1)
    real_number("a", a, above=0, most=2)
    if a == 2:
        raise SphereflowError("at a = 2 the overlap keeps returning to zero: it has no limit.")
    if abs(start) == 1:
        return (1 + start) / 2
    # cosh^{-p} in u = tanh x is (1-u^2)^{p/2-1} du: a Beta law on (1+u)/2.
    power = (2 - a) / 2
    return float(special.betainc(power, power, (1 + start) / 2))


def limit_moment(
    theta: float, a: float, observable: Observable = np.square, start: float = 0.0, *, cells: int = 1600
) -> float:
    r"""$E\,\varphi(x(\theta))$, $\varphi$ even, for $dx=(2-a)\tanh x\,d\theta+\sqrt2dB$; $\varphi=x^2$ unless given."""

    def coefficients(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (2 - a) * np.tanh(x), np.full_like(x, 2.0)

    return _backward(coefficients, theta, observable, abs(start), cells)


def finite_moment(
    theta: float, d: int, factors: int, observable: Observable = np.square, start: float = 0.0, *, cells: int = 1600
) -> float:
    r"""The same at finite d on the clock $\tau=d\,\theta$, from the exact s(r)."""
    return _backward(lambda x: _coefficients(x, d, factors), theta, observable, abs(start), cells)


def _coefficients(x: np.ndarray, d: int, factors: int) -> tuple[np.ndarray, np.ndarray]:
    """Drift and variance rate of x = artanh r."""
    r, hidden = np.tanh(x), 1 / np.cosh(x) ** 2  # 1 - r^2, without cancellation
    gap = hidden / (1 + r)
    # lag = r - s(r) is of order 1 - r^2; close to r = 1 it is taken from the slope there.
    near = gap < 1e-5
    lag = np.where(near, (slope_at_one(d, factors) - 1) * gap, r - image_overlap(np.where(near, 0.5, r), d, factors))
    miss = hidden + r * lag  # 1 - r s
    pull = overlap_drift(r, r - lag, np.ones_like(r), d)
    pull = np.where(near, -((d - 2 + r * r) * lag + r * hidden), pull)
    variance_rate = 2 * miss / hidden
    return pull / hidden + r * variance_rate, variance_rate


def _backward(
    coefficients: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    theta: float,
    observable: Observable,
    start: float,
    cells: int,
) -> float:
    """On two grids, extrapolated. Their far end is many standard deviations away from where the answer is read."""
    by_steps = []
    for count in (cells // 2, cells):
        x = np.linspace(0, _REACH, count + 1)
        values = advance(generator(*coefficients(x), x[1]), cell_means(observable, x), theta, _STEPS)
        by_steps.append(read_between(x, values, start))
    return (4 * by_steps[1] - by_steps[0]) / 3
