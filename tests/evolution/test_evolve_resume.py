"""A resumed run is the run that was asked for, or it is refused: every argument, changed one at a time."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.evolution import Status, storage

X0 = np.asarray(sf.draw("uniform", 8, 3, 3))
EVOLVE = {
    "model": sf.SA(2.0),
    "x0": X0,
    "t1": 1.0,
    "t0": 0.0,
    "saveat": 5,
    "tol": 1e-6,
    "solver": "dopri8",
    "max_steps": 1000,
    "method": "direct",
    "seed": 1,
    "parameters": {"note": "first"},
}
# What each argument is changed to. Where nothing may differ, the fresh result must come out.
OTHERS = {
    "model": [sf.SA(2.5), sf.USA(2.0), sf.SA(2.0, causal=True), -sf.SA(2.0), sf.SA(2.0, weights=np.arange(1, 9) / 36)],
    "x0": [X0[::-1].copy(), X0.astype(np.float32), X0[None]],
    "t1": [2.0],
    "t0": [0.5],
    "saveat": [6, [0.1, 0.2, 0.5, 0.9, 1.0]],
    "tol": [1e-7],
    "solver": ["tsit5"],
    "dt": [0.25],
    "event": [sf.Aligned(0.5)],
    "max_steps": [999],
    "method": ["auto"],
    "devices": [1],
    "overwrite": [True],
    "seed": [2],
    "parameters": [{"note": "second"}],
    "progress": [False],
    "out": [],  # another folder is another run
}


def cut_after(frames, monkeypatch):
    """Interrupt the next streaming run when it writes one frame more."""
    original = storage.FrameWriter.append
    written = []

    def append(self, frame, steps):
        if len(written) == frames:
            raise KeyboardInterrupt
        written.append(1)
        original(self, frame, steps)

    monkeypatch.setattr(storage.FrameWriter, "append", append)


def outcome(verb, asked):
    """(result, None), or (None, the sentence of the refusal)."""
    try:
        return verb(**asked), None
    except sf.SphereflowError as refusal:
        return None, str(refusal)


def test_every_argument_of_evolve_has_a_case():
    assert set(OTHERS) == set(inspect.signature(sf.evolve).parameters)


@pytest.mark.parametrize("name", [name for name, others in OTHERS.items() if others])
def test_a_changed_argument_is_refused_or_gives_the_fresh_run(name, tmp_path, monkeypatch):
    for number, other in enumerate(OTHERS[name]):
        out = tmp_path / f"run{number}.zarr"
        with monkeypatch.context() as patch:
            cut_after(3, patch)
            assert sf.evolve(**EVOLVE, out=out, progress=False).status is Status.INTERRUPTED
        asked = EVOLVE | {"out": out, "progress": False, name: other}
        if name == "dt":
            del asked["tol"]
        resumed, refusal = outcome(sf.evolve, asked)
        if resumed is None:
            assert "\n" not in refusal
            continue
        fresh = sf.evolve(**asked | {"out": tmp_path / f"fresh{number}.zarr"})
        np.testing.assert_array_equal(np.asarray(resumed.xs), np.asarray(fresh.xs))
        assert resumed.steps == fresh.steps


SIMULATE = {"n": 8, "d": 3, "beta": 2.0, "t1": 1.0, "saves": 5, "tol": 1e-6, "method": "direct"}
SIMULATE_OTHERS = {
    "n": 9,
    "d": 4,
    "beta": 2.5,
    "t1": 2.0,
    "model": "usa",
    "causal": True,
    "start": "mixture",
    "seed": 1,
    "saves": 6,
    "tol": 1e-7,
    "kernel_scale": "raw",
    "method": "auto",
    "solver": "tsit5",
    "overwrite": True,
    "progress": None,
}


def test_every_argument_of_simulate_has_a_case():
    assert {*SIMULATE_OTHERS, "out"} == set(inspect.signature(sf.simulate).parameters)


@pytest.mark.parametrize("name", [*SIMULATE_OTHERS, "nothing"])
def test_a_changed_argument_of_simulate_is_refused_or_gives_the_fresh_run(name, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_after(2, patch)
        assert sf.simulate(**SIMULATE, out=tmp_path / "run.zarr", progress=False).status is Status.INTERRUPTED
    changed = {} if name == "nothing" else {name: SIMULATE_OTHERS[name]}
    asked = {"progress": False, **SIMULATE, **changed}
    resumed, refusal = outcome(sf.simulate, {**asked, "out": tmp_path / "run.zarr"})
    if name not in ("progress", "overwrite", "nothing"):
        assert resumed is None
        assert "different run" in refusal
        return
    np.testing.assert_array_equal(
        np.asarray(resumed.xs), np.asarray(sf.simulate(**asked, out=tmp_path / "fresh.zarr").xs)
    )


@pytest.mark.slow
def test_a_start_that_is_no_frame_is_kept_and_resumed(tmp_path, monkeypatch):
    asked = {**EVOLVE, "t1": None, "saveat": [0.4, 0.8, 1.0], "progress": False}
    with monkeypatch.context() as patch:
        cut_after(1, patch)
        sf.evolve(**asked, out=tmp_path / "run.zarr")
    resumed = sf.evolve(**asked, out=tmp_path / "run.zarr")
    whole = sf.evolve(**asked, out=tmp_path / "whole.zarr")
    np.testing.assert_array_equal(np.asarray(resumed.xs), np.asarray(whole.xs))
    np.testing.assert_array_equal(resumed.start, X0)
    np.testing.assert_allclose(np.asarray(whole.xs), sf.evolve(**asked).xs, atol=1e-5)
    assert resumed.error_estimate < 1e-5


def test_another_release_does_not_continue_a_run(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_after(2, patch)
        sf.evolve(**EVOLVE, out=tmp_path / "run.zarr", progress=False)
    monkeypatch.setattr(storage, "circumstances", lambda: {"sphereflow": "99.0"})
    with pytest.raises(sf.SphereflowError, match="holds a different run"):
        sf.evolve(**EVOLVE, out=tmp_path / "run.zarr", progress=False)


@pytest.mark.slow
def test_two_processes_cannot_write_one_run(tmp_path, monkeypatch):
    script = (
        "import sys, time, sphereflow as sf\n"
        "from sphereflow.evolution import storage\n"
        "append = storage.FrameWriter.append\n"
        "def slow(self, frame, steps):\n"
        "    append(self, frame, steps)\n"
        "    print('frame', flush=True)\n"
        "    sys.stdin.readline()\n"
        "storage.FrameWriter.append = slow\n"
        "sf.simulate(n=8, d=3, beta=2.0, t1=1.0, saves=5, out=sys.argv[1], progress=False)\n"
    )
    out = tmp_path / "run.zarr"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "frame\n"
        with pytest.raises(sf.SphereflowError, match="another process is writing"):
            sf.simulate(n=8, d=3, beta=2.0, t1=1.0, saves=5, out=out, progress=False)
        child.kill()
    assert sf.simulate(n=8, d=3, beta=2.0, t1=1.0, saves=5, out=out, progress=False).status.complete


@pytest.mark.parametrize("state", ["empty", "header", "arrays", "cut header"])
def test_a_folder_that_was_just_begun_is_begun_again(state, tmp_path, monkeypatch):
    out, partial = tmp_path / "run.zarr", tmp_path / "run.zarr.partial"
    if state == "empty":
        partial.mkdir()
    else:
        with monkeypatch.context() as patch:
            cut_after(1, patch)
            sf.evolve(**EVOLVE, out=out, progress=False)
        kept = {"zarr.json"} | ({"t", "tokens", "steps", "checksum"} if state == "arrays" else set())
        for entry in partial.iterdir():
            if entry.name not in kept:
                storage.shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for chunk in partial.rglob("c/*"):
            storage.shutil.rmtree(chunk) if chunk.is_dir() else chunk.unlink()
        if state == "cut header":
            (partial / "zarr.json").write_text('{"zarr_format": 3, "attri')
    with pytest.raises(sf.SphereflowError) as refusal:
        sf.load(partial)
    assert "\n" not in str(refusal.value)
    run = sf.evolve(**EVOLVE, out=out, progress=False)
    assert run.status is Status.REACHED_END
    assert os.listdir(tmp_path) == ["run.zarr"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    partial = tmp_path / "run.zarr.partial"
    partial.mkdir()
    (partial / "thesis.tex").write_text("all of it")
    with pytest.raises(sf.SphereflowError, match="not an unfinished run"):
        sf.evolve(**EVOLVE, out=tmp_path / "run.zarr", progress=False)
    assert (partial / "thesis.tex").read_text() == "all of it"
