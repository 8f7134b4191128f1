"""The leading third cumulant: plain Runge-Kutta steps, an expansion for short times, symmetry, refusals."""

import numpy as np
import pytest
from scipy.special import iv

from sphereflow.errors import SphereflowError
from sphereflow.papers.lost_in_the_middle import reference
from sphereflow.retrieval import third_cumulant


@pytest.mark.parametrize("waves", [(2, -1, -1), (1, 1, -2), (1, -2, 1)])
def test_plain_steps_give_the_same(waves):
    found = third_cumulant(20, (5, 15), 1.0, beta=1.0, weights=1.0, waves=waves)
    assert 400 * found == pytest.approx(reference.third_cumulant(20, (5, 15), waves), rel=1e-6)


def test_short_times_by_hand():
    """The last token sees source k with weight w and meets source j on the way: two steps at least, so t^2."""
    n, t, beta = 4, 1e-3, 0.7
    w = reference.attention_matrix(n, 1.0)
    # u_2 and u_3 at the last token are t a w; their past is w e. With waves (2, -1, -1) both terms have the same sign.
    a = iv(1, beta)
    by_hand = 2 * a * a * t**2 / 2 * 2 * w[3, 0] * w[3, 1]
    # and the token k = 2 itself, which sees j = 1 at once and is seen by the last one
    by_hand += 4 * iv(2, beta) * t**2 / 2 * 2 * a * w[3, 1] * w[1, 0]
    assert third_cumulant(n, (1, 2), t, beta=beta, weights=1.0) == pytest.approx(by_hand, rel=5e-3)


def test_sources_and_their_waves_may_be_exchanged():
    one = third_cumulant(12, (3, 8), 0.8, beta=1.3, weights=0.5, waves=(1, 1, -2))
    other = third_cumulant(12, (8, 3), 0.8, beta=1.3, weights=0.5, waves=(1, -2, 1))
    assert one == pytest.approx(other, rel=1e-9)
    assert np.sign(one) == np.sign(third_cumulant(12, (3, 8), 0.8, beta=1.3, weights=0.5, waves=(-1, -1, 2)))


@pytest.mark.parametrize(
    ("told", "call"),
    [
        ("different tokens", lambda: third_cumulant(8, (3, 3), 1.0, beta=1.0, weights=1.0)),
        ("target must be", lambda: third_cumulant(8, (2, 5), 1.0, beta=1.0, weights=1.0, target=5)),
        ("sum to 0", lambda: third_cumulant(8, (2, 3), 1.0, beta=1.0, weights=1.0, waves=(1, 1, 1))),
        ("each of sources", lambda: third_cumulant(8, (2, 8), 1.0, beta=1.0, weights=1.0)),
    ],
)
def test_refusals(told, call):
    with pytest.raises(SphereflowError, match=told):
        call()


def test_a_token_does_not_know_those_behind_it():
    """The 9th of 12 tokens is the last of 9: distances are counted in units of the length, so the slope is 9/12."""
    early = third_cumulant(12, (3, 6), 0.8, beta=1.3, weights=0.5, target=9)
    assert early == pytest.approx(third_cumulant(9, (3, 6), 0.8, beta=1.3, weights=0.5 * 9 / 12), rel=1e-8)
    assert early != pytest.approx(third_cumulant(12, (3, 6), 0.8, beta=1.3, weights=0.5), rel=0.1)
