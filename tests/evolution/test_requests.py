"""What a run was asked for is what it does: saved times, fixed steps, precision, limits, engines."""

import inspect
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow import runtime
from sphereflow.evolution import Status
from sphereflow.solving import step_grid

X = np.asarray(sf.draw("uniform", 8, 3, 3))  # as in other files, so that programs are shared
SINGLE = X.astype(np.float32)


@pytest.fixture(params=["one call", "frame by frame"])
def way(request, monkeypatch):
    """Short runs are one compiled call, long ones go frame by frame; both must do the same."""
    if request.param == "frame by frame":
        monkeypatch.setattr(sys.modules["sphereflow.evolution.shell"], "_ONE_CALL_PAIRS", 0)
    return request.param


@pytest.mark.fast_cases("one call")
def test_saved_times_need_not_begin_with_the_start(way):
    every = sf.evolve(sf.SA(2.0), X, 2.0, saveat=[0.0, 1.0, 2.0])
    later = sf.evolve(sf.SA(2.0), X, 2.0, saveat=[1.0, 2.0])
    np.testing.assert_allclose(later.xs, every.xs[1:], atol=1e-8)
    np.testing.assert_array_equal(later.start, X)
    np.testing.assert_array_equal(later.ts, [1.0, 2.0])
    assert later.t0 == 0.0
    assert later.error_estimate < 1e-8
    only = sf.evolve(sf.SA(2.0), X, saveat=[2.0])
    np.testing.assert_allclose(only.final, every.final, atol=1e-8)


def test_saved_times_and_other_arguments_must_agree():
    for arguments, sentence in (
        ({"t1": 3.0, "saveat": [1.0, 2.0]}, "the last time of saveat is the final time: 2, but t1=3"),
        ({"saveat": [-1.0, 2.0]}, "after the start t0=0"),
        ({"saveat": [0.0]}, "after the start t0=0"),
        ({"saveat": []}, "increasing finite times"),
        ({"saveat": [1.0, 1.0]}, "increasing finite times"),
        ({"saveat": np.array(["soon"])}, "increasing finite times"),
        ({"t1": 1.0, "method": "banana"}, "method must be one of"),
        ({"t1": 1.0, "dt": 0.1, "tol": 1e-6}, "tol or dt, not both"),
        ({"saveat": [0.0, 0.25, 1.0], "dt": 0.1}, "whole numbers of steps"),
    ):
        with pytest.raises(sf.SphereflowError, match=sentence):
            sf.evolve(sf.SA(2.0), X, **arguments)


def test_a_method_that_cannot_serve_a_model_is_refused():
    circle = sf.draw("uniform", 4, 2)
    for model in (
        sf.Perceptron([1.0], [[1.0, 0.0]]),
        sf.EuclideanAttention(np.diag([1.0, 0.5])),
    ):
        with pytest.raises(sf.SphereflowError, match="'fourier' cannot serve this"):
            sf.evolve(model, circle, 1.0, method="fourier")


def euler(x, h):
    """One layer in plain NumPy: a step of the Euler method, and normalisation."""
    k = np.exp(0.5 * (x @ x.T - 1))
    pull = k @ x / k.sum(axis=1, keepdims=True)
    moved = x + h * (pull - np.sum(x * pull, axis=1, keepdims=True) * x)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


@pytest.mark.fast_cases("one call")
def test_fixed_steps_are_the_steps_asked_for(way):
    run = sf.evolve(sf.SA(0.5), X, 4.0, solver="euler", dt=0.3)
    x = X
    for h in [0.3] * 13 + [0.1]:
        x = euler(x, h)
    np.testing.assert_allclose(run.final, x, atol=1e-13)
    np.testing.assert_allclose(run.ts, np.append(0.3 * np.arange(14), 4.0), atol=1e-12)
    assert run.steps == 14


