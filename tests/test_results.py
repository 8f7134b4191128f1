"""Every verb of every area returns a result with one habit; each is looked at on a small example of its own."""

import dataclasses
import html
import importlib
import inspect
import json
import re
import types
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.estimates import Estimate
from sphereflow.papers.drifting_with_friction import compute
from sphereflow.results import Result

AREAS = (
    "evolution", "meanfield", "landscape", "modes", "metastability", "retrieval", "random_transformers",
    "synchronisation", "transport", "memory", "drifting", "normalisation", "llm", "sweeps", "laboratory",
)  # fmt: skip
# What a verb may return besides: numbers, arrays, files, and what is given on as an argument to other verbs.
PLAIN = (int, float, str, bool, tuple, list, dict, np.ndarray, jax.Array, Estimate, type(None))
# By name, with the reason.
EXCEPTIONS = {
    "random_transformers.clock": "five numbers and a word by one formula, used as a value",
    "synchronisation.run_network": "what the caller's `observe` returned, traced: it composes with jit and vmap",
    "memory.langevin": "chains inside jit: arrays in, arrays out",
    "memory.metropolis": "chains inside jit: arrays in, arrays out",
    "sweeps.read_specification": "a request, not a result",
    "llm.load_model": "a model, not a result",
    "llm.sparse_attention": "a block in which a model is changed",
    "meanfield.von_mises": "a density, given on to other verbs",
    "synchronisation.resolve": "an activation, given on to other verbs",
    "llm.document_mean": "a number with the ends of its bootstrap interval, which has no single error",
    "llm.rank_correlation": "a number with the ends of its bootstrap interval, which has no single error",
    "meanfield.starting_law": "a law, given on to other verbs",
    "drifting.train_flow_matching": "a potential that was learned, given on to maps and pictures",
    "transport.lagrange_interpolant": "a map, used as one; `fit_map` returns the result",
    "laboratory.simulate": "a Trajectory or a MergeHistory, by t1",
}
# Families of objects that are inputs of other verbs: fields, models, laws, schedules, weights, prompts.
INPUTS = ("Dynamics", "Module", "Law", "AbstractSchedule", "CausalWeights", "Prompt", "Landscape", "Covariance")


def verbs():
    """The public functions of the areas, and the methods of public classes that compute a result."""
    for area in AREAS:
        module = importlib.import_module(f"sphereflow.{area}")
        for name, thing in vars(module).items():
            if name.startswith("_") or not getattr(thing, "__module__", "").startswith(f"sphereflow.{area}"):
                continue
            if callable(thing) and not inspect.isclass(thing):
                yield f"{area}.{name}", thing
    yield "memory.DenseMemory.recall", sf.memory.DenseMemory.recall


def returned(verb):
    """The classes that a verb may return, from its annotation."""
    original = inspect.unwrap(verb)
    told = original.__annotations__.get("return")
    try:
        told = eval(told, vars(importlib.import_module(original.__module__))) if isinstance(told, str) else told
    except NameError:  # imported for type checking only
        return []
    parts = typing.get_args(told) if isinstance(told, types.UnionType) else [told]
    return [kind for part in parts if inspect.isclass(kind := typing.get_origin(part) or part)]


def is_plain(kind):
    array = "jaxtyping" in str(getattr(kind, "__module__", ""))
    return array or (issubclass(kind, PLAIN) and not hasattr(kind, "_fields")) or kind is Estimate


def is_input(kind):
    return any(parent.__name__ in INPUTS for parent in kind.__mro__)


VERBS = dict(verbs())
RESULTS = {kind for verb in VERBS.values() for kind in returned(verb) if issubclass(kind, Result)}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_returns_a_result_or_is_an_exception_with_a_reason(name):
    kinds = returned(VERBS[name])
    free = [k for k in kinds if not (issubclass(k, Result) or is_plain(k) or is_input(k) or k.__name__ == "Path")]
    assert bool(free) == (name in EXCEPTIONS) or (name in EXCEPTIONS and not kinds), (name, free)
    for kind in kinds:
        if issubclass(kind, Result) and kind is not sf.Trajectory and name != "sweeps.open_sweep":
            assert hasattr(VERBS[name], "__wrapped__") or kind is sf.sweeps.Sweep, f"{name} does not record its call"


