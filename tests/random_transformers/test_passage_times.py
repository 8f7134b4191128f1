"""The time of collapse as a random variable, against plain paths of its equation and closed forms."""

import numpy as np
import pytest

from sphereflow import random_transformers
from sphereflow.errors import SphereflowError
from sphereflow.random_transformers.passage_times import (
    first_passage_moments,
    passage_of_few,
    passage_of_many,
    starting_overlaps,
)


def simulated(speed, variance, start, end, h, paths=4000, seed=0):
    """Mean and deviation of first passages by plain Euler steps, watched after every step."""
    rng, z = np.random.default_rng(seed), np.full(paths, start)
    time, running = np.zeros(paths), np.ones(paths, bool)
    # Steps overshoot a barrier by 0.5826 standard deviations of a step: it is put nearer by that (Siegmund).
    while running.any():
        z = np.where(running, z + h * speed(z) + np.sqrt(h * variance(z)) * rng.standard_normal(paths), z)
        time += h * running
        running &= z < end - 0.5826 * np.sqrt(h * variance(np.full(1, end)))
    return time.mean(), time.std(), time.std() / np.sqrt(paths)


def test_brownian_motion_with_drift():
    """E T = a/v, Var T = a q/v^3 for the distance a, with the reflecting end far away."""
    z = np.linspace(-12, 0, 2401)
    for v, q in ((1.0, 0.5), (0.7, 1e-7)):
        mean, variance = first_passage_moments(z, np.full(z.shape, v), np.full(z.shape, q))
        k = np.searchsorted(z, -2.0)
        assert mean[k] == pytest.approx(-z[k] / v, rel=1e-3)
        assert variance[k] == pytest.approx(-z[k] * q / v**3, rel=1e-2)


def test_few_tokens_at_infinite_temperature():
    """dy = (1 - (4 - 3m)/d) dtau + 2/sqrt(d) dB, up to 1/(nd)."""
    n, d = 16, 24
    found = passage_of_few(n, d, 0.0, 0.5, np.array([1 / n]))
    mean, deviation, error = simulated(
        lambda y: 1 - (4 - 3 / (1 + np.exp(-y))) / d, lambda y: 4 / d + 0 * y, -np.log(n - 1), 0.0, 0.01
    )
    assert found[0] == pytest.approx(mean, abs=5 * error + 4 / (n * d))
    assert found[1] == pytest.approx(deviation, rel=0.08)
    assert abs(found[0] - np.log(n - 1)) > 10 * error  # the noiseless time of infinite dimension would be noticed


def test_many_tokens():
    """The equation of rho in dimension 3, where psi = coth(rho) - rho/sinh(rho)^2."""
    d, n = 3, 100

    def mean_overlap(rho):
        return (1 / np.tanh(rho) - rho / np.sinh(rho) ** 2) ** 2

    m0 = starting_overlaps(n, d)
    rho = np.linspace(1e-3, 4, 40_000)
    start = np.interp(m0, mean_overlap(rho), rho)
    end = float(np.interp(0.5, mean_overlap(rho), rho))
    averages = []
    for k, each in enumerate(start[50::100]):
        averages.append(
            simulated(
                lambda r: (d - 1) * mean_overlap(r) / (2 * d) / np.tanh(r),
                lambda r: mean_overlap(r) / d,
                each,
                end,
                0.06,
                paths=300,
                seed=k,
            )[0]
        )
    assert passage_of_many(n, d)[0] == pytest.approx(np.mean(averages), rel=0.12)


def test_starts_are_those_of_independent_tokens():
    x = np.random.default_rng(0).standard_normal((4000, 5, 8))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    m = np.sum(x.mean(axis=1) ** 2, axis=-1)
    known = starting_overlaps(5, 8)
    assert known.mean() == pytest.approx(m.mean(), rel=0.02)
    assert known.std() == pytest.approx(m.std(), rel=0.06)


def test_cold_attention_delays_and_spreads():
    flat, cold, frozen = (passage_of_few(16, 32, s) for s in (0.0, 8.0, np.inf))
    assert flat[0] < cold[0] < frozen[0]
    assert flat[1] < cold[1]


def test_the_verb_names_the_regime_and_counts_in_layers():
    wide = random_transformers.Architecture(d=64, n=16, layers=400, heads=2, step=0.1, beta=0.0)
    found = random_transformers.collapse_time(wide)
    assert found.layers == pytest.approx(200 * found.time)
    assert (found.attention, found.tokens) == ("flat", "few")
    assert found.time == pytest.approx(np.log(15) / (1 - 4 / 64), rel=0.03)
    crowd = random_transformers.Architecture(d=8, n=64, layers=10, heads=1, step=0.1, beta=0.1)
    assert random_transformers.collapse_time(crowd).tokens == "many"


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({"d": 4}, 0.5, "d of at least 8"),
        ({"n": 40, "beta": 2.0}, 0.5, "flat attention only"),
        ({}, 0.01, "level must be"),
        ({}, 1.0, "level must be"),
    ],
)
def test_refusals(change, level, words):
    given = {"d": 8, "n": 4, "layers": 10, "heads": 1, "step": 0.1, "beta": 1.0} | change
    with pytest.raises(SphereflowError, match=words):
        random_transformers.collapse_time(random_transformers.Architecture(**given), level)
