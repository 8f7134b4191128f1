"""The panel of controls: a field and a slider for each number, lists for words; limits are those of `settings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from sphereflow.explorer.kit import ListControl, NumberControl, Scale
from sphereflow.explorer.settings import CLOCKS, LIMITS, MODELS, Settings, plain
from sphereflow.sphere import STARTS

# Sizes on the slider are few and round: each new size has to be compiled once.
_SIZES = (2, 4, 8, 16, 32, 64, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 3000, 4000, 5000)
_DIMENSIONS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# The slider of a number: its label and its scale. The field beside it takes everything within limits.
_SLIDERS: dict[str, tuple[str, Scale]] = {
    "n": ("Tokens n", Scale(2, 5000, stops=_SIZES)),
    "d": ("Dimension d", Scale(2, 64, stops=_DIMENSIONS)),
    "beta": ("Inverse temperature β", Scale(0.1, 10_000, logarithmic=True)),
    "t1": ("Final time t₁", Scale(1, 100_000, logarithmic=True)),
    "push": ("Weight of the perceptron ω", Scale(-2, 2)),
    "noise": ("Size of the noise", Scale(0, 3)),
    "pull": ("Strength of attention", Scale(0, 5)),
}
_SHOWN_FOR = {"push": ("perceptron",), "noise": ("common", "own"), "pull": ("common", "own")}
_HIDDEN_FOR = {"clock": ("common", "own")}


class Panel:
    """All controls of a run; `changed(name, value)` is called with what the visitor asks for, unchecked."""

    def __init__(self, settings: Settings, changed: Callable[[str, Any], None]):
        self._changed = changed
        self._controls: dict[str, NumberControl | ListControl] = {}
        self._list("model", "Model", MODELS, settings.model)
        for name in ("beta", "n", "d", *_SHOWN_FOR):
            self._number(name, settings)
        self._list("start", "First tokens", {name: name for name in STARTS}, settings.start)
        self._number("t1", settings)
        with ui.element("div").classes("sf-pair"):
            self._list("clock", "Time axis", CLOCKS, settings.clock)
            self._seed(settings)
        self.show(settings)

    def show(self, settings: Settings) -> None:
        """Let every control show these settings."""
        for name, control in self._controls.items():
            control.show(getattr(settings, name))
        self._seed_value = settings.seed
        self._seed_field.value = str(settings.seed)
        for name, models in _SHOWN_FOR.items():
            self._controls[name].set_visible(settings.model in models)
        for name, models in _HIDDEN_FOR.items():
            self._controls[name].set_visible(settings.model not in models)

    def _number(self, name: str, settings: Settings) -> None:
        label, scale = _SLIDERS[name]
        control = NumberControl(label, scale, getattr(settings, name), plain, name=name)
        control.on_ask(lambda asked: self._changed(name, asked))
        control.hint(f"{LIMITS[name].least:g} to {LIMITS[name].most:,.0f}")
        self._controls[name] = control

    def _list(self, name: str, label: str, options: dict[str, str], value: str) -> None:
        control = ListControl(label, options, value, name=name)
        control.on_change(lambda: self._changed(name, control.value))
        self._controls[name] = control

    def _seed(self, settings: Settings) -> None:
        with ui.element("div").classes("kit-list"):
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
