"""Concentration at low temperature: rings, circle, bounds and predictions against sums over points and closed forms."""

import math

import numpy as np
import pytest
from scipy import special
from scipy.optimize import linprog

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.meanfield import concentrate, distance_to_limit, evolve_rings, predict_phases
from sphereflow.meanfield.concentrating import fill_two_atoms
from sphereflow.meanfield.rings import ring_average, ring_speed
from sphereflow.observables import wasserstein, wasserstein_bounds

RNG = np.random.default_rng(5)


def cloud(n, d):
    x = RNG.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("d", [2, 3, 4, 8, 25])
def test_rings_are_averages_over_their_points(d):
    # The first coordinate of a point on S^{d-2}, by Gauss nodes: the law of density (1 - s^2)^((d-4)/2).
    if d == 2:
        s, w = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    else:
        s, w = special.roots_gegenbauer(60, (d - 3) / 2) if d != 3 else special.roots_chebyt(60)
        w = w / w.sum()
    log_weight, ratio = ring_average(d, np.array([1e-4, 0.3, 2.0, 20.0]))
    for k, kappa in enumerate((1e-4, 0.3, 2.0, 20.0)):
        weights = w * np.exp(kappa * s)
        expected = weights.sum() / (w * np.exp(2.0 * s)).sum()
        assert np.exp(log_weight[k] - log_weight[2]) == pytest.approx(expected, rel=1e-9)
        assert ratio[k] == pytest.approx(weights @ s / weights.sum(), rel=1e-8)


def test_the_speed_of_rings_is_that_of_points_on_them():
    beta, v, b = 3.0, (1.0, 0.4), (0.5, 1.5)
    theta, masses = np.array([0.4, 1.3, 2.2]), np.array([0.2, 0.5, 0.3])
    around = 2 * np.pi * (np.arange(200) + 0.5) / 200
    points = np.concatenate(
        [np.stack([np.full(200, np.cos(t)), np.sin(t) * np.cos(around), np.sin(t) * np.sin(around)], 1) for t in theta]
    )
    weights = np.repeat(masses, 200)
    found = ring_speed(theta, masses, 3, beta, v, b)
    for t, speed in zip(theta, found, strict=True):
        x = np.array([np.cos(t), np.sin(t), 0.0])
        seen = weights * np.exp(beta * points @ (np.diag([b[0], b[1], b[1]]) @ x))
        pull = np.diag([v[0], v[1], v[1]]) @ (seen @ points / seen.sum())
        assert speed == pytest.approx(pull @ np.array([-np.sin(t), np.cos(t), 0.0]), abs=1e-9)


def test_rings_to_the_poles_carry_the_masses_of_the_hemispheres():
    flow = evolve_rings(3, 20.0, (1.0, 0.2), (1.0, 1.0), lambda h: 1 + 0.5 * h, 3.0, saveat=2, nodes=24)
    assert not flow.on_equator
    cost = np.stack([flow.polar[-1] ** 2, (np.pi - flow.polar[-1]) ** 2], axis=1)
    n = len(flow.masses)
    table = np.zeros((n + 1, 2 * n))
    for i in range(n):
        table[i, 2 * i : 2 * i + 2] = 1
    table[n, ::2] = 1
    upper = flow.masses[np.cos(flow.polar[0]) > 0].sum()
    best = linprog(cost.ravel(), A_eq=table, b_eq=np.append(flow.masses, upper)).fun
    assert flow.wasserstein(2)[-1] ** 2 == pytest.approx(best, rel=1e-9)
    assert (flow.support_distance() <= flow.wasserstein(2) + 1e-12).all()


def test_two_atoms_are_filled_as_the_exact_distance_says():
    theta, masses = RNG.uniform(-np.pi, np.pi, 40), RNG.dirichlet(np.ones(40))
    near = np.abs(np.mod(theta - 0.7 + np.pi, 2 * np.pi) - np.pi)
    points = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    atoms = np.array([[np.cos(0.7), np.sin(0.7)], [-np.cos(0.7), -np.sin(0.7)]])
    for p in (1.0, 2.0):
        found = fill_two_atoms(near, np.pi - near, masses, 0.37, p)
        exact = wasserstein(points, atoms, p, x_weights=masses, y_weights=np.array([0.37, 0.63]))
        assert found == pytest.approx(exact, rel=1e-6)


