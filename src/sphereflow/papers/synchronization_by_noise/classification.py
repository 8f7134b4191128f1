r"""Which activations synchronise, in which dimensions: everything follows from two Gaussian averages.

$$q=\frac{E\sigma'^2}{E\sigma^2},\qquad \text{almost surely: } d<\frac{3q-1}{q-1}\ (q>1),\qquad
  \text{in mean: } d>\frac{3-q}{1-q}\ (q<1).$$
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import antipode, ends, gaussian_mean, relu_kappa
from sphereflow.papers.synchronization_by_noise.one_layer import pair_drift
from sphereflow.synchronisation.activations import Function, kappa, slope_at_one
from sphereflow.synchronisation.covariance import Covariance, of_activation
from sphereflow.synchronisation.random_fields import RandomPerceptron
from sphereflow.synchronisation.two_point import TwoPoint


def leaky(s: Array) -> Array:
    """Leaky ReLU with the slope 0.1 below 0."""
    return jnp.where(s > 0, s, 0.1 * s)


# What people call it: the library's name or function, and the name of the independent quadrature.
TABLE: dict[str, tuple[str | Function, str]] = {
    "constant": ("constant", "constant"),
    "linear": ("linear", "linear"),
    "ReLU": ("relu", "relu"),
    "leaky ReLU (0.1)": (leaky, "leaky"),
    "erf": ("erf", "erf"),
    "tanh": ("tanh", "tanh"),
    "GELU": ("gelu", "gelu"),
    "SiLU": ("silu", "silu"),
    "ELU": ("elu", "elu"),
    "sigmoid": ("sigmoid", "sigmoid"),
    "softplus": ("softplus", "softplus"),
    "cos": ("cos", "cos"),
    "He2": ("hermite2", "hermite2"),
}
QUADRATURE = "two quadratures, each exact to about 1e-12"


def covariances() -> dict[str, Covariance]:
    """The covariance of every row of the table."""
    return {name: of_activation(activation) for name, (activation, _) in TABLE.items()}


@PAPER.claim(
    "activation-table",
    says="Random layers of thirteen activations have the size $E\\sigma^2$, the slope $E\\sigma'^2$ and the antipodal "
    "correlation $E\\sigma(u)\\sigma(-u)$, by a quadrature of the pair and by one of the activation alone.",
    basis=basis.Derived(f"the covariance of {sources.MODEL}"),
    formula=r"\kappa(1)=E\sigma^2,\qquad \kappa'(1)=E\sigma'^2,\qquad \kappa(-1)=E\,\sigma(u)\sigma(-u)",
)
def activation_table(run: Run) -> Check:
    check = Check()
    for name, law in covariances().items():
        one, slope = ends(TABLE[name][1])
        check.row(f"kappa(1), {name}", predicted=one, measured=law.at_one, tolerance=1e-10, because=QUADRATURE)
        check.row(f"kappa'(1), {name}", predicted=slope, measured=law.slope_at_one, tolerance=1e-10, because=QUADRATURE)
        check.row(
            f"kappa(-1), {name}",
            predicted=antipode(TABLE[name][1]),
            measured=law(np.array(-1.0)),
            tolerance=1e-10,
            because=QUADRATURE,
        )
    gap = 1e-6
    difference = (0.5 - float(relu_kappa(np.array(1 - gap)))) / gap
    check.rival("a slope from differences of kappa with step 1e-6", {"kappa'(1), ReLU": difference})
    usual = gaussian_mean(lambda s: np.asarray(jax.nn.gelu(jnp.asarray(s), approximate=True)) ** 2)
    check.rival("GELU by its approximation through tanh", {"kappa(1), GELU": usual})
    check.rival("SiLU taken for homogeneous, with slope equal to size", {"kappa'(1), SiLU": ends("silu")[0]})
    return check


@PAPER.claim(
    "closed-covariances",
    says="The covariances of ReLU, erf, cosine and sign layers have their closed forms at seven overlaps.",
    basis=basis.Derived(f"the covariance of {sources.MODEL}"),
    formula=r"\kappa_{ReLU}=\tfrac1{2\pi}(\sqrt{1-r^2}+r(\pi-\arccos r)),\ \kappa_{erf}=\tfrac2\pi\arcsin\tfrac{2r}3,\ "
    r"\kappa_{cos}=\tfrac{\cosh r}e,\ \kappa_{sign}=\tfrac2\pi\arcsin r",
)
def closed_covariances(run: Run) -> Check:
    overlaps = np.array([-1.0, -0.9, -0.4, 0.0, 0.5, 0.95, 1.0])
    exact = {
        "relu": relu_kappa(overlaps),
        "erf": 2 / np.pi * np.arcsin(2 * overlaps / 3),
        "cos": np.cosh(overlaps) / math.e,
        "sign": 2 / np.pi * np.arcsin(overlaps),
    }
    check = Check()
    for name, values in exact.items():
        found = kappa(name, overlaps) if name == "sign" else of_activation(name)(overlaps)
        rows = [f"{name}, r={r:g}" for r in overlaps]
        check.series(rows, predicted=values, measured=found, tolerance=1e-11, because="quadrature exact to rounding")
    truncated = (1 / (2 * np.pi) + overlaps / 4 + overlaps**2 / (4 * np.pi)) + overlaps**4 / (48 * np.pi)
    rows = [f"relu, r={r:g}" for r in overlaps]
    check.rival("the Hermite series of ReLU cut after degree 4", dict(zip(rows, truncated, strict=True)))
    other = 2 / np.pi * np.arcsin(overlaps / 2)
    rows = [f"erf, r={r:g}" for r in overlaps]
    check.rival("erf with pre-activations of variance 1/2", dict(zip(rows, other, strict=True)))
    return check


def threshold_of_log_growth(law: Covariance) -> float:
    """The dimension at which the mean logarithm of a small distance neither grows nor falls.

    From drift and diffusion of two tokens whose distance is about 1e-7; both are linear in the dimension.
    """
    at = np.array(16.0)  # artanh r
    four, five = (float(TwoPoint(d, law).coefficients(at)[0]) for d in (4, 5))
    return 4 - four / (five - four)


def threshold_of_mean_growth(law: Covariance) -> float:
    """The dimension at which the mean gap of two close tokens neither grows nor falls."""
    at = np.array(1 - 1e-12)
    four, five = (float(TwoPoint(d, law).pull(at)) for d in (4, 5))
    return 4 - four / (five - four)


@PAPER.claim(
    "thresholds",
    says="The dimension at which two close tokens cease to approach almost surely (erf, tanh, GELU, SiLU, ELU, He2), "
    "and the one above which they approach in mean (constant, sigmoid, softplus, cos), are functions of the ratio "
    "$q$ alone. The ends are excluded: He2 is neutral in dimension 5.",
    basis=sources.ACTIVATIONS,
    formula=r"d<\frac{3q-1}{q-1},\qquad d>\frac{3-q}{1-q},\qquad q=\kappa'(1)/\kappa(1)",
)
def thresholds(run: Run) -> Check:
    check = Check()
    laws = covariances()
    close, other = {}, {}
    for name in ("erf", "tanh", "GELU", "SiLU", "ELU", "He2"):
        one, slope = ends(TABLE[name][1])
        q = slope / one
        row = f"almost surely below, {name}"
        found = threshold_of_log_growth(laws[name])
        check.row(row, predicted=(3 * q - 1) / (q - 1), measured=found, relative=1e-5, because="distance of 1e-7")
        close[row], other[row] = (2 * q - 1) / (q - 1), (3 * q + 1) / (q - 1)
    for name in ("constant", "sigmoid", "softplus", "cos"):
        one, slope = ends(TABLE[name][1])
        q = slope / one
        row = f"in mean above, {name}"
        found = threshold_of_mean_growth(laws[name])
        check.row(row, predicted=(3 - q) / (1 - q), measured=found, relative=1e-5, because="distance of 1e-6")
        close[row], other[row] = (2 - q) / (1 - q), (3 + q) / (1 - q)
    check.rival("one tangent direction too few (d-2 for d-3)", close)
    check.rival("the variance of the logarithm with the other sign", other)
    return check


@PAPER.claim(
    "coercivity-constants",
    says="For sigmoid, softplus, cos and ReLU in dimensions 4, 8 and 64 the least of $D(r)/(1-r)$ over all overlaps is "
    "its limit at $r=1$: the worst pairs are those about to meet.",
    basis=sources.ACTIVATIONS,
    formula=r"c_\kappa=\inf_r\frac{D(r)}{1-r}=(d-3)\kappa(1)-(d-1)\kappa'(1)",
)
def coercivity_constants(run: Run) -> Check:
    check = Check()
    opposite, typical = {}, {}
    r = np.concatenate([np.linspace(-1, 0.99, 400), 1 - np.geomspace(0.01, 1e-13, 60)])
    for name in ("sigmoid", "softplus", "cos", "relu"):
        one, slope = ends(name)
        law = of_activation(name)
        for d in (4, 8, 64):
            row = f"{name}, d={d}"
            check.row(
                row,
                predicted=(d - 3) * one - (d - 1) * slope,
                measured=TwoPoint(d, law).pull(r).min(),
                tolerance=2e-6 * d,
                because="the scan ends at a gap of 1e-13, and the slope of ReLU changes with the root of the gap",
            )
            opposite[row] = (d - 1) * (one + antipode(name)) / 2
            typical[row] = (d - 1) * one - (d - 3) * slope
    check.rival("the worst pairs are antipodal", opposite)
    check.rival("twice the almost-sure rate, -2 lambda", typical)
    return check


@PAPER.claim(
    "homogeneous-activations",
    says="ReLU and leaky ReLU layers have the exponent $-\\kappa(1)$ in dimensions 4, 8 and 64, from drift and "
    "diffusion of two close tokens.",
    basis=basis.Derived("Euler's identity for positively homogeneous activations: q = 1"),
    formula=r"\sigma(ts)=t\sigma(s)\ \Rightarrow\ q=1,\ \lambda=-\kappa(1)",
)
def homogeneous_activations(run: Run) -> Check:
    check = Check()
    linear, baxendale = {}, {}
    for name, activation, one in (("ReLU", "relu", 0.5), ("leaky ReLU", leaky, 0.505)):
        for d in (4, 8, 64):
            row = f"{name}, d={d}"
            drift = TwoPoint(d, of_activation(activation)).coefficients(np.array(16.0))[0]
            check.row(row, predicted=-one, measured=-drift, tolerance=1e-5, because="distance of 1e-7")
            linear[row], baxendale[row] = -1.0, -(d - 1) * one / 2
    check.rival("the exponent of a linear layer", linear)
    check.rival("noise that does not depend on the place, -(d-1) kappa(1)/2", baxendale)
    return check


@PAPER.claim(
    "bias-and-the-ratio",
    says="A random bias lowers the ratio $q$ of ReLU, tanh and GELU, and raises that of cos, as the mean motion of "
    "networks of one layer confirms; a constant between 0 and $-2E\\sigma$ added to the activation raises $q$ too.",
    basis=basis.Derived(f"the covariance of {sources.MODEL}"),
    formula=r"\text{ReLU}: q=\frac1{1+s_c^2},\qquad \cos: q=\tanh(1+s_c^2),\qquad "
    r"\sigma+b: q=\frac{\kappa'(1)}{\kappa(1)+2bE\sigma+b^2}",
)
def bias_and_the_ratio(run: Run) -> Check:
    check = Check()
    plain = {}
    for name in ("relu", "cos", "tanh", "gelu"):
        one, slope = ends(name)
        for bias in (0.5, 1.0, 2.0):
            closed = {"relu": 1 / (1 + bias**2), "cos": np.tanh(1 + bias**2)}
            other = ends(name, bias)
            row = f"q, {name}, bias {bias:g}"
            check.row(
                row,
                predicted=closed.get(name, other[1] / other[0]),
                measured=slope_at_one(name, bias=bias) / float(kappa(name, np.array(1.0), bias=bias)),
                tolerance=1e-9,
                because=QUADRATURE,
            )
            plain[row] = slope / one
    one, slope = ends("sigmoid")
    squares = {}
    for b in (-0.5, -1.5):
        row, exact = f"q, sigmoid{b:+g}", slope / (one + b + b**2)  # the mean of the sigmoid is 1/2
        measured = of_activation(shifted_sigmoid(b)).ratio
        check.row(row, predicted=exact, measured=measured, tolerance=1e-9, because=QUADRATURE)
        squares[row] = slope / (one + b**2)
    for bias in (0.0, 1.0):
        layers = 40_000 if run.quick else 1_000_000
        found = pair_drift(RandomPerceptron("cos", 1, bias=bias), 8, 0.5, layers, run.seed)[0]
        row, r = f"one layer of cos, bias {bias:g}, drift at r=0.5", 0.5
        here, one = ((np.exp(s - 1) + np.exp(-1 - s - 2 * bias**2)) / 2 for s in (r, 1.0))
        predicted = 6.25 * here - 3.5 * one
        check.row(
            row,
            predicted=predicted,
            measured=found.value,
            error=found.error,
            repeats=layers,
            tolerance=0.02,
            because="the error bar; the next order of a layer of width one, relatively about 3 (d+2) h",
        )
        plain[row] = 6.25 * np.cosh(r) / math.e - 3.5 * np.cosh(1) / math.e
    never = {row: value for row, value in plain.items() if "cos" in row and "bias 0," not in row}
    check.rival("a bias never raises q: at best the value without it", never)
    check.rival("a constant only adds its square", squares)
    return check


def shifted_sigmoid(b: float) -> Function:
    """The logistic function with a constant added."""
    return lambda s: jax.nn.sigmoid(s) + b
