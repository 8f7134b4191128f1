"""Addresses that the page fetches from: frames of a run while it is computed, and its exports.

A run is known by an unguessable name; nothing of the file system can be reached from here.
"""

from __future__ import annotations

import asyncio
import html
import math
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Response
from nicegui import run as background

from sphereflow.explorer.exports import film
from sphereflow.explorer.live import LiveRun
from sphereflow.explorer.models import python_lines
from sphereflow.explorer.presets import matching
from sphereflow.explorer.scheduler import RunScheduler

_RUNNING, _DONE, _FAILED = 0, 1, 2
_UNKNOWN = "the server no longer knows this run; reload the page"
_MOST_BYTES = 4_000_000
_LONGEST_WAIT = 10.0
_EXPORT_WAIT = 120.0


def add_routes(app: FastAPI, scheduler: RunScheduler) -> None:
    """Frames and exports of the runs of a scheduler."""

    def known(name: str) -> LiveRun:
        if name not in scheduler.runs:
            raise HTTPException(404, "this run is no longer kept")
        return scheduler.runs[name]

    @app.get("/run/{name}/frames")
    async def new_frames(name: str, start: Annotated[int, Query(alias="from")] = 0, rough: int = 0) -> Response:
        """What a player that has `start` accurate frames, and any frames at all up to `rough`, does not have yet."""
        run = scheduler.runs.get(name)
        if run is None:  # often a request for a run that has just been replaced: no error, and nobody will read it
            return _binary(_head(_FAILED) + _UNKNOWN.encode())
        start = max(start, 0)

        def news() -> bool:
            first = max(rough, len(run.recorded))
            return len(run.recorded) > start or len(run.rough) > first or run.over

        await _until(run, news, _LONGEST_WAIT)
        state = _DONE if run.done else _RUNNING
        fine = run.recorded[start:]
        size = 104 + 8 * run.settings.n
        whole = max(1, _MOST_BYTES // size)
        if len(fine) > whole:
            state, fine = _RUNNING, fine[:whole]
        first = max(rough, start + len(fine))
        more = [] if len(fine) == whole or state == _DONE else run.rough[first : first + whole - len(fine)]
        if not fine and not more and run.trouble:
            return _binary(_head(_FAILED) + run.trouble.encode())
        left = run.seconds_left()
        seconds = 0 if math.isnan(left) else min(math.ceil(left), 10**6)
        head = _head(state, len(fine), len(more), first, seconds, scheduler.computing)
        return _binary(head + b"".join(fine) + b"".join(more))

    async def finished(name: str) -> LiveRun:
        run = known(name)
        await _until(run, lambda: run.over, _EXPORT_WAIT)
        if not run.done:
            raise HTTPException(409, run.trouble or "this run is not over yet: an export waits for its last frame")
        return run

    @app.get("/run/{name}/sphereflow.html")
    async def webpage(name: str) -> Response:
        run = await finished(name)
        title, lead = _words(run)
        content = await background.io_bound(run.webpage, title, lead)
        return _attachment(content, "text/html; charset=utf-8", "sphereflow.html")

    @app.get("/run/{name}/sphereflow.mp4")
    async def movie(name: str) -> Response:
        return _attachment(await film(await finished(name)), "video/mp4", "sphereflow.mp4")

    @app.get("/run/{name}/sphereflow.py")
    async def script(name: str) -> Response:
        return _attachment((python_lines(known(name).settings) + "\n").encode(), "text/x-python", "sphereflow.py")


def _head(state: int, *numbers: int) -> bytes:
    """State, accurate frames, rough frames, place of the first rough one, seconds left (0: unknown), runs in all."""
    return struct.pack("<6I", state, *numbers, *[0] * (5 - len(numbers)))


async def _until(run: LiveRun, enough: Callable[[], bool], seconds: float) -> None:
    """Wait until the run has what is asked for, or for so many seconds."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def ring() -> None:
        with suppress(RuntimeError):  # the server has been stopped
            loop.call_soon_threadsafe(woken.set)

    run.listeners.add(ring)
    try:
        async with asyncio.timeout(seconds):
            while not enough():
                await woken.wait()
                woken.clear()
    except TimeoutError:
        pass
    finally:
        run.listeners.discard(ring)


def _words(run: LiveRun) -> tuple[str, str]:
    """Title and lead of the exported page."""
    preset = matching(run.settings)
    caption = html.escape(run.settings.caption())
    if preset is None:
        return "Tokens under attention", f"<p>{caption}. Drag to turn, space to pause.</p>"
    return preset.title, f"<p>{html.escape(preset.words)}</p><p>{caption}. Drag to turn, space to pause.</p>"


def _binary(content: bytes) -> Response:
    return Response(content, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


def _attachment(content: bytes, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=kind, headers=headers)
