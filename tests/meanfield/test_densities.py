"""Densities on the circle: quantiles, spectral convergence, monitors, energy, and tokens at the Monte Carlo rate."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from sphereflow import meanfield
from sphereflow.dynamics import SA, USA, Perceptron
from sphereflow.errors import SphereflowError
from sphereflow.meanfield.circle_density import OnCircle, circle_model
from sphereflow.meanfield.density_flow import fourier_modes
from sphereflow.meanfield.eulerian import EulerianCircle
from sphereflow.meanfield.initial import starting_law
from sphereflow.meanfield.quantiles import Midpoints, Panels
from sphereflow.solving import solve
from sphereflow.sphere import from_angles

# Modes 1, 2, 3 at t = 1 for SA at beta = 10 from 1 + 0.5 cos(theta), by a dense sum and another integrator.
REFERENCE = np.array([0.2747745002, 0.0009059023, -0.0003972980])


field = eqx.filter_jit(lambda model, x: model.field(jnp.zeros(()), x))


def tilted(theta):
    return 1 + 0.5 * np.cos(theta) + 0.3 * np.sin(2 * theta)


@pytest.fixture(scope="module")
def flow():
    return meanfield.evolve_density(10.0, "SA", tilted, 4.0, saveat=9, nodes=128, tol=1e-9, solver="tsit5")


def test_quantiles_invert_the_distribution_function():
    law = starting_law(tilted)
    mass = np.array([1e-6, 0.1, 0.37, 0.5, 0.99, 1 - 1e-6])
    angles = law.quantiles(mass)
    for m, angle in zip(mass, angles, strict=True):
        assert integrate.quad(tilted, -np.pi, angle, epsabs=1e-13)[0] / (2 * np.pi) == pytest.approx(m, abs=1e-12)
    narrow = starting_law(meanfield.von_mises(1.0, 200.0))
    np.testing.assert_allclose(narrow.cumulative(narrow.quantiles(mass)), mass, atol=1e-14)


@pytest.fixture(scope="module")
def rows():
    """Modes by number of nodes and way of spreading; all sizes share one program, filled up with empty nodes."""
    law, room = starting_law("uniform+cos"), 128
    found = {}
    for share in (1.0, 0.5):
        for n in (16, 32, 64, 128):
            grid = Midpoints(law, share, n)
            masses = np.pad(grid.weights, (0, room - n))
            model = OnCircle(SA(10.0).with_masses(masses))
            start = jnp.asarray(np.pad(grid.start, (0, room - n), mode="edge"))[:, None]
            frames = solve(model, start, jnp.linspace(0, 1, 9), tol=1e-12)
            found[share, n] = fourier_modes(np.asarray(frames.xs)[:, :, 0], masses, 3)[-1, 1:]
    return found


@pytest.mark.slow
def test_spectral_convergence(rows):
    """The table of errors against nodes: 5.1e-3, 4.7e-5, 2.9e-12 and rounding, for quantile nodes."""
    exact = rows[1.0, 128]
    np.testing.assert_allclose(exact.real, REFERENCE, atol=1e-10)
    assert np.abs(exact.imag).max() < 1e-12
    errors = [np.abs(rows[1.0, n] - exact).max() for n in (16, 32, 64)]
    np.testing.assert_allclose(errors[:2], [5.1e-3, 4.7e-5], rtol=0.02)
    assert errors[2] == pytest.approx(2.9e-12, abs=5e-13)


@pytest.mark.slow
def test_nodes_spread_by_angle_as_well_converge_faster(rows):
    exact = rows[1.0, 128]
    errors = [np.abs(rows[0.5, n] - exact).max() for n in (16, 32, 64, 128)]
    assert errors[0] < 5e-4
    assert errors[1] < 1e-8
    assert max(errors[2:]) < 1e-13


def test_nodes_at_cell_edges_are_caught(rows):
    """Masses j/n instead of (j + 1/2)/n shift the law by half a cell."""
    law = starting_law("uniform+cos")
    wrong = law.quantiles(np.arange(64) / 64 + 1e-12)
    right = Midpoints(law, 1.0, 64).start
    assert abs(np.exp(-1j * right).mean() - 0.25) < 1e-12
    assert abs(np.exp(-3j * wrong).mean()) < 1e-12  # moments alone do not show it ...
    assert np.abs(wrong - right).max() > 0.02  # ... the positions do


@pytest.mark.slow
def test_density_and_mass_are_kept(flow):
    start = flow.angles[0]
    np.testing.assert_allclose(flow.node_density[0], tilted(start), rtol=1e-10)
    theta = np.linspace(-4, 4, 50)
    np.testing.assert_allclose(flow.density(theta, 0), tilted(theta), rtol=1e-3)
    np.testing.assert_allclose(flow.density(theta, 0, "dtheta") * 2 * np.pi, flow.density(theta, 0), rtol=1e-14)
    assert flow.smallest_gap.min() > 0
    assert flow.grid.weights.sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(flow.mass[:3], 1, atol=2e-3)  # trapezoids between nodes


def test_energy_grows_and_its_rate_is_the_mean_square_speed(flow):
    assert np.diff(flow.energy).min() >= -1e-10 * flow.energy[-1]

    @eqx.filter_jit
    def differentiated(model, masses, x):
        velocity = model.field(jnp.zeros(()), x)
        return jax.jvp(lambda y: model.energy(y, masses), (x,), (velocity,))[1]

    for i in (0, 5, 8):
        rate = differentiated(flow.model, jnp.asarray(flow.grid.weights), from_angles(jnp.asarray(flow.angles[i])))
        assert flow.dissipation[i] == pytest.approx(float(rate), rel=1e-10)


@pytest.mark.slow
def test_the_density_on_a_fixed_grid_agrees():
    """A discretisation that shares nothing with moving nodes; the velocity with a perceptron added as well."""
    euler = meanfield.evolve_eulerian(10.0, "SA", "uniform+cos", 1.0, saveat=2, points=120, tol=1e-9, solver="tsit5")
    np.testing.assert_allclose(euler.modes(3)[-1, 1:], REFERENCE, atol=1e-8)
    np.testing.assert_allclose(euler.mass, 1, atol=1e-14)
    assert euler.smallest.min() > 0
    assert euler.unresolved.max() < 1e-9
    assert euler.to_xarray().sizes["t"] == 2
    assert "120 points" in repr(euler)
    euler.plot().canvas.draw()
    block = Perceptron([0.4, -0.3], [[1.0, 0.2], [0.3, 1.0]], activation="tanh")
    theta, rho = euler.theta, euler.values[-1]
    as_tokens = OnCircle((USA(10.0) + block).with_masses(rho / 120))
    drift = field(OnCircle(block), jnp.asarray(theta)[:, None])[:, 0]
    on_grid = EulerianCircle(jnp.asarray(10.0), drift, "mean").velocity(jnp.asarray(rho))
    np.testing.assert_allclose(field(as_tokens, jnp.asarray(theta)[:, None])[:, 0], on_grid, atol=1e-12)


@pytest.mark.slow
def test_refinement_reaches_the_tolerance():
    found = meanfield.evolve_density(10.0, "SA", "uniform+cos", 1.0, saveat=9, tol=1e-7, solver="tsit5")
    assert found.error_estimate < 1e-7
    assert found.nodes == 128
    np.testing.assert_allclose(found.modes(3)[-1, 1:], REFERENCE, atol=1e-7)
    assert "order kept" in repr(found)


def test_panels_without_refinement_agree():
    found = meanfield.evolve_density(
        10.0, "SA", "uniform+cos", 1.0, saveat=9, tol=1e-9, nodes=120, grid="panels", solver="tsit5"
    )
    np.testing.assert_allclose(found.modes(3)[-1, 1:], REFERENCE, atol=1e-7)
    assert found.node_density.min() > 0


def test_panels_are_halved_where_the_map_is_steep():
    law = starting_law("uniform")
    grid = Panels(law, 1.0, np.linspace(0, 1, 5))

    def steps(s):
        return 2 * np.pi * s - np.pi + 0.9 * np.tanh(60 * (s - 0.6))

    for _ in range(8):
        if not grid.unresolved(steps(grid.labels)[None], 1e-8, 10.0).any():
            break
        grid = grid.finer(steps(grid.labels)[None], 1e-8, 10.0)
    widths, middles = np.diff(grid.edges), (grid.edges[1:] + grid.edges[:-1]) / 2
    assert widths[np.argmin(np.abs(middles - 0.6))] < widths.max() / 4
    s = np.linspace(0.01, 0.99, 333)
    np.testing.assert_allclose(grid.interpolate(steps(grid.labels), s), steps(s), atol=1e-6)


def test_without_temperature_the_mean_pulls():
    """At beta = 0 every token moves at r sin(phi - theta): r' = r (1 - |c_2|) / 2 at the start."""
    found = meanfield.evolve_density(0.0, "SA", "uniform+cos", 0.1, saveat=9, nodes=128, solver="tsit5")
    assert (abs(found.modes(1)[-1, 1]) - 0.25) / 0.1 == pytest.approx(0.125, rel=0.06)


