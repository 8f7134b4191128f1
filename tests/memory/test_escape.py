"""Escape times against scipy's double quadrature, and the chains on the overlap against chains in N dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import ks_2samp

from sphereflow.errors import SphereflowError
from sphereflow.memory import chains, escape, landscapes, sampling, spherical, state


def by_scipy(n, t, noise, start, stop):
    def density(x):
        return (1 - x * x) ** ((n - 3) / 2) * np.exp(-n * (float(escape.potential(x, n, 1.0, noise)) - 0.2) / t)

    def above(y):
        return quad(density, y, 1, epsabs=0, epsrel=1e-11)[0]

    return quad(lambda y: above(y) / (t * (1 - y * y) / n * density(y)), stop, start, epsrel=1e-9)[0]


@pytest.mark.parametrize(
    ("n", "t", "alpha", "stop"), [(12, 0.5, 0.3, 0.2), (30, 0.35, 0.35, 0.3), (40, 0.25, 0.5, 0.5)]
)
def test_against_double_quadrature(n, t, alpha, stop):
    noise, start = float(spherical.noise_overlap(alpha, 1.0)), 0.9
    exact = by_scipy(n, t, noise, start, stop)
    assert escape.escape_time(n, alpha, t, start=start, stop=stop) == pytest.approx(exact, rel=1e-5)


def test_second_order_in_cells_and_better_with_extrapolation():
    exact = escape.log_escape_time(200, 1.0, 0.3, 0.7, cells=20_000)
    plain = [abs(escape.log_escape_time(200, 1.0, 0.3, 0.7, cells=c, extrapolate=False) - exact) for c in (400, 800)]
    better = abs(escape.log_escape_time(200, 1.0, 0.3, 0.7, cells=400) - exact)
    assert plain[0] / plain[1] == pytest.approx(4, rel=0.3)
    assert better < plain[1] / 3


def test_growth_rate_is_the_barrier():
    noise = float(spherical.noise_overlap(0.5, 1.0))
    times = escape.log_escape_time(np.array([20_000, 40_000]), 1.0, 0.2, noise)
    heights = np.array([noise, float(spherical.lse_overlap(0.2))])  # the cusp, and the bottom of the well
    top, bottom = (1 - heights) / 0.2 - np.log1p(-(heights**2)) / 2
    assert (times[1] - times[0]) / 20_000 == pytest.approx(top - bottom, rel=0.01)


def test_asks_for_a_way_down():
    with pytest.raises(SphereflowError, match="start above stop"):
        escape.log_escape_time(30, 1.0, 0.3, 0.7, start=0.2, stop=0.5)


@pytest.mark.fast_cases("metropolis")
@pytest.mark.parametrize("method", ["metropolis", "langevin"])
def test_chains_in_n_dimensions_have_the_stationary_law(method):
    """One pattern at N = 12: the mean overlap is the ratio of Bessel functions."""
    n, t = 12, 0.6
    target = landscapes.random_patterns(n, 1, 3)[0]
    place = landscapes.Bulk(1.0, jnp.asarray(target), -2.0)
    x0 = jnp.asarray(landscapes.state_at(target, np.full(600, 0.7), 4))
    if method == "metropolis":
        ones = jnp.ones(600)
        run = sampling.metropolis(place, x0, t * ones, 0.6 * ones, jax.random.key(0), 400, 100)
        assert 0.1 < float(run.acceptance.mean()) < 0.95
    else:
        run = sampling.langevin(place, x0, t, 0.01, jax.random.key(0), 1200, 200)
    overlap = np.asarray(run.overlap)
    error = overlap.std() / np.sqrt(600)
    wrong = state.lse_mean_overlap(n + 2, t * (n + 2) / n)  # exponent (N-1)/2 in the density
    exact = state.lse_mean_overlap(n, t)
    bias = 0.0 if method == "metropolis" else 0.002  # of the time step
    assert overlap.mean() == pytest.approx(exact, abs=4 * error + bias)
    assert abs(wrong - exact) > 4 * error + bias
    np.testing.assert_allclose(np.linalg.norm(run.final, axis=1), np.sqrt(n), rtol=1e-12)


@pytest.mark.slow
def test_chain_on_the_overlap_is_the_chain_in_n_dimensions():
    n, t, noise = 20, 0.4, 0.6
    reduced = chains.bulk_metropolis(n, 1.0, np.array([t]), np.array([noise]), 3000, 60, 0, seed=1)
    target = landscapes.random_patterns(n, 1, 0)[0]
    x0 = jnp.asarray(landscapes.state_at(target, np.full(3000, float(state.lse_overlap(t))), 2))
    ones = jnp.ones(3000)
    sigma = float(sampling.curvature_step(n, t))
    place = landscapes.Bulk(1.0, jnp.asarray(target), noise)
    full = sampling.metropolis(place, x0, t * ones, sigma * ones, jax.random.key(2), 60)
    final = np.asarray(full.final) @ target / n
    assert ks_2samp(reduced.final[0], final).pvalue > 1e-3
    assert reduced.acceptance.mean() == pytest.approx(float(full.acceptance.mean()), abs=0.01)


def test_a_step_that_ignores_n_freezes_the_chain(monkeypatch):
    monkeypatch.setattr(chains, "curvature_step", lambda n, t: np.sqrt(n) * sampling.curvature_step(n, t))
    frozen = chains.bulk_metropolis(1000, 1.0, np.array([0.3]), np.array([-2.0]), 16, 100, 0)
    assert frozen.acceptance.mean() < 0.02


@pytest.mark.slow
def test_renewals_count_escapes():
    noise, start = float(spherical.noise_overlap(0.35, 1.0)), float(state.lse_overlap(0.6))
    seen = chains.bulk_escapes(
        20, 1.0, 0.6, noise, start=start, stop=0.3, walkers=2000, duration=6.0, settle=6.0, dt=0.004
    )
    exact = by_scipy(20, 0.6, noise, start, 0.3)
    assert seen.mean == pytest.approx(exact, abs=4 * seen.error + 0.02 * exact)


def test_more_cells_are_more_digits():
    exact = escape.escape_time(50, 0.2, 0.3, cells=48_000)
    errors = [abs(escape.escape_time(50, 0.2, 0.3, cells=cells) / exact - 1) for cells in (750, 3000)]
    assert errors[1] < 1e-6
    assert errors[1] < errors[0] / 4
    with pytest.raises(SphereflowError, match="too long for a number"):
        escape.escape_time(10_000, 0.05, 0.1)
    with pytest.raises(SphereflowError, match="capacity"):
        escape.escape_time(50, 5.0, 0.3)
