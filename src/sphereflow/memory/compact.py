r"""The exact layer for the compact kernel (LSR), whose support ends at the overlap $\phi_c=1-1/b$.

$$\alpha_{th}=-\tfrac12\ln(1-\phi_c^2).$$

Above the threshold a typical state sees $e^{N(\alpha-\alpha_{th})}$ patterns and its energy falls like $-N^2$:
retrieval is lost at every temperature. Below it a typical state sees none, its energy is infinite, and the equilibrium
lives on the union of the caps around the patterns. What remains is kinetic: caps of neighbours overlap, and a state may
hop.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from sphereflow.memory.overlaps import Numbers, Values, log_tail
from sphereflow.memory.spherical import extreme_overlap
from sphereflow.memory.state import lsr_overlap, support_edge

_NEIGHBOURS = 400  # overlaps of a neighbour among which the easiest escape is sought


def threshold(b: float) -> float:
    r"""$\alpha_{th}(b)=-\tfrac12\ln(1-\phi_c^2)$."""
    return float(-np.log1p(-(support_edge(b) ** 2)) / 2)


def finite_threshold(n: int, b: float) -> float:
    """The load at which a random state sees one pattern on average, at finite N."""
    return -float(log_tail(support_edge(b), n)) / n


def touching(b: float) -> float:
    r"""Caps of two patterns overlap when their mutual overlap exceeds $2\phi_c^2-1$."""
    return 2 * support_edge(b) ** 2 - 1


def centroid_overlap(temperature: float, rho: float, b: float) -> float:
    r"""Overlap with both of two patterns of mutual overlap rho: $\frac1{1-b+b\phi}=\frac{2T\phi}{1+\rho-2\phi^2}$."""
    top = np.sqrt((1 + rho) / 2)
    if top <= support_edge(b):
        return float("nan")
    if temperature == 0:
        return float(top)

    def residual(phi: float) -> float:
        return 1 + rho - 2 * phi**2 - 2 * temperature * phi * (1 - b + b * phi)

    return float(brentq(residual, max(support_edge(b), 0.0), top, xtol=1e-14))


def centroid_rival(b: float) -> float:
    r"""$\rho=2(1-\tfrac1{2b})^2-1$: above it the centroid of two patterns is deeper than a pattern at T = 0."""
    return 2 * (1 - 1 / (2 * b)) ** 2 - 1


def centroid_load(b: float) -> float:
    """The load from which pairs of patterns that close exist."""
    return float(-np.log1p(-(centroid_rival(b) ** 2)) / 2)


def nearest_escape(temperature: Numbers, b: float) -> Values:
    r"""$\phi_{min}=\phi_c\phi_{eq}-\sqrt{(1-\phi_c^2)(1-\phi_{eq}^2)}$: a neighbour further away is out of reach."""
    c, phi = support_edge(b), lsr_overlap(temperature, b)
    return c * phi - np.sqrt((1 - c**2) * (1 - phi**2))


def absolute_stability(temperature: Numbers, b: float) -> Values:
    r"""$\alpha_{abs}(T)=-\tfrac12\ln(1-\phi_{min}^2)$: below it no neighbour is within reach of the shell."""
    reach = np.maximum(nearest_escape(temperature, b), 0.0)
    return -np.log1p(-(reach**2)) / 2


def barrier(rho: Numbers, temperature: float, b: float) -> Values:
    r"""$\lim\frac{\Delta F}{NT}=-\tfrac12\ln\!\big(1-\frac{v^2}{1-\phi_{eq}^2}\big)$,
    $v=\frac{\phi_c-\phi_{eq}\rho}{\sqrt{1-\rho^2}}$.

    The entropy a state at the retrieval overlap must give up to enter the cap of a neighbour at overlap rho; infinite
    where the cap is out of reach, zero where it already holds half of the shell.
    """
    rho = np.asarray(rho, dtype=float)
    phi = float(lsr_overlap(temperature, b))
    needed = np.maximum((support_edge(b) - phi * rho) / np.sqrt(1 - rho**2), 0.0)
    share = needed**2 / (1 - phi**2)
    return np.where(share < 1, -np.log1p(-np.minimum(share, 1 - 1e-16)) / 2, np.inf)


def escape_exponent(alpha: float, temperature: float, b: float) -> float:
    r"""$\lim\tfrac1N\ln\tau$: barrier less the number of neighbours, $\min_\rho[\Delta F/NT-(\alpha+s(\rho))]$.

    Zero means that hops cost no more than polynomial time; infinity that no neighbour is within reach.
    """
    rho = np.linspace(0.0, float(extreme_overlap(alpha)), _NEIGHBOURS)
    abundance = alpha + np.log1p(-(rho**2)) / 2
    return float(np.maximum(np.min(barrier(rho, temperature, b) - abundance), 0.0))