def test_zero_temperature_on_the_circle_is_the_tangent_law():
    # V = diag(1, 0.3), B = 1: tan theta falls like e^(-0.7 t), and W_2 is an integral.
    flow = concentrate(np.diag([1.0, 0.3]), None, math.inf, saveat=[0.0, 1.0, 2.0], tol=1e-10)
    start = flow.angles[0]
    np.testing.assert_allclose(
        np.abs(np.tan(flow.angles[2])), np.abs(np.tan(start)) * np.exp(-1.4), rtol=1e-6, atol=1e-9
    )
    assert flow.wasserstein(2)[1:] == pytest.approx([0.7147094, 0.5393892], abs=2e-4)
    assert flow.first_mass == pytest.approx(0.5, abs=1e-9)


def test_a_law_on_an_arc_attends_to_its_end():
    flow = concentrate(np.diag([1.0, 0.5]), np.diag([0.2, 1.0]), math.inf, support=(-0.5, 0.5), saveat=[0.0, 2.0, 4.0])
    ends = flow.angles[:, -1]
    np.testing.assert_allclose(np.tan(ends), np.tan(0.5) * np.exp(-np.array([0.0, 1.0, 2.0])), rtol=1e-5)
    assert flow.wasserstein(2)[-1] > 1.4  # the push-forward is at +-e_2, and the law goes to e_1


def test_finite_temperature_on_the_circle_is_that_of_points():
    flow = concentrate(np.diag([1.0, 0.5]), np.diag([0.2, 1.0]), 5.0, lambda t: 1 + 0.3 * np.cos(t), saveat=[0.0, 0.5])
    theta = 2 * np.pi * (np.arange(400) + 0.5) / 400
    x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    weights = (1 + 0.3 * np.cos(theta)) / 400
    for _ in range(100):

        def field(at):
            seen = weights * np.exp(5.0 * at @ np.diag([0.2, 1.0]) @ at.T)
            out = (seen @ at / seen.sum(axis=1, keepdims=True)) @ np.diag([1.0, 0.5])
            return out - np.sum(out * at, axis=1, keepdims=True) * at

        middle = x + 0.0025 * field(x)
        x = x + 0.005 * field(middle / np.linalg.norm(middle, axis=1, keepdims=True))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    for k in (1, 2, 3):
        exact = weights @ np.exp(1j * k * np.arctan2(x[:, 1], x[:, 0]))
        assert flow.masses @ np.exp(1j * k * flow.angles[-1]) == pytest.approx(exact, abs=3e-4)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_bounds_enclose_the_exact_distance_and_nearly_meet(p):
    x, y = cloud(30, 3), cloud(30, 3)
    lower, upper = wasserstein_bounds(x, y, p)
    exact = wasserstein(x, y, p)
    assert lower <= exact <= upper + 1e-12
    assert upper - lower < 1e-9
    weights = RNG.dirichlet(np.ones(30))
    lower, upper = wasserstein_bounds(x, y[:20], p, x_weights=weights)
    assert 0 < upper - lower + 1e-12 < 1e-7
    # The mean chord in any direction is a bound from below, the product plan one from above.
    slices = max(abs(weights @ (x @ u) - np.mean(y[:20] @ u)) for u in cloud(50, 3))
    angles = np.arccos(np.clip(x @ y[:20].T, -1, 1))
    assert slices <= upper
    assert upper <= (weights @ (angles**p).mean(axis=1)) ** (1 / p)


def test_bounds_of_tokens_against_their_projections():
    value = np.diag([1.0, 1.0, 0.2])
    x0 = cloud(40, 3)
    run = sf.evolve(sf.SA(20.0, value=value), x0, 3.0, saveat=2, progress=False)
    found = distance_to_limit(run.final, x0, value)
    assert found.support <= found.lower <= found.upper <= found.label
    assert found.k == 2
    np.testing.assert_allclose(found.support, np.sqrt(np.mean(np.arcsin(run.final[:, 2]) ** 2)), rtol=1e-9)


