"""Every public function with a seed: a whole number or a JAX key, the same numbers again, `vmap` over keys.

The functions are found by inspection, so that a new one cannot be forgotten: it must have a row in a table below.
"""

import dataclasses
import importlib
import inspect
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow import landscape, memory, random_transformers, transport
from sphereflow.drifting import TwoSidedField, light_bridge
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.samplers import from_rows
from sphereflow.drifting.training import Recipe, beginning, train
from sphereflow.errors import SphereflowError
from sphereflow.llm import Heads
from sphereflow.llm.heads.regimes import FEATURES as HEAD_FEATURES
from sphereflow.papers.drifting_with_friction import compute
from sphereflow.random_transformers.blocks import read_blocks
from sphereflow.results import Result
from sphereflow.seeds import checked, following, key_from, number_from, rng_from
from sphereflow.synchronisation.random_fields import AffineField
from sphereflow.transport.conditional.sampler import ConditionalSampler
from sphereflow.transport.maps.smooth_map import ImageLaw, SmoothMap

KEY, OTHER = jax.random.split(jax.random.key(3))
BAD = (-1, True, 2**70, jax.random.split(KEY), jnp.arange(2))

ROWS = np.random.default_rng(0).normal(size=(80, 2))
BRIDGE = light_bridge([1.0], [[0.0, 1.0]], [[0.5, 1.0]], 0.4)
TABLE = ROWS.reshape(8, 20)
MOVED = ROWS @ np.array([[1.0, 0.5], [0.0, 1.0]]) + 1
RECORDING = sf.llm.recording("stories15m")
LONG = np.random.default_rng(2).normal(size=(200, 1))
CURVE = sf.llm.sparsity_curve("stories15m-books")
BLOCKS = read_blocks("gpt2", layers=2, width=48)
FLOW = transport.ConditionalFlow(components=1, pieces=0, folds=2).fit(LONG, LONG[::-1])
PROMPT = sf.retrieval.codeword_prompt(lambda sigma: np.full((len(sigma), 4), 0.25), 4)
BALL = np.eye(3)
CIRCLE = np.stack([np.cos([0.0, 0.7, 2.0]), np.sin([0.0, 0.7, 2.0])], axis=1)
NORMAL = transport.gaussian(2)
SHIFT = SmoothMap(lambda x: x + 1.0, lambda y: y - 1.0)
CAP = transport.SphereLaw.cap([0.0, 0.0, 1.0], 0.3)
CARRIED = transport.interpolate([CAP], [[1.0, 0.0, 0.0]], nodes=20)
PAIR = transport.ProductLaw([transport.gaussian(1), transport.gaussian(1)])
EIGHT = transport.Mixture([[1.0, 0.0], [-1.0, 0.5]], 0.8)
SCHEDULE = transport.affine_schedule(np.array([[1.0, 0.3], [0.0, 1.0]]))
FITTED = transport.fit_map(lambda x: x + 0.1 * x[:, ::-1] ** 2, cells=1, refine=1)
NEURONS = transport.Neurons(np.ones((3, 2)), np.eye(3, 2) + 0.1, np.zeros(3))
NETWORK, WIDER = (
    random_transformers.RandomNetwork(random_transformers.weights(d=d), beta=1.0, step=0.1) for d in (2, 4)
)
TRIPLE = np.broadcast_to(CIRCLE, (2, 3, 2))
FEATURES = {name: 0.1 + np.abs(np.sin(k + np.arange(30.0))) for k, name in enumerate(HEAD_FEATURES)}
VALUES = np.random.default_rng(1).normal(size=(2, 9, 3))
HEADS = object.__new__(Heads)
WEIGHTS = np.full((2, 9), 1 / 9)

