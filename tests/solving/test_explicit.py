"""The lighter program for solves that are not differentiated: as precise as diffrax, in no more steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow.solving import FORWARD
from sphereflow.solving.explicit import _change

X0 = sf.draw("uniform", 6, 3, 0)
TURN = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.5]])


@pytest.mark.fast_cases("SA-frames", "turned-end")
@pytest.mark.parametrize("ts", [np.array([0.0, 3.0]), np.array([0.5, 0.6, 2.0, 3.0, 3.001])], ids=["end", "frames"])
@pytest.mark.parametrize(
    "model", [sf.SA(4.0), sf.USA(2.0, value=TURN), sf.SA(1.0) * 30.0], ids=["SA", "turned", "fast"]
)
def test_as_precise_as_diffrax_in_no_more_steps(model, ts):
    lighter = sf.solve(model, X0, ts, tol=1e-9, adjoint=FORWARD)
    whole = sf.solve(model, X0, ts, tol=1e-9)
    truth = sf.solve(model, X0, ts, tol=1e-13)
    assert 0 < int(lighter.steps) <= int(whole.steps) + 1
    assert lighter.final_time == whole.final_time == ts[-1]
    for found in (lighter, whole):
        assert np.abs(found.xs - truth.xs).max() < 1e-9
    assert np.array_equal(lighter.final, lighter.xs[-1])
    assert not lighter.hit_limit


@pytest.mark.slow
def test_a_first_step_of_one_length_gives_the_same_tokens():
    ts = np.array([0.0, 1.0, 2.0])
    one, other = (sf.solve(sf.SA(4.0), X0, ts, first_step=0.5, adjoint=adjoint) for adjoint in (FORWARD, None))
    # Steps are the same until the trend of the error shortens one; both errors are below the tolerance of 1e-8.
    assert abs(int(one.steps) - int(other.steps)) <= 2
    assert np.abs(one.xs - other.xs).max() < 2e-8


def test_the_first_step_is_found_and_the_last_is_not_tiny():
    """A straight way on the line, of which a step that is longer by three percent makes no error but rounding."""

    class Drift(sf.Dynamics):
        @property
        def traits(self):
            return sf.dynamics.Traits(space="euclidean")

        def field(self, t, x):
            return jnp.ones_like(x)

    found = sf.solve(Drift(), np.zeros((1, 1)), np.array([0.0, 1.0]), first_step=0.97, adjoint=FORWARD)
    assert found.steps == 1
    assert found.final[0, 0] == pytest.approx(1.0, abs=1e-14)
    slow, fast = (
        sf.solve(sf.SA(4.0) * speed, X0, np.array([0.0, 0.1 / speed]), adjoint=FORWARD) for speed in (1e-3, 1e3)
    )
    # In its own time the field is the same: so are the steps, and none is spent on growing from a fixed first length.
    assert slow.steps == fast.steps <= 3


@pytest.mark.slow
def test_replicas_observables_limits_and_float32():
    ts = np.array([0.0, 1.0, 4.0])
    starts = np.stack([np.asarray(sf.draw("uniform", 6, 3, seed)) for seed in range(3)])

    def overlap(x):
        return {"mean": jnp.mean(x @ x.T), "count": jnp.sum(x @ x.T > 0.9)}

    together = sf.solve(sf.SA(4.0), starts, ts, observe=overlap, adjoint=FORWARD)
    for index, start in enumerate(starts):
        alone = sf.solve(sf.SA(4.0), start, ts, observe=overlap, adjoint=FORWARD)
        assert together.steps[index] == alone.steps
        assert np.abs(together.xs["mean"][index] - alone.xs["mean"]).max() < 1e-12
        assert np.array_equal(together.xs["count"][index], alone.xs["count"])
        assert np.abs(together.final[index] - alone.final).max() < 1e-12
    stopped = sf.solve(sf.SA(4.0), X0, ts, max_steps=4, adjoint=FORWARD)
    usual = sf.solve(sf.SA(4.0), X0, ts, max_steps=4)
    assert stopped.hit_limit
    assert stopped.steps == usual.steps == 4
    reached = ts <= float(stopped.final_time)
    assert not reached.all()
    assert np.array_equal(np.isfinite(stopped.xs).all(axis=(1, 2)), reached)
    single = sf.solve(sf.SA(4.0), np.asarray(X0, np.float32), ts, adjoint=FORWARD)
    assert single.xs.dtype == np.float32
    assert np.abs(single.xs - sf.solve(sf.SA(4.0), X0, ts).xs).max() < 1e-4


@pytest.mark.slow
def test_forward_derivatives_pass_through():
    def end(beta, last, adjoint):
        return sf.solve(sf.SA(beta), X0, jnp.stack([0.0, last]), adjoint=adjoint, tol=1e-10).final

    value, change = jax.jvp(functools.partial(end, adjoint=FORWARD), (4.0, 1.5), (1.0, 0.3))
    h = 1e-4
    difference = (end(4.0 + h, 1.5 + 0.3 * h, None) - end(4.0 - h, 1.5 - 0.3 * h, None)) / (2 * h)
    assert np.abs(change - difference).max() < 1e-6
    assert np.isfinite(value).all()


@pytest.mark.slow
def test_a_field_that_is_not_defined_everywhere_shortens_the_step():
    class Root(sf.Dynamics):
        @property
        def traits(self):
            return sf.dynamics.Traits(space="euclidean")

        def field(self, t, x):
            return -jnp.sqrt(x)

    x0, ts = np.full((1, 1), 4.0), np.array([0.0, 1.0, 3.9])
    for adjoint in (FORWARD, None):
        found = sf.solve(Root(), x0, ts, first_step=50.0, adjoint=adjoint)
        assert np.abs(found.xs[:, 0, 0] - (2 - ts / 2) ** 2).max() < 1e-8


@pytest.mark.parametrize("ratio", [1e-6, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("last", [1e-3, 0.5, 0.99])
def test_a_good_step_is_never_followed_by_a_shorter_one(ratio, last):
    """Where errors are rough, a rule that trusts their trend alone would shrink steps without end."""
    h = jnp.asarray(0.1)
    factor, _ = _change(jnp.asarray(ratio), h, jnp.asarray(True), (h, jnp.asarray(last)))
    assert factor >= 1
    shorter, _ = _change(jnp.asarray(2.0), h, jnp.asarray(False), (h, jnp.asarray(last)))
    assert shorter < 1
