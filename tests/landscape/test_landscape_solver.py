"""Minimisers and maximisers: against a generic solver, dense scans, closed forms, and their own certificates."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from sphereflow import landscape
from sphereflow.errors import SphereflowError
from sphereflow.landscape import Problem, linear
from sphereflow.landscape.active_set import solve_on_points
from sphereflow.landscape.certificate import _cell_bounds, lower_bound
from sphereflow.landscape.solve import space_of
from sphereflow.landscape.space import Jet
from sphereflow.landscape.sphere_space import SphereSpace

CIRCLE = np.linspace(0, 2 * np.pi, 20_001)
DENSE = np.stack([np.cos(CIRCLE), np.sin(CIRCLE)], axis=1)


def test_active_set_agrees_with_a_generic_solver():
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.standard_normal((12, 4))
        gram, linear_part = x @ x.T, rng.standard_normal(12)
        found = solve_on_points(lambda i, g=gram: g[:, i], linear_part)
        energy = found.masses @ gram[np.ix_(found.active, found.active)] @ found.masses / 2
        energy += found.masses @ linear_part[found.active]
        peer = scipy_minimize(
            lambda m, g=gram, c=linear_part: m @ g @ m / 2 + c @ m,
            np.full(12, 1 / 12),
            jac=lambda m, g=gram, c=linear_part: g @ m + c,
            bounds=[(0, 1)] * 12,
            method="SLSQP",
            constraints={"type": "eq", "fun": lambda m: m.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert energy <= peer.fun + 1e-9
        assert energy == pytest.approx(peer.fun, abs=1e-6)
        assert found.gap < 1e-12
        assert found.masses.sum() == pytest.approx(1, abs=1e-14)
        assert (found.masses > 0).all()


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "gelu", "tanh", "softplus"])
def test_random_problems_on_the_circle_are_solved_and_certified(activation):
    for seed, beta in ((0, 1.0), (1, 6.0)):
        problem = Problem.random(beta, 2, 3, seed=seed, activation=activation)
        found = landscape.minimise(problem)
        assert found.kind == "atoms"
        assert found.gap < 1e-10
        g = found.first_variation(DENSE)
        assert g.min() >= found.multiplier - found.gap - 1e-14
        assert found.spread < 1e-13
        assert found.stationarity < 1e-12
        assert found.curvature > 0
        assert found.masses.sum() == pytest.approx(1, abs=1e-14)
        # Energy from the definition, and no measure nearby below it.
        assert landscape.energy(problem, found.points, found.masses) == pytest.approx(found.energy, abs=1e-14)


def test_biases_and_several_scales():
    problem = Problem(8.0, [0.8, -0.6, 0.3], [[1.0, 0.2], [-0.3, 1.0], [0.5, -0.9]], [0.3, -0.2, 0.1], "relu")
    found = landscape.minimise(problem)
    assert found.kind == "atoms"
    assert found.gap < 1e-10
    for nodes in (360, 5760):
        again = landscape.minimise(problem, nodes)
        np.testing.assert_allclose(again.angles, found.angles, atol=1e-10)
        np.testing.assert_allclose(again.masses, found.masses, atol=1e-10)


@pytest.mark.parametrize("beta", [1e-3, 0.05, 300.0])
def test_extreme_temperatures(beta):
    found = landscape.minimise(Problem(beta, [-1.0, 0.5], [[1.0, 0.0], [0.0, 1.0]]))
    assert np.isfinite(found.energy)
    assert found.gap < 1e-10
    g = found.first_variation(DENSE) - found.multiplier
    assert g.min() > -1e-10 - 1e-13 / beta


def test_the_certificate_is_honest_about_a_measure_that_is_not_optimal():
    problem = Problem(5.0, [-0.5], [[1.0, 0.0]])
    best = landscape.minimise(problem)
    dirac = landscape.inspect(problem, [0.0])
    assert dirac.second_order
    assert dirac.margin == pytest.approx(0.5, abs=1e-12)
    assert dirac.gap > dirac.energy - best.energy > 0
    g = dirac.first_variation(DENSE)
    assert dirac.gap == pytest.approx(dirac.multiplier - g.min(), rel=1e-3)
    moved = landscape.inspect(problem, [0.2, -0.3])
    assert not moved.second_order or moved.stationarity > 1e-3


def scans_are_above_bounds(space, function, third, nodes):
    """On the circle, cell by cell."""
    cells = space.cells(nodes)
    for bound, centre, radius in zip(
        _cell_bounds(space, function, third, cells), cells.centres, cells.radii, strict=True
    ):
        t = np.arctan2(centre[1], centre[0]) + radius * np.linspace(-1, 1, 201)
        assert bound <= function(np.stack([np.cos(t), np.sin(t)], axis=1)).value.min() + 1e-12


def test_every_cell_is_bounded_where_only_the_third_derivative_falls():
    """f = 2 sin t - sin 2t is flat to second order at t = 0 and falls to its left like t^3; its third is at most 10."""
    space = SphereSpace(Problem(1.0, [], np.zeros((0, 2))))
    for nodes in (8, 16, 32):
        middle = space.cells(nodes).centres[0]

        origin = np.arctan2(middle[1], middle[0])

        def wave(points, zero=origin):
            t = np.arctan2(points[:, 1], points[:, 0]) - zero
            slope, bend = 2 * np.cos(t) - 2 * np.cos(2 * t), -2 * np.sin(t) + 4 * np.sin(2 * t)
            return Jet(2 * np.sin(t) - np.sin(2 * t), slope[:, None], bend[:, None, None])

        scans_are_above_bounds(space, wave, 10.0, nodes)


def test_every_cell_is_bounded_across_the_kink_of_relu():
    """A neuron that pulls down: flat on one side of its kink, falling on the other."""
    space = SphereSpace(Problem(1.0, [-1.0], [[1.0, 0.0]], [0.1]))
    for nodes in (7, 16, 33):
        scans_are_above_bounds(space, space.half_potential, space.third_derivative_bound, nodes)


def test_lower_bounds_are_below_scans_and_close():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((20_000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for activation in ("relu", "gelu"):
        space = SphereSpace(Problem.random(4.0, 3, 4, seed=3, activation=activation))
        scan = space.half_potential(x).value.min()
        bound = lower_bound(space, space.half_potential, space.third_derivative_bound, scan - 1e-5)
        assert scan - 1e-3 < bound <= scan


def test_the_sphere_agrees_with_the_zonal_reduction():
    problem = Problem(5.0, [-0.5], [[1.0, 0.0, 0.0]])
    ring = landscape.minimise(problem)
    assert ring.rings
    assert len(ring) == 1
    space = SphereSpace(problem)
    grid = space.grid(3000)
    solved = solve_on_points(lambda i: space.kernel(grid, grid[[i]])[:, 0], space.half_potential(grid).value, 1e-9)
    energy = landscape.energy(problem, grid[solved.active], solved.masses)
    assert ring.energy - 1e-12 < energy < ring.energy + 2e-5
    assert np.average(grid[solved.active, 0], weights=solved.masses) == pytest.approx(ring.heights[0], abs=4e-3)


@pytest.mark.slow
def test_atoms_on_the_two_sphere():
    problem = Problem.random(3.0, 3, 3, seed=4)
    found = landscape.minimise(problem)
    assert (found.kind, len(found)) == ("atoms", 7)
    assert found.gap < 1e-10
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50_000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert found.first_variation(x).min() >= found.multiplier - found.gap
    # Rotated weights give rotated atoms, on a grid that is not rotated.
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    again = landscape.minimise(problem.replaced(inner=problem.inner @ turn.T), 3000)
    assert again.energy == pytest.approx(found.energy, abs=1e-12)
    apart = np.linalg.norm(again.points[:, None] - (found.points @ turn.T)[None], axis=2)
    assert apart.min(axis=1).max() < 1e-8


def test_a_ring_in_high_dimension():
    """In dimension d the equation of the ring has the kernel mean over S^{d-2}; checked by first variation scans."""
    found = landscape.minimise(Problem(5.0, [-0.5], np.eye(1, 12)))
    assert found.rings
    assert found.gap < 1e-10
    polar = np.linspace(0, np.pi, 5001)[:, None]
    assert found.first_variation(polar).min() >= found.multiplier - found.gap - 1e-14
    ring = found.points[np.argmax(found.masses), 0]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 12))
    x[:, 0] = 0
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x = np.sin(ring) * x + np.cos(ring) * np.eye(1, 12)
    sampled = np.mean(np.exp(5 * (x[0] @ x[1:].T - 1)))
    space = space_of(found.problem)
    exact = 5 * space.kernel(np.array([[ring]]), np.array([[ring]]))[0, 0] + 1
    assert sampled == pytest.approx(exact, abs=0.01)


def test_linear_densities():
    problem = Problem(3.0, [0.03, -0.02], [[1.0, 0.0], [0.6, 0.8]], activation="linear")
    assert linear.strength(problem) < 1
    found = landscape.minimise(problem)
    assert found.kind == "density"
    assert found.energy == pytest.approx(linear.density(problem).energy, abs=1e-12)
    assert found.gap < 1e-9
    rho = linear.density(problem)(DENSE)
    assert rho.min() >= 0
    assert rho[:-1].mean() == pytest.approx(1, abs=1e-12)
    some, there = DENSE[:-1:50], rho[:-1:50]
    attention = np.exp(problem.beta * (some @ some.T - 1)) @ there / len(there) / problem.beta
    level = attention + (some @ problem.inner.T) ** 2 @ problem.outer / 2
    assert np.ptp(level) < 1e-13  # the first variation of a minimiser with full support is constant
    raw = problem.converted("raw")
    assert linear.density(raw).energy == pytest.approx(np.exp(3.0) * found.energy, rel=1e-12)
    with pytest.raises(SphereflowError, match="times the threshold"):
        linear.density(problem.replaced(outer=[3.0, 0.0]))
    with pytest.raises(SphereflowError, match="linear activation"):
        linear.density(problem.replaced(activation="tanh"))


def test_maximisers():
    problem = Problem.random(4.0, 2, 3, seed=7)
    found = landscape.maximise(problem)
    v = np.maximum(DENSE @ problem.inner.T, 0) ** 2 @ problem.outer
    assert found.energy == pytest.approx(1 / 8 + v.max() / 2, abs=1e-7)
    assert found.energy >= 1 / 8 + v.max() / 2
    assert found.gap < 1e-10
    assert found.first_variation(DENSE).max() <= found.multiplier + 1e-12
    both = landscape.maximise(Problem(4.0, [1.0], [[1.0, 0.0]], activation="linear"))
    assert "2 maxima" in both.note
    ring = landscape.maximise(Problem(4.0, [1.0, -2.0], [[1.0, 0, 0, 0], [1.0, 0, 0, 0]], [0.2, -0.3]))
    assert "whole ring" in ring.note or ring.points[0, 0] == pytest.approx(1)
    silent = landscape.maximise(Problem(4.0, [-1.0], [[1.0, 0.0]]))
    assert silent.energy == pytest.approx(1 / 8, abs=1e-12)


def test_requests_that_cannot_be_served():
    with pytest.raises(SphereflowError, match="d up to 6"):
        landscape.minimise(Problem.random(2.0, 9, 9))
    with pytest.raises(SphereflowError, match="nodes must be"):
        landscape.minimise(Problem(3.0, [1.0], [[1.0, 0.0]]), 5)


def test_views():
    found = landscape.minimise(Problem(5.0, [1.0], [[1.0, 0.0]]))
    told = json.loads(json.dumps(found.record(), allow_nan=False))
    assert told["count"] == 6
    assert told["energy"] == found.energy
    data = found.to_xarray()
    assert list(data["mass"]) == list(found.masses)
    assert data.sizes["atom"] == 6
    assert data.attrs["kind"] == "atoms"
    assert "6 atoms" in repr(found)
    assert len(found) == 6
    found.plot().canvas.draw()
    sphere = landscape.inspect(Problem.random(3.0, 3, 2, seed=1), np.eye(3))
    sphere.plot().canvas.draw()
    assert {"x1", "x2", "x3", "mass"} < set(sphere.to_xarray())
    assert np.isnan(landscape.inspect(Problem.random(3.0, 5, 2, seed=1), np.eye(5)[:2]).gap)
    assert landscape.inspect(Problem.random(3.0, 5, 2, seed=1), np.eye(5)[:2]).record()["gap"] is None


def test_rings_are_called_rings():
    found = landscape.minimise(landscape.Problem(beta=5.0, outer=[1.0], inner=[[1.0, 0.0, 0.0]]))
    assert found.rings
    assert found.kind == "rings"
    assert landscape.maximise(found.problem).kind == "atoms"
