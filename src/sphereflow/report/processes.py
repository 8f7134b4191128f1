"""Several papers at once, each in a process of its own that takes the next paper when it is done.

A process is confined to its share of the processor cores before JAX looks at them, so that they do not fight for the
same ones. A process that dies (of memory, of a kill) is that paper's result, not the end of the others.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from sphereflow import papers as registry
from sphereflow.claims import Paper, Run
from sphereflow.provenance import versions
from sphereflow.report.entry import entries_of, result_of
from sphereflow.report.finished import Finished
from sphereflow.report.results import ClaimResult, PaperResult, PictureResult
from sphereflow.runtime import confine, keep_programs

_BETWEEN_MESSAGES_SECONDS = 0.1
_DIED = "the process of this paper died; it may have needed more memory than there is."

Told = Callable[[Paper, int, float, str], None]


def run_in_processes(
    papers: list[Paper], conditions: Run, jobs: int, told: Told, out: str | Path | None = None, fresh: bool = False
) -> Iterator[PaperResult]:
    """The results of papers as they are done; `told(paper, entry, fraction, text)` hears of their progress."""
    # The longest first: then the last to finish does not keep the others waiting.
    waiting = deque(sorted(papers, key=lambda paper: -len(entries_of(paper))))
    context = multiprocessing.get_context("spawn")
    busy: dict[Connection, tuple[Any, Paper, float, int]] = {}

    def hire(number: int) -> None:
        mine, theirs = context.Pipe()
        place, share = list(registry.__path__), (number, jobs)
        under = (conditions.preset, conditions.seed, out, fresh)
        process = context.Process(target=_serve, args=(theirs, place, share, under))
        process.daemon = True
        process.start()
        theirs.close()
        give(mine, process, number)

    def give(connection: Connection, process: Any, number: int) -> None:
        if waiting:
            paper = waiting.popleft()
            connection.send((paper.origin or paper.slug, [entry.id for entry in entries_of(paper)]))
            busy[connection] = (process, paper, time.perf_counter(), number)
        else:
            connection.send(None)
            connection.close()

    try:
        for number in range(min(jobs, len(papers))):
            hire(number)
        while busy:
            for connection in wait(list(busy), timeout=1.0):
                assert isinstance(connection, Connection)
                process, paper, began, number = busy[connection]
                try:
                    kind, *rest = connection.recv()
                except EOFError:
                    del busy[connection]
                    yield _dead(paper, conditions, time.perf_counter() - began)
                    if waiting:
                        hire(number)
                    continue
                if kind == "progress":
                    told(paper, *rest)
                    continue
                del busy[connection]
                yield _assembled(paper, conditions, time.perf_counter() - began, *rest)
                give(connection, process, number)
    finally:
        for process, *_ in busy.values():
            process.terminate()


def _serve(connection: Connection, place: list[str], share: tuple[int, int], under: tuple[Any, ...]) -> None:
    """What a process does: take a paper, measure and draw, send back, until there is none left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    confine(*share)
    keep_programs()
    registry.__path__[:] = place
    preset, seed, out, fresh = under
    while (task := connection.recv()) is not None:
        slug, ids = task
        paper = registry.load(slug)
        chosen = [entry for entry in entries_of(paper) if entry.id in ids]
        results: list[tuple[str, dict[str, Any]]] = []
        last_message = 0.0
        for index, entry in enumerate(chosen):

            def notify(fraction: float, text: str, index: int = index) -> None:
                nonlocal last_message
                if time.monotonic() - last_message > _BETWEEN_MESSAGES_SECONDS:
                    last_message = time.monotonic()
                    connection.send(("progress", index, fraction, text))

            notify(0.0, "")
            run = Run(preset, seed, notify)
            result = result_of(paper, entry, run, Finished(out, run, fresh=fresh))
            results.append((entry.id, _portable(result)))
        connection.send(("done", results))


def _portable(result: ClaimResult | PictureResult) -> dict[str, Any]:
    """Everything but the functions, which stay where they are defined."""
    return {name: value for name, value in vars(result).items() if name not in ("claim", "figure")}


def _assembled(paper: Paper, conditions: Run, seconds: float, results: list[tuple[str, dict[str, Any]]]) -> PaperResult:
    found = dict(results)
    return PaperResult(
        paper=paper,
        preset=conditions.preset,
        seed=conditions.seed,
        seconds=seconds,
        claims=tuple(ClaimResult(claim=claim, **found[claim.id]) for claim in paper.claims),
        pictures=tuple(PictureResult(figure=figure, **found[figure.id]) for figure in paper.figures),
        versions=versions(),
    )


def _dead(paper: Paper, conditions: Run, seconds: float) -> PaperResult:
    return PaperResult(
        paper=paper,
        preset=conditions.preset,
        seed=conditions.seed,
        seconds=seconds,
        claims=tuple(ClaimResult(claim, "fails", 0.0, error=_DIED) for claim in paper.claims),
        pictures=tuple(PictureResult(figure, 0.0, error=_DIED) for figure in paper.figures),
        versions=versions(),
    )
