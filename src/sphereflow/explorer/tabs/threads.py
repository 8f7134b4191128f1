"""Computation in threads, so that the page stays responsive: a few at a time, and no request waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from nicegui import run

from sphereflow.errors import SphereflowError

# How many computations run at once, whoever asks for them; the others wait in line.
TOGETHER = 2
# A thread cannot be stopped, so the limits of the controls keep every computation well below this.
LONGEST_SECONDS = 60.0

P = ParamSpec("P")
R = TypeVar("R")

_slots = asyncio.Semaphore(TOGETHER)
_waiting = 0


def in_line() -> int:
    """How many computations wait for their turn."""
    return _waiting


async def run_in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The value of the function (never None), computed in a thread; its errors are raised here."""
    global _waiting
    _waiting += 1
    try:
        await _slots.acquire()
    finally:
        _waiting -= 1
    work = asyncio.ensure_future(run.io_bound(function, *args, **kwargs))
    # The slot belongs to the thread, not to the one who waits: it is free when the thread ends.
    work.add_done_callback(lambda _: _slots.release())
    done, _ = await asyncio.wait({work}, timeout=LONGEST_SECONDS)
    if not done:
        raise SphereflowError(f"this took longer than {LONGEST_SECONDS:.0f} seconds; try smaller numbers.")
    value = work.result()
    if value is None:  # the thread was not started, or its answer is no longer wanted
        raise SphereflowError("the server is stopping.")
    return cast(R, value)
