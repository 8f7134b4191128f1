"""Kernels of one's own in linear time: the same sums as over all pairs, as accurate as promised, or refused."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import log_p, make_mask, unit

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.interaction import Direct, Fourier, Harmonic, Polynomial, attend, choose
from sphereflow.interaction.direct import ratio
from sphereflow.interaction.series import circle_series, needed, samples, sphere_series
from sphereflow.kernels import Derivative, FunctionKernel

N, BETA, TOL = 150, 2.0, 1e-9
X = {d: unit(np.random.default_rng(d), N, d) for d in (2, 3, 4)}

# Name: (kernel, modes on the circle, modes as powers in d = 4)
KERNELS = {
    "quadratic": (lambda s, beta: 1 + s**2, 2, 2),
    "exponential": (lambda s, beta: jnp.exp(beta * s), 24, 24),
    "cosh": (lambda s, beta: jnp.cosh(beta * s), 24, 24),
    "pole": (lambda s, beta: 1 / (1 + beta - s), 20, 20),
    "power": (lambda s, beta: (1 + s) ** 5, 5, 5),
    "gaussian": (lambda s, beta: jnp.exp(-beta * (1 - s) ** 2), 30, 24),
    "signs": (lambda s, beta: jnp.sin(3 * s + beta), 26, 24),
}
ENGINES = {2: Fourier, 3: Harmonic, 4: Polynomial}


def made(name, d):
    kernel, modes, powers = KERNELS[name]
    return kernel, ENGINES[d](powers if d == 4 else modes, TOL)


def exact(kernel, x, w, beta=BETA, p=1.0):
    """Z and sums over all pairs in NumPy."""
    k = np.asarray(kernel(jnp.asarray(x @ x.T), beta)) * p * w
    return k.sum(axis=1), k @ x


@pytest.mark.parametrize(
    ("name", "d"),
    [
        pytest.param(name, d, marks=[] if (name, d) in {("gaussian", 3), ("signs", 2)} else pytest.mark.slow)
        for name in KERNELS
        for d in (2, 3, 4)
    ],
)
def test_sums_keep_the_tolerance_of_the_engine(name, d):
    kernel, engine = made(name, d)
    x, w = X[d], np.linspace(1, 2, N) / N
    z, sums = exact(kernel, x, w)
    xs = jnp.asarray(x)
    average, log_z = attend(xs, xs, xs, BETA, weights=jnp.asarray(w), kernel=kernel, method=engine)
    assert np.abs(log_z - np.log(np.abs(z))).max() <= TOL
    wanted = sums / np.abs(z)[:, None]
    assert (np.abs(average - wanted).max(axis=1) <= TOL * np.maximum(1, np.abs(wanted).max(axis=1))).all()


def test_sums_that_are_not_divided():
    kernel, engine = made("signs", 2)
    x = jnp.asarray(X[2])
    z, sums = exact(kernel, X[2], 1 / N)
    found = attend(x, x, x, BETA, kernel=kernel, method=engine, divide=False).average
    assert (np.linalg.norm(found - sums, axis=1) <= TOL * np.maximum(np.abs(z), np.linalg.norm(sums, axis=1))).all()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [2, 3, 4])
def test_the_coefficients_of_a_kernel_make_the_kernel(name, d):
    """A kernel enters an expansion through its coefficients alone."""
    kernel, engine = made(name, d)
    expansion, beta = engine.expansion(d).of(FunctionKernel(kernel)), jnp.asarray(BETA)
    s = np.cos(np.linspace(0, np.pi, 999))
    evaluate = np.polynomial.polynomial.polyval if d == 4 else np.polynomial.chebyshev.chebval
    terms = np.asarray(expansion.coefficients(beta) if d == 4 else expansion.terms(beta))
    series = np.polynomial.legendre.legval(s, terms) if d == 3 else evaluate(s, terms)
    values = np.asarray(kernel(s, BETA))
    error = np.abs(series - values).max()
    assert error <= expansion.tail(beta) + expansion.rounding(beta)
    assert error <= TOL * np.abs(values).max()


@pytest.mark.parametrize(
    ("d", "kind"),
    [(2, "strict"), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, "causal"), (4, "alibi")))],
)
def test_causal_sums(d, kind):
    kernel, engine = made("gaussian", d)
    x = X[d]
    z, sums = exact(kernel, x, 1 / N, p=np.exp(log_p(kind, N, N)))
    average, log_z = attend(*(jnp.asarray(x),) * 3, BETA, mask=make_mask(kind), kernel=kernel, method=engine)
    first = 1 if kind == "strict" else 0
    assert np.abs(log_z[first:] - np.log(z[first:])).max() <= TOL
    assert np.abs(average[first:] - sums[first:] / z[first:, None]).max() <= TOL
    assert np.isfinite(average).all()


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_derivatives_in_tokens_weights_and_a_traced_beta(d):
    """The number of modes is given, so beta may be traced; the derivative kernels have coefficients of their own."""
    kernel, engine = made("gaussian", d)
    direction = np.random.default_rng(7).normal(size=(2, N, d))

    def total(x, w, beta, method):
        average, log_z = attend(x, x, x, beta, weights=w, kernel=kernel, method=method)
        return jnp.sum(average * direction[0]) + jnp.sum(log_z * direction[1][:, 0])

    arguments = jnp.asarray(X[d]), jnp.linspace(1.0, 2.0, N) / N, jnp.asarray(BETA)
    fast, slow = (
        jax.jit(jax.grad(lambda *a, m=method: total(*a, m), argnums=(0, 1, 2)))(*arguments)
        for method in (engine, Direct())
    )
    for found, wanted in zip(fast, slow, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.slow
def test_the_derivative_of_a_derivative():
    kernel, engine = made("pole", 2)
    x = jnp.asarray(X[2][:20])

    def of_beta(beta, method):
        return jnp.sum(attend(x, x, x, beta, kernel=kernel, method=method).log_partition)

    fast, slow = (float(jax.grad(jax.grad(of_beta))(BETA, method)) for method in (engine, Direct()))
    assert fast == pytest.approx(slow, rel=1e-8)


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_single_precision(d):
    kernel, _ = made("gaussian", d)
    x = jnp.asarray(X[d], jnp.float32)
    average, log_z = attend(x, x, x, BETA, kernel=kernel, method=ENGINES[d](20, 1e-4))
    assert average.dtype == log_z.dtype == jnp.float32
    z, sums = exact(kernel, X[d], 1 / N)
    assert np.abs(log_z - np.log(z)).max() <= 1e-4
    assert np.abs(average - sums / z[:, None]).max() <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("method", [Direct(), Fourier(24)], ids=lambda m: m.name)
def test_constants_of_double_precision_stay_out_of_single(method):
    half = np.float64(0.5)
    x = jnp.asarray(X[2], jnp.float32)
    own = FunctionKernel(lambda s, beta: jnp.exp(beta * s) * jnp.asarray(half, jnp.float64))
    assert attend(x, x, x, 1.0, kernel=own, method=method).average.dtype == jnp.float32
    assert sf.USA(1.0, kernel=own).energy(x).dtype == jnp.float32
    assert sf.USA(1.0, kernel=own).field(jnp.zeros((), jnp.float32), x).dtype == jnp.float32


def test_coefficients_are_those_of_the_exponential_and_of_polynomials():
    beta = jnp.asarray(3.0)
    own = FunctionKernel(lambda s, beta: jnp.exp(beta * (s - 1)))
    for engine, d in ((Fourier(40), 2), (Harmonic(40), 3), (Polynomial(20), 5)):
        expansion = engine.expansion(d)
        assert np.abs(expansion.of(own).terms(beta) - expansion.terms(beta)).max() < 1e-14
    line = FunctionKernel(lambda s, beta: 1 + beta * (2 * s**2 - 1))
    np.testing.assert_allclose(circle_series(line, 3, beta).terms, [1, 0, 3, 0], atol=1e-14)
    np.testing.assert_allclose(sphere_series(line, 3, beta).terms, [0, 0, 4, 0], atol=1e-14)  # 1 + 3 (4 P_2 - 1) / 3


@pytest.mark.parametrize("on_sphere", [False, True])
def test_the_error_of_truncation_is_measured_on_the_whole_interval(on_sphere):
    """Against the series evaluated in NumPy between the nodes; both ends included."""
    kernel, beta, modes = FunctionKernel(lambda s, beta: jnp.exp(-beta * (1 - s) ** 2)), jnp.asarray(6.0), 14
    series = (sphere_series if on_sphere else circle_series)(kernel, modes, beta)
    s = np.cos(np.linspace(0, np.pi, 20_001))
    form = np.polynomial.legendre.legval if on_sphere else np.polynomial.chebyshev.chebval
    worst = np.abs(form(s, np.asarray(series.terms)) - np.asarray(kernel(s, beta))).max()
    assert worst > 1e-6
    assert worst <= float(series.missed) <= 1.2 * worst
    assert samples(kernel, 6.0).missed(modes, on_sphere) == pytest.approx(worst, rel=1e-3)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_the_fastest_engine_is_found_for_a_smooth_kernel(name, d):
    kernel = FunctionKernel(KERNELS[name][0])
    n = 10**5 if d < 4 else 10**6
    choice = choose(n, n, d, BETA, kernel=kernel, tol=1e-6, self_attention=True, memory=1e12)
    assert choice.engine.name == ENGINES[d].name, choice
    if name in ("quadratic", "power"):  # polynomials have as many modes as their degree
        assert choice.modes == KERNELS[name][1]


@pytest.mark.parametrize("d", [2, 3])
def test_rounding_of_the_samples_asks_for_no_modes(d):
    """Just as many modes as the exponential of the same width, at the tightest tolerance."""
    gaussian = FunctionKernel(lambda s, beta: jnp.exp(-beta * (1 - s) ** 2))
    for kernel, modes in ((gaussian, 40), (FunctionKernel(lambda s, beta: jnp.exp(beta * (s - 1))), 30)):
        found = needed(kernel, 4.0, 1e-17, on_sphere=d == 3)
        assert 15 < found.modes <= modes
        assert found.reached < 4e-15


KINKS = {"relu": lambda s, beta: jnp.maximum(s, 0), "absolute": lambda s, beta: jnp.abs(s) + beta}


@pytest.mark.parametrize("name", KINKS)
@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_kink_is_summed_over_all_pairs_or_refused_with_the_error_reached(name, d):
    kernel = FunctionKernel(KINKS[name])
    choice = choose(10**5, 10**5, d, BETA, kernel=kernel, self_attention=True, memory=1e12)
    assert choice.engine.name == "direct"
    assert "reaches an error of" in choice.reason
    engine = ENGINES[d](20)
    with pytest.raises(SphereflowError, match=r"reaches an error of \d\.\de-0[1-5] of its largest value"):
        choose(10**5, 10**5, d, BETA, kernel=kernel, method=engine.name, memory=1e12)
    x = jnp.asarray(X[d])
    with pytest.raises(SphereflowError, match=rf"{engine.name} engine with 20 modes reaches an error of \d"):
        attend(x, x, x, BETA, kernel=kernel, method=engine)
    with pytest.raises(SphereflowError, match="reaches an error of"):
        sf.evolve(sf.USA(BETA, kernel=kernel, engine=engine), x, 1.0)


@pytest.mark.slow
def test_a_kink_under_a_traced_beta_costs_time_and_not_accuracy():
    x = jnp.asarray(X[2])
    z, sums = exact(KINKS["absolute"], X[2], 1 / N)
    found = jax.jit(lambda beta: attend(x, x, x, beta, kernel=KINKS["absolute"], method=Fourier(20)))(BETA)
    assert np.abs(found.average - sums / z[:, None]).max() <= 1e-9


def test_too_few_modes_are_refused_where_beta_is_known():
    kernel, _ = made("gaussian", 2)
    with pytest.raises(SphereflowError, match="fourier engine with 6 modes reaches an error of"):
        attend(*(jnp.asarray(X[2]),) * 3, BETA, kernel=kernel, method=Fourier(6))
    with pytest.raises(SphereflowError, match="any_query is for the exponential"):
        attend(*(jnp.asarray(X[2]),) * 3, BETA, kernel=kernel, method=Fourier(40, any_query=True))
    assert choose(10**5, 10**5, 2, 2.0, kernel=FunctionKernel(jnp.divide)).engine.name == "fourier"
    infinite = choose(10**5, 10**5, 2, 2.0, kernel=FunctionKernel(lambda s, beta: jnp.sqrt(s)))
    assert "not finite" in infinite.reason


@pytest.mark.parametrize("method", [Direct(), Fourier(3)], ids=lambda m: m.name)
def test_weights_that_sum_to_zero_have_a_mean(method):
    """k = s and tokens in opposite pairs: Z = 0."""
    half = X[2][:5]
    x = jnp.asarray(np.concatenate([half, -half]))
    kernel = FunctionKernel(lambda s, beta: s)
    np.testing.assert_allclose(sf.USA(1.0, kernel=kernel, engine=method).pull(x), x @ x.T @ x / 10, atol=1e-14)


@pytest.mark.slow
def test_what_is_divided_by_zero_is_not_finite():
    sums = jnp.asarray([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [3.0, 1.0, -2.0]])  # of two values, and Z
    own = FunctionKernel(lambda s, beta: s)
    average, log_z = ratio(sums, jnp.zeros(3), own)
    np.testing.assert_array_equal(average, [[np.inf, 0], [0, 0], [1.5, 0.5]])
    np.testing.assert_allclose(log_z, [-np.inf, -np.inf, np.log(2)])
    np.testing.assert_array_equal(ratio(sums, jnp.zeros(3), own, divide=False).average, sums[:, :2])
    assert np.isfinite(jax.grad(lambda z: ratio(sums.at[2, 2].set(z), jnp.zeros(3), own).average[2, 0])(-2.0))


@pytest.mark.slow
@pytest.mark.parametrize("d", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_evolve_takes_the_engine_of_linear_time_and_its_energy(d):
    """The same run and energy as over all pairs; the potential of the kernel has coefficients as well."""
    kernel = KERNELS["gaussian"][0]
    x0 = X[d][:40]
    runs = [sf.evolve(sf.USA(BETA, kernel=kernel), x0, 1.0, saveat=3, method=m) for m in (ENGINES[d].name, "direct")]
    assert [run.engine for run in runs] == [ENGINES[d].name, "direct"]
    assert np.abs(runs[0].xs - runs[1].xs).max() < 1e-8
    np.testing.assert_allclose(runs[0].energy, runs[1].energy, rtol=1e-9)
    assert sf.USA(BETA, kernel=kernel).tuned(10**5, d, 1e-8).engine_name == ENGINES[d].name


@pytest.mark.slow
def test_evolve_takes_an_engine_as_an_object():
    x0 = X[2][:30]
    run = sf.evolve(sf.SA(BETA), x0, 0.5, saveat=2, method=Fourier(30, 1e-11))
    named = sf.evolve(sf.SA(BETA), x0, 0.5, saveat=2, method="direct")
    assert (run.engine, run.engine_error) == ("fourier", 1e-11)
    assert run.model.engine == Fourier(30, 1e-11)
    assert np.abs(run.xs - named.xs).max() < 1e-8
    assert run.extend(1.0).engine == "fourier"
    assert sf.evolve(sf.SA(BETA), x0, 0.5, saveat=2, method=Direct()).engine == "direct"
    with pytest.raises(SphereflowError, match="cannot serve this model: its sums are done as 'direct'"):
        sf.evolve(sf.SA(BETA, query=np.eye(2)), x0, 0.5, method=Fourier(30))


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from attention_oracle import unit
from sphereflow.interaction import Causal, Fourier, Harmonic, Sharded, attend, sharded

mesh = sharded.token_mesh()
assert mesh.size == 4, mesh
cases = (2, Fourier(40), Causal(), np.tril(np.ones((64, 64))), True), (3, Harmonic(40), None, 1, False)
for d, engine, mask, p, divide in cases:
    x = unit(np.random.default_rng(0), 64, d)
    k = np.sin(3 * x @ x.T + 2) * p / 64
    own = lambda s, beta: jnp.sin(3 * s + beta)
    tokens = sharded.spread(jnp.asarray(x), mesh)
    options = {"mask": mask, "kernel": own, "divide": divide, "method": Sharded(engine, mesh)}
    found = jax.jit(lambda x, beta: attend(x, x, x, beta, **options))(tokens, 2.0).average
    wanted = k @ x / (np.abs(k.sum(1))[:, None] if divide else 1)
    size = np.maximum(1, np.abs(wanted).max(1, keepdims=True)) if divide else 1
    assert len(found.sharding.device_set) == 4
    assert (np.abs(found - wanted) <= 1e-9 * size).all()
print("all equal")
"""


