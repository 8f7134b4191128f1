"""Controls with a label, whose limits hold on the server: what lies outside is moved inside, and the page says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nicegui import ui

_STEPS = 400


@dataclass(frozen=True)
class Limits:
    """The numbers a control takes: from low to high, whole or not, on a linear or a logarithmic scale."""

    name: str
    low: float
    high: float
    default: float
    whole: bool = False
    logarithmic: bool = False

    def kept(self, asked: Any) -> tuple[float, str]:
        """The number within the limits that is nearest to what was asked for, and a sentence if it had to move."""
        try:
            number = float(asked)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            return self.default, f"{self.name} must be a number; {self.told(self.default)} is used."
        inside = min(max(number, self.low), self.high)
        if self.whole:
            inside = float(round(inside))
        if inside != number:
            kind = "whole numbers" if self.whole and self.low <= number <= self.high else "numbers"
            return inside, (
                f"{self.name} takes {kind} from {self.told(self.low)} to {self.told(self.high)}; "
                f"{self.told(inside)} is used."
            )
        return inside, ""

    def at(self, place: Any) -> float:
        """The number at a place of the slider, 0 to 1, rounded to what the slider can tell apart."""
        share = min(max(float(place), 0.0), 1.0)
        if self.logarithmic:
            return float(f"{self.low * (self.high / self.low) ** share:.3g}")
        number = self.low + (self.high - self.low) * share
        return float(round(number)) if self.whole else float(f"{number:.3g}")

    def place(self, number: float) -> float:
        """Where a number stands on the slider, 0 to 1."""
        if self.logarithmic:
            return math.log(number / self.low) / math.log(self.high / self.low)
        return (number - self.low) / (self.high - self.low)

    @property
    def step(self) -> float:
        return 1 / (self.high - self.low) if self.whole else 1 / _STEPS

    def told(self, number: float) -> str:
        return f"{number:.0f}" if self.whole else f"{number:.6g}"


class Amount:
    """A slider and a field for the same number."""

    def __init__(self, limits: Limits, note: str = "") -> None:
        self.limits = limits
        self.value = limits.default
        self._changed: Callable[[], Any] = lambda: None
        with ui.element("div").classes("tab-control") as self._box:
            with ui.element("div").classes("tab-control-head"):
                ui.label(limits.name).classes("tab-label")
                self._field = (
                    ui.input(value=limits.told(self.value))
                    .props(f'dense borderless inputmode="decimal" aria-label="{limits.name}"')
                    .classes("tab-field")
                )
            self._slider = (
                ui.slider(min=0, max=1, step=limits.step, value=limits.place(self.value))
                .props(f'aria-label="{limits.name}, slider"')
                .classes("tab-slider")
            )
            if note:
                ui.label(note).classes("tab-note")
            self._said = ui.label().classes("tab-warning").props("role=status")
            self._said.set_visibility(False)
        self._slider.on("update:model-value", self._slid)
        for event in ("blur", "keydown.enter"):
            self._field.on(event, self._typed, args=[])

    def on_change(self, changed: Callable[[], Any]) -> None:
        self._changed = changed

    def show(self, visible: bool) -> None:
        self._box.set_visibility(visible)

    def set(self, number: float) -> None:
        """Move to a number, or to the nearest within the limits; `on_change` is not called."""
        self.value, said = self.limits.kept(number)
        self._show(said)

    async def _slid(self, event: Any) -> None:
        try:
            number = self.limits.at(event.args)
        except (TypeError, ValueError):
            return
        await self._take(number, move=False)

    async def _typed(self) -> None:
        if self._field.value != self.limits.told(self.value):
            await self._take(self._field.value)

    async def _take(self, asked: Any, *, move: bool = True) -> None:
        before = self.value
        self.value, said = self.limits.kept(asked)
        self._show(said, move=move)
        if self.value != before:
            await self._changed()

    def _show(self, said: str, *, move: bool = True) -> None:
        self._field.value = self.limits.told(self.value)
        if move:  # while the slider is being dragged it knows best where it is
            self._slider.value = self.limits.place(self.value)
        self._said.text = said
        self._said.set_visibility(bool(said))


class Choice:
    """One of several words, by the names that the page shows."""

    def __init__(self, name: str, options: dict[str, str], value: str, note: str = "") -> None:
        self._options, self.value = options, value
        self._changed: Callable[[], Any] = lambda: None
        with ui.element("div").classes("tab-control") as self._box:
            ui.label(name).classes("tab-label")
            self._select = (
                ui.select(options, value=value, on_change=self._chosen)
                .props(f'dense outlined options-dense aria-label="{name}"')
                .classes("tab-select")
            )
            if note:
                ui.label(note).classes("tab-note")

    def on_change(self, changed: Callable[[], Any]) -> None:
        self._changed = changed

    def show(self, visible: bool) -> None:
        self._box.set_visibility(visible)

    async def _chosen(self, event: Any) -> None:
        if event.value in self._options and event.value != self.value:
            self.value = event.value
            await self._changed()
