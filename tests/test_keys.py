"""JAX keys as seeds: kinds of keys, and runs, sweeps and histories that keep theirs and are continued by no other."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import sphereflow as sf
from sphereflow import memory
from sphereflow.errors import SphereflowError
from sphereflow.evolution import shell as running
from sphereflow.seeds import following, key_from, number_from, recorded

KEY, OTHER = jax.random.split(jax.random.key(3))
CIRCLE = np.stack([np.cos([0.0, 0.7, 2.0]), np.sin([0.0, 0.7, 2.0])], axis=1)


def test_keys_of_every_kind():
    old, new = jax.random.PRNGKey(9), jax.random.key(9)
    assert key_from(old) == new
    assert recorded(old) == recorded(new) == (0, 9) != recorded(9) == 9
    assert jax.random.wrap_key_data(np.array(recorded(KEY), np.uint32)) == KEY
    assert recorded(jax.random.key(9, impl="rbg")) != recorded(jax.random.key(9, impl="unsafe_rbg"))
    numbers = [number_from(jax.random.key(k)) for k in range(100)]
    assert max(numbers) < 2**61
    assert np.abs(np.diff(np.sort(numbers))).min() > 1000  # neighbouring keys share no streams
    assert following(KEY, 1) != KEY


def test_wrong_kinds_of_seed_get_one_sentence():
    """In a process of its own, because in the tests annotations are checked and would speak first."""
    program = """
import jax.numpy as jnp, numpy as np, sphereflow as sf
for seed in (1.5, "x", None, [0, 7], np.zeros(2), np.uint32([1, 2, 3]), jnp.asarray(3), np.bool_(True), jnp.uint32(4)):
    try:
        sf.draw("uniform", 3, 2, seed)
    except sf.SphereflowError as error:
        told = str(error)
        assert told.startswith("seed must be") and told.endswith(".") and chr(10) not in told, told
    else:
        raise AssertionError(seed)
sf.draw("uniform", 3, 2, np.uint32([0, 7]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_records_its_key_and_is_continued_by_no_other(tmp_path, monkeypatch):
    def run(seed):
        return sf.simulate(3, 2, 1.0, 0.1, seed=seed, saves=2, tol=1e-4, out=tmp_path / "run.zarr")

    with monkeypatch.context() as patch:
        patch.setattr(running, "solve_forward", cut_short)
        run(KEY)
    for other in (OTHER, number_from(KEY)):
        with pytest.raises(SphereflowError, match="holds a different run"):
            run(other)
    done = run(KEY)
    assert done.seed == sf.load(tmp_path / "run.zarr").seed == done.extend(2 * float(done.ts[-1])).seed == recorded(KEY)
    assert "seed" not in sf.simulate(3, 2, 1.0, 0.1, seed=1, saves=2, tol=1e-4).parameters


def cut_short(*_, **__):
    raise KeyboardInterrupt


def test_keys_are_no_coordinates_of_a_sweep():
    for keys in (jax.random.split(KEY), [KEY, OTHER]):
        with pytest.raises(SphereflowError, match="axis 'seed' has JAX keys"):
            sf.sweep(lambda seed: 1.0, {"seed": keys})


def test_a_history_of_mergers_keeps_its_key(tmp_path):
    for seed in (KEY, 4, jax.random.key(1, impl="rbg")):
        history = sf.metastability.coarsen_to_one("sa", CIRCLE[:2], 20.0, seed=seed)
        history.save(tmp_path / "history.npz", overwrite=True)
        assert sf.load(tmp_path / "history.npz").seed == history.seed == recorded(seed)


def test_a_sweep_of_memory_is_continued_by_its_own_key_only(tmp_path):
    asked = {"loads": [0.5], "temperatures": [0.5], "patterns": 20, "repeats": 2, "steps": 10}
    keep = tmp_path / "rows.json"
    whole = memory.sweep(**asked, seed=KEY, keep=keep)
    assert whole.seed == recorded(KEY)
    assert np.array_equal(memory.sweep(**asked, seed=KEY, keep=keep).overlap, whole.overlap)
    for other in (OTHER, number_from(KEY)):
        with pytest.raises(SphereflowError, match="was made with seed"):
            memory.sweep(**asked, seed=other, keep=keep)
