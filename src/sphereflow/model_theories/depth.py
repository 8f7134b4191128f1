r"""Depth: do tokens gather from layer to layer, does one layer alone gather them, and are logits those of the picture?

Rules: tokens gather if their mean cosine is higher after the last layer than before the first; a layer
without its MLP, iterated with the norms of tokens kept, gathers them if the mean cosine ends above .9; logits are
$\beta\langle x_i,x_j\rangle$ if cosines explain more than half of their variance (median over heads).
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from sphereflow.llm import IteratedLayer, effective_betas, iterate_layer
from sphereflow.llm.depth.betas import BETAS
from sphereflow.llm.heads.bootstrap import Interval
from sphereflow.llm.measurement.sections import Picture, Section, asked, decide, percent, plain, words
from sphereflow.model_theories.subject import Answer, Subject, drawn_again, mean_of
from sphereflow.pictures import PALETTE, rendered, styled_figure

_WINDOW, _DOCUMENTS, _STEPS = 128, 4, 30


def section(subject: Subject) -> Section:
    """The section of the page."""
    subject.decoder("its layers are not iterated here")
    iterated: dict[str, IteratedLayer] = {}
    statements = (
        asked("layers gather tokens", lambda: _cosines(subject)),
        asked("attention alone, iterated, gathers tokens", lambda: _iterated(subject, iterated)),
        asked("logits are beta times cosines", lambda: _betas(subject)),
    )
    caption = "Left: tokens before every layer and after the last; right: one layer applied again and again."
    picture = Picture("Cosines through the layers", caption, rendered(_drawn(subject, iterated), "png"))
    return Section("depth", "Depth", statements, picture)


def _cosines(subject: Subject) -> Answer:
    cosine, clusters, rank = (subject.heads.by_depth(name) for name in ("mean_cosine", "clusters", "participation"))
    change = mean_of(cosine[:, -1] - cosine[:, 0], subject.seed)
    ends = [mean_of(clusters[:, k], subject.seed) for k in (0, -1)]
    level, size = cosine.mean(axis=0), rank.mean(axis=0)
    top = int(np.argmax(level))
    return (
        f"The mean cosine of tokens goes from {level[0]:.2f} to {level[-1]:.2f}, a change of {words(change)}, and is "
        f"highest, {level[top]:.2f}, after {top} layers; clusters at cosine 0.9 go from {words(ends[0])} to "
        f"{words(ends[1])}, the rank (participation ratio) from {size[0]:.1f} to {size[-1]:.1f}.",
        decide(change, above=0.0),
        {"change": plain(change), "mean_cosine": level.tolist(), "participation": size.tolist()}
        | {"clusters_first": plain(ends[0]), "clusters_last": plain(ends[1])},
    )


def _iterated(subject: Subject, iterated: dict[str, IteratedLayer]) -> Answer:
    layer = subject.heads.layers // 2
    tokens = subject.tokens(_WINDOW, _DOCUMENTS)
    for variant in ("no MLP", "trained"):
        iterated[variant] = iterate_layer(
            subject.loaded, layer, tokens, steps=_STEPS, variant=variant, seed=subject.seed, progress=subject.report
        )
    alone, whole = iterated["no MLP"], iterated["trained"]
    ends = [mean_of(run.stream["mean_cosine"][:, -1].astype(float), subject.seed, most=1.0) for run in (alone, whole)]
    return (
        f"Layer {layer} without its MLP, applied {_STEPS} times, brings {alone.n} tokens from a mean cosine of "
        f"{alone.median('mean_cosine')[0]:.2f} to {words(ends[0])}: {alone.end}; the whole layer to "
        f"{words(ends[1])}: {whole.end}.",
        decide(ends[0], above=0.9),
        {"layer": layer, "no_mlp": plain(ends[0]), "whole": plain(ends[1])}
        | {"no_mlp_end": alone.end, "whole_end": whole.end, "predicted": alone.limit},
    )


def _betas(subject: Subject) -> Answer:
    estimates = effective_betas(subject.loaded, subject.tokens(2 * _WINDOW, _DOCUMENTS), progress=subject.report)

    def middle(rows: np.ndarray) -> Interval:
        """The median over heads of means over documents."""
        return drawn_again(len(rows), lambda at: np.median(rows[at].astype(float).mean(axis=0)), subject.seed)

    r2, betas = middle(estimates.r2), {by: middle(getattr(estimates, by)) for by in BETAS}
    apart = float(np.mean(estimates.sharpness("cosines") > 1))
    said = ", ".join(f"{words(each)} by {by}" for by, each in betas.items())
    return (
        f"Cosines of tokens explain {words(r2, share=True)} of the variance of the logits; beta, the median over "
        f"heads, is {said}; by cosines {percent(apart)} of heads would keep {estimates.n} equiangular tokens apart.",
        decide(r2, above=0.5),
        {"r2": plain(r2), "keeps_apart_by_cosines": apart}
        | {f"beta_by_{by}": plain(each) for by, each in betas.items()},
    )


def _drawn(subject: Subject, iterated: dict[str, IteratedLayer]) -> Figure:
    with styled_figure(8.4 if iterated else 4.2, 3.2) as figure:
        axes: np.ndarray = figure.subplots(1, 2 if iterated else 1, squeeze=False)[0]
        rows = subject.heads.by_depth("mean_cosine")
        axes[0].plot(rows.T, color="0.75", lw=0.7)
        axes[0].plot(rows.mean(axis=0), "o-", ms=3, color=PALETTE[0])
        axes[0].set(xlabel="layers passed", ylabel="mean cosine of tokens")
        for k, (variant, run) in enumerate(iterated.items()):
            label = "without MLP" if variant == "no MLP" else "whole layer"
            axes[1].plot(run.median("mean_cosine"), "o-", ms=3, color=PALETTE[k], label=label)
            axes[1].set(xlabel=f"times layer {run.layer} was applied", ylim=(None, 1.02))
            axes[1].legend()
    return figure
