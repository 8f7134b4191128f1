"""The Fourier engine on the circle, against pair-by-pair sums."""

import expansion_oracle as oracle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from expansions_by_name import expanded
from hypothesis import given
from hypothesis import strategies as st

from sphereflow.errors import SphereflowError
from sphereflow.interaction import Fourier, PositionWeights, attend, transforms
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.expansion import circle_modes
from sphereflow.interaction.modes import project_all
from sphereflow.interaction.series import circle_terms
from sphereflow.kernels import EXPONENTIAL

RNG = np.random.default_rng(0)


def fourier(queries, keys, values, beta, *, weights=None, **options):
    """The engine, given NumPy arrays."""
    weights = None if weights is None else jnp.asarray(weights)
    arrays = (jnp.asarray(x) for x in (queries, keys, values))
    return expanded("fourier", *arrays, beta, weights=weights, **options)


@pytest.mark.fast_cases("100.0-1e-11-85-True")
@pytest.mark.parametrize(
    ("beta", "tol", "modes", "nufft"),
    [
        (1.0, 1e-8, 12, False),
        (100.0, 1e-11, 85, True),
        (1e4, 1e-11, 821, False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(1.0, 1e-8, 12, True), (100.0, 1e-11, 85, False), (1e4, 1e-11, 821, True)]
        ),
        *(pytest.param(100.0, 1e-4, 60, nufft, marks=pytest.mark.slow) for nufft in (False, True)),
    ],
)
def test_isolated_tokens_keep_their_relative_accuracy(beta, tol, modes, nufft):
    x = oracle.circle(oracle.isolated())
    found = fourier(x, x, x, beta, modes=modes, tol=tol, unit_queries=True, nufft=nufft)
    average, log_z = oracle.attention(x, x, x, beta)
    of_average, of_z = oracle.worst_errors(found.attended, average, log_z, x)
    assert of_average <= tol
    assert of_z <= (tol if tol > 1e-11 else 5e-12)
    assert float(found.error_bound) <= tol


@pytest.mark.slow
def test_series_alone_meets_the_rule_for_self_attention():
    """Without recomputed rows: modes for tol/n are enough even for tokens that see only themselves."""
    x = oracle.circle(oracle.isolated())
    found = fourier(x, x, x, 100.0, modes=85, unit_queries=True, nufft=False, rescue=False)
    _, of_z = oracle.worst_errors(found.attended, *oracle.attention(x, x, x, 100.0), x)
    assert of_z < 5e-12


def test_far_queries_are_computed_directly():
    keys = oracle.circle(0.4 * (2 * (np.arange(200) + 0.5) / 200 - 1))
    queries = oracle.circle([1.0, 1.5, 2.0, 3.0])
    found = fourier(queries, keys, keys, 100.0, modes=90, tol=1e-8, unit_queries=True)
    expected = [5.5992916e-10, 2.583502e-26, 2.493508e-47, 5.700442e-83]
    np.testing.assert_allclose(np.exp(found.attended.log_partition), expected, rtol=1e-6)
    assert int(found.recomputed) == 4
    noise = fourier(queries, keys, keys, 100.0, modes=90, tol=1e-8, unit_queries=True, rescue=False)
    assert float(noise.error_bound) > 1  # without the second look the answer says that it is worthless


@pytest.mark.slow
@pytest.mark.parametrize("nufft", [False, True])
@given(
    seed=st.integers(0, 2**31),
    beta=st.sampled_from([0.0, 0.3, 7.0, 60.0, 500.0, 4e4, 1e6]),
    spread=st.sampled_from([0.0, 1e-9, 1e-3, 0.3, 10.0]),
    tol=st.sampled_from([1e-5, 1e-9]),
    antipodal=st.booleans(),
    cross=st.booleans(),
)
def test_tolerance_is_a_promise(nufft, seed, beta, spread, tol, antipodal, cross):
    keeps_its_tolerance(nufft, seed, beta, spread, tol, antipodal, cross)


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("nufft", [False, True])
def test_tolerance_is_kept_at_a_few_points(nufft):
    """Of the grid above; one compiled program serves them all."""
    keeps_its_tolerance(nufft, 0, 0.0, 10.0, 1e-9, False, True)
    keeps_its_tolerance(nufft, 1, 7.0, 0.3, 1e-9, True, False)
    keeps_its_tolerance(nufft, 2, 60.0, 1e-9, 1e-5, True, True)
    keeps_its_tolerance(nufft, 3, 500.0, 1e-3, 1e-9, False, False)
    keeps_its_tolerance(nufft, 4, 500.0, 10.0, 1e-5, True, True)