def test_very_low_temperature():
    """At beta = 10,000 nodes 0.05 apart see only themselves: nothing overflows, and they rest."""
    found = meanfield.evolve_density(1e4, "SA", "uniform+cos", 0.1, saveat=9, nodes=128, solver="tsit5")
    assert found.smallest_gap.min() > 0
    assert np.abs(found.angles[1] - found.angles[0]).max() < 1e-2


def many_tokens(theta, beta, t1, steps=16):
    """Softmax attention on rows of angles in plain NumPy: Fourier modes and Runge-Kutta steps of order four."""
    k = np.arange(31)
    kernel = special.ive(k, beta) * np.where(k > 0, 2, 1)

    def speed(x):
        waves = np.exp(1j * x[..., None] * k)
        seen = waves * np.conj(waves).mean(axis=-2)[..., None, :]
        return -(seen.imag @ (k * kernel)) / beta / (seen.real @ kernel)

    h = t1 / steps
    for _ in range(steps):
        a = speed(theta)
        b = speed(theta + h / 2 * a)
        c = speed(theta + h / 2 * b)
        theta = theta + h / 6 * (a + 2 * b + 2 * c + speed(theta + h * c))
    return theta


@pytest.mark.slow
def test_tokens_approach_the_density_at_the_monte_carlo_rate(flow):
    law = starting_law(tilted)
    spread = []
    for n, copies in ((100, 80), (1600, 8)):
        draws = np.random.default_rng(n).random(copies * n)
        final = many_tokens(law.quantiles(draws).reshape(copies, n), 10.0, 1.0)
        spread.append([flow.distance_to(row, 2) ** 2 for row in final])
    means = np.array([np.mean(s) for s in spread])
    errors = np.array([np.std(s, ddof=1) / np.sqrt(len(s)) for s in spread])
    slope = np.log(means[1] / means[0]) / np.log(16) / 2
    error = np.hypot(*(errors / means)) / np.log(16) / 2
    assert abs(slope + 0.5) < 3 * error
    assert error < 0.08


