"""The attention matrix is that of the model: its kernel, masks, masses and matrices."""

import jax.numpy as jnp
import numpy as np

import sphereflow as sf
from sphereflow.observables import attention_matrix


def test_a_kernel_of_ones_own_is_in_the_matrix():
    x, w = np.asarray(sf.draw("uniform", 5, 3, 0)), np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    query = np.diag([1.0, 2.0, 0.5])
    model = sf.SA(2.0, kernel=lambda s, beta: 1 + beta * s**2, weights=w, query=query, causal=True)
    plain = w * (1 + 2.0 * (x @ query.T @ x.T) ** 2) * np.tri(5)
    found = attention_matrix(model, jnp.asarray(x))
    np.testing.assert_allclose(found[0], plain / plain.sum(axis=1, keepdims=True), atol=1e-14)
    # What moves the tokens is that matrix.
    np.testing.assert_allclose(model.pull(jnp.asarray(x)), found[0] @ x, atol=1e-14)
