"""Claims and figures of several papers at once, in processes that take the next one when they are done.

A process stays with its paper, whose programs and cached values it has; when nothing of that paper waits it begins
another paper, and when all are begun it helps with the one that has most left. It is confined to its share of the
processor cores before JAX looks at them, so that processes do not fight for the same ones. A process that dies (of
memory, of a kill) is the result of the entry it was at, not the end of the others.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from sphereflow import papers as registry
from sphereflow.claims import Claim, Figure, Paper, Run
from sphereflow.provenance import versions
from sphereflow.report.entry import entries_of, result_of
from sphereflow.report.finished import Finished
from sphereflow.report.results import ClaimResult, PaperResult, PictureResult
from sphereflow.runtime import compile_lightly, confine, keep_programs, main_left_out

_BETWEEN_MESSAGES_SECONDS = 0.1
_DIED = "the process of this entry died; it may have needed more memory than there is."

Listener = Callable[[Paper, str, float, str], None]


@dataclass
class _Progress:
    """A paper with the entries that wait, and the results of those that are done."""

    paper: Paper
    waiting: deque[Claim | Figure]
    results: dict[str, ClaimResult | PictureResult] = field(default_factory=dict)
    began: float | None = None

    @property
    def done(self) -> bool:
        return len(self.results) == len(entries_of(self.paper))

    def result(self, conditions: Run) -> PaperResult:
        claims = [self.results[claim.id] for claim in self.paper.claims]
        pictures = [self.results[figure.id] for figure in self.paper.figures]
        return PaperResult(
            paper=self.paper,
            preset=conditions.preset,
            seed=conditions.seed,
            seconds=time.perf_counter() - (self.began or time.perf_counter()),
            claims=tuple(result for result in claims if isinstance(result, ClaimResult)),
            pictures=tuple(result for result in pictures if isinstance(result, PictureResult)),
            versions=versions(),
        )


@dataclass
class _Worker:
    process: Any
    number: int
    at: _Progress
    entry: Claim | Figure


def run_in_processes(
    papers: list[Paper],
    conditions: Run,
    jobs: int,
    listener: Listener,
    out: str | Path | None = None,
    fresh: bool = False,
) -> Iterator[PaperResult]:
    """The results of papers as they are done; `listener(paper, entry, fraction, text)` hears of their progress."""
    states = [_Progress(paper, deque(entries_of(paper))) for paper in papers]
    context = multiprocessing.get_context("spawn")
    busy: dict[Connection, _Worker] = {}

    def hire(number: int) -> None:
        mine, theirs = context.Pipe()
        place, share = list(registry.__path__), (number, jobs)
        under = (conditions.preset, conditions.seed, out, fresh)
        process = context.Process(target=_serve, args=(theirs, place, share, under))
        process.daemon = True
        with main_left_out():
            process.start()
        theirs.close()
        give(mine, process, number, None)

    def give(connection: Connection, process: Any, number: int, last: _Progress | None) -> None:
        state = _next(states, last)
        if state is None:
            with suppress(ConnectionError):  # it has died, and nothing is left to do
                connection.send(None)
            connection.close()
            return
        entry = state.waiting.popleft()
        state.began = state.began or time.perf_counter()
        busy[connection] = _Worker(process, number, state, entry)
        with suppress(ConnectionError):  # it has died: what it answers says so
            connection.send((state.paper.origin or state.paper.slug, entry.id))

    try:
        yield from (state.result(conditions) for state in states if state.done)  # papers without entries
        for number in range(min(jobs, sum(len(state.waiting) for state in states))):
            hire(number)
        while busy:
            for connection in wait(list(busy), timeout=1.0):
                assert isinstance(connection, Connection)
                worker = busy[connection]
                state, entry = worker.at, worker.entry
                try:
                    kind, *rest = connection.recv()
                except (EOFError, ConnectionError):  # closed, or torn down with what it had not read
                    kind, rest = "died", []
                if kind == "progress":
                    listener(state.paper, entry.id, *rest)
                    continue
                del busy[connection]
                state.results[entry.id] = _dead(entry) if kind == "died" else _result(entry, *rest)
                listener(state.paper, entry.id, 1.0, "")
                if state.done:
                    yield state.result(conditions)
                if kind != "died":
                    give(connection, worker.process, worker.number, state)
                elif _next(states, None) is not None:
                    hire(worker.number)
    finally:
        for worker in busy.values():
            worker.process.terminate()


def _next(states: list[_Progress], last: _Progress | None) -> _Progress | None:
    """The paper to go on with: the same one, else one not begun, else one with help to give; the longest first."""
    if last is not None and last.waiting:
        return last
    waiting = [state for state in states if state.waiting]
    unbegun = [state for state in waiting if state.began is None]
    return max(unbegun or waiting, key=lambda state: len(state.waiting), default=None)


def _serve(connection: Connection, place: list[str], share: tuple[int, int], under: tuple[Any, ...]) -> None:
    """What a process does: take an entry, measure or draw, send back, until there is none left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    confine(*share)
    keep_programs()
    if under[0] == "quick":
        compile_lightly()
    registry.__path__[:] = place
    preset, seed, out, fresh = under
    last_message = 0.0

    def notify(fraction: float, text: str) -> None:
        nonlocal last_message
        if time.monotonic() - last_message > _BETWEEN_MESSAGES_SECONDS:
            last_message = time.monotonic()
            connection.send(("progress", fraction, text))

    papers: dict[str, Paper] = {}
    while (task := connection.recv()) is not None:
        where, id = task
        paper = papers[where] if where in papers else papers.setdefault(where, registry.load(where))
        notify(0.0, "")
        run = Run(preset, seed, notify)
        (entry,) = (entry for entry in entries_of(paper) if entry.id == id)
        connection.send(("done", _portable(result_of(paper, entry, run, Finished(out, run, fresh=fresh)))))


def _portable(result: ClaimResult | PictureResult) -> dict[str, Any]:
    """Everything but the functions, which stay where they are defined."""
    return {name: value for name, value in vars(result).items() if name not in ("claim", "figure")}


def _result(entry: Claim | Figure, values: dict[str, Any]) -> ClaimResult | PictureResult:
    return ClaimResult(entry, **values) if isinstance(entry, Claim) else PictureResult(entry, **values)


def _dead(entry: Claim | Figure) -> ClaimResult | PictureResult:
    if isinstance(entry, Claim):
        return ClaimResult(entry, "fails", 0.0, error=_DIED)
    return PictureResult(entry, 0.0, error=_DIED)
