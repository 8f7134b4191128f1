"""Indices, directions and the limit orbit against differences of the energy and direct integration."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sphereflow.errors import SphereflowError
from sphereflow.metastability import clock_times, saddle_path
from sphereflow.metastability.saddles import hessian_index

THETA = np.array([0.0, 0.7, 1.7])


def on_circle(theta):
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


def energy(x, masses, beta):
    return sum(
        masses[i] * masses[j] * math.exp(beta * (x[i] @ x[j] - 1)) / beta for i in range(len(x)) for j in range(i)
    )


def hessian(x, masses, beta):
    """Second differences of the energy along great circles."""
    k, d = x.shape
    frames = [np.linalg.svd(p[None])[2][1:] for p in x]
    size, n = 1e-3, k * (d - 1)

    def moved(y):
        rows = []
        for i, part in enumerate(y.reshape(k, d - 1)):
            v = part @ frames[i]
            r = np.linalg.norm(v)
            rows.append(x[i] if r == 0 else math.cos(r) * x[i] + math.sin(r) * v / r)
        return energy(np.array(rows), masses, beta)

    table, step = np.zeros((n, n)), size * np.eye(n)
    for a in range(n):
        for b in range(n):
            signs = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
            table[a, b] = sum(s * moved(p * step[a] + q * step[b]) for p, q, s in signs) / (4 * size**2)
    return table


@pytest.mark.parametrize(("d", "beta"), [(2, 6.0), (3, 4.0), (4, 2.0)])
def test_the_index_is_that_of_second_differences(d, beta):
    rng = np.random.default_rng(d)
    for _ in range(4):
        x = rng.normal(size=(4, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        masses = rng.dirichlet(np.ones(4))
        values = np.linalg.eigvalsh(hessian(x, masses, beta))
        clear = np.abs(values) > 1e-5 * np.abs(values).max()
        index, flat = hessian_index(x, masses, beta)
        assert clear.sum() + flat == len(values)
        assert index == np.sum(values[clear] > 0)


def test_the_distance_to_the_limit_orbit_is_that_of_a_direct_run():
    beta = 12.0
    masses = np.array([0.3, 0.3, 0.4])
    found = saddle_path(on_circle(THETA), beta, "usa", masses=masses)

    def slope(t, y):
        turn = y[None] - y[:, None]
        return np.sum(masses * np.exp(beta * (np.cos(turn) - 1)) * np.sin(turn), axis=1)

    def met(t, y):
        return abs(y[1] - y[0]) - 1e-3 / math.sqrt(beta)

    met.terminal = True
    run = solve_ivp(slope, (0, 1e6), THETA, method="DOP853", events=met, rtol=1e-11, atol=1e-13)
    # The side: both go to the middle of the first two, the third stands.
    half = np.array([0.35, -0.35])
    apart = []
    for y in run.y.T:
        off = y - THETA
        s = np.clip(off[:2] @ half / (half @ half), 0, 1)
        apart.append(math.sqrt(masses @ (off - s * np.append(half, 0.0)) ** 2))
    assert found.distance[0] == pytest.approx(max(apart), rel=1e-3)
    assert found.log_times[0] == pytest.approx(math.log(run.t[-1]), abs=1e-6)
    assert found.index.tolist() == [2, 1]
    assert found.closest == (True, True)


def test_the_clock_tends_to_half_the_inverse_mass_of_each_pair():
    found = clock_times(on_circle(THETA), (500.0, 2000.0, 8000.0, 32000.0), masses=[1.0, 1.0, 2.0])
    np.testing.assert_allclose(found.limits, [1.0, 1.5], atol=1e-6)
    np.testing.assert_allclose(found.pair_limits, [1.0, 1.5])
    radius = 1 / math.sqrt(2000 * math.log(2000))
    first = math.log(math.tan(0.35) / math.tan(radius / 2)) / (0.5 * math.log(2000))
    assert found.clocks[1, 0] == pytest.approx(first, abs=1e-9)


def test_what_has_no_path_is_refused():
    corners = on_circle(2 * np.pi * np.arange(3) / 3)
    with pytest.raises(SphereflowError, match="balances exactly"):
        saddle_path(corners, 10.0)
    with pytest.raises(SphereflowError, match="at most 64"):
        saddle_path(np.eye(40)[:3], 10.0)
    with pytest.raises(SphereflowError, match="one place"):
        saddle_path(corners[[0, 0]], 10.0)
    with pytest.raises(SphereflowError, match="farther apart"):
        clock_times(on_circle(np.array([0.0, 0.0, 1.0])), (50.0, 60.0, 70.0, 80.0))
    with pytest.raises(SphereflowError, match="at least four"):
        clock_times(corners, (100.0, 200.0))
