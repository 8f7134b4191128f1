"""Flows with ReLU neurons keep the tolerance at every frame: against SciPy, restarted at every kink."""

import itertools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sphereflow as sf
from sphereflow.dynamics import Kinks, RescaledFeedForward, Traits
from sphereflow.landscape.flows import Particles
from sphereflow.solving import FORWARD, SOLVERS
from sphereflow.solving.kinks import Cubics

N, D, TIMES = 8, 3, np.linspace(0.0, 3.0, 16)
LEAK = 0.01


def flow_start(seed):
    x0 = np.random.default_rng(seed + 100).normal(size=(N, D))
    return x0 / np.linalg.norm(x0, axis=1, keepdims=True)


def weights(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=4), rng.normal(size=(4, D)), 0.3 * rng.normal(size=4)


def tangent(x, v):
    return v - np.sum(x * v, axis=1, keepdims=True) * x


def inputs(seed):
    _, inner, bias = weights(seed)
    return lambda t, x: x @ inner.T + bias


def perceptron(seed, leak=0.0):
    """Velocity on given sides of the kinks, from the formula of the paper."""
    outer, inner, _ = weights(seed)
    return lambda t, x, active: tangent(x, np.where(active, 1.0, leak) * inputs(seed)(t, x) * outer @ inner)


def attraction(x, beta):
    kernel = np.exp(beta * (x @ x.T - 1))
    return tangent(x, kernel @ x / N)


def unit_rows(x):
    return x[:, :-1] / np.linalg.norm(x[:, :-1], axis=1, keepdims=True)


def with_masses(seed):
    """Descent of positions and logarithms of masses at rate 0.7, on given sides of the kinks."""
    outer = weights(seed)[0]

    def field(t, rows, active):
        x, masses = unit_rows(rows), np.exp(rows[:, -1]) / np.exp(rows[:, -1]).sum()
        kernel = np.exp(3.0 * (x @ x.T - 1))
        move = tangent(x, kernel * masses @ x) + perceptron(seed)(t, x, active)
        variation = kernel @ masses / 3.0 + np.where(active, inputs(seed)(t, x), 0) ** 2 @ outer / 2
        return -np.concatenate([move, 0.7 * (variation - masses @ variation)[:, None]], axis=1)

    return field


def rescaled(t, y):
    """Attention in the variables e^{-t} x, with identity matrices."""
    scores = np.exp(2 * t) * (y @ y.T)
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    return share @ y / share.sum(axis=1, keepdims=True) - y


def along(inputs, field, x0, on_sphere, stops=()):
    """Frames by DOP853 on smooth fields, each to the next zero of an input, with short steps that miss none."""
    unit = (lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)) if on_sphere else (lambda x: x)
    x, t, frames = x0, 0.0, [x0]
    active = inputs(t, x) > 0
    ends = [*stops, TIMES[-1]]
    while t < TIMES[-1]:
        end = next(s for s in ends if s > t)

        def rate(s, flat, active=active, end=end):
            return field(min(s, np.nextafter(end, 0)), unit(flat.reshape(x0.shape)), active).ravel()

        def margin(s, flat, active=active, end=end):
            g = inputs(min(s, np.nextafter(end, 0)), unit(flat.reshape(x0.shape)))
            return np.min(np.where(active, g, -g) + 1e-15)

        margin.terminal, margin.direction = True, -1
        part = solve_ivp(
            rate, (t, end), x.ravel(), "DOP853", rtol=3e-14, atol=1e-14, max_step=0.01, events=margin, dense_output=True
        )
        hit = part.t_events[0].size > 0
        until = part.t[-1] if hit else end
        frames += [unit(part.sol(s).reshape(x0.shape)) for s in TIMES[(t < TIMES) & (until >= TIMES)]]
        t, x = until, unit(part.y[:, -1].reshape(x0.shape))
        g = inputs(t, x)
        active = np.where(np.abs(g) < 1e-12, ~active, active) if hit else g > 0
    return np.stack(frames)