def keeps_its_tolerance(nufft, seed, beta, spread, tol, antipodal, cross):
    """Also with too few modes: the engine then notices, and computes the rows directly."""
    rng = np.random.default_rng(seed)
    n = 120
    theta = rng.integers(0, 3, n) + spread * rng.normal(size=n)
    theta[: n // 4] += np.pi * antipodal
    theta[-1] = rng.uniform(-np.pi, np.pi)
    keys = oracle.circle(theta)
    queries = oracle.circle(rng.uniform(-np.pi, np.pi, n)) if cross else keys
    values, weights = rng.normal(size=(n, 2)), rng.exponential(size=n)
    modes = 64 if beta < 1e4 else 9000
    found = fourier(queries, keys, values, beta, weights=weights, tol=tol, modes=modes, unit_queries=True, nufft=nufft)
    expected = oracle.attention(queries, keys, values, beta, weights)
    # Rounding the coordinates of the tokens alone moves every score by beta times 1e-16.
    slack = tol + beta * 4e-16
    of_average, of_z = oracle.worst_errors(found.attended, *expected, values)
    assert of_average <= slack
    assert of_z <= slack


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("nufft", [False, True])
def test_queries_of_any_length(nufft):
    """Scores <B^T x, y> with a matrix that is not symmetric; one query is zero."""
    x = oracle.circle(oracle.isolated(300))
    b = np.array([[0.9, -1.3], [0.4, 0.6]])
    queries = x @ b
    queries[7] = 0
    found = fourier(queries, x, x, 20.0, tol=1e-10, nufft=nufft)
    of_average, of_z = oracle.worst_errors(found.attended, *oracle.attention(queries, x, x, 20.0), x)
    assert of_average < 1e-10
    assert of_z < 1e-10
    wrong = oracle.attention(x @ b.T, x, x, 20.0)[0]
    assert np.abs(wrong - found.attended.average).max() > 0.01


@pytest.mark.slow
def test_angles_wrap_around():
    theta = oracle.isolated(60)
    x = oracle.circle(theta)
    far = np.stack([np.cos(theta + 2000 * np.pi), np.sin(theta + 2000 * np.pi)], axis=1)
    here, there = (fourier(y, y, y, 30.0, modes=60, unit_queries=True, nufft=True).attended for y in (x, far))
    np.testing.assert_allclose(here.average, there.average, atol=1e-10)


# The tests below have 63 tokens and 60 modes, so that they share compiled programs.
def circle_energy(tokens, weights, beta, modes):
    r"""$E_\beta=\frac1{2\beta}\sum_{|k|\le K}\hat I_k|c_k|^2$, the peak convention, beta > 0."""
    moments = project_all(CircleModes(modes), tokens, weights[:, None])
    return circle_terms(EXPONENTIAL, modes, beta) @ jnp.sum(moments**2, axis=(0, 2)) / (2 * beta)


energy = jax.jit(circle_energy, static_argnums=3)


@pytest.mark.slow
def test_energy_of_known_measures():
    beta, w = jnp.asarray(5.0), jnp.full(63, 1 / 63)
    x, ring = (jnp.asarray(oracle.circle(t)) for t in (oracle.isolated(60), 2 * np.pi * np.arange(63) / 63))
    assert float(energy(x, jnp.asarray(np.eye(63)[7]), beta, 60)) == pytest.approx(1 / 10, rel=1e-13)
    assert float(energy(ring, w, beta, 60)) == pytest.approx(np.i0(5.0) * np.exp(-5) / 10, rel=1e-13)
    found = fourier(ring, ring, ring, beta, modes=60, unit_queries=True).attended
    np.testing.assert_allclose(np.exp(found.log_partition), np.i0(5.0) * np.exp(-5), rtol=1e-13)
    log_z = oracle.attention(x, x, x, 5.0)[1]
    assert float(energy(x, w, beta, 60)) == pytest.approx(np.exp(log_z).mean() / 10, rel=1e-13)


@pytest.mark.slow
def test_energy_identity():
    """Along the unnormalised flow dE/dt is the mean square speed."""
    x = jnp.asarray(oracle.circle(oracle.isolated(60)))
    w = jnp.full(63, 1 / 63)
    beta, modes = jnp.asarray(10.0), 60

    found = fourier(x, x, x, beta, modes=modes, unit_queries=True).attended
    points, pull = np.asarray(x), np.asarray(found.average) * np.exp(found.log_partition)[:, None]
    v = pull - np.sum(pull * points, axis=1, keepdims=True) * points
    rate = np.vdot(jax.jit(jax.grad(lambda y: circle_energy(y, w, beta, modes)))(x), v)
    assert rate == pytest.approx(np.mean(np.sum(v**2, axis=1)), rel=1e-10)


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("nufft", [False, True])
def test_derivatives_are_those_of_the_direct_sum(nufft):
    x = jnp.asarray(oracle.circle(oracle.isolated(60)))
    values, w = jnp.asarray(RNG.normal(size=(63, 2))), jnp.asarray(RNG.uniform(0.5, 1.5, 63))

    def through(engine):
        def score(x, values, w, beta):
            found = engine(x, values, w, beta)
            return jnp.sum(found.average**2) + jnp.sum(found.log_partition)

        return jax.jit(jax.grad(score, argnums=(0, 1, 2, 3)))(x, values, w, jnp.asarray(12.0))

    fast = through(lambda x, v, w, b: fourier(x, x, v, b, weights=w, modes=60, unit_queries=True, nufft=nufft).attended)
    slow = through(lambda x, v, w, b: attend(x, x, v, b, weights=w, method="direct"))
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10 * np.abs(np.asarray(b)).max())