# Drawn by JAX: a key gives what the number it was made from gives. Name: (function, seed) to arrays.
BY_JAX = {
    "sphere.draw": lambda f, s: f("uniform", 3, 2, s),
    "laboratory.simulate": lambda f, s: f(3, 2, 1.0, 0.1, seed=s, saves=2, tol=1e-4).xs,
    "evolution.diagrams.phase_diagram": lambda f, s: (
        f([0.1], [1.0], n=3, observable="overlap", repeats=2, seed=s).samples
    ),
    "evolution.diagrams.starting_tokens": lambda f, s: f("uniform", 3, 2, 2, s),
    "metastability.staircases.staircase": lambda f, s: f(2, 20.0, s).unglued.curve,
    "random_transformers.network.realisation_keys": lambda f, s: jax.random.key_data(f(s, 2)),
    "random_transformers.network.run": lambda f, s: f(NETWORK, TRIPLE, 2, observe=lambda x: x, seed=s).values,
    "random_transformers.gram_chain.run_gram": lambda f, s: (
        f(WIDER, np.eye(2), 4, [2], 2, observe=lambda x: x, seed=s).values
    ),
    "synchronisation.all_exponents.lyapunov_spectrum": lambda f, s: f("cos", 3, layers=3, repeats=2, seed=s).samples,
    "synchronisation.network.run_network": lambda f, s: f(AffineField(0.5, 0.8), TRIPLE, layers=2, step=0.1, seed=s),
    "drifting.diffusion.bridge_paths": lambda f, s: f(BRIDGE, ROWS, saveat=[0.5], seed=s).positions,
    "memory.recall.DenseMemory.recall": lambda f, s: f(memory.DenseMemory(ROWS[:6]), ROWS[:2], 2, 0.5, seed=s).state,
    "memory.chains.bulk_escapes": lambda f, s: (
        f(10, 1.0, 1.0, 0.0, start=0.9, stop=0.8, walkers=40, duration=5.0, settle=0.1, dt=0.05, seed=s).number
    ),
}
# Drawn by NumPy: a key gives what its number gives.
BY_NUMPY = {
    "model_theories.subject.drawn_again": lambda f, s: f(6, lambda at: ROWS[at, 0].mean(), s, repeats=20),
    "model_theories.subject.mean_of": lambda f, s: f(ROWS[:8, 0], s),
    "llm.sparse.comparison.SparsityComparison.excess_of": lambda f, s: f(CURVE, "uniform", seed=s),
    "llm.sparse.comparison.SparsityComparison.difference": lambda f, s: f(CURVE, "uniform", "mass", seed=s),
    "random_transformers.initial_network.run_cosines": lambda f, s: f(BLOCKS, 3, s),
    "retrieval.shape_test.u_shape": lambda f, s: f(ROWS[:30].reshape(6, 10), repeats=99, seed=s).p_decreasing,
    "retrieval.profile_fit.fit_profile": lambda f, s: f(ROWS[:40].reshape(8, 10), repeats=9, seed=s).c_draws,
    "synchronisation.circle_spde.circle_law": lambda f, s: f("cos", [1, 2, 1, 0], steps=2, repeats=2, seed=s).modes,
    "synchronisation.energy_dissipation.coercivity_test": lambda f, s: f("cos", 4, repeats=4, seed=s).measured.value,
    "synchronisation.both_limits.limit_orders": lambda f, s: (
        f("cos", depths=(1, 2), sizes=(2, 3), repeats=2, seed=s).values
    ),
    "synchronisation.pathwise.strong_errors": lambda f, s: f("cos", depths=(2,), steps=2, repeats=2, seed=s).depth,
    "drifting.inversion.hidden_law": lambda f, s: (
        f("gaussian", np.arange(4.0), np.linspace(0, 3, 12), width=0.9, distance=0.1, starts=1, seed=s).weights
    ),
    "drifting.domains.drawn": lambda f, s: f(2, 0.5, 4, s),
    "drifting.translation.median_width": lambda f, s: f(ROWS, seed=s),
    "landscape.mean_field.mean_field_limit": lambda f, s: (
        f(landscape.Problem(2.0, [0.5], [[1.0, 0.0]]), [4, 8], 0.1, 2, reference=16, seed=s).w1
    ),
    "landscape.problem.Problem.random": lambda f, s: f(landscape.Problem, 1.0, seed=s).inner,
    "llm.heads.bootstrap.document_mean": lambda f, s: f(ROWS, repeats=9, seed=s).low,
    "llm.heads.bootstrap.rank_correlation": lambda f, s: f(TABLE, TABLE**2, repeats=9, seed=s).low,
    "llm.heads.geometry.random_controls": lambda f, s: (
        f(WEIGHTS, VALUES, (2,), repeats=3, seed=s)["euclidean"].precision
    ),
    "llm.heads.geometry.random_control": lambda f, s: f(WEIGHTS, VALUES, (2,), repeats=3, seed=s).precision,
    "llm.heads.regimes.gaussian_mixture": lambda f, s: f(ROWS, 3, seed=s, restarts=1, rounds=1).labels,
    "llm.recorded.agreement.sink_and_recall": lambda f, s: f(RECORDING, repeats=9, seed=s).null,
    "llm.recorded.found_regimes.found_regimes": lambda f, s: f(RECORDING, most=3, restarts=1, seed=s).three,
    "memory.boundaries.boundary": lambda f, s: (
        f(temperature=2.0, sizes=(20, 30), states=20, repeats=2, seed=s).load.value
    ),
    "memory.boundaries.equilibrium_share": lambda f, s: f(50, 0.34, 0.5, states=20, repeats=2, seed=s).value,
    "memory.hops.survival": lambda f, s: f(np.eye(5) + 0.5, np.ones(1), temperature=0.5, repeats=9, seed=s).lost_at,
    "memory.tempering.temper": lambda f, s: f(np.eye(4), temperature=0.5, repeats=2, steps=20, seed=s).states,
    "memory.chains.bulk_metropolis": lambda f, s: f(10, 1.0, np.ones(1), np.zeros(1), 2, 4, 1, s).overlap,
    "memory.landscapes.random_patterns": lambda f, s: f(3, 2, s),
    "memory.landscapes.draw_cone": lambda f, s: f(10, 0.2, 1.0, seed=s).patterns,
    "memory.landscapes.state_at": lambda f, s: f(ROWS[:, 0], np.array([0.5]), s),
    "memory.noise.sample_log_noise": lambda f, s: f(10, 0.2, 1.0, 3, s),
    "metastability.coarsen.coarsen_to_one": lambda f, s: f("sa", CIRCLE[:2], 20.0, perturb=0.1, seed=s).curve,
    "normalisation.inverted_pairs.inversions": lambda f, s: f(np.ones(9), 3, [3], repeats=3, seed=s).simulated.value,
    "modes.monte_carlo.sample_modes": lambda f, s: f(9, 4.0, 2, seed=s).modes.positions,
    "modes.sparse.simulated_rate": lambda f, s: f(0.1, 2000, s),
    "observables.discrepancy.sampling_floor": lambda f, s: f(ROWS, MOVED, 2, s),
    "observables.discrepancy.gaussian_like": lambda f, s: f(ROWS, 2, s),
    "observables.discrepancy.sliced_wasserstein": lambda f, s: f(ROWS, MOVED, 4, s),
    "random_transformers.fokker_planck.solve_density": lambda f, s: (
        f([1.0, 0.3], beta=1.0, t1=0.1, repeats=2, modes=4, seed=s).modes
    ),
    "random_transformers.sphere_density.solve_sphere_density": lambda f, s: (
        f(np.eye(3)[:2], beta=1.0, t1=0.1, repeats=2, degree=2, seed=s).harmonics
    ),
    "random_transformers.random_laws.follow": lambda f, s: f(
        lambda rng, c, dt: c + dt * rng.normal(size=c.shape),
        np.zeros(2),
        np.array([0.0, 0.1]),
        0.1,
        2,
        repeats=2,
        chunk=2,
        remedy="",
        seed=s,
        progress=False,
    )[0],
    "random_transformers.low_temperature_pairs.cold_pairs": lambda f, s: f(4, 1, 0.5, 0.1, 2, 3, seed=s).cosine,
    "transport.euclidean.comparison.compare": lambda f, s: (
        f({"": SCHEDULE}, NORMAL, NORMAL, samples=9, seed=s).rows[0].errors.tv.value
    ),
    "transport.conditional.sampler.ConditionalSampler.sample": lambda f, s: f(
        ConditionalSampler(SCHEDULE, 1), 0.5, 2, s
    ),
    "transport.conditional.sampler.ConditionalSampler.drift": lambda f, s: f(
        ConditionalSampler(SCHEDULE, 1), 0.5, 2, s
    ),
    "transport.conditional.estimator.ConditionalFlow.sample": lambda f, s: f(FLOW, LONG[:2], 2, s),
    "transport.maps.diffeomorphism.MapFit.errors": lambda f, s: vars(f(FITTED, points=20, seed=s)),
    "transport.sphere.laws.SphereLaw.sample": lambda f, s: f(CAP, 4, s),
    "transport.sphere.result.Interpolation.held_out": lambda f, s: f(CARRIED, n=20, seed=s).w2,
    "transport.sphere.costs.interpolation_costs": lambda f, s: f([2], [3], [1e-3], n=5, seed=s).norm,
    "transport.euclidean.products.ProductLaw.sample": lambda f, s: f(PAIR, 4, s),
    "transport.euclidean.by_accuracy.switches_needed": lambda f, s: f(NORMAL, EIGHT, [0.9], seed=s).upper,
    "transport.euclidean.divergences.divergences": lambda f, s: f(SCHEDULE, NORMAL, NORMAL, samples=9, seed=s).tv.value,
    "transport.euclidean.gaussianisation.gaussianise": lambda f, s: (
        f(TABLE.reshape(-1, 4), frames=1, knots=4, seed=s).schedule.a
    ),
    "transport.euclidean.laws.Mixture.sample": lambda f, s: f(NORMAL, 2, s),
    "transport.euclidean.laws.StudentT.sample": lambda f, s: f(transport.StudentT(3.0), 2, s),
    "transport.euclidean.laws.Histogram.sample": lambda f, s: f(transport.Histogram([0.0, 1.0, 2.0], [0.5, 0.5]), 2, s),
    "transport.euclidean.laws.Pushed.sample": lambda f, s: f(transport.Pushed(SCHEDULE, NORMAL), 2, s),
    "transport.maps.smooth_map.ImageLaw.sample": lambda f, s: f(ImageLaw(NORMAL, SHIFT), 2, s),
    "transport.conditional.maurey.sample_schedule": lambda f, s: f(NEURONS, 9, seed=s).a,
    "transport.conditional.maurey.ensemble": lambda f, s: f(NEURONS, 5, ROWS[:2], 2, seed=s)[0],
    "transport.conditional.maurey.fit_velocities": lambda f, s: f(ROWS, MOVED, neurons=3, times=1, seed=s).residual,
    "transport.learned.schedules.small_weights": lambda f, s: f(2, 2, s),
    "transport.learned.maps.train_map": lambda f, s: f(SHIFT, ROWS, 2, steps=2, batch=4, seed=s).losses,
}
# Those that take long, or need a model: a wrong seed is refused before any work.
REFUSED_FIRST = {
    "llm.model.tiny.tiny_model": lambda f, s: f("gpt-2", s),
    "landscape.critical.critical_points": lambda f, s: f(landscape.Problem(2.0, [0.5], [[1.0, 0.0]]), 1, seed=s),
    "modes.attention.modes_and_clusters": lambda f, s: f(3, 1.0, 2, np.array([0.1]), seed=s, dt=0.1).angles,
    "drifting.training.Recipe": lambda f, s: f(seed=s),
    "drifting.flow_matching.train_flow_matching": lambda f, s: f(from_rows(ROWS), from_rows(ROWS), 2, seed=s),
    "drifting.lightsb.train_light_bridge": lambda f, s: f(from_rows(ROWS), from_rows(ROWS), seed=s),
    "drifting.ratios.compute_ratios": lambda f, s: (
        f(compute.recorded(2), "drift-friction", "ofm", levels=[0.7], repeats=50, seed=s).low
    ),
    "drifting.translation.quality_against_compute": lambda f, s: f(ROWS, ROWS, seeds=(0, s)),
    "llm.position.keyvalue.retrieval_profile": lambda f, s: f(None, seed=s),
    "llm.position.influence.influence_profile": lambda f, s: f(None, seed=s),
    "llm.depth.iterated.iterate_layer": lambda f, s: f(None, 0, "", seed=s),
    "llm.sparse.comparison.compare_sparsity": lambda f, s: f(None, "", seed=s),
    "llm.sparse.plans.plan_sparsity": lambda f, s: f(None, seed=s),
    "llm.sparse.plans.sparse_attention": lambda f, s: f(None, seed=s).__enter__(),
    "random_transformers.initial_cosines.initial_collapse": lambda f, s: f("gpt2", layers=2, width=48, seed=s),
    "llm.measurement.heads.measure_heads": lambda f, s: f(None, np.zeros((1, 9), int), seed=s),
    "llm.measurement.record.summary": lambda f, s: f(HEADS, {}, seed=s),
    "llm.heads.regimes.mixture": lambda f, s: f(FEATURES, seed=s),
    "llm.model.tiny.tiny_models": lambda f, s: f(seed=s),
    "meanfield.comparison.compare": lambda f, s: f(seed=s),
    "memory.noise.median_crossing": lambda f, s: f(10, 1.0, 3, s),
    "memory.monte_carlo.sweep": lambda f, s: f(seed=s),
    "memory.monte_carlo.planned": lambda f, s: f("lse", 1.0, patterns=20, repeats=2, steps=10, seed=s, keep=None),
    "random_transformers.collapse.measure": lambda f, s: f(
        random_transformers.Architecture(4, 3, 5, 1, 0.1, 1.0), seed=s
    ),
    "retrieval.influence.source_average": lambda f, s: f(*[lambda *a: ROWS] * 4, source=0, repeats=2, seed=s),
    "retrieval.influence.wave_influence": lambda f, s: f(9, 0, 1.0, beta=1.0, weights=1.0, seed=s),
    "retrieval.influence.sphere_influence": lambda f, s: f(9, 0, 1.0, beta=1.0, slope=1.0, d=3, seed=s),
    "retrieval.prompt_profile.profile": lambda f, s: f(1.0, 1.0, 1.0, seed=s),
    "retrieval.prompt_profile.simulated": lambda f, s: f(PROMPT, 9, 0, 1.0, 1.0, 1.0, 4, "soft", 2, s),
    "retrieval.plots.circle_movie": lambda f, s: f("nowhere.gif", seed=s),
    "retrieval.task.measure_profile": lambda f, s: f(9, 1.0, beta=1.0, weights=1.0, vocab=4, sources=(2,), seed=s),
    "sweeps.level_line.boundary": lambda f, s: f(sf.sweep(lambda x: x, {"x": [0.0, 1.0, 2.0]}), 0.5, "x", seed=s),
    "transport.conditional.estimator.ConditionalFlow": lambda f, s: f(seed=s).fit(LONG, LONG),
    "transport.conditional.sampler.fit_conditional": lambda f, s: f(LONG, LONG, seed=s),
    "transport.euclidean.fitting.fit": lambda f, s: f(NORMAL, NORMAL, 3, seed=s),
    "transport.sphere.interpolation.interpolate": lambda f, s: f([BALL], [BALL], seed=s),
    "transport.learned.transformers.train_transformer": lambda f, s: f([BALL], [BALL], 2, seed=s),
    "transport.maps.scores.score_card": lambda f, s: f(SCHEDULE, SHIFT, NORMAL, seed=s),
    "transport.learned.schedules.train_schedule": lambda f, s: f(NORMAL, 2, seed=s),
}
# Whole numbers alone: papers count on from theirs, and of a trajectory the seed is a label.
NUMBERS_ONLY = {
    "claims.paper.Run",
    "report.reproduction.reproduce",
    "evolution.shell.evolve",
    "transport.euclidean.laws.Law.sample",
}


