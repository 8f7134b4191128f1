"""Schedules: exact flow, inverse and volume in every dimension, and everything that is done with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from sphereflow.errors import SphereflowError
from sphereflow.loading import load
from sphereflow.transport import Schedule
from sphereflow.transport.euclidean import flow
from sphereflow.transport.euclidean.laws import gaussian

DIMENSIONS = st.integers(1, 8)
SEEDS = st.integers(0, 10_000)


def drawn(d: int, seed: int, pieces: int = 6) -> Schedule:
    """Random pieces: first a translation, second one with a tiny rate, third a shear where there is room."""
    rng = np.random.default_rng(seed)
    w, a, b = 0.4 * rng.normal(size=(pieces, d)), rng.normal(size=(pieces, d)), rng.normal(size=pieces)
    a[0] = 0
    w[1] = 1e-10 * a[1]
    if d > 1:
        w[2], a[2] = np.eye(d)[0], np.eye(d)[1]
    return Schedule(w, a, b, rng.uniform(0.2, 1.5, pieces))


def by_matrix_exponential(schedule: Schedule, x: np.ndarray) -> tuple[np.ndarray, float]:
    """On its half-space a piece is a linear equation in (x, 1): solved by the exponential of a matrix."""
    volume = 0.0
    for w, a, b, tau in zip(schedule.w, schedule.a, schedule.b, schedule.tau, strict=True):
        if a @ x + b > 0:
            generator = np.zeros((len(x) + 1, len(x) + 1))
            generator[:-1] = np.outer(w, np.append(a, b))
            moved = expm(tau * generator)
            x = (moved @ np.append(x, 1.0))[:-1]
            volume += np.linalg.slogdet(moved[:-1, :-1])[1]
    return x, volume


@given(DIMENSIONS, SEEDS)
def test_flow_and_volume_are_those_of_the_matrix_exponential(d, seed):
    schedule = drawn(d, seed)
    x = np.random.default_rng(seed + 1).normal(size=(5, d))
    y, log_det = schedule.carry(x)
    for point, image, volume in zip(x, y, log_det, strict=True):
        expected, expected_volume = by_matrix_exponential(schedule, point)
        np.testing.assert_allclose(image, expected, atol=1e-11 * (1 + np.abs(expected).max()))
        assert volume == pytest.approx(expected_volume, abs=1e-11)


@given(DIMENSIONS, SEEDS)
def test_inverse_brings_every_point_back_with_the_opposite_volume(d, seed):
    schedule = drawn(d, seed)
    x = np.random.default_rng(seed + 1).normal(size=(20, d))
    y, log_det = schedule.carry(x)
    size = 1 + np.abs(y).max()
    np.testing.assert_allclose(schedule.inverse().apply(y), x, atol=1e-10 * size)
    back, same = schedule.pullback(y)
    np.testing.assert_allclose(back, x, atol=1e-10 * size)
    np.testing.assert_allclose(same, log_det, atol=1e-12)


@given(DIMENSIONS, SEEDS, st.floats(0, 1))
def test_composition_adds_pieces_and_volumes(d, seed, share):
    first, second = drawn(d, seed), drawn(d, seed + 1)
    x = np.random.default_rng(seed + 2).normal(size=(7, d))
    both = first + second
    assert both.n_switches == first.n_pieces + second.n_pieces - 1
    middle, volume = first.carry(x)
    end, rest = second.carry(middle)
    np.testing.assert_allclose(both.apply(x), end, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(both.log_det(x), volume + rest, atol=1e-13)
    cut = share * both.n_pieces
    halves = both.between(0, cut) + both.between(cut, both.n_pieces)
    np.testing.assert_allclose(halves.apply(x), end, atol=1e-10 * (1 + np.abs(end).max()))


@pytest.mark.parametrize("d", [1, 3, 8])
def test_flow_agrees_with_an_adaptive_integrator(d):
    schedule = drawn(d, 5)
    x = np.random.default_rng(6).normal(size=(8, d))
    state = x
    for w, a, b, tau in zip(schedule.w, schedule.a, schedule.b, schedule.tau, strict=True):

        def field(t, z, w=w, a=a, b=b):
            return (np.maximum(z.reshape(x.shape) @ a + b, 0)[:, None] * w).ravel()

        state = solve_ivp(field, (0, tau), state.ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    state = state.reshape(x.shape)
    assert np.abs(schedule.apply(x) - state).max() <= 1e-10 * (1 + np.abs(state).max())


@pytest.mark.parametrize("points", [3, 5000, 20_000])
def test_compiled_blocks_and_plain_loop_agree(points, monkeypatch):
    schedule = drawn(3, 1, pieces=40)
    x = np.random.default_rng(2).normal(size=(points, 3))
    plain = schedule.carry(x[:3000])
    monkeypatch.setattr(flow, "_WORTH_COMPILING", 0)
    blocks = schedule.carry(x)
    for one, other in zip(plain, blocks, strict=True):
        np.testing.assert_allclose(one, other[: len(one)], rtol=1e-12, atol=1e-11)


def test_the_log_determinant_is_that_of_the_derivative_and_jax_sees_through():
    schedule = drawn(4, 3)
    x = jnp.asarray(np.random.default_rng(4).normal(size=(6, 4)))
    derivative = jax.jit(jax.vmap(jax.jacfwd(lambda point: schedule.apply(point))))(x)
    np.testing.assert_allclose(schedule.log_det(x), np.linalg.slogdet(derivative)[1], atol=1e-12)
    push = jax.grad(lambda w: Schedule(w, schedule.a, schedule.b, schedule.tau).apply(x).sum())(jnp.asarray(schedule.w))
    step = 1e-6 * np.random.default_rng(5).normal(size=push.shape)
    near = [Schedule(schedule.w + s, schedule.a, schedule.b, schedule.tau).apply(x).sum() for s in (step, -step)]
    assert float((push * step).sum()) == pytest.approx(float(near[0] - near[1]) / 2, rel=1e-6)


def test_normal_form_and_simplify_keep_the_map():
    schedule = drawn(3, 7) + Schedule.empty(3) + drawn(3, 8)
    x = np.random.default_rng(9).normal(size=(10, 3))
    normal = schedule.normal_form()
    assert normal.duration == pytest.approx(1.0)
    np.testing.assert_allclose(np.linalg.norm(normal.a, axis=1)[1:6], 1.0)
    np.testing.assert_allclose(normal.apply(x), schedule.apply(x), rtol=1e-11, atol=1e-11)
    assert normal.sup_norm() == pytest.approx(schedule.sup_norm())
    doubled = Schedule.join([schedule[:1], schedule[:1], schedule[1:]])
    assert doubled.simplify().n_pieces == schedule.simplify().n_pieces
    np.testing.assert_allclose(doubled.simplify().apply(x), doubled.apply(x), rtol=1e-10, atol=1e-10)
    assert (schedule + schedule.inverse()).simplify().n_pieces == 0


def test_the_density_of_the_image_integrates_to_one():
    schedule = drawn(2, 10, pieces=3)
    at = np.linspace(-12, 12, 801)
    density = np.exp(schedule.density(gaussian(2)).log_density(np.stack(np.meshgrid(at, at), axis=-1)))
    assert density.sum() * (at[1] - at[0]) ** 2 == pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_saved_schedules_come_back_bit_for_bit(tmp_path, suffix):
    schedule = drawn(3, 11)
    schedule.save(tmp_path / f"s.{suffix}")
    again = load(tmp_path / f"s.{suffix}")
    assert isinstance(again, Schedule)
    for name, values in schedule.arrays().items():
        np.testing.assert_array_equal(values, again.arrays()[name])
    Schedule.empty(4).save(tmp_path / f"e.{suffix}")
    assert load(tmp_path / f"e.{suffix}").d == 4


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_damaged_files_are_told_in_one_sentence(tmp_path, suffix):
    path = tmp_path / f"s.{suffix}"
    drawn(3, 11).save(path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"\x00" * 50, b"[1, 2]", b'{"space": "nowhere"}'):
        path.write_bytes(broken)
        with pytest.raises(SphereflowError, match="damaged, or no"):
            load(path)


def test_nonsense_inside_a_file_is_told_too(tmp_path):
    path = tmp_path / "s.json"
    drawn(2, 11).save(path)
    for old, new in (('"dt": ', '"dt": -'), ('"d": 2', '"d": 3'), ('"b": ', '"b": NaN, "c": ')):
        drawn(2, 11).save(path)
        path.write_text(path.read_text().replace(old, new, 1))
        with pytest.raises(SphereflowError, match="cannot"):
            load(path)
    with pytest.raises(SphereflowError, match="no file"):
        load(tmp_path / "absent.json")
    with pytest.raises(SphereflowError, match=r"\.json or a \.npz"):
        drawn(2, 11).save(tmp_path / "s.pickle")


def test_frames_begin_with_the_points_and_end_with_their_image(tmp_path):
    schedule = drawn(2, 12)
    x = np.random.default_rng(13).normal(size=(30, 2))
    frames = schedule.frames(x, 5)
    np.testing.assert_array_equal(frames[0], x)
    np.testing.assert_allclose(frames[-1], schedule.apply(x), atol=1e-11)
    assert schedule.animate(x, tmp_path / "flow.gif", frames=2).stat().st_size > 1000
    with pytest.raises(SphereflowError, match="shape"):
        schedule.animate(x[:, :1], tmp_path / "flow.gif")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"w": np.ones((2, 3))}, "shape"),
        ({"b": [1.0, np.nan]}, "finite"),
        ({"tau": [1.0, -1.0]}, "negative"),
        ({"w": np.full((2, 2), 1e3)}, "stretches"),
        ({"a": "words"}, "numbers"),
    ],
)
def test_impossible_weights_are_refused(change, sentence):
    fine = {"w": np.ones((2, 2)), "a": np.ones((2, 2)), "b": np.zeros(2), "tau": np.ones(2)}
    with pytest.raises(SphereflowError, match=sentence):
        Schedule(**(fine | change))


def test_points_and_schedules_of_other_dimensions_are_refused():
    with pytest.raises(SphereflowError, match="2 coordinates"):
        drawn(2, 0).apply(np.zeros((4, 3)))
    with pytest.raises(SphereflowError, match="one dimension"):
        drawn(2, 0) + drawn(3, 0)
    with pytest.raises(SphereflowError, match="base law"):
        drawn(2, 0).density(gaussian(3))
