"""`sphereflow landscape` as a user meets it."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code


@pytest.mark.slow
def test_command_prints_and_writes(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "sphereflow", "landscape", "--neurons", "3", "--seed", "2", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    for word in ("angle", "mass", "energy", "gap", "smallest Hessian eigenvalue"):
        assert word in done.stdout
    told = json.loads((tmp_path / "out" / "landscape.json").read_text())
    assert told["gap"] < 1e-10
    with (tmp_path / "out" / "atoms.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["count"]
    assert sum(float(row["mass"]) for row in rows) == pytest.approx(1)
    assert (tmp_path / "out" / "landscape.png").read_bytes().startswith(b"\x89PNG")


def test_weights_from_files_and_both_signs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text("outer,a1,a2\n1.0,1.0,0.0\n")
    (tmp_path / "w.json").write_text(json.dumps({"outer": [1.0], "inner": [[1.0, 0.0]]}))
    assert exit_code(app, ["landscape", "--weights", "w.csv"]) == 0
    first = capsys.readouterr().out
    assert exit_code(app, ["landscape", "--weights", "w.json"]) == 0
    assert capsys.readouterr().out == first
    assert "0.0270340918" in first
    assert exit_code(app, ["landscape", "--weights", "w.json", "--sign", "maximise"]) == 0
    assert "0.6" in capsys.readouterr().out
    assert exit_code(app, ["landscape", "--beta", "2", "--weights", "w.json", "--kernel", "raw"]) == 0
    assert f"{np.exp(2.0) * 0.0895755203116:.8g}"[:9] in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sign", "best"],
        ["--activation", "relux"],
        ["--beta", "-1"],
        ["--beta", "nan"],
        ["--d", "9"],
        ["--weights", "missing.json"],
        ["--weights", "broken.csv"],
        ["--weights", "broken.json"],
        ["--weights", "good.csv", "--neurons", "2"],
        ["--nodes", "3"],
        ["--kernel", "top"],
        ["--out", "good.csv"],
    ],
)
def test_mistakes_are_one_sentence(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text("1.0,1.0,0.0\n")
    (tmp_path / "broken.csv").write_text("1.0,1.0\n1.0,x,2\n")
    (tmp_path / "broken.json").write_text("[1, 2]")
    assert exit_code(app, ["landscape", *arguments]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