# Records that are no results: they keep what they were given. Every `Result` does.
RECORDS = {
    "llm.measurement.layers.Measurement",
    "model_theories.subject.Subject",
    "drifting.translation.Point",
    "evolution.settings.Settings",
    "report.results.PaperResult",
    "report.results.Report",
}


def found():
    """Public functions, methods and classes of the package with a seed, by name."""
    there = {}
    for module in pkgutil.walk_packages(sf.__path__, "sphereflow."):
        if {"papers", "cli", "explorer", "__main__", "seeds"} & set(module.name.split(".")):
            continue
        for name, thing in vars(importlib.import_module(module.name)).items():
            if name.startswith("_") or getattr(thing, "__module__", "") != module.name:
                continue
            held = {name: thing}
            if inspect.isclass(thing):
                held = {} if issubclass(thing, Result) else held
                held |= {f"{name}.{k}": getattr(v, "__func__", v) for k, v in vars(thing).items() if k[0] != "_"}
            for each, f in held.items():
                if callable(f) and {"seed", "seeds"} & set(_parameters(f)):
                    there[f"{module.name.removeprefix('sphereflow.')}.{each}"] = f
    return there


def _parameters(f):
    try:
        return inspect.signature(f).parameters
    except (TypeError, ValueError):  # a few built-in classes
        return ()


