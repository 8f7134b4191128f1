"""Accuracy of the time stepping: orders, tolerances, events, invariants, replicas."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sphereflow import SA, USA, Aligned, AllClose, SphereflowError, Trajectory, draw, evolve, run_layers, simulate
from sphereflow.evolution import Status
from sphereflow.solving import SOLVERS
from sphereflow.sphere import equiangular_frame


def scipy_reference(beta, x0, t1):
    """The same flow by an independent right-hand side and an independent integrator."""
    n, d = x0.shape

    def rate(_, flat):
        x = flat.reshape(n, d)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        k = np.exp(beta * (x @ x.T - 1))
        pull = k @ x / k.sum(axis=1, keepdims=True)
        return (pull - np.sum(x * pull, axis=1, keepdims=True) * x).ravel()

    y = solve_ivp(rate, (0, t1), np.asarray(x0).ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(n, d)
    return y / np.linalg.norm(y, axis=1, keepdims=True)


# A run is compiled anew for every number of tokens, of saved times and of fixed steps, so most tests have these sizes.
N, D = 8, 3

# The number of steps at which a method is in its asymptotic regime and still far above rounding.
STEPS = {"euler": 128, "heun": 64, "bosh3": 32, "tsit5": 32, "dopri8": 6}


@pytest.mark.fast_cases("heun")
@pytest.mark.parametrize("name", STEPS)
def test_measured_order_on_the_sphere_is_the_theoretical_one(name):
    x0, t1 = draw("uniform", N, D, 1), 3.0
    exact = evolve(SA(2.0), x0, t1, saveat=2, tol=1e-13).final

    def run(x, span, dt):
        return evolve(SA(2.0), x, span, saveat=2, solver=name, dt=dt).final

    h = t1 / STEPS[name]
    coarse = np.abs(run(x0, t1, h) - exact).max()
    # Half the step in two halves, since as many steps are the same compiled program.
    fine = np.abs(run(run(x0, t1 / 2, h / 2), t1 / 2, h / 2) - exact).max()
    # Steps of order eight that are far above rounding are long, and the next power of h still adds half an order.
    excess = np.log2(coarse / fine) - SOLVERS[name][1]
    assert -0.2 < excess < (0.7 if name == "dopri8" else 0.2), (coarse, fine)


@pytest.mark.parametrize("tol", [1e-6, 1e-8, 1e-10])
def test_the_stated_tolerance_is_kept_at_the_default_problem(tol):
    run = simulate(n=64, d=3, beta=9.0, t1=30.0, tol=tol)
    exact = simulate(n=64, d=3, beta=9.0, t1=30.0, tol=1e-13)
    assert np.abs(run.xs - exact.xs).max() < tol
    assert run.error_estimate < tol


def test_the_tolerance_is_kept_where_no_saved_time_shortens_the_steps():
    x0 = draw("uniform", N, D, 0)
    exact = evolve(SA(2.0), x0, 5.0, saveat=2, tol=1e-13).final
    for tol in (1e-4, 1e-6):
        error = np.abs(evolve(SA(2.0), x0, 5.0, saveat=2, tol=tol, solver="tsit5").final - exact).max()
        assert error < 0.3 * tol


def test_agreement_with_an_independent_integrator():
    x0 = draw("uniform", N, D, 4)
    run = evolve(SA(4.0), x0, 6.0, saveat=2, tol=1e-10)
    np.testing.assert_allclose(run.final, scipy_reference(4.0, x0, 6.0), atol=1e-9)


@pytest.mark.fast_cases("model0")
@pytest.mark.parametrize("model", [SA(4.0), USA(4.0)])
def test_tokens_stay_on_the_sphere_and_energy_never_falls(model):
    run = evolve(model, draw("uniform", 64, 3, 2), 20.0)
    np.testing.assert_allclose(np.linalg.norm(run.xs, axis=-1), 1, atol=1e-15)
    assert (np.diff(run.energy) >= -1e-12 * run.energy[:-1]).all()
    assert run.energy.max() <= 1 / (2 * 4.0)
    slope = np.gradient(run.energy, run.ts)[5:-5]
    np.testing.assert_allclose(run.energy_rate[5:-5], slope, atol=2e-2 * np.abs(slope).max())


def test_replicas_are_independent_and_equal_single_runs():
    x0 = jnp.stack([draw("uniform", N, D, seed) for seed in range(4)])
    together = evolve(SA(3.0), x0, 5.0, saveat=4)
    assert together.replicas == (4,)
    for r in range(4):
        np.testing.assert_allclose(together.xs[:, r], evolve(SA(3.0), x0[r], 5.0, saveat=4).xs, atol=1e-12)


def test_frame_by_frame_and_one_call_agree(monkeypatch):
    x0 = draw("uniform", N, D, 0)
    whole = evolve(SA(5.0), x0, 4.0, saveat=4)
    monkeypatch.setattr(sys.modules["sphereflow.evolution.shell"], "_ONE_CALL_PAIRS", 0)
    pieces = evolve(SA(5.0), x0, 4.0, saveat=4, progress=False)
    np.testing.assert_allclose(whole.xs, pieces.xs, atol=1e-9)
    assert pieces.status is Status.REACHED_END


def test_many_frames_are_solved_for_several_at_a_time(monkeypatch):
    """In memory: a step need not end at each of them, and the run is the same to its tolerance."""
    x0 = draw("uniform", N, D, 0)
    whole = evolve(SA(5.0), x0, 4.0, saveat=41)
    monkeypatch.setattr(sys.modules["sphereflow.evolution.shell"], "_ONE_CALL_PAIRS", 0)
    pieces = evolve(SA(5.0), x0, 4.0, saveat=41, progress=False)
    np.testing.assert_allclose(whole.xs, pieces.xs, atol=2e-8)
    np.testing.assert_array_equal(whole.ts, pieces.ts)
    assert pieces.steps < 40


def test_event_stops_at_the_exact_moment():
    n, delta = N, 1e-3
    run = evolve(SA(0.0), equiangular_frame(n, n, 0.0), 50.0, saveat=2, event=AllClose(delta), tol=1e-11)
    exact = np.log((1 + (n - 1) * (1 - delta)) / delta) / 2  # beta = 0 has a closed form
    assert run.status is Status.EVENT
    assert float(run.stopped_at) == pytest.approx(exact, abs=1e-8)
    assert run.ts[-1] == pytest.approx(exact, abs=1e-8)
    assert float(1 - run.final[0] @ run.final[1]) == pytest.approx(delta, rel=1e-6)


@pytest.mark.slow
def test_alignment_is_met_where_the_mean_has_the_length_asked_for():
    n, level = N, 0.8
    run = evolve(SA(0.0), equiangular_frame(n, n, 0.0), 50.0, saveat=2, event=Aligned(level), tol=1e-11)
    overlap = (n * level**2 - 1) / (n - 1)  # |mean|^2 = (1 + (n-1) overlap)/n
    exact = np.log((1 + (n - 1) * overlap) / (1 - overlap)) / 2
    assert float(run.stopped_at) == pytest.approx(exact, abs=1e-8)
    assert np.linalg.norm(np.mean(run.final, axis=0)) == pytest.approx(level, rel=1e-9)


@pytest.mark.slow
def test_some_replicas_may_meet_their_event_and_others_not():
    x0 = jnp.stack([draw("uniform", N, D, seed) for seed in range(3)])
    alone = [evolve(SA(1.0), x, 60.0, saveat=2, event=AllClose(1e-2)).stopped_at for x in x0]
    between = float(np.sort(alone)[1]) * 0.999
    run = evolve(SA(1.0), x0, between, saveat=2, event=AllClose(1e-2))
    expected = np.where(np.array(alone) < between, alone, np.inf)
    assert np.isinf(expected).sum() == 2
    np.testing.assert_allclose(run.stopped_at, expected, rtol=1e-8)


@pytest.mark.slow
def test_events_of_replicas_are_their_own():
    x0 = jnp.stack([draw("uniform", N, N, seed) for seed in range(3)])
    run = evolve(SA(1.0), x0, 60.0, saveat=2, event=AllClose(1e-2))
    singles = [float(evolve(SA(1.0), x, 60.0, saveat=2, event=AllClose(1e-2)).stopped_at) for x in x0]
    np.testing.assert_allclose(run.stopped_at, singles, rtol=1e-9)
    assert evolve(SA(1.0), x0, 0.5, saveat=2, event=AllClose(1e-2)).status is Status.REACHED_END


def test_single_precision_tokens_stay_single_and_are_accurate():
    x0 = np.asarray(draw("uniform", N, D, 1), dtype=np.float32)
    run = evolve(SA(4.0), x0, 5.0, saveat=2)
    assert run.xs.dtype == np.float32
    exact = x0.astype(np.float64)
    double = evolve(SA(4.0), exact / np.linalg.norm(exact, axis=1, keepdims=True), 5.0, saveat=2)
    assert np.abs(run.xs - double.xs).max() < 1e-4


def test_causal_tokens_never_see_later_ones():
    x0, other = (np.array(draw("uniform", N, D, seed)) for seed in (3, 99))
    other[:6] = x0[:6]
    a, b = (evolve(SA(3.0, causal=True), x, 2.0, saveat=2, solver="tsit5", dt=0.1).final for x in (x0, other))
    np.testing.assert_array_equal(a[:6], b[:6])
    assert not np.allclose(a[6:], b[6:])


@pytest.mark.slow
def test_layers_are_euler_steps_and_late():
    n = 32
    frames = run_layers(SA(1.0), equiangular_frame(n, n, 0.0), 60, 0.1)
    gap = np.array([1 - float(f[0] @ f[1]) for f in frames])
    assert 0.1 * np.argmax(gap < 1e-3) == pytest.approx(5.6)  # the flow itself passes at 5.270


@pytest.mark.fast_cases("5-1")
@pytest.mark.parametrize(("n", "d"), [(5, 1), (1, 4096)])
def test_extreme_sizes_run(n, d):
    for beta in (0.0, 1e6):
        run = simulate(n=n, d=d, beta=beta, t1=1.0, saves=2)
        assert run.status is Status.REACHED_END
        assert np.isfinite(run.xs).all()


def test_step_limit_is_told_and_the_frames_before_it_kept():
    run = evolve(SA(5.0), draw("uniform", N, D), 20.0, saveat=4, max_steps=12)
    assert run.status is Status.STEP_LIMIT
    assert 1 <= len(run) < 4
    assert np.isfinite(run.xs).all()
    assert "raise max_steps" in repr(run)


def test_trajectory_views():
    run = simulate(n=N, d=D, beta=2.0, t1=3.0, saves=4)
    assert isinstance(run, Trajectory)
    data = run.to_xarray()
    assert dict(data.sizes) == {"t": 4, "token": N, "component": D}
    assert data.attrs["beta"] == 2.0
    np.testing.assert_allclose(run.overlaps[0], (run.xs[0] @ run.xs[0].T)[np.triu_indices(N, 1)], atol=1e-14)
    np.testing.assert_allclose(run.order_parameter, np.linalg.norm(run.xs.mean(axis=1), axis=1), atol=1e-14)
    assert run.cluster_count().shape == (4,)
    assert run.seed == 0
    assert "jax" in run.versions


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: simulate(n=0), "n must be a whole number of at least 1"),
        (lambda: simulate(n=-3), "n must be a whole number"),
        (lambda: simulate(d=0), "d must be"),
        (lambda: simulate(beta=-1.0), "beta must be a finite number at least 0"),
        (lambda: simulate(beta=float("nan")), "beta must be a finite number"),
        (lambda: simulate(beta=2e6), "at most 1e\\+06"),
        (lambda: simulate(beta=800.0, model="usa", kernel_scale="raw"), "at most 700"),
        (lambda: simulate(t1=0.0), "t1 must be"),
        (lambda: simulate(model="gpt"), "model must be one of sa, usa"),
        (lambda: simulate(start="cube"), "start must be one of"),
        (lambda: simulate(tol=0.5), "tol must be"),
        (lambda: simulate(saves=1), "saves must be a whole number of at least 2"),
        (lambda: evolve(SA(1.0), np.ones((3, 3)), 1.0), "x0 must be unit vectors"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D)), "give the final time"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D), 1.0, solver="rk4"), "solver must be one of"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D), 1.0, solver="euler"), "give it a fixed step"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D), saveat=[0.0, 2.0, 1.0]), "increasing finite times"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D), 1.0, dt=-0.1), "dt must be"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D), 1.0, saveat=2, event=lambda x: x[0]), "return one number"),
        (lambda: evolve(SA(1.0), draw("uniform", N, D), 1.0, saveat=2, event=lambda x: jnp.nan * x[0, 0]), "got NaN"),
    ],
)
def test_bad_requests_get_one_sentence(call, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        call()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_run_with_matrices_has_the_energy_of_its_model(sign):
    """Values of the opposite sign descend the same energy that others ascend."""
    run = evolve(USA(2.0, value=sign * np.eye(3)), draw("uniform", 8, 3), 1.0, saveat=3)
    assert (sign * np.diff(run.energy) > 0).all()
    assert (sign * run.energy_rate > 0).all()
    pairs = np.exp(2.0 * (run.final @ run.final.T - 1)).mean() / (2 * 2.0)
    np.testing.assert_allclose(run.energy[-1], pairs, rtol=1e-12)
