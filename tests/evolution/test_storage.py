"""Trajectories on disk: bit-equal, whole or refused, resumable after a real kill."""

import json
import os
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import sphereflow as sf
from sphereflow.evolution import Status


def same(a, b):
    np.testing.assert_array_equal(a.ts, b.ts)
    np.testing.assert_array_equal(np.asarray(a.xs), np.asarray(b.xs))
    assert (a.tol, a.solver, a.seed, a.status, a.parameters) == (b.tol, b.solver, b.seed, b.status, b.parameters)


field = eqx.filter_jit(lambda model, x: model.field(jnp.asarray(0.2), x))


def models():
    rng = np.random.default_rng(0)
    mlp = sf.Perceptron(rng.normal(size=3), rng.normal(size=(3, 3)), activation="gelu")
    square = rng.normal(size=(3, 3))
    yield sf.SA(2.0, causal=True)
    yield sf.USA(2.0, query=square, key=square, value=square, weights=rng.dirichlet(np.ones(8)))
    yield -(sf.USA(2.0) + mlp)
    yield sf.PiecewiseConstant([0.1], [sf.SA(1.0), sf.SA(2.0)])
    yield sf.LayerNormAttention(1.0, "peri")
    yield sf.RescaledAttention(sf.EuclideanAttention(square), 3)
    yield sf.SA(2.0, mask=sf.Alibi(jnp.asarray(0.2), strict=True))


@pytest.fixture(scope="module")
def short():
    """A run that several tests store, made once."""
    return sf.simulate(n=8, d=3, t1=1.0, saves=4)


@pytest.mark.fast_cases("PiecewiseConstant")
@pytest.mark.parametrize("model", list(models()), ids=lambda model: type(model).__name__)
def test_saved_runs_come_back_bit_for_bit_with_their_model(model, tmp_path):
    # The solver with the fewest stages compiles fastest; what is tested is what is stored.
    x0 = sf.draw("uniform", 8, 3)
    run = sf.evolve(model, x0, 0.3, saveat=4, seed=11, parameters={"note": "é"}, solver="heun", dt=0.1)
    run.save(tmp_path / "run.zarr")
    back = sf.load(tmp_path / "run.zarr")
    same(run, back)
    x = jnp.asarray(run.final)
    np.testing.assert_array_equal(field(model, x), field(back.model, x))
    assert [p.name for p in tmp_path.iterdir()] == ["run.zarr"]


@pytest.mark.slow
def test_replicas_and_events_are_kept(tmp_path):
    x0 = jnp.stack([sf.draw("uniform", 8, 3, s) for s in range(3)])
    run = sf.evolve(sf.SA(1.0), x0, 60.0, event=sf.AllClose(1e-2), solver="bosh3", tol=1e-6)
    assert len(set(run.stopped_at)) == 3
    back = sf.load(run.save(tmp_path / "r.zarr"))
    same(run, back)
    np.testing.assert_array_equal(run.stopped_at, back.stopped_at)


def test_xarray_opens_the_folder(short, tmp_path):
    short.save(tmp_path / "run.zarr")
    with xr.open_zarr(tmp_path / "run.zarr", consolidated=False) as data:
        assert data["tokens"].dims == ("t", "token", "component")
        np.testing.assert_array_equal(data["tokens"], short.xs)


def test_refuses_to_overwrite_unless_asked(short, tmp_path):
    first, second = short, sf.simulate(n=8, d=3, t1=2.0, saves=4)
    first.save(tmp_path / "run.zarr")
    with pytest.raises(sf.SphereflowError, match="exists already"):
        second.save(tmp_path / "run.zarr")
    same(sf.load(tmp_path / "run.zarr"), first)
    second.save(tmp_path / "run.zarr", overwrite=True)
    same(sf.load(tmp_path / "run.zarr"), second)


def test_a_finished_run_asked_for_again_is_read_and_another_is_not(tmp_path, monkeypatch):
    request = {"n": 8, "d": 3, "t1": 1.0, "saves": 3, "out": tmp_path / "run.zarr", "progress": False}
    first = sf.simulate(**request)
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["sphereflow.evolution.shell"], "solve_forward", None)  # nothing may be solved
        same(sf.simulate(**request), first)
    with pytest.raises(sf.SphereflowError, match="exists already"):
        sf.simulate(**request | {"seed": 1})
    kept = np.asarray(first.xs)
    other = sf.simulate(**request | {"seed": 1, "overwrite": True})
    assert not np.array_equal(other.final, kept[-1])
    same(sf.load(tmp_path / "run.zarr"), other)


