r"""Densities on the circle to start from, and their quantiles.

$$F(\theta)=\int_{-\pi}^\theta\rho\,\frac{d\theta'}{2\pi},\qquad \Theta(m)=F^{-1}(m),\quad 0<m<1 .$$

Densities are taken with respect to $d\theta/2\pi$, so that the uniform law is $\rho=1$. The distribution function is
the integral of a Fourier series, exact to rounding for smooth densities; it is inverted by Newton's method kept inside
a bracket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float
from scipy import special

from sphereflow.errors import one_of, real_number
from sphereflow.numerics.roots import increasing_roots
from sphereflow.reading import density_values

Density = Callable[[np.ndarray], np.ndarray]

_MOST_SAMPLES = 2**14
_NEGLIGIBLE = 1e-15
_CHUNK = 20_000
_SETTLED = 1e-13  # a step of Newton's method after which the next would be rounding


def _bumps(theta: np.ndarray) -> np.ndarray:
    return 0.6 * von_mises(-1.0, 6.0)(theta) + 0.4 * von_mises(1.4, 6.0)(theta)


def von_mises(centre: float, concentration: float) -> Density:
    r"""$\rho(\theta)=e^{\kappa\cos(\theta-c)}/I_0(\kappa)$."""
    centre, concentration = real_number("centre", centre), real_number("concentration", concentration, least=0)
    return lambda theta: np.exp(concentration * (np.cos(theta - centre) - 1)) / special.ive(0, concentration)


NAMED: dict[str, Density] = {
    "uniform": lambda theta: np.ones_like(theta),
    "uniform+cos": lambda theta: 1 + 0.5 * np.cos(theta),
    "bump": von_mises(0.0, 4.0),
    "two-bumps": _bumps,
}


@dataclass(frozen=True, eq=False)
class StartingLaw:
    r"""A probability density $\rho=\sum_k c_ke^{ik\theta}$ on the circle, $c_0=1$; `modes[k]` is $c_k$, k >= 0."""

    modes: Complex[np.ndarray, " k"]
    name: str

    def density(self, theta: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The density with respect to dtheta/2pi."""
        return _series(self.modes, theta)

    def cumulative(self, theta: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The mass between -pi and theta."""
        k = np.arange(1, len(self.modes))
        waves = np.concatenate([[0.0], self.modes[1:] / (1j * k)])
        start = _series(waves, np.array([-np.pi]))
        return (theta + np.pi + _series(waves, theta) - start) / (2 * np.pi)

    def blended(self, share: float) -> StartingLaw:
        """The mixture of this law, with weight `share`, and the uniform one."""
        return StartingLaw(np.concatenate([self.modes[:1], share * self.modes[1:]]), self.name)

    def quantiles(self, mass: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The angles in (-pi, pi) that have the given masses to their left."""
        mass = np.asarray(mass, dtype=float)
        edges = np.linspace(-np.pi, np.pi, max(257, 4 * len(self.modes) + 1))
        table = np.maximum.accumulate(self.cumulative(edges))
        pieces = [self._invert(part, edges, table) for part in np.array_split(mass, max(1, len(mass) // _CHUNK))]
        return np.concatenate(pieces)

    def _invert(self, mass: np.ndarray, edges: np.ndarray, table: np.ndarray) -> np.ndarray:
        cell = np.clip(np.searchsorted(table, mass, side="right") - 1, 0, len(edges) - 2)
        low, high = edges[cell], edges[cell + 1]
        theta = np.clip(np.interp(mass, table, edges), low, high)

        def missing(theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
            value = self.cumulative(theta) - mass[rows]
            return value, value * (2 * np.pi) / np.maximum(self.density(theta), 1e-12), _SETTLED

        return increasing_roots(missing, low, high, theta)


def starting_law(density: Density | str | StartingLaw) -> StartingLaw:
    """Check a density given by name or as a function of the angle, and expand it in Fourier modes."""
    if isinstance(density, StartingLaw):
        return density
    name = density if isinstance(density, str) else getattr(density, "__name__", "a function").strip("<>")
    function = NAMED[one_of("density", density, tuple(NAMED))] if isinstance(density, str) else density
    samples = 64
    while True:
        theta = 2 * np.pi * np.arange(samples) / samples
        values = density_values("density", function, theta)
        modes = np.fft.rfft(values) / samples
        if np.abs(modes[-samples // 8 :]).max() < _NEGLIGIBLE * modes[0].real or samples == _MOST_SAMPLES:
            break
        samples *= 2
    modes = modes[: samples // 2] / modes[0].real
    last = int(np.max(np.nonzero(np.abs(modes) > _NEGLIGIBLE)))
    return StartingLaw(modes[: last + 1], name)


def _series(modes: np.ndarray, theta: np.ndarray) -> np.ndarray:
    r"""$\mathrm{Re}(c_0+2\sum_{k\ge1}c_ke^{ik\theta})$."""
    waves = np.exp(1j * np.multiply.outer(theta, np.arange(1, len(modes))))
    return modes[0].real + 2 * (waves @ modes[1:]).real
