r"""How much of a token at position sigma0 can be read off the last one: the retrieval profile in closed form.

$$\mathcal S_t(\sigma_0)=\sum_{n\ge1}\omega_n\,g_{a_n}(t,1;\sigma_0),\qquad
  g_a(t,\sigma;\sigma_0)=k_\lambda(\sigma,\sigma_0)\,\psi_{at}(Y),\qquad
  \text{accuracy}=\text{baseline}+\frac1N\,\text{excess}(\sigma_0)+\cdots$$

The soft readout is a periodic Gaussian of standard deviation $\pi/M$: $\omega_n=e^{-\pi^2n^2/2M^2}$, baseline
$\sqrt{\pi/2}/M$, excess $\frac{\sqrt{2\pi}}M\mathcal S_t$. The hard readout is the nearest of M codewords:
$\omega_n=\frac{2\sin(n\pi/M)}{\pi n}$, baseline 1/M, excess $\mathcal S_t$. Profiles of several heads add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.retrieval.bessel import (
    graphon,
    growth_rates,
    hazard,
    log_psi,
    psi,
    separation,
)
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sphereflow.retrieval.task import MeasuredProfile

Readout = Literal["soft", "hard"]
READOUTS = ("soft", "hard")

# The sum of terms of which each is exact to about this share of itself.
_ROUNDING = 1e-12


def two_time_influence(a: ArrayLike, t: float, sigma: ArrayLike, sigma0: ArrayLike, slope: float) -> np.ndarray:
    r"""$g_a(t,\sigma;\sigma_0)$: N times the covariance of a wave at (t, sigma) with the wave at (0, sigma0).

    Zero if sigma0 lies after sigma. For the covariance of both at time t see `equal_time_correlation`.
    """
    _checked(slope)
    a, t = real_array("a", a), real_number("t", t, least=0, most=1e6)
    if np.abs(a).max(initial=0.0) > 1e6:
        raise SphereflowError("a must be within [-1e6, 1e6].")
    sigma, sigma0 = real_array("sigma", sigma), real_array("sigma0", sigma0)
    if (sigma <= 0).any() or (sigma0 < 0).any() or max(sigma.max(), sigma0.max()) > 1:
        raise SphereflowError("positions sigma and sigma0 must lie in (0, 1].")
    return np.asarray(graphon(sigma, sigma0, slope) * psi(a * t, separation(sigma, sigma0, slope)))


def critical_time(beta: float, slope: float, vocab: int, readout: Readout = "soft") -> float:
    r"""$t_{crit}=2(1-e^{-\lambda})\frac{\sum\omega_na_n}{\sum\omega_na_n^2}$: recency is lost from then on (0: there is
    none, $\lambda\le0$)."""
    _checked(slope, vocab, readout)
    rates = growth_rates(beta)
    scale = rates.max()
    weights = readout_weights(vocab, len(rates), readout)
    ratio = np.sum(weights * (rates / scale)) / np.sum(weights * (rates / scale) ** 2)
    return float(2 * max(-np.expm1(-slope), 0.0) * ratio / scale)


def theorem_time(beta: float, slope: float) -> float:
    r"""$\min\{3-\sqrt3,\,2(1-e^{-\lambda})\}/\sup_na_n$: until then a U-shape is proved, whatever the vocabulary; 0 if
    there is none, $\lambda\le0$."""
    _checked(slope)
    return float(min(3 - np.sqrt(3), 2 * max(-np.expm1(-slope), 0.0)) / growth_rates(beta).max())


def readout_weights(vocab: int, count: int, readout: Readout = "soft") -> np.ndarray:
    r"""$\omega_1,\dots,\omega_{count}$ of the readout."""
    n = np.arange(1, count + 1)
    if readout == "soft":
        return np.exp(-((np.pi * n / vocab) ** 2) / 2)
    return 2 * np.sin(n * np.pi / vocab) / (np.pi * n)


@dataclass(frozen=True)
class Head:
    """An attention head with its weight in the readout."""

    weight: float
    beta: float
    slope: float

    def __post_init__(self) -> None:
        real_number("a head's weight", self.weight, least=-1e6, most=1e6)
        real_number("beta", self.beta, above=0)
        growth_rates(self.beta)
        _checked(self.slope)


@dataclass(frozen=True)
class Turn:
    """A position at which a profile turns: a minimum or a maximum."""

    sigma0: float
    score: float
    kind: Literal["minimum", "maximum"]


@dataclass(frozen=True, eq=False, repr=False)
class Profile(Result):
    """The retrieval profile of one or several heads at time t, for a vocabulary of M codewords."""

    heads: tuple[Head, ...]
    t: float
    vocab: int
    readout: Readout = "soft"

    def __post_init__(self) -> None:
        if not self.heads:
            raise SphereflowError("a profile needs at least one head.")
        real_number("t", self.t, above=0, most=1e6)
        _checked(0.0, self.vocab, self.readout)

    @property
    def baseline(self) -> float:
        """The accuracy of a readout that knows nothing."""
        return float(np.sqrt(np.pi / 2) / self.vocab) if self.readout == "soft" else 1 / self.vocab

    def score(self, sigma0: ArrayLike) -> np.ndarray:
        r"""$\mathcal S_t(\sigma_0)$ for positions in (0, 1]."""
        return self._sum(_positions(sigma0), derivative=False)

    def excess(self, sigma0: ArrayLike) -> np.ndarray:
        """N (accuracy - baseline) to leading order."""
        scale = np.sqrt(2 * np.pi) / self.vocab if self.readout == "soft" else 1.0
        return np.asarray(scale * self.score(sigma0))

    def log_score(self, sigma0: ArrayLike) -> np.ndarray:
        """log S, which stays finite where S does not fit a number; one head of positive weight, soft readout."""
        if len(self.heads) != 1 or self.heads[0].weight <= 0 or self.readout != "soft":
            raise SphereflowError("the logarithm of a profile needs one head of positive weight and the soft readout.")
        sigma0 = _positions(sigma0)
        head = self.heads[0]
        with np.errstate(divide="ignore"):
            y = separation(1.0, sigma0, head.slope)
            logs = [np.log(weight) + log_psi(a * self.t, y) for weight, a in self._modes(head.beta)]
        density = np.log(head.weight) + np.log(graphon(1.0, sigma0, head.slope))
        return np.asarray(density + np.logaddexp.reduce(logs))

    def steepness(self, sigma0: ArrayLike) -> np.ndarray:
        r"""$\sigma_0\,\mathcal S_t'(\sigma_0)$, which stays moderate as $\sigma_0\to0$; at 1 the slope of the end."""
        return self._sum(_positions(sigma0), derivative=True)

    def turns(self) -> tuple[Turn, ...]:
        """All minima and maxima inside (0, 1), in order of position, found as sign changes of the derivative."""
        from scipy.optimize import brentq

        grid = _search_grid()
        slopes, sizes, _ = self._scaled(grid, derivative=True)
        known = np.flatnonzero(np.abs(slopes) > _ROUNDING * sizes)  # heads that cancel leave rounding
        grid, slopes = grid[known], slopes[known]
        turns = []
        for i in np.flatnonzero(np.sign(slopes[:-1]) * np.sign(slopes[1:]) < 0):
            at = float(brentq(self._direction, grid[i], grid[i + 1], xtol=1e-300, rtol=1e-14))
            turns.append(Turn(at, float(self.score(at)), "minimum" if slopes[i] < 0 else "maximum"))
        return tuple(turns)

    def _direction(self, sigma0: float) -> float:
        """A number with the sign of the slope, also where the slope does not fit a number."""
        return float(self._scaled(np.asarray(sigma0), derivative=True)[0])

    @property
    def minimiser(self) -> float | None:
        """The position that is retrieved worst, if it lies inside (0, 1) and the profile turns there."""
        minima = [turn for turn in self.turns() if turn.kind == "minimum"]
        return min(minima, key=lambda turn: turn.score).sigma0 if minima else None

    @property
    def shape(self) -> str:
        """In words: U-shaped, decreasing, increasing, flat, or with so many wells."""
        turns = self.turns()
        wells = sum(turn.kind == "minimum" for turn in turns)
        if not turns:
            end = self._direction(1.0)
            return "flat" if end == 0 else "decreasing" if end < 0 else "increasing"
        if len(turns) == 1:
            return "U-shaped" if wells else "hump-shaped"
        return f"{wells} well{'s' * (wells != 1)}"

    derived = ("baseline", "shape", "minimiser")

    def variables(self) -> Variables:
        """The profile on a grid of positions, and the heads."""
        sigma0 = np.concatenate([np.geomspace(0.001, 0.1, 60), np.linspace(0.1, 1, 100)[1:]])
        curve: Variables = {name: ("sigma0", getattr(self, name)(sigma0)) for name in ("score", "excess", "steepness")}
        weight, beta, slope = np.array([(head.weight, head.beta, head.slope) for head in self.heads]).T
        heads: Variables = {"weight": ("head", weight), "beta": ("head", beta), "slope": ("head", slope)}
        return {"sigma0": ("sigma0", sigma0)} | curve | heads

    def facts(self) -> list[str]:
        one = self.heads[0]
        heads = f"beta = {one.beta:g}, slope {one.slope:g}" if len(self.heads) == 1 else f"{len(self.heads)} heads"
        minima = [f"{turn.sigma0:.4g}" for turn in self.turns() if turn.kind == "minimum"]
        return [
            f"{self.shape}" + (f", worst retrieved at sigma0 = {' and '.join(minima)}" if minima else ""),
            f"{heads}, t = {self.t:g}, {self.vocab} codewords, {self.readout} readout",
        ]

    def plot(self, measured: MeasuredProfile | None = None) -> Figure:
        """N (accuracy - baseline) against the position of the source, with measured accuracies if there are some."""
        from sphereflow.retrieval.plots import plot_profile

        return plot_profile(self, measured)

    def _modes(self, beta: float) -> list[tuple[float, float]]:
        """(weight, rate) of the modes that count; psi grows with the rate, so the others never matter."""
        rates = growth_rates(beta)
        weights = readout_weights(self.vocab, len(rates), self.readout)
        size = np.abs(weights) * rates
        significant = size > 1e-18 * size.max()
        return list(zip(weights[significant], rates[significant], strict=True))

    def _sum(self, sigma0: np.ndarray, *, derivative: bool) -> np.ndarray:
        total, _, scale = self._scaled(sigma0, derivative=derivative)
        with np.errstate(over="ignore"):  # what does not fit a number is infinite, with its sign
            return np.asarray(np.where(total == 0, 0.0, total * np.exp(np.where(total == 0, 0.0, scale))))

    def _scaled(self, sigma0: np.ndarray, *, derivative: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""The sum and the sum of the sizes of its terms, both without a factor $e^C$, and C, which is no less than 0.

        Terms beyond the largest number are added up all the same: a difference of two infinities would be NaN.
        """
        factors, logs = [], []
        together: dict[tuple[float, float], float] = {}  # heads that are equal act as one of their total weight
        for head in self.heads:
            together[head.beta, head.slope] = together.get((head.beta, head.slope), 0.0) + head.weight
        for (beta, slope), share in together.items():
            y, density = separation(1.0, sigma0, slope), share * graphon(1.0, sigma0, slope)
            for weight, a in self._modes(beta):
                logs.append(log_psi(a * self.t, y))
                factors.append(density * weight * (slope * sigma0 if derivative else 1.0))
                if derivative:
                    logs.append(log_psi(a * self.t, y, order=2))
                    factors.append(-density * weight * sigma0 * hazard(sigma0, slope))
        scale = np.maximum(np.max(logs, axis=0), 0.0)
        terms = np.array(factors) * np.exp(np.array(logs) - scale)
        return np.asarray(terms.sum(axis=0)), np.asarray(np.abs(terms).sum(axis=0)), np.asarray(scale)


@recorded_call
def profile(
    beta: float, slope: float, t: float, vocab: int = 8, *, readout: Readout = "soft", weight: float = 1.0
) -> Profile:
    """The profile of a single head."""
    return Profile((Head(weight, beta, slope),), t, vocab, readout)


@recorded_call
def several_heads(heads: Sequence[Sequence[float]], t: float, vocab: int = 8, *, readout: Readout = "soft") -> Profile:
    """The profile of heads given as (weight, beta, slope)."""
    rows = real_array("heads (each weight, beta, slope)", heads, shape=("h", 3)).tolist()
    return Profile(tuple(Head(*row) for row in rows), t, vocab, readout)


def _checked(slope: float, vocab: int = 1, readout: str = "soft") -> None:
    real_number("the slope", slope, least=-500, most=500)
    whole_number("vocab", vocab, most=10**9)
    one_of("readout", readout, READOUTS)


def _positions(sigma0: ArrayLike) -> np.ndarray:
    values = np.asarray(sigma0, dtype=float)
    if values.size == 0 or not np.all((values > 0) & (values <= 1)):
        raise SphereflowError("positions sigma0 must lie in (0, 1].")
    return values


def _search_grid() -> np.ndarray:
    """Fine towards both ends: the minimum moves to 0 with t, and to 1 at the critical time."""
    early = np.concatenate([np.geomspace(1e-300, 1e-8, 300), np.geomspace(1e-8, 0.1, 400)[1:]])
    return np.concatenate([early, np.linspace(0.1, 0.9, 600)[1:-1], 1 - np.geomspace(0.1, 1e-12, 300)])
