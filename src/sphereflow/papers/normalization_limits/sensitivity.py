r"""Sharp or smooth: $\|J\|_2\le\frac1{2T}$, attained at two tied logits; $\frac1{4T}$ bounds single entries."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.normalisation import Softmax, sensitivity, spectral_norm
from sphereflow.normalisation.jacobian import infinity_norm, norm_sandwich
from sphereflow.papers.normalization_limits import PAPER

TEMPERATURES = (1.0, 0.3, 0.1, 0.03, 0.01)


def dense(weights: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """The Jacobian as an array: only for small examples."""
    return (np.diag(weights) - np.outer(weights, weights)) / temperature


@PAPER.claim(
    "jacobian-formula",
    statement="The product with the Jacobian needs no array of size L by L, and equals automatic differentiation.",
    source="Gradient sensitivity",
    formula=r"Ju=\tfrac1T(\alpha\odot u-\alpha\langle\alpha,u\rangle)",
    falsifier="the temperature in the wrong place",
)
def jacobian_formula(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    logits, worst = jnp.asarray(rng.normal(size=12)), []
    for temperature in (1.0, 0.1, 0.01):
        # The derivative of the formula exp(l/T)/sum exp(l/T) itself, without the library's softmax.
        literal = jax.jacfwd(
            lambda x, t=temperature: jnp.exp((x - logits.max()) / t) / jnp.exp((x - logits.max()) / t).sum()
        )
        product = jax.vmap(lambda u, t=temperature: Softmax(t).jacobian_product(logits, u))(jnp.eye(12)).T
        worst.append(float(jnp.max(jnp.abs(product - literal(logits)))) * temperature)
    return at_most(
        np.zeros(3),
        worst,
        slack=1e-10,
        because="1e-10/T absolute: entries underflow at T = 0.01",
        labels=("T=1", "T=0.1", "T=0.01"),
    )


@PAPER.claim(
    "jacobian-norm",
    statement="The spectral norm of the Jacobian is at most 1/(2T), reached at two tied logits: twice the printed "
    "bound.",
    source="Gradient sensitivity, as printed: min(1/(4T), sqrt 2)",
    formula=r"\|\nabla_l\alpha\|_2\le\frac{1}{2T}",
    falsifier="any norm above 1/(2T)",
)
def jacobian_norm(run: Run) -> Measurement:
    tied = [float(spectral_norm(np.asarray(Softmax(t).weights(jnp.zeros(2))), t)) for t in (1.0, 0.2, 0.05)]
    return agreement(
        [0.5, 2.5, 10.0],
        tied,
        relative=1e-12,
        because="rounding",
        printed=[min(1 / (4 * t), np.sqrt(2)) for t in (1.0, 0.2, 0.05)],
        labels=("T=1", "T=0.2", "T=0.05"),
        note="Counterexample: two equal logits. 1/(4T) bounds single entries, sqrt 2 the change of the weights.",
    )


@PAPER.claim(
    "jacobian-sandwich",
    statement="For every set of weights the norm lies between the largest a(1-a) and the smallest of the largest "
    "weight, one half, and twice that; the secular equation agrees with dense eigenvalues.",
    source="Gradient sensitivity, corrected",
    formula=r"\max_i\alpha_i(1-\alpha_i)\le T\|J\|_2\le\min(\max_i\alpha_i,\tfrac12,2\max_i\alpha_i(1-\alpha_i))",
    falsifier="one violation in 20,000 draws; a pole of the secular equation taken for its root at tied maxima",
)
def jacobian_sandwich(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    alpha = np.concatenate([rng.dirichlet(np.full(10, c), size=4000) for c in (0.05, 0.2, 0.5, 1.0, 5.0)])
    alpha[:500, 1] = alpha[:500, 0]  # ties, mostly of the largest
    alpha /= alpha.sum(axis=1, keepdims=True)
    norm, (low, high) = spectral_norm(alpha), norm_sandwich(alpha)
    chosen = np.r_[alpha[:300], alpha[-300:]]
    exact = np.linalg.norm(chosen[:, :, None] * np.eye(10) - chosen[:, :, None] * chosen[:, None, :], 2, axis=(1, 2))
    rows = np.abs(np.stack([dense(a) for a in chosen])).sum(axis=2).max(axis=1)
    return at_most(
        np.zeros(5),
        [
            np.max(low - norm),
            np.max(norm - high),
            np.max(np.abs(spectral_norm(chosen) - exact)),
            np.max(np.abs(infinity_norm(chosen) - rows)),
            np.max(alpha * (1 - alpha)) - 0.25,
        ],
        slack=1e-14,
        because="rounding",
        labels=("below", "above", "secular against dense", "infinity norm", "entries above 1/4"),
    )


@PAPER.claim(
    "change-of-weights",
    statement="A finite change of the logits moves the weights by at most |e|/(2T), and by at most sqrt 2.",
    source="Gradient sensitivity, finite differences",
    formula=r"\|\alpha(l+\varepsilon)-\alpha(l)\|\le\min\{\tfrac{\|\varepsilon\|}{2T},\sqrt2\}",
    falsifier="one change beyond the bound",
)
def change_of_weights(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    worst = []
    for temperature in (1.0, 0.1, 0.01):
        logits, change = rng.normal(size=(4000, 6)), rng.normal(size=(4000, 6)) * 10 ** rng.uniform(-3, 1, (4000, 1))
        size = np.linalg.norm(change, axis=1)
        moved = sensitivity(logits, change, Softmax(temperature)) * size
        worst.append(np.max(moved / np.minimum(size / (2 * temperature), np.sqrt(2))))
    return at_most(np.ones(3), worst, slack=1e-12, because="rounding", labels=("T=1", "T=0.1", "T=0.01"))


def sensitivities(seed: int, temperature: float, draws: int = 5000, length: int = 64) -> np.ndarray:
    """Ratio of norms for standard normal logits and perturbations of 0.01 per coordinate."""
    rng = np.random.default_rng((seed, round(1000 * temperature)))
    return sensitivity(rng.normal(size=(draws, length)), 0.01 * rng.normal(size=(draws, length)), Softmax(temperature))


@PAPER.claim(
    "typical-sensitivity",
    statement="For random logits the mean sensitivity saturates as the temperature falls, because ties become rare; "
    "only the largest ones grow like 1/T.",
    source="Figure 4: sensitivity proportional to 1/T",
    formula=r"\|\alpha(l+\varepsilon)-\alpha(l)\|/\|\varepsilon\|",
    falsifier="the mean reported as the maximum, or the other way round",
)
def typical_sensitivity(run: Run) -> Measurement:
    reference = {0.3: (0.1144, 0.001), 0.1: (0.185, 0.0035), 0.03: (0.213, 0.008)}
    seen = {t: sensitivities(run.seed, t) for t in reference}
    mean = [seen[t].mean() for t in reference]
    error = [np.hypot(seen[t].std(ddof=1) / np.sqrt(5000), reference[t][1]) for t in reference]
    high = [np.log(np.quantile(seen[t], 0.999)) for t in reference]
    slope = np.polyfit(np.log(list(reference)), high, 1)[0]
    return agreement(
        [*(value for value, _ in reference.values()), -0.97],
        [*mean, slope],
        absolute=[*(4 * np.array(error)), 0.2],
        because="four standard errors of both means; the scatter of a 99.9% quantile of 5,000 draws",
        labels=("mean, T=0.3", "mean, T=0.1", "mean, T=0.03", "slope of the 99.9% quantile"),
        parameters={"L": 64, "draws": 5000},
    )
