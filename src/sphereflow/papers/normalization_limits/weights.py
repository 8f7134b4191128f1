r"""Vanishing weights, $\alpha_i\le\frac1{1+(L-1)e^{-2\Delta/T}}$, and the normalisers that escape them."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.special import softmax

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.normalisation import (
    Entmax,
    Softmax,
    gaussian_concentration,
    range_needed,
    weight_bounds,
)
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.papers.normalization_limits.sources import COROLLARY, LEMMA

_ROOM = 131_072


def keys(logits: np.ndarray) -> jnp.ndarray:
    """Logits among masked keys, which have no weight: contexts of every length share one program."""
    return jnp.asarray(np.pad(logits, (0, _ROOM - len(logits)), constant_values=-np.inf))


@PAPER.claim(
    "sharp-weight-bound",
    says=r"With $L$ keys and logits in $[-\Delta,\Delta]$, one extreme logit against all others attains the largest "
    r"and the smallest possible softmax weight, which the simpler bounds $e^{\pm2\Delta/T}/L$ miss.",
    basis=COROLLARY,
    formula=r"\frac{1}{1+(L-1)e^{2\Delta/T}}\le\alpha_i\le\frac{1}{1+(L-1)e^{-2\Delta/T}}",
)
def sharp_weight_bound(run: Run) -> Check:
    check = Check()
    simple, whole = {}, {}
    for length, delta, temperature in ((50, 1.5, 0.7), (1024, 3.0, 1.0), (131072, 6.0, 1.0)):
        for sign, end in ((1.0, "largest"), (-1.0, "smallest")):
            logits = np.full(length, -sign * delta)
            logits[length // 3] = sign * delta
            name = f"{end}, $L={length}$"
            check.row(
                name,
                predicted=1 / (1 + (length - 1) * np.exp(-sign * 2 * delta / temperature)),
                measured=np.asarray(Softmax(temperature).weights(keys(logits)))[length // 3],
                relative=1e-12,
                because="rounding of sums over up to 131,072 terms",
            )
            simple[name] = np.exp(sign * 2 * delta / temperature) / length
            whole[name] = 1 / (1 + (length - 1) * np.exp(-sign * delta / temperature))
    check.rival(r"the simpler bound $e^{\pm2\Delta/T}/L$", simple)
    check.rival(r"$\Delta$ taken as the whole range", whole)
    return check


@PAPER.claim(
    "general-normaliser",
    says="A fixed positive function of bounded logits, normalised to sum one, gives weights between $C/L$ and "
    "$1/(CL)$, where $C$ is its smallest value over its largest; no larger constant will do.",
    basis=LEMMA,
    formula=r"\frac{C}{L}\le\alpha_i\le\frac{1}{CL},\quad C=\min F/\max F",
)
def general_normaliser(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    length = 4096
    check = Check(parameters={"L": length, "a": 2})
    root, narrow = {}, {}
    for name, function in (
        ("exp", np.exp),
        ("$1+l^2$", lambda x: 1 + x**2),
        ("logistic", lambda x: 1 / (1 + np.exp(-x))),
        (r"$2+\sin3l$", lambda x: 2 + np.sin(3 * x)),
    ):
        places = np.linspace(-2, 2, 20001)
        grid = function(places)
        c = grid.min() / grid.max()
        # The extreme cases: one logit where F is largest, all others where it is smallest, and the other way round.
        least, most = places[grid.argmin()], places[grid.argmax()]
        logits = np.concatenate([rng.uniform(-2, 2, (40, length)), np.full((2, length), [[least], [most]])])
        logits[-2:, 0] = most, least
        alpha = function(logits)
        alpha /= alpha.sum(axis=1, keepdims=True)
        check.at_most(
            f"largest weight times $L$, {name}",
            bound=1 / c,
            measured=alpha.max() * length,
            relative=1e-7,
            because="extremes of F on 20,001 points, exact to 1e-8",
        )
        check.at_least(
            f"smallest weight times $L$, {name}",
            bound=c,
            measured=alpha.min() * length,
            relative=1e-7,
            because="extremes of F on 20,001 points, exact to 1e-8",
        )
        root[f"largest weight times $L$, {name}"], root[f"smallest weight times $L$, {name}"] = c**-0.5, c**0.5
        narrow[f"largest weight times $L$, {name}"], narrow[f"smallest weight times $L$, {name}"] = 0.9 / c, c / 0.9
    check.rival(r"the constant $C^{1/2}$", root)
    for end in ("largest", "smallest"):
        closer = {row: value for row, value in narrow.items() if row.startswith(end)}
        check.rival(f"the bound on the {end} weight a tenth closer", closer)
    return check


@PAPER.claim(
    "range-of-logits",
    says="To keep half of the weight on one key, the range of the logits must be $\\ln(L-1)$.",
    basis=basis.Derived("the sharp form of Corollary 1"),
    formula=r"2\Delta/T\ge\ln(L-1)+\ln\frac{w}{1-w}",
)
def range_of_logits(run: Run) -> Check:
    check = Check()
    doubled = {}
    for length in (128, 1024, 8192, 131072):
        spread = float(range_needed(length))
        name = f"weight at that range, $L={length}$"
        largest = softmax(np.r_[spread, np.zeros(length - 1)])[0]
        check.row(name, predicted=0.5, measured=largest, tolerance=1e-12, because="rounding")
        check.row(
            f"range, $L={length}$", predicted=math.log(length - 1), measured=spread, tolerance=1e-12, because="rounding"
        )
        # The simpler bound e^{2 Delta / T} / L asks for a range of ln(L / 2), and gives only a third of the weight.
        doubled[f"range, $L={length}$"] = math.log(length / 2)
    check.rival(r"the range that the simpler bound asks for, $\ln(L/2)$", doubled)
    return check


def plain_concentration(length: int, spread: float) -> float:
    """E sum alpha^2 by nested adaptive quadrature over u and the logit."""

    def average(function) -> float:
        return quad(lambda x: function(math.exp(spread * x)) * math.exp(-x * x / 2), -12, 12, limit=200)[0] / math.sqrt(
            2 * math.pi
        )

    def integrand(v: float) -> float:
        u = math.exp(v)
        return u * u * average(lambda e: e * e * math.exp(-u * e)) * average(lambda e: math.exp(-u * e)) ** (length - 1)

    return length * quad(integrand, -math.log(length) - 16, -math.log(length) + 5, epsrel=1e-8, limit=200)[0]


@PAPER.claim(
    "gaussian-logits",
    says="For independent normal logits the mean of the summed squared weights is a one-dimensional integral; draws "
    "agree with it and tell it from its limit for long contexts.",
    basis=basis.Derived("the law of softmax weights of Gaussian logits"),
    formula=r"E\sum_i\alpha_i^2=L\int_0^\infty u\,E[e^{2x-ue^x}]\,(E[e^{-ue^x}])^{L-1}du",
)
def gaussian_logits(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    draws = 4000 if run.quick else 40_000
    check = Check(parameters={"draws": draws})
    limit, squared = {}, {}
    for spread, length in ((0.5, 100), (1.0, 100), (1.5, 100)):
        # The temperature is 2 and the logits twice as wide: only their ratio may matter.
        logits = jnp.asarray(rng.normal(0, 2 * spread, (draws, length)))
        drawn = mean(np.sum(np.asarray(Softmax(2.0).weights(logits)) ** 2, axis=1))
        exact = gaussian_concentration(length, spread)
        name = f"draws, $s/T={spread:g}$"
        check.row(
            name, predicted=exact, measured=drawn.value, error=drawn.error, repeats=draws, because="standard error"
        )
        limit[name] = math.exp(spread**2) / length
        squared[name] = gaussian_concentration(length, 2 * spread)
    check.row(
        "integral, $s/T=1$",
        predicted=plain_concentration(100, 1.0),
        measured=gaussian_concentration(100, 1.0),
        relative=1e-6,
        because="nested adaptive quadrature",
    )
    check.rival(r"the limit of long contexts, $e^{s^2/T^2}/L$", limit)
    check.rival("the temperature forgotten", squared)
    return check


@PAPER.claim(
    "sparse-normalisers",
    says="Sparsemax and entmax give the minimisers of their energies on the simplex, with exact zeros.",
    basis=basis.Derived("the optimality conditions of the projection onto the simplex"),
    formula=r"\alpha=\operatorname{arg\,min}_{p\in\Delta}\tfrac12\|p-l\|^2\ (a=2)",
)
def sparse_normalisers(run: Run) -> Check:
    logits = np.random.default_rng(run.seed).normal(0, 1.5, (50, 40))

    def residual(alpha: np.ndarray, order: float) -> float:
        # On the support p^(a-1)/(a-1) - l is one constant; elsewhere -l is at least that constant.
        level = np.where(alpha > 0, alpha ** (order - 1) / (order - 1) - logits, -np.inf)
        constant = level.max(axis=1)
        inside = np.where(alpha > 0, constant[:, None] - level, 0.0).max()
        outside = np.where(alpha > 0, 0.0, np.maximum(constant[:, None] + logits, 0.0)).max()
        return float(max(inside, outside, np.abs(alpha.sum(axis=1) - 1).max()))

    check = Check()
    orders = (1.5, 2.0, 3.0)
    names = [f"residual, $a={order:g}$" for order in orders]
    found = {order: np.asarray(Entmax(order).weights(jnp.asarray(logits))) for order in orders}
    for order, name in zip(orders, names, strict=True):
        check.at_most(
            name,
            bound=0.0,
            measured=residual(found[order], order),
            tolerance=1e-12,
            because="rounding of a bisection to the last bit",
        )
    top = np.sort(logits, axis=1)[:, -3:-2]
    kept = softmax(np.where(logits >= top, logits, -np.inf), axis=1)
    check.null(
        "softmax of the three largest logits", {n: residual(kept, a) for a, n in zip(orders, names, strict=True)}
    )
    check.null("entmax of another order", {names[0]: residual(found[2.0], 1.5), names[2]: residual(found[2.0], 3.0)})
    return check


@PAPER.claim(
    "bound-on-random-heads",
    says="In random causal heads no weight leaves the sharp bounds set by the number of visible keys and the range of "
    "their logits; with masked keys counted the upper bound would be broken.",
    basis=COROLLARY,
    formula=r"\frac{1}{1+(L-1)e^{2\Delta}}\le\alpha\le\frac{1}{1+(L-1)e^{-2\Delta}}",
)
def bound_on_random_heads(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    length, d = 96, 32
    q, k = rng.normal(size=(2, 8, length, d))
    logits = np.where(np.tri(length, dtype=bool), q @ k.transpose(0, 2, 1) / np.sqrt(d), -np.inf)
    alpha = np.asarray(Softmax().weights(jnp.asarray(logits)))
    span = logits.max(-1) - np.where(np.isfinite(logits), logits, np.inf).min(-1)
    visible = np.broadcast_to(np.arange(1, length + 1)[None, :], span.shape)
    smallest = np.where(np.isfinite(logits), alpha, np.inf).min(-1)
    check = Check(parameters={"heads": 8, "L": length, "d": d})

    def ratios(keys: np.ndarray) -> tuple[float, float]:
        low, high = weight_bounds(keys, span)
        return float(np.max(alpha.max(-1) / high)), float(np.max(low / smallest))

    above, below = ratios(visible)
    check.at_most("largest weight over its bound", bound=1.0, measured=above, tolerance=1e-12, because="rounding")
    check.at_most(
        "lower bound over the smallest weight", bound=1.0, measured=below, tolerance=1e-12, because="rounding"
    )
    masked = ratios(np.full_like(visible, length))
    check.null("masked keys counted", {"largest weight over its bound": masked[0]})
    if not run.quick:
        from sphereflow.papers.normalization_limits.real_heads import heads_of_default_model, violations

        real = np.array([violations(rows) for rows, _ in heads_of_default_model()]).max(axis=0)
        for name, worst in zip(
            ("largest weight over its bound", "lower bound over the smallest weight"), real, strict=True
        ):
            check.at_most(
                f"{name}, language model", bound=1.0, measured=worst, tolerance=1e-5, because="rounding of float32"
            )
    return check
