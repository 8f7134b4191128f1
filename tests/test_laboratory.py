"""`simulate`: every argument is checked, used or not; a run resumed with one of them changed is never a mixture."""

import inspect

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.cli import staircase as command
from sphereflow.errors import SphereflowError
from sphereflow.evolution import shell as running
from sphereflow.metastability import Outcome, coarsen, staircase

PLAIN = {"n": 3, "d": 2, "beta": 9.0, "t1": 2.0, "model": "sa", "causal": False, "start": "uniform", "seed": 1,
         "saves": 4, "tol": 1e-6, "kernel_scale": "peak", "method": "auto", "progress": False}  # fmt: skip
ENDLESS = {**PLAIN, "t1": "inf", "saves": 101}
# What each argument is changed to between the two calls.
CHANGES = {
    "n": 4,
    "d": 3,
    "beta": 9.5,
    "t1": 3.0,
    "model": "usa",
    "causal": True,
    "start": "vmf",
    "seed": 2,
    "saves": 5,
    "tol": 1e-7,
    "kernel_scale": "raw",
    "method": "fourier",
    "solver": "tsit5",
    "overwrite": True,
    "out": "elsewhere",
    "progress": None,
}
HARMLESS = {"out", "progress"}


def told(history):
    """The numbers of a history, and what it says about itself."""
    return repr(history.merges), history.curve.tolist(), history.final.tolist(), history.seed, repr(history)


@pytest.fixture(scope="module")
def fresh():
    return told(sf.simulate(**ENDLESS))


@pytest.fixture
def cut(tmp_path, monkeypatch):
    """Interrupt a run after its first leg or frame; returns the name given as `out`."""

    def interrupt(request):
        out = tmp_path / "run"
        module, name = (coarsen, "advance") if request["t1"] == "inf" else (running, "solve_forward")
        whole, seen = getattr(module, name), []

        def interrupted(*arguments, **options):
            if len(seen) == 2:
                raise KeyboardInterrupt
            seen.append(arguments)
            return whole(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            found = sf.simulate(**request, out=out)
        assert getattr(found, "outcome", None) is Outcome.INTERRUPTED or not found.status.complete
        return out

    return interrupt


def test_every_argument_has_a_case():
    assert set(inspect.signature(sf.simulate).parameters) == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_argument_of_an_endless_run_is_refused_or_gives_the_fresh_result(cut, fresh, tmp_path, name):
    out = cut(ENDLESS)
    value = tmp_path / "elsewhere" if name == "out" else CHANGES[name]
    if name in HARMLESS:
        assert told(sf.simulate(**{**ENDLESS, "out": out, name: value})) == fresh
        return
    with pytest.raises(SphereflowError, match=r"was made with|single cluster \(t1='inf'\)|exists already"):
        sf.simulate(**{**ENDLESS, "out": out, name: value})


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "method"])  # the tests of `evolve` have that one
def test_a_changed_argument_of_a_timed_run_is_refused_or_gives_the_fresh_result(cut, tmp_path, name):
    out = cut(PLAIN)
    value = tmp_path / "elsewhere" if name == "out" else CHANGES[name]
    if name in HARMLESS | {"overwrite"}:
        resumed = sf.simulate(**{**PLAIN, "out": out, name: value})
        fresh = sf.simulate(**PLAIN, out=tmp_path / "fresh")
        np.testing.assert_allclose(np.asarray(resumed.xs), np.asarray(fresh.xs), atol=PLAIN["tol"])
        return
    with pytest.raises(SphereflowError, match=r"different run|single cluster"):
        sf.simulate(**{**PLAIN, "out": out, name: value})


@pytest.mark.parametrize(
    "change",
    [
        {"method": "nonsense"},
        {"saves": -5},
        {"saves": 1},
        {"kernel_scale": "banana"},
        {"model": "softmax"},
        {"start": "nowhere"},
        {"seed": -1},
        {"seed": 2**70},
        {"n": 0},
        {"d": 0},
        {"beta": float("nan")},
        {"beta": 1e300},
        {"beta": -1.0},
        {"tol": 0.0},
        {"tol": float("nan")},
        {"t1": "a number"},
        {"t1": float("-inf")},
        {"t1": -1.0},
        {"out": "/nowhere/at/all"},
    ],
    ids=str,
)
@pytest.mark.parametrize("request_", [PLAIN, ENDLESS], ids=["timed", "endless"])
def test_what_makes_no_sense_is_said(request_, change):
    with pytest.raises(SphereflowError):
        sf.simulate(**{**request_, **change})


@pytest.mark.slow
def test_both_doors_to_the_single_cluster_run_the_same_model():
    defaults = [inspect.signature(door).parameters for door in (sf.simulate, command.command, staircase)]
    assert [defaults[0]["model"].default, defaults[1]["model"].default, defaults[2]["model"].default] == ["sa"] * 3
    history = sf.simulate(n=4, d=2, beta=30.0, t1="inf", seed=2)
    assert sf.simulate(n=4, d=2, beta=30.0, t1=np.inf, seed=2) == history
    steps = staircase(4, 30.0, 2)
    assert steps.unglued.kind == history.kind == "sa"
    np.testing.assert_allclose(steps.unglued.log_times, history.log_times, rtol=1e-6)
    assert "SA at beta = 30" in steps.summary()
