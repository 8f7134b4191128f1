r"""The retrieval state: one pattern against the entropy of the sphere, the same in both layers of the theory.

$$f(\phi)=u(\phi)-\tfrac T2\ln(1-\phi^2),\qquad u_{\mathrm{LSE}}=1-\phi,\qquad
  u_{\mathrm{LSR}}=-\tfrac1b\ln[1-b(1-\phi)].$$

At finite N the overlap has the density $(1-\phi^2)^{(N-3)/2}e^{-Nu(\phi)/T}$, with no approximation.
"""

from __future__ import annotations

import numpy as np

from sphereflow.errors import real_number
from sphereflow.memory.overlaps import Numbers, Values, not_negative
from sphereflow.numerics.bessel import log_ive

# The reference value of the compact kernel: its support ends at phi_c = 1/sqrt(2).
REFERENCE_B = 2 + 2**0.5


def lse_overlap(temperature: Numbers) -> Values:
    r"""$\phi_{eq}(T)=\tfrac12(\sqrt{T^2+4}-T)$, written so that it is precise at every T."""
    t = not_negative("temperature", temperature)
    return 2 / (np.sqrt(t * t + 4) + t)


def lse_free_energy(temperature: Numbers) -> Values:
    r"""$f_{ret}(T)=1-\phi_{eq}-\tfrac T2\ln(1-\phi_{eq}^2)$; note $1-\phi_{eq}^2=T\phi_{eq}$."""
    t = np.asarray(temperature, dtype=float)
    phi = lse_overlap(t)
    return 1 - phi - _entropy_cost(t, t * phi)


def support_edge(b: float) -> float:
    r"""$\phi_c=1-1/b$: the compact kernel is zero below this overlap."""
    return 1 - 1 / real_number("b", b, above=0)


def lsr_overlap(temperature: Numbers, b: float) -> Values:
    r"""The smaller root y of $(bT+1)y^2-(2+T+bT)y+T=0$, as $\phi=1-y$."""
    t, b = not_negative("temperature", temperature), real_number("b", b, above=0)
    quadratic, linear = b * t + 1, 2 + t + b * t
    return 1 - 2 * t / (linear + np.sqrt(linear**2 - 4 * quadratic * t))


def lsr_free_energy(temperature: Numbers, b: float) -> Values:
    r"""$f_{ret}(T)=-\tfrac1b\ln[1-b(1-\phi)]-\tfrac T2\ln(1-\phi^2)$ at the retrieval overlap."""
    t = np.asarray(temperature, dtype=float)
    phi = lsr_overlap(t, b)
    return -np.log1p(-b * (1 - phi)) / b - _entropy_cost(t, (1 - phi) * (1 + phi))


def lse_mean_overlap(n: int, temperature: float) -> float:
    r"""$\langle\phi\rangle=I_{N/2}(N/T)/I_{N/2-1}(N/T)$: one pattern at finite N, exactly."""
    z = n / temperature
    return float(np.exp(log_ive(n / 2, z) - log_ive(n / 2 - 1, z)))


def lsr_mean_overlap(n: int, temperature: float, b: float) -> float:
    r"""$\langle\phi\rangle$ under $(1-\phi^2)^{(N-3)/2}[1-b(1-\phi)]^{N/(bT)}$ on $(\phi_c,1)$, by quadrature."""
    # In the angle the integrand vanishes at both ends and is smooth, so the trapezoidal rule converges fast.
    theta = np.linspace(0, np.arccos(support_edge(b)), 20_001)[1:-1]
    phi = np.cos(theta)
    log_weight = (n - 2) * np.log(np.sin(theta)) + n / (b * temperature) * np.log1p(-2 * b * np.sin(theta / 2) ** 2)
    weight = np.exp(log_weight - log_weight.max())
    return float(np.sum(weight * phi) / np.sum(weight))


def _entropy_cost(t: Values, one_minus_square: Values) -> Values:
    """(T/2) ln(1 - phi^2), which is 0 at T = 0."""
    return t / 2 * np.log(np.where(t > 0, one_minus_square, 1.0))