def test_distance_of_uniform_draws_has_its_known_size():
    """n E W_2^2 -> pi^2 / 3 for independent uniform points: a Brownian bridge without its mean."""
    flat = meanfield.DensityFlow(
        ts=np.zeros(1),
        angles=np.linspace(-np.pi, np.pi, 64, endpoint=False)[None] + np.pi / 64,
        grid=Midpoints(starting_law("uniform"), 1.0, 64),
        model=SA(1.0),
        law=starting_law("uniform"),
        beta=1.0,
        tol=1e-6,
        error_estimate=0.0,
        seconds=0.0,
    )
    rng = np.random.default_rng(5)
    values = 400 * np.array([flat.distance_to(rng.uniform(-np.pi, np.pi, 400), 0) ** 2 for _ in range(100)])
    assert abs(values.mean() - np.pi**2 / 3) < 3 * values.std() / np.sqrt(100)


def test_modes_and_densities_have_the_conventions_they_say(flow):
    """The start is 1 + cos/2 + 0.3 sin 2 theta: c_1 = 1/4 and c_2 = -0.15 i, and its integral over dtheta is one."""
    np.testing.assert_allclose(flow.modes(3)[0], [1, 0.25, -0.15j, 0], atol=1e-10)
    theta = np.linspace(-np.pi, np.pi, 400, endpoint=False)
    np.testing.assert_allclose(flow.density(theta, 0), tilted(theta), rtol=1e-2)
    for index in (0, 3):
        assert np.mean(flow.density(theta, index)) == pytest.approx(1, abs=2e-3)
        assert 2 * np.pi * np.mean(flow.density(theta, index, "dtheta")) == pytest.approx(1, abs=2e-3)


