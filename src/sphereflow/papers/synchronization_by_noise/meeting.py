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

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.estimates import mean
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import mean_meeting_times, pair_averages
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import Covariance, of_activation
from sphereflow.synchronisation.network import meeting_times, run_network
from sphereflow.synchronisation.random_fields import GaussianField, Independent, RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint

FIELD = RandomPerceptron("relu", 1, bias=1.0)
ATTRACTION, REPULSION = 1.0, -0.5


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
    says="Tokens from different starts under one path of the noise meet: the share of pairs closer than 0.1 in "
    "networks of 32 tokens in dimension 3 follows the law of the backward equation, which tends to one.",
    basis=sources.SYNCHRONISATION,
    formula=r"P(|x_i(t)-x_j(t)|<0.1)\to1\qquad(\lambda<0,\ \kappa\ \text{not odd})",
)
def one_path_meets(run: Run) -> Check:
    x = one_path(run.quick, run.seed)[[2, 4, 8], 2:]
    i, j = np.triu_indices(x.shape[2], 1)
    close = np.sum((x[:, :, i] - x[:, :, j]) ** 2, axis=-1) < 0.01
    found, times = mean(close.mean(axis=-1).T), [1.0, 2.0, 4.0]

    def law(covariance: Covariance) -> np.ndarray:
        return Backward(TwoPoint(3, covariance)).averages(lambda r: r > 1 - 0.005, [*times, 20.0])

    check = Check(parameters={"d": 3, "n": 32, "exponent": -1, "repeats": x.shape[1]})
    exact = law(FIELD.covariance)
    names = [f"t={t:g}" for t in times]
    check.series(
        names,
        predicted=exact[:3],
        measured=found.value,
        error=found.error,
        repeats=x.shape[1],
        tolerance=0.02,
        because="the error bar over independent paths; the step, (d-1) kappa(1) h = 0.02",
    )
    check.row("law at t=20", predicted=1.0, measured=exact[3], tolerance=2e-3, because="pairs still on their way, e^-6")
    plain = of_activation("relu")
    check.rival("noise of ReLU layers without their bias", dict(zip(names, law(plain)[:3], strict=True)))
    check.rival(
        "noise of half the strength",
        dict(zip(names, law(of_activation("relu", scale=0.5**0.5, bias=1.0))[:3], strict=True)),
    )
    check.rival("noise of its own for every token", dict.fromkeys(names, 0.0025))
    return check


def one_step_factor(d: int, size: float) -> float:
    r"""$E\langle x,N(x+s Z)\rangle=E\,\frac{1+sg}{\sqrt{(1+sg)^2+s^2\chi_{d-1}^2}}$ by Gauss quadrature."""
    g, normal = hermegauss(60)
    half_square, gamma = roots_genlaguerre(60, (d - 3) / 2)
    top = 1 + size * g[:, None]
    factor = top / np.sqrt(top**2 + 2 * size**2 * half_square)
    return float(normal @ factor @ gamma / (normal.sum() * gamma.sum()))


@PAPER.claim(
    "independent-noise",
    says="With noise of its own for every token the mean overlap of two tokens in dimension 6 relaxes to 0, by the "
    "exact factor of one layer.",
    basis=basis.Derived(
        "the same layers with weights of their own for every token: common noise is what brings them together"
    ),
    formula=r"E\,r(t)=r_0\,c(d,\sqrt{h\kappa(1)})^{2L}\to r_0\,e^{-(d-1)\kappa(1)t}",
)
def independent_noise(run: Run) -> Check:
    d, step, layers, pairs = 6, 0.02, 25, 12_000 if run.quick else 100_000
    x = np.zeros((pairs, 2, d))
    x[:, 0, 0] = 1
    x[:, 1, :2] = 0.8, 0.6
    final = np.asarray(
        run_network(Independent(RandomPerceptron("constant")), x, layers=layers, step=step, seed=run.seed)[-1]
    )
    ratio = mean(np.sum(final[:, 0] * final[:, 1], axis=-1) / 0.8)
    check = Check(parameters={"d": d, "h": step, "t": 0.5, "pairs": pairs})
    check.row(
        "share of the overlap left",
        predicted=one_step_factor(d, np.sqrt(step)) ** (2 * layers),
        measured=ratio.value,
        error=ratio.error,
        repeats=pairs,
        because="the error bar over pairs",
    )
    check.rival(
        "one noise for both tokens", pair_averages(d, np.ones_like, [0.5], payoff=lambda r: r, start=0.8)[0] / 0.8
    )
    check.rival("only one token moved", one_step_factor(d, np.sqrt(step)) ** layers)
    check.rival("one tangent direction too few", np.exp(-(d - 2) * 0.5))
    return check


