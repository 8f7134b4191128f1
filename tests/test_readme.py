"""The code of README.md runs as printed, and its numbers are those that it gives."""

import re
from pathlib import Path

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.evolution import Trajectory

README = (Path(__file__).parent.parent / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_three_lines_are_as_accurate_as_they_say(monkeypatch, tmp_path):
    assert "accurate to 1e-8" in SNIPPETS[0]
    drawn = []
    monkeypatch.chdir(tmp_path)
    # What is in the page is tested with the pages; here it would take most of the time.
    monkeypatch.setattr(Trajectory, "webpage", lambda run, path: drawn.append(path))
    names = {}
    exec(SNIPPETS[0], names)
    assert drawn == ["sphere.html"]
    run = names["run"]
    assert run.status.complete
    assert (run.ts[-1], run.xs.shape[1:]) == (30.0, (64, 3))
    tight = sf.simulate(n=64, d=3, beta=9.0, t1=30.0, tol=1e-12)
    assert np.linalg.norm(np.asarray(run.xs) - np.asarray(tight.xs), axis=-1).max() < 1e-8
    assert float(np.max(run.error_estimate)) < 1e-8
    run.save("run.zarr")
    assert np.array_equal(np.asarray(sf.load("run.zarr").xs), np.asarray(run.xs))


def test_the_composable_door_runs_and_its_energy_never_decreases():
    names = {"sf": sf}
    exec(SNIPPETS[1], names)
    energy = np.asarray(names["run"].energy)
    # Rounding: n^2 terms of size at most one, of mean size energy, summed pairwise.
    assert np.diff(energy).min() > -64 * np.finfo(float).eps * abs(energy).max()


def test_there_is_no_other_code():
    assert len(SNIPPETS) == 2


@pytest.mark.slow  # a minute of plateaus
def test_the_last_merger_is_when_it_says():
    call = re.search(r"`sf\.simulate\((.*?)\)\.merges`[^.]*?at\s+\$\\log t=([\d.]+\d)\$", README)
    assert call is not None
    history = eval(f"sf.simulate({call[1]})")
    last = history.merges[-1]
    assert f"{last.log_time:.3f}" == call[2]
    assert last.error < 5e-4
    assert history.kind == "sa"
    told = re.search(r"sphereflow staircase (.*?) +# .*at t = e\^(\d+)", README)
    assert told is not None
    assert told[1] == "--n 50 --beta 400"
    assert int(told[2]) == int(last.log_time)