def test_matrices_enter_the_circle_where_they_should():
    """Scores beta <x, B y> and values V y, with matrices that are not symmetric."""
    rng = np.random.default_rng(2)
    form, value, theta = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.uniform(0, 7, 5)
    x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    weights = np.exp(1.5 * x @ form @ x.T)
    pull = (weights / weights.sum(axis=1, keepdims=True)) @ x @ value.T
    expected = x[:, 0] * pull[:, 1] - x[:, 1] * pull[:, 0]
    found = field(OnCircle(circle_model(1.5, "SA", value=value, form=form)), jnp.asarray(theta)[:, None])
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-12)


@pytest.mark.slow
def test_comparison_and_views(flow):
    both = meanfield.compare(10.0, "SA", tilted, n=100, seed=3, flow=flow, tol=1e-4)
    assert both.distance[0] < 5 / np.sqrt(100)
    assert both.mode_error.shape == (9,)
    assert "100 tokens" in repr(both)
    assert both.to_xarray().sizes == {"t": 9}
    table = flow.to_xarray()
    assert table.sizes == {"t": 9, "mass": 128}
    for figure in (flow.plot(), both.plot()):
        figure.canvas.draw()
        assert len(figure.axes) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"density": "gaussian"}, "density must be one of"),
        ({"density": lambda theta: np.cos(theta) + 0.5}, "not negative"),
        ({"density": lambda theta: np.nan * theta}, "must be finite"),
        ({"model": "SAA"}, "model must be one of"),
        ({"grid": "fine"}, "grid must be one of"),
        ({"t1": -1.0}, "t1 must be"),
        ({"saveat": [1.0, 0.5]}, "saveat must be"),
        ({"nodes": 1}, "nodes must be"),
        ({"model": SA(3.0), "value": np.eye(2)}, "not with a dynamics"),
        ({"model": USA(3.0) + SA(3.0, causal=True)}, "without a mask"),
        ({"solver": "rk4"}, "solver must be one of"),
    ],
)
def test_requests_that_cannot_be_served(arguments, words):
    with pytest.raises(SphereflowError, match=words):
        meanfield.evolve_density(**{"beta": 3.0, "t1": 1.0, **arguments})


@pytest.mark.parametrize(
    "solve_by",
    [
        lambda s: meanfield.evolve_eulerian(solver=s),
        lambda s: meanfield.evolve_zonal(3, 1.0, density=np.ones_like, solver=s),
    ],
)
def test_solvers_are_named_by_every_density(solve_by):
    with pytest.raises(SphereflowError, match="solver must be one of"):
        solve_by("rk4")


def test_a_von_mises_law_of_negative_concentration_is_refused():
    """It was not normalised; the law around the opposite point is."""
    for wrong in ((0.0, -1.0), (np.nan, 1.0)):
        with pytest.raises(SphereflowError, match="must be a finite number"):
            meanfield.von_mises(*wrong)


VERBS = {
    "evolve_density": meanfield.evolve_density,
    "compare": meanfield.compare,
    "evolve_eulerian": meanfield.evolve_eulerian,
    "evolve_zonal": lambda **times: meanfield.evolve_zonal(3, 2.0, density=lambda t: 1 + 0.1 * t, **times),
    "evolve_rings": lambda **times: meanfield.evolve_rings(3, 5.0, **times),
    "concentrate": lambda **times: meanfield.concentrate(np.diag([1.0, 0.5]), **times),
}


@pytest.mark.parametrize("verb", VERBS)
def test_times_are_counted_from_the_start_and_end_at_t1(verb):
    """A first time after 0 would be the law of the start under another name, and a final time of its own unheard."""
    with pytest.raises(SphereflowError, match="saveat must begin at t = 0"):
        VERBS[verb](saveat=[1.0, 2.0])
    with pytest.raises(SphereflowError, match=r"the final time: 2, but t1=0\.5"):
        VERBS[verb](t1=0.5, saveat=[0.0, 2.0])
    with pytest.raises(SphereflowError, match="two increasing"):
        VERBS[verb](saveat=[0.0])
