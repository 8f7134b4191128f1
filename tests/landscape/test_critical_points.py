"""Enumerated stationary measures against plain loops, obstructions against extended precision, zero sets."""

import math
from itertools import pairwise

import jax
import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive, ndtr

from sphereflow import landscape
from sphereflow.errors import SphereflowError
from sphereflow.landscape import Activation, Problem
from sphereflow.landscape.mean_field import _flow
from sphereflow.landscape.potential import third_derivative_bound
from sphereflow.landscape.products import ProductCells
from sphereflow.landscape.sphere_space import Boxes
from sphereflow.landscape.stationarity import Equations, empty

OUTER, INNER = [1.0, -0.8], [[1.0, 0.0], [1.5 * np.cos(2.0), 1.5 * np.sin(2.0)]]
# An activation that is not built in; nothing has to be compiled for it.
SILU = Activation(lambda s: s / (1 + np.exp(-s)), name="silu", strip=math.pi)


def smooth(beta=3.0):
    return Problem(beta, OUTER, INNER, activation=SILU)


def slope(theta, others, masses, beta=3.0):
    """g' at an angle, silu, by a plain sum."""
    x, turned = np.array([np.cos(theta), np.sin(theta)]), np.array([-np.sin(theta), np.cos(theta)])
    total = 0.0
    for weight, a in zip(OUTER, np.array(INNER), strict=True):
        total += weight * (a @ x) / (1 + np.exp(-a @ x)) * (a @ turned)
    for other, mass in zip(others, masses, strict=True):
        total -= mass * np.sin(theta - other) * np.exp(beta * (np.cos(theta - other) - 1))
    return total


def test_single_atoms_are_the_critical_points_of_the_potential():
    found = landscape.critical_points(smooth(), 1, starts=30)
    grid = np.linspace(0, 2 * np.pi, 2001)
    roots = [brentq(slope, a, b, args=([], [])) for a, b in pairwise(grid) if slope(a, [], []) * slope(b, [], []) < 0]
    assert found.complete
    assert found.certified
    np.testing.assert_allclose(np.sort(found.angles[:, 0]), roots, atol=1e-9)
    assert found.alternating_sum == found.euler == 0


def test_pairs_are_those_of_the_table_and_their_field_vanishes():
    found = landscape.critical_points(smooth(), 2, starts=60)
    assert found.complete
    assert found.by_index.tolist() == [5, 9, 4]
    for a, b in found.angles:
        assert max(abs(slope(a, [b], [0.5])), abs(slope(b, [a], [0.5]))) < 1e-12


@pytest.mark.slow
def test_the_list_does_not_depend_on_what_newton_found_first():
    few = landscape.critical_points(smooth(), 2, starts=1, seed=3)
    many = landscape.critical_points(smooth(), 2, starts=200, seed=4)
    assert few.complete
    np.testing.assert_allclose(few.energy, many.energy, atol=1e-12)


def test_unequal_masses_have_no_exchanges_and_a_limit_of_cells_is_said():
    found = landscape.critical_points(smooth(), [0.3, 0.7], starts=60)
    assert found.complete
    assert np.all(found.orderings == 1)
    assert found.alternating_sum == 0
    stopped = landscape.critical_points(smooth(), 2, starts=1, most_cells=1)
    assert not stopped.complete
    assert stopped.undecided > 0
    assert "not proved complete" in repr(stopped)


def test_no_cell_around_a_stationary_pair_is_called_empty():
    problem = smooth()
    found = landscape.critical_points(problem, 2, starts=60)
    equations = Equations(problem, found.masses)
    rng = np.random.default_rng(0)
    for radius in (0.5, 0.1, 0.01, 1e-4):
        shifted = found.angles + rng.uniform(-radius, radius, found.angles.shape)
        cells = ProductCells(shifted, np.full(shifted.shape, radius))
        assert not empty(equations, cells.centres, cells.radii).any()


