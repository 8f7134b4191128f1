"""`drift train` cut short and run again with one option changed: refused, or the fresh result."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sphereflow import provenance
from sphereflow.cli import drift
from sphereflow.cli.exit_codes import Stopped
from sphereflow.drifting import checkpoints
from sphereflow.errors import SphereflowError

ROWS = np.random.default_rng(0).normal(size=(40, 2))
PLAIN = {
    "target": "rows.npy",
    "out": "model.npz",
    "steps": 8,
    "batch": 8,
    "width": 0.3,
    "rate": 1e-3,
    "schedule": "linear",
    "friction": "none",
    "seed": 3,
}
CHANGES = {
    "target": ["swiss-roll", "moved.npy"],
    "out": ["other.npz"],
    "steps": [9, 4],
    "batch": [9],
    "width": [0.31],
    "rate": [2e-3],
    "schedule": ["constant", "effective"],
    "friction": ["gain"],
    "seed": [4],
}
HARMLESS = {"out"}


def train(**changed):
    given = PLAIN | changed
    words = [
        "train",
        given.pop("target"),
        *(word for name, value in given.items() for word in (f"--{name}", str(value))),
    ]
    return CliRunner().invoke(drift.app, words, catch_exceptions=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The bytes that a run left when it was stopped at half of its steps, and those of one that was not."""
    seen, save = [], checkpoints.save

    def interrupted(*arguments):
        save(*arguments)
        seen.append(arguments)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("runs"))
        np.save("rows.npy", ROWS)
        assert train(out="whole.npz").exit_code == 0
        patch.setattr(checkpoints, "save", interrupted)
        with pytest.raises(Stopped):
            train()
        return Path("model.npz").read_bytes(), Path("whole.npz").read_bytes()


@pytest.fixture
def started(runs, tmp_path, monkeypatch):
    """In a folder with the data and the run that was cut."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    np.save("moved.npy", ROWS)
    Path("model.npz").write_bytes(runs[0])
    return runs[0]


def test_every_option_has_a_case():
    assert set(inspect.signature(inspect.unwrap(drift.train)).parameters) == set(CHANGES)


@pytest.mark.slow
def test_the_same_command_ends_where_a_fresh_one_does(started, runs):
    assert train().exit_code == 0
    assert Path("model.npz").read_bytes() == runs[1]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_a_changed_option_is_refused_or_gives_the_fresh_result(started, runs, name, value):
    if name in HARMLESS:
        train(**{name: value})
        assert Path(value).read_bytes() == runs[1]
        return
    with pytest.raises(SphereflowError, match=r"was made with .*; choose another name\."):
        train(**{name: value})
    assert Path("model.npz").read_bytes() == started


@pytest.mark.parametrize("change", ["a value", "the order", "fewer rows", "finished"])
def test_a_changed_file_is_refused(started, runs, change):
    rows = ROWS.copy()
    if change == "the order":
        rows = rows[::-1]
    elif change == "fewer rows":
        rows = rows[:-1]
    else:
        rows[7, 1] += 1e-9
    if change == "finished":
        Path("model.npz").write_bytes(runs[1])
    np.save("rows.npy", rows)
    with pytest.raises(SphereflowError, match=r"was made with data = sha256:.*, now sha256:"):
        train()


def test_other_circumstances_and_other_formats_are_refused(started, monkeypatch):
    with np.load("model.npz") as stored:
        arrays = dict(stored)
    head = json.loads(bytes(arrays["head"]))
    assert head["versions"]["sphereflow"] == head["asked"]["sphereflow"]
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "version", lambda package: "0.0.1")
        with pytest.raises(SphereflowError, match=r"sphereflow = .*, now 0\.0\.1"):
            train()
    older = json.dumps(head | {"format": "sphereflow drifting generator, version 2"}).encode()
    np.savez("model.npz", **arrays | {"head": np.frombuffer(older, np.uint8)})
    with pytest.raises(SphereflowError, match="cannot be used by this release"):
        train()
