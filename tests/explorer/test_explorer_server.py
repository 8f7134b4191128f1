"""How the server starts and ends, and how runs share its threads."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.explorer import crew as crews
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.explorer.simulation import Stuck

SETTINGS = Settings(model="common", n=8, d=3, t1=1.0, pull=0.0)


def test_a_port_in_use_is_one_sentence_and_exit_code_2():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "sphereflow", "explore", "--no-browser", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        f"sphereflow: port {port} is in use already; choose another with --port, or --port 0 for any that is free."
    )


def test_a_missing_extra_is_one_sentence_and_exit_code_2():
    program = (
        "import sys; sys.modules['nicegui'] = None; sys.argv = ['sphereflow', 'explore', '--no-browser', '--port=0'];"
        "from sphereflow.cli import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert ended.stderr.strip() == (
        "sphereflow: the explorer needs the package 'nicegui': install it with pip install 'sphereflow[explore]'."
    )


def wait(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def crew() -> Iterator[crews.Crew]:
    made = crews.Crew(threads=1)
    yield made
    made.close()


def test_a_run_is_recorded_and_exported(crew: crews.Crew):
    run = crew.start(SETTINGS)
    wait(lambda: run.over)
    assert run.done
    assert len(run.recorded) == INTERVALS + 1
    assert {len(frame) for frame in run.recorded} == {104 + 8 * SETTINGS.n}
    trajectory = run.trajectory()
    assert trajectory.status.complete
    assert np.allclose(np.linalg.norm(trajectory.xs, axis=-1), 1)
    assert b"<h1>A &lt;title&gt;</h1>" in run.webpage("A <title>", "")


def test_whoever_used_least_has_the_next_turn(crew: crews.Crew, monkeypatch: pytest.MonkeyPatch):
    order = []

    class Counted(crews.LiveRun):
        def advance(self) -> None:
            time.sleep(0.01)
            order.append(self.settings.seed)
            self.spent += 10.0 if self.settings.seed == 1 else 1.0
            self.done = order.count(self.settings.seed) == 5

    monkeypatch.setattr(crews, "LiveRun", Counted)
    heavy = crew.start(Settings(seed=1))
    light = crew.start(Settings(seed=2))
    wait(lambda: heavy.over and light.over)
    assert order.index(2) <= 1
    assert order[order.index(2) :][:5].count(2) >= 4  # the light one is through before the heavy one goes on


def test_a_cancelled_run_stops_and_is_forgotten(crew: crews.Crew, monkeypatch: pytest.MonkeyPatch):
    turns = []

    class Endless(crews.LiveRun):
        def advance(self) -> None:
            time.sleep(0.005)
            turns.append(self)

    monkeypatch.setattr(crews, "LiveRun", Endless)
    run = crew.start(Settings())
    wait(lambda: len(turns) > 2)
    crew.cancel(run)
    assert run.name not in crew.runs
    time.sleep(0.05)
    count = len(turns)
    time.sleep(0.1)
    assert len(turns) == count


def test_too_many_runs_are_refused(crew: crews.Crew, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(crews, "MOST_RUNS", 1)
    monkeypatch.setattr(crews.LiveRun, "advance", lambda self: setattr(self, "done", True))
    crew.start(Settings())
    with pytest.raises(SphereflowError, match="too many visitors"):
        crew.start(Settings())


def test_a_run_that_cannot_go_on_says_so(monkeypatch: pytest.MonkeyPatch):
    def stuck(settings, x0):
        yield [(0.0, x0, 0.0)]
        raise Stuck("too many steps")

    monkeypatch.setattr(crews, "frames", stuck)
    run = crews.LiveRun(SETTINGS)
    run.advance()
    run.advance()
    assert run.trouble == "too many steps"
    assert run.over
