"""The panel of controls: a field and a slider for each number, lists for words; limits are those of `settings`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nicegui import ui

from sphereflow.explorer.settings import CLOCKS, LIMITS, MODELS, Settings, plain
from sphereflow.sphere import STARTS

# The slider of a number: its label, from, to, logarithmic or not. The field beside it takes everything within limits.
_DIALS: dict[str, tuple[str, float, float, bool]] = {
    "n": ("Tokens n", 2, 5000, True),
    "d": ("Dimension d", 2, 64, True),
    "beta": ("Inverse temperature β", 0.1, 10_000, True),
    "t1": ("Final time t₁", 1, 100_000, True),
    "push": ("Weight of the perceptron ω", -2, 2, False),
    "noise": ("Size of the noise", 0, 3, False),
    "pull": ("Strength of attention", 0, 5, False),
}
# Sizes on the slider are few and round: each new size has to be compiled once.
_SIZES = (2, 4, 8, 16, 32, 64, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 4000, 5000)
_DIMENSIONS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_STOPS: dict[str, tuple[int, ...]] = {"n": _SIZES, "d": _DIMENSIONS}
_SHOWN_FOR = {"push": ("perceptron",), "noise": ("common", "own"), "pull": ("common", "own")}
_HIDDEN_FOR = {"clock": ("common", "own")}
_STEPS = 200

# What the browser does when a slider moves: colour the part to its left, tell the server where it stands.
_READ = (
    "(e) => { const r = e.target; r.style.setProperty('--done', `${100 * r.value / r.max}%`); emit(Number(r.value)); }"
)


def position(name: str, value: float) -> float:
    """Where the slider of a number stands, from 0 to its last step."""
    if name in _STOPS:
        stops = _STOPS[name]
        return min(range(len(stops)), key=lambda k: abs(math.log(stops[k] / max(value, 1))))
    _, low, high, logarithmic = _DIALS[name]
    inside = min(max(value, low), high)
    share = math.log(inside / low) / math.log(high / low) if logarithmic else (inside - low) / (high - low)
    return round(share * _STEPS)


def at_position(name: str, place: float) -> float:
    """The number at a position of the slider, with as many digits as it can tell apart."""
    if name in _STOPS:
        stops = _STOPS[name]
        return stops[min(max(round(place), 0), len(stops) - 1)]
    _, low, high, logarithmic = _DIALS[name]
    share = min(max(place / _STEPS, 0.0), 1.0)
    if logarithmic:
        return float(f"{low * (high / low) ** share:.2g}")
    return round(low + share * (high - low), 2)


class Dial:
    """A field for the exact number and a slider for the hand."""

    def __init__(self, name: str, value: float, changed: Callable[[str, Any], None]):
        self.name = name
        self._changed = changed
        self._value = value
        label = _DIALS[name][0]
        last = len(_STOPS[name]) - 1 if name in _STOPS else _STEPS
        limit = LIMITS[name]
        with ui.element("div").classes("sf-dial") as self.box:
            with ui.element("div").classes("sf-dial-head"):
                self.field = (
                    ui.input(value=plain(value))
                    .props(f'dense borderless inputmode=decimal data-field={name} aria-label="{label}"')
                    .classes("sf-field")
                )
                with ui.element("label").props(f'for="{self.field.html_id}"').classes("sf-label"):
                    ui.html(label, tag="span", sanitize=False)
                self.field.props(f'for="{self.field.html_id}"')
                self.field.tooltip(f"{limit.least:g} to {limit.most:,.0f}")
            self.slider = ui.element("input").classes("sf-slider")
            self.slider.props(f'type=range min=0 max={last} step=1 data-slider={name} aria-label="{label}, slider"')
        self.slider.on("input", self._moved, js_handler=_READ, throttle=0.05)
        self.slider.on("change", self._released, js_handler=_READ)
        self._last = last
        self._stand(value)
        for event in ("blur", "keydown.enter"):
            self.field.on(event, self._typed, args=[])

    def show(self, value: float) -> None:
        """Stand at a number, without telling anyone."""
        self._value = value
        self.field.value = plain(value)
        self._stand(value)

    def _stand(self, value: float) -> None:
        place = position(self.name, value)
        self.slider.props(f"value={place:g} aria-valuetext={plain(value)}")
        self.slider.style(f"--done: {100 * place / self._last:.1f}%")

    def _moved(self, event: Any) -> None:
        """While the slider moves the field shows where it is; the run starts when it is let go."""
        if _finite(event.args):
            self.field.value = plain(at_position(self.name, event.args))

    def _released(self, event: Any) -> None:
        if _finite(event.args):
            self._changed(self.name, at_position(self.name, event.args))

    def _typed(self) -> None:
        if self.field.value != plain(self._value):
            self._changed(self.name, self.field.value)


class Panel:
    """All controls of a run; `changed(name, value)` is called with what the visitor asks for, unchecked."""

    def __init__(self, settings: Settings, changed: Callable[[str, Any], None]):
        self._changed = changed
        self._quiet = False
        self._boxes: dict[str, Any] = {}
        self._lists: dict[str, Any] = {}
        self.dials: dict[str, Dial] = {}
        self._list("model", "Model", MODELS, settings.model)
        for name in ("beta", "n", "d"):
            self._dial(name, settings)
        for name in _SHOWN_FOR:
            self._dial(name, settings)
        self._list("start", "First tokens", {name: name for name in STARTS}, settings.start)
        self._dial("t1", settings)
        with ui.element("div").classes("sf-pair"):
            self._list("clock", "Time axis", CLOCKS, settings.clock)
            self._seed(settings)
        self.show(settings)

    def show(self, settings: Settings) -> None:
        """Let every control show these settings."""
        self._quiet = True
        try:
            for name, dial in self.dials.items():
                dial.show(getattr(settings, name))
            for name, chosen in self._lists.items():
                chosen.value = getattr(settings, name)
            self._seed_value = settings.seed
            self._seed_field.value = str(settings.seed)
        finally:
            self._quiet = False
        for name, models in _SHOWN_FOR.items():
            self._boxes[name].set_visibility(settings.model in models)
        for name, models in _HIDDEN_FOR.items():
            self._boxes[name].set_visibility(settings.model not in models)

    def _dial(self, name: str, settings: Settings) -> None:
        dial = Dial(name, getattr(settings, name), self._changed)
        self.dials[name], self._boxes[name] = dial, dial.box

    def _list(self, name: str, label: str, options: dict[str, str], value: str) -> None:
        def chosen(event: Any) -> None:
            if not self._quiet:
                self._changed(name, event.value)

        with ui.element("div").classes("sf-list") as box:
            made = ui.select(options, value=value, label=label, on_change=chosen)
            made.props(f'dense outlined options-dense data-list={name} aria-label="{label}"')
        self._lists[name], self._boxes[name] = made, box

    def _seed(self, settings: Settings) -> None:
        with ui.element("div").classes("sf-list sf-seed"):
            self._seed_field = ui.input("Seed", value=str(settings.seed))
            self._seed_field.props('dense outlined inputmode=numeric data-field=seed aria-label="Seed"')
            with self._seed_field.add_slot("append"):
                again = ui.button(icon="casino", on_click=self._next_seed).props("flat round dense size=sm")
                again.props('aria-label="Another seed"').tooltip("Another seed")
        for event in ("blur", "keydown.enter"):
            self._seed_field.on(event, self._seeded, args=[])

    def _seeded(self) -> None:
        if self._seed_field.value != str(self._seed_value):
            self._changed("seed", self._seed_field.value)

    def _next_seed(self) -> None:
        self._changed("seed", (self._seed_value + 1) % int(LIMITS["seed"].most))


def _finite(place: Any) -> bool:
    return isinstance(place, (int, float)) and math.isfinite(place)
