"""The paper's claims come out as expected; its formulas agree with reference values; known mistakes are caught."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import hyperu, softmax
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.dynamics import SA, USA
from sphereflow.evolution import evolve
from sphereflow.papers import load
from sphereflow.papers.mathematical_perspective import (
    circle,
    collapse,
    energy,
    equiangular,
    harmonics,
    high_dimension,
    long_context,
    normalisation,
    particles,
    phase,
    sphere_limits,
    trained_layers,
)

PAPER = load("mathematical-perspective")
RUN = Run()


class TestVerdicts(Verdicts):
    paper = PAPER
    slow_claims = (
        "phase-jump",
        "circle-at-negative-beta",
        "closest-pair-first",
        "clusters-as-a-rank",
        "clusters-from-noise",
        "cone-rate",
        "dissipation-identity",
        "energy-of-uniform",
        "fastest-mode",
        "first-output-is-short",
        "growth-rates",
        "growth-rates-on-the-sphere",
        "high-dimension-error",
        "high-dimension-mean",
        "kuramoto-limit",
        "matrices-keep-the-gradient",
        "one-cluster",
        "orthogonal-start",
        "pair-dynamics",
        "phase-curve",
        "phase-curve-needs-dimension",
        "phase-diagram-accuracy",
        "pre-norm-radius",
        "random-form-speed",
        "repulsion-finds-the-simplex",
        "scheme-initial-speed",
        "scheme-rates",
        "scheme-reduction",
        "two-clusters-along-the-eigenvector",
        "uniform-grid-is-fixed",
        "uniform-minimises",
        "usa-in-high-dimension",
        "variance-in-a-cone",
    )
    slow_figures = ("energy", "gamma-family", "growth-spectrum", "normalisation", "phase-diagram", "sphere")


# --- formulas against reference values ------------------------------------------------------------------------------

SA_128 = {0: 5.879396, 1: 5.909020, 3: 6.148087, 5: 7.634246, 7: 17.350424, 9: 82.593358}
SA_32 = {0: 5.186261, 1: 5.270284, 3: 5.897609, 5: 9.544329, 7: 32.233105, 9: 178.730930}
USA_32 = {0: 5.186261, 1: 2.897049, 3: 1.391519, 5: 0.974607, 7: 0.793962, 9: 0.685988}


@pytest.mark.parametrize(("model", "n", "table"), [("sa", 128, SA_128), ("sa", 32, SA_32), ("usa", 32, USA_32)])
def test_collapse_times(model, n, table):
    computed = [equiangular.collapse_time(n, beta, 1e-3, model) for beta in table]
    np.testing.assert_allclose(computed, list(table.values()), rtol=1e-6)


def test_runs_written_out_are_those_of_the_library_and_a_token_stands_where_one_equation_says():
    rng = np.random.default_rng(3)
    q, k, v = rng.normal(size=(3, 3, 3))
    x = sphere_limits.starts(rng, 8, 3)
    field = SA(1.0, query=q, key=k, value=v).field(jnp.zeros(()), jnp.asarray(x))
    np.testing.assert_allclose(sphere_limits.speeds(x[None], (q.T @ k)[None], v[None])[0], field, atol=1e-12)
    s = sphere_limits.standing_token(sphere_limits.BESIDE)
    tokens = np.array([[1.0, 0.0]] * 3 + [[-np.sqrt(1 - s * s), s]])
    rest = SA(1.0, query=sphere_limits.BESIDE.T, value=np.diag([1.0, 0.0])).field(jnp.zeros(()), jnp.asarray(tokens))
    assert np.abs(rest).max() < 1e-12
    assert s > 0.2


def test_collapse_time_at_beta_zero_has_a_closed_form():
    for n, delta in ((32, 1e-3), (7, 1e-6)):
        exact = np.log((1 + (n - 1) * (1 - delta)) / delta) / 2
        assert equiangular.collapse_time(n, 0.0, delta) == pytest.approx(exact, rel=1e-12)


def test_collapse_time_far_beyond_overflow():
    x = 1e6 / 31
    leading = 1e6 + np.log(hyperu(1, 1, x) / 62)
    assert equiangular.log_collapse_time(32, 1e6) == pytest.approx(leading, abs=1e-5)


def test_scalar_equation_crosses_at_the_collapse_time():
    for model, n, beta in (("sa", 32, 5.0), ("usa", 8, 2.0)):
        time = equiangular.collapse_time(n, beta, 1e-3, model)
        assert 1 - equiangular.gamma(np.array([time]), n, beta, model)[0] == pytest.approx(1e-3, rel=1e-9)


def test_growth_rates():
    computed = [circle.growth_rate(k, b, m) for b, k in ((2.0, 2), (8.0, 4)) for m in ("usa", "sa")]
    np.testing.assert_allclose(computed, [1.377897, 0.604451, 301.078832, 0.704172], rtol=1e-6)


def test_circle_is_the_sphere_in_dimension_two():
    for model in ("sa", "usa"):
        assert harmonics.harmonic_growth_rate(3, 2, 4.0, model) == pytest.approx(
            float(circle.growth_rate(3, 4.0, model)), rel=1e-12
        )


def test_uniform_energy():
    known = {
        (2, 1): 0.6330329389,
        (2, 4): 1.4127402440,
        (3, 1): 0.5876005968,
        (3, 4): 0.8528099124,
        (8, 1): 0.5320421982,
        (8, 4): 0.3128696042,
    }
    np.testing.assert_allclose([energy.uniform_energy(*case) for case in known], list(known.values()), rtol=2e-10)


def test_wendel():
    known = {(5, 2): 0.3125, (7, 3): 0.34375, (5, 3): 0.6875, (12, 5): 0.2744140625, (4, 9): 1.0, (10, 5): 0.5}
    assert {case: collapse.wendel(*case) for case in known} == known


def test_scheme_values():
    known = {
        "post": (0.9999964305, 1.0),
        "pre": (0.9326483138, 6.8133594),
        "peri": (0.9546799224, 8.3263991),
        "ngpt": (0.9999993814, 1.0),
        "sqrt": (0.9894825948, 1.0),
        "ln-scaling": (0.7282544768, 3.2949890),
    }
    for scheme, (inner, radius) in known.items():
        u, r = normalisation.reduction(scheme, 10, 2.0, np.array([8.0]))
        assert -np.expm1(-u[0]) == pytest.approx(inner, abs=1e-8)
        assert r[0] == pytest.approx(radius, abs=1e-6)


def test_pre_and_peri_prefactors():
    times = np.array([1e2, 1e3, 1e4])
    for scheme, known in (("pre", (1.14772, 1.11029, 1.10663)), ("peri", (1.10339, 1.10595, 1.10620))):
        u, _ = normalisation.reduction(scheme, 64, 1.0, times)
        np.testing.assert_allclose(np.exp(-u) * times**2, known, atol=1e-5)


def test_one_layer_by_plain_sums():
    n, rho, beta = 12, 0.3, 2.5
    x = np.linalg.cholesky((1 - rho) * np.eye(n) + rho)
    y = softmax(beta * x @ x.T, axis=1) @ x
    inner = y[0] @ y[1] / np.linalg.norm(y[0]) / np.linalg.norm(y[1])
    assert long_context.output_inner(n, rho, beta) == pytest.approx(inner, rel=1e-12)


# --- the particles behind the claims --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sa", "usa"])
def test_filling_up_changes_nothing(model):
    x0, times = particles.uniform_tokens(3, 7, 4), np.array([0.5, 2.0])
    dynamics = SA(2.0) if model == "sa" else USA(2.0, kernel_scale="raw")
    plain = evolve(dynamics, x0, saveat=[0.0, *times], tol=1e-11).xs[1:]
    np.testing.assert_allclose(particles.follow(model, 2.0, x0, times), plain, atol=1e-9)


def test_tokens_in_span_have_the_law_of_uniform_tokens():
    rng = np.random.default_rng(0)
    for n, d in ((4, 3), (4, 4), (4, 50)):
        x = high_dimension.tokens_in_span(rng, 20_000, n, d)
        np.testing.assert_allclose(np.linalg.norm(x, axis=-1), 1, rtol=1e-12)
        for i, j in ((0, 1), (2, 3)):
            inner = np.sum(x[:, i] * x[:, j], axis=-1)
            assert abs(inner.mean()) < 4 / np.sqrt(d * 20_000)
            assert np.mean(inner**2) == pytest.approx(1 / d, rel=0.06)


def test_crossing_times_do_not_depend_on_the_saved_times():
    """Coarse frames around a sudden collapse: the crossing is found all the same."""
    for beta in (4.0, 9.0):
        exact = equiangular.collapse_time(32, beta)
        times = np.array([0.0, 0.5, 0.8, 1.2]) * exact
        xs = np.concatenate([np.eye(32)[None], particles.follow("sa", beta, np.eye(32), times[1:])])
        assert high_dimension.crossing_time(beta, times, xs) == pytest.approx(exact, rel=1e-4)
        assert high_dimension.crossing_time(beta, times[:3], xs[:3]) == np.inf


def test_gram_matrix_obeys_its_own_equation():
    """G' = M + M^T with M = P G - diag(P G) G: the velocities of tokens give the same derivative."""
    x, beta = particles.uniform_tokens(1, 6, 9), 1.7
    gram = x @ x.T
    weights = softmax(beta * gram, axis=1)
    m = weights @ gram - np.sum(weights * gram, axis=1, keepdims=True) * gram
    v = particles.velocities("sa", beta, x)
    np.testing.assert_allclose(v @ x.T + x @ v.T, m + m.T, atol=1e-14)


