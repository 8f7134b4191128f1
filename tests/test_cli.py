"""The command line as a user meets it: a process of its own, its two streams and its exit code."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from sphereflow import papers
from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.loading import load

SAMPLES = Path(__file__).parent / "sample_papers"

# The command line with the sample papers of the tests in place of the real ones.
WITH_SAMPLES = (
    f"import sphereflow.papers as p; p.__path__[:] = [{str(SAMPLES)!r}]; from sphereflow.cli import main; main()"
)
ENVIRONMENT = os.environ | {"COLUMNS": "80", "TERM": "dumb", "PYTHONWARNINGS": "error::DeprecationWarning:sphereflow"}


def sphereflow(*arguments, cwd, samples=True, **options):
    program = ["-c", WITH_SAMPLES] if samples else ["-m", "sphereflow"]
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """The command line within this process, in an empty folder: (exit code, output, error stream)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(papers, "__path__", [str(SAMPLES)])
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        code = exit_code(app, [str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return call


def assert_one_sentence(code, output, errors):
    """Nothing on the output, one line on the error stream, and exit code 2."""
    assert code == 2, errors
    assert output == ""
    assert errors.startswith("sphereflow: ")
    assert errors.count("\n") == 1
    assert errors.endswith((".\n", "?\n"))
    assert "Traceback" not in errors


def test_help_names_the_commands_and_fits_the_terminal(tmp_path):
    done = sphereflow("--help", cwd=tmp_path, samples=False)
    assert done.returncode == 0
    for command in ("reproduce", "papers", "simulate", "info"):
        assert command in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_papers_are_listed(here):
    code, output, _ = here("papers")
    assert code == 0
    assert "sample-circles" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.slow
def test_a_report_is_compared_with_an_earlier_one(tmp_path):
    assert sphereflow("reproduce", "sample-circles", cwd=tmp_path).returncode == 0
    earlier = tmp_path / "report" / "results.json"
    (tmp_path / "then.json").write_text(earlier.read_text().replace('"verdict": "obeyed"', '"verdict": "holds"'))
    same, other = (
        sphereflow("reproduce", "sample-circles", "--against", path, cwd=tmp_path) for path in ("report", "then.json")
    )
    assert (same.returncode, other.returncode) == (0, 1)
    assert "3 claims in both reports, 0 with another verdict" in same.stdout.replace("\n", " ")
    assert ": holds before, obeyed now" in other.stdout


def test_a_paper_that_holds_is_reproduced(tmp_path):
    done = sphereflow("reproduce", "sample-circles", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "sample-circles: 1 holds, 1 obeyed, 1 refuted in " in done.stdout
    assert "refuted too-round: A polygon with 100,000 sides" in done.stdout
    assert lines[-1] == f"report: {tmp_path / 'report' / 'index.html'}"
    assert max(map(len, lines[:-1])) <= 80
    assert (tmp_path / "report" / "index.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "report" / "results.json").read_text())["verdicts"]["holds"] == 1
    assert sorted(os.listdir(tmp_path / "report")) == [
        "figures",
        "finished",
        "index.html",
        "results.json",
        "sample-circles.html",
    ]


def test_a_claim_that_fails_gives_exit_code_1_and_json_stays_alone_on_the_output(tmp_path):
    done = sphereflow("reproduce", "--json", "--out", "here", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    told = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    circles, trouble = sorted(told, key=lambda paper: paper["paper"])  # whichever was done first
    assert circles["paper"] == "sample-circles"
    assert [claim["verdict"] for claim in circles["claims"]] == ["holds", "obeyed", "refuted"]
    assert {claim["verdict"] for claim in trouble["claims"]} == {"fails", "inconclusive"}
    assert str(tmp_path / "here" / "index.html") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nothing", "no such command 'nothing'"),
        ("reproduce sample-circle", "Did you mean 'sample-circles'?"),
        ("reproduce --preset fast", "preset must be one of quick, paper; got 'fast'"),
        ("reproduce --only belo", "Did you mean 'below'?"),
        ("reproduce --out file/report", "file is not a folder"),
        ("reproduce --sed 1", "see sphereflow reproduce --help"),
        ("reproduce --seed x", "see sphereflow reproduce --help"),
        ("simulate --n -3 --plot x.png", "n must be a whole number of at least 1"),
        ("simulate --beta nan", "beta must be a finite number"),
        ("simulate --model gpt", "model must be one of sa, usa; got 'gpt'"),
        ("simulate --out file", "file: it exists already"),
        ("simulate --plot x.bmp", "--plot must end in .png"),
        ("simulate --movie missing/x.mp4", "the folder missing does not exist"),
    ],
)
def test_a_request_that_cannot_be_served_is_one_sentence(here, tmp_path, arguments, words):
    (tmp_path / "file").touch()
    code, output, errors = here(*arguments.split())
    assert_one_sentence(code, output, errors)
    assert words in errors
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.slow
def test_an_unwritable_folder_is_refused_at_once(tmp_path):
    (tmp_path / "file").touch()
    done = sphereflow("reproduce", "--json", "--out", "file/report", cwd=tmp_path)
    assert_one_sentence(done.returncode, done.stdout, done.stderr)


def test_info_tells_what_is_installed(here):
    facts = json.loads(here("info", "--json")[1])
    assert facts["precision"] == "float64"
    assert facts["matrix_products"] == "highest"
    assert facts["devices"]
    assert set(facts["extras"]) >= {"ot", "fast", "llm"}
    assert "jax" in facts["versions"]
    assert "precision      float64" in here("info")[1]


def test_version(here):
    assert here("--version") == (0, f"sphereflow {version('sphereflow')}\n", "")


@pytest.mark.fast_cases("8")
@pytest.mark.parametrize("n", [8, 501])
def test_simulate_keeps_draws_and_replaces_only_when_told(here, tmp_path, n):
    arguments = ["simulate", "--n", n, "--t1", 0.2, "--saves", 3, "--out", "run.zarr", "--plot", "run.svg"]
    code, output, errors = here(*arguments)
    assert code == 0, errors
    assert f"{n} tokens in dimension 3" in output
    assert sorted(os.listdir(tmp_path)) == ["run.svg", "run.zarr"]
    assert (tmp_path / "run.svg").read_bytes().startswith(b"<?xml")
    assert_one_sentence(*here(*arguments))
    code, _, errors = here(*arguments, "--seed", 1, "--overwrite")
    assert code == 0, errors
    assert sorted(os.listdir(tmp_path)) == ["run.svg", "run.zarr"]
    assert load(tmp_path / "run.zarr").seed == 1


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    script = f'{sys.executable} -c "$PROGRAM" papers --json | true'
    environment = ENVIRONMENT | {"PROGRAM": WITH_SAMPLES}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.slow
def test_ctrl_c_leaves_with_one_sentence(tmp_path):
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "slow_paper.py").write_text(
        "import time\n"
        "from sphereflow.claims import Paper, basis\n"
        "PAPER = Paper('slow-paper', 'Slow', ('A',), 2000, '', '')\n"
        "@PAPER.claim('wait', says='', basis=basis.Abstract())\n"
        "def wait(run):\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
    )
    # A shell's background job starts with Ctrl-C ignored, and hands that on; this process takes it up again.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = listening + WITH_SAMPLES.replace(str(SAMPLES), str(slow))
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        [sys.executable, "-c", program, "reproduce"], cwd=tmp_path, env=ENVIRONMENT, **streams
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "sphereflow: stopped by Ctrl-C; no paper was finished.\n"
    assert not (tmp_path / "report").exists()


@pytest.mark.slow
def test_a_terminal_shows_progress_and_then_the_table(tmp_path):
    """On a terminal the bar appears with an estimate, and is gone from the last lines."""
    leader, follower = pty.openpty()
    environment = ENVIRONMENT | {"TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", WITH_SAMPLES, "reproduce", "sample-circles"],
        cwd=tmp_path,
        env=environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as process:
        os.close(follower)
        shown = _read_all(leader, deadline=time.monotonic() + 100)
    assert process.returncode == 0
    assert "left" in shown
    assert "/4" in shown  # three claims and a figure
    assert "1 holds, 1 obeyed, 1 refuted in " in shown
    assert "/4" not in shown.splitlines()[-1]


def _read_all(terminal: int, deadline: float) -> str:
    pieces = []
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces).decode()
