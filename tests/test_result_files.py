"""Files of results: what is not ours is refused, equality sees every number, and the call is kept."""

import dataclasses
import io
import json
import typing

import jax
import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.results import FORMAT, Result, recorded_call, same

STILL = sf.transport.Schedule([[0.5, 0.0]], [[0.0, 1.0]], [0.0])


def concentration():
    return sf.meanfield.concentration(np.diag([2.0, 1.0, 0.0]))


def spectrum():
    return sf.meanfield.stability(sf.USA(4.0), [[1.0, 0.0], [-1.0, 0.0]])


def value(beta, seed):
    return beta + seed


def stored(**changes):
    """A file of a result with some of what it says about itself changed."""
    content = io.BytesIO()
    about = {"format": FORMAT, "content": {"plain": 3}} | changes
    np.savez(content, about=np.array(json.dumps(about)))
    return content.getvalue()


REFERENCE = {"module": "os", "name": "system", "digest": ""}
FOREIGN = {
    "another npz": (lambda: (b := io.BytesIO(), np.savez(b, x=np.ones(3)))[0].getvalue(), "no result"),
    "text": (lambda: b"hello", "no result"),
    "json": (lambda: b'{"format": "a format of somebody"}', "format of somebody"),
    "newer": (lambda: stored(format="sphereflow result, version 7"), "written by a newer sphereflow"),
    "a number": (lambda: stored(), "damaged, or no result"),
    "cut": (lambda: stored()[:-30], "no result"),
    "a class of the system": (lambda: stored(content={"kind": REFERENCE, "fields": {}}), "cannot read"),
    "a class that is none": (
        lambda: stored(content={"kind": REFERENCE | {"module": "sphereflow.results", "name": "same"}, "fields": {}}),
        "no part of one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_and_newer_files_are_refused_in_one_sentence(name, tmp_path):
    content, words = FOREIGN[name]
    (tmp_path / "file.npz").write_bytes(content())
    with pytest.raises(SphereflowError, match=words) as refused:
        sf.load(tmp_path / "file.npz")
    assert str(refused.value).count(". ") == 0
    assert "file.npz" in str(refused.value)


def test_a_result_has_one_suffix_and_a_folder_that_is_none_is_refused(tmp_path):
    result = concentration()
    with pytest.raises(SphereflowError, match=r"must end in \.npz"):
        result.save(tmp_path / "result.json")
    with pytest.raises(SphereflowError):
        sf.load(tmp_path)
    with pytest.raises(SphereflowError, match="there is no file"):
        sf.load(tmp_path / "nothing.npz")


def test_sweeps_and_schedules_are_read_by_the_same_verb(tmp_path):
    sf.sweep(value, {"beta": [1.0, 2.0], "seed": [0]}, out=tmp_path / "sweep.zarr", progress=False)
    assert sf.load(tmp_path / "sweep.zarr").axes == ("beta", "seed")
    STILL.save(tmp_path / "schedule.json")
    np.testing.assert_array_equal(sf.load(tmp_path / "schedule.json").w, STILL.w)


def test_functions_that_are_gone_do_not_keep_numbers_from_being_read(tmp_path):
    fit = sf.transport.fit_map(lambda x: x * np.array([2.0, 1.0]), cells=2, refine=2)
    points = np.random.default_rng(0).normal(size=(60, 2))
    again = sf.load(fit.save(tmp_path / "fit.npz"))
    assert again == fit
    np.testing.assert_array_equal(again.schedule.apply(points), fit.schedule.apply(points))
    with pytest.raises(SphereflowError, match="<lambda>"):
        again.errors()
    assert sf.load(again.save(tmp_path / "again.npz")) == again


def test_equality_never_raises_and_sees_every_number():
    assert same(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not same(np.array([1.0]), np.array([1.0], dtype=np.float32))
    assert not same(np.array([1.0]), np.array([1.0, 2.0]))
    assert same({"a": (1, float("nan"))}, {"a": (1, float("nan"))})
    assert not same({"a": 1}, {"b": 1})
    assert same(typing.NamedTuple("Empty", [])(), 3) is False

    class Stubborn:
        def __eq__(self, other):
            raise RuntimeError

    assert not same(Stubborn(), 3)
    first, second = spectrum(), spectrum()
    assert first == second
    assert first in {second}


def test_the_call_is_recorded_with_its_defaults_and_its_seed():
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class Small(Result):
        number: float

        def facts(self):
            return [f"{self.number:g}"]

        def variables(self):
            return {"number": ((), np.asarray(self.number))}

    @recorded_call
    def verb(n, *, seed=0, progress=None, table=None, **options):
        return Small(float(n))

    table = np.arange(300.0).reshape(100, 3)
    made = verb(2, seed=jax.random.key(7), table=table, tol=1e-3)
    assert made.parameters["call"].endswith("verb")
    assert made.parameters["n"] == 2
    assert made.parameters["tol"] == 1e-3
    assert made.parameters["table"]["shape"] == [100, 3]
    assert "progress" not in made.parameters
    assert made.seed == (0, 7)
    assert verb(2).seed == 0
    assert verb(2, table=table + 1) != verb(2, table=table)
    assert verb(2, seed=1) != verb(2)
