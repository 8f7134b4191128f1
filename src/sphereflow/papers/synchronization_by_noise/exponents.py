r"""Lyapunov exponents of simulated networks: pairs of tokens at a distance of one in a million.

$$\lambda=\tfrac12\big[(d-3)\kappa'(1)-(d-1)\kappa(1)\big]\quad\text{whatever the width of the layers, as } h\to0.$$
"""

from __future__ import annotations

import jax
import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.estimates import Estimate, extrapolate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.lyapunov import separation_rates
from sphereflow.synchronisation.random_fields import GaussianField, RandomField, RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint


def measured(field: RandomField, d: int, step: float, duration: float, pairs: int, seed: int) -> Estimate:
    """The growth rate of small distances in a network, with its standard error."""
    rates = separation_rates(field, jax.random.key(seed), step, pairs=pairs, d=d, layers=round(duration / step))
    return mean(np.asarray(rates))


@PAPER.claim(
    "contraction-of-networks",
    statement="Close tokens of simulated networks approach at the predicted rate: ReLU -1/2; tanh and softplus in the "
    "larger preset.",
    source="Lyapunov exponent and synchronisation",
    formula=r"\lambda_{ReLU}=-\tfrac12",
    falsifier="noise drawn per token, h in place of its root on the noise, or 1 - <x,y> computed by subtraction",
)
def contraction_of_networks(run: Run) -> Measurement:
    cases = [("relu", 1, 0.01, 20.0, 500)]
    if not run.quick:
        cases = [
            ("relu", 1, 0.005, 20, 2000),
            ("relu", 32, 0.005, 20, 400),
            ("tanh", 8, 0.005, 20, 1000),
            ("softplus", 1, 0.002, 20, 1000),
        ]
    theory = [TwoPoint(8, of_activation(name)).lyapunov() for name, *_ in cases]
    found = []
    for k, (name, width, step, duration, pairs) in enumerate(cases):
        run.notify(k / len(cases), f"{name}, width {width}")
        found.append(measured(RandomPerceptron(name, width), 8, step, duration, pairs, run.seed + k))
    return agreement(
        theory,
        [float(e.value) for e in found],
        absolute=[3 * float(e.error) + 0.02 * abs(t) for e, t in zip(found, theory, strict=True)],
        because="three standard errors and two per cent for the step",
        labels=tuple(f"{name}, width {width}, h={step:g}" for name, width, step, *_ in cases),
        parameters={"d": 8, "distance": 1e-6},
    )


@PAPER.claim(
    "chaotic-networks",
    statement="In dimension 24 a tanh layer separates close tokens at rate 0.342. Finite widths look slower at finite "
    "depth, and agree once the step is extrapolated to zero.",
    source="Lyapunov exponent and synchronisation",
    formula=r"\lambda_{tanh}(24)=0.3419,\qquad \lambda_m(h)=\lambda+O(h)",
    falsifier="a dependence on the width that survives h = 0",
)
def chaotic_networks(run: Run) -> Measurement:
    d, law = 24, of_activation("tanh")
    theory = (21 * 0.464403 - 23 * 0.394294) / 2
    if run.quick:
        one = measured(GaussianField(law), d, 0.002, 2.0, 200, run.seed)
        return agreement(
            [theory],
            [float(one.value)],
            absolute=[3 * float(one.error) + 0.02 * theory],
            because="three standard errors and two per cent for the step",
            labels=("Gaussian field, h=0.002",),
            parameters={"d": d},
        )
    found, labels = [measured(GaussianField(law), d, 0.001, 10.0, 600, run.seed)], ["Gaussian field, h=0.001"]
    for k, width in enumerate((1, 4, 8)):
        steps = np.array([0.002, 0.001, 0.0005])
        values = []
        for j, step in enumerate(steps):
            run.notify((3 * k + j + 1) / 10, f"width {width}, step {step:g}")
            values.append(measured(RandomPerceptron("tanh", width), d, float(step), 4.0, 600, run.seed + 10 * k + j))
        found.append(extrapolate(steps, Estimate(*(np.array([float(v[i]) for v in values]) for i in (0, 1)))))
        labels.append(f"width {width}, extrapolated to h=0")
    return agreement(
        [theory] * len(found),
        [float(e.value) for e in found],
        absolute=[3 * float(e.error) + 0.02 * theory for e in found],
        because="three standard errors and two per cent for what is left of the step",
        labels=tuple(labels),
        parameters={"d": d},
    )
