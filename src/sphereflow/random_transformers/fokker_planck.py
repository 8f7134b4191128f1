r"""The stochastic Fokker-Planck equation on the circle, solved by its own generator and not by a network.

For the law $\mu=\rho\,d\theta/2\pi$ of a token given the weights (d = 2, diffusive clock $\tau$, Gaussian values),
$$d\rho=\tfrac14\partial_\theta^2(s_\mu\rho)\,d\tau-\partial_\theta(\rho\,d\xi),\qquad
  d\xi(\theta)\,d\xi(\theta')=\tfrac12\cos(\theta-\theta')\,s_\mu(\theta,\theta')\,d\tau\quad\text{(Ito)},$$
with $s_\mu(\theta,\theta')=E_A\langle m_A(\theta),m_A(\theta')\rangle$. In Fourier modes
$c_k=\langle\mu,e^{-ik\theta}\rangle$,
$$dc_k=-\tfrac{k^2}4\langle\mu,s_\mu e^{-ik\theta}\rangle d\tau-ik\langle\mu,e^{-ik\theta}d\xi\rangle .$$

The attention of a law on the circle is a ratio of Bessel series, with $u=\beta Ax=|u|e^{i\varphi}$ in the plane:
$$m_A=\frac{\sum_jI_j(|u|)e^{ij\varphi}c_{j-1}}{\sum_jI_j(|u|)e^{ij\varphi}c_j}.$$
A is drawn afresh at every step of every path, which leaves the covariance without bias. Mass is never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.progress import Progress
from sphereflow.random_transformers.random_laws import RandomLaws, follow, save_times
from sphereflow.random_transformers.weight_laws import SCORE_NAMES
from sphereflow.reading import density_values
from sphereflow.results import Variables, recorded_call
from sphereflow.seeds import Seed

_CHUNK = 12_000  # points of all paths that are moved together: what stays in the cache
_EXTRA = 6  # steps of the continued fraction beyond the last mode and the largest |u|
SCHEMES = ("generator", "transport")


@dataclass(frozen=True, eq=False, repr=False)
class DensityPaths(RandomLaws):
    r"""Random laws on the circle: `modes` $c_0,\dots,c_K$ of every path at all times (R, S, K + 1)."""

    modes: Complex[np.ndarray, "R S K"]

    def squares(self, k: int = 1) -> Estimate:
        r"""$E|c_k|^2$ at the saved times."""
        whole_number("k", k, least=0, most=self.modes.shape[2] - 1)
        return mean(np.abs(self.modes[:, :, k]) ** 2)

    def density(self, angles: Float[np.ndarray, " p"]) -> Float[np.ndarray, "R S p"]:
        r"""$\rho(\theta)=\sum_{|k|\le K}c_ke^{ik\theta}$ of every path at the saved times, 1 for the uniform law."""
        k = np.arange(1, self.modes.shape[2])
        waves = np.exp(1j * k[:, None] * np.asarray(angles, dtype=float))
        return 1 + 2 * np.real(self.modes[:, :, 1:] @ waves)

    def variables(self) -> Variables:
        known = mean(np.abs(self.modes) ** 2)
        return {
            "time": ("time", self.times),
            "square": (("time", "mode"), known.value),
            "square_error": (("time", "mode"), known.error),
            "modes": (("time", "repeat", "mode"), np.swapaxes(self.modes, 0, 1)),
        }

    def facts(self) -> list[str]:
        end = f"E|c_1|^2 and E|c_2|^2: {self._end([self.squares(1), self.squares(2)])}"
        return [end, f"{len(self.modes)} paths, {self.modes.shape[2] - 1} modes", *self._resolved("mode", "modes")]


@recorded_call
def solve_density(
    density: Callable[[np.ndarray], np.ndarray] | Sequence[complex] | np.ndarray,
    *,
    beta: float,
    t1: float,
    score: str = "product",
    saveat: int | Sequence[float] | np.ndarray = 2,
    repeats: int = 1000,
    steps: int | None = None,
    modes: int = 16,
    nodes: int = 1,
    scheme: str = "generator",
    seed: Seed = 0,
    progress: Progress = None,
) -> DensityPaths:
    r"""Paths of the law of infinitely many tokens on the circle, from your own law at time 0.

    **Arguments:**

    - `density`: a function of angles, positive and up to a factor, or the modes $c_0=1,c_1,\dots$ of the law.
    - `beta`: inverse temperature; `score`: law of A in the scaling of `weights` (d = 2).
    - `t1`: diffusive time $\eta^2L/H$ of the end; `saveat`: number of frames from 0 to t1, or their times.
    - `repeats`: paths; `steps`: of the whole run (50 per unit of time unless given); `modes`: K.
    - `nodes`: independent draws of A that share a step.
    - `scheme`: "generator", explicit Ito steps of the modes, or "transport", which moves the law by the increments of
      $\xi$ and never leaves $|c_k|\le1$; the second-order term is then implied. Both are of weak order 1.
    """
    start = _start(density, whole_number("modes", modes, least=4, most=512))
    beta, t1 = real_number("beta", beta, least=0, most=1e3), real_number("t1", t1, above=0, most=1e3)
    one_of("score", score, SCORE_NAMES)
    one_of("scheme", scheme, SCHEMES)
    repeats, nodes = whole_number("repeats", repeats, least=2), whole_number("nodes", nodes, most=4096)
    times, move = save_times(t1, saveat), Step(beta, score, modes, nodes, scheme)
    chunk = max(1, _CHUNK // (4 * modes * nodes)) if beta else repeats
    remedy = f'fewer modes than {modes}, or scheme="transport"'
    saved, largest = follow(
        move, start, times, t1, steps, repeats=repeats, chunk=chunk, remedy=remedy, seed=seed, progress=progress
    )
    tail = float(np.sqrt(np.mean(np.abs(saved[:, -1, -1]) ** 2)))
    return DensityPaths(times=times, modes=saved, largest=largest, tail=tail)


def _start(density: Callable[[np.ndarray], np.ndarray] | Sequence[complex] | np.ndarray, modes: int) -> np.ndarray:
    """The first modes of a law given by its density or by its modes."""
    if callable(density):
        theta = 2 * np.pi * np.arange(64 * modes) / (64 * modes)
        values = density_values("density", density, theta)
        coefficients = np.fft.rfft(values)[: modes + 1] / values.sum()
    else:
        try:
            given = np.asarray(density)
        except ValueError:  # lists of unequal lengths
            given = np.zeros(0)
        if given.ndim != 1 or given.dtype.kind not in "iufc" or not 2 <= len(given) <= modes + 1:
            raise SphereflowError(f"density must be a function of angles, or 2 to {modes + 1} of its modes.")
        coefficients = np.zeros(modes + 1, complex)
        coefficients[: len(given)] = given
    if not np.isfinite(coefficients).all() or abs(coefficients[0] - 1) > 1e-9 or np.abs(coefficients).max() > 1 + 1e-9:
        raise SphereflowError("the modes of a law begin with c_0 = 1, and none is above 1 in modulus.")
    return coefficients


class Step:
    r"""One step of the modes; `second` multiplies the second-order term (1 in the equation, else another equation)."""

    def __init__(self, beta: float, score: str, modes: int, nodes: int, scheme: str, second: float = 1.0):
        self.beta, self.score, self.modes, self.nodes = beta, score, modes, nodes if beta else 1
        self.scheme, self.second = scheme, second
        self.angle = 2 * np.pi * np.arange(4 * modes) / (4 * modes)
        self.x = np.exp(1j * self.angle)
        self.k = np.arange(modes + 1)

    def __call__(self, rng: np.random.Generator, c: np.ndarray, h: float) -> np.ndarray:
        b = _plane(rng.standard_normal((2, 2, len(c), self.nodes)) * math.sqrt(h / (2 * self.nodes)))
        if not self.beta and self.scheme == "generator":
            return self._flat(c, b, h)
        m = attention_means(c, self._queries(rng, len(c))) if self.beta else np.conj(c[:, 1])[:, None, None]
        noise = np.sum(np.imag(np.conj(self.x) * (b[0][..., None] * m + b[1][..., None] * np.conj(m))), axis=1)
        points = len(self.x)
        rho = np.fft.irfft(c, points, axis=1) * points
        if self.scheme == "transport":
            return self._transported(rho, noise)
        own = np.mean(m.real**2 + m.imag**2, axis=1)
        changes = [np.fft.rfft(rho * f, axis=1)[:, : self.modes + 1] / points for f in (own, noise)]
        return c - self.second * h / 4 * self.k**2 * changes[0] - 1j * self.k * changes[1]

    def _flat(self, c: np.ndarray, b: tuple[np.ndarray, np.ndarray], h: float) -> np.ndarray:
        """At beta = 0 attention is the mean of the law, and the modes are coupled to their neighbours only."""
        centre = np.conj(c[:, 1])
        pull = b[0][:, 0] * centre + b[1][:, 0] * np.conj(centre)
        beside = np.zeros_like(c)
        beside[:, :-1] = pull[:, None] * c[:, 1:]
        beside[:, 1:] -= np.conj(pull)[:, None] * c[:, :-1]
        squares = (np.abs(centre) ** 2)[:, None]
        return c - self.second * h / 4 * self.k**2 * squares * c - self.k / 2 * beside

    def _transported(self, rho: np.ndarray, noise: np.ndarray) -> np.ndarray:
        r"""$c_k=\langle\mu,e^{-ik(\theta+d\xi)}\rangle$."""
        wave = np.exp(-1j * (self.angle + noise))
        moved, power = [np.ones(len(rho), complex)], rho / len(self.x)
        for _ in range(self.modes):
            power = power * wave
            moved.append(power.sum(axis=1))
        return np.stack(moved, axis=1)

    def _queries(self, rng: np.random.Generator, paths: int) -> np.ndarray:
        r"""$\beta Ax$ on the grid, for fresh matrices A of every path."""
        shape = (2, 2, paths, self.nodes)
        if self.score == "product":
            first, second = rng.standard_normal((2, *shape)) * 2**-0.25
            a = np.einsum("abrq,cbrq->acrq", first, second)
        elif self.score == "gaussian":
            a = rng.standard_normal(shape)
        else:
            a = np.broadcast_to(np.eye(2)[:, :, None, None], shape)
        p, q = _plane(a)
        if self.score == "orthogonal":  # a turn or a reflection, each in half of the draws
            turn = math.sqrt(2) * np.exp(2j * np.pi * rng.random(p.shape))
            proper = rng.random(p.shape) < 0.5
            p, q = np.where(proper, turn, 0), np.where(proper, 0, turn)
        return self.beta * (p[..., None] * self.x + q[..., None] * np.conj(self.x))


def _plane(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""p, q with $Az=pz+q\bar z$ for 2 x 2 matrices A acting on the complex plane."""
    return (
        (a[0, 0] + a[1, 1] + 1j * (a[1, 0] - a[0, 1])) / 2,
        (a[0, 0] - a[1, 1] + 1j * (a[0, 1] + a[1, 0])) / 2,
    )


