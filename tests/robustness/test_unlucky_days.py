"""Full disks, folders that refuse, no home, clocks that jump, Ctrl-C and kill -9: nothing is lost, nothing is half."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confinement import version
from fuzzing import environment
from playground import lay_out

import sphereflow as sf
from sphereflow.progress import progress_bar

pytestmark = pytest.mark.timeout(1800)  # a busy machine is slow
HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "sphereflow"]
# A shell's background job starts with Ctrl-C ignored, and hands that on; this process takes it up again.
LISTENING = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from sphereflow.cli import main; "
    "print('listening', flush=True); main()",
]


def run(arguments, cwd, program=COMMAND, **options):
    return subprocess.run(
        [*program, *arguments.split()], cwd=cwd, capture_output=True, text=True, timeout=600, check=False, **options
    )


def assert_one_sentence(done):
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("sphereflow: cannot write"), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def with_small_files(most):
    """The command line where no file may be longer than so many bytes, as on a disk that fills up.

    It writes no bytecode: what Python would keep of a library that it imports here for the first time would be cut.
    """
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"
    return [sys.executable, "-B", "-c", f"{limit}; from sphereflow.cli import main; main()"]


WRITING = {
    "simulate --n 400 --t1 0.1 --saves 50 --out run.zarr": 20_000,
    "simulate --n 8 --t1 0.1 --saves 9 --movie film.mp4": 2_000,
    "staircase --n 4 --beta 50 --out history.npz": 200,
    "landscape --beta 2 --out found": 4_000,
}
MARKS: tuple[tuple, ...] = ((pytest.mark.slow,), (pytest.mark.slow,), (pytest.mark.slow,), ())


@pytest.mark.slow
@pytest.mark.parametrize("line", [pytest.param(line, marks=marks) for line, marks in zip(WRITING, MARKS, strict=True)])
def test_a_full_disk_leaves_one_sentence_and_nothing_else(tmp_path, line):
    done = run(line, tmp_path, with_small_files(WRITING[line]), env=os.environ | {"SPHEREFLOW_CACHE": "off"})
    assert_one_sentence(done)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_long_run_on_a_disk_that_fills_up_goes_on_when_there_is_room(tmp_path):
    line = "simulate --n 600 --t1 0.1 --saves 4 --out run.zarr"
    done = run(line, tmp_path, with_small_files(5_000), env=os.environ | {"SPHEREFLOW_CACHE": "off"})
    assert_one_sentence(done)
    assert not (tmp_path / "run.zarr").exists()
    assert run(line, tmp_path).returncode == 0
    assert len(sf.load(tmp_path / "run.zarr")) == 4
    assert os.listdir(tmp_path) == ["run.zarr"]


@pytest.mark.slow
def test_an_output_that_takes_nothing_is_one_sentence(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "info"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert_one_sentence(done)


@pytest.mark.fast_cases("transport apply schedule.json points.npy")
@pytest.mark.skipif(version() < 3, reason="the superuser may write anywhere, except where the kernel forbids it")
@pytest.mark.parametrize(
    "line",
    ["sweep spec.toml --out new.zarr", "transport apply schedule.json points.npy"],
)
def test_a_folder_that_cannot_be_written_is_named_before_the_work(tmp_path, line):
    sandbox, folder = tmp_path / "sandbox", tmp_path / "folder"
    sandbox.mkdir()
    lay_out(folder, sweep=False)
    before = sorted(os.listdir(folder))
    program = [sys.executable, str(HERE / "confinement.py"), str(sandbox)]
    assert_one_sentence(run(line, folder, program, env=environment(sandbox)))
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("cache", ["file/cache", pytest.param(None, marks=pytest.mark.slow)])
def test_no_home_and_no_cache_are_no_trouble(tmp_path, cache):
    (tmp_path / "file").touch()
    bare = {"PATH": "/usr/bin:/bin"} | ({} if cache is None else {"SPHEREFLOW_CACHE": cache})
    done = run("simulate --n 8 --t1 0.1 --saves 3", tmp_path, env=bare)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_with_spaces_and_letters_of_all_kinds(tmp_path):
    folder = tmp_path / "ü ñ 漢字 'quoted' $HOME"
    folder.mkdir()
    run_ = sf.simulate(n=8, d=3, t1=0.1, saves=2)
    run_.save(folder / "a b é.zarr")
    assert len(sf.load(folder / "a b é.zarr")) == 2
    assert os.listdir(folder) == ["a b é.zarr"]


def test_a_clock_that_runs_backwards_changes_no_duration(monkeypatch, tmp_path):
    """Durations come from the clock that cannot be set; only dates come from the other one."""
    ticks = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(ticks)))
    found = sf.simulate(n=8, d=3, t1=0.05, saves=3, out=tmp_path / "run.zarr", progress=False)
    assert 0 <= found.seconds < 3600  # one turn of that clock
    with progress_bar("work", False, total=2) as bar:
        bar.advance()
        bar.advance()
    source = Path(sf.__file__).parent
    asked = [file for file in source.rglob("*.py") if "time.time(" in file.read_text(encoding="utf-8")]
    assert asked == []


# Each long command, what tells that it is under way, and the name that must not be there before it is whole.
LONG = {
    "simulate --n 1500 --t1 200 --saves 4000 --out run.zarr": ("run.zarr.partial/checksum/c/3", "run.zarr"),
    "simulate --n 24 --d 3 --beta 300 --seed 2 --t1 inf --out history.npz": (
        "history.npz.checkpoint",
        "history.npz",
    ),
}


def started(line, folder, program=LISTENING):
    under_way, _ = LONG[line]
    process = subprocess.Popen(
        [*program, *line.split()], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 600
    while not (folder / under_way).exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("line", LONG)
@pytest.mark.parametrize("blow", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_command_that_is_stopped_leaves_no_result_but_can_go_on(tmp_path, line, blow):
    under_way, result = LONG[line]
    process = started(line, tmp_path)
    process.send_signal(blow)
    _, errors = process.communicate(timeout=600)
    assert not (tmp_path / result).exists()
    if blow is signal.SIGINT:
        assert process.returncode == 130
        assert errors.count("\n") == 1
        assert "continues from there" in errors
    if under_way.endswith(".checkpoint"):
        assert (tmp_path / under_way).stat().st_size > 0
        done = run(line, tmp_path)
        assert done.returncode == 0, done.stderr
        assert sf.load(tmp_path / result).count == 1
    else:
        assert len(sf.load(tmp_path / "run.zarr.partial")) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("pause", [0.3, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("transport fit --source gaussian --target two-modes --method train", {"schedule.json", "schedule.png"}),
        ("memory phases --out found", {"found"}),
        ("reproduce kde-modes --out report", {"report"}),
        ("landscape --d 3 --beta 4 --out found", {"found"}),
        ("sweep clustering --out cells.zarr", {"cells.zarr", "cells.zarr.journal", ".cells.zarr.new"}),
    ],
)
def test_a_command_stopped_at_any_time_leaves_whole_results_or_none(tmp_path, line, names, pause, blow):
    """Any time: the pauses only spread the blows over the work, wherever that is then."""
    with subprocess.Popen(
        [*LISTENING, *line.split()], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "listening\n"
        time.sleep(pause)
        process.send_signal(blow)
        _, errors = process.communicate(timeout=600)
    left = set(os.listdir(tmp_path))
    assert {name for name in left if not name.startswith(".")} <= names
    if blow is signal.SIGINT:
        assert process.returncode in (0, 130), errors
        assert not {name for name in left if name.startswith(".")}
