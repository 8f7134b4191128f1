"""The constants of slow motion against plain sums, differences of the energy, and runs."""

import math

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.metastability import slow_manifold

RNG = np.random.default_rng(3)
CENTRES = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.6, 0.0, 0.8]])
LABELS = np.array([0, 0, 1, 1, 1, 2])
X = CENTRES[LABELS] + 0.1 * RNG.normal(size=(6, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
MASSES = np.array([0.1, 0.2, 0.1, 0.15, 0.25, 0.2])
BETA = 12.0


def energy(x, part):
    """F of the tokens of one cluster alone, by loops."""
    total = 0.0
    for i in part:
        for j in part:
            total -= MASSES[i] * MASSES[j] * math.exp(BETA * (x[i] @ x[j] - 1)) / (2 * BETA)
    return total


def gradients(part):
    """Tangent gradients of F by central differences, one per token of the cluster."""
    found = []
    for i in part:
        row = np.zeros(3)
        for c in range(3):
            for sign in (1, -1):
                moved = X.copy()
                moved[i, c] += sign * 1e-5
                row[c] += sign * energy(moved, part) / 2e-5
        found.append(row - (row @ X[i]) * X[i])
    return np.array(found)


@pytest.mark.parametrize("kind", ["sa", "usa"])
def test_the_constants_are_what_their_definitions_say(kind):
    found = slow_manifold(X, BETA, kind, masses=MASSES, labels=LABELS)
    for q in range(3):
        part = np.flatnonzero(np.equal(LABELS, q))
        mass = MASSES[part].sum()
        mean = MASSES[part] @ X[part] / mass
        centre = mean / np.linalg.norm(mean)
        assert found.masses[q] == pytest.approx(mass)
        assert found.centres[q] == pytest.approx(centre)
        square = sum(MASSES[i] * np.sum((X[i] - centre) ** 2) for i in part)
        assert found.distance[q] == pytest.approx(square, abs=1e-14)
        assert found.gap[q] == pytest.approx(energy(X, part) + mass**2 / (2 * BETA), abs=1e-14)
        total = np.exp(BETA * (X @ X.T - 1)) @ MASSES
        metric = MASSES[part] * (total[part] if kind == "sa" else 1.0)
        dissipation = np.sum(np.sum(gradients(part) ** 2, axis=1) / metric)
        assert found.dissipation[q] == pytest.approx(dissipation, rel=1e-6, abs=1e-14)
    lower, value, upper = found.growth[:, :2]
    assert (lower <= value + 1e-12).all()  # equal for two tokens
    assert (value <= upper + 1e-12).all()
    assert (found.constant[:2] <= found.quotient[:2]).all()
    assert np.isnan(found.quotient[2])  # one token alone


@pytest.mark.parametrize("kind", ["sa", "usa"])
def test_a_small_displacement_inside_a_cluster_contracts_at_the_late_rate(kind):
    found = slow_manifold(CENTRES[LABELS], BETA, kind, masses=MASSES, labels=LABELS)
    assert found.gap == pytest.approx(0)

    def field(x):
        weights = np.exp(BETA * (x @ x.T - 1)) * MASSES
        pull = weights @ x / (weights.sum(axis=1, keepdims=True) if kind == "sa" else 1.0)
        return pull - np.sum(pull * x, axis=1, keepdims=True) * x

    base = CENTRES[LABELS]
    growth = np.zeros((3, 3))
    size = 1e-6
    for c in range(3):  # tokens 0 and 1 of cluster 0, moved against each other
        push = np.eye(3)[c] - base[0, c] * base[0]
        moved = base.copy()
        moved[0] = moved[0] + size * push / MASSES[0]
        moved[1] = moved[1] - size * push / MASSES[1]
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        speed = field(moved)
        growth[c] = ((speed[0] - speed[1]) - 0) / (size * (1 / MASSES[0] + 1 / MASSES[1]))
    rates = np.sort(-np.linalg.eigvals(growth[1:, 1:]).real)
    assert found.rate[0] == pytest.approx(rates[0], abs=1e-5)


def test_the_speed_along_the_manifold_survives_where_doubles_do_not():
    found = [slow_manifold(X, beta, "usa", masses=MASSES, labels=LABELS) for beta in (1000.0, 2000.0)]
    nearest = max(float(a @ b) for k, a in enumerate(found[0].centres) for b in found[0].centres[:k])
    assert found[1].log_gradient - found[0].log_gradient == pytest.approx(-1000 * (1 - nearest), rel=1e-6)
    assert found[1].log_gradient < -800
    assert found[0].log_slow_time(0.05) < found[0].log_departure(0.05)


def test_clusters_are_found_by_the_width_of_the_kernel_and_others_are_refused():
    assert slow_manifold(X, 8.0, masses=MASSES).k == 3
    assert slow_manifold(X, 1e5, masses=MASSES).k == 6
    one = slow_manifold(X[:2], 2.0)
    assert one.k == 1
    assert math.isinf(one.log_slow_time())
    with pytest.raises(SphereflowError, match="right angle"):
        slow_manifold(X, 5.0, labels=[0, 0, 0, 0, 1, 1])
    with pytest.raises(SphereflowError, match="labels must be 6 names"):
        slow_manifold(X, 5.0, labels=[0, 1])


def test_no_window_where_clusters_are_not_apart():
    angles = np.array([-0.05, 0.03, 1.06, 1.10, 1.15, 2.57, 2.63])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert slow_manifold(x, 9.0, "usa").window() is None
    assert not slow_manifold(x, 9.0, "usa").shrinking
    assert slow_manifold(x, 100.0, "usa").window() is not None