FOUND = found()
ROWS_OF_TABLES = BY_JAX | BY_NUMPY | REFUSED_FIRST


def leaves(result):
    """The numbers of a result, without what it says of the call."""
    result = vars(result) if dataclasses.is_dataclass(result) else result
    if isinstance(result, dict):
        result = {k: v for k, v in result.items() if k not in ("parameters", "seed", "versions", "seconds")}
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result)]


def same(a, b):
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(leaves(a), leaves(b), strict=True))


def test_every_function_with_a_seed_has_a_row():
    assert set(FOUND) == set(ROWS_OF_TABLES) | NUMBERS_ONLY | RECORDS


@pytest.mark.parametrize("name", [*BY_JAX, *BY_NUMPY])
def test_a_key_is_a_seed(name):
    """The key is worth a whole number; the same key gives the same, another key another."""
    call, function = ROWS_OF_TABLES[name], FOUND[name]
    number = 7 if name in BY_JAX else number_from(KEY)
    key = jax.random.key(7) if name in BY_JAX else KEY
    one = call(function, key)
    assert same(one, call(function, number))
    assert not same(one, call(function, OTHER))


@pytest.mark.parametrize("name", ROWS_OF_TABLES)
def test_a_wrong_seed_is_refused_before_any_work(name):
    for seed in BAD:
        with pytest.raises(SphereflowError, match=r"^seed must be a whole number from 0 to \d+ or a JAX key, got"):
            ROWS_OF_TABLES[name](FOUND[name], seed)


