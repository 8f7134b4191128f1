"""What a sweep on disk says is what was written: values, coordinates, and which cells are there."""

import json
import shutil

import numpy as np
import pytest
import zarr

from sphereflow.errors import SphereflowError
from sphereflow.sweeps import open_sweep, sweep
from sphereflow.sweeps import sweeping as run_module
from sphereflow.sweeps.journal import journal_of

GRID = {"x": [0.0, 1.0, 2.0, 3.0], "seed": [0, 1]}


def cell(x, seed):
    return {"sum": x + seed, "pair": [x, float(seed)]}


def undefined(x, seed, calls):
    """A function that has no value at x = 1."""
    with open(calls, "a") as file:
        file.write("x")
    return np.nan if x == 1.0 else -np.nan if x == 2.0 else x + seed


def change_value(folder):
    zarr.open_group(folder, mode="r+")["sum"][2, 1] = 7.0


def delete_chunk(folder):
    next(path for path in sorted((folder / "sum").rglob("*")) if path.is_file() and path.name != "zarr.json").unlink()


def exchange_chunks(folder):
    first, second, *_ = [p for p in sorted((folder / "sum").rglob("*")) if p.is_file() and p.name != "zarr.json"]
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def cut_chunk(folder):
    chunk = next(path for path in sorted((folder / "pair").rglob("*")) if path.is_file() and path.name != "zarr.json")
    chunk.write_bytes(chunk.read_bytes()[:-3])


def change_state(folder):
    zarr.open_group(folder, mode="r+")["cell_state"][0, 0] = 2


def change_axis(folder):
    zarr.open_group(folder, mode="r+")["x"][1] = 1.5


def change_coordinate(folder):
    zarr.open_group(folder, mode="r+")["pair_0"][1] = 5


def change_specification(folder):
    group = zarr.open_group(folder, mode="r+")
    group.attrs["specification"] = str(group.attrs["specification"]).replace('"fixed": {}', '"fixed": {"k": 1}')


REPAIRED = [change_value, delete_chunk, exchange_chunks, cut_chunk, change_state]
REMOVED = [change_axis, change_coordinate, change_specification]


@pytest.mark.fast_cases(
    "True-True-change_value",
    "False-False-delete_chunk",
    "True-False-exchange_chunks",
    "False-True-cut_chunk",
    "True-True-change_state",
    "False-False-change_axis",
    "True-False-change_coordinate",
    "False-True-change_specification",
    "False-False-change_value",
)
@pytest.mark.parametrize("harm", REPAIRED + REMOVED)
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("journal", [True, False])
def test_what_was_changed_on_disk_is_never_read(tmp_path, monkeypatch, harm, complete, journal):
    folder = tmp_path / "s.zarr"
    if complete:
        whole = sweep(cell, GRID, out=folder, progress=False).in_memory()
    elif harm is change_state:
        return  # it is written at the end
    else:
        whole = sweep(cell, GRID, out=tmp_path / "whole.zarr", progress=False).in_memory()
        cut_short(monkeypatch, folder, 6)
    harm(folder)
    if not journal:
        journal_of(folder).unlink()
    if complete or harm in REMOVED:
        with pytest.raises(SphereflowError, match=r"is damaged|is not a whole sweep"):
            open_sweep(folder)
    else:
        part = open_sweep(folder)
        known = part.dataset["cell_state"].values == 1
        assert known.sum() == part.cells_done < 6 if journal else not known.any()
        assert_part(part, whole, known)
    if harm in REMOVED:
        with pytest.raises(SphereflowError, match=r"is not a whole sweep|holds another sweep"):
            sweep(cell, GRID, out=folder, progress=False)
    else:
        again = sweep(cell, GRID, out=folder, progress=False)
        assert again.dataset.identical(whole.dataset)
        assert open_sweep(folder).complete


