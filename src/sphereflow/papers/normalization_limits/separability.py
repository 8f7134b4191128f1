r"""Which selected keys can be told apart: $N_s/N$ on the sphere, simulated and predicted with the same weights."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.normalisation import expected_separable_fraction, separable_fraction
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.papers.normalization_limits.sources import SEPARABILITY


def gaussian_weights(rng: np.random.Generator, draws: int, length: int) -> np.ndarray:
    """Softmax weights of independent standard normal logits."""
    logits = rng.normal(size=(draws, length))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def uniform_tokens(rng: np.random.Generator, draws: int, length: int, d: int) -> np.ndarray:
    x = rng.normal(size=(draws, length, d))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def plain_share(weights: np.ndarray, d: float, n: int) -> float:
    """E[N_s / N] by adaptive quadrature over g, key by key."""
    chosen, rest = weights[:n], weights[n:]
    total = np.sum(chosen**2)

    def share(a: float) -> float:
        def integrand(g: float) -> float:
            top = rest**2 + a**2 + 2 * g * a * np.sqrt((total - a**2) / d)
            return float(np.exp(np.sum(log_ndtr(top / (2 * rest * np.sqrt(total / d)))) - g * g / 2))

        return quad(integrand, -10, 10, epsabs=1e-10, limit=300)[0] / np.sqrt(2 * np.pi)

    return float(np.mean([share(float(a)) for a in chosen]))


@PAPER.claim(
    "separability-formula",
    says="The expected share of separable keys has an integral form; the library's rule for it agrees with adaptive "
    "quadrature, for weights proportional to $1/i$.",
    basis=basis.Derived("Gaussian overlaps of uniform tokens; the right-hand side of Theorem 2 was not available"),
    formula=r"E[N_s/N]=\frac1N\sum_{i\in I_N}E_g\prod_{j\notin I_N}\Phi(\cdot)",
)
def separability_formula(run: Run) -> Check:
    weights = 1 / np.arange(1, 301)
    weights /= weights.sum()
    counts, d = (2, 4, 8, 16), 128
    check = Check(parameters={"L": 300, "d": d})
    check.series(
        [f"$N={n}$" for n in counts],
        predicted=[plain_share(weights, d, n) for n in counts],
        measured=expected_separable_fraction(weights, d, counts),
        tolerance=1e-6,
        because="the quadrature rules",
    )
    check.rival("half of the dimension", [plain_share(weights, d / 2, n) for n in counts])
    return check


@PAPER.claim(
    "separability-simulated",
    says="For tokens drawn on the sphere the share of separable keys is the predicted one, weight draw by weight draw "
    "(for two keys at least the predicted one); it falls from nearly all to a third as more keys are selected.",
    basis=SEPARABILITY,
    formula=r"E[N_s/N\mid\alpha]",
)
def separability_simulated(run: Run) -> Check:
    cases = [(64, 128)] if run.quick else [(64, 128), (64, 1024), (768, 128), (768, 1024)]
    counts, steps = (2, 8, 64), 401 if run.quick else 2001
    rng = np.random.default_rng(run.seed)
    check = Check()
    half = {}
    for number, (d, length) in enumerate(cases):
        run.notify(number / len(cases), f"d={d}, L={length}")
        draws, repeats = 8, 100
        simulated, predicted, other = [], [], []
        for alpha in gaussian_weights(rng, draws, length):
            x = uniform_tokens(rng, repeats, length, d)
            simulated.append(separable_fraction(np.broadcast_to(alpha, (repeats, length)), x, counts))
            predicted.append(expected_separable_fraction(alpha, d, counts, steps=steps))
            other.append(expected_separable_fraction(alpha, d // 2, counts, steps=steps))
        # The tokens are new in every repeat, so the errors of paired differences are those of the simulation.
        paired = mean(np.concatenate([s - p for s, p in zip(simulated, predicted, strict=True)]))
        for k, n in enumerate(counts):
            name = f"$d={d}$, $L={length}$, $N={n}$"
            theory = float(np.mean([p[k] for p in predicted]))
            measured = theory + paired.value[k]
            if n == 2:
                # Only rare large overlaps lose one of two keys, and these are rarer on the sphere than for a Gaussian.
                spread = np.sqrt(theory * (1 - theory) / (draws * repeats))
                because = "binomial error; Gaussian overlaps have heavier tails than those on the sphere"
                check.at_least(name, bound=theory, measured=measured, error=spread, because=because)
                continue
            check.row(
                name,
                predicted=theory,
                measured=measured,
                error=paired.error[k],
                repeats=draws * repeats,
                because="standard error of the paired difference",
            )
            half[name] = float(np.mean([p[k] for p in other]))
    check.rival("half of the dimension", half)
    check.rival("four fifths whatever is selected", 0.8)
    return check


@PAPER.claim(
    "duplicated-vectors",
    says="A selected key whose weighted vector coincides with an unselected one is not separable: the "
    "comparison is strict.",
    basis=basis.Derived("the definition of geometric separability, as texts about the paper give it in words"),
    formula=r"\|\alpha_ix_i-s\|<\min_{j\notin I_N}\|\alpha_jx_j-s\|",
)
def duplicated_vectors(run: Run) -> Check:
    alpha = np.full(4, 0.25)
    same = np.tile([1.0, 0.0], (4, 1))
    check = Check()
    check.same("share, all vectors alike", predicted=0, measured=separable_fraction(alpha, same, (2,))[0])
    wide = separable_fraction(alpha, same, (2,), radius=10.0)[0]
    check.same("share, fixed radius", predicted=1, measured=wide)
    check.rival("a comparison with $\\le$", {"share, all vectors alike": 1})
    return check
