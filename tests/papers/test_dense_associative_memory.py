"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.memory import compact as compact_kernel
from sphereflow.memory import gaussian, overlaps, spherical, state
from sphereflow.memory import noise as noise_module
from sphereflow.memory.energies import LSE
from sphereflow.memory.landscapes import Cone, Full, log_rest, random_patterns, state_at
from sphereflow.memory.sampling import metropolis, published_step
from sphereflow.papers import load
from sphereflow.papers.dense_associative_memory import (
    boundaries,
    capacity,
    compact,
    equilibrium,
    escape,
    noise,
    other_energies,
    published,
)

PAPER = load("dense-associative-memory")
WON = ("holds", "refuted")


class TestVerdicts(Verdicts):
    paper = PAPER
    refuted = ("capacity", "printed-lsr-line")
    slow_claims = (
        "bath-at-half-the-load",
        "polynomial-step",
        "boundary-of-the-compact-kernel",
        "boundary-of-the-gaussian-kernel",
        "capacity",
        "centroids",
        "entropy-of-the-sphere",
        "escape-decades",
        "escape-time",
        "exact-sampling",
        "finite-size-mean",
        "hop-rate",
        "iterated-update",
        "lost-and-kept",
        "one-memory-in-a-bath",
        "one-step-retrieval",
        "one-step-weight",
        "pairs-below-the-threshold",
        "retrieval-in-a-hot-bath",
        "survival-of-a-pattern",
        "tempered-gaussian-kernel",
        "typical-noise",
        "where-one-half-is-the-capacity",
    )
    slow_figures = ("escape", "overlap-in-a-bath", "plane-lse", "plane-lsr")


@pytest.mark.slow
def test_gaussian_g_max_is_caught(monkeypatch):
    """Gaussian overlaps in one place: noise and static line notice."""
    monkeypatch.setattr(spherical, "g_max", lambda beta: np.asarray(beta, dtype=float) ** 2 / 2)
    for measure in (noise.mean_noise_leading, boundaries.lse_boundary):
        assert measure(Run()).verdict not in WON


def test_one_branch_at_all_loads_is_caught(monkeypatch):
    mean_branch = lambda n, alpha, beta: (alpha + float(spherical.g_max(beta))) / beta  # noqa: E731
    monkeypatch.setattr(noise, "frozen_noise", lambda *cell: (mean_branch(*cell), mean_branch(*cell)))
    assert noise.typical_noise(Run()).verdict not in WON


def test_wrong_exponent_of_the_density_is_caught(monkeypatch):
    monkeypatch.setattr(noise, "log_mean_noise", lambda n, a, b: a * n + noise.log_kernel_integral(n, b, (n - 1) / 2))
    assert noise.mean_noise(Run()).verdict not in WON
    monkeypatch.setattr(equilibrium, "lse_mean_overlap", lambda n, t: equilibrium.mean_by_quadrature(n, t, (n - 2) / 2))
    assert equilibrium.finite_size_mean(Run()).verdict not in WON


@pytest.mark.slow
def test_an_iteration_that_does_not_return_to_the_sphere_is_caught(monkeypatch):
    right = capacity.iterated

    def unprojected(n, alpha, beta, seed, projected):
        return right(n, alpha, beta, seed, False)

    monkeypatch.setattr(capacity, "iterated", unprojected)
    check = capacity.iterated_update(Run())
    assert check.verdict == "fails"
    assert [row.name for row in check.rows if row.excess() > 1] == ["projected, $N=14$, load 0.65, share that stays"]


def test_the_weight_of_other_patterns_is_a_bessel_function_at_power_one():
    n, q, phi = 20, 0.3, np.array([0.5, 0.6, 0.8])
    patterns = np.sqrt(n) * np.array([[1.0, 0.0], [q, np.sqrt(1 - q * q)]]) @ np.eye(2, n)
    z, order = n * np.sqrt((1 - phi**2) * (1 - q * q)), (n - 3) / 2
    second = np.exp(n * (phi * q - 1)) * special.gamma(order + 1) * (2 / z) ** order * special.iv(order, z)
    exact = np.log(np.exp(n * (phi - 1)) + second)
    found = equilibrium.log_weight(phi, patterns, lambda p: np.exp(n * (p - 1)), 1.0, 0)
    assert exact[0] - n * (phi[0] - 1) > 0.2
    np.testing.assert_allclose(found, exact, atol=0.05)


def test_printed_line_is_refuted_by_more_than_its_tolerance():
    check = published.printed_lsr_line(Run())
    assert check.severity > 1e5
    np.testing.assert_allclose([row.measured for row in check.rows][1:], [1.096, 0.372, 0.160, 0.0702], atol=5e-4)


@pytest.mark.slow
def test_kernel_and_bath_temperatures_mixed_are_caught(monkeypatch):
    right = equilibrium.metropolis
    monkeypatch.setattr(equilibrium, "metropolis", lambda place, x, t, *rest: right(place, x, 0.8 * t, *rest))
    assert equilibrium.exact_sampling(Run()).verdict not in WON


@pytest.mark.slow
def test_missing_factor_in_the_noise_is_caught(monkeypatch):
    right = noise_module.sample_log_noise
    monkeypatch.setattr(noise, "sample_log_noise", lambda n, a, b, k, seed=0: right(n, a, b * 0.9, k, seed))
    assert noise.weight(Run()).verdict not in WON


