r"""Attention against noise: where repulsion wins, located by simulation.

$$\lambda_{tot}=\lambda-v,\qquad v_c=\lambda:\quad
  \text{repulsive attention loses to the noise as long as }|v|<-\lambda.$$
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.dynamics import SA
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.network import first_gap, run_network, zero_crossing
from sphereflow.synchronisation.random_fields import AffineField

D, N, BETA = 4, 8, 1.0
REPULSIONS = np.array([0.0, 1.0, 2.0])
FIELDS = ((1.0, 0.0), (0.5, 0.8))


def theory(constant: float, linear: float) -> float:
    r"""$\tfrac12[(d-3)c_1^2-(d-1)(c_0^2+c_1^2)]$."""
    return ((D - 3) * linear**2 - (D - 1) * (constant**2 + linear**2)) / 2


@cache
def pair_rates(constant: float, linear: float, quick: bool, seed: int) -> Estimate:
    """Growth rates of the distance of two tokens of a cloud close to agreement, for each repulsion."""
    clouds, step, duration = (200, 0.01, 4.0) if quick else (3000, 0.005, 4.0)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((clouds * len(REPULSIONS), 1, D))
    x = x / np.linalg.norm(x, axis=-1, keepdims=True) + 1e-6 * rng.standard_normal((len(x), N, D))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    strength = -np.repeat(REPULSIONS, clouds)
    gaps = run_network(
        AffineField(constant, linear),
        x,
        layers=round(duration / step),
        step=step,
        seed=seed,
        attention=SA(BETA),
        strength=strength,
        observe=first_gap,
    )
    gaps = np.asarray(gaps)
    rates = np.log(gaps[-1] / gaps[0]) / duration
    return mean(rates.reshape(len(REPULSIONS), clouds).T)


@PAPER.claim(
    "attention-shifts-the-exponent",
    statement="Repulsive attention of strength v adds exactly v to the exponent of a pair, whatever the noise.",
    source="Noise against the self-attention drift",
    formula=r"\lambda_{tot}=\tfrac12[(d-3)\kappa'(1)-(d-1)\kappa(1)]+|v|",
    falsifier="the root of h on the attention, or the wrong sign of v",
)
def attention_shifts(run: Run) -> Measurement:
    found = [pair_rates(*c, run.quick, run.seed + k) for k, c in enumerate(FIELDS)]
    predicted = np.concatenate([theory(*c) + REPULSIONS for c in FIELDS])
    return agreement(
        predicted,
        np.concatenate([e.value for e in found]),
        absolute=np.concatenate([3 * e.error for e in found]) + 0.02 * np.abs(predicted),
        because="three standard errors, and two per cent for the step",
        labels=tuple(f"noise {c}, repulsion {v:g}" for c in FIELDS for v in REPULSIONS),
        parameters={"d": D, "n": N, "beta": BETA},
    )


@PAPER.claim(
    "threshold-by-simulation",
    statement="The repulsion at which tokens cease to meet, located by simulation, is the one the theory gives.",
    source="Noise against the self-attention drift",
    formula=r"v_c=\tfrac12[(d-1)\kappa(1)-(d-3)\kappa'(1)]",
    falsifier="a threshold that moves with beta or with the number of tokens",
)
def threshold(run: Run) -> Measurement:
    found = [zero_crossing(REPULSIONS, pair_rates(*c, run.quick, run.seed + k)) for k, c in enumerate(FIELDS)]
    predicted = np.array([-theory(*c) for c in FIELDS])
    return agreement(
        predicted,
        [float(e.value) for e in found],
        absolute=[3 * float(e.error) + 0.02 * p for e, p in zip(found, predicted, strict=True)],
        because="three standard errors of the crossing of the fitted line, and two per cent for the step",
        labels=tuple(f"noise {c}" for c in FIELDS),
        parameters={"d": D, "n": N, "beta": BETA},
        note=f"crossings {'; '.join(str(e) for e in found)}",
    )
