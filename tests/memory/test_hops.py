"""Hops of the compact kernel, joined supports and the way between two patterns, against plain oracles."""

import numpy as np
import pytest
from scipy.integrate import dblquad

from sphereflow.errors import SphereflowError
from sphereflow.memory import (
    LSR,
    REFERENCE_B,
    barrier_profile,
    hop_rate,
    hop_survival,
    percolation_load,
    random_patterns,
    support_clusters,
    survival,
)

EDGE = 1 - 1 / REFERENCE_B


def pair(n, rho):
    return np.stack([np.eye(n)[0], rho * np.eye(n)[0] + np.sqrt(1 - rho**2) * np.eye(n)[1]])


def test_the_rate_is_the_flux_of_the_law_in_the_plane():
    n, t, rho = 12, 0.5, 0.4
    aside, power = np.sqrt(1 - rho**2), n / (REFERENCE_B * t)

    def law(v, phi):
        return (1 - REFERENCE_B * (1 - phi)) ** power * max(1 - phi**2 - v**2, 0) ** ((n - 4) / 2)

    whole = dblquad(law, EDGE, 1, lambda p: -np.sqrt(1 - p * p), lambda p: np.sqrt(1 - p * p), epsrel=1e-6)[0]
    phi = EDGE + (1 - EDGE) * (np.arange(20_000) + 0.5) / 20_000
    at_edge = np.array([law((EDGE - rho * p) / aside, p) for p in phi]) / aside / whole
    drift = (rho - phi * EDGE) / (1 - REFERENCE_B * (1 - phi)) - (n - 1) / n * t * EDGE
    wanted = np.sum(at_edge * np.maximum(-drift, 0)) * (1 - EDGE) / 20_000
    assert float(hop_rate(n, rho, t)) == pytest.approx(wanted, rel=1e-3)


def test_survival_without_time_is_the_chance_to_be_alone():
    n, count = 16, 200
    x, xi = random_patterns(n, 2000, 0), random_patterns(n, 2000, 1)
    seen = (x @ xi.T / n > EDGE).mean()
    assert float(hop_survival(n, count, 0.0, 0.5)) == pytest.approx((1 - seen) ** (count - 1), abs=0.01)
    curve = hop_survival(n, count, np.array([0.0, 1.0, 10.0, 100.0]), 0.5)
    assert np.all(np.diff(curve) < 0)


def test_walkers_hop_at_the_rate_and_far_neighbours_are_never_met():
    found = survival(pair(20, 0.5), np.array([2.0, 6.0]), temperature=0.5, repeats=400, dt=0.02)
    assert abs(np.log(float(found.rate.value) / float(hop_rate(20, 0.5, 0.5)))) < 0.5
    assert found.share.value[0] > found.share.value[1]
    alone = survival(pair(20, -0.9), np.array([2.0]), temperature=0.5, repeats=20, dt=0.02)
    assert np.isinf(alone.lost_at).all()
    assert float(survival(np.eye(1, 20), np.array([0.1]), temperature=0.5, repeats=5).share.value[0]) == 1


@pytest.mark.parametrize("joined", ["caps", "centres"])
def test_clusters_are_those_of_a_plain_search(joined):
    stored = random_patterns(6, 60, 3)
    edge = 2 * 0.75**2 - 1 if joined == "caps" else 0.75
    near = stored @ stored.T / 6 > edge
    left, sizes = set(range(60)), []
    while left:
        group, front = set(), [left.pop()]
        while front:
            group.add(front[-1])
            fresh = [k for k in np.flatnonzero(near[front.pop()]).tolist() if k in left]
            left -= set(fresh)
            front += fresh
        sizes.append(len(group))
    found = support_clusters(stored, 4.0, joined)
    assert found.sizes.tolist() == sorted(sizes, reverse=True)
    assert found.degree == pytest.approx((near.sum() - 60) / 60)


def test_the_load_of_percolation():
    np.testing.assert_allclose([percolation_load(b) for b in (6.0, 10.0)], [0.081986, 0.242579], atol=1e-6)
    assert percolation_load(REFERENCE_B) == pytest.approx(0, abs=1e-12)


def test_the_profile_is_the_energy_on_the_way():
    n, rho = 12, 0.4
    angle, profile = barrier_profile(rho, points=51)
    first, second = pair(n, 0.0)
    way = np.sqrt(n) * (np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * second)
    energy = LSR.on_sphere(REFERENCE_B, n).energy(way, np.sqrt(n) * pair(n, rho))
    np.testing.assert_allclose(profile, np.asarray(energy) / n, atol=1e-12)
    assert np.isinf(barrier_profile(-0.5)[1]).any()


def test_refusals():
    for call, words in (
        (lambda: hop_rate(20, 1.0, 0.5), "rho"),
        (lambda: hop_rate(20, 0.5, -1.0), "temperature"),
        (lambda: hop_survival(20, 0, 1.0, 0.5), "patterns"),
        (lambda: hop_survival(20, 5, -1.0, 0.5), "times"),
        (lambda: survival(np.eye(3), np.ones(1), temperature=0.5), "N at least 5"),
        (lambda: survival(np.eye(5), np.array([2.0, 1.0]), temperature=0.5), "times"),
        (lambda: support_clusters(np.zeros((2, 3))), "zero"),
        (lambda: support_clusters(np.eye(3), 0.5), "b must"),
        (lambda: support_clusters(np.eye(3), joined="edges"), "joined"),
        (lambda: barrier_profile(2.0), "rho"),
    ):
        with pytest.raises(SphereflowError, match=words):
            call()
