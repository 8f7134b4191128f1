r"""Tokens under one path of the noise meet; tokens with noise of their own do not; how long it takes.

$$E\,T_\delta=\frac{\log(1/\delta)}{|\lambda|}+\text{const},\qquad
  \mathrm{Var}\,T_\delta=\frac{\kappa(1)+\kappa'(1)}{|\lambda|^3}\log(1/\delta)+\text{const}.$$
"""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import roots_genlaguerre

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.dynamics import SA
from sphereflow.estimates import mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.network import meeting_times, run_network
from sphereflow.synchronisation.random_fields import GaussianField, Independent, RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint

FIELD = RandomPerceptron("relu", 1, bias=1.0)
ATTRACTION, REPULSION = 1.0, -0.5
# Mean times from orthogonal starts: coefficients with 40 digits and an implicit solver for the scale equation.
MEAN_TIMES = {3: (16.2027, 25.4144), 8: (13.0781, 22.2807), 64: (8.8406, 17.9815)}


@cache
def one_path(quick: bool, seed: int) -> np.ndarray:
    """Tokens of independent realisations in dimension 3 at t = 0, 0.5, ..., 4; shape (9, realisations, 32, 3).

    The first realisation has attractive attention, the second repulsive, all others none.
    """
    repeats, step = (100, 0.01) if quick else (1000, 0.005)
    x = np.random.default_rng(seed).standard_normal((repeats, 32, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    strength = np.zeros(repeats)
    strength[:2] = ATTRACTION, REPULSION
    return np.asarray(
        run_network(
            FIELD, x, layers=round(4 / step), step=step, seed=seed, attention=SA(1.0), strength=strength, saves=8
        )
    )


@PAPER.claim(
    "one-path-meets",
    statement="Tokens from different starts under one path of the noise meet: the share of pairs closer than 0.1 "
    "follows the exact law, and goes to one.",
    source="Synchronisation by noise",
    formula=r"P(|x_i(t)-x_j(t)|<0.1)\to1\qquad(\lambda<0,\ \kappa\ \text{not odd})",
    falsifier="noise drawn independently for each token: the share stays at that of uniform tokens",
)
def one_path_meets(run: Run) -> Measurement:
    x = one_path(run.quick, run.seed)[[2, 4, 8], 2:]
    i, j = np.triu_indices(x.shape[2], 1)
    close = np.sum((x[:, :, i] - x[:, :, j]) ** 2, axis=-1) < 0.01
    found = mean(close.mean(axis=-1).T)
    times = [1.0, 2.0, 4.0]
    pair = Backward(TwoPoint(3, FIELD.covariance))
    law = pair.averages(lambda r: r > 1 - 0.005, [*times, 20.0])
    return agreement(
        [*law[:3], 1.0],
        [*found.value, law[3]],
        absolute=[*(3 * found.error + 0.01), 2e-3],
        because="three standard errors over independent paths, and 0.01 for the step; at t = 20 the law is within "
        "0.002 of one",
        labels=(*(f"simulated share, t={t:g}" for t in times), "exact share, t=20"),
        parameters={"d": 3, "n": 32, "exponent": -1},
    )


def one_step_factor(d: int, size: float) -> float:
    r"""$E\langle x,N(x+s Z)\rangle=E\,\frac{1+sg}{\sqrt{(1+sg)^2+s^2\chi_{d-1}^2}}$ by Gauss quadrature."""
    g, normal = hermegauss(60)
    half_square, gamma = roots_genlaguerre(60, (d - 3) / 2)
    top = 1 + size * g[:, None]
    factor = top / np.sqrt(top**2 + 2 * size**2 * half_square)
    return float(normal @ factor @ gamma / (normal.sum() * gamma.sum()))


@PAPER.claim(
    "independent-noise",
    statement="With noise of its own for every token, overlaps relax to 0 and nothing synchronises.",
    source="Common noise",
    formula=r"E\,r(t)=r_0\,c(d,\sqrt{h\kappa(1)})^{2L}\to r_0\,e^{-(d-1)\kappa(1)t}",
    falsifier="overlaps that grow: one noise used where each token should have its own",
)
def independent_noise(run: Run) -> Measurement:
    d, step, layers, pairs = 6, 0.02, 25, 3000 if run.quick else 100_000
    x = np.zeros((pairs, 2, d))
    x[:, 0, 0] = 1
    x[:, 1, :2] = 0.8, 0.6
    final = np.asarray(
        run_network(Independent(RandomPerceptron("constant")), x, layers=layers, step=step, seed=run.seed)[-1]
    )
    ratio = mean(np.sum(final[:, 0] * final[:, 1], axis=-1) / 0.8)
    factor = one_step_factor(d, np.sqrt(step)) ** (2 * layers)
    return agreement(
        [0.086433, 0.086433],
        [factor, float(ratio.value)],
        absolute=[1e-6, 3 * float(ratio.error)],
        because="reference with six decimals; three standard errors",
        labels=("one-step factor", "simulated"),
        parameters={"d": d, "h": step, "t": 0.5},
    )


@PAPER.claim(
    "meeting-times",
    statement="The mean time until two ReLU tokens are within delta grows by 2, its variance by 8, with each factor e "
    "of 1/delta, in every dimension; the additive constant depends on dimension and start.",
    source="Synchronisation times",
    formula=r"\frac{dE T_\delta}{d\log(1/\delta)}=\frac1{|\lambda|}=2,\qquad "
    r"\frac{d\mathrm{Var}\,T_\delta}{d\log(1/\delta)}=\frac{\kappa(1)+\kappa'(1)}{|\lambda|^3}=8",
    falsifier="log(1/delta)/|lambda| = 13.8 itself taken for the mean at delta = 0.001",
)
def times_to_meet(run: Run) -> Measurement:
    law = of_activation("relu")
    measured = {d: [Backward(TwoPoint(d, law)).meeting_time(x) for x in (1e-3, 1e-5, 1e-6)] for d in MEAN_TIMES}
    means = [value[0] for times in measured.values() for value in times[:2]]
    slopes = [(times[2][0] - times[1][0]) / np.log(10) for times in measured.values()]
    variances = [(times[2][1] - times[1][1]) / np.log(10) for times in measured.values()]
    rate = -TwoPoint(64, of_activation("softplus")).lyapunov()
    near = [1e-5 * (d + 10) for d in MEAN_TIMES]  # the corrections are relatively of the order delta d
    predicted = [*(v for times in MEAN_TIMES.values() for v in times), *[2.0] * 3, *[8.0] * 3, 20.1]
    found, slack = (
        [*means, *slopes, *variances, rate],
        [5.1e-5] * 6 + [2 * n for n in near] + [40 * n for n in near] + [0.05],
    )
    labels = [f"mean, d={d}, delta={x:g}" for d in MEAN_TIMES for x in (1e-3, 1e-5)]
    labels += [f"{what} per factor e, d={d}" for what in ("mean", "variance") for d in MEAN_TIMES]
    labels.append("rate of softplus, d=64")
    if not run.quick:
        times = simulated_times(run.seed)
        value, exact = mean(times), measured[8][0]
        predicted += [exact[0], np.sqrt(exact[1])]
        found += [float(value.value), float(times.std())]
        slack += [3 * float(value.error) + 0.02 * exact[0], 0.1 * np.sqrt(exact[1])]
        labels += ["simulated mean, d=8, delta=0.001", "simulated spread, d=8, delta=0.001"]
    return agreement(
        predicted,
        found,
        absolute=slack,
        because="references with four decimals; corrections are relatively of the order delta d; two per cent for "
        "the step of simulations",
        labels=tuple(labels),
        parameters={"start": "orthogonal"},
    )


@cache
def simulated_times(seed: int, pairs: int = 1000, step: float = 0.01) -> np.ndarray:
    """Times until two ReLU tokens in dimension 8, orthogonal at first, are within 0.001 of each other."""
    x = np.broadcast_to(np.eye(2, 8), (pairs, 2, 8))
    field = GaussianField(of_activation("relu"))
    return np.asarray(meeting_times(field, jax.numpy.asarray(x), jax.random.key(seed), step, 1e-3, 20_000))
