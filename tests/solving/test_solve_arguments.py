"""What `solve` is asked: one sentence for what makes no sense, and every way of diffrax that does."""

import subprocess
import sys

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf

# Wrong types are tried in a process of their own: within the tests annotations are enforced before `solve` is reached.
WRONG = """
import diffrax, jax.numpy as jnp, sphereflow as sf
x0 = sf.draw("uniform", 4, 3, 0)
for word, options in [
    ("tol", {"tol": -1.0}), ("tol", {"tol": 0.0}), ("tol", {"tol": float("nan")}), ("tol", {"tol": [1e-8, 1e-8]}),
    ("tol", {"tol": "small"}), ("solver", {"solver": "dopri8"}), ("solver", {"solver": None}),
    ("solver", {"solver": diffrax.Dopri8}), ("error estimate", {"solver": diffrax.Euler()}),
    ("controller", {"controller": "pid"}), ("first_step", {"controller": diffrax.ConstantStepSize()}),
    ("first_step", {"controller": diffrax.StepTo(jnp.array([0.0, 1.0])), "first_step": 0.1}),
    ("adjoint", {"adjoint": "backsolve"}), ("first_step", {"first_step": -0.1}), ("first_step", {"first_step": 0.0}),
    ("max_steps", {"max_steps": 0}), ("max_steps", {"max_steps": 2.5}), ("max_steps", {"max_steps": True}),
    ("event", {"event": 3}), ("observe", {"observe": 3}), ("ts", {"ts": [0.0]}), ("ts", {"ts": [1.0, 0.0]}),
    ("ts", {"ts": [0.0, float("nan")]}), ("ts", {"ts": "now"}), ("float16", {"x0": x0.astype(jnp.float16)}),
    ("bfloat16", {"x0": x0.astype(jnp.bfloat16)}), ("x0", {"x0": x0 + 0j}), ("x0", {"x0": x0[0]}),
    ("x0", {"x0": "tokens"}), ("model", {"model": "SA"}),
]:
    try:
        sf.solve(**{"model": sf.SA(2.0), "x0": x0, "ts": [0.0, 1.0]} | options)
    except sf.SphereflowError as said:
        assert word in str(said) and len(str(said).splitlines()) == 1, (options, said)
        continue
    raise AssertionError(options)
"""


def test_what_makes_no_sense_is_refused_in_one_sentence():
    subprocess.run([sys.executable, "-c", WRONG], check=True)


@pytest.mark.slow
def test_times_in_a_list_may_be_traced():
    x0 = sf.draw("uniform", 4, 3, 0)
    traced = jax.jit(lambda t1: sf.solve(sf.SA(2.0), x0, [0.0, t1]).final)(1.0)
    np.testing.assert_allclose(traced, sf.solve(sf.SA(2.0), x0, [0.0, 1.0]).final, atol=1e-12)


@pytest.mark.slow
def test_the_continuous_adjoint_agrees_with_the_usual_one():
    x0 = sf.draw("uniform", 4, 3, 0)

    def height(beta, x0, adjoint):
        return sf.solve(sf.SA(beta), x0, jnp.array([0.0, 0.5, 1.0]), adjoint=adjoint).xs[:, :, 0].sum()

    wanted = jax.grad(height, (0, 1))(2.0, x0, None)
    found = jax.grad(height, (0, 1))(2.0, x0, diffrax.BacksolveAdjoint())
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
