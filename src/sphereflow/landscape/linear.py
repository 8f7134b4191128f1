r"""The exception: with a linear activation the minimiser can be a density.

Let $v(x)=x^\top Mx$ with $M=\sum_j\omega_ja_ja_j^\top$, let $M_0$ be its traceless part and $\Lambda_l$ the mean of
the peak kernel against the zonal harmonic of degree l (Funk-Hecke). As long as
$\lambda_{\max}(M_0)\le2\Lambda_2/\beta$, the minimiser has the density

$$\rho(x)=1-\frac{\beta}{2\Lambda_2}x^\top M_0x,\qquad
  \mathsf E_{\min}=\frac{\Lambda_0}{2\beta}+\frac{\operatorname{tr}M}{2d}
  -\frac{\beta\operatorname{tr}M_0^2}{4\Lambda_2d(d+2)}$$

with respect to the uniform measure; beyond, it is singular. On the circle $v=c+B\cos2(\theta-\psi)$ and the threshold
is $|B|=2\Lambda_2/\beta=2e^{-\beta}I_2(\beta)/\beta$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.landscape.problem import Problem
from sphereflow.numerics.bessel import funk_hecke


@dataclass(frozen=True, eq=False)
class QuadraticDensity:
    r"""$\rho(x)=1-x^\top Sx$ with respect to the uniform measure, with its energy in the convention of the problem."""

    problem: Problem
    shape: Float[np.ndarray, "d d"]
    energy: float

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return 1 - np.einsum("ni,ij,nj->n", x, self.shape, x)


def strength(problem: Problem) -> float:
    r"""$\lambda_{\max}(M_0)\beta/(2\Lambda_2)$: the minimiser is a density up to 1, singular beyond."""
    peak = problem.converted("peak")
    top = float(np.linalg.eigvalsh(_traceless(peak))[-1])
    return top * peak.beta / (2 * float(funk_hecke(peak.d, peak.beta, 2)))


def density(problem: Problem) -> QuadraticDensity:
    """The minimiser in closed form, for a linear activation without biases below the threshold."""
    if problem.activation != "linear" or np.any(problem.bias != 0):
        raise SphereflowError("the closed form needs a linear activation without biases; use landscape.minimise.")
    if strength(problem) > 1:
        raise SphereflowError(
            f"the weights are {strength(problem):.4g} times the threshold up to which the minimiser is a density; "
            "use landscape.minimise."
        )
    peak = problem.converted("peak")
    d, beta = peak.d, peak.beta
    traceless = _traceless(peak)
    zeroth, second = (float(funk_hecke(d, beta, degree)) for degree in (0, 2))
    level = zeroth / (2 * beta) + float(peak.outer @ np.sum(peak.inner**2, axis=1)) / (2 * d)
    bonus = beta / (8 * second) * 2 * float(np.sum(traceless**2)) / (d * (d + 2))
    return QuadraticDensity(problem, beta / (2 * second) * traceless, problem.factor * (level - bonus))


def _traceless(problem: Problem) -> Float[np.ndarray, "d d"]:
    form = (problem.inner * problem.outer[:, None]).T @ problem.inner
    return form - np.trace(form) / problem.d * np.eye(problem.d)