# --- one small real example of each -----------------------------------------------------------------------------

RNG = np.random.default_rng(0)
CIRCLE = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]])
NORMAL, NARROW = sf.transport.gaussian(1), sf.transport.gaussian(1, 1.0, 0.5)
ROWS = RNG.normal(size=(60, 2))
PAIRS = RNG.normal(size=(240, 2))
ATOMS = [np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])]
SHIFT = sf.transport.affine_schedule(np.array([[0.6]]), np.array([1.0]))
STILL = sf.transport.Schedule([[0.5, 0.0]], [[0.0, 1.0]], [0.0])


def doubled(x):
    return x * np.array([2.0, 1.0])


def density_of_prompt(sigma, theta):
    return 1 + 0.3 * np.cos(theta) + 0 * sigma


def value(beta, seed):
    return 1.0 * beta + seed


def problem():
    return sf.landscape.Problem(beta=5.0, outer=[1.0], inner=[[1.0, 0.0]])


def architecture():
    return sf.random_transformers.Architecture(d=8, n=4, layers=10, heads=1, step=0.3, beta=1.0)


def swept():
    return sf.sweep(value, {"beta": [1.0, 2.0, 3.0], "seed": [0, 1]}, progress=False)


def trained():
    from sphereflow.drifting.samplers import from_rows

    recipe = sf.drifting.Recipe(steps=2, batch=4, seed=3)
    model = sf.drifting.Generator(2, 2, width=4, depth=1, key=jax.random.key(1))
    field, rows = sf.drifting.TwoSidedField(width=0.3), from_rows(ROWS)
    return sf.drifting.train(sf.drifting.beginning(model, recipe), recipe, field, rows, rows, progress=False)


def heads():
    pytest.importorskip("transformers")
    from sphereflow.llm.model.tiny import tiny_model

    return sf.llm.measure_heads(tiny_model("llama, grouped"), RNG.integers(1, 90, (2, 24)), sizes=(1, 2, 4), repeats=2)


def recorded():
    pytest.importorskip("transformers")
    from sphereflow.llm.model.tiny import tiny_model

    return sf.llm.record(tiny_model("bert"), RNG.integers(1, 90, (2, 24)), queries=2, sizes=(2, 4))


def key_value():
    scores = RNG.uniform(size=(3, 2, 4, 4))
    made = sf.llm.KeyValueProfile(*scores, {"model": "none"}, parameters={"pairs": 4})
    return made


def of_tiny(verb, *given, **named):
    """A measurement of a model with random weights."""
    pytest.importorskip("transformers")
    from sphereflow.llm.model.tiny import tiny_model

    return getattr(sf.llm, verb)(tiny_model("llama, grouped"), *given, progress=False, **named)


def planned():
    pytest.importorskip("transformers")
    from sphereflow.llm.model.tiny import tiny_model

    return sf.llm.plan_sparsity(tiny_model("llama"), RNG.integers(1, 90, (2, 24)), keep=4, rule="error", seed=1)


def compared():
    flow = sf.meanfield.evolve_density(4.0, t1=0.1, saveat=2, nodes=32)
    return sf.meanfield.compare(4.0, t1=0.1, saveat=2, n=8, flow=flow, progress=False, seed=5)


