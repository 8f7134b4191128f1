r"""Which activations synchronise, in which dimensions: everything follows from two Gaussian averages.

$$q=\frac{E\sigma'^2}{E\sigma^2},\qquad \text{almost surely: } d<\frac{3q-1}{q-1}\ (q>1),\qquad
  \text{in mean: } d>\frac{3-q}{1-q}\ (q<1).$$
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.activations import Function, kappa, slope_at_one
from sphereflow.synchronisation.covariance import Covariance, of_activation, of_powers, of_quadratic_form
from sphereflow.synchronisation.two_point import TwoPoint, coercive_above, synchronises_below


def leaky(s: Array) -> Array:
    """Leaky ReLU with the slope 0.1 below 0."""
    return jnp.where(s > 0, s, 0.1 * s)


class Row(NamedTuple):
    """Reference values: averages with six decimals, thresholds with the digits given."""

    name: str
    activation: str | Function
    at_one: float
    slope: float
    antipode: float
    below: float = np.inf
    above: float = np.inf


TABLE = (
    Row("constant", "constant", 1, 0, 1, above=3),
    Row("linear", "linear", 1, 1, -1),
    Row("ReLU", "relu", 0.5, 0.5, 0),
    Row("leaky ReLU (0.1)", leaky, 0.505, 0.505, -0.198),
    Row("erf", "erf", 0.464559, 0.569410, -1, below=11.86),
    Row("tanh", "tanh", 0.394294, 0.464403, -1, below=14.25),
    Row("GELU", "gelu", 0.425221, 0.455851, -0.176, below=30.8),
    Row("SiLU", "silu", 0.355776, 0.379482, -0.405, below=33.0),
    Row("ELU", "elu", 0.644945, 0.668102, -0.811, below=58.7),
    Row("sigmoid", "sigmoid", 0.293379, 0.044836, 0.704, above=3.36),
    Row("softplus", "softplus", 0.921246, 0.293379, 0.457, above=3.93),
    Row("cos", "cos", 0.567668, 0.432332, 1, above=9.39),
    Row("He2", "hermite2", 1, 2, 1, below=5),
)


def covariances() -> dict[str, Covariance]:
    """The covariance of every row of the table."""
    return {row.name: of_activation(row.activation) for row in TABLE}


@PAPER.claim(
    "activation-table",
    statement="Thirteen activations have the stated size, slope and antipodal correlation of their random layers.",
    source="Activation functions for which synchronisation holds",
    formula=r"\kappa(1)=E\sigma^2,\qquad \kappa'(1)=E\sigma'^2",
    falsifier="a slope from differences of kappa (wrong for ReLU, whose kappa has the power 3/2 at 1), or E sigma "
    "sigma'' in its place",
)
def activation_table(run: Run) -> Measurement:
    laws = list(covariances().values())
    return agreement(
        [*(r.at_one for r in TABLE), *(r.slope for r in TABLE), *(r.antipode for r in TABLE)],
        [
            *(float(c.at_one) for c in laws),
            *(float(c.slope_at_one) for c in laws),
            *(float(c(np.array(-1.0))) / float(c.at_one) for c in laws),
        ],
        absolute=[5.1e-7] * 26 + [5e-4] * 13,
        because="references by another quadrature, with six and with three decimals",
        labels=tuple(f"{what} of {r.name}" for what in ("kappa(1)", "kappa'(1)", "kappa(-1)/kappa(1)") for r in TABLE),
    )


@PAPER.claim(
    "closed-covariances",
    statement="The covariances of ReLU, erf, cosine and sign layers agree with their closed forms at every overlap.",
    source="Covariance of the limit field",
    formula=r"\kappa_{ReLU}=\tfrac1{2\pi}(\sqrt{1-r^2}+r(\pi-\arccos r)),\ \kappa_{erf}=\tfrac2\pi\arcsin\tfrac{2r}3,\ "
    r"\kappa_{cos}=\tfrac{\cosh r}e,\ \kappa_{sign}=\tfrac2\pi\arcsin r",
    falsifier="a quadrature that does not see the kink, or unit variances mistaken",
)
def closed_covariances(run: Run) -> Measurement:
    r = np.linspace(-1, 1, 201)
    exact = {
        "relu": (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))) / (2 * np.pi),
        "erf": 2 / np.pi * np.arcsin(2 * r / 3),
        "cos": np.cosh(r) / math.e,
        "sign": 2 / np.pi * np.arcsin(r),
    }
    worst = [
        np.abs((kappa(name, r) if name == "sign" else of_activation(name)(r)) - exact[name]).max() for name in exact
    ]
    return agreement(
        np.zeros(4),
        worst,
        absolute=1e-11,
        because="quadrature and interpolation are exact to rounding",
        labels=tuple(f"{name}, largest error" for name in exact),
    )


@PAPER.claim(
    "thresholds",
    statement="The dimensions below which activations synchronise almost surely, and above which in mean, are right.",
    source="Activation functions for which synchronisation holds",
    formula=r"d<\frac{3q-1}{q-1},\qquad d>\frac{3-q}{1-q},\qquad q=\kappa'(1)/\kappa(1)",
    falsifier="tanh at d = 15 or GELU at d = 31 found to contract",
)
def thresholds(run: Run) -> Measurement:
    laws = covariances()
    rows = [(r, r.below, synchronises_below(laws[r.name].ratio), "below") for r in TABLE if np.isfinite(r.below)]
    rows += [(r, r.above, coercive_above(laws[r.name].ratio), "above") for r in TABLE if np.isfinite(r.above)]
    digits = [0.05 if r.name in ("GELU", "SiLU", "ELU") else 0.005 for r, *_ in rows]
    # The signs on either side of the thresholds, from the exponents themselves.
    sides = [
        np.sign(TwoPoint(round(np.floor(ref)) + k, laws[r.name]).lyapunov())
        for r, ref, _, kind in rows
        if kind == "below" and r.name != "He2"
        for k in (0, 1)
    ]
    return agreement(
        [*(ref for _, ref, _, _ in rows), *([-1.0, 1.0] * (len(sides) // 2)), 0.0, 0.0],
        [
            *(value for _, _, value, _ in rows),
            *sides,
            1 / synchronises_below(laws["ReLU"].ratio),
            1 / coercive_above(laws["ReLU"].ratio),
        ],
        absolute=[*digits, *([0.0] * (len(sides) + 2))],
        because="half a unit of the last digit of the references; signs are exact",
        labels=(
            *(f"{r.name}, {kind}" for r, _, _, kind in rows),
            *(
                f"sign of the exponent, {r.name}, {side} the threshold"
                for r, _, _, kind in rows
                if kind == "below" and r.name != "He2"
                for side in ("below", "above")
            ),
            "1/threshold of ReLU, below",
            "1/threshold of ReLU, above",
        ),
    )


@PAPER.claim(
    "coercivity-constants",
    statement="The global coercivity constants have the stated values; the worst pairs are always those about to meet.",
    source="Coercive noise",
    formula=r"c_\kappa=\inf_r\frac{D(r)}{1-r}=(d-3)\kappa(1)-(d-1)\kappa'(1)",
    falsifier="an infimum in the interior for one of these activations",
)
def coercivity_constants(run: Run) -> Measurement:
    reference = {"sigmoid": (3.93, 51.4), "softplus": (2.77, 40.9), "cos": (-0.331, 13.02), "relu": (-2.0, -2.0)}
    names, dims = tuple(reference), (8, 64)
    found = {(name, d): TwoPoint(d, of_activation(name)) for name in names for d in dims}
    scaled = [p.coercivity() / float(p.covariance.at_one) for p in found.values()]
    r = np.linspace(-1, 1, 2001)[:-1]
    excess = []
    for name in names:
        law = of_activation(name)
        k, one = law(r), float(law.at_one)
        for d in (4, 5, 10, 12, 64):
            scanned = ((d - 2 + r**2) * k - (d - 1) * r * one) / (1 - r)
            excess.append(max(TwoPoint(d, law).coercivity() - scanned.min(), 0) / (d * one))
    return agreement(
        [*(value for pair in reference.values() for value in pair), 0.0],
        [*scaled, max(excess)],
        absolute=[0.005, 0.05, 0.005, 0.05, 0.0005, 0.005, 1e-9, 1e-9, 1e-9],
        because="half a unit of the last digit of the references; the limit at r = 1 is a lower bound up to rounding",
        labels=(
            *(f"{name}, d={d}, over kappa(1)" for name, d in found),
            "largest relative fall of a scan below the limit at r = 1",
        ),
    )


@PAPER.claim(
    "homogeneous-and-bias",
    statement="Positively homogeneous activations have the exponent -kappa(1) in every dimension; a bias always helps.",
    source="Activation functions for which synchronisation holds",
    formula=r"q=1\Rightarrow\lambda=-\kappa(1);\qquad s_c>0\ \text{lowers}\ q",
    falsifier="a ratio q that grows with the bias",
)
def homogeneous_and_bias(run: Run) -> Measurement:
    names = ("relu", "tanh", "gelu")
    homogeneous = [TwoPoint(d, of_activation(a)).lyapunov() for a in ("relu", leaky) for d in (2, 8, 64)]
    ratios = np.array(
        [
            [slope_at_one(a, bias=c) / float(kappa(a, np.array(1.0), bias=c)) for c in (0.0, 0.5, 1.0, 2.0)]
            for a in names
        ]
    )
    rises = np.maximum(np.diff(ratios, axis=1).max(axis=1), 0)
    return agreement(
        [-0.5] * 3 + [-0.505] * 3 + [0.0] * 3 + [0.5],
        [*homogeneous, *rises, ratios[0, 2]],
        absolute=1e-11,
        because="Euler's identity; for ReLU with bias q = 1/(1 + s_c^2)",
        labels=(
            *(f"exponent of {a}, d={d}" for a in ("ReLU", "leaky ReLU") for d in (2, 8, 64)),
            *(f"largest rise of q with the bias, {a}" for a in names),
            "q of ReLU with unit bias",
        ),
    )


@PAPER.claim(
    "published-rates",
    statement="The exponents reproduce published ones: Baxendale's gradient flow and the random quadratic form. The "
    "threshold is not inclusive: the second Hermite polynomial has exponent exactly 0 in dimension 5.",
    source="Related published results",
    formula=r"\kappa=1:\ \lambda=-\tfrac{d-1}2;\qquad \kappa=r,\,b=1:\ \Lambda(p)=-p(4-8p)",
    falsifier="a lost term of the normalisation",
)
def published_rates(run: Run) -> Measurement:
    constant = [TwoPoint(d, of_powers([1.0])).lyapunov() for d in (2, 3, 10)]
    form = TwoPoint(5, of_quadratic_form(0.0))
    r = np.array([-0.7, 0.2, 0.9])
    return agreement(
        [-0.5, -1.0, -4.5, -0.5 * (4 - 4), -0.25 * 2, *(-2 * r * (1 - r**2)), *(4 * (1 - r**2) ** 2), 0.0],
        [
            *constant,
            form.moment_exponent(0.5),
            form.moment_exponent(0.25),
            *form.drift(r),
            *form.diffusion(r),
            TwoPoint(5, of_powers([0, 0, 1.0])).lyapunov(),
        ],
        absolute=1e-12,
        because="closed forms",
        labels=(
            "constant, d=2",
            "constant, d=3",
            "constant, d=10",
            "quadratic form, p=1/2",
            "quadratic form, p=1/4",
            *(f"drift of the quadratic form at r={v:g}" for v in r),
            *(f"noise of the quadratic form at r={v:g}" for v in r),
            "He2 in dimension 5",
        ),
    )
