r"""The theory of independent values beside measured separation, and the sink beside recall.

Choices that are fixed: means over documents first; "inside" is a difference of at most .1; the correlation is
Spearman's, over all heads that see the sink, of $\cos(v_0,\sum_{i\ge1}\alpha_iv_i)$ and $R_4$; its null permutes $R_4$
among the heads of one layer; it holds if it is above the null's mean with a two-sided p below .01.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.llm.heads.bootstrap import spearman
from sphereflow.llm.heads.envelopes import equal_weights_recall
from sphereflow.llm.recorded.recorder import SINKS, Recording, checked_recording
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

INSIDE = 0.1
QUANTITIES = ("precision", "recall", "f")
THEORIES = ("effective", "width", "equal weights", "mean over heads")


@dataclass(frozen=True, eq=False, repr=False)
class EnvelopeAgreement(Result):
    """How far the theory of independent values is from measured precision, recall and F.

    `measured` has axes (quantity, layer, head, N), `expected` (theory, quantity, layer, head, N). The theories: the law
    with the measured weights, in the effective dimension of the values or in the width of the head; N equal weights,
    the others negligible, in the effective dimension; the mean over heads of the measurement itself, which knows
    nothing of a head. F is that of the mean precision and recall of a head, on both sides.
    """

    sink: str
    sizes: tuple[int, ...]
    measured: Float[np.ndarray, "quantity layer head N"]
    expected: Float[np.ndarray, "theory quantity layer head N"]

    @property
    def inside(self) -> Float[np.ndarray, "theory quantity"]:
        """Share of (head, N) with a difference of at most .1."""
        known = np.isfinite(self.measured)
        near = np.abs(self.expected - self.measured) <= INSIDE
        return np.sum(near & known, axis=(2, 3, 4)) / np.sum(known, axis=(1, 2, 3))

    @property
    def signed(self) -> Float[np.ndarray, "theory quantity"]:
        """Mean of expected minus measured."""
        return np.nanmean(self.expected - self.measured, axis=(2, 3, 4))

    @property
    def root_mean_square(self) -> Float[np.ndarray, "theory quantity"]:
        """Root mean square difference."""
        return np.sqrt(np.nanmean((self.expected - self.measured) ** 2, axis=(2, 3, 4)))

    def variables(self) -> Variables:
        head = ("layer", "head", "N")
        table: Variables = {
            "theory": ("theory", np.array(THEORIES)),
            "quantity": ("quantity", np.array(QUANTITIES)),
            "N": ("N", np.array(self.sizes)),
            "measured": (("quantity", *head), self.measured),
            "expected": (("theory", "quantity", *head), self.expected),
        }
        return table | {name: (("theory", "quantity"), getattr(self, name)) for name in ("inside", "signed")}

    def facts(self) -> list[str]:
        told = [f"precision, recall and F of heads ({self.sink}): share of (head, N) within {INSIDE:g}; signed mean"]
        for k, theory in enumerate(THEORIES):
            each = (f"{i:.0%}; {s:+.2f}" for i, s in zip(self.inside[k], self.signed[k], strict=True))
            told.append(f"{theory}: {' | '.join(each)}")
        return told


@recorded_call
def envelope_agreement(recording: Recording, *, sink: str = "with sink") -> EnvelopeAgreement:
    """Do measured precision, recall and F follow those of independent values with the same weights?

    ```python
    import sphereflow as sf
    print(sf.llm.envelope_agreement(sf.llm.recording("smollm2")).summary())
    ```
    """
    checked_recording(recording)
    one_of("sink", sink, SINKS)
    at = SINKS.index(sink)

    some = np.isfinite(recording.envelopes["recall"]).any(axis=(1, 2, 3, 4))
    if not some.any():
        raise SphereflowError("this recording has no envelopes: record it with envelope_documents of at least 1.")

    def both(prefix: str) -> np.ndarray:
        rows = (recording.envelopes[f"{prefix}{name}"][some] for name in ("precision", "recall"))
        return _with_f(*(each[..., at, :].astype(float).mean(axis=0) for each in rows))

    measured = both("")
    n = np.array(recording.sizes)
    groups = recording.values["effective_dimension"].astype(float).mean(axis=0)
    d = np.repeat(groups, recording.shape[2] // groups.shape[1], axis=1)[..., None]
    phi = equal_weights_recall(n, d)
    equal = _with_f(np.maximum(phi**n, n / recording.window), phi)
    blind = np.nanmean(measured, axis=(1, 2), keepdims=True)
    expected = [both("effective_"), both("width_"), equal, blind]
    return EnvelopeAgreement(
        sink=sink,
        sizes=recording.sizes,
        measured=measured,
        expected=np.stack([np.broadcast_to(rows, measured.shape) for rows in expected]),
    )


@dataclass(frozen=True, eq=False, repr=False)
class SinkAndRecall(Result):
    """The rank correlation of the sink's cosine with recall, and what permutations within layers give.

    `p` is the share of permutations, the measured one among them, as far from the mean of all as the measured one.
    """

    correlation: float
    null: Float[np.ndarray, " repeats"]
    p: float
    layers: int
    asked: int
    heads: int

    derived = ("holds",)

    @property
    def holds(self) -> bool:
        """Above the null's mean, with p < .01."""
        return bool(self.correlation > self.null.mean() and self.p < 0.01)

    def variables(self) -> Variables:
        return {"null": ("repeat", self.null), "correlation": ((), self.correlation)}

    def facts(self) -> list[str]:
        return [
            f"rank correlation of the sink's cosine and recall {self.correlation:.3f}, permuted within layers "
            f"{self.null.mean():.3f} +- {self.null.std(ddof=1):.3f}, p = {self.p:.2g}",
            f"{self.heads} heads; {self.asked} of {self.layers} layers see the sink",
        ]


