"""Whatever is typed, a command ends with a result or with one sentence, and never leaves anything half written.

The lines are drawn from the tree of commands (`hostile_lines`); run `python tests/robustness/fuzzing.py 0 500` to see
all of them judged, one by one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confinement import version
from fuzzing import Server, Tally, environment, faults
from hostile_lines import CHEAP, commands, hostile_line
from playground import lay_out

from sphereflow.cli import app

pytestmark = [
    pytest.mark.skipif(version() < 3, reason="hostile lines are run only where the kernel confines them"),
    pytest.mark.timeout(1800),  # a busy machine is slow
]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    lay_out(place / "template")
    return place


def judged(sandbox, numbers):
    server, tally = Server(sandbox / "template"), Tally()
    try:
        for number in numbers:
            line = hostile_line(app, number)
            tally.take(line, server.ask(line))
    finally:
        server.close()
    print(tally)
    return tally


def assert_all_end_well(tally):
    assert not tally.bad, "\n".join(f"{line} -> {wrong}\n{answer['crash']}" for line, wrong, answer in tally.bad)
    assert set(tally.codes) <= {0, 1, 2, 130}
    assert tally.codes[2] > tally.codes.total() / 3  # the lines are hostile indeed
    assert tally.peak < 6 * 2**30


def test_every_command_is_among_the_hostile_lines():
    assert set(commands(app)) == set(CHEAP)


def test_hostile_lines_end_well(sandbox):
    assert_all_end_well(judged(sandbox, range(1000, 1006)))


@pytest.mark.slow
def test_hundreds_of_hostile_lines_end_well(sandbox):
    assert_all_end_well(judged(sandbox, [*range(500), *range(1006, 1040)]))


SIZES = [
    "simulate --n 100000000 --d 100000",
    "simulate --n 8 --saves 1000000000000",
    "simulate --seed " + "9" * 30,
    "landscape --d 1000000000",
    "landscape --neurons 1000000000000",
    "collapse --n 1000000000000 --repeats 0",
    "transport fit --source gaussian --target two-modes --pieces 1000000000000",
    "sweep huge.toml --out new.zarr",
    "retrieval --n 64 --repeats 4 --vocab 4000000000000000000",
    "memory recall points.npy huge.npy",
    "sweep spec.toml --out new.zarr --workers 1000000",
    "reproduce sample-circles --jobs 1000000",
]


@pytest.mark.slow
def test_sizes_beyond_the_machine_are_refused_before_memory_is_spent(sandbox):
    server = Server(sandbox / "template", patience=30.0)
    try:
        for line in SIZES:
            answer = server.ask(line.split())
            assert faults(answer) == [], line
            assert answer["code"] == 2, line
            assert answer["peak"] < 2 * 2**30, line
    finally:
        server.close()


def in_a_process(sandbox, line, number):
    """The same through the door that users take; confined, because the line is hostile."""
    here = sandbox / f"real-{number}"
    lay_out(here, sweep=False)
    before = sorted(os.listdir(here))
    program = [sys.executable, str(Path(__file__).with_name("confinement.py")), str(sandbox), *line]
    done = subprocess.run(program, cwd=here, env=environment(sandbox), capture_output=True, timeout=600, check=False)
    return done.returncode, done.stderr.decode(), sorted(os.listdir(here)) == before


def refused_lines():
    """Lines that are refused at once: a real process is about the door, not about long work."""
    fixed = [
        ["simulate", "--n", "-3"],
        ["transport", "apply", "schedule.json", "points.npy", "--picture", "../outside"],
    ]
    more = [
        ["simulate", "--plot", "x" * 300],
        ["plot", "folder"],
        ["landscape", "--weights", "deep.json"],
        ["memory", "recall", "objects.npy", "points.npy"],
        ["simulate", "--beta", "1e400"],
        ["simulate", "--t1", "nan"],
        ["simulate", "--model", "漢字"],
        ["sweep"],
        ["sweep", "bad.toml", "--out", "x.zarr"],
        ["reproduce", "nothing"],
        ["retrieval", "--heads", "list.json"],
        ["transport", "fit", "--source", "huge.npy", "--target", "gaussian"],
        ["measure", "../missing"],
        ["nothing"],
        ["collapse", "--step", "1e300"],
        ["staircase", "--n", "1"],
        ["memory", "phases", "--sizes", "x"],
    ]
    return [*fixed, *(pytest.param(line, marks=pytest.mark.slow) for line in more)]


@pytest.mark.parametrize("line", refused_lines(), ids=lambda line: " ".join(line)[:40].encode("ascii", "replace"))
def test_real_processes_refuse_in_one_sentence(sandbox, line, request):
    code, errors, untouched = in_a_process(sandbox, line, abs(hash(request.node.name)))
    assert code == 2, errors
    assert errors.startswith("sphereflow: ")
    assert errors.count("\n") == 1
    assert "\x1b" not in errors
    assert len(errors) < 1000
    assert untouched
