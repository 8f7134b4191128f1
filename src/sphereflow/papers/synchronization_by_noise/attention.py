r"""Attention against noise: where repulsion wins, located by simulation.

$$\lambda_{tot}=\lambda-v,\qquad v_c=\lambda:\quad
  \text{repulsive attention loses to the noise as long as }|v|<-\lambda.$$
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.independent import exponent, growth_of_gaussian_layer
from sphereflow.synchronisation.network import first_gap, run_network, zero_crossing
from sphereflow.synchronisation.random_fields import AffineField

D = 4
REPULSIONS = np.array([0.0, 1.0, 2.0])


class Case(NamedTuple):
    """The field $c_0a+c_1Wx$ with attention of inverse temperature beta among n tokens."""

    constant: float
    linear: float
    n: int
    beta: float

    def theory(self) -> float:
        r"""$\tfrac12[(d-3)c_1^2-(d-1)(c_0^2+c_1^2)]$."""
        return exponent(D, self.constant**2 + self.linear**2, self.linear**2)

    def __str__(self) -> str:
        return f"noise ({self.constant:g}, {self.linear:g}), n={self.n}, beta={self.beta:g}"


CASES = (Case(1.0, 0.0, 8, 1.0), Case(0.5, 0.8, 3, 4.0))


def step(quick: bool) -> float:
    return 0.01 if quick else 0.005


@cache
def pair_rates(case: Case, quick: bool, seed: int) -> Estimate:
    """Growth rates of the distance of two tokens of a cloud close to agreement, for each repulsion."""
    clouds, duration = (200 if quick else 3000), 4.0
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((clouds * len(REPULSIONS), 1, D))
    x = x / np.linalg.norm(x, axis=-1, keepdims=True) + 1e-6 * rng.standard_normal((len(x), case.n, D))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    gaps = run_network(
        AffineField(case.constant, case.linear),
        x,
        layers=round(duration / step(quick)),
        step=step(quick),
        seed=seed,
        attention=SA(case.beta),
        strength=-np.repeat(REPULSIONS, clouds),
        observe=first_gap,
    )
    gaps = np.asarray(gaps)
    return mean((np.log(gaps[-1] / gaps[0]) / duration).reshape(len(REPULSIONS), clouds).T)


@PAPER.claim(
    "attention-shifts-the-exponent",
    says="Near agreement repulsive attention of strength $v$ adds $v$ to the exponent of a pair, for two noises, 8 "
    "tokens at $\\beta=1$ and 3 tokens at $\\beta=4$; the repulsion at which tokens cease to meet follows.",
    basis=basis.Abstract("synchronisation if the common noise is coercive enough relative to the self-attention drift"),
    formula=r"\lambda_{tot}=\tfrac12[(d-3)\kappa'(1)-(d-1)\kappa(1)]+|v|,\qquad v_c=-\lambda",
)
def attention_shifts(run: Run) -> Check:
    h, clouds = step(run.quick), 200 if run.quick else 3000
    check = Check(parameters={"d": D, "h": h, "clouds": clouds})
    wrong_sign, lipschitz, mean_rate = {}, {}, {}
    for k, case in enumerate(CASES):
        one, slope = case.constant**2 + case.linear**2, case.linear**2
        found = pair_rates(case, run.quick, run.seed + k)
        exact = np.array([growth_of_gaussian_layer(D, one, slope, h, attraction=-float(v))[0] for v in REPULSIONS])
        for v, theory, value, error in zip(REPULSIONS, exact, found.value, found.error, strict=True):
            row = f"{case}, repulsion {v:g}"
            check.row(
                row,
                predicted=theory,
                measured=value,
                error=error,
                repeats=clouds,
                because="the error bar over independent clouds; one layer is integrated without sampling",
            )
            if v:
                wrong_sign[row], lipschitz[row] = case.theory() - v, case.theory() + v * (1 + case.beta)
        crossing = zero_crossing(REPULSIONS, found)
        row = f"{case}, repulsion at which tokens cease to meet"
        check.row(
            row,
            predicted=zero_crossing(REPULSIONS, Estimate(exact, found.error)).value,
            measured=crossing.value,
            error=crossing.error,
            repeats=clouds,
            because="the error bar of the crossing of the fitted line",
        )
        mean_rate[row] = ((D - 3) * one - (D - 1) * slope) / 2
    check.rival("attention with the other sign", wrong_sign)
    check.rival("the Lipschitz constant of attention, v (1 + beta)", lipschitz)
    check.rival("the threshold of the mean gap, c/2", mean_rate)
    return check
