r"""The time of collapse as a random variable: when do independent tokens reach a mean overlap?

Let $m=|\bar x|^2$ be the mean of all overlaps and $\gamma=(nm-1)/(n-1)$. If all pairs have this overlap
($n\lesssim2d$),
$$dm=\tfrac{n-1}nD(\gamma)\,d\tau+\sqrt{q}\,dB,\qquad
  q=\tfrac4d\Big[S\,m(1-m)^2+\tfrac{P-S}n\,m(1-m)\Big],$$
with D, P, S of `equiangular`. At $s=0$ this is $dy=(1-\frac{4-3m}d)d\tau+\frac2{\sqrt d}dB$ for
$y=\log\frac m{1-m}$, and the mean time to $m=\frac12$ is near $\log(n-1)/(1-4/d)$. With many more tokens than
dimensions and $s=0$ the cloud is a Moebius image of the uniform law, at hyperbolic distance $\rho$ of its centre:
$$d\rho=\tfrac{(d-1)m}{2d}\coth\rho\,d\tau+\sqrt{m/d}\,dB,\qquad
  m=\psi_d(\rho)^2,\ \psi_d=E\,\frac{u+\tanh\rho}{1+u\tanh\rho},$$
u a coordinate of a uniform point. Mean and variance of a first passage solve $LT=-1$, $LV=-qT'^2$ with the generator L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import linalg, special

from sphereflow.errors import SphereflowError, real_number
from sphereflow.numerics.quadrature import jacobi
from sphereflow.random_transformers.collapse import Architecture, effective_sharpness
from sphereflow.random_transformers.equiangular import drift
from sphereflow.random_transformers.softmax_moments import moments
from sphereflow.results import Result, Variables, recorded_call

_CELLS, _STARTS = 3000, 400
_LEAST_D = 8  # the equations are of first order in 1/d


@dataclass(frozen=True, eq=False, repr=False)
class CollapseTime(Result):
    """When tokens reach the `level`: mean and standard deviation over networks, in layers and in diffusive time.

    `noise` is the limit that describes the network ("diffusive" is the one in which this is computed), `attention`
    says where the temperature is ("flat", "soft", "frozen"), `tokens` which equation was solved ("few", "many").
    """

    layers: float
    layers_deviation: float
    time: float
    time_deviation: float
    noise: str
    attention: str
    tokens: str

    def variables(self) -> Variables:
        return {
            "layers": ((), np.asarray(self.layers)),
            "layers_deviation": ((), np.asarray(self.layers_deviation)),
            "time": ((), np.asarray(self.time)),
            "time_deviation": ((), np.asarray(self.time_deviation)),
        }

    def facts(self) -> list[str]:
        return [
            f"collapse after {self.layers:.0f} layers, standard deviation {self.layers_deviation:.0f} over networks",
            f"diffusive time {self.time:.3g} +- {self.time_deviation:.2g}",
            f"regime: {self.noise} noise, {self.attention} attention, {self.tokens} tokens for their dimension",
        ]


@recorded_call
def collapse_time(architecture: Architecture, level: float = 0.5) -> CollapseTime:
    r"""When independent tokens reach $m=$ `level`, m the mean of all overlaps (own ones included), and how surely.

    To first order in 1/d, from dimension 8 on. With more than two tokens per dimension only flat attention is known.
    Attention is "flat" while logits are below 1/2 in size, "frozen" from $s=\sqrt{2\log n}$ on.
    """
    a, level = architecture, real_number("level", level, above=1 / architecture.n, most=0.99)
    if a.d < _LEAST_D:
        raise SphereflowError(f"the time of collapse is known to first order in 1/d, for d of at least 8, got d={a.d}.")
    s, many = effective_sharpness(a.sharpness, a.n), a.n > 2 * a.d
    attention = "flat" if s <= 0.5 else "soft" if s < math.sqrt(2 * math.log(a.n)) else "frozen"
    if many and attention != "flat":
        raise SphereflowError(
            f"with more than 2 tokens per dimension (n={a.n}, d={a.d}) the time of collapse is known for flat "
            f"attention only, beta times weight_scale at most 0.5, got {a.sharpness:g}; measure runs the network."
        )
    mean, deviation = passage_of_many(a.n, a.d, level) if many else passage_of_few(a.n, a.d, s, level)
    pace = a.layers_per_time
    kind = "many" if many else "few"
    return CollapseTime(pace * mean, pace * deviation, mean, deviation, a.clock.regime, attention, kind)


def passage_of_few(
    n: int, d: float, s: float, level: float = 0.5, starts: Float[np.ndarray, " k"] | None = None
) -> tuple[float, float]:
    """Mean and standard deviation of the time to m = `level`, all pairs with one overlap; `starts` are other m_0."""
    m0 = starting_overlaps(n, d) if starts is None else np.sort(starts)
    y = np.linspace(special.logit(m0[0]) - 4, special.logit(level), _CELLS + 1)
    m = special.expit(y)
    gamma = (n * m - 1) / (n - 1)
    # Below zero overlap, where tokens stay for a moment, attention is taken as at zero overlap.
    known, inside = moments(n, s), np.maximum(gamma, 0.0)
    own, shared = (inside + (1 - inside) * np.asarray(part(inside)) for part in (known.f, known.g))
    pull = np.asarray(drift(inside, n, s, d)) * (n - 1) / n
    with_mean = np.maximum(m, 1 / n)
    variance = 4 / d * (shared / with_mean + (own - shared) / (n * with_mean * (1 - with_mean)))
    speed = pull / (with_mean * (1 - with_mean)) + variance / 2 * (2 * with_mean - 1)
    return _averaged(y, speed, variance, special.logit(m0))


def passage_of_many(n: int, d: int, level: float = 0.5) -> tuple[float, float]:
    """The same at s = 0 for many more tokens than dimensions: the distance of the centre in hyperbolic space."""
    m0 = starting_overlaps(n, d)
    u, weight = jacobi(60, (d - 3) / 2, (d - 3) / 2)

    def mean_overlap(log_rho: np.ndarray) -> np.ndarray:
        t = np.tanh(np.exp(log_rho))[:, None]
        return np.asarray((((u + t) / (1 + u * t)) @ weight) ** 2)

    wide = np.linspace(math.log(m0[0]) / 2 - 3, math.log(12.0), _CELLS + 1)
    last = float(np.interp(level, mean_overlap(wide), wide))
    z = np.linspace(wide[0], last, _CELLS + 1)
    rho, m = np.exp(z), mean_overlap(z)
    variance = m / (d * rho * rho)
    speed = (d - 1) / 2 * variance * rho / np.tanh(rho) - variance / 2
    return _averaged(z, speed, variance, np.interp(m0, m, z))


def starting_overlaps(n: int, d: float) -> Float[np.ndarray, " k"]:
    r"""Quantiles of $m_0$ of independent uniform tokens: a Gamma law with its mean 1/n and variance
    $2(n-1)/(n^3d)$."""
    shape = n * d / (2 * (n - 1))
    chances = (np.arange(_STARTS) + 0.5) / _STARTS
    return np.minimum(special.gammaincinv(shape, chances) / (n * shape), 1 - 1e-9)


def _averaged(z: np.ndarray, speed: np.ndarray, variance: np.ndarray, starts: np.ndarray) -> tuple[float, float]:
    """Over the starts; those beyond the last point of the grid have arrived."""
    first, spread = (np.interp(starts, z, each) for each in first_passage_moments(z, speed, variance))
    return float(np.mean(first)), math.sqrt(float(np.mean(spread) + np.var(first)))


def first_passage_moments(
    z: Float[np.ndarray, " m"], speed: Float[np.ndarray, " m"], variance: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    r"""Mean T and variance V of the time to the last point of the grid; the first point reflects.

    Rates by exponential fitting, exact for constant coefficients: no oscillations however small the variance.
    $LV=-qT'^2$ rather than $LU=-2T$ for the mean square: nothing cancels when the time is nearly certain.
    """
    h = z[1] - z[0]
    tilt = 2 * h * speed[:-1] / variance[:-1]
    up = variance[:-1] / (2 * h * h) / special.exprel(-tilt)
    down = variance[:-1] / (2 * h * h) / special.exprel(np.minimum(tilt, 700.0))
    down[0] = 0.0
    bands = np.zeros((3, len(up)))
    bands[0, 1:], bands[1], bands[2, :-1] = up[:-1], -(up + down), down[1:]
    mean = linalg.solve_banded((1, 1), bands, -np.ones(len(up)))
    mean = np.append(mean, 0.0)
    slope = np.gradient(mean, h)[:-1]
    return mean, np.append(linalg.solve_banded((1, 1), bands, -variance[:-1] * slope**2), 0.0)
