r"""Lyapunov exponents of simulated networks: pairs of tokens at a distance of one in a million.

$$\lambda=\tfrac12\big[(d-3)\kappa'(1)-(d-1)\kappa(1)\big]\quad\text{whatever the width of the layers, as } h\to0.$$

At a finite step the exponent of layers of width one, and of Gaussian layers, is an integral over one layer: networks
are compared with it, and it is followed to $h=0$.
"""

from __future__ import annotations

import jax
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, extrapolate, mean
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import (
    ends,
    exponent,
    growth_of_gaussian_layer,
    growth_of_narrow_layer,
)
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_activation, of_powers, of_quadratic_form
from sphereflow.synchronisation.lyapunov import separation_rates
from sphereflow.synchronisation.random_fields import GaussianField, RandomField, RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint


def rates(field: RandomField, d: int, step: float, duration: float, pairs: int, seed: int) -> np.ndarray:
    """The growth rates of small distances in a network, one per independent pair."""
    found = separation_rates(field, jax.random.key(seed), step, pairs=pairs, d=d, layers=round(duration / step))
    return np.asarray(found)


@PAPER.claim(
    "contraction-of-networks",
    says="Close tokens of networks with ReLU layers of width one in dimension 8 approach at the rate that one layer "
    "gives, which tends to $-1/2$ with the step; the logarithm of their distance spreads at the rate "
    "$\\kappa(1)+\\kappa'(1)=1$. Tanh and softplus are added in the larger preset.",
    basis=sources.SYNCHRONISATION,
    formula=r"\lambda=\tfrac12[(d-3)\kappa'(1)-(d-1)\kappa(1)],\qquad "
    r"\mathrm{Var}\log|x-y|\approx(\kappa(1)+\kappa'(1))t",
)
def contraction_of_networks(run: Run) -> Check:
    cases = [("relu", 0.01, 10.0, 1000)]
    if not run.quick:
        cases = [("relu", 0.005, 20, 2000), ("tanh", 0.005, 20, 1000), ("softplus", 0.002, 20, 1000)]
    d = 8
    check = Check(parameters={"d": d, "width": 1, "distance": 1e-6})
    independent, energy, flat = {}, {}, {}
    for k, (name, step, duration, pairs) in enumerate(cases):
        run.notify(k / len(cases), name)
        sample = rates(RandomPerceptron(name, 1), d, step, duration, pairs, run.seed + k)
        found, (one, slope) = mean(sample), ends(name)
        row = f"{name}, exponent at h={step:g}"
        check.row(
            row,
            predicted=growth_of_narrow_layer(name, d, step),
            measured=found.value,
            error=found.error,
            repeats=pairs,
            because="the error bar over independent pairs; the layer is integrated without sampling",
        )
        independent[row] = ((d - 2) * slope - (d - 1) * one) / 2
        energy[row] = exponent(d, one, slope) + one + slope
        steps = np.array([4e-4, 2e-4, 1e-4])
        fine = [growth_of_narrow_layer(name, d, float(h)) for h in steps]
        limit = (8 * fine[2] - 6 * fine[1] + fine[0]) / 3  # removes the orders h and h squared
        row = f"{name}, exponent as h tends to 0"
        check.row(
            row, predicted=exponent(d, one, slope), measured=limit, tolerance=2e-4, because="the third order in h"
        )
        spread = mean((sample - sample.mean()) ** 2 * duration)
        row = f"{name}, variance of the logarithm per unit of time"
        check.row(
            row,
            predicted=one + slope,
            measured=spread.value,
            error=spread.error,
            repeats=pairs,
            relative=(d - 1) * one * step,
            because="the error bar over independent pairs; one layer, relatively (d-1) kappa(1) h",
        )
        flat[row] = slope
    check.rival("one tangent direction too few (d-2 for d-3)", independent)
    check.rival("half the growth rate of the mean square, lambda + kappa(1) + kappa'(1)", energy)
    check.rival("no share of the return to the sphere in the spread", flat)
    return check


