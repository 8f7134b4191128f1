"""Flow matching and the light bridge against closed forms; the comparison counts what it says."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import root

from sphereflow.drifting.convex import ConvexPotential, conjugate_gradients, invert, path_end
from sphereflow.drifting.flow_matching import train_flow_matching
from sphereflow.drifting.lightsb import LightBridge, train_light_bridge
from sphereflow.drifting.optima import SoftMaximum, fitted_gaussian_map, gaussian_map, unexplained
from sphereflow.drifting.ratios import compute_ratios
from sphereflow.drifting.samplers import from_rows
from sphereflow.drifting.translation import Point, Quality, quality_against_compute
from sphereflow.errors import SphereflowError

RNG = np.random.default_rng(4)


@pytest.fixture(scope="module")
def potential():
    return ConvexPotential(3, (16, 16), key=jax.random.key(0), dtype=jnp.float64)


@pytest.mark.slow
def test_the_potential_is_convex(potential):
    points = jnp.asarray(3 * RNG.normal(size=(50, 3)))
    values = jax.vmap(lambda x: jnp.linalg.eigvalsh(jax.hessian(potential)(x)))(points)
    assert float(values.min()) > 0


@pytest.mark.slow
def test_starts_solve_the_equation(potential):
    x, t = jnp.asarray(4 * RNG.normal(size=(40, 3))), jnp.asarray(RNG.uniform(0.01, 0.99, 40))
    starts = invert(potential, x, t, tol=1e-9)
    np.testing.assert_allclose(path_end(potential, starts.z, t), x, atol=1e-8)
    slope = jax.grad(potential)
    other = root(lambda z: np.asarray(t[0] * slope(jnp.asarray(z)) + (1 - t[0]) * z - x[0]), np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(starts.z[0], other.x, atol=1e-7)
    assert 10 < int(starts.passes) < 400


def test_conjugate_gradients_count_and_solve():
    matrices = RNG.normal(size=(5, 6, 6))
    matrices = jnp.asarray(matrices @ matrices.transpose(0, 2, 1) + np.eye(6))
    right = jnp.asarray(RNG.normal(size=(5, 6))).at[2].set(0.0)
    found, products = conjugate_gradients(lambda u: jnp.einsum("nij,nj->ni", matrices, u), right, 1e-10)
    np.testing.assert_allclose(found, np.linalg.solve(matrices, right[..., None])[..., 0], atol=1e-7)
    assert 6 <= int(products) <= 12


def test_entropic_map_between_gaussians_in_one_dimension():
    """c^2 + eps c = ab for the covariance c of the plan."""
    a, b, epsilon = 0.7, 2.3, 0.4
    slope = gaussian_map((np.zeros(1), np.array([[a]])), (np.zeros(1), np.array([[b]])), epsilon).matrix[0, 0]
    assert (slope * a) ** 2 + epsilon * slope * a == pytest.approx(a * b)


def test_the_gradient_of_the_soft_maximum():
    potential = SoftMaximum(0.3, 1.2, RNG.normal(size=(4, 2)), RNG.normal(size=4))

    def value(x):
        logits = jnp.asarray(potential.slopes) @ x + potential.shifts
        return 0.15 * x @ x + 1.2 * jax.scipy.special.logsumexp(logits)

    x = RNG.normal(size=(5, 2))
    np.testing.assert_allclose(potential.gradient(x), jax.vmap(jax.grad(value))(jnp.asarray(x)), atol=1e-12)


def test_a_fitted_affine_map_matches_moments():
    x, y = RNG.normal(size=(2000, 3)), 1 + RNG.normal(size=(2000, 3)) @ RNG.normal(size=(3, 3))
    moved = fitted_gaussian_map(x, y)(x)
    np.testing.assert_allclose(moved.mean(0), y.mean(0), atol=1e-10)
    np.testing.assert_allclose(np.cov(moved.T), np.cov(y.T), atol=1e-9)
    assert unexplained(y, y) == 0
    assert unexplained(np.broadcast_to(y.mean(0), y.shape), y) == pytest.approx(100)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", ["optimal", "independent"])
def test_flow_matching_learns_a_shift_and_a_stretch(pairs):
    x, y = RNG.normal(size=(2000, 2)), RNG.normal(size=(2000, 2)) * [2.0, 0.5] + [1.0, -1.0]
    learned = train_flow_matching(from_rows(x), from_rows(y), 2, widths=(16, 16), steps=200, batch=64, pairs=pairs)
    truth = x * [2.0, 0.5] + [1.0, -1.0]
    assert unexplained(np.asarray(learned.potential.map(jnp.asarray(x)), float), truth) < 1.5
    assert learned.errors.shape == (200,)
    assert 10 < learned.passes / (200 * 64) < 200


def test_the_bridge_draws_from_its_plan():
    bridge = LightBridge(jnp.zeros(2), jnp.asarray([[1.0], [-2.0]]), jnp.log(jnp.asarray([[0.5], [0.8]])), 0.5)
    x = jnp.full((40_000, 1), 0.3)
    drawn = np.asarray(bridge.sample(x, jax.random.key(0)))
    error = 4 * drawn.std() / np.sqrt(len(drawn))
    assert drawn.mean() == pytest.approx(float(bridge.mean_map(x[:1])[0, 0]), abs=error)


@pytest.mark.slow
def test_the_comparison_runs_and_counts():
    x, y = RNG.normal(size=(300, 2)), RNG.normal(size=(300, 2)) + 1
    methods = ("drift", "drift-effective", "ofm", "lightsb", "affine")
    points = quality_against_compute(
        x, y, methods=methods, budgets=(50,), seeds=(0,), batch=64, hidden=32, progress=False
    ).points
    by = {p.method: p for p in points}
    assert by["drift"].passes == by["drift-effective"].passes == 2 * 50 * 64
    assert by["ofm"].passes > 5 * by["drift"].passes
    assert by["lightsb"].passes == 4 * 50 * 64
    assert by["affine"].frechet < 0.5


def test_compute_to_reach_a_level():
    made = [
        Point("a", seed, n, n, 10 * n, 0.1, quality, 0, 0, 0)
        for seed, n, quality in ((0, 10, 2.0), (0, 20, 1.0), (1, 10, 3.0), (1, 20, 2.5))
    ]
    np.testing.assert_array_equal(Quality(made).compute_to_reach("a", 1.5), [200, np.inf])
    np.testing.assert_array_equal(Quality(made).compute_to_reach("a", 2.5, "passes"), [10, 20])
    with pytest.raises(SphereflowError, match="method must be one of a"):
        Quality(made).compute_to_reach("b", 1.0)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda s: train_flow_matching(s, s, 2, steps=0), "steps"),
        (lambda s: train_flow_matching(s, s, 2, pairs="best"), "pairs"),
        (lambda s: train_light_bridge(s, s, epsilon=0.0), "epsilon"),
        (lambda s: quality_against_compute(np.eye(20), np.eye(20), methods=("gan",)), "methods"),
        (lambda s: quality_against_compute(np.eye(20), np.full((20, 20), np.nan)), "target must be finite"),
        (lambda s: quality_against_compute(np.eye(3), np.eye(3)), "at least 10 rows"),
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(SphereflowError, match=word):
        call(from_rows(np.eye(2)))


def power_law(seed, factor, best=0.0):
    """A method whose distance falls as factor over the passes, never below `best`."""
    return [
        Point("m", seed, steps, 10.0 * steps, 1e3 * steps, 0.1 * steps, 1.0, 1.0, max(factor / steps, best), 0.0)
        for steps in (10, 20, 40, 80)
    ]


def named(points, method):
    return [dataclasses.replace(point, method=method) for point in points]


def test_ratios_of_compute_are_those_of_power_laws():
    """Distance 1 is reached between two budgets, at `factor` steps: the ratio is that of the factors, seed by seed."""
    fast, slow = (11.0, 13.0, 12.0), (33.0, 52.0, 36.0)
    points = [p for s, c in enumerate(fast) for p in named(power_law(s, c), "fast")]
    points += [p for s, c in enumerate(slow) for p in named(power_law(s, c), "slow")]
    found = compute_ratios(Quality(points), "fast", "slow", levels=[1.0], repeats=500)
    np.testing.assert_allclose(found.value, 3.0, rtol=1e-12)  # of the medians 36 and 12
    np.testing.assert_allclose((found.low[0, 0], found.high[0, 0]), (3.0, 4.0), rtol=1e-12)
    assert (found.verdict(2.9), found.verdict(3.5), found.verdict(16, "passes")) == ("below", "inside", "above")


def test_seeds_that_never_get_there_count():
    points = [p for s in range(3) for p in named(power_law(s, 12.0), "fast")]
    points += [p for s in range(3) for p in named(power_law(s, 30.0, best=1.5 if s else 0.0), "slow")]
    found = compute_ratios(Quality(points), "fast", "slow", levels=[1.0, 2.0])
    assert found.value[0].tolist() == [np.inf, pytest.approx(15 / 10)]  # two of three never reach 1; 12 / 2 < 10 steps
    assert found.reached.tolist() == [[3, 3], [1, 3]]
    assert found.low[0, 0] == pytest.approx(2.5)
    turned = compute_ratios(Quality(points), "slow", "fast", levels=[1.0])
    assert turned.value[0, 0] == 0
    neither = compute_ratios(Quality(points), "fast", "slow", levels=[0.01])
    assert np.isnan(neither.value).all()
    assert (neither.low == 0).all()
    assert np.isinf(neither.high).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "b"}, "method"),
        ({"levels": [-1.0]}, "levels"),
        ({"levels": []}, "levels"),
        ({"levels": [np.nan]}, "levels"),
        ({"measured": "fid"}, "measured"),
        ({"repeats": 0, "levels": [1.0]}, "repeats"),
        ({}, "affine"),
    ],
)
def test_ratios_refuse_in_a_sentence(change, words):
    points = [p for s in range(2) for m in ("a", "c") for p in named(power_law(s, 12.0), m)]
    with pytest.raises(SphereflowError, match=words):
        compute_ratios(Quality(points), **{"method": "a", "other": "c"} | change)
    with pytest.raises(SphereflowError, match="two seeds"):
        compute_ratios(Quality([p for p in points if p.seed == 0]), "a", "c", levels=[1.0])
