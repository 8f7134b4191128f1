r"""Two particles about one target: $V(a)=-a\,k(a)+2a\,k(2a)$, its root, its stability, its bifurcation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize_scalar

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.drifting import UnnormalisedField
from sphereflow.drifting.friction import INWARD, OUTWARD
from sphereflow.drifting.surrogate import iterate, slope_at_scale, spurious_scale, surrogate_field
from sphereflow.papers.drifting_with_friction import PAPER


def pair(dimension: int, a: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target, the two particles and the direction between them."""
    rng = np.random.default_rng([seed, dimension])
    u = rng.normal(size=dimension)
    u /= np.linalg.norm(u)
    y = rng.normal(size=(1, dimension))
    return y, np.concatenate([y + a * u, y - a * u]), u


def radial(dimension: int, a: float, width: float, kernel: str = "laplace") -> tuple[float, float]:
    """Radial and perpendicular part of the field of the library on the first of two particles."""
    y, x, u = pair(dimension, a)
    value = np.asarray(UnnormalisedField(kernel, width)(jnp.asarray(y), jnp.asarray(x)).value)[0]
    return float(value @ u), float(np.linalg.norm(value - (value @ u) * u))


@PAPER.claim(
    "contraction-threshold",
    statement="Two particles about a target repel each other more than the target attracts them up to the distance "
    "tau ln 2, in every dimension.",
    source="Contraction threshold of the two-particle surrogate",
    formula=r"V(a)=0\iff a\in\{0,\tau\ln2\}",
    falsifier="2 tau ln 2 (a as the full separation), or no root at all (a particle that repels itself)",
)
def contraction_threshold(run: Run) -> Measurement:
    predicted, measured, labels = [], [], []
    for dimension in (1, 2, 64):
        for width in (0.1, 1.0, 7.0):
            root = brentq(lambda a, d=dimension, w=width: radial(d, a, w)[0], 0.3 * width, 2 * width, xtol=1e-15)
            predicted.append(width * np.log(2))
            measured.append(root)
            labels.append(f"D={dimension}, tau={width:g}")
    return agreement(predicted, measured, relative=1e-10, because="bisection to rounding", labels=tuple(labels))


@PAPER.claim(
    "surrogate-formula",
    statement="The field of two particles is radial and has the stated size.",
    source="Two-particle surrogate",
    formula=r"V(a)=a\,(2e^{-2a/\tau}-e^{-a/\tau})",
    falsifier="a perpendicular part, or a squared distance in the kernel",
)
def surrogate_formula(run: Run) -> Measurement:
    measured, predicted = [], []
    for a in (0.1, 0.5, 1.3):
        along, across = radial(5, a, 0.8)
        measured += [along, across, float(surrogate_field(a, 0.8))]
        value = a * (2 * np.exp(-2 * a / 0.8) - np.exp(-a / 0.8))
        predicted += [value, 0.0, value]
    return agreement(
        predicted,
        measured,
        absolute=1e-14,
        because="rounding",
        labels=tuple(f"{what}, a={a}" for a in (0.1, 0.5, 1.3) for what in ("radial", "perpendicular", "closed form")),
    )


@PAPER.claim(
    "spurious-limit",
    statement="The iteration converges to tau ln 2 and not to the target, for steps up to 4/ln 2; beyond, it "
    "alternates.",
    source="Stability of the spurious scale",
    formula=r"1+\eta V'(a^*)=1-\tfrac{\eta}{2}\ln2",
    falsifier="convergence to zero",
)
def spurious_limit(run: Run) -> Measurement:
    steps = np.array([0.1, 1.0, 2.8, 5.5, 6.0])
    path = iterate(0.05, steps, 20_000)
    last = np.sort(path[-2:, -1])
    slope = (surrogate_field(np.log(2) + 1e-6) - surrogate_field(np.log(2) - 1e-6)) / 2e-6
    return agreement(
        [*([np.log(2)] * 4), 0.5004190449, 0.8873409264, -np.log(2) / 2, -np.log(2) / 2],
        [*path[-1, :4], *last, slope, slope_at_scale()],
        absolute=[1e-8] * 6 + [1e-9] * 2,
        because="eight digits after 20,000 steps; a central difference of step 1e-6",
        labels=(*(f"step {s:g}" for s in steps[:4]), "low point, step 6", "high point, step 6", "slope", "its formula"),
    )


@PAPER.claim(
    "growth-factor",
    statement="One step of size one moves a particle outwards by at most 0.1087 tau and inwards by at most 0.1994 tau.",
    source="Range of the growth factor",
    formula=r"-\tfrac18\le g(u)\le1,\quad g(u)=2e^{-2u}-e^{-u}",
    falsifier="another extremum",
)
def growth_factor(run: Run) -> Measurement:
    outward = minimize_scalar(
        lambda u: -float(surrogate_field(u)), bounds=(0.05, 0.6), method="bounded", options={"xatol": 1e-10}
    )
    inward = minimize_scalar(
        lambda u: float(surrogate_field(u)), bounds=(1.0, 3.0), method="bounded", options={"xatol": 1e-10}
    )
    lowest = minimize_scalar(
        lambda u: float(surrogate_field(u)) / u, bounds=(0.5, 3.0), method="bounded", options={"xatol": 1e-10}
    )
    return agreement(
        [0.108677, 0.26007, -0.199412, 1.84925, -0.125, 2 * np.log(2), OUTWARD, INWARD],
        [-outward.fun, outward.x, inward.fun, inward.x, lowest.fun, lowest.x, -outward.fun, -inward.fun],
        absolute=[1e-6, 1e-5, 1e-6, 1e-5, 1e-12, 1e-5, 1e-8, 1e-8],
        because="decimals of the reference; a minimum is known to the root of rounding",
        labels=("largest u g", "where", "smallest u g", "where", "smallest g", "where", "constant outwards", "inwards"),
    )


@PAPER.claim(
    "gaussian-threshold",
    statement="For the Gaussian kernel the distance is 0.6798 sigma.",
    source="Threshold of a general kernel",
    formula=r"k(a)=2k(2a),\quad a^*=\sigma\sqrt{\tfrac{2\ln2}{3}}",
    falsifier="0.6931: the kernels confused",
)
def gaussian_threshold(run: Run) -> Measurement:
    root = brentq(lambda a: radial(3, a, 1.0, "gaussian")[0], 0.3, 2.0, xtol=1e-15)
    return agreement(
        [0.6797779934, 0.6797779934, -1.10030],
        [root, spurious_scale(1.0, "gaussian"), slope_at_scale("gaussian")],
        absolute=[1e-9, 1e-9, 1e-5],
        because="ten and five decimals of the reference",
        labels=("root of the field", "formula", "slope"),
    )
