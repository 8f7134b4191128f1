"""`fit(kl=...)`: as few switches as it takes, with bounds that hold, and the reason where nothing can be reached."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, t

from sphereflow import transport
from sphereflow.errors import SphereflowError
from sphereflow.transport.euclidean.by_accuracy import sampled_certificate
from sphereflow.transport.euclidean.certificates import line_certificate
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear

TWO = transport.Mixture([[-2.0], [2.0]], 0.5)
LINE = transport.gaussian(1)
FRAME = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]


def test_bounds_hold_the_value_of_another_quadrature():
    """One scaling by m: KL(target||N(0, m^2)) by SciPy, for a mixture and for Student laws."""
    scaling = piecewise_linear([0.0], [0.0], 1.7, 1.7)
    for target, density in (
        (TWO, lambda y: (norm.pdf(y, -2, 0.5) + norm.pdf(y, 2, 0.5)) / 2),
        (transport.StudentT(3.0), lambda y: t.pdf(y, 3)),
        (transport.StudentT(5.0), lambda y: t.pdf(y, 5)),
    ):
        exact = 2 * sum(
            quad(lambda y, f=density: f(y) * (np.log(f(y)) - norm.logpdf(y, scale=1.7)), a, b, limit=200)[0]
            for a, b in ((0, 2), (2, 9), (9, 1e2), (1e2, 1e4), (1e4, 1e7))
            if density(a) > 1e-300 and density(b) >= 0 and (density(b) > 0 or b < 50)
        )
        found = line_certificate(scaling, LINE, target)
        assert found.proved
        assert found.lower <= exact + 1e-6
        assert found.upper >= exact - 1e-12
        assert found.upper - found.lower < 1e-4


def test_error_bound_is_not_violated_by_coarse_cells():
    schedule = Rearrangement(LINE, TWO).schedule(8)
    fine = line_certificate(schedule, LINE, TWO)
    for fineness in (0.01, 0.03, 0.1):
        coarse = line_certificate(schedule, LINE, TWO, fineness=fineness)
        assert coarse.lower <= fine.lower
        assert coarse.upper >= fine.upper


def test_gaussian_to_gaussian_in_closed_form():
    found = line_certificate(piecewise_linear([0.0], [0.3], 2.0, 2.0), LINE, LINE)
    exact = float(mp.log(2) + (1 + mp.mpf("0.09")) / 8 - mp.mpf(1) / 2)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower < 1e-5


def test_the_number_of_switches_is_the_smallest():
    table = transport.switches_needed(LINE, TWO, [0.1, 0.01])
    assert table.switches.tolist() == [6, 16]
    assert table.proved.all()
    assert (table.upper <= table.kl).all()
    knots = table.switches - 1
    for kl, k in zip(table.kl, knots, strict=True):
        assert line_certificate(Rearrangement(LINE, TWO).schedule(int(k) - 1), LINE, TWO).lower > kl


def test_products_add_up_in_any_frame():
    target = transport.ProductLaw([TWO] * 3, FRAME)
    found = transport.fit(transport.gaussian(3), target, kl=0.1)
    assert found.switches == 29
    assert found.certificate.proved
    assert found.certificate.upper <= 0.1
    estimate = found.divergences.forward
    assert abs(estimate.value - found.certificate.upper) < 6 * estimate.error
    x = target.sample(5, 3)
    np.testing.assert_allclose(
        target.log_density(x),
        [sum(math.log((norm.pdf(c, -2, 0.5) + norm.pdf(c, 2, 0.5)) / 2) for c in FRAME @ p) for p in x],
    )


def test_sampled_bounds_are_called_sampled():
    target = transport.ProductLaw([TWO] * 2)
    found = transport.fit(transport.gaussian(2), target, kl=0.1)
    sampled = sampled_certificate(found.schedule, transport.gaussian(2), target, points=20_000)
    assert not sampled.proved
    assert "confidence" in str(sampled)
    assert sampled.lower <= found.certificate.upper
    assert sampled.upper >= found.certificate.lower


def test_heavy_tails_are_reached_if_they_have_a_second_moment():
    table = transport.switches_needed(LINE, transport.StudentT(3.0), [0.1, 0.01])
    assert table.switches.tolist() == [3, 9]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: transport.fit(LINE, transport.StudentT(2.0), kl=0.1), "no second moment"),
        (
            lambda: transport.fit(transport.gaussian(2), transport.ProductLaw([TWO, transport.StudentT(1.5)]), kl=0.1),
            "no second moment",
        ),
        (lambda: transport.fit(LINE, TWO), "either pieces or kl"),
        (lambda: transport.fit(LINE, TWO, 10, kl=0.1), "either pieces or kl"),
        (lambda: transport.fit(LINE, TWO, kl=-1.0), "kl"),
        (lambda: transport.fit(LINE, TWO, kl=math.nan), "kl"),
        (lambda: transport.fit(LINE, TWO, method="train", kl=0.1), "constructed"),
        (lambda: transport.fit(LINE, np.zeros((50, 1)) + np.arange(50)[:, None], kl=0.1), "between laws"),
        (lambda: transport.ProductLaw([]), "at least two"),
        (lambda: transport.ProductLaw([TWO, TWO], np.ones((2, 2))), "orthonormal"),
        (lambda: transport.fit(LINE, TWO, kl=1e-8), "kl"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        call()
