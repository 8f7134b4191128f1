"""The player as an element of the page; its script is the one that exported pages carry too."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nicegui import ui

from sphereflow.evolution.webpage import PLAYER


@dataclass(frozen=True)
class View:
    """What the browser gets of a run: facts about it, where its frames are, how fast to play."""

    about: dict[str, Any]
    address: str
    speed: float


class SphereView(ui.element, component="static/view.js", esm={"sphereflow-player": str(PLAYER)}):  # type: ignore[call-arg]
    """The sphere, its transport and its charts."""

    def show(self, view: View) -> None:
        """Play a run; a page that is still being built plays it when it is there."""
        self._props["shown"] = asdict(view)
        self._props["waiting"] = ""
        self.update()

    def wait(self, why: str) -> None:
        """Show a sentence where a run would be."""
        self._props["shown"] = None
        self._props["waiting"] = why
        self.update()

    def set_speed(self, speed: float) -> None:
        self.run_method("setSpeed", speed)

    def picture(self, caption: str, name: str) -> None:
        """Let the browser save what it shows."""
        self.run_method("picture", caption, name)
