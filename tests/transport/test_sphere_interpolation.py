"""N measures to N targets by one schedule: what users give, what they get, and what is refused."""

import tracemalloc

import numpy as np
import ot
import pytest
from scipy.stats import norm

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.transport.files import load
from sphereflow.transport.learned.transformers import train_transformer
from sphereflow.transport.sphere import flows
from sphereflow.transport.sphere.bounds import perceptron_bound, shared_mass
from sphereflow.transport.sphere.certificates import separating_vector, w2
from sphereflow.transport.sphere.construction import ConstructionState, random_orthogonal_units
from sphereflow.transport.sphere.held_out import score
from sphereflow.transport.sphere.inputs import Measure, measure, quantised
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.laws import SphereLaw
from sphereflow.transport.sphere.margins import cluster
from sphereflow.transport.sphere.pieces import Gate, RankOne

RNG = np.random.default_rng(5)
A, B, C = np.eye(3)


def caps(d, N, n, seed, radius=0.8):
    rng = np.random.default_rng(seed)
    base, clouds = unit(rng.normal(size=d)), []
    for _ in range(N):
        centre = unit(base + 0.2 * rng.normal(size=d))
        angle = radius * rng.uniform(size=(n, 1))
        clouds.append(np.cos(angle) * centre + np.sin(angle) * random_orthogonal_units(rng, n, centre[None]))
    return clouds


@pytest.fixture(scope="module")
def three():
    return interpolate(caps(3, 3, 40, 0), list(unit(RNG.normal(size=(3, 3)))))


def test_every_measure_arrives(three):
    ends = three.schedule.apply([m.points for m in three.sources])
    for end, target in zip(ends, three.targets, strict=True):
        assert np.abs(end - target.points[0]).max() < 1e-5
    assert three.w2.max() <= 1e-5
    assert three.n_pieces <= three.bound
    assert three.hulls["disentangled"] == (3, 3)
    assert not three.limited_by
    assert three.replay_error == 0.0


def test_stored_schedule_does_the_same(three, tmp_path):
    three.schedule.save(tmp_path / "s.json")
    again = load(tmp_path / "s.json")
    for m, end in zip(three.sources, three.final, strict=True):
        assert np.array_equal(again.apply(m.points), end.points)


def test_result_describes_itself(three):
    assert "3 measures" in repr(three)
    assert sum(three.pieces_of.values()) == three.n_pieces
    assert three.history["radius"].shape == (3, three.n_pieces + 1)
    assert three.history["radius"][:, -1].max() < 1e-5
    figure = three.plot()
    figure.canvas.draw()


@pytest.mark.slow
def test_movie(three, tmp_path):
    path = three.schedule.animate([m.points for m in three.sources], tmp_path / "m.gif", frames=2)
    assert path.stat().st_size > 1000


@pytest.mark.fast_cases("3")
@pytest.mark.parametrize("d", [3, 5])
def test_atoms_of_unequal_mass(d):
    sources = caps(d, 2, 40, d)
    targets = [(unit(RNG.normal(size=(2, d))), [0.3, 0.7]), (unit(RNG.normal(size=(3, d))), [0.5, 0.25, 0.25])]
    found = interpolate(sources, targets)
    for end, (atoms, masses) in zip(found.final, targets, strict=True):
        near = angles(end.points[:, None], atoms) < 1e-5
        np.testing.assert_allclose(near.mean(axis=0), masses, atol=1e-12)
    assert found.w2.max() < 1e-5


def test_masses_that_cannot_be_met_are_reported():
    found = interpolate([(np.stack([A, B]), [0.9, 0.1]), C], [np.stack([-A, -B]), -C])
    assert found.w2[0] == pytest.approx(np.sqrt(0.4) * np.pi / 2, rel=1e-3)
    assert "masses" in found.limited_by


def test_equal_numbers_of_atoms_match_exactly():
    """Shared atoms on both sides: disentangle, match, return (Theorem 1.2)."""
    common, goal = unit(np.ones(3)), unit(np.array([-1.0, -2.0, 0.5]))
    sources = [np.stack([common, x]) for x in unit(RNG.normal(size=(2, 3)))]
    targets = [np.stack([goal, y]) for y in unit(RNG.normal(size=(2, 3)))]
    found = interpolate(sources, targets)
    assert found.w2.max() < 1e-9
    assert "return the targets" in found.pieces_of


