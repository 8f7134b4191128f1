"""Runs of many visitors share a few threads: whoever has used the least processor time has the next turn.

So a heavy run slows down itself and not its neighbours, a new visitor is served first, and at most `threads` turns are
computed at once. Nothing here blocks the server: simulations live in their own threads.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.evolution import Status, Trajectory
from sphereflow.evolution.webpage import Camera, Recorder, assemble
from sphereflow.explorer.models import SOLVER, TOL, dynamics, energy_model, first_tokens, python_lines
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.explorer.simulation import Frame, Stuck, frames

MOST_RUNS = 40


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
        self.trouble = ""
        self.spent = 0.0
        x0 = first_tokens(settings)
        self._recorder = Recorder(Camera.facing(x0, settings.model != "euclid"))
        self._turns: Iterator[list[Frame]] = frames(settings, x0)
        self.advance()  # the first tokens are there as soon as the run is

    def advance(self) -> None:
        """Compute the next turn."""
        began = time.thread_time()
        try:
            for t, x, energy in next(self._turns):
                self.recorded.append(self._recorder.record(t, x, energy))
                self.times.append(t)
                self.tokens.append(x.astype(np.float32))
        except StopIteration:
            self.done = True
        except (Stuck, SphereflowError) as trouble:
            self.trouble = str(trouble)
        except Exception as error:  # a thread must outlive a run that fails, and the visitor should know
            self.trouble = f"the simulation failed: {type(error).__name__}"
        if len(self.recorded) == INTERVALS + 1:
            self.done = True
        self.spent += time.thread_time() - began

    @property
    def over(self) -> bool:
        return self.done or self.cancelled or bool(self.trouble)

    def about(self) -> dict[str, Any]:
        """What the player has to know before the first frame."""
        s = self.settings
        angle = np.degrees(self._recorder.delta)
        camera = self._recorder.camera
        touching = f"tokens closer than {angle:.1f}° form a cluster" if camera.on_sphere else ""
        note = " · ".join(part for part in (camera.note, touching) if part)
        curve = energy_model(s)[1]
        return self._recorder.about(s.times, curve=curve, words=s.caption(), logarithmic=s.logarithmic, note=note)

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
            xs /= np.linalg.norm(xs, axis=-1, keepdims=True)
        return Trajectory(
            ts=np.array(self.times[:count]), xs=xs, model=dynamics(s), status=status, tol=TOL, solver=SOLVER,
            engine="direct", engine_error=0.0, steps=count, seconds=self.spent, seed=s.seed,
        )  # fmt: skip


class Crew:
    """The threads, and the runs that wait for a turn."""

    def __init__(self, threads: int = 2):
        self.runs: dict[str, LiveRun] = {}
        self._waiting: list[LiveRun] = []
        self._changed = threading.Condition()
        for number in range(threads):
            threading.Thread(target=self._work, name=f"simulation {number}", daemon=True).start()

    def start(self, settings: Settings) -> LiveRun:
        """A new run; says so in a sentence if too many are kept already."""
        if len(self.runs) >= MOST_RUNS:
            raise SphereflowError("too many visitors are here at the moment; try again in a minute.")
        run = LiveRun(settings)
        with self._changed:
            self.runs[run.name] = run
            self._waiting.append(run)
            self._changed.notify()
        return run

    def cancel(self, run: LiveRun) -> None:
        """Stop a run after its present turn and forget it."""
        with self._changed:
            run.cancelled = True
            self.runs.pop(run.name, None)
            if run in self._waiting:
                self._waiting.remove(run)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                run = min(self._waiting, key=lambda waiting: waiting.spent)
                self._waiting.remove(run)
            run.advance()
            with self._changed:
                if not run.over:
                    self._waiting.append(run)
                    self._changed.notify()
