r"""The exact layer for the Gaussian kernel (LSE): large deviations of overlaps on the sphere itself.

$$g(\phi,\beta)=\tfrac12\ln(1-\phi^2)+\beta\phi,\quad \phi^*=\frac{\sqrt{1+4\beta^2}-1}{2\beta},\quad
  g_{max}=g(\phi^*,\beta),\quad \alpha^*=-\tfrac12\ln(1-\phi^{*2}),\quad \phi_{max}(\alpha)=\sqrt{1-e^{-2\alpha}}.$$

Below the load alpha* the noise is that of the nearest of the other patterns, above it that of the typical ones; every
line has the two branches. Lines are loads alpha at given temperatures.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from sphereflow.errors import real_number
from sphereflow.memory.overlaps import Numbers, Values, log_mean_kernel, not_negative
from sphereflow.memory.state import lse_free_energy, lse_overlap


def saddle(beta: Numbers) -> Values:
    r"""$\phi^*(\beta)$: the overlap of the patterns that dominate the mean of the noise."""
    b = np.asarray(beta, dtype=float)
    return 2 * b / (np.sqrt(1 + 4 * b * b) + 1)


def g_max(beta: Numbers) -> Values:
    r"""$g_{max}(\beta)=\lim\tfrac1N\ln E\,e^{\beta N\phi}$."""
    phi = saddle(beta)
    return np.log1p(-phi * phi) / 2 + beta * phi


def load_switch(beta: float) -> float:
    r"""$\alpha^*(\beta)$: below it the noise is the nearest pattern's, above it that of the typical ones."""
    return float(-np.log1p(-(saddle(beta) ** 2)) / 2)


def extreme_overlap(alpha: Numbers) -> Values:
    r"""$\phi_{max}(\alpha)$: the largest overlap among $e^{\alpha N}$ independent patterns."""
    return np.sqrt(-np.expm1(-2 * not_negative("alpha", alpha)))


def noise_overlap(alpha: Numbers, beta: float) -> Values:
    r"""$\phi_{noise}$: $(\alpha+g_{max})/\beta$ for $\alpha\ge\alpha^*$, $\phi_{max}(\alpha)$ below.

    $u_{noise}=1-\phi_{noise}$. It is the quenched average $\tfrac1{\beta N}E\ln\sum_\mu e^{\beta N\phi^\mu}$, and the
    edge of the basin of attraction: from a larger overlap with a pattern the state returns to it.
    """
    a, beta = not_negative("alpha", alpha), real_number("beta", beta, above=0)
    return np.where(a >= load_switch(beta), (a + g_max(beta)) / beta, extreme_overlap(a))


def capacity(beta: Numbers) -> Values:
    r"""$\alpha_c(\beta,0)=\beta-g_{max}(\beta)$: the load at which a pattern stops dominating its own softmax."""
    b = not_negative("beta", beta)
    return b - g_max(b)


def finite_capacity(n: int, beta: float) -> float:
    r"""$-\tfrac1N\ln E\,e^{-\beta N(1-\phi)}$: the load at which the mean noise sum is 1, at finite N."""
    return -log_mean_kernel(n, beta) / n


def separation_bound(beta: float) -> float:
    r"""The load with $\sqrt{1-e^{-2\alpha}}=1-\alpha/\beta$: retrieval guaranteed by well separated patterns."""
    return float(brentq(lambda a: float(extreme_overlap(a)) - 1 + a / beta, 0.0, beta, xtol=1e-14))


def spinodal(temperature: Numbers, beta: float) -> Values:
    r"""$\alpha_{sp}(T)$, where $\phi_{eq}(T)=\phi_{noise}(\alpha)$: beyond it there is no retrieval minimum."""
    phi, beta = lse_overlap(temperature), real_number("beta", beta, above=0)
    far = beta * phi - g_max(beta)
    return np.where(far >= load_switch(beta), far, _load_with_extreme(phi))


def spinodal_temperature(alpha: Numbers, beta: float) -> Values:
    r"""$T_{sp}(\alpha)=1/\phi_{noise}-\phi_{noise}$, zero where $\phi_{noise}\ge1$."""
    phi = noise_overlap(alpha, beta)
    return np.maximum(1 / phi - phi, 0.0)


def equal_depth(temperature: Numbers, beta: float) -> Values:
    r"""$\alpha_{ed}(T)$: the one basin is as deep as the noise, $f_{ret}=u_{noise}$; nothing singular happens there."""
    depth = 1 - lse_free_energy(temperature)
    far = beta * depth - g_max(beta)
    return np.where(far >= load_switch(beta), far, _load_with_extreme(np.maximum(depth, 0.0)))


def static(temperature: Numbers, beta: float) -> Values:
    r"""$\alpha_u(T)$: the union of all basins against the noise, $f_{ret}-\alpha T=u_{noise}$.

    $\alpha_u=\frac{\beta(1-f_{ret})-g_{max}}{1-\beta T}$ for $T<1/\beta$, and the spinodal for $T\ge1/\beta$.
    """
    t = np.asarray(temperature, dtype=float)
    cold = beta * t < 1
    union = (beta * (1 - lse_free_energy(t)) - g_max(beta)) / np.where(cold, 1 - beta * t, 1.0)
    # Within rounding of the meeting point the ratio is 0/0; there the two branches agree to second order anyway.
    return np.where(cold & (1 - beta * t > 1e-6), union, _load_with_extreme(lse_overlap(t)))


def _load_with_extreme(phi: Values) -> Values:
    """The load whose extreme overlap is phi."""
    return -np.log1p(-(np.minimum(phi, 1 - 1e-16) ** 2)) / 2
