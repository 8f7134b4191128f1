"""`solve` composes: derivatives against differences, maps against loops, solvers as objects, own fields and kernels."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sphereflow as sf
from sphereflow.interaction import DIRECT, Fourier, Harmonic
from sphereflow.solving import FORWARD, SOLVERS

N, TIMES = 8, np.array([0.0, 1.5])
ENGINES = {"direct": (3, DIRECT), "fourier": (2, Fourier(40, 1e-13)), "harmonic": (3, Harmonic(30, 1e-13))}


def tokens(d, seed=0):
    return np.array(sf.draw("uniform", N, d, seed))


def matrix(d):
    return np.eye(d) + 0.2 * np.random.default_rng(1).normal(size=(d, d))


@pytest.fixture(
    params=[name if name == "direct" else pytest.param(name, marks=pytest.mark.slow) for name in ENGINES],
    scope="module",
)
def mean_overlap(request):
    """The final mean overlap as a function of (beta, V, x0), where they are taken, and its gradient."""
    d, engine = ENGINES[request.param]

    def final(beta, value, x0):
        x = sf.solve(sf.SA(beta, value=value, engine=engine), x0, TIMES, tol=1e-12).final
        return jnp.mean(x @ x.T)

    return jax.jit(final), (jnp.asarray(3.0), jnp.asarray(matrix(d)), jnp.asarray(tokens(d)))


def test_gradients_are_central_differences(mean_overlap):
    f, point = mean_overlap
    slopes = jax.grad(f, argnums=(0, 1, 2))(*point)
    rng = np.random.default_rng(2)
    for place, slope in enumerate(slopes):
        way = rng.normal(size=point[place].shape)
        h = 1e-4

        def moved(step, place=place, way=way):
            return float(f(*(p + step * way if i == place else p for i, p in enumerate(point))))

        # Fourth-order differences: their own error is h^4 and rounding over h.
        difference = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
        assert float(np.sum(np.asarray(slope) * way)) == pytest.approx(difference, rel=1e-6), place


@pytest.mark.slow
def test_forward_and_reverse_derivatives_agree():
    x0 = tokens(3)

    def final(beta, adjoint):
        return jnp.mean(sf.solve(sf.SA(beta), x0, TIMES, tol=1e-10, adjoint=adjoint).final @ jnp.ones(3))

    back = jax.grad(final)(2.0, diffrax.RecursiveCheckpointAdjoint())
    ahead = jax.jvp(lambda beta: final(beta, FORWARD), (2.0,), (1.0,))[1]
    assert float(back) == pytest.approx(float(ahead), rel=1e-9)


def test_a_map_over_systems_equals_the_loop():
    starts = jnp.stack([sf.draw("uniform", N, 3, seed) for seed in range(5)])
    betas = jnp.linspace(0.5, 4.0, 5)
    one = lambda beta, x: sf.solve(sf.SA(beta), x, [0.0, 1.0, 2.0], adjoint=FORWARD).xs  # noqa: E731
    together = jax.vmap(one)(betas, starts)
    for row, beta, x in zip(together, betas, starts, strict=True):
        np.testing.assert_allclose(row, one(beta, x), atol=1e-12)


def test_it_can_be_compiled_from_outside_with_traced_times():
    x0 = tokens(3)
    ends = jax.jit(lambda t1: sf.solve(sf.SA(2.0), x0, jnp.linspace(0.0, t1, 4), adjoint=FORWARD).final)
    for t1 in (0.7, 2.0):
        np.testing.assert_allclose(ends(t1), sf.evolve(sf.SA(2.0), x0, t1, saveat=2).final, atol=1e-8)


def test_times_that_run_backwards_give_no_numbers_where_no_error_can_be_raised():
    x0 = tokens(3)
    found = jax.jit(lambda ts: sf.solve(sf.SA(2.0), x0, ts, adjoint=FORWARD).xs)(jnp.array([0.0, 2.0, 1.0]))
    assert not np.isfinite(found).all()
    with pytest.raises(sf.SphereflowError, match="increasing"):
        sf.solve(sf.SA(2.0), x0, [0.0, 2.0, 1.0])


def test_programs_can_be_kept_on_disk():
    """A call back to Python, which checks of diffrax make, would forbid it."""
    x0 = jnp.asarray(tokens(3))

    def frames(x, ts):
        return sf.solve(sf.SA(2.0), x, ts, adjoint=FORWARD).xs

    assert "callback" not in jax.jit(frames).lower(x0, jnp.linspace(0.0, 1.0, 5)).as_text()


@pytest.mark.slow
@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("name", ["dopri8", "tsit5"])
def test_frames_between_steps_keep_the_tolerance(name, tol):
    model, x0, times = sf.SA(9.0), sf.draw("uniform", 64, 3, 1), np.linspace(0, 30, 301)
    found = sf.solve(model, x0, times, tol=tol, solver=SOLVERS[name][0], adjoint=FORWARD)
    at_steps = sf.solve(
        model,
        x0,
        times,
        adjoint=FORWARD,
        controller=diffrax.ClipStepSizeController(diffrax.PIDController(rtol=1e-14, atol=1e-14), step_ts=times),
    )
    assert np.abs(found.xs - at_steps.xs).max() < tol
    assert int(found.steps) < 300 or tol < 1e-10  # frames do not shorten the steps


def test_solvers_and_controllers_are_objects():
    x0 = tokens(3)
    exact = sf.solve(sf.SA(2.0), x0, TIMES, tol=1e-12, adjoint=FORWARD).final
    own = sf.solve(
        sf.SA(2.0), x0, TIMES, solver=diffrax.Dopri5(), controller=diffrax.PIDController(rtol=1e-9, atol=1e-9)
    ).final
    np.testing.assert_allclose(own, exact, atol=1e-8)
    fixed = sf.solve(
        sf.SA(2.0), x0, TIMES, solver=diffrax.Ralston(), controller=diffrax.ConstantStepSize(), first_step=0.01
    )
    assert int(fixed.steps) == 150
    np.testing.assert_allclose(fixed.final, exact, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(fixed.final, axis=1), 1, atol=1e-15)


@pytest.mark.slow
def test_float32_stays_float32():
    found = sf.solve(sf.SA(2.0, value=matrix(3)), tokens(3).astype(np.float32), [0.0, 1.0, 2.0], adjoint=FORWARD)
    assert found.xs.dtype == found.final.dtype == jnp.float32


def test_observables_are_kept_instead_of_tokens():
    x0 = tokens(3)
    kept = sf.solve(sf.SA(2.0), x0, [0.0, 1.0, 2.0], observe=lambda x: {"mean": x.mean(axis=0)}, adjoint=FORWARD)
    whole = sf.solve(sf.SA(2.0), x0, [0.0, 1.0, 2.0], adjoint=FORWARD)
    np.testing.assert_allclose(kept.xs["mean"], whole.xs.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(kept.final, whole.final, atol=1e-12)


def test_steps_that_run_out_leave_no_numbers():
    found = sf.solve(sf.SA(9.0), tokens(3), [0.0, 50.0], max_steps=5, adjoint=FORWARD)
    assert bool(found.hit_limit)
    assert not np.isfinite(found.final).any()


class Rotation(sf.Dynamics):
    """A field of one's own: rotation about the last axis with the given speed."""

    speed: jax.Array

    def field(self, t, x):
        return self.speed * jnp.stack([-x[:, 1], x[:, 0], 0 * x[:, 2]], axis=1)