def test_fixed_steps_promise_no_error_and_say_so():
    run = sf.evolve(sf.SA(0.5), X, 2.0, solver="euler", dt=1.0)
    assert run.tol is None
    assert "fixed steps of 1, no error control" in run.summary()
    assert "tolerance" not in repr(run)
    exact = sf.evolve(sf.SA(0.5), X, saveat=run.ts, tol=1e-12)
    assert run.error_estimate == pytest.approx(np.abs(run.xs - exact.xs).max(), rel=1e-6)
    assert run.error_estimate > 0.01


@pytest.mark.slow
def test_fixed_steps_keep_their_order_across_jumps():
    model = sf.PiecewiseConstant([0.55], [sf.SA(1.0), -2.0 * sf.USA(3.0)])
    exact = sf.evolve(model, X, 1.0, saveat=2, tol=1e-12).final
    errors = [
        np.abs(sf.evolve(model, X, 1.0, saveat=2, solver="tsit5", dt=dt).final - exact).max() for dt in (0.25, 0.125)
    ]
    assert errors[0] / errors[1] > 2**3.5  # fifth order with steps of unequal size; without landing it is about 2
    grid = step_grid(np.array([0.0, 1.0]), np.array([0.55]), 0.25, "float64")
    assert np.diff(grid).max() <= 0.25
    assert np.any((grid < 0.55) & (grid > 0.55 - 1e-12))
    assert 0.55 not in grid


def test_the_error_of_a_method_of_low_order_is_known():
    """A second solve by the same method would take more steps than are allowed."""
    run = sf.evolve(sf.SA(0.5), X, 8.0, saveat=2, solver="heun", dt=0.5)
    exact = sf.evolve(sf.SA(0.5), X, 8.0, saveat=2, tol=1e-12)
    assert run.error_estimate == pytest.approx(np.abs(run.xs - exact.xs).max(), rel=1e-6)


def test_steps_that_are_never_taken_fill_no_memory():
    """A grid of 1e12 times would; up to the limit of steps it is the one without a limit."""
    times, jumps = np.array([0.0, 1.0, 2.0]), np.array([0.55])
    assert len(step_grid(times, jumps, 1e-12, "float64", 50)) < 60
    whole, cut = (step_grid(times, jumps, 0.01, "float64", most) for most in (1000, 120))
    np.testing.assert_array_equal(cut[:121], whole[:121])
    assert cut[-1] == whole[-1] == 2.0
    run = sf.evolve(sf.SA(0.5), X, 2.0, solver="euler", dt=1e-12, saveat=2, max_steps=9)
    assert run.status is Status.STEP_LIMIT
    for dt, word in ((1e-14, "longer ones"), (1e-300, "too short")):
        with pytest.raises(sf.SphereflowError, match=word):
            sf.evolve(sf.SA(0.5), X, 2.0, solver="euler", dt=dt, max_steps=10**15)


@pytest.mark.fast_cases("frame by frame")
def test_the_limit_of_steps_counts_the_whole_run(way):
    run = sf.evolve(sf.SA(2.0), X, 50.0, saveat=26, max_steps=20)
    assert run.status is Status.STEP_LIMIT
    assert run.steps <= 20
    assert len(run) < 26


MODELS = {
    "matrices": sf.USA(2.0, kernel_scale="raw", query=np.eye(3), key=np.eye(3), value=np.eye(3) / 2),
    "masses": sf.SA(2.0, weights=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]),
    "perceptron": sf.SA(2.0) + sf.Perceptron([1.0], [[0.0, 0.0, 1.0]], activation="tanh"),
    "multiple": -2.0 * sf.SA(2.0),
    "schedule": sf.PiecewiseConstant([0.3], [sf.SA(2.0), sf.USA(1.0)]),
    "euclidean": sf.EuclideanAttention(np.diag([1.0, 0.5, -0.2])),
    "rescaled": sf.RescaledAttention(sf.EuclideanAttention(np.diag([1.0, 0.5, 0.2])), 3),
    "layernorm": sf.LayerNormAttention(2.0, "mix", tau=0.4),
}


