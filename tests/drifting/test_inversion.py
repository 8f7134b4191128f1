"""Laws recovered from fields, margins and hidden laws, against sums and against sixty digits."""

import mpmath
import numpy as np
import pytest

from sphereflow import drifting
from sphereflow.errors import SphereflowError
from sphereflow.papers.drifting_with_friction.reference import margin

NODES = np.linspace(-1, 1, 5)
LAW = np.array([0.1, 0.3, 0.05, 0.35, 0.2])
X = np.linspace(-0.3, 0.3, 31)


def field(x, nodes, p, q, width=0.5):
    """V of the Gaussian kernel by loops."""
    found = []
    for place in x:
        k = [np.exp(-np.sum((place - y) ** 2) / (2 * width**2)) for y in nodes]
        means = [sum(w * a * np.asarray(y) for w, a, y in zip(law, k, nodes, strict=True)) for law in (p, q)]
        masses = [sum(w * a for w, a in zip(law, k, strict=True)) for law in (p, q)]
        found.append(means[0] / masses[0] - means[1] / masses[1])
    return np.array(found)


def test_an_exact_field_gives_the_law():
    p = np.full(5, 0.2)
    found = drifting.recover_law("gaussian", X, field(X, NODES, p, LAW), NODES, NODES, width=0.5, noise=0.0)
    np.testing.assert_allclose(found.weights, LAW, atol=1e-9)
    assert found.misfit < 1e-12
    assert found.weights.sum() == pytest.approx(1)


def test_data_may_lie_elsewhere_and_in_the_plane():
    rng = np.random.default_rng(0)
    nodes, data, places = rng.normal(size=(6, 2)), rng.normal(size=(9, 2)), 0.4 * rng.normal(size=(40, 2))
    p, q = rng.dirichlet(np.ones(9)), rng.dirichlet(np.full(6, 2.0))
    both = np.concatenate([data, nodes])
    laws = np.concatenate([p, np.zeros(6)]), np.concatenate([np.zeros(9), q])
    seen = field(places, both, *laws, width=0.8)
    found = drifting.recover_law("gaussian", places, seen, nodes, data, width=0.8, noise=0.0, data_weights=7 * p)
    np.testing.assert_allclose(found.weights, q, atol=1e-7)


def test_noise_is_stated_and_counts():
    p = np.full(5, 0.2)
    seen = field(X, NODES, p, LAW) + 1e-3 * np.random.default_rng(0).normal(size=31)
    found = drifting.recover_law("gaussian", X, seen, NODES, NODES, width=0.5, noise=1e-3)
    assert 1e-3 < np.max(np.abs(found.weights - LAW)) < 0.3
    assert found.misfit == pytest.approx(1e-3, rel=0.5)
    assert "noise of 0.001" in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "count"), [("-0.3", "0.3", 3), ("-0.3", "0.3", 12), ("-2", "-1.2", 8)])
def test_margins_in_sixty_digits_by_mpmath(low, high, count):
    with mpmath.workdps(60):
        y = [mpmath.mpf(-1) + mpmath.mpf(2 * j) / (count - 1) for j in range(count)]
        rows = 2 * count + 1
        matrix = mpmath.matrix(rows, count)
        for i in range(rows):
            x = mpmath.mpf(low) + (mpmath.mpf(high) - mpmath.mpf(low)) * i / (rows - 1)
            k = [mpmath.exp(-2 * (x - each) ** 2) for each in y]
            mean = sum(a * b for a, b in zip(k, y, strict=True)) / sum(k)
            for j in range(count):
                matrix[i, j] = k[j] * (y[j] - mean) / sum(k)
        values = mpmath.svd_r(matrix, compute_uv=False)
        exact = float(values[count - 2] / mpmath.sqrt(rows))
    assert margin("gaussian", low, high, count) == pytest.approx(exact, rel=1e-12)


def test_the_floor_is_below_every_law():
    """The inequality of the margin, on random laws near and far."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(5))
    least = drifting.field_margin("gaussian", X, NODES, p, width=0.5)
    assert least > 1e-4
    for _ in range(200):
        q = rng.dirichlet(np.full(5, rng.choice([0.2, 1.0, 20.0])))
        seen = np.sqrt(np.mean(field(X, NODES, p, q) ** 2))
        assert seen >= least * np.linalg.norm(q - p)


def test_an_adversary_hides_from_laplace_and_not_from_gauss():
    x = np.linspace(-2, -1.2, 11)
    hidden = drifting.hidden_law("laplace", x, NODES, LAW, width=0.5, distance=0.1)
    assert hidden.distance == pytest.approx(0.1)
    assert hidden.weights.min() >= 0
    assert hidden.largest < 1e-14
    assert hidden.margin == 0
    seen = drifting.hidden_law("gaussian", x, NODES, LAW, width=0.5, distance=0.1)
    assert seen.rms >= seen.floor > 0
    np.testing.assert_allclose(field(x, NODES, LAW, seen.weights), seen.field[:, 0], atol=1e-13)


def test_the_adversary_beats_random_laws():
    rng = np.random.default_rng(2)
    p = np.full(5, 0.2)
    best = drifting.hidden_law("gaussian", X, NODES, width=0.5, distance=0.05)
    for _ in range(300):
        u = rng.normal(size=5)
        u -= u.mean()
        q = p + 0.1 * u / np.abs(u).sum()
        assert np.sqrt(np.mean(field(X, NODES, p, q) ** 2)) > 0.999 * best.rms


def test_a_far_law_stays_a_law():
    law = drifting.hidden_law("gaussian", X, NODES, LAW, width=0.5, distance=0.3)
    assert law.weights.min() >= 0
    assert law.weights.sum() == pytest.approx(1)
    assert law.distance == pytest.approx(0.3, abs=1e-9)


GIVEN = {"kernel": "gaussian", "places": X, "field_values": np.zeros(31), "nodes": NODES, "data": NODES, "width": 0.5,
         "noise": 0.0}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kernel": "cosine"}, "kernel"),
        ({"width": 0.0}, "width"),
        ({"noise": -1.0}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"places": np.zeros((3, 2))}, "one dimension"),
        ({"places": []}, "places"),
        ({"field_values": np.zeros(30)}, "field_values"),
        ({"field_values": np.full(31, np.nan)}, "field_values"),
        ({"nodes": np.zeros((2, 2, 2))}, "nodes"),
        ({"data_weights": [1.0, -1.0, 1.0, 1.0, 1.0]}, "data_weights"),
        ({"kernel": "compact", "width": 0.01}, "compact"),
    ],
)
def test_bad_input_of_recovery_is_named(change, word):
    with pytest.raises(SphereflowError, match=word):
        drifting.recover_law(**GIVEN | change)


def test_bad_input_of_the_search_is_named():
    with pytest.raises(SphereflowError, match="distance"):
        drifting.hidden_law("gaussian", X, NODES, width=0.5, distance=0.0)
    with pytest.raises(SphereflowError, match="ask for less"):
        drifting.hidden_law("gaussian", X, NODES, width=0.5, distance=0.95)
    with pytest.raises(SphereflowError, match="two"):
        drifting.hidden_law("gaussian", X, [0.0], width=0.5, distance=0.1)
