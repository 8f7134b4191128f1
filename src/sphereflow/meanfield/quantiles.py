r"""Where the flow map is kept: nodes with a label s in (0, 1) that moves with them, and how it is differentiated.

$$s=\lambda\,m+(1-\lambda)\frac{\alpha+\pi}{2\pi},\qquad \int h\,d\mu=\int_0^1h(\Theta(s))\,\frac{dm}{ds}\,ds,\qquad
  \rho=2\pi\,\frac{dm/ds}{\Theta'(s)}\quad\text{with respect to }\frac{d\theta}{2\pi},$$

where m is the mass to the left and alpha the angle at the start. With $\lambda=1$ the label is the mass and $\Theta$
the quantile function; with $\lambda=\frac12$ half of the nodes are spread by mass and half by angle, so that
$\Theta(s)$ is no steeper than $4\pi$ at the start however small the density is.

Two grids. `Midpoints`: $s_j=(j+\frac12)/n$; since $\Theta(s)-2\pi s$ is periodic, sums converge faster than any power
of n while the flow map is resolved. `Panels`: Gauss-Legendre nodes on panels that are halved where $\Theta$ is not
resolved, for late times, when it is nearly a staircase (clusters).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import legendre
from scipy.interpolate import PchipInterpolator

from sphereflow.meanfield.initial import StartingLaw
from sphereflow.numerics.quadrature import interval

ORDER = 12  # nodes on a panel
_BASIS_NODES, _BASIS_WEIGHTS = interval(-1, 1, ORDER)
_TO_COEFFICIENTS = (
    legendre.legvander(_BASIS_NODES, ORDER - 1).T * _BASIS_WEIGHTS * (np.arange(ORDER)[:, None] + 0.5)
)  # values at the nodes -> Legendre coefficients
_RESOLVED = 1e-7  # last Fourier coefficients of a flow map that is differentiated as a Fourier series


@dataclass(frozen=True, eq=False)
class LabelGrid(abc.ABC):
    """Nodes for the law `law`; `share` is the part of them spread by mass, the others are spread by angle."""

    law: StartingLaw
    share: float

    @property
    @abc.abstractmethod
    def labels(self) -> Float[np.ndarray, " n"]:
        """Positions s of the nodes in (0, 1), increasing."""

    @property
    @abc.abstractmethod
    def spacing(self) -> Float[np.ndarray, " n"]:
        """Weights of the quadrature in s."""

    @abc.abstractmethod
    def derivative(self, theta: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        r"""$\Theta'(s)$ at the nodes."""

    @abc.abstractmethod
    def interpolate(self, theta: Float[np.ndarray, " n"], labels: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        r"""$\Theta(s)$ between the nodes."""

    @abc.abstractmethod
    def finer(self, theta: Float[np.ndarray, "T n"], tol: float, longest: float) -> LabelGrid:
        r"""A finer grid, for the flow maps seen so far; `longest` is the largest gap wanted."""

    @cached_property
    def start(self) -> Float[np.ndarray, " n"]:
        """Angles of the nodes at the start."""
        return self.law.blended(self.share).quantiles(self.labels)

    @cached_property
    def mass_rate(self) -> Float[np.ndarray, " n"]:
        r"""$dm/ds=\rho_0/(\lambda\rho_0+1-\lambda)$ at the nodes."""
        rho = np.maximum(self.law.density(self.start), 0.0)
        return rho / (self.share * rho + 1 - self.share)

    @cached_property
    def mass(self) -> Float[np.ndarray, " n"]:
        """The mass to the left of every node."""
        return self.law.cumulative(self.start)

    @cached_property
    def weights(self) -> Float[np.ndarray, " n"]:
        """The mass that every node carries; they sum to one."""
        masses = self.spacing * self.mass_rate
        return masses / masses.sum()

    @property
    def equal(self) -> bool:
        """Whether all nodes carry the same mass."""
        return False

    def at_mass(self, theta: Float[np.ndarray, " n"], mass: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        r"""The quantile function $\Theta(m)$ at any masses."""
        labels = mass
        if self.share < 1:
            labels = self.share * mass + (1 - self.share) * (self.law.quantiles(mass) + np.pi) / (2 * np.pi)
        return self.interpolate(theta, labels)

    def density(self, theta: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The density with respect to dtheta/2pi at the nodes; positive as long as they are in order."""
        slope = self.derivative(theta)
        if slope.min() <= 0:  # rounding, inside clusters that have collapsed
            slope = self._monotone(theta)(self.labels, 1)
        with np.errstate(divide="ignore"):
            return 2 * np.pi * self.mass_rate / slope

    def _monotone(self, theta: np.ndarray) -> PchipInterpolator:
        """A curve without overshoots through three turns of the nodes, for flow maps that are not resolved."""
        turns = np.array([-1.0, 0.0, 1.0])[:, None]
        return PchipInterpolator((self.labels + turns).ravel(), (theta + 2 * np.pi * turns).ravel())

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Midpoints(LabelGrid):
    """n nodes at the middles of n equal cells."""

    n: int

    @property
    def labels(self) -> Float[np.ndarray, " n"]:
        return midpoints(self.n)

    @property
    def spacing(self) -> Float[np.ndarray, " n"]:
        return np.full(self.n, 1 / self.n)

    @property
    def equal(self) -> bool:
        return self.share == 1

    def _waves(self, theta: np.ndarray) -> np.ndarray:
        r"""Coefficients of $\Theta(s)-2\pi s$ in $e^{2\pi iks}$, k >= 0, without the one that has no partner."""
        k = np.arange(self.n // 2 + 1)
        waves = np.fft.rfft(theta - 2 * np.pi * self.labels) / self.n * np.exp(-1j * np.pi * k / self.n)
        return waves[:-1] if self.n % 2 == 0 else waves

    def _resolved(self, waves: np.ndarray) -> bool:
        return bool(np.abs(waves[-max(1, len(waves) // 8) :]).max() < _RESOLVED)

    def derivative(self, theta: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        waves = self._waves(theta)
        if not self._resolved(waves):
            return self._monotone(theta)(self.labels, 1)
        k = np.arange(len(waves))
        turned = waves * (2j * np.pi * k) * np.exp(1j * np.pi * k / self.n) * self.n
        return 2 * np.pi + np.fft.irfft(turned, self.n)

    def interpolate(self, theta: Float[np.ndarray, " n"], labels: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        waves = self._waves(theta)
        if not self._resolved(waves):
            return self._monotone(theta)(labels)
        k = np.arange(1, len(waves))
        chunks = np.array_split(labels, max(1, len(labels) * len(waves) // 4_000_000))
        rest = [2 * (np.exp(2j * np.pi * np.multiply.outer(s, k)) @ waves[1:]).real for s in chunks]
        return 2 * np.pi * labels + waves[0].real + np.concatenate(rest)

    def finer(self, theta: Float[np.ndarray, "T n"], tol: float, longest: float) -> Midpoints:
        return Midpoints(self.law, self.share, 2 * self.n)


@dataclass(frozen=True, eq=False)
class Panels(LabelGrid):
    """Gauss-Legendre nodes on the panels between `edges`, which run from 0 to 1."""

    edges: Float[np.ndarray, " e"]

    @property
    def _widths(self) -> np.ndarray:
        return np.diff(self.edges)

    @property
    def labels(self) -> Float[np.ndarray, " n"]:
        return (self.edges[:-1, None] + self._widths[:, None] * (_BASIS_NODES + 1) / 2).ravel()

    @property
    def spacing(self) -> Float[np.ndarray, " n"]:
        return (self._widths[:, None] * _BASIS_WEIGHTS / 2).ravel()

    def _coefficients(self, theta: np.ndarray) -> np.ndarray:
        return theta.reshape(*theta.shape[:-1], -1, ORDER) @ _TO_COEFFICIENTS.T

    def derivative(self, theta: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        derived = legendre.legder(self._coefficients(theta).T).T
        values = derived @ legendre.legvander(_BASIS_NODES, ORDER - 2).T
        return (values * 2 / self._widths[:, None]).ravel()

    def interpolate(self, theta: Float[np.ndarray, " n"], labels: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        panel = np.clip(np.searchsorted(self.edges, labels, side="right") - 1, 0, len(self._widths) - 1)
        place = 2 * (labels - self.edges[panel]) / self._widths[panel] - 1
        return np.sum(legendre.legvander(place, ORDER - 1) * self._coefficients(theta)[panel], axis=1)

    def unresolved(self, theta: Float[np.ndarray, "T n"], tol: float, longest: float) -> Bool[np.ndarray, " p"]:
        """Panels whose last coefficients carry more than `tol` of label times angle, or with a gap above `longest`."""
        rough = np.abs(self._coefficients(theta)[..., -2:]).sum(axis=-1).max(axis=0)
        gaps = np.diff(theta.reshape(len(theta), -1, ORDER), axis=-1).max(axis=(0, 2))
        return (rough * self._widths > tol) | ((gaps > longest) & (self._widths > tol))

    def finer(self, theta: Float[np.ndarray, "T n"], tol: float, longest: float) -> Panels:
        split = self.unresolved(theta, tol, longest)
        if not split.any():
            split[:] = True
        middles = (self.edges[:-1] + self.edges[1:])[split] / 2
        return Panels(self.law, self.share, np.sort(np.concatenate([self.edges, middles])))


def midpoints(n: int) -> Float[np.ndarray, " n"]:
    """The middles of n equal parts of (0, 1)."""
    return (np.arange(n) + 0.5) / n