def test_gaussian_tail_is_caught(monkeypatch):
    from scipy.stats import norm

    monkeypatch.setattr(overlaps, "log_tail", lambda c, n: norm.logsf(c * np.sqrt(n)))
    assert compact.support_count(Run()).verdict not in WON


def test_a_boundary_away_from_the_spinodal_would_be_seen(monkeypatch):
    monkeypatch.setattr(escape, "boundary_temperature", lambda n, alpha, duration: 0.2)
    assert escape.kinetic_boundary(Run()).verdict not in WON


# Identities between closed forms: nothing to measure, so they are tests and no claims.


def test_the_two_regimes_of_the_noise_floor_are_a_legendre_pair():
    alpha = np.linspace(0, 3, 300_001)
    for beta in (0.25, 1.0, 4.0):
        best = np.max(spherical.extreme_overlap(alpha) - alpha / beta)
        assert float(spherical.g_max(beta)) / beta == pytest.approx(best, abs=1e-9)


def test_lines_never_cross_and_meet_where_they_should():
    t = np.linspace(0.01, 3, 300)
    for beta in (0.5, 1.0, 3.0):
        depth, static, spinodal = (f(t, beta) for f in (spherical.equal_depth, spherical.static, spherical.spinodal))
        assert np.all(depth <= static + 1e-10)
        assert np.all(static <= spinodal + 1e-10)
        cold = np.array([0.1, 0.2, 0.5, 0.9]) / beta
        moment = 1 / (beta * cold)
        by_moments = (spherical.g_max(moment * beta) - moment * spherical.g_max(beta)) / (moment - 1)
        np.testing.assert_allclose(spherical.static(cold, beta), by_moments, atol=1e-12)
        assert float(spherical.static(1 / beta, beta)) == pytest.approx(spherical.load_switch(beta), abs=1e-12)
        # At T = 1/beta all basins together are as deep as the noise, at every load.
        assert float(state.lse_free_energy(1 / beta)) == pytest.approx(1 - float(spherical.g_max(beta)) / beta)


def test_spinodal_inverts_its_temperature_on_both_branches():
    loads = np.array([0.5, 0.1, 0.05])
    temperatures = spherical.spinodal_temperature(loads, 1.0)
    np.testing.assert_allclose(spherical.spinodal(temperatures, 1.0), loads, atol=1e-12)
    np.testing.assert_allclose(temperatures, [0.26227, 1.9230, 2.9332], atol=6e-5)


def test_absolute_stability_adds_two_angles():
    t, b = np.array([0.1, 0.2, 0.3, 0.5, 1.0]), state.REFERENCE_B
    angle = np.arccos(state.support_edge(b)) + np.arccos(state.lsr_overlap(t, b))
    np.testing.assert_allclose(
        compact_kernel.absolute_stability(t, b), -np.log1p(-(np.cos(angle) ** 2)) / 2, atol=1e-12
    )


def test_the_printed_line_ends_at_its_smallest_root():
    b = state.REFERENCE_B
    assert gaussian.lsr_published_end(b) == pytest.approx(0.213155, abs=1e-6)
    at_end = float(gaussian.lsr_line_as_published(np.array([gaussian.lsr_published_end(b) - 1e-9]), b)[0])
    assert at_end == pytest.approx(gaussian.lsr_threshold(b), abs=1e-6)


@pytest.mark.slow
def test_the_cone_and_its_constant_stand_for_all_patterns():
    n, beta, alpha = 40, 1.0, float(np.log(2e4) / 40)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for keep in (0.2, 0.4, 0.7):
        phi = keep + (1 - keep) * (nodes + 1) / 2
        kernel = np.exp(overlaps.log_density(phi, n) - beta * n * (1 - phi))
        inside = np.log(np.sum(weights * (1 - keep) / 2 * kernel)) + alpha * n
        whole = np.logaddexp(log_rest(n, alpha, beta, keep), inside)
        assert whole == pytest.approx(noise_module.log_mean_noise(n, alpha, beta), abs=1e-10)
    patterns, t, chains = random_patterns(n, 4000, 0), 0.3, 64
    full = Full(LSE(1.0), jnp.asarray(patterns, jnp.float32))
    x0 = jnp.asarray(state_at(patterns[0], np.full(chains, float(state.lse_overlap(t))), 0), jnp.float32)
    ones = jnp.ones(chains, jnp.float32)
    sigma = float(published_step(n, t)) * ones
    near = (patterns @ patterns[0] / n > 0.4) | (np.arange(len(patterns)) == 0)
    cone = Cone(1.0, jnp.asarray(patterns[near], jnp.float32), log_rest(n, float(np.log(len(patterns)) / n), 1.0, 0.4))
    for place in (full, cone):
        kept = np.asarray(metropolis(place, x0, t * ones, sigma, jax.random.key(0), 500, 100).overlap).mean()
        assert kept == pytest.approx(state.lse_mean_overlap(n, t), abs=0.006)


@pytest.mark.slow
def test_a_polynomial_of_another_degree_is_caught(monkeypatch):
    right = other_energies.PolynomialEnergy
    monkeypatch.setattr(other_energies, "PolynomialEnergy", lambda k: right(k + 1))
    assert other_energies.polynomial_step(Run()).verdict == "fails"


def test_moments_of_a_coordinate_are_those_of_its_law():
    for n in (3, 12):
        t = np.linspace(-1, 1, 200_001)
        law = (1 - t**2) ** ((n - 3) / 2)
        for power in (2, 3, 6):
            assert other_energies.moment(power, n) == pytest.approx(np.sum(t**power * law) / law.sum(), abs=1e-4)
