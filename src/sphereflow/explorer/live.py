"""One run as many browsers may watch it: rough frames first, accurate ones as they come, tokens for exports."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.evolution import Status, Trajectory
from sphereflow.evolution.webpage import Camera, Recorder, assemble
from sphereflow.explorer.models import SOLVER, TOL, dynamics, first_tokens, python_lines
from sphereflow.explorer.preview import ROUGH, rough_frames
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.explorer.simulation import Stuck, frames
from sphereflow.numerics.unit_vectors import unit

_SKETCH_TURN = 0.1  # processor seconds of a turn of the rough run, and of all its turns together
_MOST_SKETCHING = 20.0


class LiveRun:
    """One run: frames as the player reads them, and the tokens for exports.

    `recorded` holds accurate frames; `rough` those of the rough run, of which the first is accurate too. Exports are
    made of the accurate ones only.
    """

    def __init__(self, settings: Settings):
        self.name = secrets.token_urlsafe(16)
        self.settings = alike(settings)
        self.recorded: list[bytes] = []
        self.rough: list[bytes] = []
        self.times: list[float] = []
        self.tokens: list[np.ndarray] = []
        self.viewers = 1
        self.done = False
        self.cancelled = False
        self.greeted = False  # whether it had a turn
        self.trouble = ""
        self.film: bytes | None = None
        self.spent = 0.0
        self.sketched = 0.0
        self._moving: tuple[float, int] | None = None  # when frames began to come, and how many there were
        self.listeners: set[Callable[[], None]] = set()  # called when there is something new, in the thread that has it
        self._turns = self._recorded_turns()
        self._sketch: Iterator[None] | None = None

    def advance(self) -> None:
        """Compute the next turn."""
        began = time.thread_time()
        self._guarded(self._turns)
        if len(self.recorded) == INTERVALS + 1:
            self.done = True
        if self._moving is None and len(self.recorded) > 1:
            self._moving = time.monotonic(), len(self.recorded)
        self.spent += time.thread_time() - began
        self.tell()

    @property
    def wants_sketch(self) -> bool:
        """Whether the rough run is ahead of the accurate one, or could be."""
        begun, ahead = len(self.recorded) > 0, len(self.recorded) == 1 or len(self.rough) > len(self.recorded)
        return begun and ahead and not self.over and len(self.rough) <= INTERVALS and self.sketched < _MOST_SKETCHING

    @property
    def awaits_sketch(self) -> bool:
        """Whether the first rough frame that moves is still to come."""
        return self.wants_sketch and len(self.rough) < 2

    def sketch(self) -> None:
        """Compute the next turn of the rough run."""
        began, frames_before = time.thread_time(), len(self.rough)
        if self._sketch is None:
            self._sketch = self._rough_turns()
        while len(self.rough) <= INTERVALS and time.thread_time() - began < _SKETCH_TURN:
            try:
                next(self._sketch)
            except Exception:  # the accurate run says what is wrong with it; this one is only given up
                self.sketched = _MOST_SKETCHING
                break
        self.sketched += time.thread_time() - began
        if len(self.rough) > frames_before:
            self.tell()

    def tell(self) -> None:
        """Let all who wait for frames look again."""
        for listener in tuple(self.listeners):
            listener()

    def _guarded(self, turns: Iterator[None]) -> None:
        try:
            next(turns)
        except (Stuck, SphereflowError) as trouble:
            self.trouble = str(trouble)
        except Exception as error:  # a thread must outlive a run that fails, and the visitor should know
            self.trouble = f"the simulation failed: {type(error).__name__}"

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

    def _rough_turns(self) -> Iterator[None]:
        x0 = self.tokens[0].astype(float)
        recorder = Recorder(Camera.facing(x0, self._on_sphere))
        self.rough.append(recorder.record(0.0, x0, float("nan")))
        for frame in rough_frames(self.settings, x0):
            if frame is not None:
                self.rough.append(recorder.record(*frame))
            yield

    @property
    def _on_sphere(self) -> bool:
        return self.settings.model != "euclid"

    @property
    def over(self) -> bool:
        return self.done or self.cancelled or bool(self.trouble)

    @property
    def weight(self) -> int:
        """Bytes of a run that is complete, about: frames and tokens, and as many rough frames."""
        s = self.settings
        return (INTERVALS + 1) * s.n * (2 * 8 + 4 * s.d)

    def seconds_left(self) -> float:
        """How long the accurate run will still take, by what it took so far; not a number before anybody can know."""
        since, first = self._moving or (0.0, INTERVALS)
        have = len(self.recorded)
        if have <= first:
            return float("nan")
        return (time.monotonic() - since) / (have - first) * (INTERVALS + 1 - have)

    def about(self) -> dict[str, Any]:
        """What the player has to know before the first frame."""
        s = self.settings
        plain = Recorder(Camera(s.n, s.d, self._on_sphere))
        angle = np.degrees(plain.delta)
        touching = f"tokens closer than {angle:.1f}° form a cluster" if self._on_sphere else ""
        note = " · ".join(part for part in (plain.camera.note, touching) if part)
        curve = "Energy" if s.model in ("sa", "usa", "perceptron") else "Energy of attention"
        facts = plain.about(s.times, curve=curve, words=s.caption(), logarithmic=s.logarithmic, note=note)
        return facts | {"rough": ROUGH, "tol": None if s.noisy else TOL}

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


def alike(settings: Settings) -> Settings:
    """The settings of the run, which are the same at whatever speed it is shown."""
    return dataclasses.replace(settings, speed=Settings().speed)
