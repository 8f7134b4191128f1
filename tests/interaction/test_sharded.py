"""Tokens split over eight devices, and over two processes: the same program, the same answer."""

import os
import socket
import subprocess
import sys

import pytest

import sphereflow as sf
from sphereflow.interaction import Clustered, Fourier
from sphereflow.interaction.sharded import token_mesh

SUMS = """
import sys, expansion_oracle as oracle, jax, jax.numpy as jnp, numpy as np
from attention_oracle import unit
from sphereflow.interaction import DIRECT, Alibi, Causal, Fourier, Harmonic, Polynomial, Sharded, attend, sharded

mesh = sharded.token_mesh()
assert mesh.size == 8, mesh
n, rng = 160, np.random.default_rng(0)
masks = {
    "none": (None, 0.0),
    "strict": (Causal(strict=True), oracle.causal(n, strict=True)),
    "alibi": (Alibi(0.05), oracle.causal(n, slope=0.05)),
}
whole = sys.argv[1] == "all"
engines = ((2, Fourier(70)), (3, Harmonic(50)), (4, Polynomial(25)), (3, DIRECT))
for d, engine in engines if whole else engines[:1] + engines[3:]:
    beta = 3.0 if d == 4 else 30.0
    x = unit(rng, n, d)
    far = x.copy()
    x[:, 0] = np.abs(x[:, 0]) + 1.5  # a cap, so that queries on the other side are far from all keys
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.exponential(size=n)
    keys, weights = sharded.spread(jnp.asarray(x), mesh), sharded.spread(jnp.asarray(w), mesh)
    chosen = list(masks) if whole and engine in (DIRECT, Harmonic(50)) else ["none" if engine == DIRECT else "alibi"]
    for mask, log_p in map(masks.get, chosen):
        run = jax.jit(lambda q, k, w: attend(q, k, k, beta, weights=w, mask=mask, method=Sharded(engine, mesh)))
        for queries in (x, far) if mask is None else (x,):
            found = run(sharded.spread(jnp.asarray(queries), mesh), keys, weights)
            assert len(found.average.sharding.device_set) == 8
            assert max(oracle.worst_errors(found, *oracle.attention(queries, x, x, beta, w, log_p), x)) < 2e-9
try:
    sharded.spread(jnp.ones((9, 2)), mesh)
except ValueError as error:
    assert "a multiple of 8" in str(error)
else:
    raise AssertionError("nine tokens over eight devices")
print("all equal")
"""

# Every process makes the same calls, and compares with a run on one device.
RUNS = """
import sys, jax, numpy as np
if len(sys.argv) > 1:
    jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
import sphereflow as sf
from sphereflow.interaction import Adaptive

cases = [(3, "harmonic", None), (4, "polynomial", None), (2, "fourier", sf.Causal()), (3, "direct", sf.Causal())]
for d, method, mask in cases[2 if len(sys.argv) > 1 else 0 :]:
    model = sf.SA(0.8 if d == 4 else 4.0, mask=mask)
    x0 = np.asarray(sf.draw("uniform", 48, d, 0))
    many = sf.evolve(model, x0, 1.0, saveat=2, tol=1e-8, method=method, devices="all")
    assert many.devices == len(jax.devices()) > 1, many.devices
    assert many.engine == method
    one = sf.evolve(model, x0, 1.0, saveat=2, tol=1e-8, method=method, devices=[jax.local_devices()[0]])
    assert one.devices == 1
    assert np.abs(many.xs - one.xs).max() < 1e-10, (method, mask, np.abs(many.xs - one.xs).max())
model, x0 = sf.SA(4.0, engine=Adaptive()), np.asarray(sf.draw("uniform", 48, 3, 0))
assert sf.evolve(model, x0, 1.0, saveat=2, devices="all").engine == "direct"
print("all equal")
"""


def environment(devices):
    return {
        **os.environ,
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }


def started(program, devices, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment(devices), **pipes, text=True)


@pytest.mark.fast_cases("few")
@pytest.mark.parametrize("cases", ["few", "all"])
def test_sums_over_eight_devices_are_the_sums(cases):
    out, trouble = started(SUMS, 8, cases).communicate()
    assert out.strip() == "all equal", trouble


def test_what_is_not_summed_over_devices_is_not_said_to_be():
    """Sums through clusters are those of one device: over several every pair is summed, and the model says so."""
    model = sf.SA(4.0, engine=Clustered(4, tol=1e-6)).sharded(token_mesh())
    assert (model.engine_name, model.engine_error) == ("direct", 0.0)
    model = sf.SA(4.0, engine=Fourier(30, tol=1e-6)).sharded(token_mesh())
    assert (model.engine_name, model.engine_error) == ("fourier", 1e-6)


@pytest.mark.slow
def test_runs_on_eight_devices_are_runs_on_one():
    out, trouble = started(RUNS, 8).communicate()
    assert out.strip() == "all equal", trouble


@pytest.mark.slow
def test_runs_of_two_processes_are_runs_of_one():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        address = f"localhost:{probe.getsockname()[1]}"
    both = [started(RUNS, 2, address, str(number)) for number in (0, 1)]
    ends = [process.communicate() for process in both]
    assert all(out.splitlines()[-1:] == ["all equal"] for out, _ in ends), ends