def test_a_field_of_ones_own_composes():
    x0 = tokens(3)
    turned = sf.solve(Rotation(jnp.asarray(0.5)) + 2.0 * Rotation(jnp.asarray(0.25)), x0, [0.0, np.pi]).final
    np.testing.assert_allclose(turned, x0 * [-1, -1, 1], atol=1e-8)


@pytest.mark.slow
def test_a_field_of_ones_own_has_derivatives():
    x0 = tokens(3)
    slope = jax.grad(lambda speed: sf.solve(Rotation(speed), x0, [0.0, 1.0]).final[0, 0])(0.0)
    assert float(slope) == pytest.approx(-x0[0, 1], abs=1e-9)


def cubic(s, beta):
    return 1 + beta * s**3


@pytest.mark.fast_cases("mean")
@pytest.mark.parametrize("normalise", ["softmax", "mean"])
def test_a_kernel_of_ones_own_is_summed_pair_by_pair(normalise):
    x0, beta = tokens(3), 0.6

    def rate(_, flat):
        x = flat.reshape(-1, 3)
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        k = 1 + beta * (x @ x.T) ** 3
        pull = k @ x / (k.sum(axis=1, keepdims=True) if normalise == "softmax" else N)
        return (pull - np.sum(x * pull, axis=1, keepdims=True) * x).ravel()

    exact = solve_ivp(rate, (0, 2), x0.ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(-1, 3)
    model = sf.Attention(beta, normalise, kernel=cubic)
    run = sf.evolve(model, x0, 2.0, saveat=5)
    np.testing.assert_allclose(run.final, exact, atol=1e-8)
    assert run.engine == "direct"


@pytest.mark.slow
def test_the_energy_of_a_kernel_of_ones_own_grows_at_its_rate():
    run = sf.evolve(sf.USA(0.6, kernel=cubic), tokens(3), 2.0, saveat=201)
    np.testing.assert_allclose(run.energy_rate[20:-20], np.gradient(run.energy, 0.01)[20:-20], rtol=1e-3)


def test_the_energy_of_a_kernel_of_ones_own_is_its_integral():
    x = jnp.asarray(tokens(3))
    given = sf.USA(0.6, kernel=sf.kernels.FunctionKernel(cubic, lambda s, beta: s + beta * s**4 / 4)).energy(x)
    assert float(sf.USA(0.6, kernel=cubic).energy(x)) == pytest.approx(float(given), rel=1e-13)
    s = x @ x.T
    assert float(given) == pytest.approx(float(np.mean(s + 0.15 * s**4)) / 2, rel=1e-13)
    signed = sf.USA(1.0, kernel=lambda s, beta: jnp.minimum(s, 0.0)).energy(x)  # a kink, and never positive
    assert float(signed) == pytest.approx(float(np.mean(np.minimum(s, 0) ** 2)) / 4, rel=1e-12)


@pytest.mark.slow
def test_the_exponential_as_ones_own_kernel_is_the_usual_one():
    x0 = tokens(3)
    for kind in (sf.SA, sf.USA):
        own = sf.solve(kind(3.0, kernel=lambda s, beta: jnp.exp(beta * (s - 1))), x0, TIMES, adjoint=FORWARD).final
        np.testing.assert_allclose(own, sf.solve(kind(3.0), x0, TIMES, adjoint=FORWARD).final, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "match"),
    [(lambda s: s, "functions of JAX"), (lambda s, beta: jnp.sum(s), "one number per")],
)
def test_what_is_no_kernel_is_refused(kernel, match):
    with pytest.raises(sf.SphereflowError, match=match):
        sf.SA(1.0, kernel=kernel)


def test_an_engine_that_is_given_is_used():
    model, x = sf.SA(3.0, engine=Fourier(30)), jnp.asarray(tokens(2))
    assert model.engine_name == "fourier"
    np.testing.assert_allclose(model.field(jnp.zeros(()), x), sf.SA(3.0).field(jnp.zeros(()), x), atol=1e-9)
    with pytest.raises(sf.SphereflowError, match="dimension d=2"):
        sf.evolve(model, tokens(3), 1.0, saveat=2)


@pytest.mark.slow
def test_a_run_says_which_engine_it_was_given():
    run = sf.evolve(sf.SA(3.0, engine=Fourier(30)), tokens(2), 1.0, saveat=2)
    assert run.engine == "fourier"
    assert run.engine_error == 1e-9
    direct = sf.evolve(sf.SA(3.0), tokens(2), 1.0, saveat=2)
    np.testing.assert_allclose(run.final, direct.final, atol=1e-8)


def test_leaves_of_a_solution_are_arrays():
    found = sf.solve(sf.SA(2.0), tokens(3), TIMES, adjoint=FORWARD)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(found))
    assert jax.tree.map(lambda leaf: leaf, found).xs.shape == (2, N, 3)