@pytest.mark.slow
def test_the_quick_diagram_reports_and_clusters_at_small_beta():
    calls = []
    result = phase.diagram(Run(notify=lambda share, text: calls.append(share)), 2, np.array([0.5, 8.0]))
    assert calls == [0.5, 1.0]
    assert result.value[0, -1] > 0.9 > 0.6 > result.value[1, -1]
    assert result.value[:, 0].max() < 0.03


# --- the known mistakes are caught ----------------------------------------------------------------------------------


def test_leaving_out_the_self_term_is_seen():
    n, beta = 8, 1.0
    exact = 1 - particles.gaps(particles.follow("sa", beta, np.eye(n), np.array([1.0]))).mean()
    x, h = np.eye(n), 1e-3
    for _ in range(1000):
        weights = np.exp(beta * x @ x.T) * (1 - np.eye(n))
        pull = weights @ x / weights.sum(axis=1, keepdims=True)
        x = x + h * (pull - np.sum(pull * x, axis=1, keepdims=True) * x)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert abs((x @ x.T)[0, 1] - exact) > 0.01


def test_usa_weights_used_for_sa_are_seen():
    x, beta = energy.reference_state(), 2.0
    v = energy.raw_field(x, beta, "sa")
    wrong = np.mean(np.sum(v**2, axis=1))  # n |grad E|^2 with the speeds of SA
    right = energy.energy_rate_by_differences(x, beta, "sa")
    assert abs(wrong / right - 1) > 0.1