EXAMPLES = {
    "Trajectory": lambda: sf.simulate(n=8, d=3, beta=2.0, t1=1.0, saves=3, seed=4, progress=False),
    "HardmaxFlow": lambda: sf.evolution.hardmax_flow(PAIRS[:5], 0.0),
    "ContextDependence": lambda: sf.evolution.context_dependence(PAIRS[:3], 1.0),
    "ClusterDiagram": lambda: sf.evolution.phase_diagram([0.5, 1.0], [1.0, 2.0], n=3, d=2, repeats=2, seed=1),
    "PredictedLimit": lambda: sf.predict_limit(V=[[1.0, 0.5], [-0.2, 0.3]]),
    "DensityFlow": lambda: sf.meanfield.evolve_density(4.0, t1=0.1, saveat=2, nodes=32),
    "Comparison": compared,
    "EulerianFlow": lambda: sf.meanfield.evolve_eulerian(4.0, t1=0.1, saveat=2),
    "ZonalFlow": lambda: sf.meanfield.evolve_zonal(3, 2.0, density=lambda t: 1 + 0.3 * t, t1=0.1, saveat=2, nodes=8),
    "Spectrum": lambda: sf.meanfield.stability(sf.USA(4.0), [[1.0, 0.0], [-1.0, 0.0]]),
    "CircleConcentration": lambda: sf.meanfield.concentrate(np.diag([1.0, 0.5]), beta=5.0, t1=0.5, saveat=3),
    "RingFlow": lambda: sf.meanfield.evolve_rings(3, 5.0, t1=0.5, saveat=3, nodes=8),
    "PhasePrediction": lambda: sf.meanfield.predict_phases(np.diag([1.0, 0.5]), np.diag([0.2, 1.0])),
    "LimitDistance": lambda: sf.meanfield.distance_to_limit(CIRCLE, CIRCLE[[1, 0, 2]], np.diag([1.0, 0.5])),
    "Concentration": lambda: sf.meanfield.concentration(np.diag([2.0, 1.0, 0.0])),
    "CriticalPoint": lambda: sf.landscape.minimise(problem(), 200),
    "Basins": lambda: sf.landscape.basins(problem(), starts=8, t1=1.0),
    "WeightedFlow": lambda: sf.landscape.weighted_flow(problem(), [0.1, 1.0], 0.2, saveat=2),
    "CriticalPoints": lambda: sf.landscape.critical_points(problem(), 1, starts=8),
    "Obstruction": lambda: sf.landscape.obstruction(problem(), 8),
    "RingCertificate": lambda: sf.landscape.ring_certificate(sf.landscape.Problem(2.0, [-0.6], [[0.0, 0.0, 1.0]])),
    "ZeroSet": lambda: sf.landscape.zero_set(problem(), [0.0, 3.0], levels=4),
    "MeanFieldLimit": lambda: sf.landscape.mean_field_limit(problem(), [4, 8], 0.1, 2, reference=16, seed=1),
    "CircleLaw": lambda: sf.synchronisation.circle_law("cos", [1, 2, 1, 0], steps=2, sizes=(3,), repeats=2),
    "Dissipation": lambda: sf.synchronisation.dissipation("cos", 4, [0.5, 1.0], start=0.5, cells=100),
    "LyapunovSpectrum": lambda: sf.synchronisation.lyapunov_spectrum("cos", 3, layers=2, repeats=3),
    "CoercivityTest": lambda: sf.synchronisation.coercivity_test("cos", 4, repeats=8),
    "LimitOrders": lambda: sf.synchronisation.limit_orders("cos", depths=(1, 2), sizes=(2, 3), repeats=2),
    "StrongErrors": lambda: sf.synchronisation.strong_errors("cos", depths=(2, 4), widths=(3,), repeats=2),
    "LineAttention": lambda: sf.modes.line_attention(PAIRS[:20].T, 20.0, [0.0, 0.5]),
    "SpaceModes": lambda: sf.modes.find_modes_in_space(PAIRS[:40], 20.0),
    "Modes": lambda: sf.modes.find_modes(PAIRS[:20].T, 20.0),
    "ModeSample": lambda: sf.modes.sample_modes(50, 20.0, 4, seed=1),
    "CircleAttention": lambda: sf.modes.modes_and_clusters(8, 5.0, 2, np.array([0.0, 0.5]), seed=2),
    "MergeHistory": lambda: sf.metastability.coarsen_to_one("sa", CIRCLE, 10.0, seed=3),
    "Staircase": lambda: sf.metastability.staircase(3, 20.0, seed=1),
    "Certificate": lambda: sf.metastability.certify(CIRCLE, 400.0),
    "PairMerger": lambda: sf.metastability.merge_pair(1.0, 10.0),
    "ClockTimes": lambda: sf.metastability.clock_times(CIRCLE, (40.0, 60.0, 100.0, 200.0)),
    "SaddlePath": lambda: sf.metastability.saddle_path(CIRCLE, 20.0),
    "SlowManifold": lambda: sf.metastability.slow_manifold(CIRCLE[[0, 0, 1]], 30.0, labels=[0, 0, 1]),
    "UnstableModes": lambda: sf.metastability.slow_modes(CIRCLE, np.ones(3) / 3, 20.0),
    "Profile": lambda: sf.retrieval.profile(1.0, 1.0, 2.0),
    "ShapeTest": lambda: sf.retrieval.u_shape(RNG.normal(size=(4, 8)), repeats=99, seed=1),
    "FittedProfile": lambda: sf.retrieval.fit_profile(RNG.normal(size=(4, 8)), repeats=4, seed=1),
    "KeyValueProfile": key_value,
    "InfluenceProfile": lambda: of_tiny("influence_profile", n=12, prompts=2, seed=1),
    "IteratedLayer": lambda: of_tiny("iterate_layer", 1, RNG.integers(1, 90, (2, 12)), steps=4, seed=1),
    "LayerLimits": lambda: of_tiny("layer_limits", (0, 1)),
    "EffectiveBetas": lambda: of_tiny("effective_betas", RNG.integers(1, 90, (2, 24))),
    "PromptProfile": lambda: sf.retrieval.profile(
        1.0, 1.0, 0.2, 4, prompt=sf.retrieval.density_prompt(density_of_prompt, 8), positions=(0.5,), n=8, repeats=4
    ),
    "MeasuredProfile": lambda: sf.retrieval.measure_profile(
        8, 0.5, beta=1.0, weights=1.0, vocab=4, sources=(1, 4), repeats=4, seed=1
    ),
    "LayeredFlow": lambda: sf.retrieval.layered_flow(
        sf.retrieval.density_prompt(density_of_prompt, 8), 0.2, beta=1.0, slope=1.0, source=0.5, tol=1e-4
    ),
    "Prediction": lambda: sf.random_transformers.predict(architecture()),
    "Measured": lambda: sf.random_transformers.measure(architecture(), 2, seed=2),
    "CollapseTime": lambda: sf.random_transformers.collapse_time(architecture()),
    "DensityPaths": lambda: sf.random_transformers.solve_density([1.0, 0.3], beta=1.0, t1=0.1, repeats=3, seed=2),
    "SphereDensityPaths": lambda: sf.random_transformers.solve_sphere_density(
        np.eye(3)[:2], beta=1.0, t1=0.1, degree=2, repeats=3, seed=2
    ),
    "Depths": lambda: sf.random_transformers.run(
        architecture().network(), np.stack([np.eye(4, 8)] * 2), [0, 2], observe=lambda x: {"tokens": x}, seed=4
    ),
    "Fit": lambda: sf.transport.fit(PAIRS[:, :1], 3 + PAIRS[:, 1:] ** 2, 8),
    "Divergences": lambda: sf.transport.divergences(SHIFT, NORMAL, NARROW),
    "ScheduleTable": lambda: sf.transport.compare({"shifted": SHIFT}, NORMAL, NARROW),
    "Gaussianisation": lambda: sf.transport.gaussianise(PAIRS[:100], frames=1, knots=4),
    "Trained": lambda: sf.transport.train_schedule(NARROW, 2, steps=2, batch=8),
    "MapFit": lambda: sf.transport.fit_map(doubled, cells=2, refine=2),
    "ScoreCard": lambda: sf.transport.score_card(STILL, doubled, sf.transport.gaussian(2), dx=1, samples=100),
    "ConditionalFit": lambda: sf.transport.fit_conditional(PAIRS[:, :1], PAIRS[:, 1:], 60, times=2),
    "VelocityFit": lambda: sf.transport.fit_velocities(PAIRS[:, :1], PAIRS[:, 1:], neurons=4, times=2),
    "Interpolation": lambda: sf.transport.interpolate([np.asarray(sf.draw("uniform", 4, 3, k)) for k in (0, 1)], ATOMS),
    "CostTable": lambda: sf.transport.interpolation_costs([2], [3], [1e-3], n=5),
    "SwitchTable": lambda: sf.transport.switches_needed(NORMAL, NARROW, [0.1]),
    "TrainedTransformer": lambda: sf.transport.train_transformer([a[None] for a in ATOMS[::-1]], ATOMS, 1, steps=2),
    "Recall": lambda: sf.memory.DenseMemory(PAIRS[:5], beta=4.0).recall(PAIRS[:2] + 0.1),
    "PhaseDiagram": lambda: sf.memory.phase_diagram(
        loads=np.linspace(0.05, 0.6, 4), temperatures=np.linspace(0.1, 1, 3), sizes=(50,)
    ),
    "RetrievalBoundary": lambda: sf.memory.boundary(temperature=2.0, sizes=(20, 30), states=20, repeats=2, seed=1),
    "Survival": lambda: sf.memory.survival(np.eye(5), np.ones(1), temperature=0.5, repeats=9, seed=1),
    "SupportClusters": lambda: sf.memory.support_clusters(PAIRS[:9]),
    "Tempered": lambda: sf.memory.temper(np.eye(4), temperature=0.5, repeats=2, steps=20),
    "MonteCarloSweep": lambda: sf.memory.sweep(
        loads=(0.2, 0.3), temperatures=(0.5,), patterns=8, repeats=2, steps=10, seed=3, progress=False
    ),
    "Training": trained,
    "ComputeRatios": lambda: sf.drifting.compute_ratios(
        compute.recorded(2), "drift-friction", "ofm", levels=[0.7], repeats=50, seed=2
    ),
    "BridgePaths": lambda: sf.drifting.bridge_paths(
        sf.drifting.light_bridge([1.0], [[0.0, 1.0]], [[0.5, 1.0]], 0.4), ROWS, seed=2
    ),
    "RecoveredLaw": lambda: sf.drifting.recover_law(
        "gaussian", [0.0, 0.1, 0.2], [0.01, 0.0, 0.01], [-1.0, 0.0, 1.0], [-1.0, 1.0], width=0.5, noise=1e-2
    ),
    "HiddenLaw": lambda: sf.drifting.hidden_law(
        "gaussian", [0.0, 0.1, 0.2], [-1.0, 0.0, 1.0], width=0.5, distance=0.1, seed=1
    ),
    "Quality": lambda: sf.drifting.quality_against_compute(
        ROWS, ROWS + 1, methods=("affine",), budgets=(2,), seeds=(0,), batch=4, progress=False
    ),
    "Inversions": lambda: sf.normalisation.inversions(np.array([0.5, 0.3, 0.2]), 4, [1, 2], repeats=3, seed=1),
    "NormaliserComparison": lambda: sf.normalisation.compare_normalisers(
        PAIRS[:12].reshape(2, 12), PAIRS[:24].reshape(2, 12, 2)
    ),
    "CriticalCounts": lambda: sf.normalisation.critical_counts(np.array([[0.5, 0.3, 0.2]]), np.eye(3)[None]),
    "Heads": heads,
    "Recording": recorded,
    "LengthRecording": lambda: sf.llm.length_recording("stories15m"),
    "ValueNorms": lambda: sf.llm.value_norms(sf.llm.recording("stories15m")),
    "FormsOfHeads": lambda: sf.llm.similarity_decay(sf.llm.recording("stories15m"), leave_out=False),
    "EnvelopeAgreement": lambda: sf.llm.envelope_agreement(sf.llm.recording("stories15m")),
    "SinkAndRecall": lambda: sf.llm.sink_and_recall(sf.llm.recording("stories15m"), repeats=9, seed=1),
    "FoundRegimes": lambda: sf.llm.found_regimes(sf.llm.recording("stories15m"), most=3, restarts=1, seed=1),
    "SparsePlan": planned,
    "SparsityComparison": lambda: sf.llm.sparsity_curve("stories15m-books"),
    "InitialCollapse": lambda: sf.random_transformers.initial_collapse(
        "gpt2", n=4, layers=2, width=48, repeats=2, level=0.01, seed=1
    ),
    "Separation": lambda: sf.llm.separation(np.full((2, 6), 1 / 6), PAIRS[:12].reshape(2, 6, 2), (1, 2)),
    "Sweep": swept,
    "Boundary": lambda: sf.sweeps.boundary(swept(), 2.2, "beta"),
}  # fmt: skip


