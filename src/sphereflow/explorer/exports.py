"""Exports that take a while, and the messages to the visitor meanwhile."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections import deque
from pathlib import Path

from nicegui import run as background
from nicegui import ui

from sphereflow.errors import SphereflowError
from sphereflow.explorer.live import LiveRun
from sphereflow.explorer.settings import INTERVALS

_LOOK = 0.3  # seconds between two looks at how far it is
_lately: deque[float] = deque(maxlen=5)  # how long the last films took
_one_at_a_time = asyncio.Lock()  # drawing a film takes a core for a while


async def film(run: LiveRun) -> bytes:
    """The mp4 of a run; that of a run which is over is made once and kept with it."""
    async with _one_at_a_time:
        if run.film is not None:
            return run.film
        whole = run.over
        began = time.monotonic()
        content = await background.io_bound(_filmed, run)
        if content is None:
            raise SphereflowError("the server is being stopped.")
        if whole:
            run.film = content
            _lately.append(time.monotonic() - began)
        return content


async def deliver(run: LiveRun, kind: str) -> None:
    """Let the browser save the run as .html or .mp4 once all of it is there, and say how far that is."""
    notice = ui.notification(position="bottom", color="dark", timeout=None, spinner=True)
    try:
        while not run.over:
            notice.message = f"The run is not over yet: {len(run.recorded)} of {INTERVALS + 1} frames."
            await asyncio.sleep(_LOOK)
        if run.cancelled:
            raise SphereflowError("the run was replaced by another; nothing was saved.")
        if len(run.recorded) < 2:
            raise SphereflowError("this run has no frames to save.")
        if kind == "mp4":
            began, filming = time.monotonic(), asyncio.ensure_future(film(run))
            while not filming.done():
                notice.message = f"Filming: {time.monotonic() - began:.0f} s so far{_usually()}."
                await asyncio.wait([filming], timeout=_LOOK)
            await filming
        notice.message, notice.spinner, notice.timeout = f"Saving sphereflow.{kind}.", False, 3.0
        ui.download.from_url(f"/run/{run.name}/sphereflow.{kind}")
    except Exception as error:  # a film can fail in as many ways as its encoder; the visitor should know
        why = str(error) if isinstance(error, SphereflowError) else f"it failed ({type(error).__name__})."
        notice.message, notice.spinner = f"No {kind} was saved: {why}", False
        notice.type, notice.timeout = "negative", 15.0


def _so_far(run: LiveRun) -> str:
    left = run.seconds_left()
    estimate = "" if math.isnan(left) else f", about {left:.0f} s left"
    return f"The run is not over yet: {len(run.recorded)} of {INTERVALS + 1} frames{estimate}."


def _usually() -> str:
    """What to expect, once a film was made."""
    waiting = ", after the films of others" if _one_at_a_time.locked() and not _lately else ""
    return f", lately {sum(_lately) / len(_lately):.0f} s for a film" if _lately else waiting


def _filmed(run: LiveRun) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return run.trajectory().movie(Path(folder) / "sphereflow.mp4").read_bytes()
