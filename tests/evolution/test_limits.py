"""The limit read from spectra: one case of each kind by hand, and runs that end there."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import softmax

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.evolution import predict_limit
from sphereflow.evolution.limits import _WORDS, KINDS

SPD = np.array([[2.0, 0.5], [0.5, 1.0]])
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("kind", "proved", "told", "matrices"),
    [
        ("polytope", True, "met: V is 2 times", (SPD, None, 2 * np.eye(2))),
        ("polytope", True, "met: V is 1 times", (SPD, None, None)),
        ("open", False, "not symmetric", (np.eye(2) + TURN, None, np.eye(2))),
        ("hyperplanes", True, "met: the leading", (None, None, np.diag([1.0, 0.3]))),
        ("hyperplanes", True, "met: the leading", (None, np.diag([1.0, -1.0]), np.diag([1.0, 0.3]))),
        ("hyperplanes", False, "modulus 2", (None, None, np.diag([1.0, -2.0]))),
        ("open", False, "modulus 2", (None, np.diag([1.0, -1.0]), np.diag([1.0, -2.0]))),
        ("open", False, "is not positive along", (None, -np.eye(2), np.diag([1.0, 0.3]))),
        ("open", False, "are not real", (None, None, np.eye(2) + TURN)),
        ("open", False, "Jordan block", (None, None, [[1.0, 1.0], [0.0, 1.0]])),
        ("open", False, "Jordan block", (None, None, [[1.0, 1e-2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]])),
        ("open", False, "no eigenvalue of V has a positive", (None, None, np.diag([0.0, -1.0]))),
        ("open", False, "no eigenvalue of V has a positive", (None, -SPD, -np.eye(2))),
        ("polytope times subspace", True, "dimension 2", (None, None, np.diag([1.0, -0.5, 1.0]))),
        ("polytope times subspace", False, "modulus 3", (None, None, np.diag([1.0, -3.0, 1.0]))),
        ("polytope times subspace", False, "elsewhere", (None, np.diag([1.0, -1.0, 1.0]), np.diag([1.0, 0.5, 1.0]))),
        ("open", False, "elsewhere", (None, np.diag([1.0, -1.0, 1.0]), np.diag([1.0, -3.0, 1.0]))),
        ("origin", True, "decreases to 0", (None, None, -np.eye(3))),
        ("origin", True, "decreases to 0", (SPD, None, -np.eye(2))),
        ("origin", True, "decreases to 0", (None, np.eye(2) + TURN, -np.eye(2) - TURN)),
        ("origin", True, "decreases to 0", ([[1.0]], [[2.0]], [[-3.0]])),
        ("Boolean matrix", True, "positive numbers", ([[1.0]], [[2.0]], [[3.0]])),
        ("open", False, "is not positive along", ([[1.0]], [[-2.0]], [[3.0]])),
    ],
)
def test_kinds_by_hand(kind, proved, told, matrices):
    limit = predict_limit(*matrices)
    assert (limit.kind, limit.proved) == (kind, proved), limit
    assert told in limit.hypothesis


@pytest.mark.parametrize(
    ("kind", "proved", "matrices"),
    [
        ("single point", True, (None, None, np.eye(3))),
        ("single point", True, (0 * np.eye(2), None, 3 * np.eye(2))),
        ("single point", False, (None, SPD, np.eye(2))),
        ("antipodal points", False, (None, None, np.diag([1.0, 0.3]))),
        ("open", False, (None, None, -np.eye(3))),
        ("open", False, (None, -np.eye(2), np.diag([1.0, 0.3]))),
        ("open", False, (None, None, [[1.0]])),
    ],
)
def test_kinds_on_the_sphere(kind, proved, matrices):
    limit = predict_limit(*matrices, space="sphere")
    assert (limit.kind, limit.proved) == (kind, proved), limit


def test_every_kind_has_its_words():
    assert set(KINDS) == set(_WORDS)


def test_coordinates_and_form_belong_to_the_leading_space():
    """Left eigenvectors, not right ones; the form of a vector of the leading space from its coordinates."""
    rng = np.random.default_rng(3)
    basis, form = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    form = form @ form.T
    for rates in ((2.0, 2.0, 0.5, -1.0), (2.0, 1.0, 0.5, -1.0)):
        value = basis @ np.diag(rates) @ np.linalg.inv(basis)
        limit = predict_limit(form, None, value)
        m = rates.count(2.0)
        assert limit.coordinates.shape == (m, 4)
        np.testing.assert_allclose(limit.coordinates @ value, 2 * limit.coordinates, atol=1e-9)
        x = basis[:, :m] @ rng.normal(size=m)
        c = limit.coordinates @ x
        np.testing.assert_allclose(c @ limit.form @ c, x @ form @ x, rtol=1e-8)
        assert limit.gap == pytest.approx(1.5 if m == 2 else 1.0)
        assert limit.codimension == 3


def run(x0, q, k, v, t1):
    """x(t1) by SciPy from the definition."""

    def rate(_t, state):
        x = state.reshape(x0.shape)
        return (softmax(x @ q.T @ k @ x.T, axis=1) @ x @ v.T).ravel()

    return solve_ivp(rate, (0, t1), x0.ravel(), method="RK45", rtol=1e-9, atol=1e-9).y[:, -1].reshape(x0.shape)


def test_runs_end_at_the_predicted_object_and_at_no_other():
    rng = np.random.default_rng(5)
    x0, metric = rng.uniform(-1, 1, (10, 3)), np.array([[1.0, 0.0, 0.4], [0.0, 2.0, 0.0], [0.4, 0.0, 1.0]])
    eye, other = np.eye(3), np.array([[1.0, 0.3, 0.0], [0.0, 0.2, 0.5], [0.1, 0.0, -0.4]])
    for value in (eye, np.diag([1.0, 1.0, -0.5]), other):
        limit = predict_limit(metric, eye, value)
        scaled = run(x0, metric, eye, value, 8.0) * np.exp(-8.0 * limit.eigenvalues[0].real)
        assert limit.proved
        assert limit.miss(scaled) < 0.02 < 0.1 < limit.miss(x0), limit
    still = predict_limit(metric, eye, -metric)
    assert still.miss(run(x0, metric, eye, -metric, 200.0)) < 0.25 < 1 < still.miss(x0)


def test_runs_on_the_sphere_end_at_the_predicted_points_and_at_no_other():
    """Right eigenvectors, not left ones; matrices that are not symmetric, and the single point of V = I."""
    rng, found = np.random.default_rng(2), 0
    x0 = np.asarray(sf.draw("uniform", 8, 3, 1))
    while found < 3:
        q, k, v = rng.normal(size=(3, 3, 3))
        v = v / np.abs(np.linalg.eigvals(v).real.max())
        limit = predict_limit(q, k, v, space="sphere")
        if limit.kind != "antipodal points" or limit.gap < 0.6 or predict_limit(q, k, v).form[0, 0] < 0.3:
            continue
        found += 1
        final = sf.evolve(sf.SA(1.0, query=q, key=k, value=v), x0, saveat=[0.0, 20.0, 40.0], progress=False).final
        left = predict_limit(q, k, v).coordinates[0]
        assert limit.miss(final) < 1e-4 < 0.1 < limit.miss(x0)
        assert np.sqrt(np.maximum(1 - (final @ left / np.linalg.norm(left)) ** 2, 0)).max() > 1e-2
    one = predict_limit(q, k, np.eye(3), space="sphere")
    bowl = x0 * np.sign(x0[:, :1])
    assert one.kind == "single point"
    model = sf.SA(0.2, query=q, key=k, value=np.eye(3))
    assert one.miss(sf.evolve(model, bowl, saveat=[0.0, 20.0, 40.0], progress=False).final) < 1e-3


def test_tokens_on_the_object_miss_it_by_nothing():
    assert predict_limit(V=np.eye(2)).miss(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])) == 0
    assert predict_limit(V=np.diag([1.0, 0.2])).miss(np.array([[2.0, 7.0], [0.0, 1.0], [-1.0, 3.0], [2.0, 0]])) == 0
    assert predict_limit(V=np.eye(2)).miss(np.zeros((3, 2))) == 0
    assert predict_limit(V=np.eye(2)).miss(np.array([[1.0, 0.0], [0.5, 0.0]])) == pytest.approx(0.5)
    sphere = predict_limit(V=np.eye(2), space="sphere")
    assert sphere.miss(np.array([[1.0, 0.0], [-1.0, 0.0]])) == 1
    pair = predict_limit(V=np.diag([1.0, 0.3]), space="sphere")
    assert pair.miss(np.array([[1.0, 0.0], [-1.0, 0.0]])) == 0
    assert pair.miss(np.array([[0.6, 0.8]])) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("told", "call"),
    [
        ("give at least one", lambda: predict_limit()),
        ("V must be", lambda: predict_limit(V=np.ones((2, 3)))),
        ("V must be finite", lambda: predict_limit(V=[[np.nan]])),
        ("K acts on tokens of dimension 2, but Q on dimension 3", lambda: predict_limit(np.eye(3), np.eye(2))),
        ("queries and keys", lambda: predict_limit(np.ones((2, 3)), np.ones((1, 3)), np.eye(3))),
        ("space must be one of", lambda: predict_limit(V=np.eye(2), space="torus")),
        ("tol must be", lambda: predict_limit(V=np.eye(2), tol=0.0)),
        ("x must be finite numbers of shape", lambda: predict_limit(V=np.eye(2)).miss(np.ones((3, 4)))),
        ("nothing is predicted", lambda: predict_limit(V=TURN).miss(np.ones((3, 2)))),
    ],
)
def test_refusals(told, call):
    with pytest.raises(SphereflowError, match=told):
        call()


def test_it_is_at_the_top():
    assert sf.predict_limit is predict_limit
