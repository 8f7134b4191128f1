"""Training is deterministic, goes on after a stop as if nothing had happened, and reads two domains from files."""

import gzip
import struct
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.drifting import Friction, TwoSidedField, checkpoints
from sphereflow.drifting.domains import two_domains
from sphereflow.drifting.friction import adam_effective_gain
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.latents import principal_components, read_ages, read_idx, read_rows
from sphereflow.drifting.samplers import from_rows, law
from sphereflow.drifting.training import Recipe, beginning, train
from sphereflow.errors import SphereflowError
from sphereflow.observables import (
    energy_distance,
    frechet,
    gaussian_like,
    mmd,
    sampling_floor,
    sliced_wasserstein,
)


def noise(key, n):
    return jax.random.normal(key, (n, 32), dtype=jnp.float32)


MODEL = Generator(32, 2, width=32, depth=2, key=jax.random.key(1))
FIELD = TwoSidedField(width=0.05)


def run(recipe, state=None, **options):
    state = beginning(MODEL, recipe) if state is None else state
    return train(state, recipe, FIELD, noise, law("swiss-roll"), every=10, progress=False, **options)


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state) if hasattr(leaf, "shape")]


@pytest.mark.slow
def test_a_stored_run_goes_on_to_the_same_numbers(tmp_path):
    recipe = Recipe(steps=30, batch=32, friction=Friction("gain", 0.0, 1.0, 30))
    states = []
    history = run(recipe, keep=states.append)
    whole = history.state
    checkpoints.save(tmp_path / "run.npz", states[0], {"steps": 30})
    resumed = run(recipe, checkpoints.restore(tmp_path / "run.npz", MODEL, recipe)).state
    assert int(states[0].step) == 10
    for a, b in zip(leaves(whole), leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(history.loss) == 3
    assert np.isfinite(history.drift).all()


@pytest.mark.slow
def test_gain_friction_is_the_linear_schedule_under_plain_descent():
    friction = run(Recipe(steps=20, batch=32, optimiser="sgd", rate=1.0, friction=Friction("gain", 0, 1, 20)))
    schedule = run(Recipe(steps=20, batch=32, optimiser="sgd", rate=1.0, schedule="linear"))
    plain = run(Recipe(steps=20, batch=32, optimiser="sgd", rate=1.0))
    for a, b in zip(leaves(friction.state.model), leaves(schedule.state.model), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert any(
        np.max(np.abs(a - b)) > 1e-4
        for a, b in zip(leaves(friction.state.model), leaves(plain.state.model), strict=True)
    )


def test_adam_cancels_friction_that_hardly_changes():
    assert adam_effective_gain(Friction("gain", 0.3, 0.3, 200)) == pytest.approx(np.ones(200))
    # Short runs: the first moment lags 9 steps, the second is the plain mean of the squares (1 - u)^2 so far.
    assert adam_effective_gain(Friction("gain", 0.0, 1.0, 100))[50] == pytest.approx(0.59 / np.sqrt(0.583), abs=0.02)


@pytest.mark.slow
def test_the_energy_distance_falls():
    seen = []
    data = np.asarray(law("swiss-roll")(jax.random.key(3), 1000), float)
    measure = lambda g: {"energy": energy_distance(np.asarray(g(noise(jax.random.key(2), 1000)), float), data)}  # noqa: E731
    recipe = Recipe(steps=100, batch=128, rate=3e-3, decay=0.9)
    found = train(
        beginning(MODEL, recipe),
        recipe,
        FIELD,
        noise,
        law("swiss-roll"),
        every=50,
        measure=measure,
        keep=seen.append,
        progress=False,
    )
    assert measure(MODEL)["energy"] > 0.2
    assert found.measured[-1]["energy"] < 0.03
    assert [int(s.step) for s in seen] == [50, 100]
    assert int(found.state.step) == 100


@pytest.mark.slow
def test_restoring_friction_keeps_samples_near_their_source():
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(500, 2)), rng.normal(size=(500, 2)) + 3
    moved = []
    for friction in (Friction("none"), Friction("restoring", 1.0, 1.0, 60)):
        recipe = Recipe(steps=60, batch=64, rate=3e-3, decay=0.9, friction=friction)
        model = Generator(2, 2, width=32, depth=2, residual=True, key=jax.random.key(0))
        found = train(
            beginning(model, recipe),
            recipe,
            TwoSidedField(width=1.0),
            from_rows(source),
            from_rows(target),
            every=60,
            progress=False,
        )
        moved.append(float(np.mean((np.asarray(found.generator(jnp.asarray(source))) - source) ** 2)))
    assert moved[1] < 0.5 * moved[0]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: Recipe(steps=0), "steps"),
        (lambda: Recipe(rate=-1.0), "rate"),
        (lambda: Recipe(optimiser="lion"), "optimiser"),
        (lambda: Recipe(schedule="sudden"), "schedule"),
        (lambda: Recipe(friction=Friction("viscous", 0, 1, 10)), "viscous"),
        (lambda: Recipe(friction=Friction("opposing", 0, 1, 10)), "opposing"),
        (lambda: Friction("repulsion", 0, 1, 3).follow(np.ones(2), np.negative, 0.1), "repulsion"),
        (lambda: run(Recipe(steps=2, batch=4, friction=Friction("restoring", 0, 1, 2))), "residual"),
        (lambda: from_rows(np.full((3, 2), np.nan)), "finite"),
        (lambda: checkpoints.read("nowhere.npz"), "no file"),
    ],
)
def test_bad_input_is_named(call, word):
    with pytest.raises(SphereflowError, match=word):
        call()


