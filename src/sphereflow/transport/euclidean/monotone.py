r"""On the line: piecewise-linear increasing maps, which schedules make exactly, and the best knots for them.

The monotone rearrangement $T^*=F_*^{-1}\circ F_B$ has the log-slope $g(x)=\log\rho_B(x)-\log\rho_*(T^*(x))$.
Interpolated at K knots of density $\propto(\rho_B g'^2)^{1/3}$ it leaves

$$\mathrm{KL}=\frac{C_{KL}}{K^2},\quad C_{KL}=\frac{Z^3}{24};\qquad \mathrm{TV}=\frac{C_{TV}}{K},\quad
C_{TV}=\frac Z8\int\rho_B^{2/3}|g'|^{1/3}dx,\qquad Z=\int(\rho_B g'^2)^{1/3}dx,$$

to leading order, with the same constant in both directions of KL. A piece makes at most one new kink, so no schedule of
S switches does better than $C_{KL}/S^2$ to leading order.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.schedule import Schedule

_REACH = 12.0  # tails are followed as far as this many standard deviations of a Gaussian of the same mass
_FINE = 20_000  # points of the grid in y: the monitor peaks sharply where the target is rare between two modes
_COARSE = 4_000  # points spread by mass, which follow heavy tails
_FLAT = 1e-10


def piecewise_linear(
    x: ArrayLike, y: ArrayLike, left: float, right: float, direction: ArrayLike | None = None
) -> Schedule:
    """The increasing map with knots x -> y and slopes `left`, `right` beyond them, along a unit vector u.

    At most K + 2 pieces for K knots: one that scales the left half-space, one per knot, one translation. Each knot is
    met where the pieces before it have left it. Pieces that would do nothing are not emitted.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    u = np.ones(1) if direction is None else np.asarray(direction, dtype=float)
    if x.ndim != 1 or x.size == 0 or x.shape != y.shape:
        raise SphereflowError(f"knots and values must be two lists of the same length, got {x.shape} and {y.shape}.")
    if not ((np.diff(x) > 0).all() and (np.diff(y) > 0).all() and left > 0 and right > 0):
        raise SphereflowError("an increasing map needs increasing knots, increasing values and positive end slopes.")
    slopes = np.append(np.diff(y) / np.diff(x), right)
    growth = np.diff(np.log(slopes), prepend=0.0)
    images = x[0] + np.append(0.0, np.cumsum(slopes[:-1] * np.diff(x)))
    w = np.concatenate([[-np.log(left)], growth, [np.sign(y[0] - x[0])]])
    a = np.concatenate([[-1.0], np.ones(len(x)), [0.0]])
    b = np.concatenate([[x[0]], -images, [1.0]])
    tau = np.concatenate([np.ones(len(x) + 1), [abs(y[0] - x[0])]])
    kept = np.abs(w * tau) > 1e-14
    return Schedule(w[kept, None] * u, a[kept, None] * u, b[kept], tau[kept])


