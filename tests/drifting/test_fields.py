"""Drift fields against loops, in blocks, with weights, and with input that cannot be used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.drifting import (
    Friction,
    MultiRadiusField,
    PopulationField,
    TwoSidedField,
    UnnormalisedField,
    fields,
    gaussian_step,
)
from sphereflow.drifting.radial import squared_distances
from sphereflow.errors import SphereflowError

RNG = np.random.default_rng(8)
DATA, SAMPLES = jnp.asarray(RNG.normal(size=(30, 3))), jnp.asarray(RNG.normal(size=(17, 3)))
FIELDS = [
    PopulationField("laplace", 0.7, itself="mask"),
    PopulationField("gaussian", 0.7, itself="include"),
    UnnormalisedField("laplace", 0.7),
    TwoSidedField(width=0.7),
]


@pytest.mark.fast_cases("PopulationFieldmask", "TwoSidedField")
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: type(field).__name__ + getattr(field, "itself", ""))
def test_blocks_change_nothing(field, monkeypatch):
    whole = field(DATA, SAMPLES)
    monkeypatch.setattr(fields, "_BLOCK_ENTRIES", 5 * 47)  # five rows at a time, the last block not full
    jax.clear_caches()
    for a, b in zip(whole, field(DATA, SAMPLES), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("widths", [0, 120])
def test_single_precision_agrees_with_double(widths):
    """A sample 120 widths from everything has sums that are zero in float32: it is not blind for that."""
    samples = SAMPLES.at[0].add(widths * 0.7 / np.sqrt(3))
    exact = TwoSidedField(width=0.7)(DATA, samples)
    found = TwoSidedField(width=0.7)(DATA.astype(jnp.float32), samples.astype(jnp.float32))
    assert found.value.dtype == jnp.float32
    np.testing.assert_allclose(found.value, exact.value, atol=1e-5)
    np.testing.assert_allclose(found.effective_sample_size[1:], exact.effective_sample_size[1:], rtol=1e-4)
    assert not np.any(found.blind)
    assert not np.any(exact.blind)


def test_unnormalised_field_entry_by_entry():
    x, y = np.asarray(SAMPLES), np.asarray(DATA)
    expected = np.zeros_like(x)
    for i in range(len(x)):
        for target in y:
            expected[i] += np.exp(-np.linalg.norm(x[i] - target) / 0.7) * (target - x[i]) / len(y)
        for j in range(len(x)):
            if j != i:
                expected[i] -= np.exp(-np.linalg.norm(x[i] - x[j]) / 0.7) * (x[j] - x[i]) / (len(x) - 1)
    np.testing.assert_allclose(UnnormalisedField("laplace", 0.7)(DATA, SAMPLES).value, expected, atol=1e-14)


def test_weights_are_repeated_samples():
    """A point with weight 2 is the point twice."""
    field = PopulationField("laplace", 0.5, itself="include")
    twice = jnp.concatenate([DATA, DATA[:4]])
    weights = jnp.ones(30).at[:4].set(2.0)
    np.testing.assert_allclose(
        field.at(SAMPLES, twice, SAMPLES).value, field.at(SAMPLES, DATA, SAMPLES, weights).value, atol=1e-13
    )


@pytest.mark.parametrize("dimension", [2, 40])
def test_distances_far_from_the_origin_keep_their_digits(dimension):
    x = RNG.normal(size=(5, dimension))
    y = RNG.normal(size=(6, dimension))
    exact = np.sum((x[:, None] - y[None]) ** 2, axis=-1)
    found = squared_distances(jnp.asarray(x + 1e4), jnp.asarray(y + 1e4))
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_one_masked_sample_is_blind_and_stays():
    drift = PopulationField("laplace", 1.0, itself="mask")(DATA, SAMPLES[:1])
    assert bool(drift.blind[0])
    assert not np.any(drift.value)


def test_a_matched_cloud_hardly_drifts():
    """Two samples of one law: the drift is noise of the order of one over the root of what is heard."""
    rng = np.random.default_rng(1)
    data, samples = (jnp.asarray(rng.normal(size=(3000, 2))) for _ in range(2))
    drift = PopulationField("gaussian", 1.0, itself="include")(data, samples)
    assert float(jnp.sqrt(jnp.mean(drift.value**2))) < 5 / np.sqrt(float(jnp.mean(drift.effective_sample_size)))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: PopulationField("cauchy", 1.0, itself="mask"), "kernel"),
        (lambda: PopulationField("laplace", 0.0, itself="mask"), "width"),
        (lambda: PopulationField("laplace", 1.0, itself="perhaps"), "itself"),
        (lambda: UnnormalisedField()(DATA, SAMPLES[:1]), "two generated samples"),
        (lambda: MultiRadiusField(()), "radii"),
        (lambda: TwoSidedField(width=0.1)(DATA[:0], SAMPLES), "non-empty"),
        (lambda: Friction("sticky"), "friction"),
        (lambda: Friction("gain", 0.0, 1.0, 0), "horizon"),
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_data_that_are_not_numbers_are_seen_in_the_drift(bad):
    data = np.zeros((3, 2))
    data[1, 0] = bad
    found = PopulationField("laplace", 1.0, itself="include")(jnp.asarray(data), jnp.ones((2, 2)))
    assert np.isnan(np.asarray(found.value)).any()


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ((np.ones(3), np.eye(3)), "one dimension"),
        ((np.ones(2), -np.eye(2)), "no variance negative"),
        ((np.ones(2), np.array([[1.0, 0.5], [0.0, 1.0]])), "must be symmetric"),
    ],
)
def test_gaussian_laws_that_are_none_are_refused(other, word):
    with pytest.raises(SphereflowError, match=word):
        gaussian_step((np.zeros(2), np.eye(2)), other, 1.0, 0.1)