def flow(name, seed):
    """(model, start, frames of the reference)."""
    unit = flow_start(seed)
    relu, field, g = sf.Perceptron(*weights(seed)), perceptron(seed), inputs(seed)
    if name == "relu":
        return relu, unit, along(g, field, unit, True)
    if name == "leaky":
        return (
            sf.Perceptron(*weights(seed), activation="leaky_relu"),
            unit,
            along(g, perceptron(seed, LEAK), unit, True),
        )
    if name == "attention":
        both = lambda t, x, active: attraction(x, 3.0) + field(t, x, active)  # noqa: E731
        return sf.USA(3.0) + relu, unit, along(g, both, unit, True)
    if name == "descent":
        down = lambda t, x, active: -1.5 * (attraction(x, 3.0) + field(t, x, active))  # noqa: E731
        return -1.5 * (sf.USA(3.0) + relu), unit, along(g, down, unit, True)
    if name == "schedule":
        other, theirs = perceptron(seed + 50), inputs(seed + 50)
        model = sf.PiecewiseConstant([1.1], [relu, sf.USA(3.0) + sf.Perceptron(*weights(seed + 50))])
        now = lambda t, x: g(t, x) if t < 1.1 else theirs(t, x)  # noqa: E731
        turns = lambda t, x, a: field(t, x, a) if t < 1.1 else attraction(x, 3.0) + other(t, x, a)  # noqa: E731
        return model, unit, along(now, turns, unit, True, [1.1])
    if name == "masses":
        x0 = np.concatenate([unit, np.log(np.random.default_rng(seed).dirichlet(np.ones(N)))[:, None]], axis=1)
        model = Particles(jnp.asarray(3.0), relu, *map(jnp.asarray, (-1.0, 0.7, 0.0)))
        return model, x0, along(lambda t, x: g(t, unit_rows(x)), with_masses(seed), x0, False)
    x0 = np.random.default_rng(seed).normal(size=(N, D))
    model = RescaledFeedForward(sf.dynamics.EuclideanAttention(), D, "relu")
    return model, x0, along(rescaled, lambda t, y, active: np.where(active, rescaled(t, y), 0.0), x0, False)


CASES = [("attention", "tsit5")]
FLOWS = ("relu", "leaky", "attention", "descent", "schedule", "euclidean", "masses")
SLOW = [case for case in itertools.product(FLOWS, ("dopri8", "tsit5", "bosh3")) if case not in CASES]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "solver"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)])
def test_frames_keep_the_tolerance(name, solver):
    for seed in range(4):
        model, x0, exact = flow(name, seed)
        for tol in (1e-6, 1e-8):
            found = sf.solve(model, x0, TIMES, tol=tol, solver=SOLVERS[solver][0], adjoint=FORWARD)
            error = np.abs(found.xs - exact).max()
            assert error < tol, (seed, tol)


@pytest.mark.slow
def test_the_reference_is_far_better_than_the_tolerance():
    model, x0, exact = flow("attention", 0)
    np.testing.assert_allclose(sf.solve(model, x0, TIMES, tol=1e-13, adjoint=FORWARD).xs, exact, rtol=0, atol=1e-12)


def test_kinks_cost_few_steps():
    """One step for a kink and little more, where each step without them would have to be short."""
    model, x0, exact = flow("attention", 3)
    kinks = np.sum(np.diff(np.sign(inputs(3)(0, exact)), axis=0) != 0)
    steps = int(sf.solve(model, x0, TIMES, adjoint=FORWARD).steps)
    assert kinks >= 4
    assert steps < 150


@pytest.mark.slow
def test_gradients_in_both_directions_are_central_differences():
    outer, inner, bias = weights(3)
    x0 = flow_start(3)

    def mean(outer, tol=1e-9, adjoint=FORWARD):
        x = sf.solve(sf.USA(2.0) + sf.Perceptron(outer, inner, bias), x0, TIMES[[0, 7]], tol=tol, adjoint=adjoint).final
        return jnp.mean(x @ x.T)

    way, h = np.random.default_rng(0).normal(size=4), 1e-5
    back = float(jax.grad(lambda o: mean(o, adjoint=None))(jnp.asarray(outer)) @ way)
    ahead = float(jax.jvp(mean, (jnp.asarray(outer),), (jnp.asarray(way),))[1])
    difference = float(mean(outer + h * way, 1e-12) - mean(outer - h * way, 1e-12)) / (2 * h)
    assert back == pytest.approx(difference, rel=1e-5)
    assert ahead == pytest.approx(back, rel=1e-9)


