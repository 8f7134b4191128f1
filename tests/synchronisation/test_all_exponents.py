"""All Lyapunov exponents: formulas against the derivative of single layers, and the dimension that follows."""

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.papers.synchronization_by_noise.independent import growth_of_gaussian_layer
from sphereflow.papers.synchronization_by_noise.spectrum import exponents, gaussian_layers
from sphereflow.synchronisation import TwoPoint, lyapunov_spectrum, of_powers, of_quadratic_form
from sphereflow.synchronisation.all_exponents import kaplan_yorke
from sphereflow.synchronisation.random_fields import AffineField, QuadraticForm


@pytest.mark.parametrize(("d", "law"), [(5, (0.64, 1.0, 0.0)), (7, (0.0, 1.0, 1.0)), (2, (1.0, 0.5, 0.0))])
def test_the_formula_is_that_of_the_paper_and_its_sum_that_of_volumes(d, law):
    constant, linear, b = law
    covariance = of_quadratic_form(constant**0.5) if b else of_powers([constant, linear])
    found = TwoPoint(d, covariance).spectrum()
    one = constant + linear
    np.testing.assert_allclose(found, exponents(d, one, linear, b), atol=1e-12)
    assert found.sum() == pytest.approx(-(d - 1) / 2 * (linear + (d - 1) * one + d * b))
    assert found[0] == pytest.approx(TwoPoint(d, covariance).lyapunov())


def test_one_layer_of_symmetric_matrices_has_twice_the_spacing():
    """QR of the derivative of one layer in NumPy: log growths per unit of time, without the library."""
    d, h, repeats = 4, 2e-3, 100_000
    g = np.random.default_rng(0).standard_normal((repeats, d, d))
    factor = np.linalg.qr(np.eye(d) + np.sqrt(h / 2) * (g + g.swapaxes(1, 2)))[1]
    logs = np.log(np.abs(np.einsum("kii->ki", factor)))
    growth = (logs[:, 1:] - logs[:, :1]) / h
    error = growth.std(axis=0) / repeats**0.5
    assert np.all(np.abs(growth.mean(axis=0) - TwoPoint(d, of_quadratic_form(0.0)).spectrum()) < 4 * error + 0.15)


@pytest.mark.parametrize(("d", "one", "slope"), [(5, 1.64, 1.0), (8, 0.39, 0.46), (24, 0.39, 0.46)])
def test_the_step_of_gaussian_layers_is_known_to_first_order(d, one, slope):
    errors = []
    for h in (2e-3, 1e-3):
        exact = growth_of_gaussian_layer(d, one, slope, h)[0]
        assert abs(exact - exponents(d, one, slope)[0]) > 10 * abs(exact - gaussian_layers(d, one, slope, h)[0])
        errors.append(exact - gaussian_layers(d, one, slope, h)[0])
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_later_exponents_of_gaussian_layers_by_qr_in_numpy():
    d, one, slope, h, repeats = 5, 1.64, 1.0, 0.02, 200_000
    a = np.sqrt(h) * np.random.default_rng(1).standard_normal((repeats, d, d))
    a *= np.sqrt([one, *[slope] * (d - 1)])
    logs = np.log(np.abs(np.einsum("kii->ki", np.linalg.qr(np.eye(d) + a)[1])))
    growth = (logs[:, 1:] - logs[:, :1]) / h
    error = growth.std(axis=0) / repeats**0.5
    assert np.all(np.abs(growth.mean(axis=0) - gaussian_layers(d, one, slope, h)) < 4 * error + 0.02)


def test_a_spectrum_says_its_numbers_and_scatters_about_its_formula():
    found = lyapunov_spectrum(AffineField(0.5, 1.0), 3, step=0.005, layers=400, repeats=60)
    assert found.samples.shape == (60, 2)
    assert found.measured.agrees(found.formula, slack=0.1)
    assert found.dimension == 0
    assert "tokens meet" in found.summary()
    assert lyapunov_spectrum(QuadraticForm(0.0), 3, layers=2, repeats=2, count=1).samples.shape == (2, 1)


def test_kaplan_yorke_dimension():
    assert kaplan_yorke(np.array([-1.0, -2.0])) == 0
    assert kaplan_yorke(np.array([0.5, -1.0, -3.0])) == pytest.approx(1.5)
    assert kaplan_yorke(np.array([1.0, -0.5, -2.0])) == pytest.approx(2.25)
    assert kaplan_yorke(np.array([1.0, -0.5])) == 2


def test_more_exponents_than_directions_are_refused():
    with pytest.raises(SphereflowError, match="count"):
        lyapunov_spectrum("relu", 3, count=3)
