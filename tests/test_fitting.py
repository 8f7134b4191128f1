"""Training with an optimiser of one's own: it takes every step, and a kept run is continued by no other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sphereflow.drifting import TwoSidedField, checkpoints
from sphereflow.drifting.flow_matching import train_flow_matching
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.lightsb import train_light_bridge
from sphereflow.drifting.samplers import from_rows
from sphereflow.drifting.training import Recipe, beginning, train
from sphereflow.errors import SphereflowError
from sphereflow.fitting import Descent, adam, descend, own
from sphereflow.transport import gaussian, train_map, train_schedule, train_transformer

STEPS = 4
ROWS = np.random.default_rng(0).normal(size=(60, 2))
HERE, THERE = from_rows(ROWS), from_rows(ROWS + 1.0)
SOURCES, TARGETS = [np.eye(3)], [np.eye(3)[::-1] @ np.diag([1.0, -1.0, 1.0])]
MODEL = Generator(2, 2, width=4, depth=1, key=jax.random.key(1))


def trained(recipe, state=None, **options):
    state = beginning(MODEL, recipe) if state is None else state
    return train(state, recipe, TwoSidedField(width=0.3), HERE, THERE, progress=False, **options).state


def by_drifting(**options):
    return trained(Recipe(steps=STEPS, batch=8, **options)).model


def by_flow_matching(**options):
    return train_flow_matching(HERE, THERE, 2, widths=(4,), steps=STEPS, batch=8, decay=0.0, **options).potential


def by_bridge(**options):
    return train_light_bridge(HERE, THERE, potentials=2, steps=STEPS, batch=8, **options)[0]


def by_likelihood(**options):
    found = train_schedule(gaussian(2, 1.0), 2, loss="reverse_kl", steps=STEPS, batch=8, **options).schedule
    return found.w, found.a, found.b


def by_map(**options):
    found = train_map(lambda x: x + np.sin(x), ROWS, 2, steps=STEPS, batch=8, **options).schedule
    return found.w, found.a, found.b


def by_measures(**options):
    found = train_transformer(SOURCES, TARGETS, 1, steps=STEPS, substeps=1, **options)
    return found.schedule.matrices()


RATE = 3e-3  # nobody's usual one
# Each with the optimiser that it has at this rate, spelled out.
WAYS = {
    by_drifting: optax.adam(RATE),
    by_flow_matching: optax.adam(optax.cosine_decay_schedule(RATE, STEPS), b1=0.8, b2=0.99),
    by_bridge: optax.adam(RATE),
    by_likelihood: optax.adam(optax.cosine_decay_schedule(RATE, STEPS)),
    by_map: optax.adam(optax.cosine_decay_schedule(RATE, STEPS)),
    by_measures: optax.adam(RATE),
}
SLOW = (by_flow_matching, by_bridge, by_measures, by_drifting)


def numbers(result):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(result) if eqx.is_inexact_array_like(leaf)])


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] * (way in SLOW)) for way in WAYS])
def test_the_optimiser_given_takes_the_steps(way):
    np.testing.assert_allclose(numbers(way(optimiser=WAYS[way])), numbers(way(rate=RATE)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_a_rate_beside_an_optimiser_is_refused(way):
    with pytest.raises(SphereflowError, match="give rate or an optimiser, not both"):
        way(rate=RATE, optimiser=WAYS[way])
    with pytest.raises(SphereflowError, match="rate must be"):
        way(rate=-1.0)


def test_what_an_optimiser_leaves_without_meaning_is_refused():
    with pytest.raises(SphereflowError, match="falling"):
        by_bridge(falling=True, optimiser=optax.sgd(0.1))
    with pytest.raises(SphereflowError, match="schedule"):
        Recipe(schedule="linear", optimiser=optax.sgd(0.1))
    with pytest.raises(SphereflowError, match=r"optimiser must be adam, sgd or one of optax.*got 'one of optax'"):
        Recipe(optimiser="one of optax")
    with pytest.raises(SphereflowError, match="'adam' has a name"):
        Recipe(version="1")


def test_one_step_of_each_kind():
    """theta - rate * slope, by an optimiser and by a rate per step; the average beside it; what the loss says."""

    def loss(w, target):
        return jnp.sum((w - target) ** 2) / 2, target

    at = Descent(jnp.zeros(1), optax.EmptyState(), jnp.zeros(1))
    targets = jnp.array([1.0, 3.0])
    by_rates, (values, seen) = descend(
        loss, at, targets, optax.identity(), rates=jnp.array([0.5, 0.25]), decays=jnp.array([0.5, 0.5])
    )
    assert float(by_rates.weights[0]) == 0.5 + 0.25 * 2.5
    assert float(by_rates.average[0]) == (0.5 * 0.5) * 0.5 + 0.5 * 1.125
    assert values.tolist() == [0.5, 3.125]
    assert seen.tolist() == targets.tolist()
    rule = optax.sgd(0.5)
    assert float(descend(loss, Descent(jnp.zeros(1), rule.init(jnp.zeros(1))), targets, rule)[0].weights[0]) == 1.75


@pytest.mark.slow
def test_a_line_search_has_what_it_needs():
    rule = optax.lbfgs()
    start = jnp.array([3.0, -2.0])
    _, (values, _) = descend(
        lambda w, _: (jnp.sum(w**2 * jnp.array([1.0, 9.0])), None),
        Descent(start, rule.init(start)),
        jnp.arange(6),
        rule,
    )
    assert float(values[-1]) < 1e-6 * float(values[0])


def test_equal_usual_optimisers_are_one_object():
    """Compiled programs are known by their optimiser: a second run of the same kind must not compile again."""
    assert adam(1e-3, 10) is adam(1e-3, 10)
    assert adam(1e-3, 10) is not adam(1e-3)
    assert own(None, rate=1.0) is None


def test_a_kept_run_is_continued_by_its_own_optimiser_only(tmp_path):
    path = tmp_path / "run.npz"
    recipe = Recipe(steps=STEPS, batch=8, optimiser=optax.adamw(1e-2), version="adamw 1")
    kept = []
    whole = trained(recipe, every=2, keep=kept.append)
    checkpoints.save(path, kept[0], {})
    resumed = trained(recipe, checkpoints.restore(path, MODEL, recipe))
    np.testing.assert_array_equal(numbers(resumed.average), numbers(whole.average))
    others = [
        Recipe(steps=STEPS, batch=8, optimiser=optax.adamw(2e-2), version="adamw 2"),
        Recipe(steps=STEPS, batch=8, optimiser=optax.adamw(1e-2)),
        Recipe(steps=STEPS, batch=8),
    ]
    for other in others:
        with pytest.raises(SphereflowError, match=r"made by the optimiser 'version adamw 1', the recipe has"):
            checkpoints.restore(path, MODEL, other)
        with pytest.raises(SphereflowError, match=r"begun by the optimiser 'version adamw 1', the recipe has"):
            trained(other, kept[0])
    with pytest.raises(SphereflowError, match="another seed"):
        checkpoints.restore(path, MODEL, Recipe(steps=STEPS, optimiser=optax.adamw(1e-2), version="adamw 1", seed=1))


def test_a_run_without_a_name_is_not_kept(tmp_path):
    recipe = Recipe(steps=STEPS, batch=8, optimiser=optax.adamw(1e-2))
    with pytest.raises(SphereflowError, match="give the recipe a version"):
        checkpoints.save(tmp_path / "run.npz", beginning(MODEL, recipe), {})
    assert not list(tmp_path.iterdir())