def test_dead_arcs_of_relu_are_reported():
    relu = Activation(lambda s: np.maximum(s, 0.0), kinks=(0.0,))
    found = landscape.critical_points(Problem(3.0, OUTER, INNER, activation=relu), 1, starts=10)
    np.testing.assert_allclose(found.arcs, [[2 + np.pi / 2, 1.5 * np.pi]], atol=1e-3)
    assert not found.complete


def test_on_the_sphere_the_indices_add_up():
    rng = np.random.default_rng(5)
    inner = rng.normal(size=(3, 3))
    found = landscape.critical_points(Problem(3.0, rng.normal(size=3), inner, activation=SILU), 1, starts=50)
    assert found.alternating_sum == found.euler == 2
    deep = Problem(2.0, [1.0], np.eye(1, 5), activation=SILU)
    assert not landscape.critical_points(deep, 2, starts=4).complete


@pytest.mark.parametrize("masses", [0, 13, [0.5, 0.6], [-0.5, 1.5], [[1.0]]])
def test_masses_are_checked(masses):
    with pytest.raises(SphereflowError, match="masses"):
        landscape.critical_points(smooth(), masses)


def test_an_own_activation_is_the_built_in_one():
    ours = Problem(3.0, OUTER, INNER, [0.1, -0.2], activation=lambda s: s * ndtr(s))
    built_in = ours.replaced(activation="gelu")
    angles = np.array([0.3, 1.9, 4.0])
    np.testing.assert_allclose(landscape.field(ours, angles), landscape.field(built_in, angles), atol=1e-13)
    np.testing.assert_allclose(landscape.hessian(ours, angles), landscape.hessian(built_in, angles), atol=1e-12)
    assert third_derivative_bound(built_in) <= 1.0001 * third_derivative_bound(ours)


