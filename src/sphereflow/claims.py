r"""A claim: what a paper says, what was measured, and whether the two agree.

The verdict is a comparison and nothing else:

- `holds`: $|\mathrm{measured} - \mathrm{predicted}| \le \mathrm{tolerance}$, entry by entry;
- `refuted`: the statement as printed is false; the measurement agrees with the corrected mathematics and misses the
  printed value by more than the tolerance, and the counterexample is shown;
- `fails`: anything else.

A prediction comes from a theorem, a closed form or an independent computation, never from the code that measures.
A tolerance comes from the mathematics (rounding, truncation, a bound) or from error bars, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sphereflow.errors import SphereflowError, one_of

Verdict = Literal["holds", "fails", "refuted"]
Preset = Literal["quick", "paper"]
PRESETS: tuple[str, ...] = ("quick", "paper")


@dataclass(frozen=True)
class Run:
    """The conditions under which claims are measured.

    `quick` keeps the whole set in minutes on two processor cores; `paper` uses the sizes of the papers or beyond.
    `notify(fraction, text)` is called by long measurements to report progress.
    """

    preset: Preset = "quick"
    seed: int = 0
    notify: Callable[[float, str], None] = lambda fraction, text: None

    def __post_init__(self) -> None:
        one_of("preset", self.preset, PRESETS)

    @property
    def quick(self) -> bool:
        return self.preset == "quick"


@dataclass(frozen=True)
class Measurement:
    """What a claim's function returns: numbers to compare, and why they may differ by as much as the tolerance.

    For a one-sided statement, `measured` is a violation (zero when the statement is obeyed), `predicted` is zero.
    `printed` is what the paper prints, given only where the mathematics contradicts it.
    `parameters` are the sizes and constants the measurement used (n, d, beta, ...), shown beside it.
    """

    predicted: ArrayLike
    measured: ArrayLike
    tolerance: ArrayLike
    because: str
    labels: tuple[str, ...] = ()
    printed: ArrayLike | None = None
    note: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def excess(self, reference: ArrayLike | None = None) -> float:
        """Largest |measured - reference| / tolerance over the entries; above 1 means disagreement, NaN disagrees."""
        target = np.asarray(self.predicted if reference is None else reference, dtype=float)
        measured = np.asarray(self.measured, dtype=float)
        tolerance = np.asarray(self.tolerance, dtype=float)
        if not np.all(tolerance >= 0) or not np.all(np.isfinite(tolerance)):
            raise SphereflowError("a claim's tolerance must be finite and not negative.")
        with np.errstate(invalid="ignore"):
            deviation = np.abs(measured - target)
        if deviation.size == 0 or deviation.shape not in (measured.shape, target.shape):
            raise SphereflowError(
                f"a claim compares numbers one by one: {measured.shape} measured against {target.shape} predicted."
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(deviation == 0, 0.0, deviation / tolerance)
        return math.inf if np.isnan(deviation).any() else float(np.max(ratio))

    @property
    def verdict(self) -> Verdict:
        if self.excess() > 1:
            return "fails"
        if self.printed is None:
            return "holds"
        return "refuted" if self.excess(self.printed) > 1 else "fails"


def agreement(
    predicted: ArrayLike,
    measured: ArrayLike,
    *,
    absolute: ArrayLike | None = None,
    relative: ArrayLike | None = None,
    because: str,
    labels: tuple[str, ...] = (),
    printed: ArrayLike | None = None,
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Measurement:
    """Two-sided comparison with an absolute or a relative tolerance (give exactly one)."""
    if (absolute is None) == (relative is None):
        raise SphereflowError("give either an absolute or a relative tolerance.")
    tolerance = absolute if relative is None else np.asarray(relative) * np.abs(np.asarray(predicted, dtype=float))
    assert tolerance is not None
    return Measurement(predicted, measured, tolerance, because, labels, printed, note, parameters or {})


def at_most(
    bound: ArrayLike,
    value: ArrayLike,
    *,
    slack: ArrayLike = 0.0,
    because: str,
    labels: tuple[str, ...] = (),
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Measurement:
    """value <= bound: the measured number is the violation max(value - bound, 0), to be compared with zero."""
    gap = np.asarray(value, dtype=float) - np.asarray(bound, dtype=float)
    told = f"value {_brief(value)} against the bound {_brief(bound)}"
    violation = np.where(np.isnan(gap), np.nan, np.maximum(gap, 0.0))
    return Measurement(
        np.zeros_like(gap),
        violation,
        np.broadcast_to(slack, gap.shape),
        because,
        labels,
        note=f"{told}. {note}".strip(),
        parameters=parameters or {},
    )


def at_least(
    bound: ArrayLike,
    value: ArrayLike,
    *,
    slack: ArrayLike = 0.0,
    because: str,
    labels: tuple[str, ...] = (),
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Measurement:
    """value >= bound, as the mirror image of `at_most`."""
    mirrored = at_most(
        -np.asarray(bound, float), -np.asarray(value, float), slack=slack, because=because, labels=labels
    )
    told = f"value {_brief(value)} against the bound {_brief(bound)}"
    return Measurement(
        mirrored.predicted,
        mirrored.measured,
        mirrored.tolerance,
        because,
        labels,
        note=f"{told}. {note}".strip(),
        parameters=parameters or {},
    )


def _brief(value: ArrayLike) -> str:
    flat = np.ravel(np.asarray(value, dtype=float))
    shown = ", ".join(f"{v:.6g}" for v in flat[:4])
    return shown + (", ..." if flat.size > 4 else "")


@dataclass(frozen=True)
class Claim:
    """One checkable statement of a paper.

    **Fields:** `id` a short slug; `statement` plain words; `formula` LaTeX (may be empty); `source` where the paper
    says it; `falsifier` what would make it fail; `measure` the function that checks it.
    """

    id: str
    statement: str
    source: str
    measure: Callable[[Run], Measurement]
    formula: str = ""
    falsifier: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture of a paper: `draw(run)` returns a matplotlib figure."""

    id: str
    caption: str
    draw: Callable[[Run], Any]
    presets: tuple[str, ...] = PRESETS


@dataclass(frozen=True)
class Paper:
    """A paper, its claims and its pictures. The module that makes it is found by the registry, nothing to edit."""

    slug: str
    title: str
    authors: tuple[str, ...]
    year: int
    summary: str
    bibtex: str
    arxiv: str = ""
    claims: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def claim(
        self, id: str, *, statement: str, source: str, formula: str = "", falsifier: str = ""
    ) -> Callable[[Callable[[Run], Measurement]], Callable[[Run], Measurement]]:
        """Decorator: register a function of a `Run` as the measurement of a claim."""

        def register(measure: Callable[[Run], Measurement]) -> Callable[[Run], Measurement]:
            self._refuse_repeated(id)
            self.claims.append(Claim(id, statement, source, measure, formula, falsifier))
            return measure

        return register

    def figure(
        self, id: str, *, caption: str, presets: tuple[str, ...] = PRESETS
    ) -> Callable[[Callable[[Run], Any]], Callable[[Run], Any]]:
        """Decorator: register a function of a `Run` that draws a picture."""

        def register(draw: Callable[[Run], Any]) -> Callable[[Run], Any]:
            self._refuse_repeated(id)
            self.figures.append(Figure(id, caption, draw, presets))
            return draw

        return register

    def _refuse_repeated(self, id: str) -> None:
        known: list[Claim | Figure] = [*self.claims, *self.figures]
        if any(id == entry.id for entry in known):
            raise SphereflowError(f"the paper {self.slug} has two entries named '{id}'.")
