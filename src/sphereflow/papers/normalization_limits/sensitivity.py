r"""Sharp or smooth: $\|J\|_2\le\frac1{2T}$, attained at two tied logits; $\frac1{4T}$ bounds single entries."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.normalisation import Softmax, sensitivity, spectral_norm
from sphereflow.normalisation.jacobian import infinity_norm, norm_sandwich
from sphereflow.papers.normalization_limits import PAPER

TEMPERATURES = (1.0, 0.3, 0.1, 0.03, 0.01)


def dense(weights: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """The Jacobian as an array: only for small examples."""
    return (np.diag(weights) - np.outer(weights, weights)) / temperature


@jax.jit
def _literal_derivative(logits: jax.Array, direction: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The weights exp(l/T)/sum exp(l/T) and their derivative along a direction, without the library's softmax."""
    top = logits.max()
    return jax.jvp(lambda x: jnp.exp((x - top) / t) / jnp.exp((x - top) / t).sum(), (logits,), (direction,))


@PAPER.claim(
    "jacobian-formula",
    says=r"The product with the Jacobian needs no array of size $L\times L$, and equals automatic differentiation.",
    basis=basis.Derived("differentiating softmax"),
    formula=r"Ju=\tfrac1T(\alpha\odot u-\alpha\langle\alpha,u\rangle)",
)
def jacobian_formula(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    logits, direction = jnp.asarray(rng.normal(size=12)), jnp.asarray(rng.normal(size=12))
    check = Check(parameters={"L": 12})
    untempered, diagonal = {}, {}
    for temperature in (1.0, 0.3, 0.1):
        alpha, change = (np.asarray(each) for each in _literal_derivative(logits, direction, temperature))
        product = np.asarray(Softmax(temperature).jacobian_product(logits, direction))
        for place in np.argsort(alpha)[[-1, -2]]:
            name = f"$T={temperature:g}$, entry {place + 1}"
            check.row(
                name,
                predicted=change[place],
                measured=product[place],
                tolerance=1e-12 / temperature,
                because="rounding, relative to 1/T",
            )
            untempered[name] = float(change[place] * temperature)
            diagonal[name] = float(alpha[place] * direction[place] / temperature)
    check.rival("without the factor $1/T$", untempered)
    check.rival("the diagonal alone", diagonal)
    return check


@PAPER.claim(
    "jacobian-norm",
    says="The spectral norm of the Jacobian at two tied logits is $1/(2T)$: twice the largest entry, and above "
    r"$\sqrt2$ at low temperature.",
    basis=basis.Derived("two tied logits; texts about the paper give the bound $\\min(1/(4T),\\sqrt2)$"),
    formula=r"\|\nabla_l\alpha\|_2=\frac{1}{2T}",
)
def jacobian_norm(run: Run) -> Check:
    temperatures = (1.0, 0.2, 0.05)
    check = Check()
    for t in temperatures:
        weights = np.asarray(Softmax(t).weights(jnp.zeros(2)))
        check.row(
            f"$T={t:g}$", predicted=0.5 / t, measured=spectral_norm(weights, t), relative=1e-12, because="rounding"
        )
    check.rival(r"$\min(1/(4T),\sqrt2)$", [min(1 / (4 * t), np.sqrt(2)) for t in temperatures])
    return check


@PAPER.claim(
    "jacobian-sandwich",
    says=r"For every set of weights $T$ times the norm lies between the largest $\alpha(1-\alpha)$ and the smallest of "
    "the largest weight, one half, and twice that; each end is reached to within a fifth.",
    basis=basis.Derived("Gershgorin circles and a Rayleigh quotient"),
    formula=r"\max_i\alpha_i(1-\alpha_i)\le T\|J\|_2\le\min(\max_i\alpha_i,\tfrac12,2\max_i\alpha_i(1-\alpha_i))",
)
def jacobian_sandwich(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    alpha = np.concatenate([rng.dirichlet(np.full(10, c), size=4000) for c in (0.05, 0.2, 0.5, 1.0, 5.0)])
    alpha[:500, 1] = alpha[:500, 0]  # ties, mostly of the largest
    alpha /= alpha.sum(axis=1, keepdims=True)
    norm, (low, high) = spectral_norm(alpha), norm_sandwich(alpha)
    chosen = np.r_[alpha[:300], alpha[-300:]]
    matrices = np.stack([dense(a) for a in chosen])
    check = Check(parameters={"L": 10, "draws": len(alpha)})
    check.at_most(
        "lower end over the norm", bound=1.0, measured=np.max(low / norm), tolerance=1e-12, because="rounding"
    )
    check.at_most(
        "norm over the upper end", bound=1.0, measured=np.max(norm / high), tolerance=1e-12, because="rounding"
    )
    check.at_most(
        "secular equation against dense eigenvalues",
        bound=0.0,
        measured=np.max(np.abs(spectral_norm(chosen) - np.linalg.norm(matrices, 2, axis=(1, 2)))),
        tolerance=1e-13,
        because="rounding",
    )
    check.at_most(
        "infinity norm against dense rows",
        bound=0.0,
        measured=np.max(np.abs(infinity_norm(chosen) - np.abs(matrices).sum(axis=2).max(axis=1))),
        tolerance=1e-13,
        because="rounding",
    )
    check.at_most(
        "largest entry", bound=0.25, measured=np.max(alpha * (1 - alpha)), tolerance=1e-15, because="rounding"
    )
    check.rival("a lower end a fifth higher", {"lower end over the norm": 1 / 1.2})
    check.rival("an upper end a fifth lower", {"norm over the upper end": 0.8})
    check.rival("entries at most 0.24", {"largest entry": 0.24})
    return check


@PAPER.claim(
    "change-of-weights",
    says=r"A finite change of the logits moves the weights by at most $|\varepsilon|/(2T)$, and by at most $\sqrt2$; "
    "changes near two tied logits, and large ones, come within a tenth.",
    basis=basis.Derived("the norm of the Jacobian and the diameter of the simplex"),
    formula=r"\|\alpha(l+\varepsilon)-\alpha(l)\|\le\min\{\tfrac{\|\varepsilon\|}{2T},\sqrt2\}",
)
def change_of_weights(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    check = Check()
    for temperature in (1.0, 0.1, 0.01):
        logits, change = rng.normal(size=(4000, 6)), rng.normal(size=(4000, 6)) * 10 ** rng.uniform(-3, 1, (4000, 1))
        # Two tied logits far above the rest, pushed apart by little: the worst case of the small changes.
        logits[:10, :2] = 40 * temperature + 4
        change[:10] = np.array([1.0, -1.0, 0, 0, 0, 0]) * 0.01 * temperature
        logits[10:20], change[10:20] = 0.0, np.array([-60.0, 60.0, 0, 0, 0, 0]) * temperature
        logits[10:20, 0] = 60 * temperature  # from one vertex of the simplex to another
        change[10:20, 0] = -120 * temperature
        size = np.linalg.norm(change, axis=1)
        moved = sensitivity(logits, change, Softmax(temperature)) * size
        small = np.max(moved / (size / (2 * temperature)))
        because = "rounding of the difference of two weights, 1e-16 over a change of 0.01"
        check.at_most(
            f"small changes, $T={temperature:g}$", bound=1.0, measured=small, tolerance=1e-12, because=because
        )
        check.at_most(
            f"large changes, $T={temperature:g}$",
            bound=np.sqrt(2),
            measured=np.max(moved),
            tolerance=1e-12,
            because="rounding",
        )
    check.rival("nine tenths of both bounds", check.times(0.9))
    check.rival(r"$|\varepsilon|/(4T)$", {row.name: 0.5 for row in check.rows if row.name.startswith("small")})
    return check


def sensitivities(seed: int, temperature: float, draws: int = 5000, length: int = 64) -> np.ndarray:
    """Ratio of norms for standard normal logits and perturbations of 0.01 per coordinate."""
    rng = np.random.default_rng((seed, round(1000 * temperature)))
    return sensitivity(rng.normal(size=(draws, length)), 0.01 * rng.normal(size=(draws, length)), Softmax(temperature))


def derivative_norms(seed: int, temperature: float, draws: int, length: int = 64) -> np.ndarray:
    """|J e| / |e| for the same laws, from the formula of the Jacobian: no finite difference, no library."""
    rng = np.random.default_rng((seed + 1, round(1000 * temperature)))
    logits, change = rng.normal(size=(draws, length)) / temperature, rng.normal(size=(draws, length))
    alpha = np.exp(logits - logits.max(axis=1, keepdims=True))
    alpha /= alpha.sum(axis=1, keepdims=True)
    product = alpha * change - alpha * np.sum(alpha * change, axis=1, keepdims=True)
    return np.linalg.norm(product, axis=1) / np.linalg.norm(change, axis=1) / temperature


@PAPER.claim(
    "typical-sensitivity",
    says="For random logits the mean sensitivity is that of the Jacobian, and does not grow like $1/T$ as the "
    "temperature falls from 0.3 to 0.03, because ties become rare; the 99.9 % quantile does.",
    basis=basis.Derived("the law of the Jacobian for normal logits; the abstract says that gradients become sensitive"),
    formula=r"\|\alpha(l+\varepsilon)-\alpha(l)\|/\|\varepsilon\|",
)
def typical_sensitivity(run: Run) -> Check:
    temperatures = (0.3, 0.1, 0.03)
    draws = 20_000 if run.quick else 100_000
    check = Check(parameters={"L": 64, "draws": draws})
    high, means = [], {}
    for t in temperatures:
        drawn = sensitivities(run.seed, t, draws)
        seen, exact = mean(drawn), mean(derivative_norms(run.seed, t, draws))
        means[t] = float(exact.value)
        high.append(np.quantile(drawn, 0.999))
        check.row(
            f"mean, $T={t:g}$",
            predicted=exact.value,
            measured=seen.value,
            error=np.hypot(seen.error, exact.error),
            repeats=draws,
            relative=0.02,
            because="standard errors of both means, and 2 % for steps of 0.01 that are not infinitesimal",
        )
    slope = np.polyfit(np.log(temperatures), np.log(high), 1)[0]
    check.row(
        "slope of the 99.9 % quantile",
        predicted=-1.0,
        measured=slope,
        tolerance=0.2,
        because="20 of 20,000 draws lie beyond the quantile: 22 % each, over a decade of temperature",
    )
    check.rival("the mean grows like $1/T$", {f"mean, $T={t:g}$": means[0.3] * 0.3 / t for t in temperatures})
    check.rival(r"the quantile grows like $T^{-1/2}$", {"slope of the 99.9 % quantile": -0.5})
    return check
