r"""Normalised attention with a perceptron on the circle: all its stationary measures.

$$\tfrac1\beta\log\int e^{\beta\cos(\theta-\phi)}d\mu(\phi)+\tfrac12v(\theta)\ \text{stationary on supp}\,\mu;\qquad
  \text{flat everywhere}\iff\mu_k=\frac{g_k}{g_0}\frac{I_0(\beta)}{I_k(\beta)},\ g=e^{-\beta v/2}.$$

The harmonics of a measure are at most 1. A constant pull in one direction, $v/2=b\cos\theta$, has a flat density for
$b<1$; linear neurons have none, however weak, unlike without the denominator.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ive

from sphereflow import landscape
from sphereflow.claims import Check, Run, basis
from sphereflow.landscape import Activation, Problem
from sphereflow.papers.perceptrons_localization import PAPER
from sphereflow.papers.perceptrons_localization.generic import BETA, SIX, drawn

CONSTANT = Activation(lambda s: 1 + 0 * s, name="constant", strip=np.inf)
ATOMIC = basis.Derived("the normalised flow of the transcribed proposition, with the argument of the circle theorem")


def flat_density(b: float, theta: np.ndarray, orders: int = 60) -> np.ndarray:
    r"""$1+2\sum_k\mu_k\cos k\theta$, $\mu_k=(-1)^k\frac{I_k(\beta b)}{I_0(\beta b)}\frac{I_0(\beta)}{I_k(\beta)}$."""
    k = np.arange(1, orders + 1)
    mu = (-1.0) ** k * ive(k, BETA * b) / ive(0, BETA * b) * ive(0, BETA) / ive(k, BETA)
    return np.asarray(1 + 2 * np.cos(np.outer(theta, k)) @ mu)


def largest_speed(density: np.ndarray, theta: np.ndarray, b: float) -> float:
    """Of the normalised field with the pull b, by sums over a grid."""
    apart = theta[:, None] - theta
    weight = np.exp(BETA * (np.cos(apart) - 1)) * density
    pull = -np.sum(weight * np.sin(apart), axis=1) / weight.sum(axis=1) - b * np.sin(theta)
    return float(np.abs(pull).max())


@PAPER.claim(
    "normalised-atoms",
    says="With normalised attention, too, every stationary measure on the circle is proved to be finitely many atoms, "
    "for random weights of three sizes and six activations in every draw, and for linear neurons however weak, which "
    "without the denominator have a density. A constant pull below 1 has a density, in which no token moves.",
    basis=ATOMIC,
    formula=r"|g_k/g_0|>I_k(\beta)/I_0(\beta)\text{ for some }k\ge1\ \Rightarrow\ \operatorname{supp}\mu\text{ finite},"
    r"\qquad g=e^{-\beta v/2}",
)
def normalised_atoms(run: Run) -> Check:
    draws = 4 if run.quick else 48
    check = Check(parameters={"beta": BETA, "draws": draws, "neurons": 3})
    silent = landscape.obstruction(Problem(BETA, [], np.zeros((0, 2))), normalised=True).atomic
    none: dict[str, float] = {}
    steady: dict[str, float] = {}
    divided: dict[str, float] = {}
    weak = landscape.obstruction(Problem(BETA, [1.0], [[0.5, 0.0]], activation=CONSTANT), normalised=True).atomic
    for activation in (*SIX, "linear"):
        for scale in (1.0, 0.05, 0.01):
            name = f"share of draws, {activation}, weights times {scale:g}"
            found = [
                landscape.obstruction(drawn(run, k, activation, scale), normalised=True).atomic for k in range(draws)
            ]
            check.same(name, predicted=1.0, measured=float(np.mean(found)), because="every draw is generic")
            none[name], steady[name] = float(silent), float(weak)
            if activation == "linear" and scale < 1:
                divided[name] = float(landscape.obstruction(drawn(run, 0, "linear", scale)).atomic)
    theta, b = 2 * np.pi * np.arange(200) / 200, 0.5
    moving, least = "largest speed in the flat density of a constant pull", "its least value"
    density = flat_density(b, theta)
    check.row(moving, predicted=0.0, measured=largest_speed(density, theta, b), tolerance=1e-10, because="rounding")
    check.at_least(least, bound=0.0, measured=density.min(), tolerance=1e-12, because="it is a density; rounding")
    strong = "pull 1.2: whether all stationary measures are atomic"
    pulled = landscape.obstruction(Problem(BETA, [1.0], [[1.2, 0.0]], activation=CONSTANT), normalised=True)
    check.same(strong, predicted=1.0, measured=float(pulled.atomic), because="its first harmonic is above 1")
    check.null("no perceptron", none)
    check.null("a constant pull of one half", steady)
    check.rival("as without the denominator", divided)
    check.rival("the uniform law at rest under the pull", {moving: largest_speed(np.ones(200), theta, b)})
    return check
