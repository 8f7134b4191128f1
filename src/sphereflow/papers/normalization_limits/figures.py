"""The paper's pictures in their exact forms: weights, distances, separable keys and sensitivity."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.normalisation import (
    distance_profile,
    equicorrelated_profile,
    expected_separable_fraction,
    planted_weight,
    random_selection_profile,
    separable_fraction,
    weight_bounds,
)
from sphereflow.normalisation.bounds import printed_weight_bounds
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.papers.normalization_limits.distances import equicorrelated
from sphereflow.papers.normalization_limits.sensitivity import TEMPERATURES, sensitivities
from sphereflow.papers.normalization_limits.separability import gaussian_weights, uniform_tokens
from sphereflow.pictures import PALETTE, blank, look


@PAPER.figure(
    "vanishing-weights",
    caption="Left: largest possible weight of one key against the number of keys, for three ranges of the logits; "
    "dotted lines are the printed bounds. Right: weight of one key whose logit stands a gap above the others; above "
    "the line gap = T ln L it has more than half.",
    shows=("sharp-weight-bound", "range-of-logits"),
)
def vanishing_weights(run: Run) -> Figure:
    lengths = np.geomspace(2, 1e6, 80)
    with look():
        figure = blank(8.4, 3.6)
        left, right = figure.subplots(1, 2)
        for colour, spread in zip(PALETTE, (2.0, 6.0, 12.0), strict=False):
            left.loglog(lengths, weight_bounds(lengths, spread)[1], color=colour, label=rf"$2\Delta/T={spread:g}$")
            left.loglog(lengths, printed_weight_bounds(lengths, spread)[1], color=colour, ls=":", lw=1)
        left.set(xlabel="number of keys $L$", ylabel="largest weight", ylim=(1e-6, 2))
        left.legend()
        gaps = np.linspace(0, 16, 80)
        shown = right.pcolormesh(
            np.log(lengths), gaps, planted_weight(lengths[None, :], gaps[:, None]), shading="gouraud", rasterized=True
        )
        right.plot(np.log(lengths), np.log(lengths), color="white", ls="--", lw=1.2)
        right.text(8.2, 9.2, r"gap$\,=T\ln L$", color="white", rotation=36, ha="center", va="center")
        right.set(xlabel=r"$\ln L$", ylabel="gap$/T$")
        figure.colorbar(shown, ax=right, label="weight")
    return figure


@PAPER.figure(
    "distance-against-selection",
    caption="Distance between the selected keys and the rest against the number selected, for unit tokens with common "
    "cosine c: dots from the definition, lines from the closed form, dashed for keys selected at random. The minimum "
    "sits where the selected keys carry half of the weight.",
    shows=("distance-collapse", "equicorrelated-tokens", "random-selection"),
)
def distance_against_selection(run: Run) -> Figure:
    rng = np.random.default_rng(run.seed)
    length = 128
    alpha = gaussian_weights(rng, 1, length)[0]
    counts = np.arange(1, length + 1)
    with look():
        figure = blank(6.4, 4.0)
        axes = figure.subplots()
        for colour, cosine in zip(PALETTE, (0.0, 0.2, 0.6), strict=False):
            x = equicorrelated(length, cosine)
            axes.plot(counts, equicorrelated_profile(alpha, cosine), color=colour, label=f"$c={cosine:g}$")
            axes.plot(counts[::6], distance_profile(alpha, x)[::6], "o", color=colour, ms=3.5)
            if cosine:
                axes.plot(counts, random_selection_profile(alpha, x), color=colour, ls="--", lw=1)
        axes.set(xlabel="selected keys $N$", ylabel=r"distance $\tilde d$", xlim=(0, length), ylim=(0, None))
        axes.legend()
    return figure


@PAPER.figure(
    "separable-keys",
    caption="Share of selected keys that can be told apart, tokens uniform on the sphere and normal logits: dots with "
    "standard errors from draws, lines from the formula with the same weights, which is exact as d grows. No constant "
    "near 80%.",
    shows=("separability-formula", "separability-simulated"),
)
def separable_keys(run: Run) -> Figure:
    rng = np.random.default_rng(run.seed)
    counts = (2, 4, 8, 16, 32, 64)
    with look():
        figure = blank(6.4, 4.0)
        axes = figure.subplots()
        for colour, (d, length) in zip(PALETTE, ((16, 128), (64, 128), (256, 128)), strict=False):
            alpha = gaussian_weights(rng, 2, length)
            shares = np.concatenate(
                [
                    separable_fraction(np.broadcast_to(a, (40, length)), uniform_tokens(rng, 40, length, d), counts)
                    for a in alpha
                ]
            )
            theory = np.mean([expected_separable_fraction(a, d, counts, steps=101) for a in alpha], axis=0)
            axes.semilogx(counts, theory, color=colour, label=f"$d={d}$, $L={length}$", base=2)
            axes.errorbar(
                counts, shares.mean(0), shares.std(0) / np.sqrt(len(shares)), fmt="o", color=colour, capsize=2
            )
        axes.axhspan(0.7, 0.85, color="0.92", zorder=0)
        axes.text(62, 0.775, "reported range", va="center", ha="right", fontsize=9, color="0.4")
        axes.set_xticks(counts, [str(n) for n in counts])
        axes.set(xlabel="selected keys $N$", ylabel="$N_s/N$", ylim=(0, 1.03))
        axes.legend(loc="lower left")
    return figure


@PAPER.figure(
    "sensitivity-against-temperature",
    caption="Change of the weights per change of the logits: mean and 99.9% quantile of random logits, the bound "
    "1/(2T) and the printed min(1/(4T), sqrt 2), which two tied logits exceed.",
    shows=("typical-sensitivity", "jacobian-norm"),
)
def sensitivity_against_temperature(run: Run) -> Figure:
    seen = [sensitivities(run.seed, t) for t in TEMPERATURES]
    fine = np.geomspace(0.008, 1.2, 60)
    with look():
        figure = blank(6.4, 4.0)
        axes = figure.subplots()
        axes.loglog(TEMPERATURES, [s.mean() for s in seen], "o-", label="mean")
        axes.loglog(TEMPERATURES, [np.quantile(s, 0.999) for s in seen], "s-", label="99.9% quantile")
        axes.loglog(fine, 1 / (2 * fine), color="black", lw=1, label="$1/(2T)$, attained at ties")
        axes.loglog(fine, np.minimum(1 / (4 * fine), np.sqrt(2)), color="black", lw=1, ls=":", label="as printed")
        axes.set(xlabel="temperature $T$", ylabel=r"$\|\Delta\alpha\|/\|\varepsilon\|$")
        axes.legend()
    return figure