def test_a_frozen_radius_is_seen():
    frozen, _ = normalisation.reduction("post", 10, 2.0, np.array([8.0]))  # Pre-LN with r = 1 is Post-LN
    pre = normalisation.particle_schemes()["pre"][0][np.searchsorted(normalisation.TIMES, 8.0)]
    assert abs(np.exp(-frozen[0]) - pre) > 0.05


def test_points_of_a_cube_are_not_uniform():
    n, d, beta = 1024, 3, 8.0
    x = np.random.default_rng(0).uniform(-1, 1, (n, d))
    x = jnp.asarray(np.pad(x / np.linalg.norm(x, axis=1, keepdims=True), ((0, 0), (0, 5))))
    distance = abs(energy.pair_energy(x, beta) - energy.uniform_energy(d, beta))
    assert distance > 4 * energy.pair_energy_error(n, d, beta)


def test_wendel_with_one_term_more_is_seen():
    draws = particles.uniform_tokens(0, 1500, 7, 3)
    seen = np.mean([collapse.in_open_hemisphere(x) for x in draws])
    assert abs(collapse.wendel(7, 4) - seen) > 4 * np.sqrt(seen * (1 - seen) / 1500)


def test_dropping_the_projection_is_seen():
    simplex = np.asarray(collapse.equiangular_frame(5, 5, -0.25))
    assert np.linalg.norm(SA(2.0).pull(jnp.asarray(simplex)), axis=1).min() > 0.1


def test_a_layer_without_attention_does_not_pass_for_attention(monkeypatch):
    kept = trained_layers.recorded_layer
    swapped = {"no-mlp": "no-attention", "no-attention": "no-mlp"}
    monkeypatch.setattr(
        trained_layers, "recorded_layer", lambda layer, variant, *how: kept(layer, swapped.get(variant, variant), *how)
    )
    assert trained_layers.attention_of_a_trained_layer_gathers(Run()).verdict == "fails"
    assert trained_layers.limit_predicted_for_a_trained_layer(Run()).verdict == "fails"


def test_clusters_at_large_beta_are_no_news_of_the_count(monkeypatch):
    """A count that always says two fails the rows of one cluster, one that always says one the row of several."""
    for count in (1, 2):
        monkeypatch.setattr(collapse, "cluster_count", lambda x, count=count: count)
        assert collapse.one_cluster(RUN).verdict == "fails"