def test_every_class_of_results_has_an_example():
    assert {kind.__name__ for kind in RESULTS} == set(EXAMPLES)


def changed(result):
    """The same with one number changed."""
    for each in dataclasses.fields(result):
        held = getattr(result, each.name)
        if each.compare and isinstance(held, (jax.Array, np.ndarray)) and held.size and held.dtype.kind in "fc":
            other = np.array(held)
            other.flat[0] += 1e-3
            return dataclasses.replace(
                result, **{each.name: jnp.asarray(other) if isinstance(held, jax.Array) else other}
            )
        if each.compare and isinstance(held, float) and np.isfinite(held):
            return dataclasses.replace(result, **{each.name: held + 1.0})
    return dataclasses.replace(result, parameters={"other": 1})


# Each of these compiles programs for more than a processor second.
DEAR = (
    "Heads", "Recording", "Measured", "InfluenceProfile", "IteratedLayer", "EffectiveBetas", "LayerLimits",
    "MonteCarloSweep", "Basins", "LayeredFlow", "TrainedTransformer", "Interpolation",
    "WeightedFlow", "DensityFlow", "Comparison", "ZonalFlow", "EulerianFlow", "MeasuredProfile", "CircleAttention",
    "ClusterDiagram", "RingCertificate", "SaddlePath", "PromptProfile", "Depths", "Fit", "MapFit", "Trained",
    "CostTable", "PhaseDiagram", "Training", "Quality", "SwitchTable", "CriticalPoints", "SlowManifold",
    "SparsePlan",
)  # fmt: skip


