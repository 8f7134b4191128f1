"""How the server starts and ends, and how runs share its threads."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
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
    assert scheduler._next(first_only=True) is new
    assert scheduler._next(first_only=True) is None
    assert scheduler._next(first_only=False) is light
    assert scheduler._next(first_only=False) is heavy
    assert scheduler._next(first_only=False) is None


def test_presets_are_compiled_one_at_a_time_and_after_the_visitors(scheduler: schedulers.RunScheduler):
    assert scheduler.close()
    visitor = scheduler.start(Settings(seed=1))
    scheduler.warm([Settings(seed=2), Settings(seed=3)])
    assert scheduler._next(first_only=False) is visitor
    assert scheduler._next(first_only=True) is None
    assert scheduler._next(first_only=False).settings.seed == 2
    assert scheduler._next(first_only=False) is None  # the other thread stays free


def test_first_tokens_are_drawn_while_every_thread_is_busy(
    scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch
):
    release, busy = threading.Event(), threading.Event()

    def endless(settings, x0):
        yield [(0.0, x0, 0.0)]
        busy.set()
        release.wait(600)
        yield [(1.0, x0, 0.0)]

    monkeypatch.setattr(schedulers, "frames", endless)
    scheduler.start(SETTINGS)
    assert busy.wait(600)
    second = scheduler.start(SETTINGS)
    wait(lambda: len(second.recorded) == 1)
    assert not second.over
    release.set()


def test_a_cancelled_run_stops_and_is_forgotten(scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch):
    turns = []

    class Endless(schedulers.LiveRun):
        def advance(self) -> None:
            turns.append(self)

    monkeypatch.setattr(schedulers, "LiveRun", Endless)
    run, other = scheduler.start(Settings()), scheduler.start(Settings())
    wait(lambda: turns.count(run) > 2)
    scheduler.cancel(run)
    assert run.name not in scheduler.runs
    before = turns.count(run)
    seen = turns.count(other)
    wait(lambda: turns.count(other) > seen + 10)
    assert turns.count(run) <= before + 1  # the turn during which it was cancelled


def test_too_many_runs_are_refused(scheduler: schedulers.RunScheduler, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schedulers, "MOST_RUNS", 1)
    monkeypatch.setattr(schedulers.LiveRun, "advance", lambda self: setattr(self, "done", True))
    scheduler.start(Settings())
    with pytest.raises(SphereflowError, match="too many visitors"):
        scheduler.start(Settings())


def test_a_run_that_cannot_go_on_says_so(monkeypatch: pytest.MonkeyPatch):
    def stuck(settings, x0):
        yield [(0.0, x0, 0.0)]
        raise Stuck("too many steps")

    monkeypatch.setattr(schedulers, "frames", stuck)
    run = schedulers.LiveRun(SETTINGS)
    run.advance()
    run.advance()
    assert run.trouble == "too many steps"
    assert run.over
