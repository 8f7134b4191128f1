r"""The same instability on S^{d-1}: harmonics of degree l grow at the rate

$$\lambda_l=\frac{l(l+d-2)}{\beta}\,a_l,\qquad
  a_l=\Gamma(\tfrac d2)\left(\tfrac2\beta\right)^{d/2-1}I_{l+d/2-1}(\beta)$$

for USA (raw kernel), and $\lambda_l/a_0$ for SA.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import legendre
from scipy import special

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import Model, weighted_velocities

_LATITUDES = 16
_LONGITUDES = 32
_AMPLITUDE = 1e-5


def coefficient(degree: int, d: int, beta: float) -> float:
    r"""$a_l$, the eigenvalue of the raw kernel on harmonics of degree l."""
    order = d / 2 - 1
    return float(special.gamma(d / 2) * (2 / beta) ** order * special.iv(degree + order, beta))


def harmonic_growth_rate(degree: int, d: int, beta: float, model: Model) -> float:
    """The rate at which a harmonic of the given degree grows on the uniform measure."""
    rate = degree * (degree + d - 2) / beta * coefficient(degree, d, beta)
    return rate if model == "usa" else rate / coefficient(0, d, beta)


def sphere_quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Gauss points in height times equal longitudes on S^2, with masses: exact for polynomials of degree 31."""
    height, weight = legendre.leggauss(_LATITUDES)
    angle = 2 * np.pi * np.arange(_LONGITUDES) / _LONGITUDES
    z, phi = (a.ravel() for a in np.meshgrid(height, angle, indexing="ij"))
    radius = np.sqrt(1 - z**2)
    points = np.stack([radius * np.cos(phi), radius * np.sin(phi), z], axis=1)
    return points, np.repeat(weight / 2, _LONGITUDES) / _LONGITUDES


def measured_harmonic_rate(degree: int, beta: float, model: Model) -> float:
    r"""$\lambda_l$ on S^2 from the velocities of quadrature points with masses $\propto1+\epsilon P_l(z)$.

    $\frac{d}{dt}\int P_l\,d\mu=\int P_l'(z)\,v_z\,d\mu$, and the integral on the left starts at $\epsilon/(2l+1)$.
    Averaging over $\pm\epsilon$ removes the next order and the rounding of the uniform part.
    """
    x, masses = sphere_quadrature()
    polynomial = legendre.Legendre.basis(degree)
    rates = []
    for amplitude in (_AMPLITUDE, -_AMPLITUDE):
        tilted = masses * (1 + amplitude * polynomial(x[:, 2]))
        moved = weighted_velocities(model, beta, x, tilted)
        rates.append((2 * degree + 1) / amplitude * np.sum(tilted * polynomial.deriv()(x[:, 2]) * moved[:, 2]))
    return float(np.mean(rates))


@PAPER.claim(
    "growth-rates-on-the-sphere",
    says="On $S^2$ harmonics of degree 1 to 4 on the uniform density grow at rates given by Bessel functions, "
    "$\\beta=2$ and 8, SA and USA.",
    basis=basis.Derived("the continuity equation linearised at the uniform measure"),
    formula=r"\lambda_l=\frac{l(l+d-2)}{\beta}\frac{I_{l+d/2-1}(\beta)}{I_{d/2-1}(\beta)}\ \mathrm{(SA)}",
)
def growth_rates_on_the_sphere(run: Run) -> Check:
    check = Check()
    models: tuple[Model, Model] = ("sa", "usa")
    circle, plane = {}, {}
    for model in models:
        for beta in (2.0, 8.0):
            for degree in range(1, 5):
                row = f"{model.upper()}, beta={beta:g}, l={degree}"
                exact = harmonic_growth_rate(degree, 3, beta, model)
                check.row(
                    row,
                    predicted=exact,
                    measured=measured_harmonic_rate(degree, beta, model),
                    relative=1e-9,
                    because="terms of second order in the amplitude 1e-5 are 1e-10, rounding 1e-16 / 1e-5",
                )
                circle[row] = exact * degree / (degree + 1)
                plane[row] = harmonic_growth_rate(degree, 2, beta, model)
    check.rival("the eigenvalue l^2 of the circle", circle)
    check.rival("the rates of the circle", plane)
    return check
