"""A Monte Carlo sweep cut short and continued with one argument changed: refused, or the fresh result."""

import inspect
import json

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from sphereflow import provenance
from sphereflow.cli import memory as command
from sphereflow.errors import SphereflowError
from sphereflow.memory import sweep as sweep_function
from sphereflow.memory.monte_carlo import MonteCarloSweep, planned

module = inspect.getmodule(sweep_function)
PLAIN = {
    "kernel": "lse",
    "sharpness": 1.0,
    "loads": (0.3, 0.4),
    "temperatures": (0.2, 0.9),
    "patterns": 20,
    "repeats": 2,
    "steps": 10,
    "seed": 0,
    "progress": False,
}
CHANGES = {
    "kernel": ["lsr"],
    "sharpness": [2.0],
    "loads": [(0.3, 0.45), (0.3, 0.4, 0.5), None],
    "temperatures": [(0.2, 0.8), (0.2,)],
    "patterns": [21],
    "repeats": [3],
    "steps": [11],
    "seed": [1],
    "keep": ["other.json"],
    "progress": [None],
}
HARMLESS = {"keep", "progress"}


def told(found: MonteCarloSweep):
    return {name: np.asarray(value).tolist() for name, value in vars(found).items()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The bytes that a sweep left when it was stopped after one of two rows, and the result of one that was not."""
    file, row, seen = tmp_path_factory.mktemp("cut") / "rows.json", module._row, []

    def interrupted(*arguments):
        if seen:
            raise KeyboardInterrupt
        seen.append(arguments)
        return row(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_row", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep_function(**PLAIN, keep=file)
    return file.read_bytes(), told(sweep_function(**PLAIN))


@pytest.fixture
def file(runs, tmp_path):
    (tmp_path / "rows.json").write_bytes(runs[0])
    return tmp_path / "rows.json"


def test_every_argument_has_a_case():
    assert set(inspect.signature(sweep_function).parameters) == set(CHANGES)


@pytest.mark.slow
def test_the_same_call_ends_where_a_fresh_one_does(file, runs):
    assert told(sweep_function(**PLAIN, keep=file)) == runs[1]
    spelled = PLAIN | {"loads": np.array([0.3, 0.4]), "temperatures": [np.float64(0.2), 0.9], "sharpness": 1}
    assert told(sweep_function(**spelled, keep=file)) == runs[1]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_a_changed_argument_is_refused_or_gives_the_fresh_result(file, runs, name, value):
    changed = {**PLAIN, "keep": file, name: file.with_name(value) if name == "keep" else value}
    if name in HARMLESS:
        assert told(sweep_function(**changed)) == runs[1]
        return
    with pytest.raises(SphereflowError, match=r"was made with .*; choose another name\.|beta .the number b"):
        sweep_function(**changed)
    assert file.read_bytes() == runs[0]


def test_other_circumstances_and_other_formats_are_refused(file, monkeypatch):
    stored = json.loads(file.read_text())
    assert stored["versions"]["sphereflow"] == stored["asked"]["sphereflow"]
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "version", lambda package: "0.0.1")
        with pytest.raises(SphereflowError, match=r"sphereflow = .*, now 0\.0\.1"):
            sweep_function(**PLAIN, keep=file)
    try:
        jax.config.update("jax_default_prng_impl", "rbg")
        with pytest.raises(SphereflowError, match="jax_default_prng_impl = threefry2x32, now rbg"):
            sweep_function(**PLAIN, keep=file)
    finally:
        jax.config.update("jax_default_prng_impl", "threefry2x32")
    file.write_text(json.dumps(stored | {"format": "sphereflow memory sweep 1"}))
    with pytest.raises(SphereflowError, match="not a sweep of this kind"):
        sweep_function(**PLAIN, keep=file)


def test_the_command_refuses_another_sweep_before_it_writes_anything(tmp_path):
    keep = tmp_path / "monte-carlo.json"
    numbers = {"patterns": 20, "repeats": 2, "steps": 10, "seed": 0}
    asked = planned("lse", 1.0, **numbers, keep=None).asked
    keep.write_text(json.dumps({"format": "sphereflow memory sweep 2", "asked": asked, "rows": []}))
    words = ["phases", "--out", str(tmp_path), "--monte-carlo"]
    for name, value in {**numbers, "beta": 1.0}.items():
        given = {"beta": 1.0, **numbers, name: value + 1}
        options = [word for option, number in given.items() for word in (f"--{option}", str(number))]
        with pytest.raises(SphereflowError, match="was made with"):
            CliRunner().invoke(command.app, [*words, *options], catch_exceptions=False)
    assert [each.name for each in tmp_path.iterdir()] == ["monte-carlo.json"]
