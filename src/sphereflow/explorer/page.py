"""The page: header with tabs, the sphere with its controls, and the other tabs when they are first opened."""

from __future__ import annotations

import dataclasses
import html
import importlib
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from nicegui import Client, app, ui
from nicegui import run as background

from sphereflow.errors import SphereflowError
from sphereflow.evolution.webpage import PLAYER
from sphereflow.explorer.exports import deliver
from sphereflow.explorer.kit import STYLE, ListControl, Notice
from sphereflow.explorer.live import LiveRun
from sphereflow.explorer.models import python_lines
from sphereflow.explorer.panel import Panel
from sphereflow.explorer.presets import BY_SLUG, PRESETS, matching
from sphereflow.explorer.scheduler import RunScheduler
from sphereflow.explorer.settings import NAMES, Settings, parse
from sphereflow.explorer.tabs.surroundings import Surroundings
from sphereflow.explorer.view import SphereView, View
from sphereflow.explorer.words import about

STATIC = Path(__file__).parent / "static"
TABS = {
    "phases": "Phases",
    "staircase": "Staircase",
    "depth": "Depth",
    "transport": "Transport",
    "landscape": "Landscape",
    "retrieval": "Retrieval",
    "memory": "Memory",
    "heads": "Heads",
}
_LONGEST_WORD, _MOST_WORDS = 40, 60  # of the values of tabs in an address
_OWN = "custom"
_ARRIVAL = 60.0  # seconds within which a browser that has asked for the page opens its socket
_ASK_AGAIN = 5.0  # seconds between two attempts to find a place for a run


def add_page(scheduler: RunScheduler) -> None:
    """Serve the page at /."""
    style = "".join(path.read_text("utf-8") for path in (PLAYER / "player.css", STYLE, STATIC / "page.css"))

    @ui.page("/", title="sphereflow", language="en-US")
    async def index(request: Request, client: Client) -> None:
        ui.add_css(style)
        ui.query("body").classes("sf-theme sf-body")
        visit = Visit(scheduler, dict(request.query_params), client, app.storage.browser["id"])
        # The page is sent with the sphere alone; who only asks for it and never comes has cost little, and many who
        # come at once see tokens before the controls of all others are built.
        with suppress(TimeoutError):
            await client.connected(timeout=_ARRIVAL)
            if client.has_socket_connection:
                visit.furnish()


