"""The closed flow maps on the sphere against adaptive solvers, and the schedule made of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import unit
from sphereflow.transport.files import load
from sphereflow.transport.sphere.flows import attention_shift, cap_times, drift, gate, gate_times, polar
from sphereflow.transport.sphere.pieces import Drift, Gate, Gathering, RankOne, TransformerBlock
from sphereflow.transport.sphere.schedule import SphereSchedule


def solved(x, speed, omega, t):
    """x' = speed(x) P_x omega, adaptively."""

    def velocity(_, flat):
        z = flat.reshape(x.shape)
        return (speed(z)[:, None] * (omega - (z @ omega)[:, None] * z)).ravel()

    return solve_ivp(velocity, (0, t), x.ravel(), method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1].reshape(x.shape)


def directions(seed, d, count):
    return unit(np.random.default_rng(seed).normal(size=(count, d)))


@given(st.integers(0, 10**6), st.integers(3, 8), st.floats(-1.2, 1.2), st.floats(0.05, 12))
def test_gate_solves_its_equation(seed, d, beta, t):
    a, omega, *x = directions(seed, d, 8)
    x = np.array(x)
    moved = gate(x, a, beta, omega, t)
    np.testing.assert_allclose(moved, solved(x, lambda z: np.maximum(z @ a + beta, 0), omega, t), atol=1e-10)
    resting = x @ a + beta <= 0
    assert np.array_equal(moved[resting], x[resting])
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1, atol=1e-14)


@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(-6, 6))
def test_drift_is_the_moebius_map(seed, d, tau):
    omega, *x = directions(seed, d, 6)
    x = np.array(x)
    u = x @ omega
    grown = x + np.outer(np.sinh(tau) + (np.cosh(tau) - 1) * u, omega)
    np.testing.assert_allclose(drift(x, omega, tau), grown / (np.cosh(tau) + u * np.sinh(tau))[:, None], atol=1e-10)


@pytest.mark.parametrize("beta_of", [lambda A: -A, lambda A: A, lambda A: -A + 1e-7, lambda A: A - 3e-6])
def test_gate_that_vanishes_at_a_pole(beta_of):
    a, omega, *x = directions(4, 3, 14)
    beta = beta_of(float(a @ omega))
    x = np.array(x)
    np.testing.assert_allclose(
        gate(x, a, beta, omega, 5.0), solved(x, lambda z: np.maximum(z @ a + beta, 0), omega, 5.0), atol=1e-9
    )


def test_long_gates_settle_on_their_rim_or_at_omega():
    """t times gate near 1e5, as splitting needs: fixed steps would be wrong here."""
    a, omega, *x = directions(11, 3, 202)
    x = np.array(x)
    x = x[x @ a > 0.21]
    there = gate(x, a, -0.2, omega, 1e5)
    stuck = np.linalg.norm(there - omega, axis=1) > 1e-12
    np.testing.assert_allclose((there[stuck] @ a - 0.2), 0, atol=1e-4)  # approached like 1/t or faster
    aimed = gate(x, omega, -0.2, omega, 1e5)
    inside = x @ omega > 0.2 + 1e-3
    np.testing.assert_allclose(aimed[inside], np.broadcast_to(omega, aimed[inside].shape), atol=1e-12)


def test_a_rim_behind_the_pole_stops_what_comes_from_there():
    """On the circle the gate is cos(t + 3 pi/4) + 1/sqrt 2: open beyond the right angle, and again at omega only."""
    a, omega, beta = np.array([-1.0, -1.0]) / np.sqrt(2), np.array([1.0, 0.0]), np.sqrt(0.5)
    t = np.array([1.7, 2.0, 2.6])
    x = np.stack([np.cos(t), np.sin(t)], axis=1)
    np.testing.assert_allclose(gate(x, a, beta, omega, 60.0), np.tile([0.0, 1.0], (3, 1)), atol=1e-12)
    assert np.isinf(gate_times(x, a, beta, omega, 0.5)).all()
    short = gate(x, a, beta, omega, 0.7)
    np.testing.assert_allclose(short, solved(x, lambda z: np.maximum(z @ a + beta, 0), omega, 0.7), atol=1e-11)


