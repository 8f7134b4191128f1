"""Lines of both layers against direct minimisation and against each other."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from sphereflow.errors import SphereflowError
from sphereflow.memory import compact, gaussian, overlaps, spherical, state
from sphereflow.memory.lines import named_lines

B = state.REFERENCE_B
T = np.array([0.02, 0.1, 0.4, 1.0, 3.0])


@pytest.mark.parametrize("beta", [0.3, 1.0, 5.0])
def test_g_max_is_the_maximum(beta):
    found = minimize_scalar(
        lambda p: -(np.log1p(-p * p) / 2 + beta * p), bounds=(0, 1), method="bounded", options={"xatol": 1e-12}
    )
    assert float(spherical.g_max(beta)) == pytest.approx(-found.fun, abs=1e-12)
    assert float(spherical.saddle(beta)) == pytest.approx(found.x, abs=1e-6)
    step = 1e-6
    slope = (spherical.g_max(beta + step) - spherical.g_max(beta - step)) / (2 * step)
    assert float(slope) == pytest.approx(float(spherical.saddle(beta)), abs=1e-8)


def test_retrieval_states_are_stationary():
    for t in T:
        phi = state.lse_overlap(t)
        assert -1 + t * phi / (1 - phi**2) == pytest.approx(0, abs=1e-12)
        phi = state.lsr_overlap(t, B)
        assert -1 / (1 - B * (1 - phi)) + t * phi / (1 - phi**2) == pytest.approx(0, abs=1e-10)
    np.testing.assert_allclose(state.lsr_overlap(T, 1.0), 1 / np.sqrt(1 + T), rtol=1e-12)
    assert float(state.lse_free_energy(0.0)) == 0
    assert float(state.lsr_free_energy(0.0, B)) == 0


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_lines_satisfy_their_equations(beta):
    """f_ret = u_noise on the line of equal depth, f_ret - alpha T = u_noise on the static one, at every branch."""
    free = state.lse_free_energy(T)
    reachable = free < 1
    ed = spherical.equal_depth(T, beta)
    np.testing.assert_allclose((1 - spherical.noise_overlap(ed, beta))[reachable], free[reachable], atol=1e-12)
    sp = spherical.spinodal(T, beta)
    np.testing.assert_allclose(spherical.noise_overlap(sp, beta), state.lse_overlap(T), atol=1e-12)
    cold = T[1 / beta > T]
    union = spherical.static(cold, beta)
    assert (union >= spherical.load_switch(beta) - 1e-12).all()
    np.testing.assert_allclose(
        state.lse_free_energy(cold) - union * cold, 1 - spherical.noise_overlap(union, beta), atol=1e-12
    )


def test_gaussian_lines_satisfy_the_published_criterion():
    for beta in (0.4, 1.0, 3.0):
        line = gaussian.lse_line(T[:4], beta)
        np.testing.assert_allclose(gaussian.lse_noise_floor(line, beta), state.lse_free_energy(T[:4]), atol=1e-12)
    np.testing.assert_allclose(
        gaussian.lsr_noise_floor(gaussian.lsr_line(T, B), B), state.lsr_free_energy(T, B), atol=1e-10
    )


def test_gaussian_is_the_small_load_limit_of_spherical():
    t = 30.0  # f_ret close to 1, loads close to 0
    assert float(spherical.equal_depth(t, 1.0)) == pytest.approx(float(gaussian.lse_line(t, 1.0)), rel=1e-3)


def test_printed_line_has_a_second_root():
    def square(t):
        return float(1 - state.lsr_free_energy(t, B)) ** 2 / 2 - gaussian.lsr_threshold(B)

    assert brentq(square, 2, 4) == pytest.approx(2.8007, abs=1e-4)
    assert gaussian.lsr_published_end(B) < 0.22
    assert np.isnan(gaussian.lsr_line_as_published(1.0, B))
    assert float(gaussian.lsr_line(1e6, B)) == pytest.approx(gaussian.lsr_threshold(B), abs=1e-6)


def test_capacity_limits():
    assert float(spherical.capacity(1e-4)) == pytest.approx(1e-4, rel=1e-3)
    assert float(spherical.capacity(1e8)) == pytest.approx(np.log(1e8) / 2 + 0.5, abs=1e-7)
    assert spherical.finite_capacity(10_000, 1.0) == pytest.approx(
        float(spherical.capacity(1.0) + np.log1p(-(spherical.saddle(1.0) ** 4)) / 2e4), abs=1e-8
    )


def test_escape_exponent_vanishes_at_the_threshold_and_is_infinite_when_out_of_reach():
    assert compact.escape_exponent(0.01, 0.1, B) == np.inf
    inside = [compact.escape_exponent(a, 0.5, B) for a in (0.1, 0.2, 0.3)]
    assert inside[0] > inside[1] > inside[2] > 0
    assert compact.escape_exponent(0.3465, 1e6, B) == pytest.approx(0, abs=2e-3)
    assert compact.barrier(0.99, 0.5, B) == 0


def test_centroid_needs_touching_caps():
    assert np.isnan(compact.centroid_overlap(0.1, -0.1, B))
    assert compact.centroid_overlap(0.0, 0.5, B) == pytest.approx(np.sqrt(0.75))


def test_named_lines_name_their_layer():
    for kernel, sharpness in (("lse", 1.0), ("lsr", B)):
        lines = named_lines(kernel, sharpness, T, (50,))
        assert {line.layer for line in lines} == {"gaussian", "spherical"}
        assert len({line.name for line in lines}) == len(lines)
        assert all(line.loads.shape == T.shape for line in lines)
    with pytest.raises(SphereflowError, match="must be one of lse, lsr"):
        named_lines("cosine", 1.0, T)
    with pytest.raises(SphereflowError, match="above 1"):
        named_lines("lsr", 0.9, T)


def test_the_barrier_is_the_share_of_the_shell_inside_a_neighbours_cap():
    """x = phi xi + sqrt(1 - phi^2) u with u uniform across xi: a tail of the overlap of u with one direction."""
    n, temperature = 10**6, 0.5
    phi, c = float(state.lsr_overlap(temperature, B)), state.support_edge(B)
    for rho in (0.3, 0.5, 0.7):
        needed = (c - phi * rho) / np.sqrt((1 - phi**2) * (1 - rho**2))
        exact = -float(overlaps.log_tail(needed, n)) / n if 0 < needed < 1 else (np.inf if needed >= 1 else 0.0)
        assert float(compact.barrier(rho, temperature, B)) == pytest.approx(exact, abs=2e-5)


def test_caps_touch_at_twice_their_opening():
    rho = np.cos(2 * np.arccos(state.support_edge(B)))
    assert compact.touching(B) == pytest.approx(rho, abs=1e-14)
    assert np.isnan(compact.centroid_overlap(0.1, rho - 1e-6, B))
    assert compact.centroid_overlap(0.1, rho + 1e-6, B) >= state.support_edge(B)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: spherical.capacity(-1.0), "beta must be at least 0"),
        (lambda: spherical.extreme_overlap(np.array([0.1, -1.0])), "alpha must be at least 0"),
        (lambda: spherical.noise_overlap(0.1, 0.0), "beta must be"),
        (lambda: spherical.noise_overlap(float("nan"), 1.0), "alpha must be finite"),
        (lambda: spherical.spinodal(-1.0, 1.0), "temperature must be at least 0"),
        (lambda: state.lse_overlap(-1.0), "temperature must be at least 0"),  # an overlap of 1.6
        (lambda: state.lsr_overlap(0.1, -1.0), "b must be"),
        (lambda: state.support_edge(0.0), "b must be"),
    ],
)
def test_loads_temperatures_and_widths_below_zero_are_refused(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()
