"""Sections of the page of a measurement: what a theory says, what was measured, and whether they agree.

A statement of a theory is a side of a bound on which a number has to lie. It agrees if the whole 95 % interval of the
number is on that side, disagrees if the whole interval is on the other, and is undecided else, and without an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.llm.heads.bootstrap import Interval

AGREES, DISAGREES, UNDECIDED, NOT_ASKED = VERDICTS = ("agrees", "disagrees", "undecided", "not asked")


@dataclass(frozen=True)
class Picture:
    """A drawn figure, as a PNG file, with its title and one sentence."""

    title: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Statement:
    """What a theory says in a few words, the sentence that was measured, and their verdict."""

    theory: str
    measured: str
    verdict: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """One theory beside the model."""

    name: str
    title: str
    statements: tuple[Statement, ...]
    picture: Picture | None = None

    @property
    def verdict(self) -> str:
        """One line: how many of its statements agree."""
        asked = [each.verdict for each in self.statements if each.verdict != NOT_ASKED]
        if not asked:
            return NOT_ASKED
        parts = [f"{word} in {asked.count(word)}" for word in VERDICTS if word in asked]
        return f"{', '.join(parts)} of {len(asked)} statement{'s' * (len(asked) > 1)}"

    def record(self) -> dict[str, Any]:
        """As plain data."""
        said = [
            {"theory": s.theory, "measured": s.measured, "verdict": s.verdict, "numbers": s.numbers}
            for s in self.statements
        ]
        return {"title": self.title, "verdict": self.verdict, "statements": said}


def asked(theory: str, measure: Callable[[], tuple[str, str, dict[str, Any]]]) -> Statement:
    """The statement with what `measure` gives (sentence, verdict, numbers); not asked where it refuses, with why."""
    try:
        sentence, verdict, numbers = measure()
    except SphereflowError as error:
        return Statement(theory, f"{str(error)[:1].upper()}{str(error)[1:]}", NOT_ASKED)
    return Statement(theory, sentence, verdict, numbers)


def decide(found: Interval, *, above: float = -math.inf, below: float = math.inf) -> str:
    """The verdict of a number that has to lie between two bounds."""
    low, high = float(found.low), float(found.high)
    if above < low and high < below:
        return AGREES
    return DISAGREES if high < above or low > below else UNDECIDED


def interval(value: Any, low: Any, high: Any) -> Interval:
    """An interval of plain numbers."""
    return Interval(*(np.asarray(each, dtype=float) for each in (value, low, high)))


def words(found: Interval, *, share: bool = False) -> str:
    """A number with its 95 % interval."""
    scale = 100 if share else 1
    value, low, high = (scale * float(each) for each in (found.value, found.low, found.high))
    unit = " %" if share else ""

    def digits(x: float) -> str:
        return (
            f"{x:.0f}"
            if share
            else f"{x:.2f}"
            if 0.1 <= abs(x) < 10 or x == 0
            else f"{x:.3g}"
            if abs(x) > 1
            else f"{x:.2g}"
        )

    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{digits(value)}{unit} (no interval: that needs at least two documents)"
    return f"{digits(value)}{unit} (95 % interval {digits(low)} to {digits(high)}{unit})"


def percent(share: float) -> str:
    """A share, in words."""
    return f"{100 * share:.0f} %"


def plain(found: Interval) -> dict[str, float | None]:
    """The same for JSON, which has no NaN."""
    numbers = {name: float(getattr(found, name)) for name in ("value", "low", "high")}
    return {name: number if math.isfinite(number) else None for name, number in numbers.items()}
