"""Zonal densities in any dimension, growth rates, stability of stationary states, distances along the circle."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from sphereflow import meanfield
from sphereflow.dynamics import SA, USA, Perceptron, PiecewiseConstant
from sphereflow.errors import SphereflowError
from sphereflow.estimates import fit_power, local_slopes
from sphereflow.evolution import evolve
from sphereflow.interaction.expansion import zonal_coefficients
from sphereflow.meanfield.cluster_moments import GaussianCluster
from sphereflow.meanfield.eulerian import EulerianCircle
from sphereflow.meanfield.zonal import ZonalShells, gauss_nodes, zonal_shells
from sphereflow.observables import circle_wasserstein, wasserstein_to_pair
from sphereflow.solving import solve
from sphereflow.sphere import circle_grid, from_angles

HEIGHTS = (-0.5, 0.1, 0.6, 0.8)
RINGS = {
    5.0: (-0.16717032, 0.40134646, 0.71032476, 0.79693202),
    20.0: (-0.50764473, 0.12086127, 0.72238082, 0.76407566),
}


field = eqx.filter_jit(lambda model, x: model.field(jnp.zeros(()), x))


def rings(points):
    turn = 2 * np.pi * np.arange(points) / points
    rows = [[(np.sqrt(1 - t * t) * np.cos(a), np.sqrt(1 - t * t) * np.sin(a), t) for a in turn] for t in HEIGHTS]
    return np.array(rows).reshape(-1, 3)


@pytest.mark.slow
def test_shells_are_rings_of_tokens():
    """Against reference heights, and against rings of 32 tokens, which make up for the integral to 5e-13."""
    start = jnp.arccos(jnp.asarray(HEIGHTS))[:, None]
    for beta, known in RINGS.items():
        kernel = zonal_coefficients(3, beta, 41)
        shells = ZonalShells(jnp.full(4, 0.25), jnp.asarray(kernel), jnp.asarray(kernel / beta), 3, "softmax")
        found = np.cos(np.asarray(solve(shells, start, [0.0, 2.0], tol=1e-10).final)[:, 0])
        np.testing.assert_allclose(found, known, atol=6e-9)
        if beta == 5.0:
            tokens = evolve(SA(beta), rings(32), saveat=[0.0, 2.0], tol=1e-9, solver="tsit5", method="direct").final
            np.testing.assert_allclose(found, tokens[::32, 2], atol=1e-9)


@pytest.mark.parametrize(("d", "beta", "normalise"), [(8, 0.3, "mean"), (512, 12.0, "softmax")])
def test_field_of_shells_against_the_integral_over_the_azimuth(d, beta, normalise):
    """The mean of e^(z u) over the height u of a uniform point of S^(d-2) is a Bessel function, all terms positive."""
    rng = np.random.default_rng(d)
    phi, masses = rng.uniform(0.3, 2.8, 9), rng.dirichlet(np.ones(9))

    def potential(x):
        z = beta * np.multiply.outer(np.sin(x), np.sin(phi))
        along = beta * (np.multiply.outer(np.cos(x), np.cos(phi)) - 1)
        return (np.exp(along) * special.hyp0f1((d - 1) / 2, z * z / 4)) @ masses

    step = 1e-5
    slope = (potential(phi + step) - potential(phi - step)) / (2 * step) / beta
    expected = slope / potential(phi) if normalise == "softmax" else slope
    shells = zonal_shells(d, beta, masses, normalise)
    found = np.asarray(field(shells, jnp.asarray(phi)[:, None]))[:, 0]
    np.testing.assert_allclose(np.asarray(shells.potential(jnp.asarray(phi))[0]), potential(phi), rtol=1e-6, atol=1e-14)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("d", [3, 8, 512])
def test_gauss_nodes(d):
    t, w = gauss_nodes(d, 30)
    assert w.sum() == pytest.approx(1, abs=1e-13)
    assert w @ t**2 == pytest.approx(1 / d, rel=1e-12)
    assert w @ t**4 == pytest.approx(3 / (d * (d + 2)), rel=1e-12)


@pytest.mark.slow
def test_a_density_in_dimension_512():
    flow = meanfield.evolve_zonal(
        512, 5.0, "USA", lambda t: np.exp(20 * t), 400.0, saveat=5, nodes=48, tol=1e-6, solver="tsit5"
    )
    assert np.diff(flow.energy).min() > 0
    assert np.diff(flow.moments(1)[:, 1]).min() > 0
    assert flow.masses.sum() == pytest.approx(1, abs=1e-14)
    assert "dimension 512" in repr(flow)
    assert flow.to_xarray().sizes == {"t": 5, "shell": 48}
    flow.plot().canvas.draw()
    with pytest.raises(SphereflowError, match="softmax denominators"):
        meanfield.evolve_zonal(512, 200.0, "SA", lambda t: 1 + 0 * t, 1.0)


def test_no_temperature_and_very_low_temperature_on_spheres():
    hot = zonal_shells(8, 0.0, np.full(4, 0.25), "softmax")
    phi = np.arccos(np.array(HEIGHTS))
    found = np.asarray(hot.field(jnp.zeros(()), jnp.asarray(phi)[:, None]))[:, 0]
    np.testing.assert_allclose(found, -np.sin(phi) * np.mean(HEIGHTS), atol=1e-14)
    cold = zonal_shells(3, 1e4, np.full(4, 0.25), "mean")
    assert np.isfinite(np.asarray(cold.field(jnp.zeros(()), jnp.asarray(phi)[:, None]))).all()


def test_growth_rates_of_the_uniform_law():
    pick = [0, 2, 4]
    np.testing.assert_allclose(
        meanfield.growth_rates(10.0, "USA")[pick], [0.01212627, 0.07184733, 0.08821073], atol=1e-8
    )
    np.testing.assert_allclose(
        meanfield.growth_rates(10.0, "SA")[pick], [0.09485998, 0.56203903, 0.69004483], atol=1e-8
    )
    np.testing.assert_allclose(
        meanfield.growth_rates(5.0, d=3)[[0, 1, 3]], [0.32003632, 0.62393462, 0.51096847], atol=1e-8
    )
    np.testing.assert_allclose(
        meanfield.growth_rates(5.0, d=8)[[0, 1, 3]], [0.69222966, 0.66841731, 0.19861407], atol=2e-7
    )
    raw = meanfield.growth_rates(10.0, "USA", kernel_scale="raw")
    np.testing.assert_allclose(raw, np.exp(10) * meanfield.growth_rates(10.0, "USA"), rtol=1e-13)
    assert meanfield.growth_rates(0.0, d=2)[0] == pytest.approx(0.5)
    assert np.isfinite(meanfield.growth_rates(100.0, "USA", d=512)).all()


def test_growth_rates_are_measured_on_densities():
    """A small wave on the circle, and a small harmonic in eight dimensions."""
    size, beta = 1e-5, 10.0
    theta = 2 * np.pi * np.arange(96) / 96
    waves = np.array([1, 3, 5])
    rho = jnp.asarray(1 + size * np.cos(np.multiply.outer(theta, waves)).sum(axis=1))[:, None]
    for model, normalise in (("SA", "softmax"), ("USA", "mean")):
        change = field(EulerianCircle(jnp.asarray(beta), jnp.zeros(96), normalise), rho)[:, 0]
        seen = np.fft.rfft(change)[waves].real / 96 / (size / 2)
        np.testing.assert_allclose(seen, meanfield.growth_rates(beta, model)[waves - 1], atol=1e-6)
    heights, masses = gauss_nodes(8, 40)
    shells = zonal_shells(8, 5.0, masses * (1 + size * heights), "softmax")
    speed = np.asarray(field(shells, jnp.arccos(jnp.asarray(heights))[:, None]))[:, 0]
    # d/dt of the mean height is the mean of -sin(phi) phi'; it starts at size/d
    rate = 8 / size * np.sum(np.asarray(shells.masses) * -np.sqrt(1 - heights**2) * speed)
    assert rate == pytest.approx(0.69222966, abs=1e-6)


def test_spectrum_of_the_uniform_state():
    spectrum = meanfield.stability(SA(10.0), circle_grid(64))
    expected = np.repeat(meanfield.growth_rates(10.0, count=12), 2)
    np.testing.assert_allclose(spectrum.rates.real[:20], np.sort(expected)[::-1][:20], atol=1e-8)
    assert not spectrum.stable
    assert spectrum.unstable > 16
    assert np.abs(spectrum.splitting).max() < 1e-12


@pytest.mark.slow
def test_spectrum_of_atoms():
    beta, a = 3.0, 0.3
    pair = meanfield.stability(USA(beta), from_angles(jnp.asarray([0.0, np.pi])), [a, 1 - a])
    # opposite atoms: the angle u between them obeys u' = -sin(u) e^(beta(cos u - 1)), which is unstable at pi
    assert pair.rates.real[0] == pytest.approx(np.exp(-2 * beta), rel=1e-9)
    assert abs(pair.rates[1]) < 1e-12
    np.testing.assert_allclose(
        pair.splitting[:, 0], [-a + (1 - a) * np.exp(-2 * beta), -(1 - a) + a * np.exp(-2 * beta)], rtol=1e-9
    )
    assert "not stable" in repr(pair)
    held = USA(beta) + Perceptron([2.0], [[1.0, 0.0]], activation="linear")  # 2 x_1 e_1: both ends attract at rate 2
    pulled = meanfield.stability(held, from_angles(jnp.asarray([0.0, np.pi])), [a, 1 - a])
    np.testing.assert_allclose(pulled.rates.real, np.array([np.exp(-2 * beta), 0.0]) - 2, rtol=1e-9)
    assert pulled.stable
    with pytest.raises(SphereflowError, match="not at rest"):
        meanfield.stability(SA(4.0), from_angles(jnp.asarray([0.0, 1.0])))
    with pytest.raises(SphereflowError, match="masses"):
        meanfield.stability(SA(4.0), [[1.0, 0.0]], [0.5])
    with pytest.raises(SphereflowError, match="masses must be finite"):
        meanfield.stability(SA(4.0), [[1.0, 0.0], [1.0, 0.0]], [np.nan, 0.5])
    with pytest.raises(SphereflowError, match="a piece of a schedule"):
        meanfield.stability(PiecewiseConstant([1.0], [SA(1.0), SA(2.0)]), [[1.0, 0.0]])
    for wrong in ([np.nan, 0.5], [0.5, 0.5]), ([0.1, 0.5], [np.nan, 0.5]), 3.0:
        with pytest.raises(SphereflowError, match="shells"):
            meanfield.evolve_zonal(3, 2.0, shells=wrong, t1=1.0)


@given(st.integers(0, 10_000), st.sampled_from([1.0, 2.0, 3.0]), st.booleans())
def test_distance_along_the_circle_is_the_linear_programme(seed, p, equal):
    rng = np.random.default_rng(seed)
    n, m = (7, 7) if equal else (6, 9)
    theta, phi = rng.uniform(-9, 9, n), rng.uniform(-9, 9, m)
    a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(m))
    cost = np.abs(np.mod(theta[:, None] - phi + np.pi, 2 * np.pi) - np.pi) ** p
    if equal:
        exact = ot.emd2(np.full(n, 1 / n), np.full(m, 1 / m), cost)
        found = circle_wasserstein(theta, phi, p)
    else:
        exact = ot.emd2(a, b, cost)
        found = circle_wasserstein(theta, phi, p, theta_weights=a, phi_weights=b)
    assert found**p == pytest.approx(exact, abs=1e-9)
    pair = wasserstein_to_pair(theta, (0.4, 2.0), 0.37, p)
    two = np.abs(np.mod(theta[:, None] - np.array([0.4, 2.0]) + np.pi, 2 * np.pi) - np.pi) ** p
    assert pair**p == pytest.approx(ot.emd2(np.full(n, 1 / n), np.array([0.37, 0.63]), two), abs=1e-12)


def test_distance_does_not_see_where_the_circle_is_cut():
    theta = np.array([-3.1, 3.1])
    assert circle_wasserstein(theta, theta + 2 * np.pi) == pytest.approx(0, abs=1e-12)
    assert circle_wasserstein(np.array([-3.1]), np.array([3.1])) == pytest.approx(2 * np.pi - 6.2, abs=1e-12)
    with pytest.raises(SphereflowError, match="angles must be"):
        circle_wasserstein(np.empty(0), theta)


def test_eigenspaces_of_concentration():
    found = meanfield.concentration(np.diag([1.0, 1.0, 0.2]))
    assert found.k == 2
    np.testing.assert_allclose(found.projector, np.diag([1.0, 1.0, 0.0]), atol=1e-12)
    oblique = meanfield.concentration(np.array([[1.0, 0.5], [0.0, 0.5]]))
    np.testing.assert_allclose(oblique.projector, [[1.0, 1.0], [0.0, 0.0]], atol=1e-12)
    assert oblique.rate(np.array([1.0, 0.0])) == pytest.approx(0.5)
    for value, words in (
        ([[0.0, 1.0], [-1.0, 0.0]], "complex"),
        ([[1.0, 1.0], [0.0, 1.0]], "Jordan"),
        ([[1.0, 1.0]], "square"),
    ):
        with pytest.raises(SphereflowError, match=words):
            meanfield.concentration(value)
    with pytest.raises(SphereflowError, match="invertible"):
        meanfield.concentration(np.eye(2), np.zeros((2, 2)))


def test_gaussian_cluster_in_both_regimes():
    cluster = GaussianCluster(along=0.5, across=1.0, sharpness=1.0, tilt=0.2)
    assert cluster.contraction == pytest.approx(0.3)
    times = np.array([0.0, 1.0])
    mean, variance = cluster.moments(1e9, 0.1, 0.5, times)  # resolved: zero temperature
    np.testing.assert_allclose([mean[1] / 0.1, variance[1] / 0.5], np.exp([-0.3, -0.6]), rtol=1e-6)
    mean, variance = cluster.moments(1e-9, 0.1, 0.5, times)  # unresolved: the power method
    np.testing.assert_allclose([mean[1] / 0.1, variance[1] / 0.5], np.exp([0.5, -1.0]), rtol=1e-6)
    assert cluster.exit_growth * np.log(10) == pytest.approx(6.14, abs=5e-3)


def test_power_laws_with_error_bars():
    x = np.geomspace(1, 100, 9)
    noise = np.random.default_rng(0).normal(size=(400, 9)) * 0.05
    fits = [fit_power(x, 3 * x**-0.5 * np.exp(row)) for row in noise]
    slopes = np.array([f.exponent for f in fits])
    assert abs(slopes.mean() + 0.5) < 3 * slopes.std() / 20
    assert np.sqrt(np.mean([f.error**2 for f in fits])) == pytest.approx(slopes.std(), rel=0.15)
    known = fit_power(x, 3 * x**-0.5, 0.05 * 3 * x**-0.5)
    assert known.error == pytest.approx(slopes.std(), rel=0.15)
    np.testing.assert_allclose(local_slopes(x, x**2), 2)