@pytest.mark.slow
def test_tokens_split_over_devices():
    told = subprocess.run(
        [sys.executable, "-c", SHARDED],
        capture_output=True,
        text=True,
        cwd="tests/interaction",
        env=os.environ | {"XLA_FLAGS": os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"},
    )
    assert told.stdout.strip() == "all equal", told.stderr


WRONG = {  # types among them, which the checks of annotations in tests would refuse first
    "Fourier(20, tol=-1)": "tol must be a finite number above 0, got -1.",
    "Fourier(20, tol=0)": "tol must be a finite number above 0, got 0.",
    "Harmonic(20, tol=math.nan)": "tol must be a finite number above 0, got nan.",
    "Polynomial(20, tol=math.inf)": "tol must be a finite number above 0, got inf.",
    "Fourier(20, tol='1e-9')": "tol must be a finite number above 0, got '1e-9'.",
    "Fourier(20, tol=True)": "tol must be a finite number above 0, got True.",
    "Fourier(20, tol=None)": "tol must be a finite number above 0, got None.",
    "Fourier(0)": "modes must be a whole number of at least 1 and at most 1000000, got 0.",
    "Harmonic(2.5)": "modes must be a whole number of at least 1 and at most 256, got 2.5.",
    "Harmonic(10**6)": "modes must be a whole number of at least 1 and at most 256, got 1000000.",
    "Polynomial('9')": "modes must be a whole number of at least 1 and at most 40, got '9'.",
    "Fourier(True)": "modes must be a whole number of at least 1 and at most 1000000, got True.",
    "Fourier(9, nufft=1)": "nufft must be True or False, got 1.",
    "Fourier(9, any_query='no')": "any_query must be True or False, got 'no'.",
    "Sharded('direct', None)": "engine must be an engine of one device such as Direct(), got 'direct'.",
    "Sharded(Fourier(9), None)": "mesh must be a mesh of devices such as token_mesh(), got None.",
    "evolve(SA(1.0), np.eye(2), 1.0, method=Sharded(Fourier(9), token_mesh()))": (
        "method must be an engine of one device: devices= splits the tokens."
    ),
    "Fourier(np.int64(9), np.float32(0.5))": "Fourier(modes=9, tol=0.5, nufft=False, any_query=False)",
}
TRIED = """
import json, math, sys
import numpy as np
from sphereflow import SA, SphereflowError, evolve
from sphereflow.interaction import Fourier, Harmonic, Polynomial, Sharded
from sphereflow.interaction.sharded import token_mesh

def told(given):
    try:
        return repr(eval(given))
    except SphereflowError as error:
        return str(error)

print(json.dumps([told(given) for given in json.loads(sys.argv[1])]))
"""


def test_engines_refuse_what_is_no_size_and_no_tolerance():
    command = [sys.executable, "-c", TRIED, json.dumps(list(WRONG))]
    told = subprocess.run(command, capture_output=True, text=True)
    assert dict(zip(WRONG, json.loads(told.stdout), strict=True)) == WRONG, told.stderr


def test_too_many_monomials_and_a_tolerance_of_attend_are_refused():
    with pytest.raises(SphereflowError, match="monomials in dimension d=12"):
        Polynomial(40).expansion(12)
    with pytest.raises(SphereflowError, match="tol must be"):
        attend(*(jnp.asarray(X[2]),) * 3, BETA, method="direct", tol=-1.0)


def test_a_derivative_as_a_kernel():
    s = np.linspace(-1, 1, 7)
    own = FunctionKernel(lambda s, beta: beta**2 * s**3)
    np.testing.assert_allclose(Derivative(own)(s, 2.0), 12 * s**2)
    np.testing.assert_allclose(Derivative(own, by_beta=True)(s, 2.0), 4 * s**3)
