r"""What the theory predicts, computed plainly: Fourier integrals, power series, dense matrices; nothing of the package.

$$a_n=\frac{n^2}{2\pi}\int e^{\beta\cos\theta}\cos n\theta\,d\theta,\qquad
  \psi_c(y)=\sum_{k<h}\frac{c^{k+1}y^k}{k!(k+1)!},\qquad
  \mathcal S_t(\sigma_0)=k_\lambda(1,\sigma_0)\sum_n\omega_n\,\psi_{a_nt}(Y).$$

The index k counts the tokens between source and target, so a series cut off at h terms is what h steps of attention
carry. Derivatives in the position are taken by a complex step, which has no cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, linalg, optimize

_TERMS = 70  # c y up to a few hundred
_STEP = 1e-30


@cache
def rates(beta: float, count: int = 30) -> np.ndarray:
    """a_1, ..., a_count by the trapezoidal rule, which is exact to rounding for a periodic integrand."""
    angle = 2 * np.pi * np.arange(256) / 256
    n = np.arange(1, count + 1)
    return n**2 * (np.exp(beta * np.cos(angle)) * np.cos(n[:, None] * angle)).mean(axis=1)


def weights(vocab: int, count: int = 30, *, hard: bool = False) -> np.ndarray:
    """Fourier coefficients of the Gaussian readout, or of the indicator of the nearest codeword."""
    n = np.arange(1, count + 1)
    return 2 * np.sin(n * np.pi / vocab) / (np.pi * n) if hard else np.exp(-(np.pi**2) * n**2 / (2 * vocab**2))


def moments(beta: float, vocab: int) -> np.ndarray:
    """Sums of omega_n a_n^i for i = 1, 2, 3."""
    return np.array([np.sum(weights(vocab) * rates(beta) ** i) for i in (1, 2, 3)])


def psi(c: ArrayLike, y: ArrayLike, hops: int = _TERMS) -> np.ndarray:
    """The power series, up to so many terms."""
    c, y = np.asarray(c), np.asarray(y)
    term = c * (1 + 0 * y)
    total = 0 * term
    for k in range(hops):
        total = total + term
        if np.all(np.abs(term) <= 1e-19 * np.abs(total)):
            break
        term = term * c * y / ((k + 1) * (k + 2))
    return np.asarray(total)


def kernel(sigma: ArrayLike, sigma0: ArrayLike, slope: float) -> np.ndarray:
    """The attention that position sigma pays to sigma0."""
    sigma, sigma0 = np.asarray(sigma), np.asarray(sigma0)
    if slope == 0:
        return np.asarray(1 / sigma + 0 * sigma0)
    return np.asarray(slope * np.exp(-slope * (sigma - sigma0)) / (1 - np.exp(-slope * sigma)))


def distance(sigma: ArrayLike, sigma0: ArrayLike, slope: float) -> np.ndarray:
    """Y, the logarithm of the ratio of the masses before the two positions."""
    sigma, sigma0 = np.asarray(sigma), np.asarray(sigma0)
    return np.asarray(
        np.log(sigma / sigma0) if slope == 0 else np.log(np.expm1(slope * sigma) / np.expm1(slope * sigma0))
    )


def influence(
    a: ArrayLike, t: float, sigma: ArrayLike, sigma0: ArrayLike, slope: float, hops: int = _TERMS
) -> np.ndarray:
    """g_a(t, sigma; sigma0): N times the covariance of a wave at (t, sigma) with the wave at (0, sigma0)."""
    return np.asarray(kernel(sigma, sigma0, slope) * psi(np.asarray(a) * t, distance(sigma, sigma0, slope), hops))


def equal_times(a: float, t: float, sigma: float, s: float, slope: float) -> float:
    """N times the covariance of two waves at time t: the influence, and what both have from common ancestors."""
    end = float(distance(s, 1e-16, slope))

    def ancestors(y: float) -> float:
        # r is the position whose mass is e^{-y} times that of s.
        r = np.log1p(np.expm1(slope * s) * np.exp(-y)) / slope
        dr = -np.expm1(-slope * r) / slope
        return float(influence(a, t, sigma, r, slope) * influence(a, t, s, r, slope) * dr)

    shared = integrate.quad(ancestors, 0, end, epsabs=1e-8, limit=200)[0]
    return float(influence(a, t, sigma, s, slope)) + shared


def score(
    beta: float, slope: float, t: float, vocab: int, sigma0: ArrayLike, hops: int = _TERMS, *, hard: bool = False
) -> np.ndarray:
    """The profile of one head, at one position or several."""
    at = np.asarray(sigma0)
    waves = psi(rates(beta)[:, None] * t, distance(1.0, at.ravel(), slope), hops)
    return np.asarray(kernel(1.0, at, slope) * (weights(vocab, hard=hard) @ waves).reshape(at.shape))


def tilt(beta: float, slope: float, t: float, vocab: int, sigma0: ArrayLike, *, hard: bool = False) -> np.ndarray:
    """The derivative of the profile in sigma0."""
    return np.asarray(score(beta, slope, t, vocab, np.asarray(sigma0) + 1j * _STEP, hard=hard).imag / _STEP)


def turns(derivative: Callable[[ArrayLike], np.ndarray], first: float = 1e-4) -> list[float]:
    """Where a derivative changes sign on (first, 1)."""
    grid = np.concatenate([np.geomspace(first, 0.1, 80), np.linspace(0.1, 1, 160)[1:-1]])
    signs = np.sign(derivative(grid))
    return [
        float(optimize.brentq(lambda s: float(derivative(s)), grid[i], grid[i + 1], xtol=1e-12))
        for i in np.flatnonzero(signs[:-1] != signs[1:])
    ]


def critical_time(beta: float, slope: float, vocab: int) -> float:
    """The zero of the slope of the profile at its end."""
    first, second, _ = moments(beta, vocab)
    return float(-2 * np.expm1(-slope) * first / second)


def fold_time(beta: float, slope: float, vocab: int) -> float:
    """The last time at which the profile turns anywhere: the maximum over sigma0 of the zero of the slope there."""
    crit = critical_time(beta, slope, vocab)

    def zero(sigma0: float) -> float:
        return float(
            optimize.brentq(lambda t: float(tilt(beta, slope, t, vocab, sigma0)), 0.2 * crit, 6 * crit, xtol=1e-9)
        )

    grid = np.linspace(0.1, 0.99, 8)
    times = [zero(s) for s in grid]
    best = int(np.argmax(times))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return -optimize.minimize_scalar(lambda s: -zero(s), bounds=around, method="bounded", options={"xatol": 1e-4}).fun


def folding_slope(beta: float, vocab: int) -> float:
    """The slope above which the minimum outlives recency: the second derivative in Y at the end and t_crit vanishes."""
    first, second, third = moments(beta, vocab)
    q = 3 / (6 - 2 * first * third / second**2)
    return -math.log1p(-q)


def attention_matrix(n: int, slope: float) -> np.ndarray:
    """Weights of token j on tokens k < j; the first token attends to nothing."""
    matrix = np.zeros((n, n))
    for j in range(1, n):
        row = np.exp(-slope * (j - np.arange(j)) / n)
        matrix[j, :j] = row / row.sum()
    return matrix


def propagator(n: int, slope: float, growth: float) -> np.ndarray:
    """U = exp(growth w)."""
    return linalg.expm(growth * attention_matrix(n, slope))


def common_flow(
    density: Callable[[np.ndarray], np.ndarray], beta: float, t: float, waves: tuple[int, ...]
) -> list[float]:
    """Averages of cos(n theta) at time t where every token sees the whole law: 64 nodes with masses, adaptively."""
    start = 2 * np.pi * np.arange(64) / 64
    masses = density(start) / np.sum(density(start))

    def velocity(_: float, x: np.ndarray) -> np.ndarray:
        gap = x[:, None] - x
        return (-beta * np.sin(gap) * np.exp(beta * np.cos(gap))) @ masses

    end = integrate.solve_ivp(velocity, (0, t), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    return [float(masses @ np.cos(n * end)) for n in waves]


def block_flow(seen: np.ndarray, beta: float, t: float) -> np.ndarray:
    """Averages of e^{i theta} at time t in blocks of a prompt of von Mises laws about pi sigma.

    Block i sees block j with weight seen[i, j] over the sum of the row; 24 angles stand for each law.
    """
    count, nodes = len(seen), 24
    share = seen / seen.sum(axis=1, keepdims=True)
    grid = 2 * np.pi * np.arange(nodes) / nodes
    masses = np.exp(np.cos(grid)) / np.exp(np.cos(grid)).sum()
    start = grid + np.pi * (np.arange(count)[:, None] + 0.5) / count
    n = np.arange(1, 13)
    force = -2 * rates(beta, 12) / n

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        waves = np.exp(1j * n[:, None, None] * flat.reshape(count, nodes))
        field = share @ (waves @ masses).T
        return np.einsum("n,npq,pn->pq", force, waves, field.conj()).imag.ravel()

    end = integrate.solve_ivp(velocity, (0, t), start.ravel(), method="RK45", rtol=1e-6).y[:, -1]
    return np.exp(1j * end.reshape(count, nodes)) @ masses


def prompt_covariance(
    density: np.ndarray, beta: float, slope: float, t: float, wave: int, sigma0: ArrayLike, *, left_out: str = ""
) -> np.ndarray:
    r"""N Re Cov(e^{in theta_1(t)}, e^{in theta_{sigma0}(0)}) for independent tokens of one law, on a grid of angles.

    The position operator commutes with the rest, so $C=k_\lambda\sum_pY^pc_p/p!$ with
    $\dot c_p=L_0c_p+L_1c_{p-1}$, $c_{-1}=A$, $\dot A=L_0A$, $L_0h=-\partial(hV)$, $L_1h=-\partial(f\,w'*h)$.
    `left_out`: "transport of A" or "transport of C" for what a wrong equation would give.
    """
    nodes, terms, steps = len(density), 14, 50
    mode = np.fft.fftfreq(nodes, 1 / nodes)
    angle = 2 * np.pi * np.arange(nodes) / nodes
    force = 1j * mode * np.fft.fft(np.exp(beta * np.cos(angle))).real / nodes

    def derivative(h: np.ndarray) -> np.ndarray:
        return np.fft.ifft(1j * mode * np.fft.fft(h))

    def pull(h: np.ndarray) -> np.ndarray:
        return np.fft.ifft(force * np.fft.fft(h))

    keep = np.ones(terms + 2)
    keep[1] = left_out != "transport of A"
    keep[2:] = left_out != "transport of C"

    def velocity(state: np.ndarray) -> np.ndarray:
        f, h = state[0], state[1:]
        moved = keep[:, None] * -derivative(state * pull(f))
        moved[2:] -= derivative(f * pull(h[:-1]))
        return moved

    f0 = density / density.mean()
    phi = np.exp(-1j * wave * angle)
    state = np.zeros((terms + 2, nodes), complex)
    state[0], state[1] = f0, f0 * (phi - (f0 * phi).mean())
    for _ in range(steps):
        h = t / steps
        a = velocity(state)
        b = velocity(state + h / 2 * a)
        c = velocity(state + h / 2 * b)
        state = state + h / 6 * (a + 2 * b + 2 * c + velocity(state + h * c))
    means = (state[2:] * np.exp(1j * wave * angle)).mean(axis=1).real
    powers = [distance(1.0, sigma0, slope) ** p / math.factorial(p) for p in range(terms)]
    return np.asarray(kernel(1.0, sigma0, slope) * np.tensordot(means, powers, 1))


def third_cumulant(
    n: int,
    sources: tuple[int, int],
    waves: tuple[int, int, int],
    *,
    pairings: tuple[int, int] = (1, 1),
    steps: int = 60,
    target: int = 0,
) -> float:
    """N^2 times the leading third cumulant at beta = slope = t = 1, by classical Runge-Kutta steps; places from one.

    `pairings` are factors of the two terms: of each token with the first source, of each with the second. The target
    is the last token unless given.
    """
    w, a = attention_matrix(n, 1.0), {m: rates(1.0)[abs(m) - 1] for m in waves}
    first, second, third = waves

    def slope(y: np.ndarray) -> np.ndarray:
        f, u, v = y
        force = {m: a[m] / m for m in waves}  # m I_m
        joined = pairings[0] * force[third] * u * (w @ v) + pairings[1] * force[second] * v * (w @ u)
        return np.stack([a[first] * (w @ f) - first * joined, a[second] * (w @ u), a[third] * (w @ v)])

    y, h = np.zeros((3, n)), 1 / steps
    y[1, sources[0] - 1] = y[2, sources[1] - 1] = 1.0
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
    return float(n**2 * y[0, target - 1])