def test_distinct_points_need_no_attention():
    found = interpolate([A, B, C], [B, C, A])
    assert found.w2.max() < 1e-11
    assert all(isinstance(piece, Gate) for piece in found.schedule)


def test_overlapping_measures_need_attention(three):
    assert three.schedule.count(RankOne) == 4  # there and back for all but the last, which is alone by then


@pytest.mark.parametrize(
    ("sources", "targets"),
    [([A, B], [-A, C]), ([A, B], [C, -C]), ([A, -A], [-A, A]), ([A, -A, B, -B], [-A, A, -B, B])],
    ids=["opposite target", "opposite targets", "exchange", "two exchanges"],
)
def test_points_in_each_others_way(sources, targets):
    """On S^2 every great circle through a point passes its opposite: waypoints, parking and single caps help."""
    assert interpolate(sources, targets).w2.max() < 1e-10


@pytest.mark.slow
def test_repeated_pairs_are_one_pair():
    cloud = caps(3, 1, 20, 3)[0]
    found = interpolate([cloud, B, cloud[::-1]], [A, -C, A])
    assert found.w2.max() < 1e-5
    assert found.n_pieces <= 18


@pytest.mark.slow
def test_dense_target_by_a_few_atoms():
    cloud, goal = caps(3, 2, 60, 9)
    found = interpolate([cloud], [goal[:45]], atoms=5)
    assert found.w2[0] == pytest.approx(found.quantisation[0], abs=2 * found.w2_atoms[0] + 1e-9)
    assert found.quantisation[0] < 0.5
    assert "atoms" in found.limited_by
    assert np.ptp(quantised(measure(goal, "goal"), 4).masses) < 1e-12


def test_certificates_against_independent_computations():
    x, y = caps(3, 2, 30, 1)
    assert separating_vector(x, y) is None
    far = unit(y - 3 * unit(x.mean(axis=0)))
    h = separating_vector(x, far)
    assert h is not None
    assert (x @ h).min() >= 1 - 1e-9
    assert (far @ h).max() <= -1 + 1e-9
    atoms, masses = y[:3], np.array([0.5, 0.3, 0.2])
    cost = np.arccos(np.clip(x @ atoms.T, -1, 1)) ** 2
    expected = np.sqrt(ot.emd2(np.full(30, 1 / 30), masses, cost))
    assert w2(x, np.full(30, 1 / 30), atoms, masses) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.2], [0.5, 0.25, 0.25], [0.123, 0.4, 0.477], [0.7, 0.3, 0.0]])