@pytest.mark.fast_cases("masses")
@pytest.mark.parametrize("name", MODELS)
def test_single_precision_stays_single(name):
    model = MODELS[name]
    assert model.field(jnp.zeros((), jnp.float32), jnp.asarray(SINGLE)).dtype == jnp.float32
    program = str(jax.make_jaxpr(lambda m, t, x: m.field(t, x))(model, jnp.zeros((), jnp.float32), jnp.asarray(SINGLE)))
    wide = [line for line in program.splitlines() if "dot_general" in line and "f64" in line.split("=")[0]]
    assert len(wide) <= 2 * (name == "rescaled")  # their propagator has the precision of the time
    run = sf.evolve(model, SINGLE, 1.0, saveat=2)
    assert run.xs.dtype == np.float32
    assert run.error_estimate < 1e-5 * max(1.0, float(np.abs(run.final).max()))


@pytest.mark.slow
def test_a_late_start_costs_single_precision_nothing():
    late = sf.evolve(sf.SA(2.0), SINGLE, 1e8 + 4.0, t0=1e8, saveat=3)
    early = sf.evolve(sf.SA(2.0), SINGLE, 4.0, saveat=3)
    assert late.steps == early.steps > 0
    np.testing.assert_allclose(late.xs, early.xs, atol=1e-6)
    with pytest.raises(sf.SphereflowError, match="float32 cannot tell apart"):
        sf.evolve(sf.SA(2.0), SINGLE, saveat=[1.0, 1.0 + 1e-9])
    jump = sf.PiecewiseConstant([1e4 + 0.3], [sf.SA(2.0), -sf.SA(2.0)])
    moved = sf.PiecewiseConstant([0.3], [sf.SA(2.0), -sf.SA(2.0)])
    np.testing.assert_allclose(
        sf.evolve(jump, SINGLE, 1e4 + 1.0, t0=1e4, saveat=2).final,
        sf.evolve(moved, SINGLE, 1.0, saveat=2).final,
        atol=1e-5,
    )


def test_a_trajectory_holds_what_is_needed_to_make_it_again():
    run = sf.evolve(sf.SA(2.0), X, 1.0, saveat=3, solver="tsit5", dt=0.25, max_steps=77, method="direct", seed=5)
    again = sf.evolve(
        run.model,
        run.start,
        t0=run.t0,
        saveat=run.ts,
        solver=run.solver,
        dt=run.dt,
        max_steps=run.max_steps,
        method=run.method,
    )
    np.testing.assert_allclose(run.xs, again.xs, atol=1e-14)  # the first frame is x0, normalised once more
    asked = set(inspect.signature(sf.evolve).parameters) - {
        "x0",
        "t1",
        "saveat",
        "event",
        "out",
        "overwrite",
        "progress",
    }
    assert asked <= {field for field in vars(run)}


def test_a_run_without_a_frame_says_why():
    run = sf.evolve(sf.SA(2.0), X, saveat=[5.0], max_steps=1)
    with pytest.raises(sf.SphereflowError, match=r"no saved frame. The step limit"):
        run.final  # noqa: B018


def test_programs_are_dropped_when_a_process_has_grown(monkeypatch):
    dropped, size = [], [10**9]
    monkeypatch.setattr(runtime, "process_size", lambda: size[0])
    monkeypatch.setattr(runtime, "_size_after_forgetting", 0)
    monkeypatch.setattr(runtime, "_PROGRAM_BYTES", 300 * 10**6)
    monkeypatch.setattr(runtime, "_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(jax, "clear_caches", lambda: dropped.append(size[0]))
    for size[0] in (10**9, 10**9 + 2 * 10**8, 2 * 10**9, 2 * 10**9, 2 * 10**9 + 10**8, 3 * 10**9):
        runtime.forget_programs()
    assert dropped == [2 * 10**9, 3 * 10**9]