def test_a_damaged_file_and_another_network_are_refused(tmp_path):
    recipe = Recipe(steps=2, batch=4)
    path = tmp_path / "run.npz"
    checkpoints.save(path, beginning(MODEL, recipe), {})
    with pytest.raises(SphereflowError, match="another network"):
        checkpoints.restore(path, Generator(32, 2, width=16, depth=2, key=jax.random.key(1)), recipe)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(SphereflowError, match="damaged"):
        checkpoints.read(path)


def test_ages_split_digits_into_two_domains(tmp_path):
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    age = np.where(digits.target == 3, 40, np.where(digits.target == 8, 17, -1))
    np.savez(tmp_path / "latents.npz", latents=digits.data, age=age)
    adults, children = read_ages(tmp_path / "latents.npz")
    assert (len(adults), len(children)) == ((digits.target == 3).sum(), (digits.target == 8).sum())
    projection = principal_components(np.concatenate([adults, children]), 40)
    error = np.mean((projection.decode(projection.encode(adults)) - adults) ** 2) / np.var(adults)
    assert error < 0.02
    np.savez(tmp_path / "few.npz", latents=digits.data, age=np.full(len(digits.data), 30))
    with pytest.raises(SphereflowError, match="too few"):
        read_ages(tmp_path / "few.npz")
    np.savez(tmp_path / "short.npz", latents=digits.data, age=age[:5])
    with pytest.raises(SphereflowError, match="its age"):
        read_ages(tmp_path / "short.npz")


def test_idx_files(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = struct.pack(">HBB3I", 0, 8, 3, 2, 3, 4) + images.tobytes()
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), images)
    np.testing.assert_allclose(read_rows(tmp_path / "a.gz"), images.reshape(2, 12) / 255)
    for name, bad, word in (
        ("short", content[:-3], "cut short"),
        ("kind", b"\0\0\x0d" + content[3:], "not an idx"),
        ("huge", struct.pack(">HBB3I", 0, 8, 3, 2**31, 2**31, 4), "too many"),
        ("empty", b"", "damaged"),
        ("broken.gz", gzip.compress(content)[:20], "damaged"),
    ):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(SphereflowError, match=word):
            read_idx(tmp_path / name)


def test_distances_of_known_gaussians():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20_000, 2)), 1 + 2 * rng.normal(size=(20_000, 2))
    assert frechet(x, y) == pytest.approx(2 * 1.0 + 2 * (2 - 1) ** 2, rel=0.03)
    near = rng.normal(size=(2, 1000, 2))
    assert abs(mmd(*near)) < 0.005
    assert abs(energy_distance(*near)) < 0.01


