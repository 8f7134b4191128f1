r"""Strong errors of nonlinear layers on the sphere in three dimensions, one path of the noise in harmonics.

$$\kappa(r)=\sum_{l\le M}\kappa_lP_l(r),\qquad k=\sum\kappa_l,\quad k'=\sum\tfrac{l(l+1)}2\kappa_l,$$
$$E|x^{(L)}-x|^2\approx(d-1)kT\Big[\frac{(d-1)k'+k}2\Big(\frac1L-\frac1{L_0}\Big)+\frac k{L_0}\Big]\frac{e^{gT}-1}g,
  \qquad g=(d-1)k'-(d-3)k .$$
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import hermite_e, legendre

from sphereflow.claims import Check, Run
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.independent import relu_kappa
from sphereflow.papers.synchronization_by_noise.pathwise import DEPTHS, PATHWISE
from sphereflow.synchronisation.pathwise import strong_errors

DEGREE, T1 = 8, 0.5


def tanh_kappa(r: np.ndarray) -> np.ndarray:
    r"""$E\tanh(g)\tanh(g')$ for normal numbers of correlation r, by Gauss quadrature in two independent ones."""
    z, weight = hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    second = r[:, None, None] * z[:, None] + np.sqrt(1 - r**2)[:, None, None] * z
    return np.asarray(np.einsum("a,b,rab->r", weight, weight, np.tanh(z)[:, None] * np.tanh(second)))


def legendre_weights(kappa: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The first coefficients of a covariance."""
    r, weight = legendre.leggauss(200)
    return np.array(
        [(2 * j + 1) / 2 * np.sum(weight * kappa(r) * legendre.Legendre.basis(j)(r)) for j in range(DEGREE + 1)]
    )


def rms_error(one: float, slope: float, depth: int, steps: int, d: int = 3) -> float:
    """The root mean square distance of a token from the limit, followed in so many steps along great circles."""
    growth = (d - 1) * slope - (d - 3) * one
    amplified = np.expm1(growth * T1) / growth
    local = ((d - 1) * slope + one) / 2 * (1 / depth - 1 / steps) + one / steps
    return float(np.sqrt((d - 1) * one * T1 * local * amplified))


@PAPER.claim(
    "strong-order-on-the-sphere",
    says="On one path of the noise tokens on the sphere in three dimensions in networks of 16 to 64 nonlinear layers, "
    "ReLU and tanh, are away from the limiting equation by the predicted constant times $L^{-1/2}$; with attention "
    "the order stays.",
    basis=PATHWISE,
    formula=r"E|x^{(L)}-x|^2\approx\frac{(d-1)k((d-1)k'+k)}2\,\frac{e^{gT}-1}g\,\frac TL,\quad d=3",
)
def strong_order_on_the_sphere(run: Run) -> Check:
    repeats, steps = (400, 128) if run.quick else (6000, 512)
    check = Check(parameters={"d": 3, "n": 3, "t": T1, "degree": DEGREE, "paths": repeats, "steps": steps})
    rivals: dict[str, dict[str, float]] = {name: {} for name in ("first", "circle", "linear", "order")}
    for k, (name, kappa, v) in enumerate(
        (("relu", relu_kappa, 0.0), ("tanh", tanh_kappa, 0.0), ("tanh", tanh_kappa, 1.0))
    ):
        run.notify(k / 3, f"{name}, v={v:g}")
        found = strong_errors(
            name,
            d=3,
            n=3,
            t1=T1,
            depths=DEPTHS,
            steps=steps,
            strength=v,
            modes=DEGREE,
            repeats=repeats,
            seed=run.seed + k,
        )
        weights, degrees = legendre_weights(kappa), np.arange(DEGREE + 1)
        one, slope = float(weights.sum()), float(weights @ (degrees * (degrees + 1) / 2))
        exact = [rms_error(one, slope, depth, steps) for depth in DEPTHS]
        if not v:
            for depth, predicted, value, error in zip(DEPTHS, exact, *found.errors(), strict=True):
                row = f"{name}, {depth} layers"
                check.row(
                    row,
                    predicted=predicted,
                    measured=value,
                    error=error,
                    repeats=repeats,
                    relative=max(0.05, 1.5 / depth),
                    because="the error bar over paths; the next order in the step",
                )
                rivals["circle"][row] = rms_error(one, slope, depth, steps, d=2)
                rivals["linear"][row] = rms_error(weights[0] + weights[1], weights[1], depth, steps)
                if depth > DEPTHS[0]:
                    rivals["first"][row] = exact[0] * DEPTHS[0] / depth
        order, row = found.order(), f"{name}, v={v:g}, order"
        check.row(
            row,
            predicted=np.polyfit(np.log(DEPTHS), np.log(exact), 1)[0],
            measured=order.value,
            error=order.error,
            repeats=repeats,
            tolerance=0.03,
            because="the error bar of the slope over paths; the next order in the step",
        )
        rivals["order"][row] = -1.0
    check.rival("order one, anchored at 16 layers", rivals["first"])
    check.rival("slope -1", rivals["order"])
    check.rival("the constants of the circle", rivals["circle"])
    check.rival("the constant and linear part of the covariance alone", rivals["linear"])
    return check
