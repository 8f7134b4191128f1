"""The controls of all tabs: a number with a field and a slider, a list of words, a line for messages.

What a visitor types or slides arrives unchecked; whoever uses a control checks it on the server and lets it show the
result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nicegui import ui

STYLE = Path(__file__).parent / "static" / "kit.css"
_STEPS = 400

# What the browser does when a slider moves: colour the part to its left, send the server its place.
_READ = (
    "(e) => { const r = e.target; r.style.setProperty('--done', `${100 * r.value / r.max}%`); emit(Number(r.value)); }"
)


@dataclass(frozen=True)
class Scale:
    """The numbers of a slider: from low to high, whole or not, linear, logarithmic, or a few stops.

    Its places are 0, 1, ..., `last`; a number has as many digits as the slider can distinguish.
    """

    low: float
    high: float
    whole: bool = False
    logarithmic: bool = False
    stops: tuple[float, ...] = ()

    @property
    def last(self) -> int:
        if self.stops:
            return len(self.stops) - 1
        return round(self.high - self.low) if self.whole else _STEPS

    def at(self, place: float) -> float:
        """The number at a place of the slider, the nearest end for places beyond."""
        if self.stops:
            return self.stops[min(max(round(place), 0), self.last)]
        share = min(max(place / self.last, 0.0), 1.0)
        if self.logarithmic:
            return float(f"{self.low * (self.high / self.low) ** share:.3g}")
        number = self.low + share * (self.high - self.low)
        return float(round(number)) if self.whole else float(f"{number:.3g}")

    def place(self, number: float) -> int:
        """The place that is nearest to a number."""
        if self.stops:
            return min(range(len(self.stops)), key=lambda k: abs(math.log(self.stops[k] / max(number, 1))))
        inside = min(max(number, self.low), self.high)
        if self.logarithmic:
            return round(self.last * math.log(inside / self.low) / math.log(self.high / self.low))
        return round(self.last * (inside - self.low) / (self.high - self.low))


class Notice:
    """A line for one or more sentences; it is there only while it has something to say."""

    def __init__(self, classes: str, role: str = "alert") -> None:
        self._line = ui.label().classes(classes).props(f"role={role}")
        self.show("")

    def show(self, *sentences: str) -> None:
        self._line.text = " ".join(each[:1].upper() + each[1:] for each in sentences if each)
        self._line.set_visibility(bool(self._line.text))


class NumberControl:
    """A field for the exact number and a slider for the hand.

    `asked(number)` is called with what was typed, as text, or chosen with the slider: when it is let go, or all the way
    if `live`.
    """

    def __init__(
        self,
        label: str,
        scale: Scale,
        value: float,
        text: Callable[[float], str],
        *,
        name: str = "",
        live: bool = False,
    ) -> None:
        self.value = value
        self._scale, self._text = scale, text
        self._asked: Callable[[Any], Any] = lambda number: None
        with ui.element("div").classes("kit-control") as self.box:
            with ui.element("div").classes("kit-head"):
                self._field = ui.input(value=text(value)).classes("kit-field")
                self._field.props(f'dense borderless inputmode=decimal data-field="{name}" aria-label="{label}"')
                self._field.props(f'for="{self._field.html_id}"')
                with ui.element("label").props(f'for="{self._field.html_id}"').classes("kit-label"):
                    ui.html(label, tag="span", sanitize=False)
            self._slider = ui.element("input").classes("kit-slider")
            self._slider.props(f'type=range min=0 max={scale.last} step=1 data-slider="{name}"')
            self._slider.props(f'aria-label="{label}, slider"')
        self._slider.on("input", self._slid if live else self._moved, js_handler=_READ, throttle=0.05)
        self._slider.on("change", self._slid, js_handler=_READ)
        for event in ("blur", "keydown.enter"):
            self._field.on(event, self._typed, args=[])
        self._stand()

    def on_ask(self, asked: Callable[[Any], Any]) -> None:
        self._asked = asked

    def set_visible(self, visible: bool) -> None:
        self.box.set_visibility(visible)

    def hint(self, text: str) -> None:
        self._field.tooltip(text)

    def show(self, value: float, *, move: bool = True) -> None:
        """Stand at a number, without asking for anything; a slider that is being dragged is left where it is."""
        self.value = value
        self._field.value = self._text(value)
        if move:
            self._stand()

    def _stand(self) -> None:
        place = self._scale.place(self.value)
        self._slider.props(f"value={place} aria-valuetext={self._text(self.value)}")
        self._slider.style(f"--done: {100 * place / self._scale.last:.1f}%")

    def _moved(self, event: Any) -> None:
        """While the slider moves the field shows where it is."""
        if _finite(event.args):
            self._field.value = self._text(self._scale.at(event.args))

    def _slid(self, event: Any) -> Any:
        return self._asked(self._scale.at(event.args)) if _finite(event.args) else None

    def _typed(self) -> Any:
        return self._asked(self._field.value) if self._field.value != self._text(self.value) else None


class ListControl:
    """One of several words, by the names that the page shows; `changed()` is called when the visitor takes another."""

    def __init__(self, label: str, options: dict[str, str], value: str, *, name: str = "") -> None:
        self.value = value
        self._options = options
        self._changed: Callable[[], Any] = lambda: None
        with ui.element("div").classes("kit-control kit-list") as self.box:
            self._select = ui.select(options, value=value, label=label, on_change=self._chosen)
            self._select.props(f'dense outlined options-dense data-list="{name}" aria-label="{label}"')

    @property
    def text(self) -> str:
        """The value as it stands in an address."""
        return self.value

    def restore(self, text: str) -> None:
        """Take a word from an address, if it is one of the list."""
        if text in self._options:
            self.show(text)

    def on_change(self, changed: Callable[[], Any]) -> None:
        self._changed = changed

    def set_visible(self, visible: bool) -> None:
        self.box.set_visibility(visible)

    def show(self, value: str) -> None:
        """Stand at a word, without calling anyone."""
        self.value = value
        self._select.value = value

    def _chosen(self, event: Any) -> Any:
        if event.value == self.value or event.value not in self._options:
            return None
        self.value = event.value
        return self._changed()


def _finite(place: Any) -> bool:
    return isinstance(place, (int, float)) and math.isfinite(place)
