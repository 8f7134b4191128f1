"""The frame of a tab: plain words and the formula, controls beside the picture, spinner, and one line for errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from nicegui import Client, ui

from sphereflow.errors import SphereflowError
from sphereflow.explorer.kit import STYLE as KIT_STYLE
from sphereflow.explorer.kit import ListControl, Notice
from sphereflow.explorer.tabs.inputs import Amount
from sphereflow.explorer.tabs.threads import run_in_thread
from sphereflow.report.formula import formula, prose

_STYLE = Path(__file__).with_name("tabs.css")
_dressed: WeakSet[Client] = WeakSet()

P = ParamSpec("P")
R = TypeVar("R")
Renew = Callable[[], Awaitable[None]]
# What fills the picture; a sentence that it returns is shown above it.
Refresh = Callable[[], Awaitable[str | None]]


class TabFrame:
    """A tab with its heading; `controls` and `picture` are the containers to fill."""

    def __init__(self, title: str, words: str, *latex: str) -> None:
        client = ui.context.client
        if client not in _dressed:
            _dressed.add(client)
            ui.add_css(KIT_STYLE)
            ui.add_css(_STYLE)
        self._wanted = self._done = 0
        self._busy = False
        with ui.element("section").classes("tab-frame").props(f'aria-label="{title}"') as self._box:
            with ui.element("header").classes("tab-heading"):
                ui.html(str(prose(words)), sanitize=False, tag="p").classes("tab-words")
                self._formulas = ui.html("", sanitize=False).classes("tab-formula")
                self.set_formulas(*latex)
            with ui.element("div").classes("tab-columns"):
                self.controls = ui.element("div").classes("tab-controls")
                with ui.element("div").classes("tab-stage"):
                    self._spinner = ui.spinner(size="1.6rem").classes("tab-spinner").props('aria-label="computing"')
                    self._error = Notice("kit-message tab-error")
                    self.picture = ui.element("div").classes("tab-picture")

    def set_formulas(self, *latex: str) -> None:
        """Show these formulas below the words."""
        self._formulas.set_content("".join(formula(each) for each in latex))

    def watch(self, refresh: Refresh, *controls: Amount | ListControl) -> Renew:
        """Call `refresh` now and whenever a control changes; changes made meanwhile lead to one more call."""

        async def renew() -> None:
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

        for control in controls:
            control.on_change(renew)
        ui.timer(0.01, renew, once=True)
        return renew

    async def work(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The value of the function, computed in a thread; to be called within `refresh`."""
        return await run_in_thread(function, *args, **kwargs)

    async def _guarded(self, refresh: Refresh) -> None:
        self._spinner.set_visibility(True)
        message, failed = "", True
        try:
            message = await refresh() or ""
            failed = False
        except SphereflowError as error:
            message = str(error)
        except Exception:
            if not self._box.is_deleted:  # a page that was closed meanwhile has nothing left to fill
                logging.getLogger("sphereflow").exception("a tab of the page failed")
                message = "This could not be computed because of a fault in the program; the terminal says where."
        if self._box.is_deleted:
            return
        self._error.show(message)
        self.picture.classes(add="tab-stale" if failed else "", remove="" if failed else "tab-stale")
        self._spinner.set_visibility(False)
