"""A run to the single cluster that is cut short and resumed with one argument changed: refused, or the fresh result."""

import dataclasses
import inspect
import json

import numpy as np
import pytest

import sphereflow as sf
from sphereflow import provenance
from sphereflow.errors import SphereflowError
from sphereflow.metastability import Outcome, coarsen, coarsen_to_one, staircase

ANGLES = np.array([0.0, 0.5, 1.7])
X0 = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
INNER = np.array([[0.8, 0.6], [-0.6, 0.8]])
PLAIN = {"model": "sa", "x0": X0, "beta": 9.0, "tol": 1e-6, "perturb": 1e-3, "seed": 1, "progress": False}
HELD = {"model": "usa", "x0": X0, "beta": 5.0, "errors": False, "progress": False}


def neurons(outer=(0.3, 0.2), inner=INNER, bias=(0.1, 0.0), activation="relu"):
    return sf.Perceptron(np.array(outer), np.array(inner), np.array(bias), activation=activation)


# Every argument, what it is changed to, and whether the resumed call may go on.
CHANGES = {
    "model": ["usa"],
    "x0": [X0[::-1], np.concatenate([X0, X0[:1] * -1])],
    "beta": [9.5],
    "masses": [[1.0, 1.0, 2.0]],
    "perceptron": [],  # below: a run of its own
    "tol": [1e-7],
    "radius": [2e-4],
    "errors": [False],
    "perturb": [0.0],
    "max_time": [1e3],
    "checkpoint": ["elsewhere.json"],
    "seed": [2],
    "progress": [None],
}
HARMLESS = {"checkpoint", "progress"}


def cut(request, file, legs):
    """Interrupt a run after some legs; what it leaves lies in `file`."""
    whole, seen = coarsen.advance, []

    def advance(moment, rules, stop=None):
        if len(seen) == legs:
            raise KeyboardInterrupt
        seen.append(moment)
        return whole(moment, rules, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coarsen, "advance", advance)
        assert coarsen_to_one(**request, checkpoint=file).outcome is Outcome.INTERRUPTED


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """What the run with the arguments PLAIN left behind when it was cut, after the first of two mergers."""
    file = tmp_path_factory.mktemp("cut") / "run.json"
    cut(PLAIN, file, 2)  # one leg of the run, one of its looser companion
    assert len(json.loads(file.read_text())["merges"]) == 1
    return file.read_bytes()


@pytest.fixture
def file(started, tmp_path):
    (tmp_path / "run.json").write_bytes(started)
    return tmp_path / "run.json"


@pytest.fixture(scope="module")
def fresh():
    return told(coarsen_to_one(**PLAIN))


def told(history):
    """All of a history but the time it took."""
    fields = dataclasses.asdict(history) | {"seconds": 0}
    return {name: value.tolist() if isinstance(value, np.ndarray) else repr(value) for name, value in fields.items()}


def test_every_argument_has_a_case():
    assert set(inspect.signature(coarsen_to_one).parameters) == set(CHANGES)


def test_the_same_call_ends_where_a_fresh_one_does(file, fresh):
    assert told(coarsen_to_one(**PLAIN, checkpoint=file)) == fresh
    assert told(coarsen_to_one(**PLAIN, checkpoint=file)) == fresh  # finished: read back


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_a_changed_argument_is_refused_or_gives_the_fresh_result(file, fresh, started, name, value):
    changed = {**PLAIN, "checkpoint": file, name: file.with_name(value) if name == "checkpoint" else value}
    if name in HARMLESS:
        assert told(coarsen_to_one(**changed)) == fresh
        return
    with pytest.raises(SphereflowError, match=r"was made with .*; choose another name\."):
        coarsen_to_one(**changed)
    assert file.read_bytes() == started


def test_a_seed_that_draws_nothing_may_change(tmp_path):
    request = {**PLAIN, "perturb": 0.0}
    cut(request, tmp_path / "run.json", 2)
    resumed = coarsen_to_one(**{**request, "seed": 2}, checkpoint=tmp_path / "run.json")
    assert told(resumed) == told(coarsen_to_one(**{**request, "seed": 2}))


@pytest.mark.parametrize(
    "other",
    [
        None,
        neurons(outer=(0.3, 0.25)),
        neurons(inner=INNER[::-1]),
        neurons(bias=(0.1, 0.01)),
        neurons(activation="tanh"),
    ],
)
def test_another_perceptron_is_refused(tmp_path, other):
    file = tmp_path / "run.json"
    cut({**HELD, "perceptron": neurons()}, file, 0)
    with pytest.raises(SphereflowError, match="perceptron = "):
        coarsen_to_one(**HELD, perceptron=other, checkpoint=file)


def test_the_same_numbers_in_another_shape_are_another_start():
    assert provenance.digest(np.ones((2, 3))) != provenance.digest(np.ones((3, 2)))
    assert provenance.digest(np.zeros(2), np.zeros(1)) != provenance.digest(np.zeros(1), np.zeros(2))
    assert provenance.digest(np.zeros(2, np.float32)) != provenance.digest(np.zeros(1))


def test_other_circumstances_and_other_formats_are_refused(file, monkeypatch):
    stored = json.loads(file.read_text())
    assert stored["versions"]["sphereflow"] == stored["asked"]["sphereflow"]
    monkeypatch.setattr(provenance, "version", lambda package: "0.0.1")
    with pytest.raises(SphereflowError, match=r"sphereflow = .*, now 0\.0\.1"):
        coarsen_to_one(**PLAIN, checkpoint=file)
    monkeypatch.undo()
    file.write_text(json.dumps(stored | {"format": "sphereflow merge checkpoint 1"}))
    with pytest.raises(SphereflowError, match="not a file of the kind"):
        coarsen_to_one(**PLAIN, checkpoint=file)


def test_half_a_staircase_is_none(monkeypatch):
    def advance(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(coarsen, "advance", advance)
    with pytest.raises(KeyboardInterrupt):
        staircase(3, 20.0, progress=False)
