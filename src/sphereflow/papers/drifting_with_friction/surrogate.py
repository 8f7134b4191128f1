r"""Two particles about one target: $V(a)=-a\,k(a)+2a\,k(2a)$, its root, its stability, its bifurcation."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize_scalar

from sphereflow.claims import Check, Run, basis
from sphereflow.drifting import UnnormalisedField
from sphereflow.drifting.friction import INWARD, OUTWARD
from sphereflow.drifting.surrogate import iterate, slope_at_scale, spurious_scale, surrogate_field
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.sources import REPULSION, THRESHOLD


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
    says=r"Two particles about a target repel each other more than the target attracts them up to the distance "
    r"$\tau\ln2$, in dimensions 1, 2 and 64.",
    basis=THRESHOLD,
    formula=r"V(a)=0\iff a\in\{0,\tau\ln2\}",
)
def contraction_threshold(run: Run) -> Check:
    check = Check()
    widths = (0.1, 1.0, 7.0)
    for dimension in (1, 2, 64):
        for width in widths:
            root = brentq(lambda a, d=dimension, w=width: radial(d, a, w)[0], 0.3 * width, 2 * width, xtol=1e-15)
            check.row(
                f"$D={dimension}$, $\\tau={width:g}$",
                predicted=width * np.log(2),
                measured=root,
                relative=1e-10,
                because="bisection to rounding",
            )
    check.rival("the distance as separation of the pair", check.times(2.0))
    check.rival("the Gaussian kernel", check.times(float(np.sqrt(2 / (3 * np.log(2))))))
    return check


@PAPER.claim(
    "surrogate-formula",
    says="The field of two particles is radial and has the stated size; it points outwards near the target.",
    basis=REPULSION,
    formula=r"V(a)=a\,(2e^{-2a/\tau}-e^{-a/\tau})",
)
def surrogate_formula(run: Run) -> Check:
    check = Check()
    both, squared = {}, {}
    for a in (0.1, 0.5, 1.3):
        along, across = radial(2, a, 0.8)
        u = a / 0.8
        value = a * (2 * np.exp(-2 * u) - np.exp(-u))
        for name, right, got in (
            (f"radial, $a={a}$", value, along),
            (f"perpendicular, $a={a}$", 0.0, across),
            (f"one-dimensional formula, $a={a}$", value, surrogate_field(a, width=0.8)),
        ):
            check.row(name, predicted=right, measured=got, tolerance=1e-14, because="rounding")
        both[f"radial, $a={a}$"] = a * (np.exp(-2 * u) - np.exp(-u))
        squared[f"radial, $a={a}$"] = a * (2 * np.exp(-2 * u**2) - np.exp(-(u**2) / 2))
    check.rival("repulsion averaged over both particles", both)
    check.rival("a squared distance in the kernel", squared)
    return check


def _cycle(step: float) -> tuple[float, float]:
    """The two points between which a -> a + step V(a) alternates, by a root of the second iterate."""

    def f(a: float) -> float:
        return a + step * a * (2 * np.exp(-2 * a) - np.exp(-a))

    low = brentq(lambda a: f(f(a)) - a, 0.3, 0.6, xtol=1e-15)
    return low, f(low)


@PAPER.claim(
    "spurious-limit",
    says=r"The iteration converges to $\tau\ln2$ and not to the target, for steps below $4/\ln2$; beyond, at step "
    "6, it alternates between two distances.",
    basis=THRESHOLD,
    formula=r"1+\eta V'(a^*)=1-\tfrac{\eta}{2}\ln2",
)
def spurious_limit(run: Run) -> Check:
    steps = np.array([0.1, 1.0, 2.8, 5.5, 6.0])
    path = iterate(0.05, steps, 20_000)
    slope = (surrogate_field(np.log(2) + 1e-6) - surrogate_field(np.log(2) - 1e-6)) / 2e-6
    check = Check(parameters={"steps": 20_000})
    check.series(
        [f"limit, step {s:g}" for s in steps[:4]],
        predicted=np.log(2),
        measured=path[-1, :4],
        tolerance=1e-8,
        because="geometric convergence",
    )
    limits = [row.name for row in check.rows]
    check.series(
        ["low point, step 6", "high point, step 6"],
        predicted=np.array(_cycle(6.0)),
        measured=np.sort(path[-2:, -1]),
        tolerance=1e-8,
        because="a root of the second iterate",
    )
    check.row("slope", predicted=-np.log(2) / 2, measured=slope, tolerance=1e-9, because="central difference")
    check.row("slope by formula", predicted=-np.log(2) / 2, measured=slope_at_scale(), tolerance=1e-15, because="exact")
    check.rival("convergence to the target", dict.fromkeys(limits, 0.0))
    check.rival("slope without the factor 1/2", {"slope": -np.log(2)})
    check.rival("convergence for every step", {f"{end} point, step 6": np.log(2) for end in ("low", "high")})
    return check


@PAPER.claim(
    "growth-factor",
    says=r"One step of size one moves a particle outwards by at most $0.1087\,\tau$ and inwards by at most "
    r"$0.1994\,\tau$; the growth factor is between $-1/8$ and 1.",
    basis=basis.Derived("calculus on the two-particle field"),
    formula=r"-\tfrac18\le g(u)\le1,\quad g(u)=2e^{-2u}-e^{-u}",
)
def growth_factor(run: Run) -> Check:
    def extremum(sign: float, low: float, high: float, power: int = 0) -> tuple[float, float]:
        found = minimize_scalar(
            lambda u: sign * float(surrogate_field(u)) / u**power,
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return sign * found.fun, found.x

    def stationary(low: float, high: float, kernel: int = 1) -> tuple[float, float]:
        """A zero of the derivative of u g(u), written out, and the value there; kernel 2: the Gaussian one."""
        if kernel == 1:
            at = brentq(lambda u: (2 - 4 * u) * np.exp(-u) - (1 - u), low, high, xtol=1e-15)
            return at * (2 * np.exp(-2 * at) - np.exp(-at)), at
        at = brentq(lambda u: (2 - 8 * u**2) * np.exp(-1.5 * u**2) - (1 - u**2), low, high, xtol=1e-15)
        return at * (2 * np.exp(-2 * at**2) - np.exp(-(at**2) / 2)), at

    check = Check()
    outward, inward = stationary(0.05, 0.6), stationary(1.2, 3.0)
    for name, right, got in (
        ("outwards", outward, extremum(-1.0, 0.05, 0.6)),
        ("inwards", inward, extremum(1.0, 1.0, 3.0)),
        ("smallest growth factor", (-1 / 8, 2 * np.log(2)), extremum(1.0, 0.5, 3.0, 1)),
    ):
        check.row(name, predicted=right[0], measured=got[0], tolerance=1e-12, because="a minimum: second order")
        check.row(f"{name}, where", predicted=right[1], measured=got[1], tolerance=1e-6, because="root of rounding")
    check.row("constant outwards", predicted=outward[0], measured=OUTWARD, tolerance=1e-10, because="stored digits")
    check.row("constant inwards", predicted=-inward[0], measured=INWARD, tolerance=1e-10, because="stored digits")
    check.rival("the Gaussian kernel", {"outwards": stationary(0.05, 0.6, 2)[0], "inwards": stationary(1.0, 2.0, 2)[0]})
    check.rival("a growth factor of at least -1/4", {"smallest growth factor": -1 / 4})
    return check


@PAPER.claim(
    "gaussian-threshold",
    says=r"For the Gaussian kernel the distance is $\sigma\sqrt{(2\ln2)/3}=0.6798\,\sigma$.",
    basis=basis.Derived("the same two particles with another kernel"),
    formula=r"k(a)=2k(2a),\quad a^*=\sigma\sqrt{\tfrac{2\ln2}{3}}",
)
def gaussian_threshold(run: Run) -> Check:
    root = brentq(lambda a: radial(3, a, 1.0, "gaussian")[0], 0.3, 2.0, xtol=1e-15)
    scale, h = np.sqrt(2 * np.log(2) / 3), 1e-6
    check = Check()
    check.row("root of the field", predicted=scale, measured=root, tolerance=1e-12, because="bisection")
    check.row("formula", predicted=scale, measured=spurious_scale("gaussian"), tolerance=1e-15, because="exact")
    difference = (radial(3, scale + h, 1.0, "gaussian")[0] - radial(3, scale - h, 1.0, "gaussian")[0]) / (2 * h)
    check.row(
        "slope", predicted=difference, measured=slope_at_scale("gaussian"), tolerance=1e-8, because="central difference"
    )
    check.rival(r"$\ln2$, the Laplace kernel", {"root of the field": np.log(2)})
    check.rival(r"the kernel $e^{-r^2/\sigma^2}$", {"root of the field": scale / np.sqrt(2)})
    return check