def attention_means(c: Complex[np.ndarray, "R K"], u: Complex[np.ndarray, "R ..."]) -> Complex[np.ndarray, "R ..."]:
    r"""$\int e^{\mathrm{Re}(\bar uy)}y\,\mu(dy)\big/\int e^{\mathrm{Re}(\bar uy)}\mu(dy)$ from the modes of $\mu$.

    Only ratios of Bessel functions enter, $t_j=I_j/I_{j-1}=|u|/(2j+|u|t_{j+1})$: both sums are one backward loop.
    """
    last = c.shape[1] - 1
    size = np.abs(u)
    phase = u / np.where(size > 0, size, 1.0)
    each = c.T.reshape(last + 1, len(c), *(1,) * (u.ndim - 1))
    # An error of the first ratio shrinks by the squares of those below it, which are small from the order |u| on.
    order = last + 2 + _EXTRA + math.ceil(float(size.max()))
    ratio = size / (order - 0.5 + np.sqrt((order + 0.5) ** 2 + size * size))  # between its bounds of Amos
    above, whole, below = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    for j in range(order - 1, 0, -1):
        ratio = size / (2 * j + size * ratio)
        if j > last + 1:
            continue
        wave = ratio * phase
        above = wave * (each[j - 1] + above)
        if j <= last:
            whole = wave * (each[j] + whole)
        if j < last:
            below = wave * (each[j + 1] + below)
    return (np.conj(each[1]) + above + np.conj(below)) / (1 + 2 * whole.real)
