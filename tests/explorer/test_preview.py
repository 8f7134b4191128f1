"""The rough run: NumPy only, near the accurate one, and never taken for it; moving a slider compiles nothing."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from sphereflow.explorer import preview
from sphereflow.explorer.models import dynamics, energy_model, engine, first_tokens
from sphereflow.explorer.preview import ROUGH, attention, cells, rough_frames
from sphereflow.explorer.settings import INTERVALS, MODELS, Settings
from sphereflow.explorer.simulation import frames

DIRECT = ("sa", "usa", "causal", "perceptron", "euclid")


def rough(s: Settings, x0: np.ndarray) -> list:
    return [frame for frame in rough_frames(s, x0) if frame is not None]


def test_two_tokens_at_zero_temperature_follow_the_hyperbolic_tangent():
    """Two tokens only approach each other, so that an error at the end is at most the sum of those of the steps."""
    found = rough(Settings(n=2, d=2, beta=0.0, t1=3.0, clock="linear"), np.eye(2))
    assert len(found) == INTERVALS
    for t, x, energy in found:
        cosine = float(x[0] @ x[1])
        # Steps of 3/120: the local error of the midpoint rule is below h^3 times a derivative of order one.
        assert cosine == pytest.approx(np.tanh(t), abs=INTERVALS * (3 / INTERVALS) ** 3)
        assert energy == pytest.approx((1 + cosine) / 4)


def test_the_rule_has_order_two(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preview, "ROUGH", 1.0)
    s = Settings(n=5, d=3, beta=1.0, t1=3.0, clock="linear")
    x0, ends = first_tokens(s), []
    for intervals in (12, 24, 48, 768):
        monkeypatch.setattr("sphereflow.explorer.settings.INTERVALS", intervals)
        ends.append(rough(s, x0)[intervals // 3 - 1][1])
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 2) < 0.4)


@pytest.mark.parametrize("model", DIRECT)
def test_velocity_and_energy_are_those_of_the_model(model: str):
    s = Settings(model=model, n=30, d=3, beta=3.0, push=0.7)
    x = first_tokens(s)
    crowd = preview._Crowd(s, x)
    exact = np.asarray(dynamics(s).field(jax.numpy.asarray(0.3), jax.numpy.asarray(x)))
    assert np.abs(crowd.velocity(0.3, x) - exact).max() < 1e-5  # rounding in float32, times beta
    assert crowd.energy() == pytest.approx(float(energy_model(s).energy(jax.numpy.asarray(x))), abs=1e-5)


def test_cells_have_the_mass_and_the_pull_of_their_tokens():
    r"""Within a cell of width $h$ the kernel varies by $\beta^2\sin^2\theta\,h^2/24$ of itself on average.

    Where the kernel has its mass $\beta\sin^2\theta$ is 2 on average, and $\beta h^2$ is 0.16.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    masses = rng.uniform(1, 2, len(x))
    masses /= masses.sum()
    for beta in (1.0, 9.0):
        means, found = cells(x, masses, beta)
        assert len(found) < 0.6 * len(x)
        assert found.sum() == pytest.approx(1)
        assert found @ means == pytest.approx(masses @ x)
        kernel = np.exp(beta * (x[:50] @ x.T - 1)) * masses
        exact = kernel @ x / kernel.sum(axis=1, keepdims=True)
        assert np.abs(attention(beta, x, masses)[0][:50] - exact).max() < 2 * 0.16 / 24


@pytest.mark.parametrize("model", ["common", "own"])
def test_layers_are_those_of_the_accurate_run(model: str):
    s = Settings(model=model, n=6, d=3, beta=2.0, noise=0.4, pull=0.5, t1=2.0)
    accurate = [frame for turn in frames(s) for frame in turn]
    found = rough(s, accurate[0][1])
    for (t, x, energy), (t_rough, x_rough, energy_rough) in zip(accurate[1:], found, strict=True):
        assert t == t_rough
        # Attention is summed in float32, and errors grow with the noise that all tokens share.
        assert np.abs(x - x_rough).max() < 1e-4
        assert energy_rough == pytest.approx(energy, abs=1e-4)


def test_a_rough_run_ends_where_the_accurate_one_does():
    """One cluster of 16 tokens within a hemisphere: nothing is unstable, so that errors of steps do not grow."""
    s = Settings(n=16, d=3, beta=2.0, start="hemisphere", t1=30.0)
    accurate = [frame for turn in frames(s) for frame in turn]
    found = rough(s, accurate[0][1])
    assert [frame[0] for frame in found] == [frame[0] for frame in accurate[1:]]
    distances = [np.abs(a[1] - b[1]).max() for a, b in zip(accurate[1:], found, strict=True)]
    assert max(distances) < 5 * ROUGH
    assert np.abs(found[-1][1] - found[-1][1][0]).max() < 2 * preview.NEAR


def compilations(s: Settings, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many programs XLA compiles, or reads from disk, for the whole run."""
    counted = []
    compile_or_read = jax._src.compiler.compile_or_get_cached
    with monkeypatch.context() as patch:

        def counting(*args, **options):
            counted.append(args)
            return compile_or_read(*args, **options)

        patch.setattr(jax._src.compiler, "compile_or_get_cached", counting)
        patch.setattr("sphereflow.explorer.settings.INTERVALS", 8)
        patch.setattr("sphereflow.explorer.models.INTERVALS", 8)
        for _ in frames(s):
            pass
    return len(counted)


MOVED = ({"beta": 3.25}, {"beta": 0.0}, {"beta": 5000.0}, {"t1": 0.7}, {"seed": 5}, {"clock": "linear"})
NOISE = ({"noise": 0.3}, {"pull": 2.0})


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.fast_cases("sa", "common")
def test_continuous_parameters_compile_nothing(model: str, monkeypatch: pytest.MonkeyPatch):
    s = Settings(model=model, n=8, d=3, beta=2.0, t1=1.0)
    jax.clear_caches()
    assert compilations(s, monkeypatch) > 0  # it does count
    for change in (*MOVED, *(NOISE if s.noisy else ()), *([{"push": -0.4}] if model == "perceptron" else ())):
        assert compilations(dataclasses.replace(s, **change), monkeypatch) == 0, change


def test_there_are_three_programs_at_most_for_many_tokens():
    """Beyond the direct sum the number of modes is a part of a program: it may not follow beta."""
    for d in (2, 3):
        found = {
            engine(Settings(n=5000, d=d, beta=beta)) for beta in (0.0, 1.0, 9.0, 20.0, 20.1, 60.0, 100.0, 101.0, 1e4)
        }
        assert 1 < len(found) <= 3
    assert len({engine(Settings(n=5000, beta=beta)) for beta in np.linspace(0, 20, 30)}) == 1
    assert engine(Settings(n=300)).name == engine(Settings(n=5000, model="causal")).name == "direct"