class Visit:
    """One visitor: the settings, the run, and the elements that show them."""

    def __init__(self, scheduler: RunScheduler, query: dict[str, str], client: Client, visitor: str):
        self._scheduler = scheduler
        self._visitor = visitor  # the same for all pages of one browser
        self.run: LiveRun | None = None
        self._tab = query.get("tab", "") if query.get("tab") in TABS else "sphere"
        asked = {name: value for name, value in query.items() if name in NAMES}
        preset = BY_SLUG.get(query.get("preset", ""), None if asked else PRESETS[0])
        self.settings, said = parse(asked, preset.settings if preset else None)
        # Values of the tabs' controls, by tab; each tab checks its own when it is opened.
        self._tab_words: dict[str, dict[str, str]] = {name: {} for name in TABS}
        for name, value in list(query.items())[:_MOST_WORDS]:
            tab, _, control = name.partition(".")
            if tab in TABS and len(name) + len(value) < _LONGEST_WORD:
                self._tab_words[tab][control] = value
        self._opened: set[str] = set()
        self._waiting: ui.timer | None = None
        client.on_connect(self._arrive)
        client.on_delete(self._leave)
        self._header()
        with ui.tab_panels(self._tabs, value=self._tab, on_change=self._turned).classes("sf-panels") as self._panels:
            with ui.tab_panel("sphere").classes("sf-tab-panel"):
                self._sphere(said)
            self._tab_panels = {name: ui.tab_panel(name).classes("sf-tab-panel") for name in TABS}

    # --- building ---------------------------------------------------------------------------------------------------

    def _header(self) -> None:
        with ui.element("header").classes("sf-header"):
            with ui.element("div").classes("sf-brand"):
                ui.html(_MARK, sanitize=False).classes("sf-mark")
                ui.label("sphereflow")
            with (
                ui.tabs(value=self._tab)
                .props("dense no-caps inline-label shrink align=left")
                .classes("sf-tabs") as self._tabs
            ):
                ui.tab("sphere", "Sphere")
                for name, title in TABS.items():
                    ui.tab(name, title)
            self._dark = ui.dark_mode(None)
            button = ui.button(icon="contrast", on_click=self._toggle_dark).props("flat round dense")
            button.props('aria-label="Light or dark"').tooltip("Light or dark").classes("sf-dark-button")

    def _sphere(self, said: list[str]) -> None:
        with ui.element("div").classes("sf-layout"):
            self._aside = ui.element("aside").classes("sf-panel").props('aria-label="Controls"')
            with ui.element("div").classes("sf-content"):
                self._notice = Notice("kit-message sf-said")
                self.view = SphereView()
                self.view.on("speed", self._speed_chosen)
                with ui.element("section").classes("sf-about").props('aria-label="About this run"'):
                    self._about = ui.html("", sanitize=False)
        self._notice.show(*said)

    def furnish(self) -> None:
        """The controls, the words about the run, and the tab that the address asks for."""
        with self._aside:
            papers = {preset.slug: preset.title for preset in PRESETS} | {_OWN: "Your own settings"}
            self._choice = ListControl("Start from a paper", papers, self._preset_name(), name="preset")
            self._choice.on_change(self._preset_chosen)
            self._panel = Panel(self.settings, self._change)
            self._exports()
        self._tell()
        with self._aside:
            ui.timer(0.01, lambda: self._open(self._tab), once=True)

    def _exports(self) -> None:
        with ui.element("div").classes("sf-exports").props('role=group aria-label="Share and export"'):
            for label, icon, act, hint in (
                ("Link", "link", self._copy_link, "Copy a link to exactly this run"),
                ("PNG", "image", self._picture, "The sphere as it stands"),
                ("HTML", "public", lambda: self._fetch("html"), "One file that plays without a server"),
                ("Movie", "movie", lambda: self._fetch("mp4"), "An mp4 of the run; takes a while"),
                ("Python", "code", self._show_python, "Three lines that make this run"),
            ):
                button = ui.button(label, icon=icon, on_click=act).props("outline no-caps dense size=sm")
                button.props(f'data-export={label.lower()} aria-label="{hint}"').tooltip(hint)

    # --- runs -------------------------------------------------------------------------------------------------------

    def _arrive(self) -> None:
        """A browser has opened the page and connected: only now is there somebody to compute for."""
        if self.run is None:
            self._begin()

    def _begin(self) -> None:
        """Start the run of the present settings; the older one is given up. Without a place, ask again and say so."""
        if self.run is not None:
            self._scheduler.cancel(self.run, self._visitor)
            self.run = None
        try:
            self.run = self._scheduler.start(self.settings, self._visitor)
        except SphereflowError as error:
            self.view.wait(str(error))
            if self._waiting is None:
                self._waiting = ui.timer(_ASK_AGAIN, self._begin)
            return
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self.view.show(View(self.run.about(), f"/run/{self.run.name}/frames", self.settings.speed))

    def _leave(self) -> None:
        if self.run is not None:
            self._scheduler.cancel(self.run, self._visitor)

    def _change(self, name: str, value: Any) -> None:
        """What a control asks for; `parse` has the last word."""
        settings, said = parse({name: value}, self.settings)
        self._take(settings, said)

    def _take(self, settings: Settings, said: list[str]) -> None:
        renewed = not settings.same_run(self.settings)
        self.settings = settings
        self._panel.show(settings)
        self._notice.show(*said)
        self._write_address()
        if renewed:
            self._begin()
            self._tell()

    def _speed_chosen(self, event: Any) -> None:
        self._change("speed", event.args)

    def _preset_chosen(self) -> None:
        preset = BY_SLUG.get(self._choice.value)
        if preset is not None and not self.settings.same_run(preset.settings):
            self._take(preset.settings, [])
            self.view.set_speed(preset.settings.speed)

    # --- what the page says -----------------------------------------------------------------------------------------

    def _preset_name(self) -> str:
        preset = matching(self.settings)
        return _OWN if preset is None else preset.slug

    def _tell(self) -> None:
        """The paragraph about the run."""
        self._choice.show(self._preset_name())
        self._about.content = about(self.settings)

    def _address(self) -> str:
        words = {f"{tab}.{name}": word for tab, known in self._tab_words.items() for name, word in known.items()}
        tab = {} if self._tab == "sphere" else {"tab": self._tab}
        return "/?" + self.settings.query() + "".join(f"&{urlencode(each)}" for each in (tab, words) if each)

    def _write_address(self) -> None:
        ui.navigate.history.replace(self._address())

    def _toggle_dark(self) -> None:
        # Until first pressed the page follows the system, which only the browser knows.
        ui.run_javascript("Quasar.Dark.toggle()")

    # --- exports ----------------------------------------------------------------------------------------------------

    def _copy_link(self) -> None:
        self._write_address()
        ui.run_javascript("navigator.clipboard?.writeText(location.href)")
        ui.notify("The address of this page is the link; it was copied.", position="bottom", color="dark")

    def _picture(self) -> None:
        self.view.picture(self.settings.caption(), "sphereflow.png")

    async def _fetch(self, kind: str) -> None:
        if self.run is not None:
            await deliver(self.run, kind)

    def _show_python(self) -> None:
        code = python_lines(self.settings)
        with ui.dialog() as dialog, ui.card().classes("sf-code-card"):
            ui.label("The same run in three lines").classes("sf-code-title")
            ui.html(f"<pre><code>{html.escape(code)}</code></pre>", sanitize=False).classes("sf-code").props(
                "data-code"
            )
            with ui.element("div").classes("sf-code-buttons"):
                ui.button("Copy", icon="content_copy", on_click=lambda: ui.clipboard.write(code)).props("flat no-caps")
                if self.run is not None:
                    address = f"/run/{self.run.name}/sphereflow.py"
                    ui.button("Save", icon="download", on_click=lambda: ui.download.from_url(address)).props(
                        "flat no-caps"
                    )
                ui.button("Close", on_click=dialog.close).props("flat no-caps")
        dialog.on("hide", dialog.delete)
        dialog.open()

    # --- tabs -------------------------------------------------------------------------------------------------------

    async def _turned(self, event: Any) -> None:
        self._tab = event.value if event.value in TABS else "sphere"
        self._write_address()
        await self._open(self._tab)

    async def _open(self, name: str) -> None:
        """Fill a tab when it is first looked at; what it needs is imported in a thread."""
        if name not in self._tab_panels or name in self._opened:
            return
        self._opened.add(name)
        with self._tab_panels[name]:
            opening = ui.label(f"Opening {TABS[name]} …").classes("sf-opening")
            try:
                module = await background.io_bound(importlib.import_module, f"sphereflow.explorer.tabs.{name}")
                if module is not None and not opening.is_deleted:
                    module.build(self._surroundings_of(name))
            except SphereflowError as error:
                Notice("kit-message").show(str(error))
            opening.delete()

    def _surroundings_of(self, name: str) -> Surroundings:
        def write(words: dict[str, str]) -> None:
            if words != self._tab_words[name]:
                self._tab_words[name] = words
                self._write_address()

        return Surroundings(dict(self._tab_words[name]), write, self._show_run)

    def _show_run(self, settings: Settings) -> None:
        """Play a run that a tab has chosen."""
        checked, said = parse(dataclasses.asdict(settings))
        self._take(checked, said)
        self._tabs.set_value("sphere")


_MARK = (
    '<svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><circle cx="16" cy="16" r="13" fill="none" '
    'stroke="currentColor" stroke-width="1.6"/><ellipse cx="16" cy="16" rx="13" ry="4.6" fill="none" '
    'stroke="currentColor" stroke-width="1" opacity=".55"/><circle cx="10" cy="11" r="2.6" fill="#e06a00"/>'
    '<circle cx="20" cy="20.5" r="3.2" fill="#0072b2"/><circle cx="21.5" cy="9.5" r="1.9" fill="#009e73"/></svg>'
)