@PAPER.claim(
    "meeting-times",
    says="The mean time until two orthogonal ReLU tokens are within $\\delta$ grows by 2, its variance by 8, with "
    "each factor $e$ of $1/\\delta$, in dimensions 3, 8 and 64; the additive constant depends on the dimension. "
    "Networks are added in the larger preset.",
    basis=basis.Derived("the two-point equation: scale function and speed measure"),
    formula=r"\frac{dE T_\delta}{d\log(1/\delta)}=\frac1{|\lambda|}=2,\qquad "
    r"\frac{d\mathrm{Var}\,T_\delta}{d\log(1/\delta)}=\frac{\kappa(1)+\kappa'(1)}{|\lambda|^3}=8",
)
def times_to_meet(run: Run) -> Check:
    law = of_activation("relu")
    check = Check(parameters={"start": "orthogonal"})
    universal, means, spreads = {}, {}, {}
    for d in (3, 8, 64):
        measured = [Backward(TwoPoint(d, law)).meeting_time(x) for x in (1e-3, 1e-5, 1e-6)]
        for x, exact, found in zip((1e-3, 1e-5), mean_meeting_times(d, (1e-3, 1e-5)), measured, strict=False):
            row = f"mean, d={d}, delta={x:g}"
            check.row(row, predicted=exact, measured=found[0], tolerance=5e-5, because="two grids, extrapolated")
            universal[row] = 2 * np.log(1 / x)
        near = 1e-5 * (d + 10)
        because = "corrections are relatively of the order delta d"
        row = f"mean per factor e, d={d}"
        slope = (measured[2][0] - measured[1][0]) / np.log(10)
        check.row(row, predicted=2.0, measured=slope, tolerance=2 * near, because=because)
        means[row] = 1.0
        row = f"variance per factor e, d={d}"
        slope = (measured[2][1] - measured[1][1]) / np.log(10)
        check.row(row, predicted=8.0, measured=slope, tolerance=40 * near, because=because)
        spreads[row] = 4.0
        if d == 8 and not run.quick:
            times = simulated_times(run.seed)
            value = mean(times)
            check.row(
                "networks, mean, d=8, delta=0.001",
                predicted=measured[0][0],
                measured=value.value,
                error=value.error,
                repeats=len(times),
                relative=0.035,
                because="the error bar over pairs; the step, relatively (d-1) kappa(1) h",
            )
    check.rival("log(1/delta)/|lambda| without a constant", universal)
    check.rival("the rate 2 |lambda| of the squared distance", means)
    check.rival("the variance without the share of kappa(1)", spreads)
    return check


@cache
def simulated_times(seed: int, pairs: int = 1000, step: float = 0.01) -> np.ndarray:
    """Times until two ReLU tokens in dimension 8, orthogonal at first, are within 0.001 of each other."""
    x = np.broadcast_to(np.eye(2, 8), (pairs, 2, 8))
    field = GaussianField(of_activation("relu"))
    return np.asarray(meeting_times(field, jax.numpy.asarray(x), jax.random.key(seed), step, 1e-3, 20_000))
