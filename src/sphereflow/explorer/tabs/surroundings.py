"""What a tab knows of the page around it: its words in the address, and the sphere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nicegui import ui

from sphereflow.explorer.settings import Settings


def _alone(settings: Settings) -> None:
    ui.navigate.to("/?" + settings.query())


@dataclass(frozen=True)
class Surroundings:
    """A tab's part of the page; without a page around it nothing is restored and nothing written.

    `words` are the values in the address, unchecked; `write` puts others there; `show_run` plays a run on the sphere.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    write: Callable[[dict[str, str]], Any] = lambda words: None
    show_run: Callable[[Settings], Any] = _alone


ALONE = Surroundings()