@pytest.mark.slow
def test_whole_numbers_begin_the_streams_they_always_did():
    assert rng_from(5).random() == np.random.default_rng(5).random()
    assert rng_from(5, 1, 2).random() == np.random.default_rng([5, 1, 2]).random()
    assert key_from(5) == jax.random.key(5)
    assert following(5, 2) == 7
    assert isinstance(checked(np.int32(5)), int)
    first = {"uniform": 0.174305, "vmf": 0.932749, "orthogonal": -0.260528, "mixture": -0.525770}
    for start, number in first.items():
        assert float(sf.draw(start, 2, 3, 5)[0, 0]) == pytest.approx(number, abs=1e-6)


@pytest.mark.fast_cases("uniform")
@pytest.mark.parametrize("start", ["uniform", "vmf", "orthogonal", "mixture"])
def test_vmap_over_keys_is_the_loop(start):
    keys = jax.random.split(jax.random.key(0), 5)
    many = jax.jit(jax.vmap(lambda key: sf.draw(start, 3, 4, key)))(keys)
    np.testing.assert_allclose(many, np.stack([sf.draw(start, 3, 4, key) for key in keys]), rtol=0, atol=1e-14)
    assert len(np.unique(np.asarray(many)[:, 0, 0])) == len(keys)


def test_a_random_network_is_mapped_over_keys():
    def end(key):
        return BY_JAX["synchronisation.network.run_network"](FOUND["synchronisation.network.run_network"], key)

    keys = jax.random.split(KEY, 3)
    np.testing.assert_allclose(jax.vmap(end)(keys), np.stack([end(key) for key in keys]), rtol=0, atol=1e-13)


def test_a_traced_key_is_refused_where_numpy_draws():
    with pytest.raises(SphereflowError, match="traced JAX key"):
        jax.vmap(lambda key: transport.gaussian(2).sample(3, key))(jax.random.split(KEY))


@pytest.mark.slow
def test_training_begins_from_a_key():
    model = Generator(2, 2, width=4, depth=1, key=jax.random.key(1))

    def loss(seed):
        recipe = Recipe(steps=2, batch=4, seed=seed)
        rows = from_rows(ROWS)
        return train(beginning(model, recipe), recipe, TwoSidedField(width=0.3), rows, rows, progress=False).loss

    assert same(loss(7), loss(jax.random.key(7)))
    assert not same(loss(7), loss(KEY))
    with pytest.raises(SphereflowError, match="generator in use"):
        loss(jax.random.key(7, impl="rbg"))