@dataclasses.dataclass(frozen=True)
class Rearrangement:
    """The increasing map that carries `base` to `target`, with all that is known about approximating it."""

    base: Law
    target: Law

    def __post_init__(self) -> None:
        if self.base.d != 1 or self.target.d != 1:
            raise SphereflowError(
                f"the monotone rearrangement lives on the line; these laws have d = {self.base.d}, {self.target.d}."
            )

    def forward(self, x: ArrayLike) -> np.ndarray:
        return self.target.quantile(self.base.log_cdf(x), self.base.log_sf(x))

    def backward(self, y: ArrayLike) -> np.ndarray:
        return self.base.quantile(self.target.log_cdf(y), self.target.log_sf(y))

    def log_slope(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """g at x, where y is the image of x."""
        return self.base.log_density(x[..., None]) - self.target.log_density(y[..., None])

    def log_slope_rate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """g' in closed form: the score of the base minus that of the target times the slope."""
        return self.base.score(x) - self.target.score(y) * np.exp(self.log_slope(x, y))

    @cached_property
    def grid(self) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) on a grid that is fine in y and reaches far into both tails."""
        mass = np.linspace(-_REACH, _REACH, _COARSE)
        spread = self.target.quantile(log_ndtr(mass), log_ndtr(-mass))
        bulk = spread[[np.searchsorted(mass, -6.0), np.searchsorted(mass, 6.0)]]
        y = np.unique(np.concatenate([spread, np.linspace(bulk[0], bulk[1], _FINE)]))
        x = self.backward(y)
        kept = np.append(True, np.diff(x) > 0) & np.isfinite(x)
        return x[kept], y[kept]

    @cached_property
    def monitor(self) -> np.ndarray:
        """The knot density, per unit of y: (rho_B g'^2)^(1/3) e^(-g)."""
        x, y = self.grid
        rate, log_slope = self.log_slope_rate(x, y), self.log_slope(x, y)
        log_base = self.base.log_density(x[:, None])
        return np.exp(log_base / 3 - log_slope) * np.abs(rate) ** (2 / 3)

    @cached_property
    def total(self) -> float:
        """Z, the integral of the knot density."""
        return float(np.trapezoid(self.monitor, self.grid[1]))

    @property
    def kl_constant(self) -> float:
        return self.total**3 / 24

    @cached_property
    def tv_constant(self) -> float:
        x, y = self.grid
        rate, log_slope = self.log_slope_rate(x, y), self.log_slope(x, y)
        log_base = self.base.log_density(x[:, None])
        spread = np.trapezoid(np.exp(2 * log_base / 3 - log_slope) * np.abs(rate) ** (1 / 3), y)
        return float(self.total * spread / 8)

    def knots(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) of the best `count` knots, and of every place where a density jumps."""
        y = self.grid[1]
        levels = (np.arange(whole_number("the number of knots", count)) + 0.5) / count
        if self.total > _FLAT:
            steps = np.diff(y) * (self.monitor[1:] + self.monitor[:-1]) / 2
            images = np.interp(levels, np.append(0.0, np.cumsum(steps)) / steps.sum(), y)
        else:  # an affine map: any knots do
            images = self.target.quantile(np.log(levels), np.log1p(-levels))
        jumps = self.jumps
        images = _apart(np.concatenate([images, jumps])) if self.total > _FLAT or not jumps.size else jumps
        return self.backward(images), images

    @cached_property
    def jumps(self) -> np.ndarray:
        """Images of the places where a density jumps: knots must be there."""
        images = np.array([*self.target.breaks, *np.ravel(self.forward(np.array([*self.base.breaks])))])
        return _apart(images[np.isfinite(images) & np.isfinite(self.backward(images))])

    def schedule(
        self, knots: int, *, x: ArrayLike | None = None, end_slopes: tuple[float, float] | None = None
    ) -> Schedule:
        """The interpolation of the map at its best knots (or at `x`), with its own slopes at the end knots beyond."""
        if x is None:
            x, y = self.knots(knots)
        else:
            x = np.asarray(x, dtype=float)
            y = self.forward(x)
        ends = np.exp(self.log_slope(x[[0, -1]], y[[0, -1]])) if end_slopes is None else np.array(end_slopes)
        if end_slopes is None and len(x) > 1:  # at a jump the slope of the last cell goes on
            cell = (np.diff(y) / np.diff(x))[[0, -1]]
            ends = np.where(np.isin(y[[0, -1]], self.jumps), cell, ends)
        return piecewise_linear(x, y, float(ends[0]), float(ends[1]))


def _apart(points: np.ndarray) -> np.ndarray:
    """In order, without those that coincide up to rounding."""
    points = np.unique(points)
    return points if points.size == 0 else points[np.append(True, np.diff(points) > 1e-12 * max(1.0, np.ptp(points)))]