def test_chance_and_shape_are_told_apart():
    """The floor is what two samples of one law give; a Gaussian with the same moments is several times above it."""
    rng = np.random.default_rng(1)
    draw = lambda: np.asarray(law("checkerboard")(jax.random.key(int(rng.integers(1000))), 800), float)  # noqa: E731
    floor = sampling_floor(draw(), draw())
    again = np.sqrt(np.mean([energy_distance(draw(), draw()) ** 2 for _ in range(12)]))
    assert 0.5 < floor / again < 2
    blob = gaussian_like(draw(), 800)
    assert np.allclose(np.cov(blob.T), np.cov(draw().T), atol=0.06)
    assert energy_distance(blob, draw()) > 2 * floor


def test_sliced_distance_of_a_shift_and_of_heavy_tails():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 2))
    # Every projection moves by u . c, and the mean of its square over directions of the plane is |c|^2 / 2.
    assert sliced_wasserstein(x, x + np.array([3.0, 4.0]), directions=4000) == pytest.approx(5 / np.sqrt(2), rel=0.02)
    u = np.random.default_rng(0).normal(size=(2, 16))
    y = rng.normal(size=(300, 2)) ** 3  # equal masses: three copies of each of 400 points, four of each of 300
    lines = [np.repeat(np.sort(z @ (u / np.linalg.norm(u, axis=0)), axis=0), k, axis=0) for z, k in ((x, 3), (y, 4))]
    exact = np.sqrt(np.mean((lines[0] - lines[1]) ** 2))
    assert sliced_wasserstein(x, y, directions=16) == pytest.approx(exact, rel=1e-12)


def test_rows_are_drawn_evenly():
    drawn = np.asarray(from_rows(np.arange(7.0)[:, None])(jax.random.key(0), 70_000))[:, 0]
    assert np.bincount(drawn.astype(int), minlength=7) == pytest.approx(np.full(7, 10_000), abs=450)


def test_a_translator_starts_as_the_identity_and_a_generator_within_its_bounds():
    x = jnp.asarray(np.random.default_rng(3).normal(size=(5, 4)), jnp.float32)
    np.testing.assert_array_equal(Generator(4, 4, width=8, depth=2, residual=True, key=jax.random.key(0))(x), x)
    first, second = (Generator(32, 2, key=jax.random.key(k)).network.layers[1] for k in (0, 1))
    assert float(jnp.max(jnp.abs(first.weight))) <= 1 / 16
    assert float(jnp.std(first.weight)) == pytest.approx(1 / 16 / np.sqrt(3), rel=0.02)
    assert not np.array_equal(first.weight, second.weight)


def test_two_domains_are_found_or_drawn(tmp_path, monkeypatch):
    for name, values in (("images-idx3", np.full((4, 6, 6), 255)), ("labels-idx1", np.array([5, 9, 9, 0]))):
        head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
        (tmp_path / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))
    assert [len(rows) for rows in two_domains(folder=tmp_path)[1:3]] == [1, 2]
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    made = two_domains(50, tmp_path / "nowhere")
    assert made.name == "discs to rings"
    assert made.first.shape == made.second.shape == (50, 256)
    middle = 8 * 16 + 8
    assert made.first[:, middle].min() > 0.9 > 0.5 > made.second[:, middle].max()


def test_particles_move_by_the_five_updates():
    def field(x):
        return -x * np.exp(-np.abs(x)) + repulsion(x)

    def repulsion(x):
        return 2 * x * np.exp(-2 * np.abs(x))

    x0, step = np.array([0.3, 1.7]), 0.4
    for mode in ("gain", "restoring", "repulsion", "viscous", "opposing"):
        path = Friction(mode, 0.1, 0.9, 5).follow(x0, field, step, reference=0.2, repulsion=repulsion)
        x, before, v = x0, x0, 0.0
        for t in range(5):
            level = 0.1 + 0.8 * t / 5
            v = (1 - level) * v + step * field(x)
            moved = {
                "gain": x + step * (1 - level) * field(x),
                "restoring": x + step * (field(x) - level * (x - 0.2)),
                "repulsion": x + step * (-x * np.exp(-np.abs(x)) + (1 - level) * repulsion(x)),
                "viscous": x + v,
                "opposing": x + step * field(x) - level * (x - before),
            }[mode]
            before, x = x, moved
            np.testing.assert_allclose(path[t + 1], x, rtol=1e-13, err_msg=mode)
