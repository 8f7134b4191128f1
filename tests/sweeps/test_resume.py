"""Between an interrupted run and the one that resumes it one argument changes: refused, or exactly the fresh result."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import slow_cells

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.provenance import versions
from sphereflow.sweeps import open_sweep, sweep
from sphereflow.sweeps import sweeping as run_module
from sphereflow.sweeps.grid import Grid
from sphereflow.sweeps.workers import same_versions

REFINE = {"axes": ["x"], "variable": "value", "level": 5.0, "stride": 2}


def steeper(x, seed, scale):
    return scale * x**3 + seed


def lists(x, seed, scale):
    return x * np.sum(scale) + seed


USUAL = {
    "function": slow_cells.curve,
    "grid": {"x": [0.0, 1.0, 2.0, 3.0, 4.0], "seed": [0, 1]},
    "fixed": {"scale": 2.0},
    "vmap": False,
    "refine": None,
    "title": "a title",
    "version": None,
    "batch": None,
    "workers": None,
}
VMAPPED, VERSIONED = USUAL | {"vmap": True, "batch": 4}, USUAL | {"version": "1"}
ARRAYS = USUAL | {"function": lists, "fixed": {"scale": np.array([1.0, 2.0])}}
NAMED = USUAL | {
    "function": "retrieval",
    "grid": {"beta": [1.0, 2.0, 3.0], "t": [1.0, 2.0]},
    "fixed": {"slope": 0.5},
    "batch": 2,
}
GOES_ON, REFUSED = True, False
CHANGES = [
    (USUAL, {}, GOES_ON),
    (USUAL, {"title": "another"}, GOES_ON),
    (USUAL, {"progress": True}, GOES_ON),
    (USUAL, {"grid": Grid.of(USUAL["grid"])}, GOES_ON),
    (USUAL, {"batch": 1}, GOES_ON),  # what it was
    (USUAL, {"batch": 2}, REFUSED),
    (USUAL, {"function": steeper}, REFUSED),
    (USUAL, {"function": "retrieval", "grid": NAMED["grid"], "fixed": {}}, REFUSED),
    (USUAL, {"grid": {"x": [0.0, 1.0, 2.0, 3.0, 4.5], "seed": [0, 1]}}, REFUSED),
    (USUAL, {"grid": {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "seed": [0, 1]}}, REFUSED),
    (USUAL, {"grid": {"x": [0, 1, 2, 3, 4], "seed": [0, 1]}}, REFUSED),
    (USUAL, {"grid": {"seed": [0, 1], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}}, REFUSED),
    (USUAL, {"fixed": {"scale": 3.0}}, REFUSED),
    (USUAL, {"fixed": {"scale": 2}}, REFUSED),
    (USUAL, {"fixed": {"scale": np.float64(2.0)}}, REFUSED),
    (USUAL, {"vmap": True}, REFUSED),
    (USUAL, {"refine": REFINE}, REFUSED),
    (USUAL, {"version": "1"}, REFUSED),
    (USUAL | {"refine": REFINE}, {}, GOES_ON),
    (USUAL | {"refine": REFINE}, {"refine": REFINE | {"level": 6.0}}, REFUSED),
    (USUAL | {"refine": REFINE}, {"refine": None}, REFUSED),
    (VMAPPED, {}, GOES_ON),
    (VMAPPED, {"batch": None}, GOES_ON),
    (VMAPPED, {"batch": 8}, REFUSED),
    (VMAPPED, {"vmap": False, "batch": None}, REFUSED),
    (VERSIONED, {}, GOES_ON),
    (VERSIONED, {"version": "2"}, REFUSED),
    (VERSIONED, {"version": None}, REFUSED),
    (VERSIONED, {"fixed": {"scale": 3.0}}, REFUSED),
    (VERSIONED, {"function": steeper}, REFUSED),
    (ARRAYS, {"fixed": {"scale": np.array([1.0, 2.0])}}, GOES_ON),
    (ARRAYS, {"fixed": {"scale": np.array([1.0, 2.5])}}, REFUSED),
    (ARRAYS, {"fixed": {"scale": [1.0, 2.0]}}, REFUSED),
    (NAMED, {}, GOES_ON),
    (NAMED, {"fixed": {"slope": 0.25}}, REFUSED),
    (NAMED, {"fixed": {"slope": 0.5, "vocab": 4}}, REFUSED),
    (NAMED, {"batch": 3}, REFUSED),
]


def interrupt(monkeypatch, blocks):
    """The next sweep stops before it computes more than this many blocks."""
    whole, done = run_module.evaluate, []

    def evaluate(*given):
        if len(done) == blocks:
            raise KeyboardInterrupt
        done.append(given)
        return whole(*given)

    monkeypatch.setattr(run_module, "evaluate", evaluate)


def call(arguments, **more):
    arguments = {"progress": False, **arguments, **more}
    return sweep(arguments.pop("function"), arguments.pop("grid"), **arguments)


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("before", "change", "goes_on"), CHANGES)
def test_one_argument_changes(tmp_path, monkeypatch, before, change, goes_on):
    out, after = tmp_path / "s.zarr", before | change
    with monkeypatch.context() as patch:
        interrupt(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            call(before, out=out)
    assert not open_sweep(out).complete
    left = content(tmp_path)
    if goes_on:
        fresh = call(after | {"batch": before["batch"]}, out=tmp_path / "fresh.zarr")
        assert call(after, out=out).dataset.identical(fresh.dataset)
        assert open_sweep(out).dataset.attrs["title"] == after["title"]
    else:
        with pytest.raises(SphereflowError, match=r"holds another sweep|was begun with batch"):
            call(after, out=out)
        assert content(tmp_path) == left


@pytest.mark.slow
def test_workers_go_on_with_a_sweep_of_one_process(tmp_path, monkeypatch):
    out = tmp_path / "s.zarr"
    with monkeypatch.context() as patch:
        interrupt(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            call(VMAPPED, out=out)
    options = {name: VMAPPED[name] for name in ("fixed", "vmap", "batch", "title")}
    script = tmp_path / "more.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import slow_cells\n"
        "from sphereflow.sweeps import sweep\n"
        f"if __name__ == '__main__':\n    sweep(slow_cells.curve, {VMAPPED['grid']!r}, out={str(out)!r}, workers=1, "
        f"progress=False, **{options!r})\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=False)
    assert ended.returncode == 0, ended.stderr
    assert open_sweep(out).dataset.identical(call(VMAPPED, out=tmp_path / "fresh.zarr").dataset)


@pytest.mark.parametrize("name", ["sphereflow", "jax", "sources", "jax_enable_x64"])
def test_another_version_does_not_go_on(tmp_path, monkeypatch, name):
    out = tmp_path / "s.zarr"
    call(NAMED, out=out)
    record = run_module._record

    def other(*given):
        found = record(*given)
        assert name in found["made_with"]
        found["made_with"][name] = "another"
        return found

    monkeypatch.setattr(run_module, "_record", other)
    with pytest.raises(SphereflowError, match=f"'{name}' was .* and is now \"another\""):
        call(NAMED, out=out)


def test_workers_elsewhere_must_have_the_same_packages():
    mine = versions()
    same_versions({"tcp://a:1": mine})
    with pytest.raises(SphereflowError, match=r"the worker at tcp://b:2 has jax 0\.1, and this process"):
        same_versions({"tcp://a:1": mine, "tcp://b:2": mine | {"jax": "0.1"}})


def test_defaults_of_a_shipped_quantity_are_kept_with_it(tmp_path):
    found = call(NAMED, out=tmp_path / "s.zarr")
    assert found.specification["defaults"] == {"vocab": 8, "readout": "soft"}
    assert found.specification["made_with"]["sphereflow"]


TOML = 'title = "one"\nquantity = "retrieval"\n[axes]\nbeta = [1.0, 2.0, 3.0]\nt = [1.0, 2.0]\n[fixed]\nslope = 0.5\n'
REFINED = TOML + '[refine]\naxes = ["beta"]\nvariable = "worst_score"\nlevel = 0.1\nstride = 2\n'
TEXTS = [
    (TOML, TOML, [], GOES_ON),
    (TOML, TOML.replace("one", "two"), [], GOES_ON),
    (TOML, TOML, ["--batch", "1"], GOES_ON),
    (TOML, TOML, ["--batch", "2"], REFUSED),
    (TOML, TOML.replace("3.0", "3.5"), [], REFUSED),
    (TOML, TOML.replace("1.0, 2.0, 3.0", "1, 2, 3"), [], REFUSED),
    (TOML, TOML.replace("slope = 0.5", "slope = 0.25"), [], REFUSED),
    (TOML, TOML + "vocab = 4\n", [], REFUSED),
    (
        TOML,
        TOML.replace("retrieval", "drifting")
        .replace("beta", "step")
        .replace("\nt =", "\nstart =")
        .replace("slope", "width"),
        [],
        REFUSED,
    ),
    (TOML, REFINED, [], REFUSED),
    (REFINED, REFINED, [], GOES_ON),
    (REFINED, REFINED.replace("level = 0.1", "level = 0.2"), [], REFUSED),
]


@pytest.mark.parametrize(("before", "after", "more", "goes_on"), TEXTS)
def test_one_entry_of_a_file_changes(tmp_path, monkeypatch, capsys, before, after, more, goes_on):
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "spec.toml"
    spec.write_text(before)
    with monkeypatch.context() as patch:
        interrupt(patch, 1)
        assert exit_code(app, ["sweep", "spec.toml", "--out", "s.zarr", "--batch", "1"]) == 130
    left = content(tmp_path / "s.zarr")
    spec.write_text(after)
    code = exit_code(app, ["sweep", "spec.toml", "--out", "s.zarr", *more])
    if goes_on:
        assert code == 0, capsys.readouterr().err
        assert exit_code(app, ["sweep", "spec.toml", "--out", "fresh.zarr", "--batch", "1"]) == 0
        assert open_sweep("s.zarr").dataset.identical(open_sweep("fresh.zarr").dataset)
    else:
        assert code == 2
        assert "holds another sweep" in (said := capsys.readouterr().err) or "was begun with batch" in said
        assert content(tmp_path / "s.zarr") == left
