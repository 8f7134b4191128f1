"""Kernels, potentials, energies and their derivatives on the sphere and on rings, against independent computations."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from sphereflow import landscape
from sphereflow.dynamics.activations import ACTIVATIONS, activation, slope
from sphereflow.errors import SphereflowError
from sphereflow.landscape import Problem
from sphereflow.landscape import potential as potential_module
from sphereflow.landscape.concentration import heaviest_window, window_bound
from sphereflow.landscape.potential import SIZES, kink_jumps, respond, third_derivative_bound
from sphereflow.landscape.rings import ring_points
from sphereflow.landscape.space import PointMasses, first_variation
from sphereflow.landscape.sphere_space import SphereSpace, Triangles
from sphereflow.landscape.zonal import ZonalSpace, scaled_bessel
from sphereflow.numerics.unit_vectors import tangent_frames as frames
from sphereflow.papers.perceptrons_localization import gradient


def unit(rng, n, d):
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def plain_energy(problem, x, masses, primitive):
    """The definition, term by term."""
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            shift = 1.0 if problem.kernel_scale == "peak" else 0.0
            total += masses[i] * masses[j] * np.exp(problem.beta * (x[i] @ x[j] - shift)) / (2 * problem.beta)
        for w, a, b in zip(problem.outer, problem.inner, problem.bias, strict=True):
            total += masses[i] * w * primitive(a @ x[i] + b) / 2
    return total


@pytest.mark.parametrize("scale", ["peak", "raw"])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_energy_is_its_definition(d, scale):
    rng = np.random.default_rng(d)
    problem = Problem(1.7, rng.standard_normal(3), rng.standard_normal((3, d)), rng.standard_normal(3), "tanh", scale)
    x, masses = unit(rng, 4, d), np.array([0.1, 0.2, 0.3, 0.4])
    expected = plain_energy(problem, x, masses, lambda s: 2 * np.log(np.cosh(s)))
    assert landscape.energy(problem, x, masses) == pytest.approx(expected, rel=1e-13)
    assert landscape.energy(problem.replaced(outer=0 * problem.outer), x[:1]) == pytest.approx(
        (1 if scale == "peak" else np.exp(1.7)) / 3.4, rel=1e-14
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradient_check(name):
    for d in (2, 3, 8):
        assert gradient.gradient_error(name, d, 3) < 1e-6


def test_published_gelu_primitive_fails_the_gradient_check(monkeypatch):
    """The primitive of the published code, s^2 Phi + s f, is not the one of GELU."""
    right = respond

    def wrong(name, s):
        return right(name, s)._replace(primitive=(s**2 * stats.norm.cdf(s) + s * stats.norm.pdf(s)) / 2)

    monkeypatch.setattr("sphereflow.landscape.sphere_space.respond", wrong)
    assert gradient.gradient_error("gelu", 3, 3) > 0.1


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_responses_and_their_bounds(name):
    s = np.linspace(-4, 4, 1601) + 1e-4
    response = respond(name, s[:, None])
    h = 1e-5
    for higher, lower in ((response.value, "primitive"), (response.slope, "value")):
        ahead, behind = (getattr(respond(name, (s + step)[:, None]), lower) for step in (h, -h))
        np.testing.assert_allclose((ahead - behind) / (2 * h), higher, atol=2e-6)
    np.testing.assert_allclose(response.slope[:, 0], slope(name, jnp.asarray(s)), atol=1e-15)
    np.testing.assert_allclose(response.value[:, 0], activation(name, jnp.asarray(s)), atol=1e-15)
    assert np.abs(response.slope).max() <= SIZES[name].slope + 1e-7
    smooth = np.abs(np.diff(response.slope[:, 0]) / np.diff(s))[np.abs(s[:-1]) > 0.02]
    assert smooth.max() <= SIZES[name].bend + 1e-5


def test_third_derivatives_are_within_their_bound():
    rng = np.random.default_rng(0)
    for name in ("gelu", "tanh", "softplus", "linear"):
        problem = Problem(6.0, rng.standard_normal(3), 1.5 * rng.standard_normal((3, 2)), [0.2, -0.5, 0.0], name)
        space = SphereSpace(problem)
        theta = np.linspace(0, 2 * np.pi, 4001)
        circle = np.stack([np.cos(theta), np.sin(theta)], axis=1)
        bend = space.half_potential(circle).hessian[:, 0, 0]
        assert np.abs(np.gradient(bend, theta)).max() <= third_derivative_bound(problem)
        jet = first_variation(space, PointMasses(circle[:1], np.ones(1)), circle)
        assert np.abs(np.gradient(jet.hessian[:, 0, 0], theta)).max() <= space.third_derivative_bound
    for name in ("linear", "relu"):  # (A cos t)^2 / 2 has the third derivative 2 A^2 sin 2t
        alone = third_derivative_bound(Problem(6.0, [-0.7], [[1.5, 0.0]], activation=name))
        assert 2 * 0.7 * 1.5**2 <= alone < 3 * 0.7 * 1.5**2
    relu = Problem(6.0, [2.0], [[1.5, 0.0]])
    jumps = kink_jumps(relu, np.array([[0.1], [0.3]]), np.array([0.1, 0.1]))
    np.testing.assert_allclose(jumps, [2 * 1.5**2, 0.0])
    assert potential_module.SIZES["relu"].jump == 1


def second_differences(function, space, points, h=1e-4):
    """Gradient and Hessian along tangent coordinates, by central differences."""
    p = space.p
    slopes, bends = np.zeros((len(points), p)), np.zeros((len(points), p, p))
    base = function(points)
    for i in range(p):
        for j in range(p):
            total = 0.0
            for a in (1, -1):
                for b in (1, -1):
                    step = np.zeros((len(points), p))
                    step[:, i] += a * h
                    step[:, j] += b * h
                    total = total + a * b * function(space.move(points, step))
            bends[:, i, j] = total / (4 * h**2)
        step = np.zeros((len(points), p))
        step[:, i] = h
        slopes[:, i] = (function(space.move(points, step)) - function(space.move(points, -step))) / (2 * h)
    assert np.isfinite(base).all()
    return slopes, bends


@pytest.mark.parametrize(("kind", "d"), [("sphere", 2), ("sphere", 3), ("sphere", 4), ("zonal", 3), ("zonal", 6)])
def test_jets_are_derivatives(kind, d):
    rng = np.random.default_rng(d)
    problem = Problem(3.0, [0.7, -1.1], np.array([[1.2], [0.5]]) * np.eye(1, d), [0.1, -0.3], "gelu")
    space = SphereSpace(problem) if kind == "sphere" else ZonalSpace(problem)
    points = unit(rng, 5, d) if kind == "sphere" else rng.uniform(0.3, 2.8, (5, 1))
    atoms = PointMasses(
        unit(rng, 3, d) if kind == "sphere" else np.array([[0.2], [1.0], [2.5]]), np.array([0.2, 0.5, 0.3])
    )
    jet = first_variation(space, atoms, points)
    slopes, bends = second_differences(lambda x: first_variation(space, atoms, x).value, space, points)
    np.testing.assert_allclose(jet.gradient, slopes, atol=1e-7)
    np.testing.assert_allclose(jet.hessian, bends, atol=1e-6)
    # The mixed derivative: slopes in x, differentiated in y.
    cross = space.kernel_cross(points, atoms.points)
    h = 1e-5
    for q in range(space.p):
        step = np.zeros((3, space.p))
        step[:, q] = h
        ahead, behind = (space.kernel_slope(points, space.move(atoms.points, s)) for s in (step, -step))
        np.testing.assert_allclose(cross[:, :, :, q], (ahead - behind) / (2 * h), atol=1e-8)


def test_frames_are_orthonormal_and_tangent():
    x = unit(np.random.default_rng(1), 20, 5)
    x[0] = -np.eye(5)[0]
    full = np.concatenate([x[:, :, None], frames(x)], axis=2)
    np.testing.assert_allclose(full.transpose(0, 2, 1) @ full, np.broadcast_to(np.eye(5), (20, 5, 5)), atol=1e-14)


def test_zonal_kernel_is_the_mean_over_rings():
    problem = Problem(7.0, [1.0], [[0.0, 0.0, 2.0]])
    space = ZonalSpace(problem)
    first, second = np.array([[0.4], [1.9]]), np.array([[0.7], [2.2], [0.0]])
    ring = [ring_points(np.array([0.0, 0.0, 1.0]), float(t), 400) for t in second[:, 0]]
    point = np.stack([np.sin(first[:, 0]), 0 * first[:, 0], np.cos(first[:, 0])], axis=1)
    mean = np.array([[np.mean(np.exp(7.0 * (r @ x - 1))) for r in ring] for x in point])
    np.testing.assert_allclose(7.0 * space.kernel(first, second) + 1, mean, atol=1e-14)


@pytest.mark.parametrize("order", [0.0, 0.5, 2.0, 29.5, 40.0, 254.5])
def test_scaled_bessel(order):
    mpmath.mp.dps = 30
    s = np.array([0.0, 1e-6, 0.3, 0.6, 5.0, 29.0, 31.0, 260.0, 5000.0])
    exact = [float(mpmath.hyp0f1(order + 1, mpmath.mpf(x) ** 2 / 4) * mpmath.exp(-x)) for x in s]
    np.testing.assert_allclose(scaled_bessel(order, s), exact, rtol=2e-12)


def test_triangles_cover_the_sphere():
    cells = Triangles.cover(500)
    x = unit(np.random.default_rng(2), 2000, 3)
    angle = np.arccos(np.clip(x @ cells.centres.T, -1, 1))
    assert (angle - cells.radii).min(axis=1).max() <= 0
    parts = cells.split(np.arange(len(cells.corners)))
    assert len(parts.corners) == 4 * len(cells.corners)
    assert parts.radii.max() < 0.6 * cells.radii.max()


def test_hessian_on_the_circle_is_the_printed_matrix():
    rng = np.random.default_rng(3)
    theta, masses, beta = rng.uniform(0, 6, 4), np.array([0.1, 0.2, 0.3, 0.4]), 2.5
    problem = Problem(beta, [0.0], [[1.0, 0.0]], kernel_scale="raw")
    apart = theta[:, None] - theta
    bend = np.exp(beta * np.cos(apart)) * ((beta * np.sin(apart)) ** 2 - beta * np.cos(apart))
    expected = -np.outer(masses, masses) * bend / beta
    np.fill_diagonal(expected, 0.0)
    expected -= np.diag(expected.sum(axis=1))
    found = landscape.hessian(problem, theta, masses)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(found @ np.ones(4), 0, atol=1e-13)


def test_windows():
    angles, masses = np.array([0.05, 6.25, 3.0]), np.array([0.3, 0.5, 0.2])
    assert heaviest_window(angles, masses, 0.1) == pytest.approx(0.8)
    assert heaviest_window(angles, masses, 0.05) == 0
    with pytest.raises(SphereflowError, match="mass bound holds on the circle"):
        window_bound(Problem(5.0, [1.0], [[1.0, 0.0]], activation="gelu"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Problem(0.0, [1.0], [[1.0, 0.0]]), "beta must be"),
        (lambda: Problem(1.0, [1.0], [[1.0]]), "dimension d of at least 2"),
        (lambda: Problem(1.0, [1.0, 2.0], [[1.0, 0.0]]), "as many outer weights"),
        (lambda: Problem(1.0, [np.nan], [[1.0, 0.0]]), "must be finite"),
        (lambda: Problem(1.0, ["a"], [[1.0, 0.0]]), "array of numbers"),
        (lambda: Problem(700.0, [1.0], [[1.0, 0.0]], kernel_scale="raw"), "overflow"),
        (lambda: Problem(1.0, [1.0], [[1.0, 0.0]], activation="relux"), "activation must be one of"),
        (lambda: landscape.energy(Problem(1.0, [1.0], [[1.0, 0.0]]), [[1.0, 1.0]]), "unit vectors"),
        (lambda: landscape.energy(Problem(1.0, [1.0], [[1.0, 0.0]]), [[1.0, 0.0]], [0.5]), "sum to one"),
    ],
)
def test_what_a_user_can_get_wrong(call, words):
    with pytest.raises(SphereflowError, match=words):
        call()


def test_conversion_is_explicit_and_invertible():
    raw = Problem.random(3.0, 2, 3, seed=1, kernel_scale="raw")
    peak = raw.converted("peak")
    np.testing.assert_allclose(peak.outer, raw.outer * np.exp(-3.0), rtol=1e-15)
    np.testing.assert_allclose(peak.converted("raw").outer, raw.outer, rtol=1e-14)
    x = unit(np.random.default_rng(0), 6, 2)
    assert landscape.energy(raw, x) == pytest.approx(np.exp(3.0) * landscape.energy(peak, x), rel=1e-13)
    np.testing.assert_allclose(landscape.field(raw, x), np.exp(3.0) * landscape.field(peak, x), rtol=1e-12)
    assert raw.converted("raw") is raw
