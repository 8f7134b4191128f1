r"""Above the coercivity threshold the mean energy dissipates at once; below it later, or never.

$$c+2v>0:\ E(1-r)\le e^{-(c+2v)t}(1-r_0);\qquad
  \lambda-v<0:\ E(1-r)\sim t^{-3/2}e^{-(\lambda-v)^2t/2(\kappa(1)+\kappa'(1))}\text{ in the end}.$$

Constant noise ($\kappa=1$) in dimension 6: coercive for $v>-1.5$, tokens meet for $v>-2.5$.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from sphereflow.claims import Check, Run
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import SIGMA, attention_drift, ends, exponent, pair_averages
from sphereflow.papers.synchronization_by_noise.reference import MEAN_GAPS
from sphereflow.synchronisation.covariance import of_powers
from sphereflow.synchronisation.energy_dissipation import coercivity_test, dissipation

D, BETA = 6, 1.0
TIMES = (1.0, 2.0, 4.0)
LATE = (16.0, 32.0)


def plateau(v: float) -> float:
    r"""$E(1-r)$ under the invariant law of two tokens, constant noise and attention in dimension 6, in $z=$ artanh r.

    $D=(1-r)(4-r)+2vp(1-r^2)$ and $Q=2(1-r^2)(1-r)$.
    """
    z = np.linspace(-12, 60, 40_001)
    r, share = np.tanh(z), 1 + np.exp(-2 * z)
    noise = share  # Q/(1-r^2)^2 = 2/(1+r)
    drift = (D - 2 - r) * share / 2 + 2 * v / (1 + np.exp(BETA * (1 - r))) + r * noise
    exponents = np.cumsum(2 * drift / noise) * (z[1] - z[0]) - np.log(noise)
    weight = np.exp(exponents - exponents.max())
    return float(np.sum(weight * (1 - r)) / np.sum(weight))


@PAPER.claim(
    "dissipation-threshold",
    says="Two tokens under constant noise and attention in dimension 6 ($c=3$, $\\lambda=-2.5$): by the backward "
    "equation the mean gap at $t=1,2,4$ for attention 0 to $-3$, from $r=0$ and $r=0.9$; it obeys the exponential "
    "bound with constant one at $v=0$ and not at $-2.5$. In the end it falls at the rate of the moments at $v=-1.5$, "
    "and for ReLU without attention in dimension 8, where $c=-1$; at $v=-3$ it tends to a constant.",
    basis=sources.ENERGY,
    formula=r"c+2v,\qquad -\Lambda(\min(1,p_*)),\ \Lambda(p)=2(\lambda-v)p+2(\kappa(1)+\kappa'(1))p^2",
)
def dissipation_threshold(run: Run) -> Check:
    law = of_powers([1.0])
    check = Check(parameters={"d": D, "beta": BETA})
    half: dict[str, float] = {}
    alone: dict[str, float] = {}
    for v in (0.0, -1.0, -1.5, -2.5, -3.0):
        for start in (0.0, 0.9):
            found = dissipation(law, D, TIMES, strength=v, beta=BETA, start=start, cells=800)
            rows = [f"v={v:g}, from r={start:g}, t={t:g}" for t in TIMES]
            check.series(
                rows,
                predicted=MEAN_GAPS[v, start],
                measured=found.gap,
                tolerance=2e-6,
                because="two grids, each with an error below 1e-6",
            )
            if v == -1.5:
                for rival, drift in ((half, attention_drift(v / 2, BETA)), (alone, attention_drift(v, BETA, False))):
                    other = pair_averages(D, np.ones_like, TIMES[:1], start=start, extra=drift, modes=48)
                    rival[rows[0]] = other[0]
            if start and v == 0:
                names = [f"bound, v=0, t={t:g}" for t in TIMES]
                for name, t, value in zip(names, TIMES, found.gap, strict=True):
                    check.at_most(name, bound=0.1 * np.exp(-3 * t), measured=value, tolerance=2e-6, because="the grid")
            if start and v == -2.5:
                name = "close tokens have parted, v=-2.5, t=1"
                check.at_least(
                    name, bound=0.1, measured=found.gap[0], tolerance=2e-6, because="the gap at first; the grid"
                )
    straight, typical, linear = {}, {}, {}
    late = (
        ("constant, d=6, v=-1.5", law, D, -1.5, -1.0, 1.0, 0.0),
        ("ReLU, d=8, v=0", "relu", 8, 0.0, -0.5, 1.0, -1.0),
    )
    for name, noise, d, v, rate, variance, constant in late:
        first, second = dissipation(noise, d, LATE, strength=v, beta=BETA, start=0.0, cells=800).gap
        row = f"{name}, logarithm of the decay from t=16 to 32"
        straight[row] = 16 * rate**2 / (2 * variance)
        check.row(
            row,
            predicted=straight[row] + 1.5 * np.log(2),
            measured=np.log(first / second),
            tolerance=0.15,
            because="the next order of the algebraic factor, 1/t",
        )
        linear[row], typical[row] = 16 * constant, -32 * rate
    end = dissipation(law, D, [40.0], strength=-3.0, beta=BETA, start=0.9, cells=800).gap[0]
    check.row(
        "v=-3, t=40", predicted=plateau(-3.0), measured=end, tolerance=5e-4, because="the grid; what is left at t=40"
    )
    check.rival("the attention term without its factor 2: the threshold at v = -3", half)
    check.rival("softmax without the token itself: the threshold at v = -0.75", alone)
    check.rival("no algebraic factor", straight)
    check.rival("the rate c + 2v for all times", linear)
    check.rival("twice the almost-sure rate", typical)
    check.rival("tokens that meet in the end", {"v=-3, t=40": 0.0})
    return check


def kappa(name: str, r: float) -> float:
    """E sigma(u) sigma(v) by a product rule, for smooth activations."""
    g, w = hermegauss(64)
    u, v = np.meshgrid(g, g, indexing="ij")
    value = SIGMA[name][0]
    return float((w / w.sum()) @ (value(u) * value(r * u + np.sqrt(1 - r**2) * v)) @ (w / w.sum()))


@PAPER.claim(
    "activations-in-networks",
    says="Single layers of width one in dimension 8, sigmoid, softplus, cos and tanh: the mean gap of two tokens "
    "changes at the rate of the formula at three overlaps; near agreement it falls for sigmoid and softplus, and grows "
    "for tanh.",
    basis=sources.ACTIVATIONS,
    formula=r"\frac{D(r)}{1-r}\ge c_\kappa=(d-3)E\sigma^2-(d-1)E\sigma'^2>0",
)
def activations_in_networks(run: Run) -> Check:
    d, overlaps, step = 8, (-0.5, 0.5, 0.99), 1e-3
    repeats = 20_000 if run.quick else 1_000_000
    check = Check(parameters={"d": d, "layers": repeats, "h": step})
    lost, almost = {}, {}
    for k, name in enumerate(("sigmoid", "softplus", "cos", "tanh")):
        found = coercivity_test(name, d, overlaps=overlaps, step=step, repeats=repeats, seed=run.seed + k)
        one, slope = ends(name)
        for r, value, error in zip(overlaps, *found.measured, strict=True):
            here, row = kappa(name, r), f"{name}, r={r:g}"
            check.row(
                row,
                predicted=((d - 2 + r**2) * here - (d - 1) * r * one) / (1 - r),
                measured=value,
                error=error,
                repeats=repeats,
                tolerance=0.05 * one,
                because="the error bar; the next order of a layer of width one, (d-1) kappa(1) h times its kurtosis",
            )
            lost[row] = ((d - 2) * here - (d - 1) * r * one) / (1 - r)
        row = f"{name}, r=0.99"
        almost[row] = -2 * exponent(d, one, slope)
        value, error = found.measured.value[-1], found.measured.error[-1]
        if name in ("sigmoid", "softplus", "tanh"):
            row, sign = (f"{name} is not coercive", -1) if name == "tanh" else (f"{name} is coercive", 1)
            check.positive(row, measured=sign * value, error=error, repeats=repeats, because="the error bar")
    check.rival("the term with r squared lost", lost)
    check.rival("the almost-sure rate, -2 lambda", almost)
    return check
