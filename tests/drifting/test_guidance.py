"""Guidance against loops, and without guidance the plain field."""

import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.drifting import GuidedField, PopulationField
from sphereflow.errors import SphereflowError

RNG = np.random.default_rng(3)
DATA, SAMPLES, OTHERS = (RNG.normal(size=(n, 2)) for n in (7, 5, 4))


def by_loops(scale, masked):
    """The drift of every sample, negatives weighing (scale - 1) (number of other samples) / (number of negatives)."""
    found = []
    for i, x in enumerate(SAMPLES):
        pull, push, mass, pushed = np.zeros(2), np.zeros(2), 0.0, 0.0
        for y in DATA:
            k = np.exp(-np.linalg.norm(x - y) / 0.6)
            pull, mass = pull + k * y, mass + k
        for j, z in enumerate(SAMPLES):
            k = 0.0 if masked and i == j else np.exp(-np.linalg.norm(x - z) / 0.6)
            push, pushed = push + k * z, pushed + k
        for u in OTHERS:
            k = (scale - 1) * (len(SAMPLES) - masked) / len(OTHERS) * np.exp(-np.linalg.norm(x - u) / 0.6)
            push, pushed = push + k * u, pushed + k
        found.append(pull / mass - push / pushed)
    return np.array(found)


@pytest.mark.parametrize("itself", ["include", "mask"])
def test_negatives_push_with_their_weight(itself):
    plain = PopulationField("laplace", 0.6, itself=itself)
    data, samples = jnp.asarray(DATA), jnp.asarray(SAMPLES)
    for scale in (1.0, 1.7):
        found = GuidedField(plain, OTHERS, scale=scale)(data, samples).value
        np.testing.assert_allclose(found, by_loops(scale, itself == "mask"), atol=1e-12)
    np.testing.assert_allclose(GuidedField(plain, OTHERS, scale=1.0)(data, samples).value, plain(data, samples).value)


def test_bad_guidance_is_named():
    plain = PopulationField("laplace", 0.6, itself="include")
    for scale in (0.5, np.nan):
        with pytest.raises(SphereflowError, match="scale"):
            GuidedField(plain, OTHERS, scale=scale)
    with pytest.raises(SphereflowError, match="negatives"):
        GuidedField(plain, np.zeros((0, 2)), scale=1.5)
    with pytest.raises(SphereflowError, match="dimension of the samples"):
        GuidedField(plain, np.zeros((3, 1)), scale=1.5)(jnp.asarray(DATA), jnp.asarray(SAMPLES))
