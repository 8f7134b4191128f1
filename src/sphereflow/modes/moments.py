r"""Moments of the slope of one kernel, for standard normal samples exactly and for any density by quadrature.

$$G=(t-X)e^{-\beta(t-X)^2/2},\qquad G'=(1-\beta(t-X)^2)e^{-\beta(t-X)^2/2},\qquad
  m_1=\mathbb EG,\quad m_2=\mathbb EG',\quad S=\operatorname{Cov}(G,G').$$

With $s=1/(\beta+1)$, $c=ts$, $A=\sqrt s\,e^{-\beta t^2s/2}$ and $s_2=1/(2\beta+1)$, $c_2=ts_2$,
$B=\sqrt{s_2}\,e^{-\beta t^2s_2}$:

$$m_1=Ac,\quad m_2=A\frac{1+\beta-\beta t^2}{(1+\beta)^2},\quad \mathbb EG^2=B(c_2^2+s_2),\quad
  \mathbb EGG'=B(c_2-\beta(c_2^3+3c_2s_2)),$$
$$\mathbb EG'^2=B\big(1-2\beta(c_2^2+s_2)+\beta^2(c_2^4+6c_2^2s_2+3s_2^2)\big).$$

Everything is kept relative to B, which underflows first: the ratios that matter are then good to n = 10^60 and beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.reading import density_values

Values = Float[np.ndarray, "..."] | float  # numpy turns arrays without axes into numbers
Density = Callable[[np.ndarray], np.ndarray]

_NODES = 96


@dataclass(frozen=True, eq=False)
class Moments:
    """Per sample: means over sqrt(B), second moments over B, and log B."""

    log_scale: Values
    mean: Values
    mean_slope: Values
    square: Values
    product: Values
    slope_square: Values

    @property
    def s11(self) -> Values:
        """Var G / B."""
        return self.square - self.mean**2

    @property
    def s12(self) -> Values:
        """Cov(G, G') / B."""
        return self.product - self.mean * self.mean_slope

    @property
    def s22(self) -> Values:
        """Var G' / B."""
        return self.slope_square - self.mean_slope**2

    def plain(self) -> dict[str, Values]:
        """E G, E G', E G^2, E G G', E G'^2 themselves."""
        half, full = np.exp(self.log_scale / 2), np.exp(self.log_scale)
        return {
            "G": half * self.mean,
            "G'": half * self.mean_slope,
            "GG": full * self.square,
            "GG'": full * self.product,
            "G'G'": full * self.slope_square,
        }


def normal_moments(t: Values, beta: float) -> Moments:
    """The closed forms above, for samples from the standard normal law."""
    t = np.asarray(t, dtype=float)
    s, s2 = 1 / (beta + 1), 1 / (2 * beta + 1)
    c, c2 = t * s, t * s2
    # A / sqrt(B), with the exponents subtracted by hand: s - s2 = beta s s2.
    ratio = s**0.5 * s2**-0.25 * np.exp(-((beta * t) ** 2) * s * s2 / 2)
    fourth = c2**4 + 6 * c2**2 * s2 + 3 * s2**2
    return Moments(
        log_scale=np.log(s2) / 2 - beta * t**2 * s2,
        mean=ratio * c,
        mean_slope=ratio * (1 + beta - beta * t**2) * s**2,
        square=c2**2 + s2,
        product=c2 - beta * (c2**3 + 3 * c2 * s2),
        slope_square=1 - 2 * beta * (c2**2 + s2) + beta**2 * fourth,
    )


def density_moments(density: Density, t: Values, beta: float) -> Moments:
    """The same for any density that is smooth on the scale of the bandwidth, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    t = np.asarray(t, dtype=float)[..., None]

    def average(power: float, polynomial: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Integral of polynomial(u) exp(-power u^2 / 2) p(t - u h) h du at u = nodes / sqrt(power)."""
        values = density_values("density", density, t - u * h, zero=True)
        return np.sum(weights * polynomial * values, axis=-1) * h / np.sqrt(power)

    h = beta**-0.5
    once, twice = nodes, nodes / np.sqrt(2)
    bend = 1 - twice**2
    return Moments(
        log_scale=np.zeros(t.shape[:-1]),
        mean=average(1, once * h, once),
        mean_slope=average(1, 1 - once**2, once),
        square=average(2, (twice * h) ** 2, twice),
        product=average(2, twice * h * bend, twice),
        slope_square=average(2, bend**2, twice),
    )
