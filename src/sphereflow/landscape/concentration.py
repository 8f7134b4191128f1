r"""How much mass a narrow window of the circle can hold, and the facts about the kernel behind it.

For a second-order critical point, a set S of at least two atoms within a window of width $1/(2\sqrt\beta)$ has

$$\sum_{i\in S}m_i\le\frac{2e^{-3/2}+C}{2e^{-3/2}+\frac38e^{-1/8}},\qquad C=\sum_j|\omega_j||a_j|^2\quad\text{(peak)},$$

for activations that are 1-Lipschitz with sigma(0) = 0. The raw convention multiplies omega by e^-beta first, so there
C becomes negligible and the bound tends to 0.5742.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.landscape.problem import Problem

# Activations that are 1-Lipschitz and vanish at zero; the slope of gelu reaches 1.129, softplus(0) = ln 2.
COVERED = ("relu", "leaky_relu", "linear", "tanh")

_OUTSIDE = 2 * np.exp(-1.5)
_INSIDE = 0.375 * np.exp(-0.125)
NAKED_BOUND = float(_OUTSIDE / (_OUTSIDE + _INSIDE))


def kernel_bend(theta: Float[np.ndarray, "..."], beta: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "..."]:
    r"""$e^{-\beta}K''(\theta)=e^{\beta(\cos\theta-1)}(\beta^2\sin^2\theta-\beta\cos\theta)$."""
    shape = (beta * np.sin(theta)) ** 2 - beta * np.cos(theta)
    return np.asarray(np.exp(-2 * beta * np.sin(theta / 2) ** 2) * shape)


def concave_radius(beta: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "..."]:
    r"""$\theta_c$ up to which the kernel is concave: $\cos\theta_c=(\sqrt{1+4\beta^2}-1)/(2\beta)$."""
    return np.asarray(np.arccos((np.sqrt(1 + 4 * np.square(beta)) - 1) / (2 * np.asarray(beta))))


def perceptron_strength(problem: Problem) -> float:
    r"""$C=\sum_j|\omega_j||a_j|^2$ in the peak convention."""
    peak = problem.converted("peak")
    return float(np.abs(peak.outer) @ np.sum(peak.inner**2, axis=1))


def window_bound(problem: Problem) -> float:
    """The largest mass of two or more atoms in a window of width 1/(2 sqrt(beta)) at a second-order critical point."""
    if problem.d != 2 or problem.activation not in COVERED or problem.beta < 0.5:
        raise SphereflowError(
            f"the mass bound holds on the circle for beta of at least 0.5 and {', '.join(COVERED)}; "
            f"got d={problem.d}, beta={problem.beta:g}, {problem.activation}."
        )
    return float((_OUTSIDE + perceptron_strength(problem)) / (_OUTSIDE + _INSIDE))


def heaviest_window(
    angles: Float[np.ndarray, " k"], masses: Float[np.ndarray, " k"], width: float, least: int = 2
) -> float:
    """The largest mass of a window of this width that holds at least `least` atoms; 0 if there is none."""
    order = np.argsort(np.mod(angles, 2 * np.pi))
    sorted_angles, sorted_masses = np.mod(angles, 2 * np.pi)[order], np.asarray(masses)[order]
    heaviest = 0.0
    for start in sorted_angles:
        inside = np.mod(sorted_angles - start, 2 * np.pi) <= width
        if np.count_nonzero(inside) >= least:
            heaviest = max(heaviest, float(sorted_masses[inside].sum()))
    return heaviest