def cut_short(monkeypatch, folder, blocks):
    """A sweep that died after so many blocks."""
    whole, done = run_module.evaluate, []

    def evaluate(*given):
        if len(done) == blocks:
            raise KeyboardInterrupt
        done.append(given)
        return whole(*given)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "evaluate", evaluate)
        with pytest.raises(KeyboardInterrupt):
            sweep(cell, GRID, out=folder, progress=False)


def assert_part(part, whole, known):
    for name in ("sum", "pair"):
        values = part.dataset[name].values
        np.testing.assert_array_equal(values[known], whole.dataset[name].values[known])
        assert np.isnan(values[~known]).all()


def test_a_sweep_that_is_not_finished_shows_what_is_in_its_journal(tmp_path, monkeypatch):
    folder = tmp_path / "s.zarr"
    whole = sweep(cell, GRID)
    cut_short(monkeypatch, folder, 5)
    zarr.open_group(folder, mode="r+")["sum"][3, 1] = 99.0  # a block that was being written
    part = open_sweep(folder)
    assert (part.cells_done, part.complete) == (5, False)
    assert_part(part, whole, part.dataset["cell_state"].values == 1)


def test_a_finished_sweep_can_be_moved_without_its_journal(tmp_path):
    folder, moved = tmp_path / "s.zarr", tmp_path / "elsewhere" / "t.zarr"
    whole = sweep(cell, GRID, out=folder, progress=False).in_memory()
    moved.parent.mkdir()
    shutil.move(folder, moved)
    assert open_sweep(moved).dataset.identical(whole.dataset)
    assert sweep(cell, GRID, out=moved, progress=False).dataset.identical(whole.dataset)
    assert journal_of(moved).read_text() == ""  # nothing was computed again


def test_a_sweep_that_died_before_its_first_value_says_so(tmp_path, monkeypatch):
    folder = tmp_path / "s.zarr"
    monkeypatch.setattr("shutil.rmtree", lambda *given, **options: None)  # a kill leaves no time to tidy up
    cut_short(monkeypatch, folder, 0)
    monkeypatch.undo()
    part = open_sweep(folder)
    assert (part.cells_done, part.complete) == (0, False)
    with pytest.raises(SphereflowError, match="no values yet"):
        part.plot()
    assert sweep(cell, GRID, out=folder, progress=False).complete


def test_a_value_that_is_not_a_number_is_a_value(tmp_path):
    """NaN of either sign: computed once, counted as done, and told from a cell that nobody computed."""
    folder, calls = tmp_path / "s.zarr", tmp_path / "calls"
    options = {"fixed": {"calls": str(calls)}, "out": folder, "progress": False}
    found = sweep(undefined, GRID, **options)
    assert (found.cells_done, found.cells_failed) == (8, 0)
    assert int(np.isnan(found.dataset["value"]).sum()) == 4
    group = zarr.open_group(folder, mode="r+")
    group.attrs["complete"] = False  # as if it had died before the last line
    assert open_sweep(folder).cells_done == 8
    again = sweep(undefined, GRID, **options)
    assert again.dataset.identical(found.dataset)
    assert len(calls.read_text()) == 8


def test_two_names_of_one_folder_share_a_lock(tmp_path):
    folder = tmp_path / "s.zarr"
    (tmp_path / "link.zarr").symlink_to(folder)

    def nested(x):
        sweep(cell, GRID, out=tmp_path / "link.zarr", progress=False)
        return x

    with pytest.raises(SphereflowError, match="another process is writing"):
        sweep(nested, {"x": [1.0]}, out=folder, version="1", progress=False)
    assert not folder.exists()


def test_a_sweep_of_another_format_is_left_alone(tmp_path):
    folder = tmp_path / "s.zarr"
    sweep(cell, GRID, out=folder, progress=False)
    meta = json.loads((folder / "zarr.json").read_text())
    meta["attributes"]["format"] = "sphereflow sweep, version 1"
    (folder / "zarr.json").write_text(json.dumps(meta))
    with pytest.raises(SphereflowError, match="is not a sweep of this version"):
        sweep(cell, GRID, out=folder, progress=False)
    with pytest.raises(SphereflowError, match="is not a sweep of this version"):
        open_sweep(folder)
