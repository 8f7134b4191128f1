r"""Does the interaction energy dissipate on average? By the equation of two tokens, and by single layers.

$$\frac d{dt}E(1-r)=-E\big[D(r)+2v\,p(r)(1-r^2)\big],\qquad E(1-r(t))\le e^{-ct}(1-r_0),\quad
  c=\inf_r\frac{D+2vp(1-r^2)}{1-r}.$$

Where c > 0 the noise is coercive against attention. Below, the mean gap of close tokens grows at first, but still
vanishes in the end as long as $\lambda<0$; for $\lambda>0$ it tends to a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.synchronisation.activations import Function, evaluate
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import Covariance, of_activation
from sphereflow.synchronisation.two_point import TwoPoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray

_BATCH = 200_000


@dataclass(frozen=True, eq=False, repr=False)
class Dissipation(Result):
    """The mean gap E(1-r) of two tokens at `times`, from the overlap `start`, with the constants that govern it."""

    d: int
    strength: float
    beta: float
    start: float | str
    times: Float[Array, " t"]
    gap: Float[Array, " t"]
    constant: float
    exponent: float
    rate: float
    coercive_above: float
    synchronises_above: float

    @property
    def first_gap(self) -> float:
        """1-r_0, or its mean 1 over independent uniform tokens."""
        return 1.0 if isinstance(self.start, str) else 1 - self.start

    @property
    def bound(self) -> Float[Array, " t"]:
        """e^{-ct} times the first gap: above the mean gap at every time."""
        return np.asarray(np.exp(-self.constant * self.times) * self.first_gap)

    def facts(self) -> list[str]:
        kind = "the noise is coercive" if self.constant > 0 else "the noise is not coercive"
        late = f"in the end it falls at the rate {self.rate:.4g}" if self.rate > 0 else "in the end it does not vanish"
        return [
            f"{kind}, c = {self.constant:.4g}; E(1-r) = {self.gap[-1]:.4g} at t = {self.times[-1]:g}; {late}",
            f"coercive for attention above {self.coercive_above:.4g}, tokens meet above {self.synchronises_above:.4g} "
            f"(here {self.strength:g}); exponent {self.exponent:.4g}",
            f"d={self.d}, beta={self.beta:g}, start {self.start}",
        ]

    def variables(self) -> Variables:
        return {"time": ("time", self.times), "gap": ("time", self.gap), "bound": ("time", self.bound)}

    def plot(self) -> Figure:
        """The mean gap against time, with its bound."""
        from sphereflow.pictures import PALETTE, styled_figure

        with styled_figure(5.2, 3.4) as figure:
            axes = figure.subplots()
            axes.plot(self.times, self.gap, "o-", color=PALETTE[0], ms=3, label="$E(1-r)$")
            axes.plot(self.times, self.bound, "--", color="0.4", label=r"$e^{-ct}(1-r_0)$")
            axes.set(yscale="log", xlabel="$t$", ylabel="mean gap")
            axes.legend()
        return figure


@recorded_call
def dissipation(
    activation: str | Function | Covariance,
    d: int,
    times: ArrayLike,
    *,
    strength: float = 0.0,
    beta: float = 1.0,
    start: float | str = "uniform",
    cells: int = 1600,
) -> Dissipation:
    """The exact mean energy of two tokens with this noise and attention; without attention, of any number of them.

    **Arguments:**

    - `activation`: of the layers, or the covariance of their noise.
    - `times`: from 0, not decreasing; `start`: the overlap at first, or "uniform" for two independent tokens.
    - `cells`: of the grid of the backward equation.

    ```python
    synchronisation.dissipation("softplus", 8, [0.5, 1.0, 2.0], strength=-1.0, start=0.9)
    ```
    """
    law = activation if isinstance(activation, Covariance) else of_activation(activation)
    when = np.atleast_1d(real_array("times", times))
    pair = TwoPoint(d, law, strength, beta)
    if isinstance(start, str) and start != "uniform":
        raise SphereflowError(f"start must be an overlap or 'uniform', got {start!r}.")
    equation = Backward(pair, cells=cells, right=18.0)
    gap = equation.averages(lambda r: 1 - r, when.tolist(), start)
    noise = TwoPoint(d, law)
    rates = (pair.coercivity(), pair.lyapunov(), pair.long_time_rate(), -noise.coercivity() / 2, noise.lyapunov())
    first = start if isinstance(start, str) else float(start)
    return Dissipation(d, float(strength), float(beta), first, when, gap, *rates)


@dataclass(frozen=True, eq=False, repr=False)
class CoercivityTest(Result):
    r"""`formula` and `measured` rates D(r)/(1-r) at which the mean gap closes, at each of `overlaps`.

    `constant` is their infimum by formula, `ratio` is $q=E\sigma'^2/E\sigma^2$.
    """

    d: int
    strength: float
    overlaps: Float[Array, " r"]
    formula: Float[Array, " r"]
    measured: Estimate
    constant: float
    ratio: float

    @property
    def least(self) -> Estimate:
        """The smallest measured rate."""
        k = int(np.argmin(self.measured.value))
        return Estimate(self.measured.value[k], self.measured.error[k])

    derived = ("least",)

    def facts(self) -> list[str]:
        word = "coercive" if self.constant > 0 else "not coercive"
        return [
            f"{word} in dimension {self.d}: c = {self.constant:.4g} by formula; least measured rate {self.least}",
            f"q = {self.ratio:.4g}, attention {self.strength:g}",
        ]

    def variables(self) -> Variables:
        return {
            "overlap": ("overlap", self.overlaps),
            "formula": ("overlap", self.formula),
            "measured": ("overlap", self.measured.value),
            "error": ("overlap", self.measured.error),
        }

    def plot(self) -> Figure:
        """Measured rates (dots) beside the formula (line); the noise is coercive where all are positive."""
        from sphereflow.pictures import PALETTE, styled_figure

        with styled_figure(5.2, 3.4) as figure:
            axes = figure.subplots()
            axes.plot(self.overlaps, self.formula, color=PALETTE[0])
            axes.errorbar(self.overlaps, *self.measured, fmt="o", color=PALETTE[1], capsize=3)
            axes.axhline(0, color="0.6", lw=0.8)
            axes.set(xlabel="overlap $r$", ylabel="$D(r)/(1-r)$")
        return figure


@recorded_call
def coercivity_test(
    activation: str | Function,
    d: int,
    *,
    overlaps: Sequence[float] = (-0.9, -0.5, 0.0, 0.5, 0.9, 0.99),
    strength: float = 0.0,
    beta: float = 1.0,
    step: float = 1e-3,
    repeats: int = 20_000,
    seed: Seed = 0,
) -> CoercivityTest:
    r"""Whether the noise of this activation is coercive: by formula, and by single layers of width one.

    Each layer is used with both signs of its output, so that the half sum has no martingale part. Of its weights two
    pre-activations, two components in the plane of the tokens and the length of the rest decide. The rate of layers
    differs from the formula by the order of `step`.

    ```python
    synchronisation.coercivity_test("softplus", d=8).least
    ```
    """
    d, h = whole_number("d", d, least=2), real_number("step", step, above=0, most=0.1)
    repeats = whole_number("repeats", repeats, least=2)
    r = real_array("overlaps", overlaps, shape=("r",))
    if not len(r) or np.any(np.abs(r) >= 1):
        raise SphereflowError("overlaps must be numbers strictly between -1 and 1, at least one.")
    law = of_activation(activation)
    pair = TwoPoint(d, law, strength, beta)
    rng = rng_from(seed)
    simulated = [_rates(activation, d, float(each), pair, h, repeats, rng) for each in r]
    measured = Estimate(*(np.array([float(each[k]) for each in simulated]) for k in (0, 1)))
    return CoercivityTest(d, pair.strength, r, pair.pull(r), measured, pair.coercivity(), law.ratio)


def _rates(
    activation: str | Function, d: int, r: float, pair: TwoPoint, h: float, repeats: int, rng: np.random.Generator
) -> Estimate:
    """Mean change of the overlap in one layer over h (1-r)."""
    s, parts = np.sqrt(1 - r**2), []
    weight = 1 / (1 + np.exp(pair.beta * (1 - r)))  # of the other token
    stay, other = 1 + h * pair.strength * (1 - weight), h * pair.strength * weight
    for count in range(0, repeats, _BATCH):
        u, w, a, b = rng.standard_normal((4, min(_BATCH, repeats - count)))
        rest = rng.chisquare(d - 2, len(u)) if d > 2 else np.zeros(len(u))
        one, two = (np.sqrt(h) * evaluate(activation, each)[0] for each in (u, r * u + s * w))
        total = 0.0
        for sign in (1, -1):
            first = (stay + other * r + sign * one * a, other * s + sign * one * b)
            second = (stay * r + other + sign * two * a, stay * s + sign * two * b)
            top = first[0] * second[0] + first[1] * second[1] + one * two * rest
            lengths = (first[0] ** 2 + first[1] ** 2 + one**2 * rest) * (
                second[0] ** 2 + second[1] ** 2 + two**2 * rest
            )
            total = total + (top / np.sqrt(lengths) - r) / (2 * h * (1 - r))
        parts.append(total)
    return mean(np.concatenate(parts))