@pytest.mark.slow
def test_derivative_of_recomputed_rows():
    keys, query = jnp.asarray(oracle.circle([0.0, 0.2])), jnp.asarray(oracle.circle([2.5]))

    def log_z(engine):
        return jax.jit(jax.grad(lambda q: engine(q).log_partition[0]))(query)

    fast = log_z(lambda q: fourier(q, keys, keys, 200.0, modes=120, unit_queries=True).attended)
    np.testing.assert_allclose(fast, log_z(lambda q: attend(q, keys, keys, 200.0, method="direct")), rtol=1e-12)


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("nufft", [False, True])
def test_replicas_by_vmap(nufft):
    theta = RNG.uniform(-np.pi, np.pi, (3, 50))
    x = jnp.asarray(np.stack([np.cos(theta), np.sin(theta)], axis=-1))
    one = lambda y: fourier(y, y, y, 9.0, modes=40, unit_queries=True, nufft=nufft).attended.average  # noqa: E731
    for row, y in zip(np.asarray(jax.jit(jax.vmap(one))(x)), np.asarray(x), strict=True):
        np.testing.assert_allclose(row, oracle.attention(y, y, y, 9.0)[0], atol=1e-12)


def test_single_precision_is_as_accurate_as_it_can_tell():
    """Two clusters and tokens between them, whose Z is 2e-4: a sum of features in float32 would err by 1e-4 there."""
    theta = np.concatenate([1e-3 * RNG.normal(size=200), np.pi + 1e-3 * RNG.normal(size=200), [1.4, 1.5, 1.6]])
    x = oracle.circle(theta).astype(np.float32)
    found = fourier(x, x, x, 9.0, modes=34, tol=1e-7, unit_queries=True)
    assert found.attended.average.dtype == np.float32
    assert int(found.recomputed) == 0
    unit = x.astype(float) / np.linalg.norm(x.astype(float), axis=1, keepdims=True)
    of_average, _ = oracle.worst_errors(found.attended, *oracle.attention(unit, unit, unit, 9.0), unit)
    assert of_average < 1e-7 + 2**-24
    assert float(found.error_bound) < 1e-7 + 2**-24


def test_requests_that_cannot_be_served():
    x = jnp.asarray(oracle.circle([0.0, 1.0]))
    with pytest.raises(SphereflowError, match="dimension d=2"):
        attend(jnp.eye(3), jnp.eye(3), jnp.eye(3), 1.0, method=Fourier(5))
    with pytest.raises(SphereflowError, match="PositionWeights"):
        fourier(x, x, x, 1.0, mask=PositionWeights(lambda i, j: -0.0 * (i + j)))
    assert circle_modes(1e6, 1e-16) < 10_000


@pytest.mark.slow
def test_transforms_have_exact_derivatives_and_batches():
    """Against the sums that define them; twice differentiated, and with replicas."""
    theta, source = jnp.asarray(RNG.uniform(-3, 3, (2, 9))), jnp.asarray(RNG.normal(size=(2, 1, 9)) + 0j)
    k = jnp.arange(-4, 5)

    def plain(c, t):
        wave = jnp.exp(-1j * t[:, None] * k)
        return jnp.sum(jnp.abs((c @ wave) @ jnp.conj(wave).T) ** 2)

    def fast(c, t):
        return jnp.sum(jnp.abs(transforms.gather(transforms.spread(c, t, modes=4, sign=-1), t, sign=1)) ** 2)

    for order in (jax.grad, jax.hessian):
        expected = jax.jit(jax.vmap(order(plain, argnums=1)))(source, theta)
        found = jax.jit(jax.vmap(order(fast, argnums=1)))(source, theta)
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
