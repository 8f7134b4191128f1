r"""Three assumptions about heads, laid beside the heads of a recording.

- Norms: $|v_i|\approx r$ for $i\ge1$ and a short sink, $|v_0|=\kappa r$.
- Similarity: $\cos(v_i,v_{i+k})\approx ce^{-\lambda k}$, beside three other forms.
- Attention: what form the mean weight has as a function of distance, the sink apart.

Norms and similarities belong to key/value heads, attention to query heads. A layer that does not see the first token is
not asked about the sink.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.forms import Form, Forms, attention_forms, compare_forms, similarity_forms
from sphereflow.llm.recorded.recorder import Recording, checked_recording
from sphereflow.results import Result, Variables, recorded_call


@dataclass(frozen=True, eq=False, repr=False)
class ValueNorms(Result):
    r"""Lengths of values, means over documents, one number for each key/value head.

    `variation` is the standard deviation of $|v_i|$, $i\ge1$, over their mean; `compression` $\kappa=|v_0|/r$, r the
    median of the recorded positions $i\ge1$; `other` the same ratio of every other recorded position, the rival;
    `rank` the part of the other positions that are shorter than the sink. The three about the sink are NaN in layers
    that do not see it.
    """

    variation: Float[np.ndarray, "layer group"]
    compression: Float[np.ndarray, "layer group"]
    other: Float[np.ndarray, "layer group position"]
    rank: Float[np.ndarray, "layer group"]

    @property
    def asked(self) -> np.ndarray:
        """Key/value heads that see the sink."""
        return np.isfinite(self.compression)

    @property
    def short(self) -> float:
        r"""Share of these heads with $\kappa<1$."""
        return float(np.mean(self.compression[self.asked] < 1))

    @property
    def other_short(self) -> float:
        """The same share with a random position in place of the sink."""
        return float(np.mean(self.other[self.asked] < 1))

    @property
    def shortest(self) -> float:
        """Share of these heads in which the sink is shorter than every other recorded position."""
        return float(np.mean(self.rank[self.asked] == 0))

    def variables(self) -> Variables:
        head = ("layer", "group")
        names = ("variation", "compression", "rank")
        return {name: (head, getattr(self, name)) for name in names} | {"other": ((*head, "position"), self.other)}

    def facts(self) -> list[str]:
        low, middle, high = np.quantile(self.variation, [0.05, 0.5, 0.95])
        told = [f"norms of values vary by {middle:.2f} (5 to 95 % of heads: {low:.2f} to {high:.2f})"]
        if not self.asked.any():
            return [*told, "no layer sees the first token"]
        seen = int(self.asked.any(axis=1).sum())
        return [
            *told,
            f"the sink is {np.median(self.compression[self.asked]):.2f} of the median, shorter in {self.short:.0%} of "
            f"the heads of the {seen} of {len(self.asked)} layers that see it, and the shortest of all recorded "
            f"positions in {self.shortest:.0%}; a random position is shorter than the median in {self.other_short:.0%}",
        ]

    def plot(self) -> Figure:
        """How much norms vary, and the length of the sink beside those of other positions, layer by layer."""
        from sphereflow.llm.recorded.pictures import draw_norms

        return draw_norms(self)


@recorded_call
def value_norms(recording: Recording) -> ValueNorms:
    """Are norms of values stable, and is the sink short?

    ```python
    import sphereflow as sf
    print(sf.llm.value_norms(sf.llm.recording("smollm2")))
    ```
    """
    checked_recording(recording)
    norms = recording.value_norms.astype(float)
    middle = np.median(norms[..., 1:], axis=-1)
    hidden = ~recording.sees_sink
    compression = np.mean(norms[..., 0] / middle, axis=0)
    rank = np.mean(norms[..., 1:].mean(axis=0) < norms[..., :1].mean(axis=0), axis=-1)
    other = np.mean(norms[..., 1:] / middle[..., None], axis=0)
    for rows in (compression, rank, other):
        rows[hidden] = np.nan
    return ValueNorms(recording.values["norm_variation"].mean(axis=0).astype(float), compression, other, rank)


@dataclass(frozen=True, eq=False, repr=False)
class FormsOfHeads(Result):
    """Which form the curve of each head has.

    Axes (form, head): `aicc`, the mean absolute `error`, and `held_out`, the root mean square error on documents that a
    fit has not seen. `share` and `share_held_out` are the parts of the heads for which each form is best by the one and
    by the other, `share_error` the jackknife error of the first over documents. `parameters_of[form]` are the values
    inside the form (see `llm.heads.forms`), with jackknife errors in `errors_of`. `heads` are (layer, head).
    """

    about: str
    names: tuple[str, ...]
    heads: Int[np.ndarray, "head 2"]
    aicc: Float[np.ndarray, "form head"]
    error: Float[np.ndarray, "form head"]
    held_out: Float[np.ndarray, "form head"]
    best: Int[np.ndarray, " head"]
    share: Float[np.ndarray, " form"]
    share_error: Float[np.ndarray, " form"]
    share_held_out: Float[np.ndarray, " form"]
    parameters_of: dict[str, np.ndarray] = field(default_factory=dict)
    errors_of: dict[str, np.ndarray] = field(default_factory=dict)

    def count(self, name: str) -> int:
        """Heads for which this form is best by AICc."""
        return int(np.sum(self.best == self.names.index(name)))

    def variables(self) -> Variables:
        table: Variables = {"form": ("form", np.array(self.names)), "best": ("head", self.best)}
        table |= {name: (("form", "head"), getattr(self, name)) for name in ("aicc", "error", "held_out")}
        table |= {name: ("form", getattr(self, name)) for name in ("share", "share_error", "share_held_out")}
        return table

    def facts(self) -> list[str]:
        told = [f"{self.about}: which of {len(self.names)} forms is best, of {len(self.best)} heads"]
        for k, name in enumerate(self.names):
            words = f"{name}: {self.share[k]:.0%}"
            if np.isfinite(self.share_error[k]):
                words += f" +- {self.share_error[k]:.0%} by AICc, {self.share_held_out[k]:.0%} on unseen text"
            told.append(f"{words}, mean error {self.error[k].mean():.3g}")
        return told

    def plot(self) -> Figure:
        """For how many heads each form is best, and in which layers they are."""
        from sphereflow.llm.recorded.pictures import draw_forms

        return draw_forms(self)


@recorded_call
def similarity_decay(recording: Recording, *, leave_out: bool = True) -> FormsOfHeads:
    r"""How the mean cosine of values falls with their lag: $ce^{-\lambda k}$, with a floor, $ck^{-p}$, or not at all.

    Least squares in the cosine over the recorded lags (1 to 64), for every key/value head; the sink is left out. With
    `leave_out` every document is left out once, for errors and for the comparison on unseen text.
    """
    checked_recording(recording)
    return _compared("cosine of values against lag", *similarity_curves(recording), leave_out)


def similarity_curves(recording: Recording) -> tuple[dict[str, Form], np.ndarray, np.ndarray]:
    """(forms, (layer, key/value head), curves by document, head and lag) that `similarity_decay` compares."""
    curves = recording.similarity.astype(float)
    heads = np.argwhere(np.isfinite(curves).all(axis=(0, 3)))
    return similarity_forms(recording.lags), heads, curves[:, heads[:, 0], heads[:, 1]]


@recorded_call
def attention_decay(recording: Recording, *, leave_out: bool = True) -> FormsOfHeads:
    r"""What form the mean weight has against distance k >= 1: $\rho+e^{-k/\ell}$, $k^{-p}$, $\rho+k^{-p}$, or flat.

    Least squares in the logarithm of the mean weight of a bin, a factor being fitted, for every query head; the sink
    and the query itself are left out, and so are bins that no query reaches.
    """
    checked_recording(recording)
    return _compared("attention against distance", *attention_curves(recording), leave_out)


def attention_curves(recording: Recording) -> tuple[dict[str, Form], np.ndarray, np.ndarray]:
    """(forms, (layer, head), logarithms of mean weights by document, head and bin) that `attention_decay` compares."""
    curves = recording.profile.astype(float)[..., 1:]
    reached = int(np.flatnonzero(np.isfinite(curves).any(axis=(0, 1, 2)))[-1]) + 1
    curves = curves[..., :reached]
    heads = np.argwhere((np.isfinite(curves) & (curves > 0)).all(axis=(0, 3)))
    if not len(heads):
        raise SphereflowError("no head of this recording has weight at every recorded distance.")
    forms = attention_forms(recording.distance_edges[1 : reached + 2])
    return forms, heads, np.log(curves[:, heads[:, 0], heads[:, 1]])


def _compared(
    about: str, forms: dict[str, Form], heads: np.ndarray, curves: np.ndarray, leave_out: bool
) -> FormsOfHeads:
    most = max(form.count for form in forms.values()) + 2
    if curves.shape[-1] <= most:
        raise SphereflowError(
            f"forms with {most - 2} parameters need more than {most} points; this recording has {curves.shape[-1]}: "
            f"record longer documents."
        )
    found: Forms = compare_forms(forms, curves, leave_out=leave_out)
    return FormsOfHeads(
        about=about,
        names=found.names,
        heads=heads,
        aicc=found.aicc,
        error=found.error,
        held_out=found.held_out,
        best=found.best,
        share=found.share,
        share_error=found.share_error,
        share_held_out=found.share_held_out,
        parameters_of={name: fit.theta for name, fit in found.fits.items()},
        errors_of=found.theta_error,
    )
