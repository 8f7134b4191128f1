"""Maps made exactly or up to a lattice: affine maps, 3-cycles, routes, the whole construction, random play."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sphereflow.errors import SphereflowError
from sphereflow.transport import (
    affine_schedule,
    fit_map,
    fit_velocities,
    lagrange_interpolant,
    sample_schedule,
    score_card,
    train_map,
)
from sphereflow.transport.conditional.maurey import Neurons, ensemble
from sphereflow.transport.euclidean.affine import rotation, shear
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.learned.maps import map_loss
from sphereflow.transport.learned.schedules import small_weights
from sphereflow.transport.maps.cell_permutations import route, route_schedule
from sphereflow.transport.maps.cell_slides import Cycle, slide_schedule
from sphereflow.transport.maps.diffeomorphism import _assignment
from sphereflow.transport.maps.smooth_map import ImageLaw, SmoothMap
from sphereflow.transport.maps.space_cycles import SpaceCycle, cycle_schedule, space_route


@given(st.integers(1, 6), st.integers(0, 10_000))
@settings(max_examples=25)
def test_affine_maps_are_exact(d, seed):
    rng = np.random.default_rng(seed)
    m, c, x = rng.normal(size=(d, d)), rng.normal(size=d), rng.normal(size=(20, d))
    m[0] *= np.sign(np.linalg.det(m))
    y, log_det = affine_schedule(m, c).carry(x)
    size = 1 + np.linalg.cond(m)
    np.testing.assert_allclose(y, x @ m.T + c, atol=1e-13 * size)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(m)[1], atol=1e-13 * size)


def test_pieces_of_affine_maps():
    assert shear(0, 1, 2.0, 3).n_pieces == 2
    assert rotation(0, 1, 1.0, 2).n_pieces == 6
    assert rotation(0, 1, 3.0, 2).n_pieces == 12
    assert affine_schedule([[0.0, -1.0], [1.0, 0.0]], [1.0, 0.0]).n_pieces == 7
    assert affine_schedule(np.diag([2.0, 3.0, 1.0])).n_pieces == 4
    assert affine_schedule(np.eye(3)).n_pieces == 0


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([[1.0, 0.0], [0.0, -1.0]], "negative determinant"),
        ([[1.0, 1.0], [1.0, 1.0]], "singular"),
        ([[1.0, 1.0]], "square"),
        ([[math.nan]], "finite"),
    ],
)
def test_affine_maps_that_no_flow_makes(matrix, said):
    with pytest.raises(SphereflowError, match=said):
        affine_schedule(matrix)


def test_a_slide_moves_its_row_and_no_other():
    slide = Cycle((3, 2), (0, 2), (3, 5)).slides()[0]
    schedule = slide_schedule([slide], 0.25, 0.1)
    assert schedule.n_pieces == 4
    y = np.array([0.24, 0.26, 0.51, 0.53, 0.62, 0.72, 0.76])
    moved = np.asarray(schedule.apply(np.stack([0 * y, y], axis=1)))[:, 0]
    np.testing.assert_allclose(moved, 0.75 * np.clip(np.minimum(y - 0.5, 0.75 - y) / 0.025, 0, 1), atol=1e-13)


def test_cycles_follow_their_arrows_and_back():
    # Different distances along rows and columns: mates that are exchanged would show.
    cycle = Cycle((4, 1), (1, 1), (4, 3))
    centres = (np.array([[1, 1], [4, 1], [4, 3]]) + 0.5) / 8
    there = slide_schedule(cycle.slides(), 1 / 8, 0.01).apply(centres)
    np.testing.assert_allclose(there, centres[[1, 2, 0]], atol=1e-12)
    back = slide_schedule(cycle._replace(forward=False).slides(), 1 / 8, 0.01).apply(centres)
    np.testing.assert_allclose(back, centres[[2, 0, 1]], atol=1e-12)
    assert cycle.moves() == {(1, 1): (4, 1), (4, 1): (4, 3), (4, 3): (1, 1)}


def test_cycles_that_make_no_sense():
    with pytest.raises(SphereflowError, match="row and one in the column"):
        Cycle((0, 0), (0, 1), (1, 0)).slides()
    with pytest.raises(SphereflowError, match="different"):
        Cycle((0, 0), (0, 0), (0, 1)).slides()


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_routes_reach_scattered_targets(seed):
    """Targets that fill no rows and have negative indices: the scratch row is needed."""
    rng = np.random.default_rng(seed)
    box = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), axis=-1).reshape(-1, 2)
    field = np.stack(np.meshgrid(np.arange(-3, 5), np.arange(-3, 5), indexing="ij"), axis=-1).reshape(-1, 2)
    goal = field[rng.permutation(len(field))[: len(box)]]
    cycles = route({tuple(map(int, a)): tuple(map(int, b)) for a, b in zip(box, goal, strict=True)})
    x = (box + rng.uniform(0.01, 0.99, size=box.shape)) / 4
    y, log_det = route_schedule(cycles, 0.25, 1e-3).carry(x)
    np.testing.assert_allclose(y - x, (goal - box) / 4, atol=1e-9)
    assert not np.any(log_det)


def test_counts_of_cycles_of_known_permutations():
    for n, known in ((4, 12), (8, 63), (16, 251)):
        cells = [(i, j) for i in range(n) for j in range(n)]
        goal = np.random.default_rng(0).permutation(n * n)
        assert len(route({cells[k]: cells[goal[k]] for k in range(n * n)})) == known


def test_two_contents_cannot_share_a_cell():
    with pytest.raises(SphereflowError, match="must be different"):
        route({(0, 0): (1, 1), (0, 1): (1, 1)})


def bent(x):
    return np.stack([x[:, 0] + 0.2 * np.sin(x[:, 1]), x[:, 1] * (1 + 0.1 * np.cos(x[:, 0]))], axis=1)


def test_a_map_on_any_rectangle():
    box = ((-1.0, 3.0), (2.0, 4.0))
    coarse, fine = (fit_map(bent, cells=n, refine=k, box=box) for n, k in ((3, 2), (4, 6)))
    before, after = coarse.errors(points=2000), fine.errors(points=2000)
    assert after.l2 < 0.65 * before.l2
    assert after.tv < 0.8 * before.tv
    assert after.l2 < np.hypot(4, 2) / 24
    assert 0 <= after.tv < 0.3
    assert "switches" in str(fine)
    assert "total variation" in str(after)


def test_affine_maps_are_recognised():
    found = fit_map(lambda x: x @ np.array([[1.0, 0.5], [0.0, 2.0]]) + 1, cells=2, refine=2, box=((0, 2), (0, 1)))
    errors = found.errors(points=500)
    assert found.schedule.n_pieces <= 29
    assert errors.l2 < 1e-12
    assert errors.tv < 1e-9


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fit_map(lambda x: x[:, ::-1]), "orientation"),
        (lambda: fit_map(lambda x: x[:, :1]), "same shape"),
        (lambda: fit_map(lambda x: np.log(x - 0.5)), "NaN"),
        (lambda: fit_map(bent, box=((0, 0), (0, 1))), "low below high"),
        (lambda: fit_map(bent, cells=0), "cells"),
        (lambda: fit_map(bent, ramp=1.0), "ramp"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_maps_that_cannot_be_served(call, said):
    with pytest.raises(SphereflowError, match=said) as told:
        call()
    assert str(told.value).count(". ") == 0


def test_many_cells_are_assigned_row_by_row():
    homes = np.array([(i, j) for j in range(51) for i in range(51)])
    order = np.random.default_rng(0).permutation(len(homes))
    chosen = _assignment(homes[order] + 0.2, homes)
    np.testing.assert_array_equal(homes[chosen], homes[order])


def test_newtons_inverse_and_the_law_of_the_image():
    phi, base = SmoothMap(bent), gaussian(2, 0.0, 0.5)
    x = base.sample(200, 3)
    np.testing.assert_allclose(phi.inverse(phi(x), 0 * x), x, atol=1e-8)
    jacobian = 1 + 0.1 * np.cos(x[:, 0]) + 0.02 * x[:, 1] * np.sin(x[:, 0]) * np.cos(x[:, 1])
    expected = base.log_density(x) - np.log(jacobian)
    np.testing.assert_allclose(ImageLaw(base, phi).log_density(phi(x)), expected, atol=1e-7)


NEURONS = Neurons(np.array([[0.5, 0.0], [0.0, -1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.1, 0.2]))


@pytest.mark.parametrize("sampling", ["iid", "systematic", "shuffled", "swept"])
def test_every_sampling_is_unbiased(sampling):
    """The sum of w tau over plays of a neuron is c_j: on average for the draw, up to one play for the others."""
    n = 3000
    schedule = sample_schedule(NEURONS, n, sampling=sampling, seed=1)
    assert schedule.n_pieces == n
    assert schedule.duration == pytest.approx(1.0)
    for j in range(2):
        mine = (schedule.a == NEURONS.a[j]).all(axis=1)
        total = (schedule.w[mine] * schedule.tau[mine, None]).sum(axis=0)
        np.testing.assert_allclose(total, NEURONS.c[j], atol=0.1 if sampling == "iid" else 2e-3)


def test_an_ensemble_is_its_schedules():
    x = np.random.default_rng(0).normal(size=(7, 2))
    images, volumes = ensemble([NEURONS, NEURONS], 10, x, 3, seed=5)
    rng = np.random.default_rng(5)
    for image, volume in zip(images, volumes, strict=True):
        y, log_det = sample_schedule([NEURONS, NEURONS], 10, seed=int(rng.integers(2**31))).carry(x)
        np.testing.assert_allclose(image, y, atol=1e-14)
        np.testing.assert_allclose(volume, log_det, atol=1e-14)


def test_coordinates_that_rest_get_no_weight():
    x = np.random.default_rng(0).normal(size=(500, 3))
    y = x + np.array([0.0, 1.0, 0.0]) * np.abs(x[:, :1])
    found = fit_velocities(x, y, neurons=60, times=2)
    assert all(not field.c[:, [0, 2]].any() for field in found.fields)
    assert found.residual < 0.2
    with pytest.raises(SphereflowError, match="pairs"):
        fit_velocities(x, y[:100])
    with pytest.raises(SphereflowError, match="no field"):
        sample_schedule([], 3)


def test_a_score_card_sees_what_a_push_forward_hides():
    base, identity = gaussian(2), SmoothMap(lambda x: x, lambda y: y)
    turned = score_card(rotation(0, 1, math.pi / 2, 2), identity, base, dx=1, samples=1000)
    assert turned.trapped
    assert turned.push_forward.tv.value < 1e-9  # derivatives by differences
    assert turned.map_error == pytest.approx(2.0, rel=0.1)
    assert turned.conditional == pytest.approx(math.sqrt(2), rel=0.3)
    assert "conditional samples will be wrong" in str(turned)
    still = score_card(Schedule.empty(2), identity, base, dx=1, samples=1000)
    assert not still.trapped
    assert still.map_error == 0
    assert still.conditional == 0


def test_the_gradient_of_the_map_error_needs_no_boundary_term():
    rng = np.random.default_rng(0)
    weights, x = small_weights(4, 2, 0), jnp.asarray(rng.normal(size=(200, 2)))
    y = jnp.asarray(bent(np.asarray(x)))
    along = tuple(jnp.asarray(rng.normal(size=part.shape)) for part in weights)
    loss = jax.jit(lambda t: map_loss(tuple(p + t * v for p, v in zip(weights, along, strict=True)), x, y))
    difference = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert float(jax.grad(loss)(0.0)) == pytest.approx(float(difference), abs=1e-6)


@pytest.mark.slow
def test_training_on_map_and_push_forward():
    x = gaussian(2).sample(400, 0)
    base, image = gaussian(2), gaussian(2, np.array([0.5, 0.0]))
    found = train_map(
        lambda p: p + np.array([0.5, 0.0]),
        x,
        3,
        alpha=0.5,
        steps=150,
        batch=100,
        log_density=base.log_density,
        log_image=image.log_density,
    )
    gap = found.schedule.apply(x) - x - np.array([0.5, 0.0])
    assert np.sqrt((gap**2).sum(axis=1).mean()) < 0.25
    with pytest.raises(SphereflowError, match="log_density"):
        train_map(lambda p: p, x, 3, alpha=0.5)


@given(st.integers(3, 4), st.integers(0, 10_000))
@settings(max_examples=6, deadline=None)
def test_routes_in_space_reach_scattered_targets(d, seed):
    """Targets that fill no layer, some with negative indices; followed cell by cell, then through the pieces."""
    rng = np.random.default_rng(seed)
    box = np.stack(np.meshgrid(*[np.arange(2)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    field = np.stack(np.meshgrid(*[np.arange(-1, 3)] * d, indexing="ij"), axis=-1).reshape(-1, d)
    goal = field[rng.permutation(len(field))[: len(box)]]
    cycles = space_route({tuple(a): tuple(b) for a, b in zip(box.tolist(), goal.tolist(), strict=True)})
    x = (box + rng.uniform(0.01, 0.99, size=box.shape)) / 2
    schedule = cycle_schedule(cycles, 0.5, 1e-3)
    y, log_det = schedule.carry(x)
    np.testing.assert_allclose(y - x, (goal - box) / 2, atol=1e-6)
    assert not np.any(log_det)
    assert schedule.n_pieces == 8 * d * len(cycles)


def test_cycles_in_space_that_make_no_sense():
    for first, corner, second in (
        ((1, 0, 0), (0, 0, 0), (2, 0, 0)),
        ((0, 0, 0), (0, 0, 0), (0, 1, 0)),
        ((1, 1, 0), (0, 0, 0), (0, 0, 1)),
    ):
        with pytest.raises(SphereflowError, match="in one index each"):
            SpaceCycle(first, corner, second).axes()
    with pytest.raises(SphereflowError, match="must be different"):
        space_route({(0, 0, 0): (1, 1, 1), (0, 1, 0): (1, 1, 1)})


def twisted(x):
    moved = x + 0.1 * np.sin(2 * np.pi * np.roll(x, 1, axis=1))
    return np.column_stack([1 - moved[:, 1], 2 * moved[:, 0], moved[:, 2]])


def test_a_map_in_space_and_its_factors():
    found = fit_map(twisted, cells=2, refine=2, box=((0, 1), (0, 1), (0, 1)))
    errors = found.errors(points=500)
    assert errors.l2 < 0.35  # a fine cell has side 1/4, and the image is twice as long
    x = np.random.default_rng(0).uniform(size=(200, 3))
    stepwise = found.placing.apply(found.gradient.apply(found.sorting.apply(x)))
    np.testing.assert_allclose(stepwise, found.schedule.apply(x), atol=1e-9)
    for keeps in (found.sorting, found.placing):
        assert not np.any(keeps.log_det(x))
    with pytest.raises(SphereflowError, match="plane"):
        found.plot()


def test_the_middle_part_is_the_gradient_of_a_convex_function():
    found = fit_map(bent, cells=3, refine=4, box=((-1, 1), (0, 3)))
    x = np.random.default_rng(1).uniform([-1.5, -1], [1.5, 4], size=(200, 2))
    step = 1e-5
    slopes = [(found.potential(x + step * e) - found.potential(x - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(np.stack(slopes, axis=1), found.gradient.apply(x), atol=1e-4)
    other = x[::-1]
    assert (found.potential((x + other) / 2) <= (found.potential(x) + found.potential(other)) / 2 + 1e-12).all()


@pytest.mark.parametrize("d", [2, 3])
def test_the_interpolant_is_affine_on_simplices_and_right_at_nodes(d):
    phi = bent if d == 2 else twisted
    box = ((-1.0, 1.0), (0.0, 3.0), (2.0, 4.0))[:d]
    found = lagrange_interpolant(phi, cells=3, box=box)
    low, high = np.array(box).T
    nodes = low + (high - low) * np.stack(np.meshgrid(*[np.arange(4) / 3] * d, indexing="ij"), axis=-1).reshape(-1, d)
    np.testing.assert_allclose(found(nodes), phi(nodes), atol=1e-12)
    x = np.random.default_rng(0).uniform(low, high, size=(300, d))
    np.testing.assert_allclose(SmoothMap(found).det(x), found.det(x), atol=1e-4 * np.abs(found.det(x)).max(), rtol=1e-4)
    matrix = np.random.default_rng(1).normal(size=(d, d))
    straight = lagrange_interpolant(lambda x: x @ matrix.T + 1, cells=2, box=box)
    np.testing.assert_allclose(straight(x), x @ matrix.T + 1, atol=1e-12)
    np.testing.assert_allclose(straight.jacobians(), np.linalg.det(matrix), atol=1e-12)
    assert straight.jacobians().shape == (math.factorial(d), *(2,) * d)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lagrange_interpolant(bent, cells=0), "cells"),
        (lambda: lagrange_interpolant(bent, cells=4000), "nodes"),
        (lambda: lagrange_interpolant(bent, box=((0, 1),)), "two pairs or more"),
        (lambda: lagrange_interpolant(bent, cells=2)(np.zeros(2)), "shape"),
        (lambda: fit_map(twisted, cells=8, refine=4, box=((0, 1),) * 3), "at most 2500"),
        (lambda: fit_map(lambda x: 2 * x + 1, cells=2, refine=2).potential(np.zeros((1, 2))), "affine"),
    ],
)
def test_what_has_no_interpolant_or_factors(call, said):
    with pytest.raises(SphereflowError, match=said):
        call()
