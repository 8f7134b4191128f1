"""The frame of a tab: plain words and the formula, controls beside the picture, progress, and a line for errors."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from nicegui import Client, ui

from sphereflow.errors import SphereflowError
from sphereflow.explorer.kit import STYLE as KIT_STYLE
from sphereflow.explorer.kit import ListControl, Notice
from sphereflow.explorer.tabs.inputs import Amount
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.threads import TOGETHER, in_line, run_in_thread
from sphereflow.explorer.tabs.words import answer, facts, legend, list_colours, list_facts, say
from sphereflow.report.formula import formula, prose

_STYLE = Path(__file__).with_name("tabs.css")
_dressed: WeakSet[Client] = WeakSet()
_LOOK = 0.4  # seconds between two looks at how far a computation is
_lately: dict[str, deque[float]] = {}  # how long the last computations of a tab took, by its title

P = ParamSpec("P")
R = TypeVar("R")
Renew = Callable[[], Awaitable[None]]
# What fills the picture; a sentence that it returns is shown above it.
Refresh = Callable[[], Awaitable[str | None]]


class TabFrame:
    """A tab with its heading; `controls` and `charts` are the containers to fill."""

    def __init__(self, title: str, words: str, *latex: str, around: Surroundings = ALONE) -> None:
        client = ui.context.client
        if client not in _dressed:
            _dressed.add(client)
            ui.add_css(KIT_STYLE)
            ui.add_css(_STYLE)
        self._title, self._around = title, around
        self._wanted = self._done = 0
        self._busy = False
        self._since, self._share, self._doing = 0.0, 0.0, ""
        with ui.element("section").classes("tab-frame").props(f'aria-label="{title}"') as self._box:
            with ui.element("header").classes("tab-heading"):
                ui.html(str(prose(words)), sanitize=False, tag="p").classes("tab-words")
                self._formulas = ui.html("", sanitize=False).classes("tab-formula")
                self.set_formulas(*latex)
            with ui.element("div").classes("tab-columns"):
                self.controls = ui.element("div").classes("tab-controls")
                with ui.element("div").classes("tab-stage"):
                    with ui.element("div").classes("tab-progress") as self._progress:
                        ui.spinner(size="1.3rem").classes("tab-spinner").props('aria-label="computing"')
                        self._far = ui.label("computing the first picture")
                    self._error = Notice("kit-message tab-error")
                    with ui.element("div").classes("tab-picture tab-empty") as self._picture:
                        self._answer = answer()
                        self.charts = ui.element("div").classes("tab-charts")
                        self._colours, self._numbers = legend(), facts()
        self._clock = ui.timer(_LOOK, self._tell_progress, active=False)

    def set_formulas(self, *latex: str) -> None:
        """Show these formulas below the words."""
        self._formulas.set_content("".join(formula(each) for each in latex))

    def say(self, text: str) -> None:
        """The answer in words, above the charts."""
        say(self._answer, text)

    def list_colours(self, rows: list[tuple[str, str, str]]) -> None:
        """The meaning of the colours, below the charts."""
        list_colours(self._colours, rows)

    def list_facts(self, rows: list[tuple[str, str]]) -> None:
        """Names and numbers, below the colours."""
        list_facts(self._numbers, rows)

    def watch(self, refresh: Refresh, **controls: Amount | ListControl) -> Renew:
        """Call `refresh` now and whenever a control changes; changes made meanwhile lead to one more call.

        Names of the controls are those of their values in the address.
        """
        usual = {name: control.text for name, control in controls.items()}
        for name, control in controls.items():
            if name in self._around.words:
                control.restore(self._around.words[name])

        async def renew() -> None:
            self._around.write({name: each.text for name, each in controls.items() if each.text != usual[name]})
            self._wanted += 1
            if self._busy:
                return
            self._busy = True
            try:
                while self._done != self._wanted and not self._box.is_deleted:
                    self._done = self._wanted
                    await self._guarded(refresh)
            finally:
                self._busy = False

        for control in controls.values():
            control.on_change(renew)
        ui.timer(0.01, renew, once=True)
        return renew

    async def work(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The value of the function, computed in a thread; to be called within `refresh`."""
        value = await run_in_thread(function, *args, **kwargs)
        self._share, self._doing = 0.0, ""
        return value

    def report(self, share: float, words: str = "") -> None:
        """How much of the work is done, 0 to 1, and what; may be called in the thread that does it."""
        self._share, self._doing = share, words

    def drawn(self) -> None:
        """There is a picture now, if only a rough one."""
        self._picture.classes(remove="tab-empty tab-stale")

    def _tell_progress(self) -> None:
        seconds = time.monotonic() - self._since
        words = [self._doing or "computing", f"{seconds:.0f} s so far"]
        if 0 < self._share < 1:
            words[1] = f"{100 * self._share:.0f} %, about {seconds * (1 / self._share - 1):.0f} s left"
        elif lately := _lately.get(self._title):
            words.append(f"lately {sorted(lately)[len(lately) // 2]:.1f} s")
        if in_line():
            words.append(f"{in_line()} wait for one of {TOGETHER} places")
        self._far.text = ", ".join(words)

    async def _guarded(self, refresh: Refresh) -> None:
        self._since = time.monotonic()
        self._share, self._doing = 0.0, ""
        self._tell_progress()
        self._progress.set_visibility(True)
        self._clock.activate()
        message, failed = "", True
        try:
            message = await refresh() or ""
            failed = False
            _lately.setdefault(self._title, deque(maxlen=9)).append(time.monotonic() - self._since)
        except SphereflowError as error:
            message = str(error)
        except Exception:
            if not self._box.is_deleted:  # a page that was closed meanwhile has nothing left to fill
                logging.getLogger("sphereflow").exception("a tab of the page failed")
                message = "This could not be computed because of a fault in the program; the terminal says where."
        if self._box.is_deleted:
            return
        self._clock.deactivate()
        self._error.show(message)
        if failed:
            self._picture.classes(add="tab-stale")
        else:
            self.drawn()
        self._progress.set_visibility(False)
