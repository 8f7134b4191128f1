"""The command: killed in the middle it goes on to the same numbers; files that cannot be used are refused."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from sphereflow.cli.drift import app


def command(*words):
    return [sys.executable, "-m", "sphereflow", "drift", *words]


def asked(path):
    return ("train", "swiss-roll", "--out", str(path), "--steps", "200", "--batch", "32")


@pytest.mark.slow
def test_killed_and_continued_is_the_same_as_never_stopped(tmp_path):
    path = tmp_path / "killed.npz"
    running = subprocess.Popen(command(*asked(path)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not path.exists() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    runner = CliRunner()
    again = runner.invoke(app, list(asked(path)))
    assert again.exit_code == 0, again.output
    assert "of a Gaussian" in again.output
    assert runner.invoke(app, list(asked(tmp_path / "whole.npz"))).exit_code == 0
    with np.load(path) as a, np.load(tmp_path / "whole.npz") as b:
        assert a.files == b.files
        for name in a.files:
            np.testing.assert_array_equal(a[name], b[name])
    drawn = runner.invoke(app, ["sample", str(path), "-n", "50", "--out", str(tmp_path / "s.npy")])
    assert drawn.exit_code == 0, drawn.output
    assert np.load(tmp_path / "s.npy").shape == (50, 2)
    other = runner.invoke(app, [*asked(path), "--rate", "0.01"])
    assert "rate" in str(other.exception)


@pytest.mark.slow
def test_translate_from_two_files(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.normal(size=(200, 36)))
    np.save(tmp_path / "b.npy", rng.normal(size=(200, 36)) + 1)
    words = ["translate", "--source", str(tmp_path / "a.npy"), "--target", str(tmp_path / "b.npy"), "--out",
             str(tmp_path / "out"), "--components", "2", "--budgets", "5", "--seeds", "2", "--batch", "16",
             "--methods", "drift,affine"]  # fmt: skip
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    lines = (tmp_path / "out" / "table.csv").read_text().splitlines()
    assert len(lines) == 5
    for name in ("quality.png", "images.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_unusable_files_are_refused_and_nothing_is_written(tmp_path):
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    for words, part in (
        (["train", "moebius", "--out", str(tmp_path / "m.npz")], "no law or file"),
        (["train", str(tmp_path / "words.npy"), "--out", str(tmp_path / "m.npz")], "rows of numbers"),
        (["sample", str(tmp_path / "words.npy"), "--out", str(tmp_path / "s.npy")], "not a drifting generator"),
        (["translate", "--source", str(tmp_path / "words.npy"), "--out", str(tmp_path / "o")], "no array 'latents'"),
    ):
        told = CliRunner().invoke(app, words)
        assert told.exit_code != 0
        assert part in str(told.exception), (words, told.exception)
    assert not (tmp_path / "m.npz").exists()
    assert not (tmp_path / "s.npy").exists()
