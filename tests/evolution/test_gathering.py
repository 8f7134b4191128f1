"""Runs whose tokens gather go on with sums through clusters: the same run, on disk as well, and resumed."""

import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow.dynamics import attention
from sphereflow.evolution import Status, storage
from sphereflow.interaction import Adaptive, gathering

N, D = 150, 5


@pytest.fixture
def small(monkeypatch):
    """Clusters for any number of tokens; the engines that runs were given, from one span to the next."""
    monkeypatch.setattr(attention, "LEAST_PAIRS", 1)
    monkeypatch.setattr(gathering, "LEAST_PAIRS", 1)
    monkeypatch.setattr(gathering, "_TRIFLE", 0)
    monkeypatch.setattr(gathering, "CLUSTERS", (1, 4))
    monkeypatch.setattr(gathering, "direct_cost", lambda *_: 1e5)
    monkeypatch.setattr(gathering, "clustered_cost", lambda n, d, c, clusters, features: clusters * features)
    chosen = []
    choose = gathering.choose_clusters

    def spy(*asked):
        chosen.append(choose(*asked))
        return chosen[-1]

    monkeypatch.setattr(attention, "choose_clusters", spy)
    return chosen


def start(spread=0.3):
    """Tokens that need a while to gather."""
    rng = np.random.default_rng(0)
    x = np.repeat(np.eye(D)[:3], N // 3, axis=0) + spread * rng.normal(size=(N, D)) / np.sqrt(D)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


MODELS = {
    "attention": lambda: sf.SA(4.0),
    "sum": lambda: 4.0 * sf.USA(2.0) + sf.Perceptron([0.5], [[0.0] * (D - 1) + [1.0]], activation="tanh"),
    "matrices": lambda: sf.SA(4.0, query=np.diag([1, 1, 1, 0.5, 0.5]), key=np.diag([1, 1, 1, 1, 0.7])),
}


@pytest.mark.fast_cases("attention")
@pytest.mark.parametrize("name", MODELS)
def test_a_run_does_not_depend_on_it(name, small, tmp_path):
    asked = {"model": MODELS[name](), "x0": start(), "t1": 6.0, "saveat": 5, "tol": 1e-7, "progress": False}
    fast = sf.evolve(**asked, out=tmp_path / "run.zarr")
    assert small[0] != small[-1]
    assert small[-1].name == "clustered"
    assert fast.engine == "adaptive"
    assert fast.engine_error == small[-1].tol == pytest.approx(1e-9)
    exact = sf.evolve(**asked, method="direct")
    assert exact.engine == "direct"
    assert np.abs(fast.xs - exact.xs).max() < 1e-8
    if name != "matrices":  # which has none
        np.testing.assert_allclose(fast.energy, exact.energy, rtol=1e-8)


def test_a_run_with_one_frame_at_its_end_is_asked_on_the_way(small, tmp_path):
    """Ten times in all, however few frames are kept; and the steps of all parts are those of the run."""
    asked = {"model": sf.SA(4.0), "x0": start(), "t1": 6.0, "saveat": 2, "tol": 1e-7, "progress": False}
    run = sf.evolve(**asked, out=tmp_path / "run.zarr")
    assert len(small) == 10
    assert small[0] != small[-1] is not None
    exact = sf.evolve(**asked, method="direct")
    assert np.abs(run.xs - exact.xs).max() < 1e-8
    assert run.steps >= 10
    short = sf.evolve(**asked, out=tmp_path / "short.zarr", max_steps=3)
    assert short.status is Status.STEP_LIMIT
    assert len(short.ts) == 1


def test_a_resumed_run_is_the_same_to_the_bit(small, tmp_path, monkeypatch):
    asked = {"model": sf.SA(4.0), "x0": start(), "t1": 6.0, "saveat": 5, "tol": 1e-7, "progress": False}
    whole = sf.evolve(**asked, out=tmp_path / "whole.zarr")
    append, written = storage.FrameWriter.append, []

    def interrupted(self, frame, steps):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(1)
        append(self, frame, steps)

    with monkeypatch.context() as patch:
        patch.setattr(storage.FrameWriter, "append", interrupted)
        assert sf.evolve(**asked, out=tmp_path / "cut.zarr").status is Status.INTERRUPTED
    again = sf.evolve(**asked, out=tmp_path / "cut.zarr")
    assert small[-1] is not None
    np.testing.assert_array_equal(again.xs, whole.xs)


def test_replicas_are_summed_directly(small, tmp_path):
    run = sf.evolve(sf.SA(4.0), start()[None].repeat(2, 0), 1.0, saveat=2, out=tmp_path / "run.zarr", progress=False)
    assert not small
    assert run.status is Status.REACHED_END


@pytest.mark.parametrize(
    "model",
    [
        lambda **own: sf.SA(4.0, causal=True, **own),
        lambda **own: sf.SA(4.0, kernel=lambda s, beta: (1 + s) ** 2, **own),
        lambda **own: sf.PiecewiseConstant([0.5], [sf.SA(4.0, **own), sf.SA(2.0, **own)]),
        lambda **own: sf.SA(4.0, causal=True) + sf.USA(2.0, **own),
    ],
    ids=["mask", "own kernel", "schedule", "sum"],
)
def test_what_clusters_do_not_serve_stays_with_all_pairs(small, model):
    """Adaptive sums that were asked for, by the model or by the method; only the second term of the sum may change."""
    x, t = jnp.asarray(start(0.01)), jnp.zeros(())
    for asked in (model(engine=Adaptive(1e-8)), model().tuned(N, D, 1e-6, method=Adaptive(1e-8))):
        gathered = asked.gathered(x)
        np.testing.assert_allclose(gathered.field(t, x), model().field(t, x), atol=1e-7)
