"""Addresses that the page fetches from: frames of a run while it is computed, and its exports.

A run is known by an unguessable name; nothing of the file system can be reached from here.
"""

from __future__ import annotations

import asyncio
import html
import struct
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Response
from nicegui import run as background

from sphereflow.explorer.exports import film
from sphereflow.explorer.models import python_lines
from sphereflow.explorer.presets import matching
from sphereflow.explorer.scheduler import LiveRun, RunScheduler

_RUNNING, _DONE, _FAILED = 0, 1, 2
_UNKNOWN = "the server no longer knows this run; reload the page"
_MOST_BYTES = 4_000_000
_LONGEST_WAIT = 10.0
_NAP = 0.02
_EXPORT_WAIT = 120.0


def add_routes(app: FastAPI, scheduler: RunScheduler) -> None:
    """Frames and exports of the runs of a scheduler."""

    def known(name: str) -> LiveRun:
        if name not in scheduler.runs:
            raise HTTPException(404, "this run is no longer kept")
        return scheduler.runs[name]

    @app.get("/run/{name}/frames")
    async def new_frames(name: str, start: Annotated[int, Query(alias="from")] = 0) -> Response:
        run = scheduler.runs.get(name)
        if run is None:  # often a request for a run that has just been replaced: no error, and nobody will read it
            return _binary(struct.pack("<II", _FAILED, 0) + _UNKNOWN.encode())
        start = max(start, 0)
        naps = 0
        while len(run.recorded) <= start and not run.over and naps * _NAP < _LONGEST_WAIT:
            await asyncio.sleep(_NAP)
            naps += 1
        state = _DONE if run.done else _RUNNING
        chosen = run.recorded[start:]
        if chosen:
            whole = max(1, _MOST_BYTES // len(chosen[0]))
            state = _RUNNING if len(chosen) > whole else state
            chosen = chosen[:whole]
        elif run.trouble:
            return _binary(struct.pack("<II", _FAILED, 0) + run.trouble.encode())
        return _binary(struct.pack("<II", state, len(chosen)) + b"".join(chosen))

    async def finished(name: str) -> LiveRun:
        run = known(name)
        naps = 0
        while not run.over and naps * 0.1 < _EXPORT_WAIT:
            await asyncio.sleep(0.1)
            naps += 1
        if len(run.recorded) < 2:
            raise HTTPException(409, "this run has no frames to export yet")
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
