"""The Fourier kernels for NVIDIA GPUs: what they compute, in an interpreter; that they can be built; and on a GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow import draw
from sphereflow.interaction import Fourier, attend, fused, fused_circle

RNG = np.random.default_rng(0)
ANGLES = RNG.uniform(-np.pi, np.pi, 300)
VECTORS = 1.7 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)  # lengths do not matter
CHARGES = RNG.normal(size=(300, 3))
MODES = 20
WAVES = np.exp(1j * np.outer(np.arange(MODES + 1), ANGLES))


@pytest.mark.parametrize("tokens", [VECTORS, ANGLES], ids=["vectors", "angles"])
def test_moments_and_series_are_sums_over_waves(tokens):
    """A number of tokens that fills no tile, and groups of modes the last of which is not full."""
    for charges in (CHARGES, None):
        given = None if charges is None else jnp.asarray(charges)
        found = fused_circle.moments(jnp.asarray(tokens), given, MODES, interpret=True)
        exact = WAVES @ (np.ones((300, 1)) if charges is None else charges)
        np.testing.assert_allclose(found, np.stack([exact.real, exact.imag]), atol=1e-11)
    weighed = RNG.normal(size=(2, MODES + 1, 2))
    sums = np.einsum("kc,kn->cn", weighed[0], WAVES.real) + np.einsum("kc,kn->cn", weighed[1], WAVES.imag)
    np.testing.assert_allclose(
        fused_circle.series(jnp.asarray(tokens), jnp.asarray(weighed), interpret=True), sums, atol=1e-11
    )


def test_kernels_can_be_built_for_a_gpu_with_this_release_of_jax():
    """Pallas' way to Triton is deprecated: the day it goes, this fails, and docs/guides/gpu.md says what to do."""

    def everything(x, columns, single):
        weighed = fused_circle.moments(x, columns, 33)
        sums = jnp.concatenate([single, jnp.ones_like(single[:, :1])], axis=1)
        small = fused.fused_sums(single, sums, jnp.float32(9.0))
        large = fused.fused_sums(jnp.tile(single, 8), jnp.tile(sums, 8), jnp.float32(9.0))
        return fused_circle.series(x, weighed), small, large

    arrays = (jnp.zeros((4096, 2)), jnp.zeros((4096, 3)), jnp.zeros((4096, 2), jnp.float32))
    card = jax.sharding.AbstractDevice("NVIDIA H200", None, "gpu")  # newer releases ask which one it is for
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=card)):
        program = jax.jit(everything).trace(*arrays).lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("triton_kernel_call") >= 4 or program.count("xla.gpu.triton") >= 4


def test_without_triton_sums_are_done_in_plain_jax(monkeypatch):
    monkeypatch.setattr(fused, "find_spec", lambda name: None)
    fused.available.cache_clear()
    try:
        assert not fused_circle.supported(9, jnp.zeros((4, 2)), columns=3)
        assert not fused.supported(jnp.zeros((4, 3), jnp.float32), jnp.zeros((4, 4), jnp.float32))
    finally:
        fused.available.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [5_000, 300_000])
def test_sums_on_a_gpu_agree_with_all_pairs(n, dtype):
    x = draw("uniform", n, 2, 1).astype(dtype)
    rows = np.arange(0, n, n // 50)
    found = attend(x, x, x, 9.0, self_attention=True, method=Fourier(40, tol=1e-9))
    kernel = np.exp(9 * (np.asarray(x, float)[rows] @ np.asarray(x, float).T - 1))
    np.testing.assert_allclose(
        np.asarray(found.average)[rows],
        kernel @ np.asarray(x, float) / kernel.sum(axis=1, keepdims=True),
        atol=1e-9 if dtype == "float64" else 1e-6,
    )