def test_predictions_by_hand():
    found = predict_phases(np.diag([2.0, 1.0, 1.0]), np.diag([0.05, 1.0, 0.4]))
    assert found.rate(2) == pytest.approx(0.6)
    assert found.least_growth == pytest.approx(0.9 / 1.9)
    assert found.exit_slope == pytest.approx(1.9 / 1.8)
    assert found.best_exponent(2) == pytest.approx(-0.3958333, abs=1e-6)
    turn = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    turned = predict_phases(turn @ np.diag([2.0, 1.0, 1.0]) @ turn.T, turn @ np.diag([0.05, 1.0, 0.4]) @ turn.T)
    assert turned.exit_slope == pytest.approx(found.exit_slope)
    assert np.sort(turned.contraction) == pytest.approx(np.sort(found.contraction))
    held = predict_phases(np.diag([1.0, 0.3]))
    assert not held.departs
    assert held.rate(2) == pytest.approx(0.35)
    assert held.rate(1) == pytest.approx(0.7)
    assert math.isinf(held.exit_slope)


def test_what_cannot_be_followed_is_refused():
    with pytest.raises(SphereflowError, match="commute"):
        predict_phases([[1.0, 0.4], [0.0, 0.5]])
    with pytest.raises(SphereflowError, match="multiple of the identity"):
        predict_phases(np.eye(3))
    with pytest.raises(SphereflowError, match="nodes must be at least"):
        evolve_rings(3, 1e4, nodes=20)
    with pytest.raises(SphereflowError, match="2 x 2"):
        concentrate(np.eye(3), np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(SphereflowError, match="two increasing angles"):
        concentrate(np.diag([1.0, 0.5]), support=(1.0, 0.0))
    with pytest.raises(SphereflowError, match="begin at t = 0"):
        evolve_rings(3, 5.0, saveat=[1.0, 2.0])
    with pytest.raises(SphereflowError, match="two rows"):
        evolve_rings(3, 5.0, rings=([0.5, 1.0], [1.0]))
    with pytest.raises(SphereflowError, match="on the divide"):
        distance_to_limit(np.eye(3), np.eye(3), np.diag([3.0, 2.0, 1.0]))
    with pytest.raises(SphereflowError, match="a point is zero"):
        wasserstein_bounds(np.zeros((2, 3)), np.eye(3)[:2])
    with pytest.raises(SphereflowError, match="at most 3000"):
        wasserstein_bounds(np.ones((4000, 3)), np.ones((4000, 3)))


def test_eigenvalues_of_complex_type_are_no_turning_and_a_turning_v_has_no_leading_space(monkeypatch):
    flow = sf.meanfield.concentrate(np.diag([1.0, 0.5]), beta=5.0, t1=0.5, saveat=3)
    distances = flow.top_distance()
    eig = np.linalg.eig  # releases of NumPy differ in the type of real eigenvalues
    monkeypatch.setattr(np.linalg, "eig", lambda m: tuple(part.astype(complex) for part in eig(m)))
    assert np.array_equal(flow.top_distance(), distances)
    monkeypatch.undo()
    value = np.array([[1.0, -2.0], [2.0, 1.0]])
    turning = sf.meanfield.concentrate(value, np.linalg.solve(value, np.diag([2.0, 1.0])).T, beta=20.0, t1=6, saveat=9)
    assert np.isfinite(turning.exit_time())
    assert "left at t" in turning.summary()
    assert "axis of V" not in turning.summary()
    assert turning.plot() is not None
    with pytest.raises(sf.SphereflowError, match="complex"):
        turning.top_distance()


def test_matrices_that_are_no_numbers_have_no_dominant_space():
    with pytest.raises(SphereflowError, match="value must be finite"):
        sf.meanfield.concentration(np.full((2, 2), np.nan))