@pytest.mark.parametrize("arrived", [0.0, 1e-7, 2.0])
def test_distance_to_few_atoms_of_unequal_shares_is_that_of_pot(shares, arrived):
    """Far from the atoms, near them, and on them, where a wrong plan of rounding size would show."""
    rng, masses = np.random.default_rng(3), np.array(shares)
    atoms = unit(rng.normal(size=(3, 4)))
    own = rng.permutation(np.repeat(np.arange(3), [20, 12, 8]))
    x, given = unit(atoms[own] + arrived * rng.normal(size=(40, 4))), np.full(40, 1 / 40)
    expected = np.sqrt(ot.emd2(given, masses, angles(x[:, None], atoms) ** 2))
    if shares == [0.5, 0.3, 0.2] and arrived < 1:  # everyone is where it should be; POT's rounding is larger than W2
        expected = np.sqrt(np.mean(angles(x, atoms[own]) ** 2))
    assert w2(x, given, atoms, masses) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert w2(atoms, masses, x, given) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_distance_to_few_atoms_needs_no_table_of_all_pairs_of_points():
    """20,000 points and atoms of 3/10 and 7/10: as equal masses they were 20,000^2 pairs, 10 GB."""
    rng, n = np.random.default_rng(4), 20_000
    x, atoms = unit(rng.normal(size=(n, 3))), unit(rng.normal(size=(2, 3)))
    tracemalloc.start()
    found = w2(x, np.full(n, 1 / n), atoms, np.array([0.3, 0.7]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 8 * n  # a hundred numbers for a point
    # With two atoms the best plan is known: those to whom the first is cheapest, beside the second, go there.
    first, second = angles(x, atoms[0]) ** 2, angles(x, atoms[1]) ** 2
    order = np.argsort(first - second)
    cost = first[order[: 3 * n // 10]].sum() + second[order[3 * n // 10 :]].sum()
    assert found == pytest.approx(np.sqrt(cost / n), rel=1e-9)


def test_perceptron_bound_counts_the_shared_mass():
    first, second = measure((np.stack([A, B, C]), [0.5, 0.3, 0.2]), "x"), measure((np.stack([A, C]), [0.4, 0.6]), "y")
    assert shared_mass(first, second) == pytest.approx(0.6)
    assert perceptron_bound([first, second], [A, B]) == pytest.approx(np.sqrt(0.6) / 2 * np.pi / 2)
    with pytest.raises(SphereflowError, match="one target point"):
        perceptron_bound([first], [np.stack([A, B])])


@pytest.mark.slow
def test_training_towards_atoms_descends():
    sources = [np.stack([A, unit(A + 0.2 * B)]), np.stack([B, unit(B + 0.2 * C)])]
    targets = [np.stack([C, unit(A + C)]), np.stack([-C, unit(B - C)])]
    found = train_transformer(sources, targets, 2, steps=20, substeps=2)
    assert found.losses[-1] < found.losses[0]
    start = interpolate(sources, targets).schedule[:2]
    assert len(train_transformer(sources, targets, 9, start=start, steps=10, substeps=2).schedule) == 2


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["sinkhorn", "mmd"])
def test_other_losses_descend(loss):
    sources, targets = caps(3, 2, 10, 1), caps(3, 2, 10, 2)
    found = train_transformer(sources, targets, 2, loss=loss, steps=40, substeps=2)
    assert found.losses[-1] < 0.7 * found.losses[0]


def law(seed, i, radius=0.9):
    """Three caps that overlap, as laws."""
    rng = np.random.default_rng(seed)
    return SphereLaw.cap(unit(np.array([1.0, 1.0, 1.0]) + 0.5 * rng.normal(size=(3, 3)))[i], radius)


def test_fresh_samples_of_the_laws_arrive():
    """Built from 200 points of each law and scored on others: 0.05 was asked for, and the margins say why."""
    laws = [law(4, i) for i in range(3)]
    goals = list(unit(RNG.normal(size=(3, 3))))
    found = interpolate([each.sample(200, i) for i, each in enumerate(laws)], goals)
    score = found.held_out(laws, n=3000)
    assert score.w2.max() < 1e-5
    assert score.missed.max() == 0
    np.testing.assert_allclose(score.mass_bound, 1 - (0.05 / 3) ** (1 / 3000), rtol=1e-9)
    assert found.certified
    assert found.safety.min() > 3


def test_margins_hold_for_every_law_in_the_cap():
    """Replicas whose means are off by nearly what is allowed, of any shape, reach the same clusters."""
    laws = [law(4, i).sample(60, i) for i in range(3)]
    route = ConstructionState(laws, [np.full(60, 1 / 60)] * 3)
    clusters = cluster(route, 1e-6, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for i, cloud in enumerate(laws):
        for _ in range(4):
            masses = 1 + 0.25 * rng.uniform(-1, 1, size=60) * min(clusters.margins[i].safety, 1)
            end = route.schedule.apply(cloud, masses)
            assert angles(end, clusters.places[i]).max() < 1e-6


def test_laws_too_close_for_the_points_are_said_and_redrawn():
    """Two caps 0.02 apart: 200 points do not tell them apart, as many as are needed are drawn from the laws."""
    laws = [SphereLaw.cap(c, 0.9) for c in (A, unit(A + 0.02 * B))]
    few = interpolate([each.sample(200, i) for i, each in enumerate(laws)], [B, C])
    assert not few.certified
    assert few.astray > 0.01
    assert few.points_needed > 200
    assert "not certified" in few.summary()
    assert few.astray == pytest.approx(min(1, 3 * norm.sf(few.safety.min())))
    found = interpolate(laws, [B, C], nodes=500)
    assert len(found.sources[0]) > 10_000
    assert found.certified
    assert found.held_out(n=4000).w2.max() < 1e-5


def test_caps_apart_need_no_attention():
    laws = [SphereLaw.cap(c, 0.4) for c in np.eye(3)]
    found = interpolate([each.sample(50) for each in laws], [-A, -B, -C])
    assert found.schedule.count(RankOne) == 0
    assert np.isinf(found.safety).all()
    assert found.held_out(laws, n=500).w2.max() < 1e-5


def test_laws_and_maps_are_measures_too():
    """A density as source; the target is its push-forward by a map, met by a few atoms."""
    tilted = SphereLaw.of_density(lambda x: np.maximum(x[:, 2] - 0.8, 0), 3)
    found = interpolate([tilted], [lambda x: x[:, [2, 0, 1]]], atoms=3, nodes=200, tol=1e-3)
    score = found.held_out(n=600)
    assert len(found.atoms[0]) == 3
    assert score.w2[0] == pytest.approx(found.quantisation[0], rel=0.25)
    assert score.missed[0] < 0.05
    reached = [found.schedule.apply([tilted.drawn(600, np.random.default_rng(1))])[0]]
    atoms, equal = found.atoms[0], np.full(600, 1 / 600)
    assert Measure(reached[0], equal).distance(atoms) <= score.w2_bound[0] < np.pi


def shares_at(atoms, shares, n, rng):
    """Points within 1e-3 of atoms, with these chances."""
    place = rng.choice(len(atoms), n, p=shares)
    return unit(atoms[place] + 5e-4 * unit(rng.standard_normal((n, 3))))


def test_the_bound_on_shares_of_atoms_covers_what_is_true():
    """Laws that sit at four atoms with known shares: W2 by a linear program is below the bound, nearly always."""
    rng = np.random.default_rng(20)
    atoms = np.concatenate([np.eye(3), -np.eye(3)[:1]])
    asked, true = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.28, 0.34, 0.18, 0.2])
    goal = Measure(atoms, asked)
    # What atoms lack, .14, is the mass that has to move, and a quarter turn is the least that it does.
    exact = Measure(atoms, true).distance(goal)
    assert exact >= np.sqrt(0.14) * np.pi / 2 - 1e-12
    scores = [score([shares_at(atoms, true, 400, rng)], [goal], [goal], 1e-3, 0.9) for _ in range(60)]
    lacking = np.array([each.mass_bound[0] for each in scores])
    # With confidence .9 a bound fails in at most 6 of 60 on average; 13 have a chance below .01.
    assert (lacking < 0.14).sum() <= 13
    assert (np.array([each.w2_bound[0] for each in scores]) < exact).sum() <= 13
    many = score([shares_at(atoms, true, 2000, rng)], [goal], [goal], 1e-3, 0.95)
    # A share of 2,000 points is .011 off at most, in standard deviations; bounds are about three of them away.
    assert 0.14 < many.mass_bound[0] < 0.14 + 2 * 6 * 0.011
    assert many.missed[0] == 0
    assert many.misplaced[0] == pytest.approx(0.14, abs=4 * 0.011)
    assert "the shares of atoms are not those asked for in 1 of 1 measures: measure 0 has 0.1" in str(many)


def test_right_shares_are_not_said_to_be_wrong():
    rng = np.random.default_rng(21)
    atoms, asked = np.eye(3), np.array([0.5, 0.3, 0.2])
    goal = Measure(atoms, asked)
    said = [str(score([shares_at(atoms, asked, 300, rng)], [goal], [goal], 1e-3, 0.95)) for _ in range(60)]
    assert sum("not those asked for" in each for each in said) <= 9  # 3 on average at most, 9 with chance .003
    astray = np.concatenate([np.tile(atoms[:1], (9, 1)), -np.ones((1, 3)) / np.sqrt(3)])
    lost = score([astray], [Measure(atoms[:1], np.ones(1))], [Measure(atoms[:1], np.ones(1))], 1e-3, 0.95)
    assert (lost.missed[0], lost.misplaced[0]) == (pytest.approx(0.1), pytest.approx(0.1))
    assert "shares" not in str(lost)


@pytest.mark.slow
@pytest.mark.parametrize("N", [2, 3])
def test_several_densities_at_once(N):
    """Overlapping laws to the images of maps, twelve atoms each: fresh points arrive at the atoms."""
    turns = [np.eye(3)[[2, 0, 1]], np.eye(3)[[1, 2, 0]], np.diag([-1.0, -1.0, 1.0])]
    found = interpolate([law(4, i) for i in range(N)], [lambda x, q=q: x @ q.T for q in turns[:N]], nodes=600, tol=1e-3)
    score = found.held_out(n=2000)
    assert score.missed.max() < 0.02
    assert (score.w2 < found.quantisation + 0.08).all()  # two samples of 2,000 points of such a cap are 0.04 apart


def test_equal_targets_are_reached_to_within_the_tolerance():
    found = interpolate(caps(3, 2, 30, 4), [A, A], tol=1e-3)
    assert 1e-6 < found.w2.max() <= 1e-3


def test_mean_of_many_particles_is_interpolated_to_rounding(monkeypatch):
    y, masses = np.random.default_rng(0).normal(size=2500), np.full(2500, 1 / 2500)
    fast = [flows.attention_shift(y, masses, sign, 8.0) for sign in (1.0, -1.0)]
    monkeypatch.setattr(flows, "_MANY", 10**6)
    np.testing.assert_allclose(fast, [flows.attention_shift(y, masses, s, 8.0) for s in (1.0, -1.0)], rtol=1e-11)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SphereLaw.cap(np.eye(3), 0.5), "one point"),
        (lambda: SphereLaw.cap(A, -1.0), "radius"),
        (lambda: SphereLaw(lambda rng, n: np.eye(3), 3).sample(5), "must return"),
        (lambda: SphereLaw.of_density(lambda x: x[:, 0], 3), "not negative"),
        (lambda: interpolate([SphereLaw.cap(A, 0.5)], [B], nodes=0), "nodes"),
        (lambda: interpolate([np.stack([A, B])], [C]).held_out(3), "a list of laws or of clouds"),
        (lambda: interpolate([np.stack([A, B])], [C]).held_out([(np.stack([A, B]), [0.9, 0.1])]), "different masses"),
        (lambda: interpolate([np.stack([A, B])], [lambda x: 1.0]), "must have the shape"),
        (lambda: interpolate([np.stack([A, B])], [C]).held_out(), "fresh points for each source"),
    ],
)
def test_laws_that_are_none_are_refused(call, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        call()


CIRCLE = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
NEAR = caps(3, 1, 30, 2)[0]


@pytest.mark.parametrize(
    ("sources", "targets", "sentence"),
    [
        ([A, A], [B, C], "equal measures stay equal"),
        ([np.stack([A, B]), np.stack([B, A])], [A, C], "equal measures stay equal"),
        ([A, B], [C, C], "merges nothing exactly"),
        ([NEAR, unit(NEAR + 1e-11 * A)], [A, B], "equal measures stay equal"),
        ([np.zeros((0, 3))], [A], r"sources\[0\] is an empty cloud"),
        ([], [], "sources is empty"),
        ([2 * A], [B], r"sources\[0\] must be unit vectors"),
        ([A, B], [C], "2 sources and 1 targets"),
        ([A], [CIRCLE[0]], "one sphere"),
        (list(CIRCLE), list(CIRCLE[[1, 0, 2, 3]]), "cyclic order"),
        (list(CIRCLE), list(CIRCLE[[1, 2, 3, 0]]), "d >= 3"),
        ([A * np.nan], [B], "finite"),
        ([np.stack([A, B])], [np.stack([A, B, C])], "cannot divide a point"),
        (3, [A], "list of measures"),
    ],
)
def test_impossible_requests_are_refused_in_a_sentence(sources, targets, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        interpolate(sources, targets)


def test_rotation_of_the_circle_is_not_called_a_change_of_order():
    with pytest.raises(SphereflowError) as caught:
        interpolate(list(CIRCLE), list(CIRCLE[[1, 2, 3, 0]]))
    assert "another order" not in str(caught.value)
