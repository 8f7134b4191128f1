"""Runs of many visitors share a few threads: whoever has used the least processor time has the next turn.

So a heavy run slows down itself and not its neighbours, and at most `threads` turns are computed at once. One more
thread only draws the first tokens of new runs, which needs no compilation: a visitor sees them even while all others
compile. Nothing here blocks the server: simulations live in their own threads.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.evolution import Status, Trajectory
from sphereflow.evolution.webpage import Camera, Recorder, assemble
from sphereflow.explorer.models import SOLVER, TOL, dynamics, first_tokens, python_lines
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.explorer.simulation import Stuck, frames
from sphereflow.numerics.unit_vectors import unit

MOST_RUNS = 40
_PATIENCE = 3.0  # seconds for which the end waits for a turn


class LiveRun:
    """One run of one visitor: frames as the player reads them, and the tokens for exports."""

    def __init__(self, settings: Settings):
        self.name = secrets.token_urlsafe(16)
        self.settings = settings
        self.recorded: list[bytes] = []
        self.times: list[float] = []
        self.tokens: list[np.ndarray] = []
        self.done = False
        self.cancelled = False
        self.greeted = False  # whether it had a turn
        self.trouble = ""
        self.film: bytes | None = None
        self.spent = 0.0
        self._turns = self._recorded_turns()

    def advance(self) -> None:
        """Compute the next turn."""
        began = time.thread_time()
        try:
            next(self._turns)
        except (Stuck, SphereflowError) as trouble:
            self.trouble = str(trouble)
        except Exception as error:  # a thread must outlive a run that fails, and the visitor should know
            self.trouble = f"the simulation failed: {type(error).__name__}"
        if len(self.recorded) == INTERVALS + 1:
            self.done = True
        self.spent += time.thread_time() - began

    def _recorded_turns(self) -> Iterator[None]:
        """Nothing is drawn or compiled before the first turn, so that a run can be made without waiting."""
        x0 = first_tokens(self.settings)
        recorder = Recorder(Camera.facing(x0, self._on_sphere))
        for turn in frames(self.settings, x0):
            for t, x, energy in turn:
                self.times.append(t)
                self.tokens.append(x.astype(np.float32))
                self.recorded.append(recorder.record(t, x, energy))
            yield

    @property
    def _on_sphere(self) -> bool:
        return self.settings.model != "euclid"

    @property
    def over(self) -> bool:
        return self.done or self.cancelled or bool(self.trouble)

    def about(self) -> dict[str, Any]:
        """What the player has to know before the first frame."""
        s = self.settings
        plain = Recorder(Camera(s.n, s.d, self._on_sphere))
        angle = np.degrees(plain.delta)
        touching = f"tokens closer than {angle:.1f}° form a cluster" if self._on_sphere else ""
        note = " · ".join(part for part in (plain.camera.note, touching) if part)
        curve = "Energy" if s.model in ("sa", "usa", "perceptron") else "Energy of attention"
        return plain.about(s.times, curve=curve, words=s.caption(), logarithmic=s.logarithmic, note=note)

    def webpage(self, title: str, lead: str) -> bytes:
        """The run so far as one HTML file."""
        return assemble(self.about(), list(self.recorded), title=title, lead=lead, code=python_lines(self.settings))

    def trajectory(self) -> Trajectory:
        """The run so far as the library's own result."""
        s = self.settings
        count = len(self.times)
        status = Status.REACHED_END if count == INTERVALS + 1 else Status.INTERRUPTED
        xs = np.stack(self.tokens[:count]).astype(float)
        if s.model != "euclid":
            xs = unit(xs)
        return Trajectory(
            ts=np.array(self.times[:count]),
            xs=xs,
            model=dynamics(s),
            status=status,
            tol=TOL,
            solver=SOLVER,
            engine="direct",
            engine_error=0.0,
            steps=count,
            seconds=self.spent,
            seed=s.seed,
        )


class RunScheduler:
    """The threads, and the runs that wait for a turn."""

    def __init__(self, threads: int = 2):
        self.runs: dict[str, LiveRun] = {}
        self._waiting: list[LiveRun] = []
        self._cold: list[Settings] = []
        self._changed = threading.Condition()
        self._closed = False
        self._warming = False
        kinds = [False] * threads + [True]
        self._threads = [threading.Thread(target=self._work, args=(first,), daemon=True) for first in kinds]
        for thread in self._threads:
            thread.start()

    def start(self, settings: Settings) -> LiveRun:
        """A new run; says so in a sentence if too many are kept already."""
        if len(self.runs) >= MOST_RUNS:
            raise SphereflowError("too many visitors are here at the moment; this page asks again by itself.")
        run = LiveRun(settings)
        with self._changed:
            self.runs[run.name] = run
            self._waiting.append(run)
            self._changed.notify_all()
        return run

    def cancel(self, run: LiveRun) -> None:
        """Stop a run after its present turn and forget it."""
        with self._changed:
            run.cancelled = True
            self.runs.pop(run.name, None)
            if run in self._waiting:
                self._waiting.remove(run)

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

    def _work(self, first_only: bool) -> None:
        while True:
            with self._changed:
                run = self._next(first_only)
                while run is None and not self._closed:
                    self._changed.wait()
                    run = self._next(first_only)
                if run is None or self._closed:
                    return
                ahead, run.greeted = run.cancelled, True
            if ahead:
                run.advance()  # the first tokens; the turn below compiles the rest
            run.advance()
            with self._changed:
                self._warming = self._warming and not ahead
                if not run.over and not self._closed:
                    self._waiting.append(run)
                self._changed.notify_all()

    def _next(self, first_only: bool) -> LiveRun | None:
        """The run that has the next turn, or a preset to compile; never two presets: a visitor finds a thread."""
        candidates = [run for run in self._waiting if not (first_only and run.greeted)]
        if candidates:
            run = min(candidates, key=lambda waiting: waiting.spent)
            self._waiting.remove(run)
            return run
        if first_only or self._warming or not self._cold:
            return None
        self._warming = True
        run = LiveRun(self._cold.pop(0))
        run.cancelled = True  # nobody will look at it
        return run
