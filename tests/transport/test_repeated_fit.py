"""`transport fit` keeps nothing between runs: interrupted it leaves nothing, and run again it is the fresh run."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sphereflow.cli import transport
from sphereflow.errors import SphereflowError
from sphereflow.loading import load

PLAIN = {
    "source": "gaussian",
    "target": "points.npy",
    "pieces": 8,
    "method": "construct",
    "out": "schedule.json",
    "steps": 3,
    "seed": 0,
}
CHANGES = {
    "source": "two-modes",
    "target": "uniform",
    "pieces": 12,
    "method": "train",
    "out": "other.npz",
    "steps": 5,
    "seed": 1,
    "kl": 0.1,
}


def fit(**changed):
    asked = PLAIN | changed
    if "kl" in changed:  # in place of a number of pieces, and for laws only
        asked = {name: value for name, value in asked.items() if name != "pieces"} | {"target": "two-modes"}
    words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    return CliRunner().invoke(transport.app, ["fit", *words], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", np.random.default_rng(0).normal(size=(60, 1)))
    return tmp_path


def arrays(path):
    return {name: value.tolist() for name, value in load(path).arrays().items()}


def test_every_option_has_a_case():
    assert set(inspect.signature(inspect.unwrap(transport.fit)).parameters) == set(CHANGES)


@pytest.mark.fast_cases("seed")
@pytest.mark.parametrize("name", CHANGES)
def test_after_another_run_it_gives_the_fresh_result(folder, name):
    changed = {name: CHANGES[name]}
    assert fit().exit_code == 0
    assert fit(**changed).exit_code == 0
    again = arrays(changed.get("out", "schedule.json"))
    for each in folder.glob("*.json"):
        each.unlink()
    fit(**changed, **({} if name == "out" else {"out": "fresh.json"}))
    assert again == arrays(changed.get("out", "fresh.json"))


def test_a_changed_file_gives_another_schedule(folder):
    fit()
    before = arrays("schedule.json")
    np.save("points.npy", np.random.default_rng(1).normal(size=(60, 1)))
    fit()
    fit(out="fresh.json")
    assert before != arrays("schedule.json") == arrays("fresh.json")


def test_an_interrupted_fit_leaves_the_older_files_as_they_were(folder, monkeypatch):
    fit()
    kept = {each.name: each.read_bytes() for each in folder.iterdir()}
    module = inspect.getmodule(transport.fit)
    assert module is transport

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sphereflow.saving._flush", full)
        with pytest.raises(SphereflowError, match="No space left"):
            fit(pieces=12)
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == kept

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sphereflow.transport.pictures.draw", stopped)
        assert fit(pieces=12).exit_code != 0
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == kept


def test_a_schedule_says_which_version_made_it_and_half_of_one_is_refused(folder):
    import json

    fit()
    text = Path("schedule.json").read_text()
    assert json.loads(text)["versions"]["sphereflow"]
    Path("schedule.json").write_text(text[: len(text) // 2])
    with pytest.raises(SphereflowError, match="damaged"):
        load("schedule.json")
    Path("schedule.json").write_text(text.replace("version 1", "version 9"))
    with pytest.raises(SphereflowError, match="not a schedule saved by"):
        load("schedule.json")
