"""Certificates: constants, which starts have one, and that they keep their word."""

import math

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.metastability import certify, circle_separated, first_exit


def circle(theta):
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


CENTRES = 2 * np.pi * np.arange(3) / 3
NINE = circle((CENTRES[:, None] + np.array([-0.08, 0.01, 0.07])).ravel())


def test_the_constants_of_three_caps():
    found = certify(NINE, 60, 0.004, centres=circle(CENTRES))
    assert found.alpha == pytest.approx(-0.2671628, abs=5e-8)
    assert found.T1_bound(0.3) == pytest.approx(570.60267, abs=5e-6)
    assert math.exp(found.log_T2) == pytest.approx(4.6465e29, rel=1e-5)
    assert "3 caps" in repr(found)
    with pytest.raises(SphereflowError, match="lambda"):
        found.T1_bound(2.0)


@pytest.mark.parametrize("each", [1, 2])
def test_where_lambda_ends_the_two_times_meet(each):
    """The first condition on lambda says exactly that the bound on T1 lies below T2."""
    found = certify(np.repeat(circle(CENTRES), each, axis=0), 8, 0.003)
    n, alpha = 3 * each, np.cos(2 * np.pi / 3 - 2 * np.arccos(1 - 2 * 0.003))
    late = 0.003 / n * np.exp((1 - alpha) * 8)
    early = 2 * n * np.exp(8 * 0.003 * 8) + np.e * n * found.lambda_max * 8**2 / (8 - 1)
    assert math.exp(found.log_T2) == pytest.approx(late, rel=1e-12)
    assert early == pytest.approx(late, rel=1e-12)


@pytest.mark.parametrize(
    ("beta", "epsilon", "x", "word"),
    [
        (60, 0.07, NINE, "1/16"),
        (0.5, 0.004, NINE, "exceed 1"),
        (60, 0.001, NINE, "spans"),
        (60, 0.004, circle(np.linspace(0, 2 * np.pi, 30, endpoint=False)), "chain"),
        (3, 0.004, NINE, "too small"),
    ],
)
def test_the_reason_is_given(beta, epsilon, x, word):
    found = certify(x, beta, epsilon)
    assert not found.separated
    assert word in found.reason
    with pytest.raises(SphereflowError, match="no certificate"):
        found.T1_bound()


def test_caps_are_found_in_any_dimension():
    rng = np.random.default_rng(1)
    centres = np.eye(6)[:4]
    x = np.repeat(centres, 5, axis=0) + 0.01 * rng.normal(size=(20, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = certify(x, 60.0)
    assert found.separated
    assert len(found.centres) == 4
    assert np.array_equal(found.labels, np.repeat(np.arange(4), 5))
    assert found.height(x) > 0


def brute_force(theta, beta, epsilon, grid=720):
    """Whether centres exist, by trying all of them on a grid (small n, at most two caps)."""
    n = len(theta)
    a = math.acos(1 - epsilon)
    level = 1 - 8 * epsilon - math.log(2 * n**2 / epsilon) / beta
    if level <= -1:
        return False
    apart = 2 * math.acos(1 - 2 * epsilon) + math.acos(level)
    candidates = np.linspace(0, 2 * np.pi, grid, endpoint=False)
    wrapped = np.abs((theta[None] - candidates[:, None] + np.pi) % (2 * np.pi) - np.pi)
    inside = wrapped <= a
    if level > 0 and inside.all(axis=1).any():
        return True
    gaps = np.abs((candidates[None] - candidates[:, None] + np.pi) % (2 * np.pi) - np.pi)
    far = gaps >= apart
    covers = (inside[:, None, :] | inside[None, :, :]).all(axis=-1)
    return bool((far & covers).any())


@pytest.mark.slow
def test_the_circle_procedure_agrees_with_trying_all_centres():
    rng = np.random.default_rng(0)
    starts = rng.uniform(0, 2 * np.pi, size=(150, 2))
    starts = np.concatenate([starts, starts + rng.uniform(-0.2, 0.2, size=starts.shape)], axis=1)
    exact = circle_separated(starts, 60.0, 0.01)
    tried = np.array([brute_force(theta, 60.0, 0.01) for theta in starts])
    # A grid can miss a start that fits by less than its mesh; it can never find one that does not fit.
    assert not np.any(tried & ~exact)
    assert np.mean(exact != tried) < 0.05
    assert 10 < exact.sum() < 140


def test_the_first_exit_is_not_before_T2_and_is_where_the_cap_ends():
    x = circle(np.array([0.0, 0.02, 1.5, 1.53, 3.4]))
    found = certify(x, 80.0)
    for kind in ("sa", "usa"):
        assert first_exit(found, kind, x) > found.log_T2
    symmetric = certify(NINE, 60, 0.004, centres=circle(CENTRES))
    assert first_exit(symmetric, "sa", NINE) == math.inf


def test_the_first_exit_of_coinciding_tokens_is_that_of_tokens_close_by():
    theta = np.array([0.0, 2.0, 4.1])
    together, near = (np.repeat(theta, 3) + spread * np.tile([-1.0, 0.0, 1.0], 3) for spread in (0.0, 1e-3))
    circle = lambda a: np.stack([np.cos(a), np.sin(a)], axis=1)  # noqa: E731
    found = certify(circle(near), 100.0, (1 - math.cos(0.1)) / 2, centres=circle(theta))
    for kind in ("sa", "usa"):
        times = [first_exit(found, kind, circle(a)) for a in (together, near)]
        assert times[0] == pytest.approx(times[1], abs=1e-4)


@pytest.mark.parametrize(
    ("angles", "epsilon", "word"),
    [([[0.0, np.nan]], 0.1, "angles must be finite"), ([[0.0, 1.0]], -1.0, "epsilon must")],
)
def test_starts_that_are_no_numbers_are_not_separated_but_refused(angles, epsilon, word):
    with pytest.raises(SphereflowError, match=word):
        circle_separated(np.array(angles), 50.0, epsilon)
