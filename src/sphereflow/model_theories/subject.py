"""What theories are compared with: a loaded model, a text, the heads that were measured, and how much may be read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.llm import Heads, LanguageModel, LengthRecording, record_lengths, windows
from sphereflow.llm.heads.bootstrap import Interval, widened
from sphereflow.llm.measurement.sections import interval
from sphereflow.llm.recorded.inputs import is_encoder
from sphereflow.progress import Report
from sphereflow.seeds import Seed, rng_from

REPLICATES = 1000
Answer = tuple[str, str, dict[str, Any]]  # a verdict, a sentence, and its numbers
_LENGTHS, _SIZES = (16, 32, 64, 128, 256), (4, 16)


@dataclass
class Subject:
    """A model under question; `report` gets the progress of a section, `prompts` lists belong to position."""

    loaded: LanguageModel
    text: str
    heads: Heads
    window: int
    documents: int
    prompts: int
    seed: Seed
    report: Report

    @cached_property
    def encoder(self) -> bool:
        return is_encoder(self.loaded.model)

    def decoder(self, what: str) -> None:
        """Refuse to ask an encoder what has a meaning for decoders alone."""
        if self.encoder:
            raise SphereflowError(f"{self.loaded.name} is an encoder, all of whose tokens see each other: {what}.")

    @cached_property
    def lengths(self) -> LengthRecording:
        """How heads select at several lengths of the context."""
        return self._recorded([length for length in _LENGTHS if length <= self.window], 4, independent=False)

    @cached_property
    def independent(self) -> LengthRecording:
        """How they select at the longest of these, beside independent values with the same weights."""
        return self._recorded([min(self.window, _LENGTHS[-1])], 3, independent=True)

    def _recorded(self, lengths: list[int], documents: int, *, independent: bool) -> LengthRecording:
        self.decoder("a length of the context is not asked for")
        if self.window < _LENGTHS[1]:
            raise SphereflowError(f"lengths of the context need a window of at least {_LENGTHS[1]} tokens.")
        recording = record_lengths(
            self.loaded,
            self.tokens(lengths[-1], documents),
            lengths=lengths,
            sizes=_SIZES,
            independent=independent,
            progress=self.report,
        )
        if not np.isfinite(recording.jacobian).all(axis=(0, 3, 4)).any():
            raise SphereflowError(f"no layer sees all of {lengths[-1]} tokens: a shorter --window shows them.")
        return recording

    def tokens(self, window: int, documents: int) -> Int[np.ndarray, "documents window"]:
        """Windows of the text, never longer or more of them than were asked for."""
        window, documents = min(window, self.window), min(documents, self.documents)
        return windows(self.text, self.loaded.tokenizer, window=window, documents=documents)


def drawn_again(
    count: int,
    statistic: Callable[[np.ndarray], Any],
    seed: Seed,
    *,
    repeats: int = REPLICATES,
    least: float = -math.inf,
    most: float = math.inf,
) -> Interval:
    """A statistic of all units, with the interval of its values when units are drawn again, as wide as few of them ask.

    There is none for a single unit; it stays within what is possible, from `least` to `most`.
    """
    rng = rng_from(seed)
    replicates = np.array([statistic(rng.integers(count, size=count)) for _ in range(repeats)], dtype=float)
    ends = np.quantile(replicates, [0.025, 0.975])
    return widened(interval(statistic(np.arange(count)), *ends), count, least=least, most=most)


def mean_of(rows: Float[np.ndarray, " documents"], seed: Seed, *, most: float = math.inf) -> Interval:
    """The mean over documents."""
    return drawn_again(len(rows), lambda at: rows[at].mean(), seed, most=most)
