"""The dependence of limits on all starts, against differences of runs of the package's own flow and a case by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.evolution import context_dependence

VALUE = np.array([[1.0, 0.4], [0.2, -0.3]])
QUERY = np.array([[1.2, 0.3], [-0.2, 0.8], [0.1, 0.5]])
KEY = np.array([[1.0, 0.0], [0.3, 0.9], [0.0, 0.2]])


def test_it_is_the_derivative_of_runs():
    x0 = np.random.default_rng(2).uniform(-1, 1, (5, 2))
    found = context_dependence(x0, 3.0, QUERY, KEY, VALUE)
    rate = np.linalg.eigvals(VALUE).real.max()
    assert found.limit.eigenvalues[0] == pytest.approx(rate)
    model = sf.EuclideanAttention(VALUE, query=QUERY, key=KEY)

    def coordinate(x):
        run = sf.evolve(model, x, saveat=(0.0, 3.0), tol=1e-12)
        return np.asarray(run.final) @ found.limit.coordinates.T * np.exp(-3.0 * rate)

    np.testing.assert_allclose(found.c, coordinate(x0), atol=1e-8)
    for j, b in ((0, 1), (3, 0)):
        step = np.zeros_like(x0)
        step[j, b] = 1e-4
        difference = (coordinate(x0 + step) - coordinate(x0 - step)) / 2e-4
        np.testing.assert_allclose(found.jacobian[:, :, j, b], difference, atol=1e-6)
    x = jnp.asarray(sf.evolve(model, x0, saveat=(0.0, 3.0), tol=1e-12).final)
    np.testing.assert_allclose(found.attention, np.asarray(model.attention_matrix(0.0, x)), atol=1e-6)


def test_one_token_depends_on_itself_alone_and_two_far_ones_lead():
    """z of a single token stands still; two opposite large tokens attend to themselves at once."""
    alone = context_dependence([[0.5, -0.2]], 2.0)
    np.testing.assert_allclose(alone.jacobian[0, :, 0], alone.limit.coordinates, atol=1e-7)
    assert alone.share == 0
    pair = context_dependence([[5.0], [-5.0], [4.0]], 6.0, V=[[1.0]])
    assert pair.leaders == (0, 1)
    np.testing.assert_allclose(np.abs(pair.jacobian[:, 0, :, 0]), [[1, 0, 0], [0, 1, 0], [1, 0, 0]], atol=0.02)
    assert "2 leaders" in repr(pair)


@pytest.mark.parametrize(
    ("told", "call"),
    [
        ("x0 has d=2", lambda: context_dependence(np.ones((3, 2)), V=np.eye(3))),
        ("x0", lambda: context_dependence(np.ones(3))),
        ("t1 must be", lambda: context_dependence(np.ones((3, 2)), 0.0)),
        ("no limit of rescaled tokens", lambda: context_dependence(np.ones((3, 2)), V=-np.eye(2))),
    ],
)
def test_refusals(told, call):
    with pytest.raises(SphereflowError, match=told):
        call()
