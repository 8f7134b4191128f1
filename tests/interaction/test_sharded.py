"""Tokens split over eight devices: the same program, the same answer."""

import os
import subprocess
import sys

PROGRAM = """
import expansion_oracle as oracle, jax, jax.numpy as jnp, numpy as np
from attention_oracle import unit
from sphereflow.interaction import Causal, sharded
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.harmonic import SphereModes

mesh = sharded.token_mesh()
assert mesh.size == 8, mesh
rng = np.random.default_rng(0)
for d, expansion in ((2, CircleModes(70)), (3, SphereModes(50))):
    x = unit(rng, 160, d)
    far = x.copy()
    x[:, 0] = np.abs(x[:, 0]) + 1.5  # a cap, so that queries on the other side are far from all keys
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.exponential(size=160)
    keys, weights = sharded.spread(jnp.asarray(x), mesh), sharded.spread(jnp.asarray(w), mesh)
    run = jax.jit(lambda q, k, w: sharded.sharded_expansion(mesh, expansion, q, k, k, 30.0, weights=w))
    for queries, rescued in ((x, False), (far, True)):
        found = run(sharded.spread(jnp.asarray(queries), mesh), keys, weights)
        assert len(found.attended.average.sharding.device_set) == 8
        assert max(oracle.worst_errors(found.attended, *oracle.attention(queries, x, x, 30.0, w), x)) < 1e-9
        assert (int(found.recomputed) > 0) == rescued
    for mask, log_p in ((None, 0.0), (Causal(strict=True), oracle.causal(160, strict=True))):
        found = jax.jit(lambda k: sharded.sharded_direct(mesh, k, k, k, 30.0, mask=mask))(keys)
        assert max(oracle.worst_errors(found, *oracle.attention(x, x, x, 30.0, log_p=log_p), x)) < 1e-12
try:
    sharded.spread(jnp.ones((9, 2)), mesh)
except ValueError as error:
    assert "a multiple of 8" in str(error)
else:
    raise AssertionError("nine tokens over eight devices")
print("all equal")
"""


def test_eight_devices_agree_with_the_direct_sum():
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "all equal", done.stderr
