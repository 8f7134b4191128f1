r"""Laws symmetric about one axis under attention with values V and scores $\beta x^\top By$, in any dimension: rings.

$$\dot\theta=-v_1\sin\theta\,m_1+v_2\cos\theta\,m_2,\qquad V=\mathrm{diag}(v_1,v_2I),\ B=\mathrm{diag}(b_1,b_2I).$$

A ring at the polar angle $\theta_j$ with mass $a_j$, seen from $\theta$, has the weight
$a_je^{\beta b_1\cos\theta\cos\theta_j}\kappa^{-\nu}I_\nu(\kappa)$ and the barycentre
$(\cos\theta_j,\frac{I_{\nu+1}}{I_\nu}(\kappa)\sin\theta_j)$, where $\kappa=\beta b_2\sin\theta\sin\theta_j$ and
$\nu=(d-3)/2$. The reduction is exact; d = 2 holds the laws on the circle that a reflection leaves alone. So are the
distances: with $v_2b_2>v_1b_1$ the law goes to the equator, and $W_p^p=E|\text{latitude}|^p$, since moving along
meridians is optimal; with $v_1b_1>v_2b_2$ it goes to the two poles with the masses of the two hemispheres, filled by
angle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.special import ive

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.meanfield.circle_density import save_times
from sphereflow.meanfield.concentrating import ConcentratingLaw, fill_two_atoms
from sphereflow.numerics.quadrature import interval
from sphereflow.reading import density_values, real_array
from sphereflow.results import Variables, recorded_call, span

_KNOTS = 6000
_LARGEST = 1e8  # of kappa


@dataclass(frozen=True, eq=False, repr=False)
class RingFlow(ConcentratingLaw):
    r"""Polar angles (T, n) of rings with masses at the times `ts`; `value` is $(v_1,v_2)$, `form` $(b_1,b_2)$."""

    d: int
    beta: float
    value: tuple[float, float]
    form: tuple[float, float]
    polar: Float[np.ndarray, "T n"]
    masses: Float[np.ndarray, " n"]

    @property
    def on_equator(self) -> bool:
        """Whether the push-forward of the initial law lies on the equator, not at the poles."""
        return self.value[1] * self.form[1] > self.value[0] * self.form[0]

    def wasserstein(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """W_p to the push-forward of the initial law, exact for these rings."""
        p = real_number("p", p, least=1)
        if self.on_equator:
            return self._mean(np.abs(self.polar - np.pi / 2), p)
        upper = float(self.masses[self.polar[0] < np.pi / 2].sum())
        rows = [fill_two_atoms(row, np.pi - row, self.masses, upper, p) for row in self.polar]
        return np.array(rows)

    def support_distance(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """The distance to the support of the push-forward, its masses not asked for: at most W_p."""
        off = np.abs(self.polar - np.pi / 2)
        return self._mean(off if self.on_equator else np.pi / 2 - off, real_number("p", p, least=1))

    def top_distance(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """The distance to the leading eigenspace of V."""
        off = np.abs(self.polar - np.pi / 2)
        return self._mean(off if self.value[1] > self.value[0] else np.pi / 2 - off, real_number("p", p, least=1))

    def _mean(self, angle: np.ndarray, p: float) -> np.ndarray:
        return np.asarray((angle**p @ self.masses) ** (1 / p))

    def variables(self) -> Variables:
        return {
            "t": ("t", self.ts),
            "polar": (("t", "ring"), self.polar),
            "mass": ("ring", self.masses),
            "W_1": ("t", self.wasserstein(1)),
            "W_2": ("t", self.wasserstein(2)),
            "top_distance": ("t", self.top_distance()),
        }

    def facts(self) -> list[str]:
        where = "the equator" if self.on_equator else "the poles"
        return [f"rings in dimension {self.d}, beta = {self.beta:g}, {span(self.ts)}", *self.phases(f"W_2 to {where}")]


@recorded_call
def evolve_rings(
    d: int,
    beta: float,
    value: Sequence[float] = (1.0, 0.5),
    form: Sequence[float] = (1.0, 1.0),
    density: Callable[[np.ndarray], np.ndarray] | None = None,
    t1: float | None = None,
    *,
    rings: tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray] | None = None,
    nodes: int = 120,
    saveat: int | Sequence[float] | np.ndarray = 161,
    tol: float = 1e-7,
) -> RingFlow:
    r"""Follow a law symmetric about an axis on S^{d-1}, d >= 2: concentration, rest and the terminal phase in one run.

    `density` is a function of the height $\cos\theta$ with respect to the uniform law (uniform by default), on `nodes`
    Gauss nodes of $\theta$, which must resolve the kernel: at least $3\sqrt{\beta b}$; or `rings` = (polar angles,
    masses). `t1`: final time, 20 by default; `saveat`: as for `evolve_density`.
    """
    d, beta = whole_number("d", d, least=2), real_number("beta", beta, above=0)
    v, b = (_pair(name, pair) for name, pair in (("value", value), ("form", form)))
    tol = real_number("tol", tol, least=1e-12, most=1e-2)
    if b[0] <= 0 or b[1] <= 0 or v[0] * b[0] == v[1] * b[1]:
        raise SphereflowError("form must be positive, and the two products of value and form must differ.")
    if beta * b[1] > _LARGEST:
        raise SphereflowError(f"beta times form must be at most {_LARGEST:g}, got {beta * b[1]:g}.")
    theta, masses = _given(rings) if rings is not None else _gauss(d, density, nodes, beta * max(b))
    times = save_times(t1, saveat, usual=20.0)

    def speed(t: float, at: np.ndarray) -> np.ndarray:
        return ring_speed(at, masses, d, beta, v, b)

    solution = solve_ivp(speed, (0.0, times[-1]), theta, method="DOP853", t_eval=times, rtol=tol, atol=tol)
    if not solution.success:
        raise SphereflowError("the rings could not be followed to the end: try a smaller t1 or a larger tol.")
    return RingFlow(times, d, beta, v, b, solution.y.T, masses)


def ring_speed(
    theta: Float[np.ndarray, " n"],
    masses: Float[np.ndarray, " n"],
    d: int,
    beta: float,
    v: tuple[float, float],
    b: tuple[float, float],
) -> Float[np.ndarray, " n"]:
    """The velocity of every ring."""
    cos, sin = np.cos(theta), np.sin(theta)
    log_weight, shrunk = ring_average(d, beta * b[1] * np.abs(sin[:, None] * sin[None, :]))
    log_weight = log_weight + beta * b[0] * cos[:, None] * cos[None, :]
    weight = masses * np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    along, across = weight @ cos, (weight * shrunk) @ sin
    return np.asarray(-v[0] * sin * along + v[1] * cos * across)


def ring_average(d: int, kappa: Float[np.ndarray, "..."]) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    r"""$\log\kappa^{-\nu}I_\nu(\kappa)$ up to a constant, and $I_{\nu+1}/I_\nu$, $\nu=(d-3)/2$, to ten digits."""
    if d == 2:
        return kappa + np.log1p(np.exp(-2 * kappa)), np.tanh(kappa)
    log_weight, ratio = _tables(d)
    s = np.log1p(kappa)
    return kappa - (d - 2) / 2 * s + log_weight(s), ratio(s)


@lru_cache(maxsize=16)
def _tables(d: int) -> tuple[CubicSpline, CubicSpline]:
    r"""Splines in $\log(1+\kappa)$: log weight less its growth $\kappa-(\nu+\frac12)\log(1+\kappa)$, and ratio."""
    nu = (d - 3) / 2
    s = np.linspace(0, np.log1p(_LARGEST), _KNOTS)
    kappa = np.expm1(s)
    # I_{nu+1}/I_nu = 1/(2(nu+1)/kappa + I_{nu+2}/I_{nu+1}), from far above downwards: stable, and fine at kappa = 0.
    ratio = np.zeros_like(kappa)
    for order in np.arange(nu + 100 + int(nu + nu**2), nu + 0.5, -1):
        ratio = kappa / (2 * order + kappa * ratio)
    large = kappa > 30 + nu**2
    low = ive(nu, kappa[large])
    ratio[large] = ive(nu + 1, kappa[large]) / low
    slope = CubicSpline(s, (ratio - 1) * (1 + kappa) + nu + 0.5)  # d/ds of the log weight less its growth
    return slope.antiderivative(), CubicSpline(s, ratio)


def _pair(name: str, given: Sequence[float]) -> tuple[float, float]:
    row = real_array(name, given)
    if row.shape != (2,):
        raise SphereflowError(f"{name} must be two numbers, along the axis and across it, got the shape {row.shape}.")
    return float(row[0]), float(row[1])


def _gauss(
    d: int, density: Callable[[np.ndarray], np.ndarray] | None, nodes: int, sharpness: float
) -> tuple[np.ndarray, np.ndarray]:
    n = whole_number("nodes", nodes, least=8)
    if n < 2 * np.sqrt(sharpness):
        raise SphereflowError(f"nodes must be at least {int(np.ceil(2 * np.sqrt(sharpness)))} at this beta, got {n}.")
    theta, weights = interval(0, np.pi, n)
    values = np.ones(n) if density is None else density_values("density", density, np.cos(theta))
    masses = weights * np.sin(theta) ** (d - 2) * values
    if masses.sum() <= 0:
        raise SphereflowError(f"in dimension {d} no ring of the grid has mass: give more nodes or a smaller d.")
    occupied = masses > 0
    return theta[occupied], masses[occupied] / masses.sum()


def _given(rings: object) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(rings, (tuple, list)) or len(rings) != 2:
        raise SphereflowError("rings must be (polar angles, masses), two rows of the same length.")
    theta, masses = (real_array("rings", part) for part in rings)
    if theta.ndim != 1 or theta.shape != masses.shape or not theta.size:
        raise SphereflowError("rings must be (polar angles, masses), two rows of the same length.")
    if theta.min() < 0 or theta.max() > np.pi or masses.min() < 0 or masses.sum() <= 0:
        raise SphereflowError("rings need polar angles between 0 and pi and masses that are not negative.")
    return theta, masses / masses.sum()
