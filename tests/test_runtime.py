"""Importing the package changes no setting that the user has made, and says so where that would cost precision."""

import os
import subprocess
import sys

import jax
import pytest

from sphereflow import runtime


def output(script, limit=300, **environment):
    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=limit, env={**os.environ, **environment}
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.split()


def quick_compiler():
    """Flags that spare most of the time of compiling, which a release that does not know them would not survive."""
    flags = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    return {"XLA_FLAGS": f"{flags} --xla_backend_optimization_level=0"} if jax.__version__.startswith("0.10.") else {}


SETTINGS = "print(jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision)"


def test_without_settings_of_the_user_double_precision_is_on_and_tf32_off():
    assert output(f"import jax, sphereflow; {SETTINGS}") == ["True", "highest"]


def test_settings_of_the_user_stay():
    chosen = "import jax; jax.config.update('jax_default_matmul_precision', 'float32'); import sphereflow"
    assert output(f"{chosen}; {SETTINGS}", JAX_ENABLE_X64="0") == ["False", "float32"]


@pytest.mark.slow
def test_double_precision_tokens_are_not_rounded_in_silence():
    script = """
import numpy as np, sphereflow as sf
x = np.eye(3)
try:
    sf.evolve(sf.SA(1.0), x, 1.0)
except sf.SphereflowError as refusal:
    print("refused", "64-bit" in str(refusal))
print(sf.evolve(sf.SA(1.0), x.astype(np.float32), 1.0, saveat=2).xs.dtype)
"""
    assert output(script, JAX_ENABLE_X64="0") == ["refused", "True", "float32"]


def test_every_package_is_there_after_a_plain_import():
    script = """
import sphereflow as sf
for name in ("sphere", "kernels", "interaction", "dynamics", "evolution", "sweeps", "metastability", "papers"):
    getattr(sf, name)
print(callable(sf.reproduce), "TYPE_CHECKING" in dir(sf), "errors" in dir(sf), "evolve" in dir(sf))
"""
    assert output(script) == ["True", "False", "False", "True"]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_memory_stays_flat_over_two_hundred_sizes():
    """Runs of one step of the simplest method, compiled in the quickest way: each is a program like any other."""
    script = """
import numpy as np, sphereflow as sf
from sphereflow.runtime import process_size
sizes = []
for n in range(3, 203):
    angles = np.arange(n) / n
    sf.evolve(sf.SA(2.0), np.stack([np.cos(angles), np.sin(angles)], axis=1), 1.0, saveat=2, solver="euler", dt=1.0)
    sizes.append(process_size() / 2**20)
print(max(sizes) - sizes[0], max(sizes[100:]) - max(sizes[:100]))
"""
    growth, late = map(float, output(script, limit=3000, SPHEREFLOW_CACHE="off", **quick_compiler()))
    assert growth < 500
    assert late < 150


def test_light_compiling_leaves_the_flags_of_the_user(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    runtime.compile_lightly()
    assert os.environ["XLA_FLAGS"] == "--xla_backend_optimization_level=1"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    runtime.compile_lightly()
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX2"


def test_old_programs_go_when_the_cache_is_full(tmp_path):
    runtime.trim_cache(tmp_path / "absent")
    for k in range(10):
        (tmp_path / f"{k}-cache").write_bytes(bytes(100))
        os.utime(tmp_path / f"{k}-cache", (1000 + k, 1000 + k))
    runtime.trim_cache(tmp_path, most=1000)
    assert len(list(tmp_path.glob("*-cache"))) == 10
    runtime.trim_cache(tmp_path, most=400)
    assert len(list(tmp_path.glob("*-cache"))) == 10, "looked at once a day"
    os.utime(tmp_path / "trimmed", (0, 0))
    runtime.trim_cache(tmp_path, most=400)
    assert {path.name for path in tmp_path.glob("*-cache")} == {"7-cache", "8-cache", "9-cache"}


@pytest.mark.parametrize(
    "before",
    [
        "import importlib.util; importlib.util.find_spec('jax')",
        "import importlib.util; [importlib.util.find_spec('jax') for _ in range(3)]",
        "import importlib; importlib.invalidate_caches()",
        "from concurrent.futures import ThreadPoolExecutor as P; list(P(4).map(__import__, ['jax'] * 4))",
    ],
)
def test_whoever_looks_for_jax_first_gets_double_precision(before):
    script = f"import sphereflow; {before}; import jax.numpy as jnp; print(jnp.ones(2).dtype)"
    assert output(script) == ["float64"]
