r"""The circle with negative temperature: where three tokens no longer come together.

Near an equilateral triangle $\dot\theta_i=-\frac1n\sum_je^{\beta\cos(\theta_i-\theta_j)}\sin(\theta_i-\theta_j)$ is

$$\dot\delta_i=-\frac13\sum_jg(\delta_i-\delta_j),\quad g=e^{\beta\cos\theta}(\cos\theta-\beta\sin^2\theta)
  \Big|_{\theta=2\pi/3}=-e^{-\beta/2}\Big(\tfrac12+\tfrac34\beta\Big),$$

so that $\delta$ grows at the rate $-g$ if $\beta>-2/3$, and the triangle attracts below. SA divides by
$Z=\frac13(e^\beta+2e^{-\beta/2})$. A negative $\beta$ is $Q=-I$.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.observables import cluster_count
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import Model, follow, velocities

_MINUS = -np.eye(2)
_MODELS: tuple[Model, Model] = ("sa", "usa")


def triangle_rate(beta: float, model: Model) -> float:
    """The growth rate above."""
    z = (np.exp(beta) + 2 * np.exp(-beta / 2)) / 3 if model == "sa" else 1.0
    return float(np.exp(-beta / 2) * (0.5 + 0.75 * beta) / z)


def _points(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _measured_rate(beta: float, model: Model, step: float = 1e-4) -> float:
    angles = 2 * np.pi * np.arange(3) / 3
    push = np.array([1.0, -1.0, 0.0])
    rates = []
    for sign in (1.0, -1.0):
        turned = angles + sign * step * push
        v = velocities(model, -beta, _points(turned), query=_MINUS)
        rates.append(-v[:, 0] * np.sin(turned) + v[:, 1] * np.cos(turned))
    return float(push @ (rates[0] - rates[1]) / (2 * step) / 2)


@PAPER.claim(
    "circle-at-negative-beta",
    says="On the circle an equilateral triangle of tokens repels its neighbourhood for $\\beta>-2/3$ and attracts it "
    "below, at the rates of the linearised equation, under SA and USA; three tokens that begin in no half circle come "
    "together at $\\beta=-0.16$ and stay apart at $\\beta=-1$.",
    basis=basis.Derived(
        "the linearised equation at a triangle; that synchronisation holds for beta >= -0.16 and fails below -2/3 "
        "is in the abstract of Polyanskiy, Rigollet and Yao, arXiv:2507.22857"
    ),
    formula=r"e^{-\beta/2}\big(\tfrac12+\tfrac34\beta\big)",
)
def circle_at_negative_beta(run: Run) -> Check:
    check = Check(parameters={"n": 3, "d": 2})
    flat: dict[str, float] = {}
    shifted: dict[str, float] = {}
    for model in _MODELS:
        for beta in (-0.16, -0.5, -2 / 3, -1.0, -2.0):
            row = f"{model.upper()}, beta={beta:.3g}: rate at the triangle"
            rate = triangle_rate(beta, model)
            because = "central differences of the field with step 1e-4"
            check.row(row, predicted=rate, measured=_measured_rate(beta, model), tolerance=1e-6, because=because)
            flat[row] = np.exp(-beta / 2) * 0.5 if model == "usa" else 0.5
            shifted[row] = rate * (0.5 + 0.5 * beta) / (0.5 + 0.75 * beta) if beta != -2 / 3 else 0.1
    start = _points(np.array([0.0, 1.9, 4.3]))
    ends: dict[str, float] = {}
    for model in _MODELS:
        for beta, clusters in ((-0.16, 1), (-1.0, 3)):
            final = follow(model, -beta, start, np.array([40.0, 80.0]), query=_MINUS)[-1]
            row = f"{model.upper()}, beta={beta:g}: clusters at t=80"
            check.same(row, predicted=clusters, measured=cluster_count(final))
            ends[row] = 1.0
    check.rival("tokens come together at every temperature", ends)
    check.rival("the weights do not change with the angle", flat)
    check.rival("a threshold of -1", shifted)
    return check
