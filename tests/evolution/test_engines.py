"""The choice of engine changes the time a run takes, not its result."""

import numpy as np
import pytest

from sphereflow import SA, USA, Perceptron, SphereflowError, draw, evolve, simulate
from sphereflow.sphere import project


@pytest.mark.fast_cases("model0-2-fourier")
@pytest.mark.parametrize(
    ("model", "d", "method"),
    [
        (SA(9.0), 2, "fourier"),
        (USA(9.0, causal=True), 2, "fourier"),
        (SA(4.0), 3, "harmonic"),
        (USA(0.5), 4, "polynomial"),
        (-(USA(2.0) + Perceptron([1.0], [[0.0, 1.0]])), 2, "fourier"),
    ],
)
def test_a_run_does_not_depend_on_its_engine(model, d, method):
    x0 = draw("uniform", 200, d, 1)
    slow, fast = (evolve(model, x0, 1.0, saveat=2, tol=1e-8, method=m) for m in ("direct", method))
    assert (slow.engine, fast.engine) == ("direct", method)
    assert np.abs(slow.final - fast.final).max() < 1e-8


@pytest.mark.slow
def test_large_runs_choose_a_linear_time_engine_by_themselves_and_say_so():
    run = simulate(n=20_000, d=2, beta=9.0, t1=0.2, saves=2, progress=False)
    assert run.engine == "fourier"
    assert "fourier sums" in repr(run)
    assert run.energy[1] > run.energy[0]
    assert simulate(n=20, d=2, beta=9.0, t1=0.2, saves=2).engine == "direct"


def test_an_engine_that_cannot_serve_says_why():
    with pytest.raises(SphereflowError, match="'harmonic' cannot serve this request"):
        simulate(n=10, d=5, t1=1.0, method="harmonic")
    with pytest.raises(SphereflowError, match="method must be one of"):
        simulate(n=10, t1=1.0, method="fast")


def test_another_beta_does_not_compile_again(monkeypatch):
    traced = []
    monkeypatch.setattr("sphereflow.dynamics.attention.project", lambda x, v: traced.append(1) or project(x, v))
    x0 = draw("uniform", 11, 3, 0)
    evolve(SA(1.0), x0, 1.0, saveat=2)
    once = len(traced)
    for beta in (0.5, 2.0, 7.5):
        evolve(SA(beta), x0, 1.0, saveat=2)
    assert len(traced) == once > 0