@pytest.mark.fast_cases(*(name for name in EXAMPLES if name not in DEAR))
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_habit_of_a_result(name, tmp_path):
    result = EXAMPLES[name]()
    assert type(result).__name__ == name
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.seed = 3
    # What a person reads.
    told = repr(result)
    assert told.startswith(f"<{name}: ")
    assert len(told) <= 600
    assert not any(word in told for word in ("array(", "[[", "\n"))
    assert all(len(line) <= 110 for line in result.summary().splitlines())
    # What a script reads.
    record = json.loads(json.dumps(result.record(), allow_nan=False))
    assert record["result"] == name
    assert record["versions"]["sphereflow"] == sf.__version__
    assert record["parameters"]
    if "seed=" in inspect.getsource(EXAMPLES[name]) and name != "Sweep":
        assert isinstance(record["seed"], int), "the seed is not kept"
    # Arrays with names.
    data = result.to_xarray()
    for each, (dims, values) in result.variables().items():
        assert data[each].dims == ((dims,) if isinstance(dims, str) else tuple(dims))
        np.testing.assert_array_equal(data[each].values, np.asarray(values))
    # Files.
    path = result.save(tmp_path / ("run.zarr" if name == "Trajectory" else "result.npz"))
    again = sf.load(path)
    assert type(again) is type(result)
    assert again == result
    assert repr(again) == told
    assert again.versions == result.versions
    assert result != changed(result)
    assert result != 3
    assert hash(again) == hash(result)
    with pytest.raises(SphereflowError, match="exists already"):
        result.save(path)
    # Pictures and notebooks.
    assert isinstance(again.plot(), Figure)
    page = result._repr_html_()
    assert name in page
    assert all(html.escape(fact) in page for fact in result.facts())
    # What it says can be asked of it is there.
    ways = re.findall(r"<li><code>\.(\w+)", page)
    assert {"plot", "to_xarray", "record", "save"} <= set(ways)
    assert all(hasattr(type(result), way) for way in ways)