def test_travel_times_against_quadrature():
    a, omega, *x = directions(2, 5, 40)
    x = np.array(x)
    times = gate_times(x, a, 0.6, omega, 0.3)
    y, e = polar(x, omega)
    goal = np.log(np.tan(0.15))
    for k, time in enumerate(times):
        if x[k] @ a + 0.6 <= 0:
            assert time == (np.inf if y[k] > goal else 0)
        elif y[k] > goal and np.isfinite(time):
            along = (float(a @ omega), float(e[k] @ a))
            expected = quad(
                lambda z, A, B: 1 / (0.6 - A * np.tanh(z) + B / np.cosh(z)), goal, y[k], along, epsabs=1e-13
            )
            assert time == pytest.approx(expected[0], rel=1e-10)
    assert np.isfinite(times).sum() > 10


def test_times_in_a_cap_are_those_of_the_gate():
    z, *x = directions(5, 4, 60)
    x = np.array(x)
    x = x[x @ z > 0.2]
    heights = polar(x, z)[0]
    np.testing.assert_allclose(
        cap_times(heights, np.full(len(x), 0.1), 1e-4), gate_times(x, z, -0.1, z, 1e-4), rtol=1e-10
    )


def test_attention_shift_follows_the_particles():
    """Rank-one attention against the particle system, with masses, and d/dt ln<m,alpha> = 1 - E<x,alpha>^2."""
    alpha, *x = directions(3, 4, 12)
    x, masses = np.array(x), np.linspace(1, 2, 11)
    masses /= masses.sum()

    def velocity(_, flat):
        z = flat.reshape(x.shape)
        return ((masses @ z @ alpha) * (alpha - (z @ alpha)[:, None] * z)).ravel()

    there = solve_ivp(velocity, (0, 3), x.ravel(), method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1].reshape(x.shape)
    np.testing.assert_allclose(RankOne(duration=3.0, alpha=alpha).flow(x, masses), there, atol=1e-11)
    h = 1e-4
    means = [masses @ RankOne(duration=t, alpha=alpha).flow(x, masses) @ alpha for t in (1 - h, 1 + h)]
    now = RankOne(duration=1.0, alpha=alpha).flow(x, masses)
    slope = np.log(means[1] / means[0]) / (2 * h)
    assert slope == pytest.approx(1 - masses @ (now @ alpha) ** 2, abs=1e-7)


def test_a_mean_at_rounding_level_rests_exactly():
    y = np.array([1.0, -1.0, 0.3, -0.3])
    assert attention_shift(y, np.full(4, 0.25), 1.0, 50.0) == 0.0
    assert attention_shift(y + 1e-3, np.full(4, 0.25), 1.0, 5.0) < 0


def every_kind(d=4, seed=0):
    rng = np.random.default_rng(seed)
    v = unit(rng.normal(size=(6, d)))
    m = 0.5 * rng.normal(size=(4, d, d))
    return SphereSchedule(
        [
            Drift(duration=1.0, omega=v[0]),
            Gate(duration=3.0, a=v[1], beta=-0.1, omega=v[2]),
            RankOne(duration=2.0, alpha=v[3]),
            Gathering(duration=1.0, d=d, beta=2.0),
            TransformerBlock(duration=0.7, V=m[0], B=m[1]),
        ],
        d,
    )


def test_block_with_perceptron_against_its_equation():
    rng = np.random.default_rng(1)
    V, B, W, U = 0.5 * rng.normal(size=(4, 4, 4))
    b, x, masses = rng.normal(size=4), CLOUD[:8], np.linspace(1, 2, 8) / 12

    def velocity(_, flat):
        z = flat.reshape(x.shape)
        pull = np.empty_like(z)
        for i in range(8):
            share = masses * np.exp([(B @ z[i]) @ z[j] for j in range(8)])
            pull[i] = V @ (share @ z / share.sum()) + W @ np.maximum(U @ z[i] + b, 0)
            pull[i] -= (pull[i] @ z[i]) * z[i]
        return pull.ravel()

    there = solve_ivp(velocity, (0, 0.7), x.ravel(), method="RK45", rtol=1e-9, atol=1e-10).y[:, -1].reshape(x.shape)
    piece = TransformerBlock(duration=0.7, V=V, B=B, W=W, U=U, b=b)
    np.testing.assert_allclose(piece.flow(x, masses), there, atol=1e-7)
    np.testing.assert_allclose(piece.inverse().flow(piece.flow(x, masses), masses), x, atol=1e-7)
    h = 1e-3
    grown = TransformerBlock(duration=h, V=V, B=B, W=W, U=U, b=b).flow_and_log_det(x, masses)[1]
    np.testing.assert_allclose(grown / h, piece.divergence(x, masses), atol=20 * h)


CLOUD = directions(8, 4, 20)


