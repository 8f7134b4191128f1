"""The plane of load and temperature: regions against lines, files, and a sweep that survives being killed."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.memory import REFERENCE_B, escape, phase_diagram, spherical, sweep
from sphereflow.memory.pictures import draw

LOADS, TEMPERATURES = np.linspace(0.02, 0.7, 18), np.linspace(0.05, 2.0, 14)


def diagram(kernel, sharpness, **options):
    return phase_diagram(kernel, sharpness, loads=LOADS, temperatures=TEMPERATURES, sizes=(50, 200), **options)


def test_lse_regions_and_escape_times():
    plane = diagram("lse", 1.0)
    for i, t in enumerate(TEMPERATURES):
        for j, a in enumerate(LOADS):
            expected = sum(a < float(f(t, 1.0)) for f in (spherical.spinodal, spherical.static, spherical.equal_depth))
            assert plane.region[i, j] == expected
    i, j = 4, 3
    exact = np.log(escape.escape_time(200, LOADS[j], TEMPERATURES[i]))
    assert plane.log_escape[200][i, j] == pytest.approx(exact, abs=0.02)
    assert (plane.log_escape[200][plane.region == 0] <= 0).all()


def test_crossovers_are_where_the_escape_time_is_the_duration():
    loads = np.linspace(0.02, 0.6, 60)
    plane = phase_diagram("lse", 1.0, loads=loads, temperatures=np.array([0.3]), sizes=(50, 200), duration=1e4)
    for n in (50, 200):
        load = float(plane.crossover(n)[0])
        assert np.log(escape.escape_time(n, load, 0.3)) == pytest.approx(np.log(1e4), abs=0.15)
    assert plane.crossover(50)[0] < plane.crossover(200)[0] < float(spherical.spinodal(0.3, 1.0))


def test_lsr_regions():
    plane = diagram("lsr", REFERENCE_B)
    assert set(np.unique(plane.region)) == {0, 1, 2}
    assert (plane.region[:, LOADS > 0.3466] == 0).all()
    assert (plane.region[:, LOADS < 0.3466] > 0).all()
    assert plane.line("threshold").loads[0] == pytest.approx(0.34657, abs=1e-5)
    with pytest.raises(SphereflowError, match="the lines are"):
        plane.line("horizon")


def test_files_hold_the_numbers_with_their_conditions():
    found = diagram("lse", 1.0)
    told = json.loads(json.dumps(found.record(), allow_nan=False))
    assert told["layer of the regions"] == "spherical"
    assert "kinetic" in told["caution"]
    table = found.to_xarray()
    assert table.attrs["duration"] == 1e5
    assert dict(table["log_escape"].sizes) == {"size": 2, "temperature": len(TEMPERATURES), "load": len(found.loads)}
    assert {str(name).rsplit("(")[-1] for name in table["line"].values} == {"gaussian)", "spherical)"}


@pytest.mark.slow
def test_sweep_keeps_memory_where_it_should(tmp_path):
    cold = sweep("lse", loads=(0.2, 0.3), temperatures=(0.1, 2.5), patterns=50, repeats=4, steps=600)
    assert cold.overlap[0, 0] == pytest.approx(0.95, abs=0.03)
    assert abs(cold.overlap[1]).max() < 0.35
    picture = draw(diagram("lse", 1.0), cold)
    picture.canvas.draw()
    compact = sweep("lsr", REFERENCE_B, loads=(0.08,), temperatures=(0.3, 2.0), patterns=50, repeats=4, steps=800)
    assert (compact.overlap > 0.75).all()


SWEEP = """
from sphereflow.memory import sweep
sweep("lse", loads=(0.3, 0.35, 0.4, 0.45, 0.5, 0.55), temperatures=(0.1, 0.5), patterns=40, repeats=3, steps=300,
      keep="rows.json")
"""


@pytest.mark.slow
def test_killed_sweep_continues_to_the_same_end(tmp_path):
    def start():
        return subprocess.Popen([sys.executable, "-c", SWEEP], cwd=tmp_path, env=os.environ)

    kept = tmp_path / "rows.json"
    running = start()
    deadline = time.monotonic() + 120
    while not kept.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = json.loads(kept.read_text())["rows"]
    assert 1 <= len(before) <= 6
    assert start().wait(timeout=120) == 0
    after = json.loads(kept.read_text())["rows"]
    assert after[: len(before)] == before
    whole = sweep(
        "lse", loads=(0.3, 0.35, 0.4, 0.45, 0.5, 0.55), temperatures=(0.1, 0.5), patterns=40, repeats=3, steps=300
    )
    np.testing.assert_array_equal([row[0] for row in after], whole.overlap.T)
    with pytest.raises(SphereflowError, match="was made with"):
        sweep("lse", loads=(0.3,), temperatures=(0.1,), patterns=40, keep=kept)
    kept.write_text("{")
    with pytest.raises(SphereflowError, match="cannot read"):
        sweep("lse", loads=(0.3,), temperatures=(0.1,), patterns=40, keep=kept)


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        code = exit_code(app, [str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return call


@pytest.mark.slow
def test_command_writes_the_diagram(here, tmp_path):
    code, out, err = here("memory", "phases", "--kernel", "lsr", "--out", "plane", "--sizes", "50")
    assert (code, err) == (0, "")
    assert "kinetic" in out
    assert "line as published" in out
    names = {path.name for path in (tmp_path / "plane").iterdir()}
    assert names == {"phases.png", "phases.svg", "grid.csv", "lines.csv", "diagram.json"}


def test_command_recalls(here, tmp_path):
    rng = np.random.default_rng(0)
    patterns = rng.standard_normal((20, 30))
    np.save(tmp_path / "p.npy", patterns)
    np.save(tmp_path / "q.npy", patterns[[3, 7]] + 0.1)
    code, out, _ = here("memory", "recall", "p.npy", "q.npy", "--beta", "2")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["pattern"] for row in rows] == ["3", "7"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("phases", "--kernel", "cosine"),
        ("phases", "--beta", "-1"),
        ("phases", "--kernel", "lsr", "--beta", "1"),
        ("phases", "--sizes", "many"),
        ("phases", "--sizes", "2"),
        ("phases", "--duration", "0"),
        ("recall", "none.npy", "none.npy"),
        ("recall", "text.npy", "text.npy"),
    ],
)
def test_command_refuses_in_one_sentence(here, tmp_path, arguments):
    (tmp_path / "text.npy").write_text("not an array")
    code, out, err = here("memory", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