@PAPER.claim(
    "chaotic-networks",
    says="In dimension 24 tanh layers separate close tokens at rate 0.342 in the limit. At the step 0.004 networks of "
    "width one separate them at 0.057 and Gaussian layers at 0.338, as one layer gives; both tend to the same limit.",
    basis=basis.Derived(f"the scaling limit of {sources.MODEL}: it does not depend on the width"),
    formula=r"\lambda_{tanh}(24)=0.3418,\qquad \lambda_m(h)=\lambda+O(h)",
)
def chaotic_networks(run: Run) -> Check:
    d, step = 24, 0.004
    one, slope = ends("tanh")
    duration, pairs = (4.0, 300) if run.quick else (10.0, 1000)
    check = Check(parameters={"d": d, "h": step, "pairs": pairs})
    limit = exponent(d, one, slope)
    same, fewer = {}, {}
    law = of_activation("tanh")
    layers = {
        "Gaussian": (GaussianField(law), lambda h: growth_of_gaussian_layer(d, one, slope, h)[0]),
        "width one": (RandomPerceptron("tanh", 1), lambda h: growth_of_narrow_layer("tanh", d, h)),
    }
    for k, (name, (field, exact)) in enumerate(layers.items()):
        found = mean(rates(field, d, step, duration, pairs, run.seed + k))
        row = f"{name}, h={step:g}"
        check.row(
            row,
            predicted=exact(step),
            measured=found.value,
            error=found.error,
            repeats=pairs,
            because="the error bar over independent pairs; the layer is integrated without sampling",
        )
        same[row], fewer[row] = limit, ((d - 2) * slope - (d - 1) * one) / 2
        steps = np.array([4e-5, 2e-5, 1e-5])
        fine = [exact(float(h)) for h in steps]
        row = f"{name}, as h tends to 0"
        measured = (8 * fine[2] - 6 * fine[1] + fine[0]) / 3
        check.row(row, predicted=limit, measured=measured, tolerance=2e-4, because="the third order in h")
    if not run.quick:
        steps, values = np.array([0.002, 0.001, 0.0005]), []
        for j, h in enumerate(steps):
            run.notify((j + 1) / 4, f"width 4, step {h:g}")
            values.append(mean(rates(RandomPerceptron("tanh", 4), d, float(h), 4.0, 600, run.seed + j)))
        zero = extrapolate(steps, Estimate(*(np.array([float(v[i]) for v in values]) for i in (0, 1))))
        check.row(
            "width 4, extrapolated to h=0",
            predicted=limit,
            measured=zero.value,
            error=zero.error,
            repeats=600,
            tolerance=0.02 * limit,
            because="the error bar of the extrapolation, and what is left of the second order in h",
        )
    check.rival("width one has the rate of the limit at this step", {"width one, h=0.004": same["width one, h=0.004"]})
    check.rival("one tangent direction too few (d-2 for d-3)", fewer)
    kept = {"width one, as h tends to 0": growth_of_narrow_layer("tanh", d, step)}
    check.rival("the loss of width one stays as h tends to 0", kept)
    return check


@PAPER.claim(
    "moment-exponents",
    says="Moments of a small gap between two tokens, from the backward equation of their overlap, grow at the rates "
    "of a lognormal law: softplus in dimension 8, constant layers in dimensions 3 and 10, the random quadratic form.",
    basis=basis.Derived("the two-point equation linearised where tokens meet; Baxendale's rate for constant layers"),
    formula=r"\Lambda(p)=\lim\tfrac1t\log E\varepsilon^p=2\lambda p+2(\kappa(1)+\kappa'(1)+2b)p^2,\quad "
    r"\kappa=1:\ \lambda=-\tfrac{d-1}2;\quad \text{quadratic form}:\ \Lambda(p)=-p(4-8p)",
)
def moment_exponents(run: Run) -> Check:
    gap, t = 1e-9, 0.2
    one, slope = ends("softplus")
    cases = {
        "softplus, d=8": (TwoPoint(8, of_activation("softplus")), exponent(8, one, slope), one + slope),
        "constant, d=3": (TwoPoint(3, of_powers([1.0])), -1.0, 1.0),
        "constant, d=10": (TwoPoint(10, of_powers([1.0])), -4.5, 1.0),
        "quadratic form, d=5": (TwoPoint(5, of_quadratic_form(0.0)), -2.0, 4.0),
    }
    check = Check(parameters={"gap": gap, "t": t})
    typical, half = {}, {}
    for name, (pair, rate, variance) in cases.items():
        equation = Backward(pair, right=24.0, cells=2000)
        for p in (0.25, 1.0):
            row = f"{name}, p={p:g}"
            moment = equation.averages(lambda r, p=p: (1 - r) ** p, [t], start=1 - gap)[0]  # type: ignore[misc]
            check.row(
                row,
                predicted=2 * rate * p + 2 * variance * p**2,
                measured=np.log(moment / gap**p) / t,
                tolerance=2e-5,
                because="the grid of the equation, and the rounding of a start at a gap of 1e-9",
            )
            typical[row], half[row] = 2 * rate * p, 2 * rate * p + variance * p**2
    check.rival("moments follow the typical gap", typical)
    check.rival("half the variance rate", half)
    return check