def test_a_wrong_primitive_and_a_hidden_kink_are_refused():
    bell = lambda s: np.exp(-s * s / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    wrong = Activation(lambda s: s * ndtr(s), lambda s: s**2 * ndtr(s) + s * bell(s))
    with pytest.raises(SphereflowError, match="primitive"):
        landscape.energy(Problem(3.0, OUTER, INNER, activation=wrong), [0.0])
    right = Activation(lambda s: s * ndtr(s), lambda s: (s**2 - 1) * ndtr(s) + s * bell(s))
    assert np.isfinite(landscape.energy(Problem(3.0, OUTER, INNER, activation=right), [0.0]))
    with pytest.raises(SphereflowError, match="kinks"):
        landscape.energy(Problem(3.0, OUTER, INNER, activation=np.abs), [0.0])
    with pytest.raises(SphereflowError, match="continuous"):
        landscape.energy(Problem(3.0, OUTER, INNER, activation=Activation(np.sign, kinks=(0.0,))), [0.0])


@pytest.mark.slow
def test_flows_take_an_own_activation():
    ours, built_in = Problem(3.0, OUTER, INNER, activation=jax.nn.relu6), Problem(3.0, OUTER, INNER)
    start = np.array([[1.0, 0.0], [0.6, 0.8], [-0.6, 0.8]])
    ends = [landscape.flow(here, start, 0.5, saveat=2).final for here in (ours, built_in)]
    np.testing.assert_allclose(*ends, atol=1e-8)


def test_harmonics_far_below_rounding_are_those_of_extended_precision():
    problem = Problem(4.0, [0.05, -0.03], [[1.0, 0.0], [0.6, 0.8]], [0.2, 0.0], activation=SILU)
    found = landscape.obstruction(problem)
    with mpmath.workdps(60):
        nodes = 128

        def derivative(k):
            theta = 2 * mpmath.pi * k / nodes
            total = mpmath.mpf(0)
            for weight, a, b in zip(problem.outer, problem.inner, problem.bias, strict=True):
                s = mpmath.mpf(a[0]) * mpmath.cos(theta) + mpmath.mpf(a[1]) * mpmath.sin(theta) + mpmath.mpf(b)
                turned = -mpmath.mpf(a[0]) * mpmath.sin(theta) + mpmath.mpf(a[1]) * mpmath.cos(theta)
                total += 2 * mpmath.mpf(weight) * s / (1 + mpmath.exp(-s)) * turned
            return total

        values = [derivative(k) for k in range(nodes)]
        for order in (1, 2, 20, 31):
            sums = mpmath.fsum(v * mpmath.expjpi(-2 * mpmath.mpf(order) * k / nodes) for k, v in enumerate(values))
            exact = float(mpmath.log(abs(sums) / nodes / order))
            assert found.harmonics[order - 1] == pytest.approx(exact, abs=1e-6)
    assert found.harmonics[30] < -45
    assert found.atomic


def test_what_can_be_a_density_is_not_called_atomic():
    assert not landscape.obstruction(Problem(4.0, [], np.zeros((0, 2)))).atomic
    assert not landscape.obstruction(Problem(4.0, [0.01], [[1.0, 0.0]], activation=lambda s: s)).atomic
    kinked = Activation(lambda s: np.maximum(s, 0.0), kinks=(0.0,))
    pair = [[1.0, 0.0], [-1.0, 0.0]]
    assert not landscape.obstruction(Problem(4.0, [0.01, 0.01], pair, activation=kinked)).atomic
    assert landscape.obstruction(Problem(4.0, [0.01, 0.0101], pair, activation=kinked)).reason == "kink"
    # A kink beyond the circle is never met.
    assert not landscape.obstruction(Problem(4.0, [0.01], [[1.0, 0.0]], [2.0], activation=kinked)).atomic


def test_on_spheres_only_the_area_is_excluded():
    strong = landscape.obstruction(Problem(4.0, [2.0, -1.0], np.eye(2, 4), activation=SILU))
    assert strong.singular
    assert not strong.atomic
    assert not landscape.obstruction(Problem(4.0, [0.01], np.eye(1, 4), activation=lambda s: s)).singular


def test_the_zero_set_of_atoms_is_points_and_of_a_density_everything():
    # g of a Dirac at a critical point of v: as many zeros as a dense scan finds.
    at = landscape.critical_points(smooth(), 1, starts=30).angles[0, 0]
    found = landscape.zero_set(smooth(), [at], levels=18)
    grid = np.linspace(0.001, 2 * np.pi + 0.001, 4001)
    values = np.array([slope(t, [at], [1.0]) for t in grid])
    assert found.zeros == np.sum(values[1:] * values[:-1] < 0)
    assert found.length < 1e-3
    uniform = landscape.zero_set(Problem(4.0, [0.0], [[1.0, 0.0]]), 2 * np.pi * np.arange(60) / 60, levels=8)
    assert uniform.share[-1] == 1.0
    assert uniform.zeros == -1
    assert uniform.dimension == pytest.approx(1)


def test_boxes_cover_the_sphere_of_dimension_three():
    cells = Boxes.cover(100, 4)
    x = np.random.default_rng(0).normal(size=(500, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    inside = np.arccos(np.clip(x @ cells.centres.T, -1, 1)) <= cells.radii
    assert inside.any(axis=1).all()
    parts = cells.split(np.arange(3))
    assert len(parts.low) == 24
    assert parts.radii.max() < cells.radii[:3].max()


def test_weights_in_general_position_are_solved_in_dimension_four():
    problem = Problem(2.0, [-1.0, 0.7, 0.4], np.eye(3, 4) + 0.2, activation=SILU)
    found = landscape.minimise(problem, 500)
    assert found.kind == "atoms"
    assert found.gap < 1e-10
    x = np.random.default_rng(1).normal(size=(20_000, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert found.first_variation(x).min() >= found.multiplier - found.gap
    with pytest.raises(SphereflowError, match="d up to 6"):
        landscape.minimise(Problem(2.0, [1.0, 1.0], np.eye(2, 7), activation=SILU))


def test_the_mean_field_flow_is_a_plain_sum():
    x = np.random.default_rng(0).uniform(0, 2 * np.pi, 5)
    step = 1e-5
    moved = _flow(smooth(), [x, x[:2]], step, -1.0, 1e-9)
    for group, start in zip(moved, (x, x[:2]), strict=True):
        speed = [-slope(t, start, np.full(len(start), 1 / len(start))) for t in start]
        np.testing.assert_allclose((group - start) / step, speed, atol=1e-4)


def test_spaced_tokens_are_a_quarter_turn_over_n_from_the_law():
    """W_1 of n equally spaced points to the uniform law is pi / (2 n)."""
    found = landscape.mean_field_limit(smooth(), [8, 16], 0.01, 2, start="spaced", reference=4096)
    np.testing.assert_allclose(found.distance(0).value, np.pi / (2 * np.array([8, 16])), rtol=1e-2)
    assert float(found.exponent(0).value) == pytest.approx(-1, abs=0.01)
    with pytest.raises(SphereflowError, match="reference"):
        landscape.mean_field_limit(smooth(), [8, 16], 0.1, reference=20)


def test_a_ring_is_told_from_atoms_below_rounding():
    """The excess of 24 atoms and the sign of g'' at them, by sums with 60 digits."""
    ring = landscape.ring_certificate(Problem(5.0, [-0.6], [[0.0, 0.0, 1.0]]))
    assert ring.single
    assert ring.gap < 1e-6
    with mpmath.workdps(60):
        x, count = mpmath.mpf(5 * math.sin(ring.polar[0]) ** 2), 24
        turn = [2 * mpmath.pi * k / count for k in range(count)]
        kernel = [mpmath.exp(x * (mpmath.cos(t) - 1)) / count for t in turn]
        excess = (mpmath.fsum(kernel) - mpmath.exp(-x) * mpmath.besseli(0, x)) / 10
        bend = mpmath.fsum(
            k * ((x * mpmath.sin(t)) ** 2 - x * mpmath.cos(t)) for k, t in zip(kernel, turn, strict=True)
        )
        assert bend < 0
        assert ring.log_excess(count) == pytest.approx(float(mpmath.log(excess)), abs=1e-9)
        assert ring.log_curvature(count) == pytest.approx(float(mpmath.log(-bend / 5)), abs=1e-9)
    with pytest.raises(SphereflowError, match="d=3"):
        landscape.ring_certificate(smooth())


def test_normalised_attention_under_a_constant_pull_has_the_harmonics_of_a_bessel_function():
    """g = exp(-beta b cos): |g_k|/g_0 = I_k(beta b)/I_0(beta b), above I_k/I_0 of beta if and only if b > 1."""
    k, constant = np.arange(1, 31), landscape.Activation(lambda s: 1 + 0 * s, strip=np.inf)
    for b in (0.6, 1.3):
        found = landscape.obstruction(Problem(3.0, [1.0], [[0.0, b]], activation=constant), 30, normalised=True)
        exact = np.log(ive(k, 3 * b) / ive(0, 3 * b))
        np.testing.assert_allclose(found.harmonics, exact, atol=1e-6)
        np.testing.assert_allclose(found.thresholds, np.log(ive(k, 3.0) / ive(0, 3.0)), atol=1e-9)
        assert found.atomic is (b > 1)
    weak = Problem(3.0, [0.01], [[1.0, 0.5]], activation="linear")
    assert landscape.obstruction(weak, normalised=True).atomic
    assert not landscape.obstruction(weak).atomic  # a density flattens it without the denominator
    assert not landscape.obstruction(Problem(3.0, [], np.zeros((0, 2))), normalised=True).atomic
    with pytest.raises(SphereflowError, match="on the circle, d=2"):
        landscape.obstruction(Problem(3.0, [1.0], [[1.0, 0.0, 0.0]]), normalised=True)
