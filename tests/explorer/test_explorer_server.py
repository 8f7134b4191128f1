"""How the server starts and ends, and how runs share its threads."""

from __future__ import annotations

import dataclasses
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.explorer import live
from sphereflow.explorer import scheduler as schedulers
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.explorer.simulation import Stuck

SETTINGS = Settings(model="common", n=8, d=3, t1=1.0, pull=0.0)


def test_a_port_in_use_is_one_sentence_and_exit_code_2():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "sphereflow", "explore", "--no-browser", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        f"sphereflow: port {port} is in use already; choose another with --port, or --port 0 for any that is free."
    )


def test_a_missing_extra_is_one_sentence_and_exit_code_2():
    program = (
        "import sys; sys.modules['nicegui'] = None; sys.argv = ['sphereflow', 'explore', '--no-browser', '--port=0'];"
        "from sphereflow.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        "sphereflow: the explorer needs the package 'nicegui': install it with pip install 'sphereflow[explore]'."
    )


def wait(condition) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def scheduler() -> Iterator[schedulers.RunScheduler]:
    made = schedulers.RunScheduler(threads=1)
    yield made
    made.close()


def test_a_run_is_recorded_and_exported(scheduler: schedulers.RunScheduler):
    run = scheduler.start(SETTINGS)
    wait(lambda: run.over)
    assert run.done
    assert len(run.recorded) == INTERVALS + 1
    assert {len(frame) for frame in run.recorded} == {104 + 8 * SETTINGS.n}
    trajectory = run.trajectory()
    assert trajectory.status.complete
    assert np.allclose(np.linalg.norm(trajectory.xs, axis=-1), 1)
    assert b"<h1>A &lt;title&gt;</h1>" in run.webpage("A <title>", "")


def test_whoever_used_least_has_the_next_turn(scheduler: schedulers.RunScheduler):
    assert scheduler.close()  # its threads are gone: who is next is asked here
    heavy, light, new = (scheduler.start(Settings(seed=seed)) for seed in range(3))
    heavy.spent, light.spent, new.spent = 10.0, 1.0, 5.0
    heavy.greeted = light.greeted = True
    assert scheduler._next_rough() is new
    assert scheduler._next_rough() is None
    assert scheduler._next() is light
    assert scheduler._next() is heavy
    assert scheduler._next() is None


def test_presets_are_compiled_one_at_a_time_and_after_the_visitors(scheduler: schedulers.RunScheduler):
    assert scheduler.close()
    visitor = scheduler.start(Settings(seed=1))
    scheduler.warm([Settings(seed=2), Settings(seed=3)])
    assert scheduler._next() is visitor
    assert scheduler._next_rough() is None
    assert scheduler._next().settings.seed == 2
    assert scheduler._next() is None  # the other thread stays free


def test_tokens_move_while_every_thread_compiles(scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch):
    """No accurate frame can come; the rough ones do, and are no part of what is exported."""
    release, busy = threading.Event(), threading.Event()

    def endless(settings, x0):
        yield [(0.0, x0, 0.0)]
        busy.set()
        release.wait(600)
        yield [(1.0, x0, 0.0)]

    monkeypatch.setattr(live, "frames", endless)
    scheduler.start(SETTINGS)
    assert busy.wait(600)
    second = scheduler.start(Settings(n=9, d=3, t1=1.0))
    wait(lambda: len(second.rough) == INTERVALS + 1)
    assert len(second.recorded) == len(second.times) == len(second.tokens) == 1
    assert {len(frame) for frame in second.rough} == {104 + 8 * 9}
    assert not second.over
    assert not second.wants_sketch
    assert len(second.trajectory()) == 1
    release.set()


def test_a_run_waits_with_compiling_for_its_first_rough_frame(scheduler: schedulers.RunScheduler):
    assert scheduler.close()
    run = scheduler.start(Settings(n=8, t1=1.0))
    assert scheduler._next_rough() is run
    run.greeted = True
    run.advance()
    scheduler._closed = False
    scheduler._queue(run)
    assert scheduler._next() is None
    assert scheduler._next_rough() is run
    run.sketch()
    assert len(run.rough) > 1
    assert scheduler._next() is run


def test_visitors_who_ask_for_the_same_run_share_it(scheduler: schedulers.RunScheduler):
    first = scheduler.start(SETTINGS)
    assert scheduler.start(dataclasses.replace(SETTINGS, speed=4.0)) is first
    assert scheduler.start(dataclasses.replace(SETTINGS, seed=9)) is not first
    scheduler.cancel(first)
    assert not first.cancelled
    wait(lambda: first.over)
    scheduler.cancel(first)
    assert first.done
    assert scheduler.start(SETTINGS) is first  # it is kept for the next who asks


def test_runs_that_nobody_watches_are_forgotten_when_room_is_scarce(
    scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(schedulers.LiveRun, "advance", lambda self: setattr(self, "done", True))
    monkeypatch.setattr(schedulers, "_KEPT_BYTES", 2 * live.LiveRun(SETTINGS).weight)
    runs = [scheduler.start(dataclasses.replace(SETTINGS, seed=seed)) for seed in range(4)]
    wait(lambda: all(run.done for run in runs))
    for run in runs:
        scheduler.cancel(run)
    assert list(scheduler.runs.values()) == runs[2:]


def test_a_cancelled_run_stops_and_is_forgotten(scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch):
    turns = []

    class Endless(schedulers.LiveRun):
        def advance(self) -> None:
            turns.append(self)

    monkeypatch.setattr(schedulers, "LiveRun", Endless)
    run, other = scheduler.start(Settings()), scheduler.start(Settings(seed=1))
    wait(lambda: turns.count(run) > 2)
    scheduler.cancel(run)
    assert run.name not in scheduler.runs
    before = turns.count(run)
    seen = turns.count(other)
    wait(lambda: turns.count(other) > seen + 10)
    assert turns.count(run) <= before + 1  # the turn during which it was cancelled


def test_limits_are_told_in_a_sentence(scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schedulers.LiveRun, "advance", lambda self: setattr(self, "done", True))
    monkeypatch.setattr(schedulers, "MOST_RUNS", 2)
    runs = [scheduler.start(Settings(seed=seed)) for seed in range(2)]
    with pytest.raises(SphereflowError, match="too many visitors"):
        scheduler.start(Settings(seed=5))
    assert scheduler.start(Settings(seed=1)) is runs[1]  # one more who watches it is no further run
    scheduler.cancel(runs[0])
    monkeypatch.setattr(schedulers, "MOST_BYTES", 2 * runs[0].weight)
    with pytest.raises(SphereflowError, match="fewer tokens may be computed at once"):
        scheduler.start(Settings(seed=5, n=2 * Settings().n))
    monkeypatch.setattr(schedulers, "MOST_OF_ONE", 2)
    for _ in range(2):
        scheduler.start(Settings(seed=1), "somebody")
    with pytest.raises(SphereflowError, match="you have 2 pages open here already; close one of them"):
        scheduler.start(Settings(seed=1), "somebody")
    scheduler.start(Settings(seed=1), "somebody else")
    scheduler.cancel(runs[1], "somebody")
    scheduler.start(Settings(seed=1), "somebody")


def test_a_run_that_cannot_go_on_says_so(monkeypatch: pytest.MonkeyPatch):
    def stuck(settings, x0):
        yield [(0.0, x0, 0.0)]
        raise Stuck("too many steps")

    monkeypatch.setattr(live, "frames", stuck)
    run = live.LiveRun(SETTINGS)
    run.advance()
    run.advance()
    assert run.trouble == "too many steps"
    assert run.over
