"""Sweeps through real kills: of the process, of a worker, and of the disk under it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import slow_cells
import zarr

from sphereflow.sweeps import open_sweep, sweep
from sphereflow.sweeps.journal import journal_of

AXES = {"x": list(range(12)), "seed": list(range(4))}


def program(line):
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{line}"]


def starting(folder, calls, wait, workers="None"):
    return program(
        f"from sphereflow.sweeps import sweep; import slow_cells; sweep(slow_cells.slow, {AXES!r}, "
        f"fixed={{'calls': {str(calls)!r}, 'wait': {wait}}}, out={str(folder)!r}, workers={workers}, progress=False)"
    )


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_a_killed_sweep_goes_on_and_ends_as_if_nothing_had_happened(tmp_path):
    folder, calls = tmp_path / "killed.zarr", tmp_path / "calls"
    process = subprocess.Popen(starting(folder, calls, 0.02))
    began = time.monotonic()
    while len(lines(journal_of(folder))) < 8:
        assert process.poll() is None
        assert time.monotonic() - began < 100
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(lines(journal_of(folder)))
    assert 8 <= done < 48
    assert not open_sweep(folder).complete
    with open(journal_of(folder), "a") as journal:
        journal.write("47 0badc")  # a line that was cut

    again = sweep(slow_cells.slow, AXES, fixed={"calls": str(calls), "wait": 0.02}, out=folder, progress=False)
    assert again.complete
    assert len(lines(calls)) <= 48 + 1  # at most the cell in flight was computed twice
    assert len({line.split()[0] for line in lines(journal_of(folder))}) == 48
    fixed = {"calls": str(calls), "wait": 0.02}
    whole = sweep(slow_cells.slow, AXES, fixed=fixed, out=tmp_path / "whole.zarr", progress=False)
    assert again.dataset.identical(whole.dataset)


def test_damaged_and_missing_chunks_are_computed_again(tmp_path):
    folder, calls = tmp_path / "sweep.zarr", tmp_path / "calls"
    options = {"fixed": {"calls": str(calls), "wait": 0.0}, "out": folder, "progress": False}
    first = sweep(slow_cells.slow, AXES, **options).in_memory()
    before = len(lines(calls))
    chunks = sorted(path for path in (folder / "square").rglob("*") if path.is_file() and path.name != "zarr.json")
    chunks[5].write_bytes(chunks[5].read_bytes()[:-3])
    chunks[20].unlink()
    second = sweep(slow_cells.slow, AXES, **options)
    assert second.dataset.identical(first.dataset)
    assert len(lines(calls)) == before + 2
    sweep(slow_cells.slow, AXES, **options)
    assert len(lines(calls)) == before + 2


@pytest.mark.slow
def test_a_worker_that_dies_loses_nothing(tmp_path):
    """The script has no `if __name__ == "__main__"`: neither the first workers nor the one started anew run it."""
    folder, flag = tmp_path / "cluster.zarr", tmp_path / "flag"
    line = (
        "from sphereflow.sweeps import sweep; import slow_cells\n"
        f"print('begun'); sweep(slow_cells.deadly, {{'x': list(range(40))}}, "
        f"fixed={{'flag': {str(flag)!r}}}, out={str(folder)!r}, workers=2, progress=False)"
    )
    script = tmp_path / "deadly.py"
    script.write_text(program(line)[2])
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=False)
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "begun\n")
    assert flag.exists()
    found = open_sweep(folder)
    assert found.complete
    np.testing.assert_array_equal(found.dataset["value"], 3.0 * np.arange(40))
    assert sorted(int(entry.split()[0]) for entry in lines(journal_of(folder))) == list(range(40))


def test_a_disk_that_takes_no_more_is_named_and_the_sweep_goes_on_later(tmp_path):
    folder = tmp_path / "full.zarr"
    line = (
        "from sphereflow.sweeps import sweep; import slow_cells\n"
        f"sweep(slow_cells.large, {{'x': [1, 2]}}, out={str(folder)!r}, progress=False)"
    )

    # A library that has no bytecode yet would be left with a cut one, and no later process could import it.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    limited = ["bash", "-c", 'ulimit -f 50; exec "$@"', "limited", *program(line)]  # no file above 50 kB
    ended = subprocess.run(limited, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1
    assert "cannot write" in ended.stderr
    assert "what was written is kept" in ended.stderr
    assert sweep(slow_cells.large, {"x": [1, 2]}, out=folder, progress=False).complete


def test_two_processes_are_kept_apart(tmp_path):
    folder, calls = tmp_path / "busy.zarr", tmp_path / "calls"
    process = subprocess.Popen(starting(folder, calls, 0.5))
    try:
        while not lines(calls):
            time.sleep(0.01)
        with pytest.raises(Exception, match="another process is writing"):
            sweep(slow_cells.slow, AXES, fixed={"calls": str(calls), "wait": 0.5}, out=folder, progress=False)
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_hundred_thousand_cells_open_at_once(tmp_path):
    axes = {"a": np.linspace(0, 1, 400), "b": np.linspace(0, 1, 250)}
    folder = tmp_path / "many.zarr"
    found = sweep(_product, axes, out=folder, vmap=True, batch=2048, progress=False)
    assert zarr.open_group(folder, mode="r").attrs["cells_computed"] == 100_000
    began = time.process_time()
    opened = open_sweep(folder)
    assert time.process_time() - began < 1
    np.testing.assert_array_equal(opened.dataset["value"], axes["a"][:, None] * axes["b"])
    assert found.complete


def _product(a, b):
    return a * b
