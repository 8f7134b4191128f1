"""Pictures: independent values beside their law, the synthetic head, and the real model in the paper preset."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.llm.heads.envelopes import expected_recall_precision, inversion_bound, precision_floor, recall_floor
from sphereflow.llm.heads.geometry import random_control, separation
from sphereflow.llm.heads.synthetic import random_directions, sink_heads
from sphereflow.llm.measurement import pictures
from sphereflow.papers.attention_geometry import PAPER
from sphereflow.papers.attention_geometry.independent import LENGTH, PROFILES
from sphereflow.papers.attention_geometry.model import language_model, real_heads
from sphereflow.papers.attention_geometry.sink import LENGTH as SINK_LENGTH
from sphereflow.papers.attention_geometry.sink import SIZES, WIDTH, heads_of
from sphereflow.pictures import PALETTE, blank

_SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32)


@PAPER.figure(
    "independent-values",
    caption="Recall and precision of heads with independent values in dimension 64: simulations with two "
    "standard errors (dots), the semi-analytic law (lines), and the bounds by inversions (dotted).",
    shows=("semi-analytic-law", "inversion-bound"),
)
def independent_values(run: Run) -> Figure:
    draws, d = (60 if run.quick else 400), 64
    rng = np.random.default_rng(run.seed)
    figure = blank(8.6, 3.4)
    axes = figure.subplots(1, 2, sharey=True)
    for colour, (profile, weights) in zip(PALETTE, PROFILES.items(), strict=False):
        found = separation(np.tile(weights, (draws, 1)), random_directions(rng, draws, LENGTH, d), _SIZES)
        law = expected_recall_precision(weights, _SIZES, d)
        bounds = [inversion_bound(weights, n, d) for n in _SIZES]
        floors = [[f(b, n) for b, n in zip(bounds, _SIZES, strict=True)] for f in (recall_floor, precision_floor)]
        for ax, values, line, floor in zip(axes, (found.recall, found.precision), law, floors, strict=True):
            error = 2 * values.std(axis=0, ddof=1) / np.sqrt(draws)
            name = "weights $\\propto 1/i$" if profile == "1/i" else "weights $\\propto 0.9^i$"
            ax.errorbar(_SIZES, values.mean(axis=0), yerr=error, fmt="o", color=colour, capsize=2, label=name)
            ax.plot(_SIZES, line, "-", color=colour)
            ax.plot(_SIZES, floor, ":", color=colour)
    for ax, title in zip(axes, ("recall $R_N$", "precision $P_N$"), strict=True):
        ax.set(xscale="log", xlabel="selected tokens $N$", title=title, ylim=(-0.02, 1.05), xticks=(2, 4, 8, 16, 32))
        ax.set_xticklabels(["2", "4", "8", "16", "32"])
        ax.minorticks_off()
        ax.grid(True)
    axes[1].legend(loc="upper right")
    return figure


@PAPER.figure(
    "synthetic-sink",
    caption="F against N for two synthetic heads with a sink, and for random sets scored around their own sum. "
    "Where separation is strongest depends on the head.",
    shows=("sink-recall", "most-separable-size"),
)
def synthetic_sink(run: Run) -> Figure:
    figure = blank(6.0, 3.6)
    ax = figure.subplots()
    for colour, key in zip(PALETTE, ((0.05, 0.1, 0.0), (0.5, 0.1, 0.5)), strict=False):
        decay, compression, cosine = key
        found = heads_of(100, run.seed, *key).f
        error = 2 * found.std(axis=0, ddof=1) / np.sqrt(len(found))
        label = f"decay $\\lambda={decay:g}$, sink cosine {cosine:g}"
        ax.errorbar(SIZES, found.mean(axis=0), yerr=error, fmt="-o", color=colour, capsize=2, label=label)
        rng = np.random.default_rng(run.seed)
        few = sink_heads(rng, 20, decay=decay, compression=compression, cosine=cosine, length=SINK_LENGTH, d=WIDTH)
        ax.plot(SIZES, random_control(*few, SIZES, seed=run.seed).f.mean(axis=0), ":^", color=colour)
    ax.plot([], [], ":^", color="0.4", label="random control")
    ax.set(xscale="log", xlabel="selected tokens $N$", ylabel="$F_N$", ylim=(0, 1.05), xticks=SIZES)
    ax.set_xticklabels([str(n) for n in SIZES])
    ax.minorticks_off()
    ax.grid(True)
    ax.legend(loc="upper right")
    return figure


@PAPER.figure(
    "model-curves",
    presets=("paper",),
    caption="SmolLM2-135M: precision, recall and F against N, means over heads; bands: bootstrap over documents.",
    shows=("above-control",),
)
def model_curves(run: Run) -> Figure:
    return pictures.draw_curves(real_heads(run.seed))


@PAPER.figure(
    "model-maps",
    presets=("paper",),
    caption="SmolLM2-135M: six numbers of every head.",
    shows=("sink-compression",),
)
def model_maps(run: Run) -> Figure:
    return pictures.draw_maps(real_heads(run.seed))


@PAPER.figure(
    "model-sink",
    presets=("paper",),
    caption="SmolLM2-135M: recall against the cosine of the sink (dots are heads), and regimes by depth.",
    shows=("sink-criterion", "sink-correlation"),
)
def model_sink(run: Run) -> Figure:
    return pictures.draw_sink(real_heads(run.seed))


@PAPER.figure(
    "model-law",
    presets=("paper",),
    caption="SmolLM2-135M: recall of heads of the first document against the law for independent values, with the "
    "measured weights and the effective dimension of the values (left) or the width of the head (right).",
    shows=("semi-analytic-law",),
)
def model_law(run: Run) -> Figure:
    found = real_heads(run.seed)
    at = [found.sizes.index(n) for n in (2, 4, 8)]
    recall = found.curve("recall")[0][..., at].reshape(-1, 3)
    weights = found.first_rows.reshape(len(recall), -1)
    width = language_model().model.config.head_dim
    effective = found.features["effective_dimension"][0].ravel()
    figure = blank(8.0, 3.8)
    axes = figure.subplots(1, 2, sharey=True)
    heads = np.random.default_rng(run.seed).permutation(len(recall))[:48]
    for ax, dimension, title in (
        (axes[0], effective, "effective dimension"),
        (axes[1], np.full(len(recall), width), f"width {width}"),
    ):
        law = np.array([expected_recall_precision(weights[h], (2, 4, 8), dimension[h])[0] for h in heads])
        for k, n in enumerate((2, 4, 8)):
            ax.plot(law[:, k], recall[heads, k], "o", color=PALETTE[k], alpha=0.7, label=f"$N={n}$")
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        ax.set(xlabel="recall by the law", title=title, xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    axes[0].set_ylabel("recall of the head")
    axes[0].legend(loc="lower right")
    return figure


@PAPER.figure(
    "model-theory",
    presets=("paper",),
    caption="SmolLM2-135M beside the particle picture: cosines of tokens, mean cosine and its equiangular prediction, "
    "clusters and rank, effective inverse temperature, its explanation by cosines, entropy.",
)
def model_theory(run: Run) -> Figure:
    return pictures.draw_theory(real_heads(run.seed))


@PAPER.figure(
    "model-retrieval",
    presets=("paper",),
    caption="SmolLM2-135M on a list of keys and values: probability of the right value by place, beside the "
    "closed-form profile of a causal decoder.",
)
def model_retrieval(run: Run) -> Figure:
    from sphereflow.llm import retrieval_profile
    from sphereflow.retrieval import fit_profile

    found = retrieval_profile(language_model(), sets=4, seed=run.seed, progress=run.notify)
    fit = fit_profile(found.rows(), seed=run.seed)
    label = f"closed form, c = {fit.c:.2g}, slope {fit.slope:.2g}"
    return pictures.draw_retrieval(found, fit.curves["theory"], label)
