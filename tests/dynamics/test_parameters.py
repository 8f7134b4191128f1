"""Every argument of every dynamics, given wrongly: one sentence, or a right answer."""

import inspect
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from wrong_arguments import CASES

import sphereflow as sf
from sphereflow.dynamics import RescaledFeedForward, Scaled, Sum
from sphereflow.interaction import PositionWeights

WRONG = str(Path(__file__).with_name("wrong_arguments.py"))
NOW = jnp.zeros(())
X = sf.draw("uniform", 4, 3, 1)


def test_a_wrong_argument_gets_one_sentence():
    """In a process of its own, because here annotations are checked before the library sees what it was given."""
    child = subprocess.run([sys.executable, WRONG], capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stdout + child.stderr
    assert int(child.stdout.split()[0]) > 150


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind not in ("SA", "LayerNormAttention")])
def test_every_argument_has_wrong_values(kind):
    made = {"Sum": Sum, "Scaled": Scaled, "RescaledFeedForward": RescaledFeedForward}
    signature = inspect.signature(made.get(kind) or getattr(sf, kind))
    assert set(CASES[kind][1]) == set(signature.parameters) - {"strict"}


@pytest.mark.parametrize(
    "model",
    [
        sf.SA(1.0, value=np.eye(2)),
        sf.SA(1.0, query=np.ones((5, 2)), key=np.ones((5, 2))),
        sf.USA(1.0, weights=[0.5, 0.5]),
        sf.USA(1.0) + sf.Perceptron([1.0], [[1.0, 0.0]]),
        -sf.SA(1.0, value=np.eye(4)),
        sf.PiecewiseConstant([0.5], [sf.SA(1.0, value=np.eye(2)), sf.SA(1.0)]),
        sf.EuclideanAttention(np.eye(2)),
        sf.RescaledAttention(sf.EuclideanAttention(np.eye(2)), 2),
        sf.LayerNormAttention(1.0, value=np.eye(2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_tokens_that_do_not_fit_a_model_are_refused_wherever_it_is_used(model):
    for use in (lambda: sf.evolve(model, X, 1.0), lambda: model.field(NOW, X)):
        with pytest.raises(sf.SphereflowError) as refusal:
            use()
        assert "\n" not in str(refusal.value)


def test_causal_and_a_mask_mean_both():
    window = PositionWeights(lambda i, j: jnp.where(abs(i - j) <= 1, 0.0, -jnp.inf))
    moved = X.at[3].set(-X[0])
    for make in (sf.SA, sf.USA):
        both = make(2.0, causal=True, mask=window)
        assert both.mask.causal
        np.testing.assert_array_equal(both.field(NOW, X)[:3], both.field(NOW, moved)[:3])
        assert np.abs(make(2.0, mask=window).field(NOW, X) - make(2.0, mask=window).field(NOW, moved))[2].max() > 1e-3
    assert sf.SA(1.0, causal=True, mask=sf.Alibi(0.1)).mask == sf.Alibi(0.1)


def test_the_energy_of_a_sum_needs_the_same_masses():
    w = np.array([0.4, 0.3, 0.2, 0.1])
    with pytest.raises(sf.SphereflowError, match="different masses"):
        (sf.USA(1.0, weights=w) + sf.USA(2.0)).energy_rate(X)
    same = sf.USA(1.0, weights=w) + sf.USA(2.0, weights=w) + sf.Perceptron([1.0], [[0.0, 0, 1]])
    h = 1e-6
    step = sf.normalise(X + h * same.field(NOW, X)), sf.normalise(X - h * same.field(NOW, X))
    slope = float(same.energy(step[0]) - same.energy(step[1])) / (2 * h)
    assert float(same.energy_rate(X)) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("factors", [(1.0, -1.0), (-2.0, 0.5), (-1.0, -1.0)])
def test_multiples_of_gradient_flows_add_up_to_one(factors):
    a, b = factors
    model = a * sf.USA(2.0) + b * sf.Perceptron([1.0], [[0.0, 0, 1]], activation="tanh")
    h = 1e-6
    step = sf.normalise(X + h * model.field(NOW, X)), sf.normalise(X - h * model.field(NOW, X))
    slope = float(model.energy(step[0]) - model.energy(step[1])) / (2 * h)
    assert float(model.energy_rate(X)) == pytest.approx(slope, rel=1e-5)
    assert slope > 0
    descent = sf.USA(2.0, value=-np.eye(3), query=np.eye(3)) + sf.Perceptron([1.0], [[0.0, 0, 1]])
    assert float(jax.jit(lambda m, x: m.energy(x))(descent, X)) == pytest.approx(float(descent.energy(X)), rel=1e-14)


def test_masses_reach_every_part():
    w = jnp.asarray([0.4, 0.3, 0.2, 0.1])
    block = sf.Perceptron([1.0], [[0.0, 0, 1]])
    for model, direct in (
        (-(sf.SA(2.0) + block), -(sf.SA(2.0, weights=w) + block)),
        (
            sf.PiecewiseConstant([1.0], [sf.SA(2.0), sf.SA(3.0)]),
            sf.PiecewiseConstant([1.0], [sf.SA(b, weights=w) for b in (2.0, 3.0)]),
        ),
        (sf.LayerNormAttention(2.0), sf.LayerNormAttention(2.0, weights=w)),
        (
            sf.RescaledAttention(sf.EuclideanAttention(np.eye(3)), 3),
            sf.RescaledAttention(sf.EuclideanAttention(np.eye(3), weights=w), 3),
        ),
    ):
        heavy = model.with_masses(w)
        np.testing.assert_allclose(heavy.field(NOW, X), direct.field(NOW, X), atol=1e-14)
        assert heavy.traits.masses == "given"


def test_an_unknown_model_does_not_take_masses_in_silence():
    class Mine(sf.Dynamics):
        def field(self, t, x):
            return sf.sphere.project(x, jnp.roll(x, 1, axis=0))

    with pytest.raises(sf.SphereflowError, match="does not say how masses enter"):
        (Mine() + sf.SA(1.0)).with_masses(np.full(4, 0.25))


def test_wrappers_keep_engines():
    pieces = [sf.SA(beta) for beta in (1.0, 20.0)]
    for model in (sf.PiecewiseConstant([1.0], pieces), -pieces[1], pieces[0] + pieces[1], sf.LayerNormAttention(20.0)):
        assert model.tuned(5000, 2, 1e-6, method="fourier").engine_name == "fourier"


@pytest.mark.slow
def test_a_schedule_is_the_same_through_an_engine():
    schedule = sf.PiecewiseConstant([1.0], [sf.SA(beta) for beta in (1.0, 20.0)])
    x = sf.draw("uniform", 300, 2, 4)
    fast = schedule.tuned(300, 2, 1e-6, method="fourier")
    for t in (0.5, 1.5):
        np.testing.assert_allclose(fast.field(jnp.asarray(t), x), schedule.field(jnp.asarray(t), x), atol=1e-7)
