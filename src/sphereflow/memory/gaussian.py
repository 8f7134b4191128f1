r"""The published layer: overlaps are treated as Gaussian, $s(\phi)\approx-\phi^2/2$.

$$\phi_{max}=\sqrt{2\alpha},\qquad \text{retrieval iff } f_{ret}(T)\le u_{noise}(\alpha).$$

The exact law of overlaps on the sphere is the layer in `spherical`. The two give different numbers (capacity 0.5
against 0.6226 at beta = 1), so every result says which one it belongs to. Lines are loads alpha at given temperatures.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from sphereflow.memory.overlaps import Numbers, Values
from sphereflow.memory.state import lse_free_energy, lsr_free_energy, support_edge


def lse_noise_floor(alpha: Numbers, beta: float) -> Values:
    r"""$u_{noise}=1-\sqrt{2\alpha}$ (load-limited, $\beta>\sqrt{2\alpha}$), else $1-\alpha/\beta-\beta/2$."""
    a = np.asarray(alpha, dtype=float)
    extreme = np.sqrt(2 * a)
    return np.where(beta > extreme, 1 - extreme, 1 - a / beta - beta / 2)


def lse_line(temperature: Numbers, beta: float = 1.0) -> Values:
    r"""$\alpha_c(T)=\tfrac12[1-f_{ret}]^2$ where $\beta\ge1-f_{ret}$, else $\beta(1-f_{ret})-\beta^2/2$.

    Beyond the temperature at which $f_{ret}=1$ nothing is retrieved at any load.
    """
    depth = 1 - lse_free_energy(temperature)
    line = np.where(beta >= depth, depth**2 / 2, beta * depth - beta**2 / 2)
    return np.where(depth > 0, line, 0.0)


def lse_critical_temperature(alpha: float, beta: float = 1.0) -> float:
    """The temperature at which the line passes the load alpha."""
    return float(brentq(lambda t: float(lse_line(t, beta)) - alpha, 0.0, 1e6, xtol=1e-12))


def lse_capacity(beta: float) -> float:
    r"""$\alpha_c(0)$: $\tfrac12$ for $\beta\ge1$, $\beta(1-\beta/2)$ below."""
    return float(lse_line(0.0, beta))


def lsr_threshold(b: float) -> float:
    r"""$\alpha_{th}=\tfrac12\phi_c^2$: below it no other pattern reaches the support."""
    return support_edge(b) ** 2 / 2


def lsr_noise_floor(alpha: Numbers, b: float) -> Values:
    r"""$u_{noise}=-\tfrac1b\ln(1-b(1-\sqrt{2\alpha}))$ above the threshold, infinite below."""
    inside = 1 - b * (1 - np.sqrt(2 * np.asarray(alpha, dtype=float)))
    return np.where(inside > 0, -np.log(np.where(inside > 0, inside, 1.0)) / b, np.inf)


def lsr_line_as_published(temperature: Numbers, b: float) -> Values:
    r"""$\tfrac12[1-f_{ret}^{LSR}]^2$, the printed expression; it is not what the printed noise floor gives.

    NaN from the smallest temperature on at which it meets the threshold (see `lsr_published_end`).
    """
    t = np.asarray(temperature, dtype=float)
    return np.where(t <= lsr_published_end(b), (1 - lsr_free_energy(t, b)) ** 2 / 2, np.nan)


def lsr_published_end(b: float) -> float:
    r"""The smallest T with $\tfrac12[1-f_{ret}^{LSR}(T)]^2=\alpha_{th}$; it rises through it once more later."""
    depth = support_edge(b)  # the square root of twice the threshold

    def above(t: float) -> float:
        return float(1 - lsr_free_energy(t, b)) - depth

    top = 1e-3
    while above(top) > 0:
        top *= 2
    return float(brentq(above, 0.0, top, xtol=1e-13))


def lsr_line(temperature: Numbers, b: float) -> Values:
    r"""$\alpha_c(T)=\tfrac12\big[1-\tfrac{1-e^{-bf_{ret}(T)}}b\big]^2$: the criterion with the layer's own noise floor.

    It tends to the threshold only as T grows without bound.
    """
    return (1 + np.expm1(-b * lsr_free_energy(temperature, b)) / b) ** 2 / 2


def lsr_critical_temperature(alpha: float, b: float) -> float:
    """The temperature at which `lsr_line` passes the load alpha, between the threshold and 1/2."""
    return float(brentq(lambda t: float(lsr_line(t, b)) - alpha, 0.0, 1e6, xtol=1e-12))
