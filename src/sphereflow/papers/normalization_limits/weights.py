r"""Vanishing weights, $\alpha_i\le\frac1{1+(L-1)e^{-2\Delta/T}}$, and the normalisers that escape them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.normalisation import (
    Entmax,
    ScalableSoftmax,
    Softmax,
    gaussian_concentration,
    range_needed,
    weight_bounds,
)
from sphereflow.normalisation.bounds import printed_weight_bounds
from sphereflow.papers.normalization_limits import PAPER


@PAPER.claim(
    "sharp-weight-bound",
    statement="With L keys and logits within a range, no softmax weight exceeds a bound of order 1/L, and one extreme "
    "logit against all others attains it.",
    source="Corollary 1, in its sharp form",
    formula=r"\alpha_i\le\frac{1}{1+(L-1)e^{-2\Delta/T}}",
    falsifier="Delta taken as the whole range of the logits: a factor 2 in the exponent",
)
def sharp_weight_bound(run: Run) -> Measurement:
    predicted, measured, labels = [], [], []
    for length, delta, temperature in ((50, 1.5, 0.7), (1024, 3.0, 1.0), (131072, 6.0, 1.0)):
        for sign, end in ((1.0, "largest"), (-1.0, "smallest")):
            logits = np.full(length, -sign * delta)
            logits[length // 3] = sign * delta
            measured.append(float(Softmax(temperature).weights(jnp.asarray(logits))[length // 3]))
            predicted.append(1 / (1 + (length - 1) * np.exp(-sign * 2 * delta / temperature)))
            labels.append(f"{end}, L={length}")
    return agreement(
        predicted,
        measured,
        relative=1e-12,
        because="rounding of sums over up to 131,072 terms",
        labels=tuple(labels),
        note=f"The printed exp(2 Delta/T)/L of case 1 is {printed_weight_bounds(50, 3.0, 0.7)[1]:.3f}, above 1.",
    )


@PAPER.claim(
    "general-normaliser",
    statement="Any fixed positive function of bounded logits, normalised to sum one, gives weights between C/L and "
    "1/(CL), where C is its smallest value over its largest.",
    source="Lemma 1",
    formula=r"\frac{C}{L}\le\alpha_i\le\frac{1}{CL},\quad C=\min F/\max F",
    falsifier="one weight outside the bounds",
)
def general_normaliser(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    worst = []
    for function in (np.exp, lambda x: 1 + x**2, lambda x: 1 / (1 + np.exp(-x)), lambda x: 2 + np.sin(3 * x)):
        grid = function(np.linspace(-2, 2, 20001))
        c = grid.min() / grid.max()
        logits = rng.uniform(-2, 2, (2000, 64))
        logits[:200] = np.where(rng.random((200, 64)) < 0.03, 2.0, -2.0)
        alpha = function(logits)
        alpha /= alpha.sum(axis=1, keepdims=True)
        worst.append(max(alpha.max() * 64 * c, c / (64 * alpha.min())))
    return at_most(
        np.ones(4),
        worst,
        slack=1e-7,
        because="the extremes of F on a grid of 20,001 points, exact to 1e-8",
        labels=("exp", "1 + l^2", "logistic", "2 + sin 3l"),
        parameters={"L": 64, "a": 2},
    )


@PAPER.claim(
    "range-of-logits",
    statement="To keep half of the weight on one key, the range of the logits must grow like the logarithm of the "
    "length: 4.84, 6.93, 9.01, 11.78 at 128, 1024, 8192 and 131072 keys.",
    source="Consequence of Corollary 1",
    formula=r"2\Delta/T\ge\ln(L-1)+\ln\frac{w}{1-w}",
    falsifier="a largest weight other than one half at that range",
)
def range_of_logits(run: Run) -> Measurement:
    lengths = np.array([128, 1024, 8192, 131072])
    needed = range_needed(lengths)
    largest = [softmax(np.r_[spread, np.zeros(length - 1)])[0] for length, spread in zip(lengths, needed, strict=True)]
    return agreement(
        np.r_[4.84, 6.93, 9.01, 11.78, np.full(4, 0.5)],
        np.r_[needed, largest],
        absolute=np.r_[np.full(4, 0.005), np.full(4, 1e-12)],
        because="two printed decimals; rounding",
        labels=tuple(f"{what}, L={length}" for what in ("range", "weight") for length in lengths),
    )


@PAPER.claim(
    "gaussian-logits",
    statement="For independent normal logits the mean of the summed squared weights is a one-dimensional integral; "
    "draws agree with it.",
    source="Concentration of weights, exact finite-length mean",
    formula=r"E\sum_i\alpha_i^2=L\int_0^\infty u\,E[e^{2x-ue^x}]\,(E[e^{-ue^x}])^{L-1}du",
    falsifier="the mean of n_eff inverted (4% off at s/T = 1, L = 1000), or the square of T missing",
)
def gaussian_logits(run: Run) -> Measurement:
    cases = ((0.5, 1000, 1.283454e-3), (1.0, 1000, 2.698202e-3), (1.0, 10_000, 2.716216e-4))
    rng = np.random.default_rng(run.seed)
    draws = 400 if run.quick else 4000
    measured, error = [], []
    for spread, length, _ in cases:
        # The temperature is 2 and the logits twice as wide: only their ratio may matter.
        squares = np.array(
            [
                np.sum(
                    np.asarray(Softmax(2.0).weights(jnp.asarray(rng.normal(0, 2 * spread, (100, length))))) ** 2, axis=1
                )
                for _ in range(draws // 100)
            ]
        ).ravel()
        measured.append(squares.mean())
        error.append(squares.std(ddof=1) / np.sqrt(draws))
    exact = [gaussian_concentration(length, spread) for spread, length, _ in cases]
    reference = [value for *_, value in cases]
    return agreement(
        np.r_[reference, reference],
        np.r_[exact, measured],
        absolute=np.r_[5e-7 * np.array(reference), 4 * np.array(error)],
        because="seven digits of the reference; four standard errors of the draws",
        labels=tuple(f"{what}, s/T={s:g}, L={length}" for what in ("integral", "draws") for s, length, _ in cases),
        parameters={"draws": draws},
    )


@PAPER.claim(
    "length-aware",
    statement="A logit that stands a fixed gap above the others loses its weight in softmax as the context grows; "
    "with logits scaled by ln L it keeps one half at the critical gap.",
    source="Length-aware normalisers",
    formula=r"\alpha=\frac{L^{\varsigma g}}{L^{\varsigma g}+L-1}",
    falsifier="ln L and L confused",
)
def length_aware(run: Run) -> Measurement:
    lengths = (128, 1024, 8192)

    def planted(gap: float, length: int) -> jnp.ndarray:
        return jnp.zeros(length).at[0].set(gap)

    scaled = [float(ScalableSoftmax(0.5).weights(planted(2.0, length))[0]) for length in lengths]
    plain = [float(Softmax(0.2).weights(planted(1.0, length))[0]) for length in lengths]
    wide = [float(ScalableSoftmax(1.0).weights(planted(gap, 10_000))[0]) for gap in (0.5, 1.0, 1.5)]
    return agreement(
        [0.501961, 0.500244, 0.500031, 0.538875, 0.126696, 0.017797, 0.0099, 0.5000, 0.9901],
        scaled + plain + wide,
        absolute=[5.1e-7] * 6 + [5.1e-5] * 3,
        because="six and four decimals of the reference",
        labels=tuple(f"SSMax, L={n}" for n in lengths)
        + tuple(f"softmax, g/T=5, L={n}" for n in lengths)
        + tuple(f"SSMax, L=10000, gap {g}" for g in (0.5, 1.0, 1.5)),
    )


@PAPER.claim(
    "sparse-normalisers",
    statement="Sparsemax and entmax choose by themselves how many keys get weight: they are the projections that "
    "minimise their energies on the simplex, with exact zeros.",
    source="Alternatives to softmax",
    formula=r"\alpha=\operatorname{arg\,min}_{p\in\Delta}\tfrac12\|p-l\|^2\ (a=2)",
    falsifier="a residual of the optimality conditions, or weights that do not sum to one",
)
def sparse_normalisers(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    logits = rng.normal(0, 1.5, (50, 40))
    worst = []
    for order in (1.5, 2.0, 3.0):
        alpha = np.asarray(Entmax(order).weights(jnp.asarray(logits)))
        # On the support p^(a-1)/(a-1) - l is one constant; elsewhere -l is at least that constant.
        level = np.where(alpha > 0, alpha ** (order - 1) / (order - 1) - logits, -np.inf)
        constant = level.max(axis=1)
        inside = np.where(alpha > 0, constant[:, None] - level, 0.0).max()
        outside = np.where(alpha > 0, 0.0, np.maximum(constant[:, None] + logits, 0.0)).max()
        worst.append(max(inside, outside, np.abs(alpha.sum(axis=1) - 1).max()))
    return at_most(
        np.zeros(3),
        worst,
        slack=1e-12,
        because="rounding of a bisection to the last bit",
        labels=("a = 1.5", "a = 2 (sparsemax)", "a = 3"),
    )


@PAPER.claim(
    "bound-on-random-heads",
    statement="In random causal heads no weight leaves the sharp bounds set by the number of visible keys and the "
    "range of their logits.",
    source="Corollary 1 on attention heads",
    formula=r"\frac{1}{1+(L-1)e^{2\Delta}}\le\alpha\le\frac{1}{1+(L-1)e^{-2\Delta}}",
    falsifier="masked keys counted in L or in the range",
)
def bound_on_random_heads(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    length, d = 96, 32
    q, k = rng.normal(size=(2, 8, length, d))
    logits = np.where(np.tri(length, dtype=bool), q @ k.transpose(0, 2, 1) / np.sqrt(d), -np.inf)
    alpha = np.asarray(Softmax().weights(jnp.asarray(logits)))
    visible = np.arange(1, length + 1)[None, :]
    span = logits.max(-1) - np.where(np.isfinite(logits), logits, np.inf).min(-1)
    low, high = weight_bounds(np.broadcast_to(visible, span.shape), span)
    smallest = np.where(np.isfinite(logits), alpha, np.inf).min(-1)
    worst = [np.max(alpha.max(-1) / high), np.max(low / smallest)]
    labels = ["largest weight over its bound", "lower bound over the smallest weight"]
    slack = [1e-12, 1e-12]
    if not run.quick:
        from sphereflow.papers.normalization_limits.real_heads import heads_of_default_model, violations

        real = np.array([violations(rows) for rows, _ in heads_of_default_model()])
        worst += list(real.max(axis=0))
        labels += [f"{label}, language model" for label in labels]
        slack += [1e-5, 1e-5]
    return at_most(
        np.ones(len(worst)),
        worst,
        slack=slack,
        because="rounding, of float32 in the language model",
        labels=tuple(labels),
        parameters={"heads": 8, "L": length, "d": d},
    )
