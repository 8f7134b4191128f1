"""Runs of many visitors share a few threads: whoever has used the least processor time has the next turn.

So a heavy run slows down itself and not its neighbours, and at most `threads` turns are computed at once. One more
thread draws the first tokens of new runs and computes rough frames, for which nothing is compiled: a visitor sees
tokens move while all others compile. A run that several visitors ask for is computed once; one that is over is kept for
the next who asks, as long as there is room. Nothing here blocks the server: simulations live in their own threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from sphereflow.errors import SphereflowError
from sphereflow.explorer.live import LiveRun, alike
from sphereflow.explorer.settings import Settings

MOST_RUNS = 150  # that somebody watches
MOST_OF_ONE = 6  # that one visitor watches, in as many pages
MOST_BYTES = 1_200_000_000  # of all runs that somebody watches
_KEPT_BYTES = 150_000_000  # of runs that are over and that nobody watches
_PATIENCE = 3.0  # seconds for which the end waits for a turn


class RunScheduler:
    """The threads, and the runs that wait for a turn."""

    def __init__(self, threads: int = 2):
        self.runs: dict[str, LiveRun] = {}
        self._visitors: dict[str, int] = {}
        self._waiting: list[LiveRun] = []
        self._sketching: list[LiveRun] = []
        self._cold: list[Settings] = []
        self._changed = threading.Condition()
        self._closed = False
        self._warming = False
        kinds = [self._work] * threads + [self._greet]
        self._threads = [threading.Thread(target=work, daemon=True) for work in kinds]
        for thread in self._threads:
            thread.start()

    def start(self, settings: Settings, visitor: str = "") -> LiveRun:
        """The run with these settings, a new one if nobody has it; a sentence says so if there is no room."""
        wanted = alike(settings)
        with self._changed:
            run = next((run for run in self.runs.values() if run.settings == wanted and not run.trouble), None)
            if visitor and self._visitors.get(visitor, 0) >= MOST_OF_ONE:
                pages = f"you have {MOST_OF_ONE} pages open here already"
                raise SphereflowError(f"{pages}; close one of them, and this one goes on by itself.")
            if run is None or not run.viewers:
                self._find_room(run or LiveRun(wanted))
            if visitor:
                self._visitors[visitor] = self._visitors.get(visitor, 0) + 1
            if run is not None:
                run.viewers += 1
                return run
            run = LiveRun(wanted)
            self.runs[run.name] = run
            self._waiting.append(run)
            self._changed.notify_all()
        return run

    def _find_room(self, run: LiveRun) -> None:
        watched = [each for each in self.runs.values() if each.viewers]
        if len(watched) >= MOST_RUNS:
            raise SphereflowError("too many visitors are here at the moment; this page asks again by itself.")
        if sum(each.weight for each in watched) + run.weight > MOST_BYTES:
            raise SphereflowError(
                "the runs of all visitors fill the memory that the server may use; "
                "this page asks again by itself, and fewer tokens may be computed at once."
            )

    def cancel(self, run: LiveRun, visitor: str = "") -> None:
        """A visitor leaves a run; if it was the last one, it stops after its present turn, or is kept if it is over."""
        with self._changed:
            if self._visitors.get(visitor, 0) > 1:
                self._visitors[visitor] -= 1
            else:
                self._visitors.pop(visitor, None)
            run.viewers -= 1
            if run.viewers > 0:
                return
            if run.done:
                self.runs[run.name] = self.runs.pop(run.name, run)  # the last one to be forgotten
                idle = [each for each in self.runs.values() if not each.viewers]
                while sum(each.weight for each in idle) > _KEPT_BYTES:
                    self.runs.pop(idle.pop(0).name)
                return
            run.cancelled = True
            self.runs.pop(run.name, None)
            for line in (self._waiting, self._sketching):
                if run in line:
                    line.remove(run)
        run.tell()

    @property
    def computing(self) -> int:
        """How many runs share the processor."""
        return sum(not run.over for run in tuple(self.runs.values()))

    def warm(self, presets: Iterable[Settings]) -> None:
        """Compile what these runs need, one after the other, while nobody waits for anything."""
        with self._changed:
            self._cold = list(presets)
            self._changed.notify_all()

    def close(self) -> bool:
        """Let the present turns end and the threads with them; says whether they did."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_PATIENCE)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        """Accurate turns, for the one who has used least."""
        while True:
            with self._changed:
                run = self._next()
                while run is None and not self._closed:
                    self._changed.wait()
                    run = self._next()
                if run is None or self._closed:
                    return
                ahead, run.greeted = run.cancelled, True
            if ahead:
                run.advance()  # the first tokens; the turn below compiles the rest
            run.advance()
            with self._changed:
                self._warming = self._warming and not ahead
                self._queue(run)
                self._changed.notify_all()

    def _greet(self) -> None:
        """First tokens and rough frames."""
        while True:
            with self._changed:
                run = self._next_rough()
                while run is None and not self._closed:
                    self._changed.wait()
                    run = self._next_rough()
                if run is None or self._closed:
                    return
                new, run.greeted = not run.greeted, True
            if new:
                run.advance()
            else:
                run.sketch()
            with self._changed:
                if new:
                    self._queue(run)
                    self._changed.notify_all()
                else:
                    if run.wants_sketch:
                        self._sketching.append(run)
                    self._changed.notify_all()

    def _queue(self, run: LiveRun) -> None:
        if run.over or self._closed:
            return
        self._waiting.append(run)
        if len(run.recorded) == 1 and not run.cancelled:
            self._sketching.append(run)

    def _next(self) -> LiveRun | None:
        """The run that has the next turn, or a preset to compile; never two presets: a visitor finds a thread.

        A run whose rough frames are about to begin waits for the first of them, which its compilation would hold up.
        """
        ready = [run for run in self._waiting if not run.awaits_sketch]
        if ready:
            run = min(ready, key=lambda waiting: waiting.spent)
            self._waiting.remove(run)
            return run
        if self._warming or not self._cold:
            return None
        self._warming = True
        run = LiveRun(self._cold.pop(0))
        run.cancelled = True  # nobody will look at it
        return run

    def _next_rough(self) -> LiveRun | None:
        """Who has seen nothing yet, or else has the fewest rough frames."""
        new = next((run for run in self._waiting if not run.greeted), None)
        if new is not None:
            self._waiting.remove(new)
            return new
        self._sketching = [run for run in self._sketching if run.wants_sketch]
        if not self._sketching:
            return None
        run = min(self._sketching, key=lambda run: len(run.rough))
        self._sketching.remove(run)
        return run