@pytest.mark.fast_cases("options1")
@pytest.mark.parametrize("options", [{"tol": 1e-9}, {"dt": 0.05, "solver": "heun"}])
def test_a_run_goes_on_where_it_ended(options):
    x0 = sf.draw("uniform", 8, 3, 0)
    run = sf.evolve(sf.SA(2.0), x0, 1.0, saveat=3, **options).extend(2.0)
    whole = sf.evolve(sf.SA(2.0), x0, 2.0, saveat=5, **options)
    np.testing.assert_allclose(run.ts, whole.ts, rtol=1e-14)
    np.testing.assert_allclose(run.xs, whole.xs, atol=2e-9)
    assert run.status is Status.REACHED_END
    with pytest.raises(sf.SphereflowError, match="t1"):
        run.extend(1.5)
    with pytest.raises(sf.SphereflowError, match="only a run that reached its end"):
        sf.evolve(sf.SA(2.0), x0, 9.0, saveat=3, max_steps=2).extend(10.0)


@pytest.mark.parametrize("damage", ["chunk removed", "chunk cut", "metadata cut", "not zarr", "missing", "foreign"])
def test_damaged_folders_are_refused_in_one_sentence(damage, short, tmp_path):
    path = tmp_path / "run.zarr"
    short.save(path)
    chunk = next(p for p in sorted((path / "tokens").rglob("*")) if p.is_file() and p.name != "zarr.json")
    if damage == "chunk removed":
        chunk.unlink()
    elif damage == "chunk cut":
        chunk.write_bytes(chunk.read_bytes()[:-50])
    elif damage == "metadata cut":
        (path / "zarr.json").write_text((path / "zarr.json").read_text()[:-40])
    elif damage == "not zarr":
        path = tmp_path / "empty"
        path.mkdir()
    elif damage == "missing":
        path = tmp_path / "nothing.zarr"
    else:
        meta = json.loads((path / "zarr.json").read_text())
        meta["attributes"] = {}
        (path / "zarr.json").write_text(json.dumps(meta))
    with pytest.raises(sf.SphereflowError) as caught:
        sf.load(path)
    assert "\n" not in str(caught.value)


def test_unknown_model_parts_are_not_built(short, tmp_path):
    path = tmp_path / "run.zarr"
    short.save(path)
    meta = json.loads((path / "zarr.json").read_text())
    run = json.loads(meta["attributes"]["run"])
    run["model"]["kind"] = "os.system"
    meta["attributes"]["run"] = json.dumps(run)
    (path / "zarr.json").write_text(json.dumps(meta))
    with pytest.raises(sf.SphereflowError, match="saved model cannot be read"):
        sf.load(path)


SCRIPT = """
import sys, sphereflow as sf
sf.simulate(n=8, d=3, beta=4.0, t1=40.0, saves=2001, out=sys.argv[1], progress=False)
"""


@pytest.mark.slow
def test_a_killed_run_continues_where_it_was(tmp_path):
    out = tmp_path / "run.zarr"
    partial = tmp_path / "run.zarr.partial"
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)], stderr=subprocess.PIPE) as child:
        deadline = time.monotonic() + 120
        while len(list((partial / "checksum").rglob("c/*"))) < 20:
            assert child.poll() is None, child.stderr.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
    assert not out.exists()
    before = sf.load(partial)
    assert before.status is Status.INTERRUPTED
    assert 20 <= len(before) < 2001
    with pytest.raises(sf.SphereflowError, match="holds a different run"):
        sf.simulate(n=8, d=3, beta=5.0, t1=40.0, saves=2001, out=out, progress=False)
    np.testing.assert_array_equal(before.frame(0), sf.draw("uniform", 8, 3, 0))


def test_continuing_gives_the_frames_of_an_uninterrupted_run(tmp_path, monkeypatch):
    from sphereflow.evolution import storage

    written = []
    original = storage.FrameWriter.append

    def stop_after_five(self, frame, steps):
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(1)
        original(self, frame, steps)

    arguments = {"n": 8, "d": 3, "beta": 4.0, "t1": 3.0, "saves": 9, "progress": False}
    monkeypatch.setattr(storage.FrameWriter, "append", stop_after_five)
    cut = sf.simulate(**arguments, out=tmp_path / "run.zarr")
    assert cut.status is Status.INTERRUPTED
    assert len(cut) == 5
    monkeypatch.setattr(storage.FrameWriter, "append", original)
    with pytest.raises(sf.SphereflowError, match="holds a different run"):
        sf.simulate(**arguments, tol=1e-5, out=tmp_path / "run.zarr")
    resumed = sf.simulate(**arguments, out=tmp_path / "run.zarr")
    assert resumed.status is Status.REACHED_END
    whole = sf.simulate(**arguments, out=tmp_path / "whole.zarr")
    assert resumed.steps == whole.steps
    np.testing.assert_array_equal(np.asarray(resumed.xs), np.asarray(whole.xs))
    np.testing.assert_allclose(np.asarray(resumed.xs), sf.simulate(**arguments).xs, atol=1e-9)


@pytest.mark.parametrize("name", ["missing/run.zarr", "file/run.zarr"])
def test_unwritable_targets_are_refused_before_the_work(name, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sf.SphereflowError, match="cannot write"):
        sf.simulate(n=4, t1=1.0, out=tmp_path / name)
