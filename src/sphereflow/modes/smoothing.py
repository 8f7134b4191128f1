r"""The two kernels of a density estimate, as Taylor coefficients with bounds.

$$K(u)=e^{-u^2/2}\ \text{(line)},\qquad K(u)=e^{\beta(\cos(u/\sqrt\beta)-1)}\ \text{(circle)},\qquad
  K(u+x)=\sum_q c_q(u)\,x^q,$$

in units of the bandwidth $h=\beta^{-1/2}$: the second is the kernel of attention on the circle, and tends to the first.
Both are exponentials of an analytic function, so their coefficients follow from the recursion
$q\,c_q=\sum_{j=1}^q j\,e_j\,c_{q-j}$ with $e_j$ those of the exponent.

Each kernel has `taylor(u, order)`, the coefficients; `bound(u, order)`, upper bounds of them at all distances of at
least |u|; `support(tail)`, a distance beyond which |K'| < tail; and `reach`, the distance within which it is concave: a
mode has a sample no farther than that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

_CRAMER = 1.0865  # |He_q(u)| e^{-u^2/4} <= 1.0865 sqrt(q!)


@dataclass(frozen=True)
class Gaussian:
    """exp(-u^2/2) on the line."""

    reach: float = 1.0

    def taylor(self, u: Float[np.ndarray, " m"], order: int) -> Float[np.ndarray, "m order"]:
        exponent = np.zeros((len(u), order))
        exponent[:, 1], exponent[:, 2] = -u, -0.5
        return _exponential(np.exp(-u * u / 2), exponent)

    def bound(self, u: Float[np.ndarray, " m"], order: int) -> Float[np.ndarray, "m order"]:
        q = np.arange(order)
        return _CRAMER * np.exp(-(u[:, None] ** 2) / 4 - gammaln(q + 1) / 2)

    def support(self, tail: float) -> float:
        u = math.sqrt(2 * math.log(1 / tail))
        return math.sqrt(2 * (math.log(1 / tail) + math.log(u + 1)))


@dataclass(frozen=True)
class VonMises:
    """exp(beta (cos(theta) - 1)) on the circle, at angles theta = u / sqrt(beta)."""

    beta: float

    @property
    def reach(self) -> float:
        # K'' < 0 asks for beta sin^2 < cos, hence |sin| < beta^{-1/2} on the near side of the circle.
        return math.sqrt(self.beta) * math.asin(min(1.0, self.beta**-0.5))

    def taylor(self, u: Float[np.ndarray, " m"], order: int) -> Float[np.ndarray, "m order"]:
        root, q = math.sqrt(self.beta), np.arange(order)
        theta = u[:, None] / root
        # cos^{(q)}(theta) = cos(theta + q pi / 2)
        exponent = np.cos(theta + q * np.pi / 2) * np.exp((2 - q) * math.log(root) - gammaln(q + 1))
        return _exponential(np.exp(-2 * self.beta * np.sin(theta[:, 0] / 2) ** 2), exponent)

    def bound(self, u: Float[np.ndarray, " m"], order: int) -> Float[np.ndarray, "m order"]:
        # Cauchy on a circle of radius rho around any real point: |K| <= exp(beta (cosh(rho / sqrt(beta)) - 1)).
        rho = np.geomspace(0.05, 12.0, 400)
        logs = 2 * self.beta * np.sinh(rho / (2 * math.sqrt(self.beta))) ** 2
        best = np.min(logs[:, None] - np.arange(order) * np.log(rho)[:, None], axis=0)
        return np.broadcast_to(np.exp(np.minimum(best, 700.0)), (len(u), order))

    def support(self, tail: float) -> float:
        # |K'| <= sqrt(beta) K, and K falls as the angle grows.
        depth = (math.log(1 / tail) + math.log(self.beta) / 2) / self.beta
        return math.inf if depth >= 2 else math.sqrt(self.beta) * math.acos(1 - depth)


Smoothing = Gaussian | VonMises


def _exponential(value: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Coefficients of exp(sum_j e_j x^j), given its value at x = 0."""
    order = exponent.shape[1]
    slopes = exponent * np.arange(order)
    result = np.empty_like(exponent)
    result[:, 0] = value
    for q in range(1, order):
        result[:, q] = np.sum(slopes[:, 1 : q + 1] * result[:, q - 1 :: -1], axis=1) / q
    return result
