"""Flows and basins: fields against the library's dynamics, monotone energies, clocks, and where clusters end."""

import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow import landscape, sphere
from sphereflow.errors import SphereflowError
from sphereflow.landscape import Problem

START = np.asarray(sphere.draw("uniform", 24, 2, 5))
OPTIONS = {"saveat": 21, "solver": "tsit5", "tol": 1e-9}


@pytest.mark.fast_cases("2-raw")
@pytest.mark.parametrize(("d", "scale"), [(2, "raw"), (5, "peak")])
def test_field_and_energy_are_those_of_the_dynamics(d, scale):
    problem = Problem.random(1.6, d, 3, seed=d, activation="gelu", kernel_scale=scale)
    x = np.asarray(sphere.draw("uniform", 9, d, 1))
    model = landscape.dynamics(problem, "ascent")
    velocity = np.asarray(model.field(jnp.zeros(()), jnp.asarray(x)))
    np.testing.assert_allclose(velocity, landscape.field(problem, x), atol=1e-13)
    np.testing.assert_allclose(model.energy(jnp.asarray(x)), landscape.energy(problem, x), rtol=1e-13)
    down = landscape.dynamics(problem, "descent").field(jnp.zeros(()), jnp.asarray(x))
    np.testing.assert_allclose(down, -velocity, atol=1e-15)


@pytest.mark.slow
def test_equal_particles_follow_the_same_path_by_both_ways():
    problem = Problem.random(3.0, 2, 2, seed=1)
    plain = landscape.flow(problem, START, 4.0, **OPTIONS)
    weighted = landscape.weighted_flow(problem, START, 4.0, rate=0.0, **OPTIONS)
    np.testing.assert_allclose(weighted.positions, plain.xs, atol=1e-8)
    np.testing.assert_allclose(weighted.energy, plain.energy, rtol=1e-8)
    assert (np.diff(plain.energy) < 0).all()
    assert "24 particles" in repr(weighted)


@pytest.mark.slow
@pytest.mark.fast_cases("descent--1")
@pytest.mark.parametrize(("sign", "step"), [("ascent", 1), ("descent", -1)])
def test_weighted_flows_are_monotone_and_dissipate_what_they_should(sign, step):
    problem = Problem.random(4.0, 2, 2, seed=2)
    run = landscape.weighted_flow(problem, START, 30.0, sign=sign, rate=1.0, **OPTIONS)
    assert np.min(step * np.diff(run.energy)) >= -1e-10 * np.ptp(run.energy)
    np.testing.assert_allclose(run.masses.sum(axis=1), 1, atol=1e-14)
    # dE/dt at the start: the squared speed plus the variance of the first variation.
    fine = landscape.weighted_flow(problem, START, 1e-4, sign=sign, rate=1.0, **OPTIONS)
    g = landscape.first_variation(problem, START, None, START)
    speed = np.sum(landscape.field(problem, START) ** 2, axis=1)
    rate = (fine.energy[-1] - fine.energy[0]) / 1e-4
    assert rate == pytest.approx(step * (speed.mean() + g.var()), rel=1e-3)


def test_weighted_descent_reaches_the_minimiser():
    problem = Problem(5.0, [-0.7, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    exact = landscape.minimise(problem)
    run = landscape.weighted_flow(problem, START, 3000.0, rate=1.0, **OPTIONS)
    assert -1e-13 < run.energy[-1] - exact.energy < 1e-6


def test_raw_time_runs_faster():
    peak = Problem.random(2.0, 2, 2, seed=3)
    raw = peak.converted("raw")
    slow = landscape.weighted_flow(peak, START, 3.0, rate=0.5, **OPTIONS)
    fast = landscape.weighted_flow(raw, START, 3.0 * np.exp(-2.0), rate=0.5, **OPTIONS)
    np.testing.assert_allclose(fast.positions, slow.positions, atol=1e-7)
    np.testing.assert_allclose(fast.masses, slow.masses, atol=1e-7)
    np.testing.assert_allclose(fast.energy, np.exp(2.0) * slow.energy, rtol=1e-6)
    assert fast.ts[-1] == pytest.approx(3.0 * np.exp(-2.0))


def test_normalised_flow_divides_by_the_partition_function():
    problem = Problem.random(3.0, 2, 2, seed=4)
    run = landscape.weighted_flow(problem, START, 1e-4, sign="ascent", rate=0.0, normalised=True, **OPTIONS)
    velocity = (run.positions[-1] - START) / 1e-4
    kernel = np.exp(3.0 * (START @ START.T - 1))
    pull = kernel @ START / kernel.sum(axis=1, keepdims=True)
    pull += (np.maximum(START @ problem.inner.T, 0) * problem.outer) @ problem.inner
    tangent = pull - np.sum(pull * START, axis=1, keepdims=True) * START
    np.testing.assert_allclose(velocity, tangent, atol=1e-3)
    model = landscape.dynamics(problem, "ascent", normalised=True)
    np.testing.assert_allclose(model.field(jnp.zeros(()), jnp.asarray(START)), tangent, atol=1e-13)
    with pytest.raises(SphereflowError, match="set rate=0"):
        landscape.weighted_flow(problem, START, 1.0, normalised=True)


@pytest.mark.slow
def test_basins_are_separated_by_minima_of_the_potential():
    problem = Problem(5.0, [1.0, 0.6], [[1.0, 0.0], [-0.8, 0.6]], activation="tanh")
    found = landscape.basins(problem, 360)
    theta = np.linspace(0, 2 * np.pi, 3600, endpoint=False)
    v = 2 * np.log(np.cosh(np.stack([np.cos(theta), np.sin(theta)], axis=1) @ problem.inner.T)) @ problem.outer
    peaks = theta[(v > np.roll(v, 1)) & (v >= np.roll(v, -1))]
    assert len(found.attractors) == len(peaks)
    assert found.shares.sum() == pytest.approx(1, abs=0.02)
    assert found.potential[0] == pytest.approx(v.max(), abs=1e-5)
    # Going uphill on a fine grid by hand gives the same label.
    for start in range(5, 360, 24):
        i = start * 10
        while v[(i + 1) % 3600] > v[i % 3600] or v[(i - 1) % 3600] > v[i % 3600]:
            i += 1 if v[(i + 1) % 3600] > v[(i - 1) % 3600] else -1
        end = found.attractors[found.labels[start]]
        assert np.cos(theta[i % 3600]) * end[0] + np.sin(theta[i % 3600]) * end[1] > 1 - 1e-5
    assert "attractors" in repr(found)
    flat = landscape.basins(Problem(5.0, [0.0], [[1.0, 0.0]]), 16)
    assert (flat.labels == -1).all()
    with pytest.raises(SphereflowError, match="basin map"):
        landscape.basins(Problem.random(2.0, 5))