@pytest.mark.slow
def test_replicas_and_float32_keep_their_tolerance():
    model, x0, exact = flow("attention", 3)
    both = sf.solve(model, np.stack([x0, x0[::-1]]), TIMES, adjoint=FORWARD).xs
    np.testing.assert_allclose(both[0], exact, rtol=0, atol=1e-8)
    np.testing.assert_allclose(both[1], exact[:, ::-1], rtol=0, atol=1e-8)
    single = sf.solve(model, x0.astype(np.float32), TIMES, adjoint=FORWARD)
    assert single.xs.dtype == jnp.float32
    np.testing.assert_allclose(single.xs, exact, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_smooth_fields_and_fixed_steps_are_solved_as_before(monkeypatch):
    """Kinks are looked for in a field that has them, where steps are chosen; nowhere else."""
    x0 = flow_start(0)[:5]  # a shape of its own, so that programs are made here

    def looked(*_):
        raise RuntimeError("kinks")

    monkeypatch.setattr("sphereflow.solving.initial_value.Kinked", looked)
    sf.solve(sf.Perceptron(*weights(0), activation="gelu"), x0, TIMES, adjoint=FORWARD)
    relu = sf.Perceptron(*weights(0))
    sf.solve(relu, x0, TIMES, controller=diffrax.ConstantStepSize(), first_step=0.1, adjoint=FORWARD)
    with pytest.raises(RuntimeError, match="kinks"):
        sf.solve(relu, x0, TIMES, adjoint=FORWARD)


@pytest.mark.slow
def test_tokens_that_touch_a_kink_are_no_trap():
    """Zeros without change of sign, and tokens that start on a kink and stay there or leave at once."""
    x0 = flow_start(22)
    on_it = np.cross(x0, weights(22)[1][0])
    model = sf.Perceptron(weights(22)[0], weights(22)[1])  # without bias: great circles
    start = np.concatenate([x0, on_it / np.linalg.norm(on_it, axis=1, keepdims=True)])
    found = sf.solve(model, start, TIMES, adjoint=FORWARD, max_steps=400)
    finer = sf.solve(model, start, TIMES, tol=1e-11, adjoint=FORWARD, max_steps=400)
    assert not bool(found.hit_limit)
    assert np.abs(found.xs - finer.xs).max() < 1e-8


class Fold(sf.Dynamics):
    """A field of one's own: x' = |x - t| - 1 in R^d, whose kink moves."""

    side: object = None
    traits = Traits(space="euclidean", masses="any")

    def field(self, t, x):
        return (jnp.abs(x - t) if self.side is None else jnp.where(self.side, x - t, t - x)) - 1

    def kinks(self, t, x):
        return Kinks(x - t, jnp.full(x.shape, 2.0))

    def continued(self, t, sides):
        return Fold(sides)


@pytest.mark.slow
def test_a_field_of_ones_own_says_where_its_kinks_are():
    """u = x - t obeys u' = |u| - 2: u = 2 - (2 - u_0) e^t down to zero, then u = -2 + 2 e^{-(t-s)}."""
    u0 = np.linspace(0.1, 1.5, 6).reshape(2, 3)
    meets = np.log(2 / (2 - u0))
    before = [2 - (2 - u0) * np.exp(t) for t in TIMES]
    after = [-2 + 2 * np.exp(meets - t) for t in TIMES]
    exact = np.stack([np.where(t < meets, b, a) + t for t, b, a in zip(TIMES, before, after, strict=True)])
    found = sf.solve(Fold(), u0, TIMES, adjoint=FORWARD)
    np.testing.assert_allclose(found.xs, exact, rtol=0, atol=1e-8)
    assert int(found.steps) < 60


def test_kinks_of_another_field_are_not_inherited():
    class Halved(sf.Perceptron):
        def field(self, t, x):
            return sf.Perceptron.field(self, t, x) / 2

    x = jnp.asarray(flow_start(0))
    assert sf.Perceptron(*weights(0)).kinks(jnp.asarray(0.0), x) is not None
    assert Halved(*weights(0)).kinks(jnp.asarray(0.0), x) is None
    with pytest.raises(sf.SphereflowError, match="kinks and continued together"):
        type("Half", (sf.Dynamics,), {"field": Fold.field, "kinks": Fold.kinks})


def test_zeros_are_found_in_order_and_dips_are_seen():
    places = jnp.linspace(0, 1, 5)[:, None]
    functions = [
        (lambda s: 0.3 - s, 0.3),
        (lambda s: (s - 0.4) * (s - 0.45), 0.4),  # a dip between two places
        (lambda s: (s - 0.4) ** 2 + 1e-6, 1.0),  # touches nearly
        (lambda s: (s + 1e-3) * (0.7 - s) - 2e-3, None),  # starts below, on its way up
    ]
    for f, zero in functions:
        values, slopes = jax.jvp(f, (places,), (jnp.ones_like(places),))
        found = float(Cubics(values, slopes).first_zeros()[0])
        exact = max(np.roots([-1, 0.699, 7e-4 - 2e-3]).real) if zero is None else zero
        assert found == pytest.approx(exact, abs=1e-9)
