"""The numbers of a tab: limits hold on the server; what lies outside is moved inside, and the tab says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from sphereflow.explorer.kit import Notice, NumberControl, Scale


@dataclass(frozen=True)
class Limits:
    """The numbers a control takes: from low to high, whole or not, on a linear or a logarithmic slider."""

    name: str
    low: float
    high: float
    default: float
    whole: bool = False
    logarithmic: bool = False

    @property
    def scale(self) -> Scale:
        return Scale(self.low, self.high, self.whole, self.logarithmic)

    def nearest(self, asked: Any) -> tuple[float, str]:
        """The number within the limits that is nearest to what was asked for, and a sentence if it had to move."""
        try:
            number = float(asked)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            return self.default, f"{self.name} must be a number; {self.text(self.default)} is used."
        inside = min(max(number, self.low), self.high)
        if self.whole:
            inside = float(round(inside))
        if inside != number:
            kind = "whole numbers" if self.whole and self.low <= number <= self.high else "numbers"
            return inside, (
                f"{self.name} takes {kind} from {self.text(self.low)} to {self.text(self.high)}; "
                f"{self.text(inside)} is used."
            )
        return inside, ""

    def text(self, number: float) -> str:
        return f"{number:.0f}" if self.whole else f"{number:.6g}"


class Amount:
    """A number within limits, with a note below it."""

    def __init__(self, limits: Limits, note: str = "") -> None:
        self.limits = limits
        self._changed: Callable[[], Any] = lambda: None
        self._control = NumberControl(limits.name, limits.scale, limits.default, limits.text, live=True)
        self._control.on_ask(self._take)
        with self._control.box:
            if note:
                ui.label(note).classes("kit-note")
            self._notice = Notice("kit-warning", "status")

    @property
    def value(self) -> float:
        return self._control.value

    @property
    def text(self) -> str:
        """The value as it stands in an address."""
        return self.limits.text(self.value)

    def restore(self, text: str) -> None:
        """Take a value from an address, within limits, and say so if it had to move."""
        self.set(text)

    def on_change(self, changed: Callable[[], Any]) -> None:
        self._changed = changed

    def set_visible(self, visible: bool) -> None:
        self._control.set_visible(visible)

    def set(self, number: float | str) -> None:
        """Move to a number, or to the nearest within the limits; `on_change` is not called."""
        value, sentence = self.limits.nearest(number)
        self._control.show(value)
        self._notice.show(sentence)

    async def _take(self, asked: Any) -> None:
        before, typed = self.value, isinstance(asked, str)
        value, sentence = self.limits.nearest(asked)
        self._control.show(value, move=typed)
        self._notice.show(sentence)
        if value != before:
            await self._changed()
