r"""A flow that does not synchronise: the overlap of two tokens has an invariant law on (-1, 1).

$$p(r)\propto\frac1{Q}\exp\int\frac{2D}{Q}\,dr,\qquad He_2,\ d=8:\quad E\,r=\tfrac{3-\sqrt3}5,\ E\,r^2=2-\sqrt3 .$$
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import cumulative_simpson

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_powers
from sphereflow.synchronisation.network import run_network
from sphereflow.synchronisation.random_fields import GaussianField
from sphereflow.synchronisation.two_point import TwoPoint

PAIR = TwoPoint(8, of_powers([0.0, 0.0, 1.0]))
NAMES = ("E r", "E r^2", "P(r > 0.9)", "P(r < -0.3)")
STATISTICS = (lambda r: r, lambda r: r**2, lambda r: r > 0.9, lambda r: r < -0.3)


def density(z: np.ndarray, without_noise: bool = False) -> np.ndarray:
    r"""The invariant law of $z=\mathrm{artanh}\,r$ for $\kappa=r^2$ in dimension 8, by its polynomials.

    $Q=2(1-r^2)(1-r^3)$ and $D=r^4+6r^2-7r=-r(1-r)(r^2+r+7)$: divided by powers of $1-r$ nothing cancels.
    """
    r = np.tanh(z)
    noise = 2 * (1 + r + r**2) / (1 + r)  # Q/(1-r^2)^2, the variance rate of z
    drift = -r * (r**2 + r + 7) / (1 + r) + r * noise
    exponent = cumulative_simpson(2 * drift / noise, x=z, initial=0) - (0 if without_noise else np.log(noise))
    weight = np.exp(exponent - exponent.max())
    return weight / weight.sum()


def averages(without_noise: bool = False) -> list[float]:
    """The four statistics under the invariant law."""
    z = np.linspace(-14, 45, 200_001)
    weight = density(z, without_noise)
    below = cumulative_simpson(weight, initial=0)
    cut = np.interp(np.arctanh([0.9, -0.3]), z, below)
    return [float(weight @ np.tanh(z)), float(weight @ np.tanh(z) ** 2), 1 - float(cut[0]), float(cut[1])]


@PAPER.claim(
    "invariant-law",
    says="The overlap of two tokens under a chaotic flow (He2 layers in dimension 8) settles to the invariant law, in "
    "closed form and in simulated networks with Gaussian layers.",
    basis=basis.Derived("the invariant density of the two-point equation, which exists when the exponent is positive"),
    formula=r"E\,r=\tfrac{3-\sqrt3}5,\qquad E\,r^2=2-\sqrt3,\qquad \lambda=\tfrac32",
)
def invariant_law(run: Run) -> Check:
    law = Backward(PAIR)
    check = Check(parameters={"d": 8, "activation": "He2"})
    numbers = averages()
    exact = [(3 - np.sqrt(3)) / 5, 2 - np.sqrt(3), *numbers[2:]]
    measured = [
        law.invariant_average(lambda r: r),
        law.invariant_average(lambda r: r**2),
        1 - float(law.invariant_below(np.array(0.9))),
        float(law.invariant_below(np.array(-0.3))),
    ]
    check.series(
        NAMES, predicted=exact, measured=measured, tolerance=1e-7, because="closed form, or another quadrature"
    )
    found, step, pairs = simulated_statistics(run)
    check.series(
        [f"networks, {name}" for name in NAMES],
        predicted=exact,
        measured=found.value,
        error=found.error,
        repeats=pairs,
        tolerance=1.5 * step,
        because="the error bar over independent pairs; the step of the layers",
    )
    other = averages(without_noise=True)
    check.rival("the density without the factor 1/Q", dict(zip(NAMES, other, strict=True)))
    uniform = {"networks, E r": 0.0, "networks, E r^2": 1 / 8, "networks, P(r > 0.9)": 0.00016}
    check.rival("independent uniform tokens", uniform)
    check.rival("tokens that meet", {"networks, E r": 1.0, "networks, E r^2": 1.0})
    return check


def simulated_statistics(run: Run) -> tuple[Estimate, float, int]:
    """The four statistics, averaged along each of many independent pairs after they have settled."""
    pairs, step, saves = (300, 0.008, 25) if run.quick else (1000, 0.002, 120)
    duration = 10 if run.quick else 24
    x = np.random.default_rng(run.seed).standard_normal((pairs, 2, 8))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    layers = round(duration / step)
    frames = run_network(GaussianField(PAIR.covariance), x, layers=layers, step=step, seed=run.seed, saves=saves)
    frames = np.asarray(frames)[saves // 5 :]
    r = np.sum(frames[:, :, 0] * frames[:, :, 1], axis=-1)
    return mean(np.stack([statistic(r).mean(0) for statistic in STATISTICS], axis=1)), step, pairs
