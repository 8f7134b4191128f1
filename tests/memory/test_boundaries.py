"""Boundaries drawn in law, and tempered stored patterns, against closed forms and plain integration."""

import numpy as np
import pytest
from scipy.special import gammaln, ive

from sphereflow.errors import SphereflowError
from sphereflow.memory import REFERENCE_B, boundary, equilibrium_share, temper


def log_moment(n, k):
    """ln E exp(k phi) for one overlap, by the Bessel function."""
    return gammaln(n / 2) + (n / 2 - 1) * np.log(2 / k) + np.log(ive(n / 2 - 1, k)) + k


def test_a_cold_boundary_is_where_single_patterns_carry_half_of_the_mean():
    found = boundary("lse", 1.0, temperature=0.5, sizes=(150, 200), states=60, repeats=3)
    exact = [(log_moment(n, 2.0 * n) - 2 * log_moment(n, 1.0 * n)) / n for n in (150, 200)]
    np.testing.assert_allclose(found.load.value, exact, atol=3e-4)
    assert found.line == pytest.approx(0.336390, abs=1e-6)


def test_a_share_is_that_of_the_closed_form():
    n, alpha = 200, 0.335
    odds = np.exp(alpha * n + 2 * log_moment(n, 1.0 * n) - log_moment(n, 2.0 * n))
    found = equilibrium_share(n, alpha, 0.5, states=400, repeats=4)
    assert float(found.value) == pytest.approx(1 / (1 + odds), abs=0.02)


def test_in_a_hot_bath_the_law_of_one_overlap_decides():
    n, t = 100, 2.0
    found = boundary("lse", 1.0, temperature=t, sizes=(n, 200), states=100, repeats=4)
    phi = np.linspace(-1, 1, 40_001)[1:-1]
    law = np.exp((n - 3) / 2 * np.log1p(-(phi**2)) + n * (phi - 1) / t)
    one = np.exp((n - 3) / 2 * np.log1p(-(phi**2)))
    tail = np.cumsum((one / one.sum())[::-1])[::-1]
    patterns = np.exp(n * found.load.value[0])
    kept = np.sum(law * (1 - tail) ** patterns) / law.sum()
    assert kept == pytest.approx(0.5, abs=0.03)


def integrated(patterns, kernel, temperature, count=400_000):
    """Largest overlap and share of single patterns by plain integration over uniform points."""
    n = patterns.shape[1]
    x = np.random.default_rng(9).standard_normal((count, n))
    phi = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (patterns / np.linalg.norm(patterns, axis=1)[:, None]).T
    if kernel == "lse":
        k, power = np.exp(n * (phi - 1)), 1 / temperature
    else:
        k, power = np.maximum(1 - REFERENCE_B * (1 - phi), 0), n / (REFERENCE_B * temperature)
    weight = k.sum(axis=1) ** power
    one = (k > 0).sum(axis=1) == 1
    return weight @ phi.max(axis=1) / weight.sum(), (k**power).sum() / weight.sum(), weight @ one / weight.sum()


@pytest.mark.parametrize(("kernel", "temperature"), [("lse", 0.4), ("lse", 3.0), ("lsr", 0.7)])
def test_tempered_patterns_have_their_equilibrium(kernel, temperature):
    patterns = np.random.default_rng(2).standard_normal((5, 5))
    sharpness = 1.0 if kernel == "lse" else REFERENCE_B
    found = temper(patterns, kernel, sharpness, temperature=temperature, repeats=300, steps=120, seed=1)
    exact = integrated(patterns, kernel, temperature)
    for value, wanted in zip((found.overlap, found.alone, found.single), exact, strict=True):
        assert abs(float(value.value) - wanted) < 5 * float(value.error) + 0.004
    assert found.swaps.min(initial=1) > 0.2
    np.testing.assert_allclose(np.linalg.norm(found.states, axis=1), np.sqrt(5))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"sizes": (50,)}, "at least two sizes"),
        ({"sizes": (50, 3)}, "sizes"),
        ({"states": 0}, "states"),
        ({"repeats": 1}, "repeats"),
        ({"kernel": "rbf"}, "kernel"),
        ({"sharpness": -1.0}, "beta"),
        ({"temperature": 0.9, "sizes": (10, 12)}, "larger"),
    ],
)
def test_boundary_refuses(change, words):
    with pytest.raises(SphereflowError, match=words):
        boundary(**({"temperature": 0.5, "sizes": (50, 60), "states": 20, "repeats": 2} | change))


@pytest.mark.parametrize(
    ("patterns", "change", "words"),
    [
        (np.zeros((2, 5)), {}, "other than zero"),
        (np.ones((2, 3)), {}, "at least 4 dimensions"),
        (np.ones(5), {}, "patterns"),
        (np.full((2, 5), np.nan), {}, "NaN"),
        (np.ones((2, 5)), {"temperature": -1.0}, "temperature"),
        (np.ones((2, 5)), {"repeats": 1}, "repeats"),
        (np.ones((2, 5)), {"steps": 1}, "steps"),
    ],
)
def test_temper_refuses(patterns, change, words):
    with pytest.raises(SphereflowError, match=words):
        temper(patterns, **({"temperature": 0.5} | change))
