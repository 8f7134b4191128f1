"""What a function may return, what an axis may hold, and where a sweep may go: otherwise one sentence, nothing kept."""

import decimal

import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.sweeps import sweep


def shapes(x):
    return {"a": np.zeros(2 if x < 2 else 3)}


def more(x):
    return {"a": x} if x < 2 else {"a": x, "b": x}


def less(x):
    return {"a": x, "b": x} if x < 2 else {"a": x}


def flat(x):
    return np.zeros(1) if x < 2 else 0.0


CHANGING = [
    (shapes, r"'a' of shape \(3,\) at x=2.0, and of shape \(2,\) before"),
    (more, "returned 'b' at x=2.0, and did not before"),
    (less, "returned no 'b' at x=2.0, and did so before"),
    (flat, r"'value' of shape \(\) at x=2.0, and of shape \(1,\) before"),
]


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize(("function", "words"), CHANGING)
def test_what_a_function_returns_may_not_change_its_form(tmp_path, function, words, batch):
    with pytest.raises(SphereflowError, match=words):
        sweep(function, {"x": [0.0, 1.0, 2.0, 3.0]}, batch=batch)
    with pytest.raises(SphereflowError, match=words):  # nor between two runs
        sweep(function, {"x": [0.0, 1.0, 2.0, 3.0]}, out=tmp_path / "s.zarr", batch=batch, progress=False)
    with pytest.raises(SphereflowError, match=words):
        sweep(function, {"x": [0.0, 1.0, 2.0, 3.0]}, out=tmp_path / "s.zarr", progress=False)


NOT_NUMBERS = [
    (None, "'value' is None"),
    ("word", "'value' is str"),
    (1j, "'value' is complex"),
    ({"a": 1, "b": None}, "'b' is None"),
    ([1.0, None], "'value' is list"),
    ([[1.0], [1.0, 2.0]], "'value' is list"),
    (decimal.Decimal(1), "'value' is Decimal"),
    (np.ma.masked_less([1.0, 2.0], 1.5), "'value' is MaskedArray"),
    (2**53 + 1, "does not fit into float64"),
    (2**70, "does not fit into float64"),
    (np.uint64(2**64 - 1), "does not fit into float64"),
    (np.longdouble(1) + np.finfo(np.longdouble).eps, "does not fit into float64"),
    ({}, "empty dictionary"),
    ({1: 2.0}, "named 1 "),
    ({"a/b": 2.0}, "named 'a/b'"),
    ({"x": 2.0}, "'x' is part of the result"),
    ({"cell_state": 2.0}, "'cell_state' is part of the result"),
    ({"v": [1.0, 2.0], "v_0": 3.0}, "'v_0' is part of the result"),
]


@pytest.mark.parametrize(("returned", "words"), NOT_NUMBERS)
def test_what_cannot_be_kept_as_it_is_is_refused(tmp_path, returned, words):
    out = tmp_path / "s.zarr"
    with pytest.raises(SphereflowError, match=words) as refused:
        sweep(lambda x: returned, {"x": [1.0]}, out=out, version="1", progress=False)
    assert "x=1.0" in str(refused.value) or "part of the result" in words
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "returned",
    [True, 3, 2**53, -(2**53), 0.1, np.float32(0.1), np.int8(-3), jnp.float32(0.5), jnp.bfloat16(0.5), np.inf, -0.0],
)
def test_numbers_are_kept_exactly(returned):
    assert float(sweep(lambda x: returned, {"x": [1.0]}).dataset["value"][0]) == float(returned)


AXES = [
    ([2**70], "must fit into 64 bits"),
    ([2**2000], "must fit into 64 bits"),
    ([-(2**63) - 1], "must fit into 64 bits"),
    ([0.5, 2**53 + 1], "not one in 64 bits"),
    ([float("nan")], "finite"),
    ([1.0, float("inf")], "finite"),
    ([1, 1.0], "twice"),
    ([0.0, -0.0], "twice"),
    (["a", "a"], "twice"),
    ([True, False], "all numbers or all words"),
    ([1j], "all numbers or all words"),
    ([None], "all numbers or all words"),
    (np.array(3.0), "needs a list of values"),
    (np.ones((2, 2)), "needs a list of values"),
]


@pytest.mark.parametrize(("values", "words"), AXES)
def test_axes_that_cannot_be_are_refused(values, words):
    with pytest.raises(SphereflowError, match=words):
        sweep(lambda x: 0.0, {"x": values})


@pytest.mark.parametrize(
    "values", [[1, 2, 2.5], np.array([1, 2, 3]), jnp.array([1.0, 2.0]), [2**63 - 1], np.float32([0.1])]
)
def test_a_function_gets_the_values_of_the_dataset(values):
    seen = []
    found = sweep(lambda x: seen.append(x) or 0.0, {"x": values})
    assert seen == found.dataset["x"].values.tolist()
    assert {type(x) for x in seen} == {type(x) for x in found.dataset["x"].values.tolist()}


@pytest.mark.parametrize("name", ["out.png", "out.CSV", "out.json", "data.nc", "out.zarr.zip", "spec.toml"])
def test_names_of_other_kinds_of_files_are_refused(tmp_path, capsys, name):
    with pytest.raises(SphereflowError, match=r"out must end in \.zarr or have no ending"):
        sweep(lambda x: x, {"x": [1.0]}, out=tmp_path / name)
    assert exit_code(app, ["sweep", "clustering", "--out", str(tmp_path / name)]) == 2
    assert "out must end in .zarr" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out", "out.zarr", "beta_0.5", "a.b.zarr", ".hidden"])
def test_other_names_are_taken(tmp_path, name):
    assert sweep(lambda x: x, {"x": [1.0]}, out=tmp_path / name, progress=False).complete


def test_an_entry_is_either_an_axis_or_fixed(tmp_path, capsys):
    with pytest.raises(SphereflowError, match="'x' is both an axis and fixed"):
        sweep(lambda x: x, {"x": [1.0]}, fixed={"x": 2.0})
    (tmp_path / "s.toml").write_text('quantity = "retrieval"\n[axes]\nbeta = [1.0]\n[fixed]\nbeta = 2.0\nt = 1.0\n')
    assert exit_code(app, ["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "o.zarr")]) == 2
    assert "'beta' is both an axis and fixed" in capsys.readouterr().err
    (tmp_path / "s.toml").write_text(f'quantity = "retrieval"\n[axes]\nbeta = [{2**62 * 4}]\n[fixed]\nt = 1.0\n')
    assert exit_code(app, ["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "o.zarr")]) == 2
    assert "must fit into 64 bits" in capsys.readouterr().err
    assert not (tmp_path / "o.zarr").exists()
