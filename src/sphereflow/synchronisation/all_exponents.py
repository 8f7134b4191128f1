r"""All Lyapunov exponents of random layers: what one layer after the other does to a small ball of tokens.

$$\lambda_i=\tfrac12\big[(d-1-2i)\kappa'(1)-(d-1)\kappa(1)\big]-ib,\quad i=1,\dots,d-1,\qquad
  \sum_i\lambda_i=-\tfrac{d-1}2\big[\kappa'(1)+(d-1)\kappa(1)+db\big].$$

The exponents are equally spaced and their sum is negative: layers lose volume even where they separate tokens
($\lambda_1>0$). Tokens then gather on a random set whose dimension, by the formula of Kaplan and Yorke, is
$k+(\lambda_1+\dots+\lambda_k)/|\lambda_{k+1}|$ for the largest k with a sum that is not negative. Attention of
strength v takes v from every exponent where tokens have met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, key_from
from sphereflow.synchronisation.activations import Function
from sphereflow.synchronisation.lyapunov import spectrum
from sphereflow.synchronisation.network import advised_step
from sphereflow.synchronisation.random_fields import RandomField, RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class LyapunovSpectrum(Result):
    """`samples`: growth rates per unit of time of every direction in layers of time `step`, for every repeat.

    `formula` has the exponents of the limit of many layers, all d-1 of them; layers differ from it by the order of
    the step, most in the last exponents.
    """

    d: int
    step: float
    samples: Float[np.ndarray, "repeats i"]
    formula: Float[np.ndarray, " d_minus_1"]

    @property
    def measured(self) -> Estimate:
        """The exponents of the layers, largest first, with standard errors."""
        return mean(self.samples)

    @property
    def volume_rate(self) -> float:
        """The sum of all exponents in the limit: the rate of the logarithm of a small volume."""
        return float(self.formula.sum())

    @property
    def dimension(self) -> float:
        """The Kaplan-Yorke dimension in the limit: of the set on which many tokens gather; 0 if they all meet."""
        return kaplan_yorke(self.formula)

    derived = ("volume_rate", "dimension")

    def facts(self) -> list[str]:
        shown = min(3, self.samples.shape[1])
        found = "; ".join(f"{self.measured.value[k]:.4g} +- {self.measured.error[k]:.1g}" for k in range(shown))
        limit = ", ".join(f"{each:.4g}" for each in self.formula[:shown])
        end = "tokens meet" if self.formula[0] < 0 else f"tokens gather on a set of dimension {self.dimension:.3g}"
        return [
            f"exponents of layers {found}; in the limit {limit}",
            f"{end}; volumes change at the rate {self.volume_rate:.4g}",
            f"d={self.d}, step {self.step:.3g}, {len(self.samples)} repeats",
        ]

    def variables(self) -> Variables:
        i = 1 + np.arange(self.samples.shape[1])
        return {
            "i": ("i", i),
            "measured": ("i", self.measured.value),
            "error": ("i", self.measured.error),
            "formula": ("i", self.formula[: len(i)]),
        }

    def plot(self) -> Figure:
        """Measured exponents (dots) on the line of the formula."""
        from sphereflow.pictures import PALETTE, blank, look

        with look():
            figure = blank(5.2, 3.4)
            axes = figure.subplots()
            axes.plot(1 + np.arange(self.d - 1), self.formula, color=PALETTE[0])
            i = 1 + np.arange(self.samples.shape[1])
            axes.errorbar(i, *self.measured, fmt="o", color=PALETTE[1], capsize=3)
            axes.axhline(0, color="0.6", lw=0.8)
            axes.set(xlabel="$i$", ylabel=r"$\lambda_i$")
        return figure


@recorded_call
def lyapunov_spectrum(
    activation: str | Function | RandomField,
    d: int,
    *,
    count: int | None = None,
    width: int = 1,
    step: float | None = None,
    layers: int = 500,
    repeats: int = 100,
    seed: Seed = 0,
) -> LyapunovSpectrum:
    """The Lyapunov exponents of random layers, by the derivative of each layer on an orthonormal frame.

    **Arguments:**

    - `activation`: of the layers, or the law of a random field.
    - `count`: how many exponents, the largest first; all d-1 by default.
    - `width`: of the layers, if an activation is given; it matters at a finite step only.
    - `step`: the time of one layer; by default what the noise allows.

    ```python
    synchronisation.lyapunov_spectrum("tanh", 24, count=3).dimension
    ```
    """
    d = whole_number("d", d, least=2)
    kept = d - 1 if count is None else whole_number("count", count, most=d - 1)
    field = activation if isinstance(activation, RandomField) else RandomPerceptron(activation, width)
    h = advised_step(field, d) / 4 if step is None else real_number("step", step, above=0, most=1)
    samples = spectrum(
        field,
        key_from(seed),
        h,
        repeats=whole_number("repeats", repeats, least=2),
        d=d,
        layers=whole_number("layers", layers),
        count=kept,
    )
    return LyapunovSpectrum(d, h, np.asarray(samples), TwoPoint(d, field.covariance).spectrum())


def kaplan_yorke(exponents: Float[np.ndarray, " k"]) -> float:
    r"""$k+(\lambda_1+\dots+\lambda_k)/|\lambda_{k+1}|$ of falling exponents; their number if no sum is negative."""
    sums = np.cumsum(exponents)
    if sums[-1] >= 0:
        return float(len(exponents))
    k = int(np.argmax(sums < 0))  # the first sum that is negative
    return float(k + (sums[k - 1] if k else 0.0) / abs(exponents[k]))
