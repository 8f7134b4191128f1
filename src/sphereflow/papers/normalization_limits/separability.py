r"""Which selected keys can be told apart: $N_s/N$ on the sphere, simulated and predicted with the same weights."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, stdtr

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.normalisation import expected_separable_fraction, separable_count, separable_fraction
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


def normal_share(weights: np.ndarray, d: float, n: int) -> float:
    """E[N_s / N] if overlaps were independent normal numbers, by equal steps over g."""
    chosen, rest = weights[:n], weights[n:]
    total = np.sum(chosen**2)
    g = np.linspace(-8, 8, 401)
    density = np.exp(-g * g / 2) / np.exp(-g * g / 2).sum()
    own = chosen[:, None] ** 2 + 2 * g * (chosen * np.sqrt((total - chosen**2) / d))[:, None]
    ratio = (rest**2 + own[..., None]) / (2 * rest * np.sqrt(total / d))
    return float(np.mean(np.exp(log_ndtr(ratio).sum(axis=-1)) @ density))


def plain_share(weights: np.ndarray, d: int, n: int) -> float:
    """E[N_s / N] for two or three selected keys by sums over angles: the sum of the others has a known length."""
    chosen, rest = weights[:n], weights[n:]
    angle = (np.arange(240) + 0.5) * np.pi / 240
    density = np.sin(angle) ** (d - 2) / np.sum(np.sin(angle) ** (d - 2))
    found = []
    for i, a in enumerate(chosen):
        others = np.delete(chosen, i)
        between = 2 * others[0] * others[1] * np.cos(angle[::4]) if n == 3 else np.zeros(1)
        share = density[::4] / density[::4].sum() if n == 3 else np.ones(1)
        length2 = np.sum(others**2) + between
        lean = 2 * a * np.sqrt(length2)[:, None] * np.cos(angle)
        t = (rest**2 + (a**2 + lean)[..., None]) / (2 * rest * np.sqrt(length2[:, None] + a**2 + lean)[..., None])
        # A coordinate of a direction, divided by its complement, is a Student variable.
        t = np.clip(t, -1 + 1e-12, 1 - 1e-12)
        below = stdtr(d - 1, t * np.sqrt((d - 1) / (1 - t**2)))
        found.append(share @ np.prod(below, axis=-1) @ density)
    return float(np.mean(found))


@PAPER.claim(
    "separability-formula",
    says="The expected share of separable keys on the sphere is an integral over the length of a sum and one cosine; "
    "the library's rule for it agrees with sums over angles, for weights proportional to $1/i$.",
    basis=basis.Derived("independent directions given the sum; the right-hand side of Theorem 2 was not available"),
    formula=r"E[N_s/N]=\frac1N\sum_{i\in I_N}E_{\rho,\tau}\prod_{j\notin I_N}"
    r"F_d\Big(\frac{\alpha_j^2+\alpha_i^2+2\rho\alpha_i\tau}{2\alpha_j|s|}\Big)",
)
def separability_formula(run: Run) -> Check:
    check = Check(parameters={"L": 12})
    weights = 1 / np.arange(1, 13)
    normal, half = {}, {}
    for d, n in ((4, 2), (16, 2), (4, 3), (16, 3)):
        name = f"$d={d}$, $N={n}$"
        check.row(
            name,
            predicted=plain_share(weights, d, n),
            measured=expected_separable_fraction(weights, d, (n,))[0],
            tolerance=5e-4,
            because="steps over angles in both rules",
        )
        normal[name], half[name] = normal_share(weights, d, n), plain_share(weights, d // 2, n)
    check.rival("normal overlaps, exact as $d$ grows", normal)
    check.rival("half of the dimension", half)
    return check


@PAPER.claim(
    "separability-simulated",
    says="For tokens drawn on the sphere the share of separable keys is the predicted one, weight draw by weight draw; "
    "it falls from nearly all to a third as more keys are selected.",
    basis=SEPARABILITY,
    formula=r"E[N_s/N\mid\alpha]",
)
def separability_simulated(run: Run) -> Check:
    larger = [(64, 1024, 200), (768, 128, 200), (768, 1024, 200)]
    rng = np.random.default_rng(run.seed)
    check = Check()
    half: dict[str, float] = {}
    normal: dict[str, float] = {}
    for d, length, repeats in [(4, 16, 4000), (64, 96, 200), *([] if run.quick else larger)]:
        run.notify(len(half) / 15, f"d={d}, L={length}")
        counts, draws = ((2, 8) if length < 50 else (2, 8, 48)), 4
        simulated, predicted, other, gauss = [], [], [], []
        for alpha in -np.sort(-gaussian_weights(rng, draws, length)):
            x = uniform_tokens(rng, repeats, length, d)
            simulated.append(separable_fraction(np.broadcast_to(alpha, (repeats, length)), x, counts))
            predicted.append(expected_separable_fraction(alpha, d, counts, steps=101))
            other.append([normal_share(alpha, d / 2, n) for n in counts[:2]])
            gauss.append([normal_share(alpha, d, n) for n in counts[:2]])
        # The tokens are new in every repeat, so the errors of paired differences are those of the simulation.
        paired = mean(np.concatenate([s - p for s, p in zip(simulated, predicted, strict=True)]))
        for k, n in enumerate(counts):
            name = f"$d={d}$, $L={length}$, $N={n}$"
            theory = float(np.mean([p[k] for p in predicted]))
            # Where nearly every draw is 1 the scatter is not seen: that of a coin with the predicted chance is.
            coin = np.sqrt(theory * (1 - theory) / (draws * repeats))
            check.row(
                name,
                predicted=theory,
                measured=theory + paired.value[k],
                error=max(float(paired.error[k]), float(coin) if n == 2 else 0.0),
                repeats=draws * repeats,
                because="standard error of the paired difference",
            )
            if k < 2:
                half[name] = float(np.mean([p[k] for p in other]))
                normal[name] = float(np.mean([p[k] for p in gauss]))
    check.rival("half of the dimension", half)
    check.rival("normal overlaps, exact as $d$ grows", normal)
    check.rival("four fifths whatever is selected", 0.8)
    return check


def limiting_share(root: float, length: int) -> float:
    """Pr(M + g < root), M the largest of `length` normal numbers and g one more: by a sum on a grid."""
    x = np.linspace(-8, 8, 801)
    density = length * np.exp((length - 1) * log_ndtr(x) - x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    return float(density @ ndtr(root - x))


def limiting_root(length: int) -> float:
    """The median of M + g."""
    return float(brentq(lambda q: limiting_share(q, length) - 0.5, 0, 20))


@PAPER.claim(
    "separability-law",
    says="For equal weights the number of keys of which half are separable is proportional to the dimension and falls "
    r"with the logarithm of the length: $N=d/q_L^2$, $q_L$ the median of the largest of $L-N$ normal numbers plus one "
    "more.",
    basis=basis.Derived("normal overlaps, exact as the dimension grows at fixed $d/N$"),
    formula=r"E[N_s/N]\to\Pr\Big(M_{L-N}+g<\sqrt{d/N}\Big)",
)
def separability_law(run: Run) -> Check:
    check = Check()
    leading, root, free = {}, {}, {}
    for d, length in ((128, 512), (512, 4096), (128, 4096)):
        predicted = d / limiting_root(length) ** 2
        for _ in range(3):
            predicted = d / limiting_root(length - round(predicted)) ** 2
        name = f"$N$, $d={d}$, $L={length}$"
        check.row(
            name,
            predicted=predicted,
            measured=separable_count(np.ones(length), d, share=0.5, steps=101),
            tolerance=1.0 + 0.01 * predicted,
            because="a whole number, and terms of relative order $1/N$",
        )
        leading[name] = d / (2 * np.log(length))
        root[name] = 128 / limiting_root(length) ** 2 * np.sqrt(d / 128)
        free[name] = d / limiting_root(512) ** 2
    draws, d, n, length = (100 if run.quick else 1000), 128, 12, 512
    x = uniform_tokens(np.random.default_rng(run.seed), draws, length, d)
    drawn = mean(separable_fraction(np.full((draws, length), 1 / length), x, (n,))[:, 0])
    name = f"share drawn, $d={d}$, $L={length}$, $N={n}$"
    check.row(
        name,
        predicted=limiting_share(np.sqrt(d / n), length - n),
        measured=drawn.value,
        error=drawn.error,
        repeats=draws,
        tolerance=0.02,
        because="standard error of the draws, and terms of order $1/N$",
    )
    leading[name] = float(ndtr(np.sqrt(d / n) - np.sqrt(2 * np.log(length))))
    free[name] = limiting_share(np.sqrt(d / n), 4096 - n)
    check.rival(r"$d/(2\ln L)$, the leading term for huge $L$", leading)
    check.rival(r"proportional to $\sqrt d$", root)
    check.rival("the same for every length", free)
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