@recorded_call
def sink_and_recall(recording: Recording, *, size: int = 4, repeats: int = 2000, seed: Seed = 0) -> SinkAndRecall:
    """Does recall go with the cosine of the sink and the sum of the other tokens, beyond what depth explains?

    ```python
    import sphereflow as sf
    print(sf.llm.sink_and_recall(sf.llm.recording("smollm2")))
    ```
    """
    checked_recording(recording)
    if size not in recording.sizes:
        raise SphereflowError(f"size must be one of the recorded sizes {recording.sizes}, got {size}.")
    repeats = whole_number("repeats", repeats, least=2)
    seen = recording.sees_sink
    if not seen.any():
        raise SphereflowError("no layer of this recording sees the first token: there is no sink to ask about.")
    cosine = recording.heads["sink_others_cosine"][:, seen].astype(float).mean(axis=0)
    recall = recording.metrics["recall"][..., 0, recording.sizes.index(size)][:, seen].astype(float).mean(axis=0)
    if not (np.isfinite(cosine).all() and np.isfinite(recall).all()):
        raise SphereflowError("some documents of this recording hide the sink from some heads: record equal documents.")
    shuffled = rng_from(seed).permuted(np.broadcast_to(recall, (repeats, *recall.shape)), axis=2)
    null = spearman(np.broadcast_to(cosine.ravel(), (repeats, cosine.size)), shuffled.reshape(repeats, -1))
    value = float(spearman(cosine.ravel(), recall.ravel()))
    away = np.abs(null - null.mean()) >= abs(value - null.mean()) - 1e-12
    p = float((1 + np.sum(away)) / (1 + repeats))
    return SinkAndRecall(value, null, p, recording.shape[1], int(seen.sum()), cosine.size)


def _with_f(precision: np.ndarray, recall: np.ndarray) -> np.ndarray:
    total = precision + recall
    return np.stack([precision, recall, 2 * precision * recall / np.where(total > 0, total, 1.0)])
