r"""Exact averages over pairs of tokens: the backward equation, meeting times and the invariant law of the overlap.

$$\partial_tf=\mu\,\partial_zf+\tfrac12q\,\partial_z^2f,\qquad f(0,\cdot)=\phi,\qquad E\,\phi(r(t))=f(t,z_0),
  \qquad z=\mathrm{artanh}\,r.$$

In z the coefficients are bounded where tokens meet, and the interval is cut where a pair is closer than rounding.
Central differences on two grids, extrapolated; in time an L-stable Runge-Kutta method of order four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.integrate import cumulative_simpson
from scipy.interpolate import make_interp_spline

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.backward import Bands, advance, cell_means, generator, read_between, solve_tridiagonal
from sphereflow.reading import real_array
from sphereflow.synchronisation.two_point import TwoPoint

Array = np.ndarray
Payoff = Callable[[Array], Array]

_STEPS = 80
_FAR = 12.0  # tokens at distance 2e-5 of each other, or of antipodes


@dataclass(frozen=True)
class Backward:
    """The generator of the overlap on `cells` cells between z = -left and z = right, with reflecting ends."""

    pair: TwoPoint
    cells: int = 1600
    left: float | None = None
    right: float = _FAR

    def __post_init__(self) -> None:
        whole_number("cells", self.cells, least=8, most=10**6)
        real_number("right", self.right, above=0, most=100)
        if self.left is not None:
            real_number("left", self.left, above=0, most=100)

    def averages(
        self, payoff: Payoff, times: Sequence[float] | float, start: float | str = "uniform"
    ) -> Float[Array, " times"]:
        r"""$E\,\phi(r(t))$ for a pair that starts at the overlap `start`, or as two independent uniform tokens.

        `payoff` is a function of arrays r; errors are about 1e-7 for smooth payoffs and 1e-4 for indicators.
        """
        t = np.atleast_1d(real_array("times", times))
        if t.ndim != 1 or not len(t) or t[0] < 0 or t[-1] > 1e6 or np.any(np.diff(t) < 0):
            raise SphereflowError("times must be numbers from 0 to 1e6 that do not decrease.")
        coarse, fine = (self._averages(payoff, t, start, cells) for cells in (self.cells, 2 * self.cells))
        return (4 * fine - coarse) / 3

    def _averages(self, payoff: Payoff, times: Array, start: float | str, cells: int) -> Array:
        z, bands = self._grid(cells)
        f, now, out = cell_means(lambda z: payoff(np.tanh(z)), z), 0.0, []
        for time in times:
            if time > now:
                f, now = advance(bands, f, time - now, 6 + int(_STEPS * (time - now) / times[-1])), time
            out.append(_read(self.pair.d, z, f, start))
        return np.array(out)

    def _grid(self, cells: int, right: float | None = None) -> tuple[Array, Bands]:
        left = self.left if self.left is not None else (_FAR if self.pair.covariance.is_odd else 7.0)
        end = self.right if right is None else right
        z = np.linspace(-left, end, cells + 1)
        step = z[1] - z[0]
        drift, squared = self.pair.coefficients(z)
        if np.any(np.abs(drift) * step > squared):
            raise SphereflowError(f"{cells} cells are too few for d={self.pair.d}: ask for more.")
        return z, generator(drift, squared, step)

    def meeting_time(self, distance: float, start: float = 0.0) -> tuple[float, float]:
        r"""Mean and variance of the time after which $|x-y|$ is first below `distance`: $LT=-1$, $LT_2=-2T$."""
        gap = real_number("distance", distance, above=0, most=1.0) ** 2 / 2
        if self.pair.lyapunov() >= 0 or self.pair.covariance.is_odd:
            raise SphereflowError(
                "two tokens of this field need not meet: the Lyapunov exponent must be negative and "
                "the covariance not odd."
            )
        end = np.log((2 - gap) / gap) / 2
        results = []
        for cells in (4 * self.cells, 8 * self.cells):
            z, (down, diagonal, up) = self._grid(cells, right=float(end))
            inner = (down[:-1], diagonal[:-1], up[:-1])
            first = solve_tridiagonal(inner, -np.ones(cells))
            second = solve_tridiagonal(inner, -2 * first)
            z0 = np.arctanh(start)
            mean, square = (read_between(z[:-1], g, z0) for g in (first, second))
            results.append(np.array([mean, square]))
        mean, square = (4 * results[1] - results[0]) / 3
        return float(mean), float(square - mean**2)

    @cached_property
    def invariant(self) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        r"""(z, weights): the invariant law $\propto\frac1qe^{\int2\mu/q}dz$ of the overlap of a chaotic flow.

        It lives on (-1, 1) and exists when $\lambda>0$; the weights sum to one.
        """
        if self.pair.lyapunov() <= 0:
            raise SphereflowError("the overlap has an invariant density only when the Lyapunov exponent is positive.")
        # The tail behaves as exp(-2 lambda z / q): follow it down to rounding.
        tail = 40 * self.pair.log_distance_variance / (2 * self.pair.lyapunov())
        left = tail if self.pair.covariance.is_odd else 18.0
        z = np.linspace(-left, max(tail, 12.0), 20 * self.cells + 1)
        drift, squared = self.pair.coefficients(z)
        exponent = cumulative_simpson(2 * drift / squared, x=z, initial=0) - np.log(squared)
        weights = np.exp(exponent - exponent.max())
        return z, weights / weights.sum()

    def invariant_average(self, payoff: Payoff) -> float:
        """The mean of a smooth function of the overlap under the invariant law."""
        z, weights = self.invariant
        return float(np.sum(weights * payoff(np.tanh(z))))

    def invariant_below(self, r: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probability of an overlap below r under the invariant law."""
        z, weights = self.invariant
        return make_interp_spline(z, cumulative_simpson(weights, initial=0), k=3)(np.arctanh(np.asarray(r)))


def energy_decay(pair: TwoPoint, times: Sequence[float]) -> Float[Array, " times"]:
    r"""$E\Phi(t)/E\Phi(0)=E[1-r(t)]$ for independent uniform tokens, any number of them, without attention."""
    return Backward(pair).averages(lambda r: 1 - r, times)


def _read(d: int, z: Array, f: Array, start: float | str) -> float:
    if start == "uniform":
        # Overlaps of uniform tokens have density (1-r^2)^{(d-3)/2}, that is sech(z)^{d-1} in z.
        weights = np.cosh(z) ** (1.0 - d)
        return float(np.sum(weights * f) / np.sum(weights))
    return read_between(z, f, float(np.arctanh(real_number("start", start, above=-1, most=1 - 1e-15))))
