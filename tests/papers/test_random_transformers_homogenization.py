"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import jax.numpy as jnp
import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow.claims import Run
from sphereflow.papers import load
from sphereflow.papers.random_transformers_homogenization import (
    collapse,
    initialisation,
    one_layer,
    orders,
    shared_noise,
    slow_motion,
)
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.pair_equation import pair_drift, pair_variance_rate

PAPER = load("random-transformers-homogenization")


class TestVerdicts(Verdicts):
    paper = PAPER
    refuted = (
        "modified-equation",
        "overlap-of-images",
        "slow-motion",
    )
    slow_claims = (
        "ballistic-limit",
        "cold-attention-delays-collapse",
        "cold-attention-moves-slowly",
        "cold-lyapunov",
        "colder-is-slower",
        "collapse-time-and-context",
        "collapse-time-and-temperature",
        "cosines-at-initialisation",
        "cross-ratios",
        "density-against-networks",
        "final-collapse-rate",
        "fokker-planck-at-infinite-temperature",
        "fokker-planck-slopes",
        "sphere-density-against-networks",
        "largest-noise",
        "mitigations",
        "modified-equation",
        "networks-follow-the-simplex",
        "no-mean-motion",
        "overlap-drift-and-variance",
        "other-weights",
        "overlap-of-images",
        "propagation-of-chaos",
        "same-argmax",
        "slow-motion-limits",
        "soft-moments",
        "two-token-weak-error",
        "slow-motion",
        "strong-order",
        "two-prompts",
        "weak-order",
    )
    slow_figures = ("collapse", "gram-matrices", "regimes", "slow-motion-paths", "weak-error")


def test_values_of_variance_one_are_caught(monkeypatch):
    right = orders.one_step_factor
    monkeypatch.setattr(orders, "one_step_factor", lambda d, sigma: right(d, sigma * np.sqrt(d)))
    assert orders.one_token(Run()).verdict == "fails"


def test_the_drift_of_infinite_dimension_is_caught(monkeypatch):
    right = collapse.overlap_path
    monkeypatch.setattr(collapse, "overlap_path", lambda t, n, s, d, start: right(t, n, s, np.inf, start))
    assert collapse.simplex_equation(Run()).verdict == "fails"


def test_flat_attention_at_initialisation_is_caught(monkeypatch):
    right = initialisation.gram_path
    monkeypatch.setattr(initialisation, "gram_path", lambda blocks, n, order=0: right(blocks, n, order=0))
    assert initialisation.attention_is_not_flat(Run()).verdict != "holds"


@pytest.mark.slow
def test_weights_that_prompts_do_not_share_are_caught(monkeypatch):
    right = shared_noise.two_prompts

    def apart(networks, tau, seed):
        found = right(networks, tau, seed)
        return found._replace(shared=found.independent)

    monkeypatch.setattr(shared_noise, "two_prompts", apart)
    assert shared_noise.prompts_meet(Run()).verdict == "fails"


@pytest.mark.slow
def test_softmax_over_the_queries_is_caught(monkeypatch):
    def transposed(self, root, scores):
        logits = self.beta * jnp.einsum("ka,hab,ib->hik", root, scores, root)
        weights = jnp.exp(logits)
        return weights / weights.sum(axis=-2, keepdims=True)

    right = one_layer.sampled.__wrapped__
    monkeypatch.setattr(RandomNetwork, "attend", transposed)
    # Another number of samples compiles again, with the wrong softmax in it.
    monkeypatch.setattr(one_layer, "sampled", lambda samples, seed: right(50_000, seed))
    assert one_layer.overlap_equation(Run()).verdict == "fails"


@pytest.mark.slow
def test_head_averaging_by_the_square_root_is_caught(monkeypatch):
    right = collapse.RandomNetwork
    monkeypatch.setattr(collapse, "RandomNetwork", lambda law, s, step, heads: right(law, s, step * heads**0.5, heads))
    monkeypatch.setattr(collapse, "network_path", collapse.network_path.__wrapped__)
    assert collapse.follow_the_simplex(Run()).verdict == "fails"


@pytest.mark.slow
def test_product_weights_are_not_orthogonal_ones():
    check = slow_motion.slow_motion(Run())
    assert check.verdict == "refuted"
    assert all(check.excess(rival) > 1.2 for rival in check.rivals)


@pytest.mark.slow
def test_the_drift_of_another_equation_is_caught(monkeypatch):
    right = orders.reference_paths
    monkeypatch.setattr(
        orders, "reference_paths", lambda normals, h, noise, pull=1.0: right(normals, h, noise, 3 * pull)
    )
    assert orders.strong_order(Run()).verdict == "fails"


@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_opposite_tokens_repel_displaced_ones_above_three_dimensions_only(d):
    """At s = 0 nothing moves at r = -1; beside it the logarithm of 1 + r has the drift (d - 3)/d."""
    e = 1e-6
    rate = float(pair_drift(-1 + e, d, 0.0) / e - pair_variance_rate(-1 + e, d, 0.0) / (2 * e * e))
    assert rate == pytest.approx((d - 3) / d, abs=1e-5)
    assert float(pair_drift(-1.0, d, 0.0)) == pytest.approx(0, abs=1e-15)
    assert float(pair_variance_rate(-1.0, d, 0.0)) == pytest.approx(0, abs=1e-15)
