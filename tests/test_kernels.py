"""The exponential kernel: conventions and the uniform mean."""

import numpy as np
import pytest
from scipy import integrate

from sphereflow import kernels, sphere


@pytest.mark.parametrize("beta", [0.0, 1.0, 1e6])
def test_peak_kernel_is_bounded_by_one(beta):
    values = np.asarray(kernels.peak(np.linspace(-1, 1, 11), beta))
    assert np.isfinite(values).all()
    assert values.max() == 1.0


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0, 60.0])
def test_uniform_mean_equals_polar_quadrature_and_monte_carlo(d, beta):
    weight = integrate.quad(lambda a: np.sin(a) ** (d - 2), 0, np.pi)[0]
    polar = integrate.quad(lambda a: np.exp(beta * (np.cos(a) - 1)) * np.sin(a) ** (d - 2), 0, np.pi, epsabs=1e-14)[0]
    assert kernels.uniform_mean(d, beta) == pytest.approx(polar / weight, rel=1e-10)
    draws = np.exp(beta * (np.asarray(sphere.draw("uniform", 40_000, d, seed=2))[:, 0] - 1))
    assert abs(draws.mean() - kernels.uniform_mean(d, beta)) <= 4 * draws.std() / 200 + 1e-15


def test_raw_is_peak_times_e_to_the_beta():
    assert kernels.log_scale(3.0, "raw") == 3.0
    assert kernels.log_scale(3.0, "peak") == 0.0