def test_inverse_undoes_every_kind_of_piece():
    schedule = every_kind()
    for k in range(len(schedule)):
        piece = schedule[k : k + 1]
        np.testing.assert_allclose(piece.inverse().apply(piece.apply(CLOUD)), CLOUD, atol=1e-9)
    np.testing.assert_allclose((schedule + schedule.inverse()).apply(CLOUD), CLOUD, atol=1e-8)


def test_log_det_against_differences():
    """A particle without mass is a tracer: the derivative of its end in its start has this determinant."""
    schedule, h = every_kind(), 1e-5
    masses = np.append(np.ones(19), 0.0)
    start, end = CLOUD[-1], schedule.apply(CLOUD, masses)[-1]
    here, there = np.linalg.svd(start[None])[2][1:], np.linalg.svd(end[None])[2][1:]
    columns = []
    for direction in here:
        ends = []
        for sign in (1, -1):
            moved = CLOUD.copy()
            moved[-1] = unit(start + sign * h * direction)
            ends.append(schedule.apply(moved, masses)[-1])
        columns.append(there @ (ends[0] - ends[1]) / (2 * h))
    assert schedule.log_det(CLOUD, masses)[-1] == pytest.approx(np.linalg.slogdet(np.array(columns))[1], abs=1e-6)


@pytest.mark.parametrize("name", ["schedule.json", "schedule.npz"])
def test_saved_schedules_come_back_bit_for_bit(tmp_path, name):
    for schedule in (every_kind(), every_kind()[:4], SphereSchedule([], 4)):
        schedule.save(tmp_path / name)
        again = load(tmp_path / name)
        assert isinstance(again, SphereSchedule)
        assert [p.kind for p in again] == [p.kind for p in schedule]
        assert np.array_equal(again.apply(CLOUD), schedule.apply(CLOUD))


def test_rescaling_time_changes_weights_only():
    schedule = every_kind()
    quick = schedule.rescaled(0.5)
    assert quick.duration == pytest.approx(0.5)
    np.testing.assert_allclose(quick.apply(CLOUD), schedule.apply(CLOUD), atol=1e-9)
    np.testing.assert_allclose(quick.matrices()[0]["W"], schedule.matrices()[0]["W"] * schedule.duration / 0.5)
    assert quick.sup_norm() > schedule.sup_norm()


def test_cut_in_the_middle_of_a_piece():
    schedule = every_kind()
    halves = schedule.between(0, 1.5) + schedule.between(1.5, 5)
    np.testing.assert_allclose(halves.apply(CLOUD), schedule.apply(CLOUD), atol=1e-9)
    assert schedule.n_switches == 4
    assert schedule.between(0, 1.5).n_pieces == 2


def test_measures_do_not_feel_each_other():
    schedule = every_kind()
    both = schedule.apply([CLOUD[:7], CLOUD[7:]])
    assert np.array_equal(both[0], schedule.apply(CLOUD[:7]))
    assert not np.allclose(both[0], schedule.apply(CLOUD)[:7])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda s: s.apply(2 * CLOUD), "unit vectors"),
        (lambda s: s.apply(CLOUD[:, :3]), "unit vectors|shape"),
        (lambda s: s.apply(unit(CLOUD[:, :3])), r"shape \(n, 4\)"),
        (lambda s: s.apply(CLOUD, masses=np.ones(3)), "masses must be 20 numbers"),
        (lambda s: s.apply([CLOUD], masses=[None, None]), "1 measures need 1"),
        (lambda s: s + every_kind(3), "one dimension"),
        (lambda s: SphereSchedule([Drift(duration=-1.0, omega=CLOUD[0])], 4), "duration"),
        (lambda s: SphereSchedule([Drift(duration=1.0, omega=CLOUD[0])], 3), "dimension 3"),
        (lambda s: s.rescaled(0), "T must be"),
    ],
)
def test_misuse_is_told_in_a_sentence(call, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        call(every_kind())


E1, E2 = np.eye(2)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: Drift(duration=1.0, omega=E1 + E2), "unit vector"),
        (lambda: Gate(duration=1.0, a=E1, beta=0.0, omega=2 * E1), "unit vector"),
        (lambda: RankOne(duration=1.0, alpha=E2 / 2), "unit vector"),
        (lambda: Drift(duration=1.0, omega=np.nan * E1), "finite"),
        (lambda: Drift(duration=-1.0, omega=E1), "duration"),
        (lambda: TransformerBlock(duration=1.0, V=np.eye(2), B=np.full((2, 2), np.inf)), "finite"),
    ],
)
def test_a_piece_that_cannot_be_is_refused_when_it_is_made(make, what):
    with pytest.raises(SphereflowError, match=what):
        make()
