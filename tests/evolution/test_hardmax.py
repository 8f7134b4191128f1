"""The exact hardmax flow against a plain integration of it, and against attention itself at late times."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from sphereflow import SphereflowError
from sphereflow.dynamics import EuclideanAttention, RescaledAttention
from sphereflow.evolution import evolve, hardmax_flow
from sphereflow.observables import polytope_residual


def follow_by_scipy(z0, t0, t1, value, form):
    def rate(t, flat):
        z = flat.reshape(z0.shape)
        rates, right = np.linalg.eig(value)
        x = z @ ((right * np.exp(t * rates)) @ np.linalg.inv(right)).real.T
        return ((z[np.argmax(x @ form @ x.T, axis=1)] - z) @ value.T).ravel()

    return solve_ivp(rate, (t0, t1), z0.ravel(), rtol=1e-8, atol=1e-10, max_step=4e-3).y[:, -1].reshape(z0.shape)


@pytest.mark.fast_cases("identity")
@pytest.mark.parametrize(
    ("value", "t0"),
    [(np.eye(2), 0.0), (np.array([[1.0, 0.4], [0.1, 0.6]]), 0.0), (np.diag([1.0, -0.5]), 2.0)],
    ids=["identity", "skew", "mixed"],
)
def test_it_solves_its_equation_through_changes_of_the_map(value, t0):
    z0 = np.random.default_rng(3).uniform(-1, 1, size=(40, 2))
    form = np.array([[1.0, 0.3], [0.3, 0.5]])
    exact = hardmax_flow(z0, t0, t0 + 2, value=value, form=form)
    assert len(exact.switches) > 0 or t0 > 0
    # The plain integration meets the jumps of the field only to within its step.
    np.testing.assert_allclose(exact.z, follow_by_scipy(z0, t0, t0 + 2, value, form), atol=2e-2)


@pytest.mark.slow
def test_a_token_held_between_two_others_is_reported():
    z0 = np.random.default_rng(3).normal(size=(15, 2))
    with pytest.raises(SphereflowError, match="dividing its attention"):
        hardmax_flow(z0, 0.0, 3.0, value=np.diag([1.0, -0.5]), form=np.array([[1.0, 0.3], [0.3, 0.5]]))


def test_going_in_two_steps_is_going_in_one():
    z0 = np.random.default_rng(5).normal(size=(12, 3))
    value = np.diag([1.0, 0.7, -0.2])
    half = hardmax_flow(z0, 0.0, 1.3, value=value)
    whole = hardmax_flow(z0, 0.0, 4.0, value=value)
    np.testing.assert_allclose(hardmax_flow(half.z, 1.3, 4.0, value=value).z, whole.z, atol=1e-12)


def test_limits_obey_the_identity_to_rounding_and_continue_attention():
    z0 = np.random.default_rng(1).normal(size=(12, 2))
    form = np.diag([2.0, 0.5])
    run = evolve(RescaledAttention(EuclideanAttention(query=form), 2), z0, saveat=[0.0, 9.0, 24.0], tol=1e-11)
    limit = hardmax_flow(run.xs[1], 9.0, form=form).z
    assert polytope_residual(limit, form).max() < 1e-14
    np.testing.assert_allclose(limit, run.final, atol=1e-9)


def test_a_chain_of_followers_is_solved_with_its_polynomial_terms():
    # 2 follows 1, which follows 0, which leads: z_2 = (z_2 - z_0) e^{-s} + (z_1 - z_0) s e^{-s} + z_0.
    z0 = np.array([[4.0, 0.0], [1.5, 1.0], [-0.1, 0.5]])
    assert list(np.argmax(z0 @ z0.T, axis=1)) == [0, 0, 1]
    s = 0.02
    flow = hardmax_flow(z0, 0.0, s)
    assert len(flow.switches) == 0
    expected = z0[0] + (z0[2] - z0[0]) * np.exp(-s) + (z0[1] - z0[0]) * s * np.exp(-s)
    np.testing.assert_allclose(flow.z[2], expected, atol=1e-14)


def test_what_it_cannot_do_is_said():
    z = np.ones((2, 2))
    with pytest.raises(SphereflowError, match="symmetric"):
        hardmax_flow(z, 0.0, form=np.array([[0.0, 1.0], [-1.0, 0.0]]))
    with pytest.raises(SphereflowError, match="positive real part"):
        hardmax_flow(z, 0.0, value=-np.eye(2))
