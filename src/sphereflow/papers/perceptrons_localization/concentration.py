r"""How concentrated second-order points on the circle can be, and a printed claim about it that fails."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from sphereflow import landscape
from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.landscape import Problem
from sphereflow.landscape.concentration import (
    NAKED_BOUND,
    concave_radius,
    heaviest_window,
    kernel_bend,
    load,
    window_bound,
)
from sphereflow.papers.perceptrons_localization import PAPER
from sphereflow.papers.perceptrons_localization.splitting import half_angle, problem

BETAS = np.array([0.5, 1.0, 2.0, 4.0, 10.0, 50.0, 200.0, 2000.0])
INSIDE = 0.375 * np.exp(-0.125)


def bend_by_differences(theta: np.ndarray, beta: float) -> np.ndarray:
    """Second difference of the peak kernel, independent of its formula."""
    h = 1e-4 / np.sqrt(beta)

    def k(t: np.ndarray) -> np.ndarray:
        return np.exp(beta * (np.cos(t) - 1))

    return (k(theta + h) - 2 * k(theta) + k(theta - h)) / h**2


@PAPER.claim(
    "kernel-facts",
    statement="The kernel is concave up to theta_c, about 1/sqrt(beta); its second derivative is at most "
    "2 beta e^(beta - 3/2) everywhere and strongly negative near zero.",
    source="Lemma on concavity of the kernel",
    formula=r"\cos\theta_c=\frac{\sqrt{1+4\beta^2}-1}{2\beta},\quad\beta^2\theta_c^2\le\beta+3,\quad "
    r"K''\le2\beta e^{\beta-3/2},\quad K''\le-e^{-\ell^2/2}\tfrac{1-\ell^2}2\beta e^\beta\ (|\theta|\le\ell\theta_c)",
    falsifier="one of the inequalities violated between beta = 0.5 and 2000",
)
def kernel_facts(run: Run) -> Measurement:
    violations, labels = [], []
    for beta in BETAS:
        theta = np.concatenate([np.linspace(0, min(np.pi, 8 / np.sqrt(beta)), 4001), np.linspace(0, np.pi, 2001)])
        bend = kernel_bend(theta, beta) / beta
        radius = float(concave_radius(beta))
        violations += [
            beta**2 * radius**2 - beta - 3,
            float(bend[theta < radius].max()),
            float(np.abs(kernel_bend(np.array([radius]), beta))[0] / beta) - 1e-12,
            float(bend.max()) - 2 * np.exp(-1.5),
            float(bend[theta <= 0.5 / np.sqrt(beta)].max()) + INSIDE,
        ]
        facts = ("size of theta_c", "concave inside", "inflection there", "bound everywhere", "bound in the window")
        labels += [f"{what}, beta={beta:g}" for what in facts]
        for inner in (0.25, 0.5):
            if beta >= 12 / (1 - inner**2) + 3:
                near = theta <= inner * radius
                violations.append(float(bend[near].max()) + np.exp(-(inner**2) / 2) * (1 - inner**2) / 2)
                labels.append(f"bound within {inner:g} theta_c, beta={beta:g}")
    return at_most(
        np.zeros(len(violations)),
        violations,
        slack=1e-12,
        because="inequalities, up to rounding of exponentials",
        labels=tuple(labels),
        note="The bound everywhere is proved for beta >= 4 and was found to hold from 0.45 on.",
    )


@PAPER.claim(
    "kernel-numbers",
    statement="The scaled radius of concavity and the scaled largest second derivative at four values of beta, the "
    "constant 0.5742, and the smallest beta for which the window argument works.",
    source="Lemma on concavity; theorem on the mass bound",
    formula=r"\frac{2e^{-3/2}}{2e^{-3/2}+\frac38e^{-1/8}}=0.574192",
    falsifier="another normalisation of K",
)
def kernel_numbers(run: Run) -> Measurement:
    betas = (4.0, 10.0, 50.0, 200.0)
    radii, peaks = [], []
    for beta in betas:
        theta = np.linspace(0, 6 / np.sqrt(beta), 60001)
        bend = bend_by_differences(theta, beta)
        inside = int(np.argmax(bend > 0))
        radii.append(
            float(np.interp(0.0, bend[inside - 1 : inside + 1], theta[inside - 1 : inside + 1])) * np.sqrt(beta)
        )
        peaks.append(float(bend.max()) / (2 * beta * np.exp(-1.5)))

    def window_excess(beta: float) -> float:
        theta = np.linspace(0, min(np.pi, 0.5 / np.sqrt(beta)), 2001)
        return float(np.max(kernel_bend(theta, beta)) / beta + INSIDE)

    smallest = brentq(window_excess, 0.1, 1.0, xtol=1e-10)
    return agreement(
        [0.978, 0.991, 0.998, 0.9996, 0.919, 0.964, 0.993, 0.998, 0.574192, 0.2558],
        [*radii, *peaks, NAKED_BOUND, smallest],
        absolute=[6e-4, 6e-4, 6e-4, 6e-5, 6e-4, 6e-4, 6e-4, 6e-4, 6e-7, 1e-4],
        because="reference values with the decimals given; the smallest beta is rounded up",
        labels=(
            *(f"theta_c sqrt(beta), beta={b:g}" for b in betas),
            *(f"max K'' scaled, beta={b:g}" for b in betas),
            "constant of the bound",
            "smallest beta of the window argument",
        ),
    )


@PAPER.claim(
    "mass-bound",
    statement="Two or more atoms within 1/(2 sqrt(beta)) of a second-order point hold at most the bound with the "
    "weights in it; without the weights, 0.5742 is exceeded by the split pair, which holds all the mass.",
    source="Theorem on the mass bound",
    formula=r"\sum_{i\in S}m_i\le\frac{2e^{-3/2}+C}{2e^{-3/2}+\frac38e^{-1/8}},\qquad C=\sum_j|\omega_j||a_j|^2",
    falsifier="a window heavier than the bound, or 0.5742 asserted for weights of order one in the peak convention",
)
def mass_bound(run: Run) -> Measurement:
    cases = ((10.0, 0.9), (20.0, 0.9), (20.0, 0.95), (100.0, 0.89))
    excess, naked, sharp = [], [], []
    for beta, w in cases:
        here = problem(beta, w)
        found = landscape.minimise(here)
        mass = heaviest_window(found.angles, found.masses, 1 / (2 * np.sqrt(beta)))
        excess.append(max(0.0, mass - window_bound(here)))
        naked.append(float(mass > NAKED_BOUND))
        sharp.append(float(4 * half_angle(beta, w) ** 2 <= 1 / (4 * beta)))
    # Random weights in the raw convention, where the bound is close to 0.5742.
    for seed in range(4):
        here = Problem.random(4.0, 2, 3, seed=seed, kernel_scale="raw")
        found = landscape.minimise(here)
        excess.append(max(0.0, heaviest_window(found.angles, found.masses, 0.25) - window_bound(here)))
    return agreement(
        [0.0] * 8 + [1.0] * 8 + [1.0],
        [*excess, *naked, *sharp, float(load(problem(20.0, 0.9)) >= 0.3309)],
        absolute=1e-12,
        because="masses and bounds are exact to rounding; the others are yes or no",
        labels=(
            *(f"excess over the bound, beta={b:g}, w={w:g}" for b, w in cases),
            *(f"excess over the bound, raw draw {i}" for i in range(4)),
            *(f"0.5742 exceeded, beta={b:g}, w={w:g}" for b, w in cases),
            *(f"pair within the window, beta={b:g}, w={w:g}" for b, w in cases),
            "bound vacuous",
        ),
    )


@PAPER.claim(
    "single-cluster",
    statement="Printed: for weights with sum |omega||a|^2 < 0.16547 and any beta, the whole support of a second-order "
    "point is never one cluster of diameter 1/(2 sqrt(beta)). False: without a perceptron, two antipodal atoms at "
    "beta = 0.02 are one.",
    source="Remark after the mass bound",
    formula=r"\omega=0,\ \mu=\tfrac12(\delta_0+\delta_\pi):\quad\mathrm{Hess}=0.24505(\xi_1-\xi_2)^2\ge0,\quad"
    r"\pi\le\frac1{2\sqrt\beta}\iff\beta\le\frac1{4\pi^2}",
    falsifier="a negative direction of the Hessian, or a diameter above the window",
)
def single_cluster(run: Run) -> Measurement:
    beta = 0.02
    here = Problem(beta, [0.0], [[1.0, 0.0]], kernel_scale="raw")
    found = landscape.inspect(here, [0.0, np.pi])
    diameter, window = np.pi, 1 / (2 * np.sqrt(beta))
    is_cluster = found.stationarity < 1e-14 and found.second_order and diameter <= window
    coefficient = float(landscape.hessian(here, [0.0, np.pi])[0, 0])
    # From the window argument alone: a cluster of all the mass contradicts it as soon as beta reaches 0.2558.
    largest = 1 / (4 * np.pi**2)
    return agreement(
        [1.0, 0.24505, 3.5355, 0.02533],
        [float(is_cluster), coefficient, window, largest],
        absolute=[0.5, 6e-6, 6e-5, 6e-6],
        printed=[0.0, 0.24505, 3.5355, 0.02533],
        because="yes (1) or no (0); reference values with the decimals given",
        labels=(
            "a second-order point within one window exists",
            "coefficient of the Hessian",
            "window at beta = 0.02",
            "largest beta of the counterexample",
        ),
        note="Equal atoms at 0 and pi: Hessian (1/4) e^(-beta) (xi_1 - xi_2)^2, diameter 3.1416 below 3.5355. The "
        "statement holds for beta of at least 0.2558.",
        parameters={"beta": beta, "sum |omega||a|^2": 0},
    )
