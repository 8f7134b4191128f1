r"""Why no stationary measure can be spread out: an obstruction for all measures at once.

Were the first variation of a probability measure flat, its harmonics would be $\mu_l=-\beta v_l/(2\Lambda_l)$ for every
degree $l\ge1$, with $\Lambda_l$ those of the kernel. But $|\mu_l|\le1$ on the circle, and on the sphere the squares of
one degree sum to at most their number. So if for one degree

$$|v_k|>\tfrac2\beta\Lambda_k\quad(d=2),\qquad
  \sum_{ij}\omega_i\omega_jc_l^ic_l^jP_l(\hat a_i\cdot\hat a_j)>\big(\tfrac2\beta\Lambda_l\big)^2\quad(d\ge3),$$

$\nabla g$ does not vanish identically for any measure. For analytic $\sigma$ it is analytic, so that its zeros, and the
support of every stationary measure, have no area; on the circle they are finitely many points. For activations that are
polynomials between kinks a jump of the second derivative of v proves the same.

With normalised (softmax) attention on the circle the flat case is
$\int e^{\beta\cos(\theta-\phi)}d\mu=Ce^{-\beta v/2}$: the harmonics of a measure would be
$\mu_k=(g_k/g_0)\,(I_0/I_k)(\beta)$ with those of $g=e^{-\beta v/2}$, and $|g_k/g_0|>I_k/I_0$ for one k excludes it.
If v is a trigonometric polynomial of degree $p\ge2$, some k does: $\log I_k$ falls like $-k\log k$ and $\log|g_k|$ like
$-\frac kp\log k$. The same on one arc between kinks of a polynomial activation leaves atoms, or a density of full
support, which a jump elsewhere excludes.

High harmonics of a smooth v are far below rounding. They are read off a shifted contour,
$v_k=e^{-k\tau}\frac1{2\pi}\int v(\theta-i\tau)e^{-ik\theta}d\theta$, where they are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import erfc

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.landscape.activation import Activation
from sphereflow.landscape.potential import respond, size_of
from sphereflow.landscape.problem import Problem
from sphereflow.numerics.bessel import funk_hecke, log_ive
from sphereflow.numerics.quadrature import jacobi
from sphereflow.results import Result, Variables, recorded_call

_ANGLES = 1024
_ROUNDING = 4e-15
# Shifts of the contour, relative to the farthest one; an entire function is shifted up to this.
_SHIFTS = np.linspace(0.0, 0.9, 13)
_ENTIRE = 4.0
# Pieces with at most this many Chebyshev terms are polynomials and not resolved by chance.
_POLYNOMIAL = 10

# sigma at complex arguments, and how far from the real line it is analytic.
_COMPLEX = {
    "linear": (lambda s: s, math.inf),
    "gelu": (lambda s: s * erfc(-s / math.sqrt(2)) / 2, math.inf),
    "tanh": (np.tanh, math.pi / 2),
    "softplus": (lambda s: np.log1p(np.exp(s)), math.pi),
}


@dataclass(frozen=True, eq=False, repr=False)
class Obstruction(Result):
    r"""What excludes spread-out stationary measures for one problem.

    - `reason`: "kink", "harmonic", or "none" if nothing was found up to the last degree.
    - `degree`: the first one that is too large for a flat first variation (0 if none); `harmonics`, `thresholds`: lower
      bounds of the size of each degree of v, and what it may be, as logarithms, degrees from 1.
    - `jump`: the largest jump of the second derivative of v across a kink.
    - `slope`: on the circle, $\sup|g'|$ is at least this for every probability measure; 0 for normalised attention.
    - `normalised`: whether attention was taken with its denominator; `harmonics` are then those of $e^{-\beta v/2}$.
    """

    problem: Problem
    reason: str
    degree: int
    harmonics: Float[np.ndarray, " k"]
    thresholds: Float[np.ndarray, " k"]
    jump: float
    slope: float
    normalised: bool = False

    @property
    def singular(self) -> bool:
        """Whether the support of every stationary measure is proved to have no area."""
        return self.reason != "none"

    @property
    def atomic(self) -> bool:
        """Whether every stationary measure is proved to be finitely many atoms: `singular`, on the circle."""
        return self.singular and self.problem.d == 2

    derived = ("singular", "atomic")

    def variables(self) -> Variables:
        degrees = np.arange(1, len(self.harmonics) + 1)
        return {
            "degree": ("degree", degrees),
            "log_harmonic": ("degree", self.harmonics),
            "log_threshold": ("degree", self.thresholds),
        }

    def facts(self) -> list[str]:
        reason = {
            "kink": f"the second derivative of v jumps by {self.jump:.3g} at a kink",
            "harmonic": f"degree {self.degree} of v is too large for a flat first variation",
            "polynomial": "v is a trigonometric polynomial of degree two or more, which no measure can flatten",
            "none": f"nothing up to degree {len(self.harmonics)} excludes a density",
        }[self.reason]
        what = "finitely many atoms" if self.problem.d == 2 else "supported on a set without area"
        return [f"every stationary measure is {what}" if self.singular else "not decided", reason]


@recorded_call
def obstruction(problem: Problem, degrees: int = 80, *, normalised: bool = False) -> Obstruction:
    """Whether the weights exclude stationary measures that are spread out, whatever the measure.

    `normalised` is for the flow with softmax attention, on the circle; the convention of the kernel plays no part then.

    `degrees`: how many harmonics of v are looked at. On the circle they are found to full relative precision where the
    activation is analytic near the real line (all named ones; your own with `strip=`); otherwise to rounding.

    ```python
    landscape.obstruction(landscape.Problem.random(4.0, activation="gelu", seed=1)).atomic
    ```
    """
    count = whole_number("degrees", degrees, least=1, most=200)
    if normalised:
        return _normalised(problem, count)
    peak = problem.converted("peak")
    jump = net_jump(peak)
    if peak.d == 2:
        harmonics, thresholds = _circle(peak, count)
    else:
        harmonics, thresholds = _sphere(peak, min(count, 40))
    larger = np.flatnonzero(harmonics > thresholds)
    polynomial = jump > 0 and _piecewise_polynomial(peak)
    smooth = not size_of(peak).kinks
    reason = "kink" if polynomial else "harmonic" if len(larger) and smooth else "none"
    slope = 0.0
    if peak.d == 2 and len(larger):
        k = np.arange(1, len(harmonics) + 1)
        slope = float(np.max(k * (np.exp(harmonics) - np.exp(thresholds)) / 2))
    factor = math.log(problem.factor)
    return Obstruction(
        problem,
        reason,
        int(larger[0]) + 1 if len(larger) else 0,
        harmonics + factor,
        thresholds + factor,
        problem.factor * jump,
        problem.factor * slope,
    )


def _normalised(problem: Problem, count: int) -> Obstruction:
    """The same question for softmax attention on the circle."""
    if problem.d != 2:
        raise SphereflowError(f"normalised attention is known on the circle, d=2, got a problem with d={problem.d}.")
    k = np.arange(1, count + 1).astype(float)
    thresholds = log_ive(k, problem.beta) - log_ive(np.zeros(1), problem.beta)
    harmonics, mean = np.full(count, -np.inf), 0.0
    for shift, derivative, rounding in _shifted(problem):
        if rounding > 1e-6:  # kinks: nothing is read from contours then
            break
        waves = np.fft.fft(derivative)
        order = np.fft.fftfreq(_ANGLES, 1 / _ANGLES)
        v = np.fft.ifft(np.where(order == 0, 0.0, waves / np.where(order == 0, 1.0, 1j * order)))
        with np.errstate(over="ignore", invalid="ignore"):
            g = np.exp(-problem.beta / 2 * v)
        if not np.isfinite(g).all():
            break
        mean = mean or float(np.mean(g.real))  # on the real line, the first contour
        error = (_ROUNDING * _ANGLES + problem.beta * rounding) * float(np.abs(g).max())
        lower = np.abs(np.fft.fft(g)[1 : count + 1]) / _ANGLES - error
        with np.errstate(divide="ignore"):
            harmonics = np.maximum(harmonics, np.log(np.maximum(lower, 0.0)) - k * shift - math.log(mean))
    larger = np.flatnonzero(harmonics > thresholds)
    jump = net_jump(problem)
    pieces = _piecewise_polynomial(problem)
    bent = pieces and not size_of(problem).kinks and harmonics_of_v(problem, 2) > 1e-12
    kinked = bool(size_of(problem).kinks)
    reason = "kink" if jump > 0 and pieces else "polynomial" if bent else "none"
    if reason == "none" and len(larger) and not kinked:
        reason = "harmonic"
    first = int(larger[0]) + 1 if len(larger) else 0
    return Obstruction(problem, reason, first, harmonics, thresholds, jump, 0.0, True)


def harmonics_of_v(problem: Problem, least: int) -> float:
    """The largest harmonic of v of this order or above, on the real line."""
    _, derivative, _ = next(_shifted(problem))
    coefficients = np.abs(np.fft.fft(derivative)[least : _ANGLES // 2]) / _ANGLES
    return float(np.max(coefficients / np.arange(least, _ANGLES // 2)))


def net_jump(problem: Problem) -> float:
    """The largest jump of the second derivative of v across a kink, neurons that share it taken together."""
    total: dict[tuple[float, ...], float] = {}
    largest: dict[tuple[float, ...], float] = {}
    signed = _signed_kinks(problem)
    for j in problem.active:
        length = float(np.linalg.norm(problem.inner[j]))
        for place, jump in signed:
            height = (place - problem.bias[j]) / length
            if abs(height) >= 1:
                continue
            plane = np.round(np.append(problem.inner[j] / length, height), 10) + 0.0
            # The same hyperplane from the other side: the activation turns on where it turned off.
            side = 1.0 if tuple(plane) >= tuple(-plane + 0.0) else -1.0
            key = tuple(side * plane + 0.0)
            size = 2 * problem.outer[j] * length**2 * (1 - height**2) * jump
            total[key] = total.get(key, 0.0) + side * size
            largest[key] = max(largest.get(key, 0.0), abs(size))
    left = [abs(value) for key, value in total.items() if abs(value) > 1e-9 * largest[key]]
    return max(left, default=0.0)


def _signed_kinks(problem: Problem) -> list[tuple[float, float]]:
    """(place, jump of sigma' from left to right); the named activations all turn upwards."""
    if not isinstance(problem.activation, Activation):
        return list(size_of(problem).kinks)
    reach = float((np.linalg.norm(problem.inner, axis=1) + np.abs(problem.bias)).max(initial=0.0))
    return problem.activation.jumps(reach, signed=True)


def _piecewise_polynomial(problem: Problem) -> bool:
    if not isinstance(problem.activation, Activation):
        return problem.activation in ("linear", "relu", "leaky_relu")
    reach = float((np.linalg.norm(problem.inner, axis=1) + np.abs(problem.bias)).max(initial=0.0))
    return all(len(piece.series[1]) <= _POLYNOMIAL for piece in problem.activation.pieces(reach))


def _circle(problem: Problem, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of lower bounds of |v_k|, and of 2 Lambda_k / beta, for k from 1."""
    k = np.arange(1, count + 1)
    best = np.full(count, -np.inf)
    for shift, derivative, rounding in _shifted(problem):
        lower = np.abs(np.fft.fft(derivative)[k]) / _ANGLES - rounding
        with np.errstate(divide="ignore"):
            best = np.maximum(best, np.log(np.maximum(lower, 0.0)) - np.log(k) - k * shift)
    return best, math.log(2 / problem.beta) + log_ive(k.astype(float), problem.beta)


def _shifted(problem: Problem) -> Iterator[tuple[float, np.ndarray, float]]:
    r"""$\tau$, $v'(\theta-i\tau)$ at equally spaced angles and its error, from the real line outwards."""
    theta = 2 * np.pi * np.arange(_ANGLES) / _ANGLES
    length = np.linalg.norm(problem.inner, axis=1)
    phase = np.arctan2(problem.inner[:, 1], problem.inner[:, 0])
    sigma, strip = _continued(problem.activation)
    widest = float(length[problem.active].max(initial=0.0)) if len(problem.active) else 1.0
    farthest = _ENTIRE if math.isinf(strip) else math.asinh(strip / widest)
    for shift in _SHIFTS * farthest if strip > 0 else [0.0]:
        z = theta[:, None] - phase - 1j * shift
        s = length * np.cos(z) + problem.bias
        with np.errstate(over="ignore", invalid="ignore"):
            hidden = sigma(s) if shift > 0 else respond(problem.activation, s.real)[1]
            terms = -2 * problem.outer * hidden * length * np.sin(z)
        if not np.isfinite(terms).all():
            return
        rounding = _ROUNDING * float(np.abs(terms).sum(axis=1).max(initial=0.0))
        if strip == 0:  # kinks: harmonics fold over as the inverse square of the number of angles
            rounding += float(np.abs(problem.outer) @ length**2 * 8 / _ANGLES**2)
        yield float(shift), terms.sum(axis=1), rounding


def _continued(activation: str | Activation):
    if isinstance(activation, Activation):
        return (lambda s: np.asarray(activation.sigma(s))), activation.strip
    return _COMPLEX.get(activation, (None, 0.0))


def _sphere(problem: Problem, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The same in dimension three and above, degree by degree, to rounding."""
    degrees = np.arange(1, count + 1)
    alpha = (problem.d - 3) / 2
    nodes, weights = jacobi(2048 if size_of(problem).kinks else 256, alpha, alpha)
    weights = weights / weights.sum()
    length = np.linalg.norm(problem.inner, axis=1)
    safe = np.where(length > 0, length, 1.0)
    psi = respond(problem.activation, np.outer(nodes, length) + problem.bias)[0]
    cosines = np.clip((problem.inner / safe[:, None]) @ (problem.inner / safe[:, None]).T, -1, 1)
    size = np.abs(problem.outer) @ np.abs(psi).max(axis=0, initial=0.0)
    folded = 1e-4 if size_of(problem).kinks else _ROUNDING
    best = np.full(count, -np.inf)
    both = zip(_legendre(problem.d, count, nodes), _legendre(problem.d, count, cosines), strict=True)
    for at, (here, there) in enumerate(both):
        strength = 2 * problem.outer * ((weights * here) @ psi)
        lower = math.sqrt(max(float(strength @ there @ strength), 0.0)) - folded * size
        best[at] = math.log(lower) if lower > 0 else -np.inf
    return best, math.log(2 / problem.beta) + np.log(np.maximum(funk_hecke(problem.d, problem.beta, degrees), 1e-300))


def _legendre(d: int, count: int, t: np.ndarray) -> list[np.ndarray]:
    """The zonal polynomials of degree 1 to count in R^d, 1 at t = 1."""
    before, now, polynomials = np.ones_like(t), t, [t]
    for degree in range(1, count):
        before, now = now, ((2 * degree + d - 2) * t * now - degree * before) / (degree + d - 2)
        polynomials.append(now)
    return polynomials
