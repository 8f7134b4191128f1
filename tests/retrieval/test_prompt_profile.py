"""Profiles of prompts with a law of their own: the closed form for uniform ones, plain loops for three tokens."""

import itertools

import numpy as np
import pytest

from sphereflow import retrieval
from sphereflow.errors import SphereflowError
from sphereflow.retrieval.prompt_profile import simulated


def uniform(sigma, theta):
    return np.ones_like(sigma + theta)


@pytest.mark.slow
def test_uniform_tokens_have_the_closed_form():
    prompt = retrieval.density_prompt(uniform, 32)
    for readout in ("soft", "hard"):
        found = retrieval.profile(1.0, 1.0, 1.0, 8, prompt=prompt, positions=(0.3,), readout=readout, weight=2.0)
        np.testing.assert_allclose(found.excess, found.uniform, rtol=1e-5)


def test_three_tokens_by_enumeration():
    """All prompts of three codewords with unequal probabilities, each solved by plain loops."""
    vocab, steps = 3, 40
    law = np.array([0.5, 0.3, 0.2])
    prompt = retrieval.codeword_prompt(lambda sigma: np.tile(law, (len(sigma), 1)), vocab)
    ratio = np.exp(-1 / 3)
    weights = np.array([[0, 0, 0], [1, 0, 0], [ratio / (1 + ratio), 1 / (1 + ratio), 0]])

    def force(x):
        gap = x[:, None] - x[None]
        return (weights * -np.sin(gap) * np.exp(np.cos(gap))).sum(axis=1)

    hit, words = retrieval.soft_hit, 2 * np.pi * np.arange(vocab) / vocab
    joint = alone = 0.0
    for m in itertools.product(range(vocab), repeat=3):
        x, h = words[list(m)], 1 / steps
        for _ in range(steps):
            k1 = force(x)
            k2 = force(x + h / 2 * k1)
            k3 = force(x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + force(x + h * k3))
        p = law[list(m)].prod()
        joint += p * hit(x[2:] - words[m[1]], vocab)[0]
        alone += p * law @ hit(x[2] - words, vocab)
    found = simulated(prompt, 3, 1, 1.0, 1.0, 1.0, vocab, "soft", 3000, 0)
    assert abs(found.value - 3 * (joint - alone)) < 5 * found.error
    assert 0 < found.error < 0.02


def test_without_a_prompt_it_is_the_closed_form():
    assert isinstance(retrieval.profile(1.0, 1.0, 1.0), retrieval.Profile)


@pytest.mark.parametrize(
    ("told", "given"),
    [
        ("positions must be increasing", {"positions": (0.5, 0.2)}),
        ("positions must be increasing", {"positions": ()}),
        ("each of positions", {"positions": (0.0, 0.2)}),
    ],
)
def test_refusals(told, given):
    prompt = retrieval.density_prompt(uniform, 8)
    with pytest.raises(SphereflowError, match=told):
        retrieval.profile(1.0, 1.0, 1.0, prompt=prompt, **given)
