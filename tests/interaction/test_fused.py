"""The fused GPU kernels against the direct sum in float64; they run where there is a GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow import draw
from sphereflow.interaction import attend
from sphereflow.interaction.fused import supported


def test_only_single_precision_and_moderate_dimension_are_fused():
    x = jnp.zeros((4, 3), jnp.float32)
    assert supported(x, jnp.zeros((4, 4), jnp.float32))
    assert not supported(x.astype(jnp.float64), jnp.zeros((4, 4)))
    assert not supported(jnp.zeros((4, 512), jnp.float32), jnp.zeros((4, 513), jnp.float32))


@pytest.mark.gpu
@pytest.mark.parametrize("d", [2, 3, 8, 9, 64, 128, 200])
@pytest.mark.parametrize("n", [9_000, 16_384])
@pytest.mark.parametrize("beta", [0.0, 10.0, 100.0])
def test_fused_kernels_agree_with_float64(d, n, beta):
    from sphereflow.interaction.fused import fused_sums

    x = draw("uniform", n, d, 1)
    weights = jax.random.uniform(jax.random.key(0), (n,)) / n
    columns = jnp.concatenate([weights[:, None] * x, weights[:, None]], axis=1)
    single = jax.jit(fused_sums)(x.astype(jnp.float32), columns.astype(jnp.float32), jnp.float32(beta))
    rows = np.arange(0, n, 97)
    kernel = np.exp(beta * (np.asarray(x)[rows] @ np.asarray(x).T - 1))
    exact = kernel @ np.asarray(columns)
    # Rounding: of the score (d products), multiplied by beta in the exponent, and of n / 32 additions in a row; errors
    # add up like a random walk, and four standard deviations are allowed.
    slack = 4 * (np.sqrt(n / 32) + (1 + beta) * np.sqrt(d)) * 2**-24 * (kernel @ np.abs(np.asarray(columns))) + 1e-12
    assert (np.abs(np.asarray(single)[rows] - exact) < slack).all()


@pytest.mark.gpu
def test_attend_uses_the_same_numbers_with_and_without_the_fused_kernel():
    x = draw("uniform", 20_000, 3, 2).astype(jnp.float32)
    fused = attend(x, x, x, 9.0, self_attention=True)
    plain = attend(x, x + 0, x, 9.0)
    np.testing.assert_allclose(fused.average, plain.average, atol=2e-5)
    np.testing.assert_allclose(fused.log_partition, plain.log_partition, atol=2e-5)
