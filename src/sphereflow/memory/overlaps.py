r"""The law of the overlap of two independent uniform points of the sphere in R^N.

$$h(\phi)=C_N(1-\phi^2)^{(N-3)/2},\quad C_N=\frac{\Gamma(N/2)}{\sqrt\pi\,\Gamma((N-1)/2)},\qquad
  \tfrac{1+\phi}{2}\sim\mathrm{Beta}\!\left(\tfrac{N-1}2,\tfrac{N-1}2\right),\qquad
  \tfrac1N\ln h\to s(\phi)=\tfrac12\ln(1-\phi^2).$$

Everything is kept as a logarithm: with e^{alpha N} patterns the interesting probabilities are as small as e^{-alpha N}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Real
from scipy import special

from sphereflow.errors import SphereflowError
from sphereflow.numerics.bessel import log_ive
from sphereflow.reading import real_array

# What formulas take and give: arrays of one shape, or numbers. A number that comes out of array arithmetic is an
# np.float64, which can be used as an array of no dimension and is one for static typing.
Numbers = Real[np.ndarray, "*s"] | float
Broadcast = Real[np.ndarray, "..."] | float
if TYPE_CHECKING:
    Values = np.ndarray
else:
    Values = Float[np.ndarray, "..."] | np.float64

# Below this the incomplete beta function is about to underflow.
_SMALLEST_TAIL = 1e-280


def not_negative(name: str, given: Broadcast) -> np.ndarray:
    """Loads, temperatures or inverse temperatures that a user gives."""
    found = real_array(name, given)
    if np.any(found < 0):
        raise SphereflowError(f"{name} must be at least 0, got {found.min():g}.")
    return found


def log_density(phi: Numbers, n: int) -> Values:
    r"""$\ln h(\phi)$."""
    constant = special.gammaln(n / 2) - special.gammaln((n - 1) / 2) - np.log(np.pi) / 2
    return constant + (n - 3) / 2 * np.log1p(-(np.asarray(phi, dtype=float) ** 2))


def log_tail(c: Numbers, n: int) -> Values:
    r"""$\ln\Pr(\phi>c)$ for $0\le c<1$, where $\Pr(\phi>c)=\tfrac12 I_{1-c^2}(\tfrac{N-1}2,\tfrac12)$."""
    c = np.asarray(c, dtype=float)
    a, x = (n - 1) / 2, (1 - c) * (1 + c)
    tail = special.betainc(a, 0.5, x) / 2
    shown = tail > _SMALLEST_TAIL
    # Where the tail underflows, the same function as a series of positive terms behind its leading power.
    log_series = np.log(special.hyp2f1(a + 0.5, 1.0, a + 1, np.where(shown, 0.5, x)))
    leading = a * np.log(x) + np.log(c + (c == 0)) - np.log(2 * a) - special.betaln(a, 0.5)
    return np.where(shown, np.log(np.where(shown, tail, 1.0)), leading + log_series)


def sample(rng: np.random.Generator, n: int, shape: int | tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Independent overlaps."""
    return 2 * rng.beta((n - 1) / 2, (n - 1) / 2, size=shape) - 1


def log_mean_kernel(n: int, beta: float) -> float:
    r"""$\ln E\,e^{-\beta N(1-\phi)}$, which is
    $\ln\!\big[\Gamma(\tfrac N2)(\tfrac2{\beta N})^{N/2-1}e^{-\beta N}I_{N/2-1}(\beta N)\big]$."""
    order, z = n / 2 - 1, beta * n
    return float(special.gammaln(n / 2) + order * np.log(2 / z) + log_ive(order, z))
