"""Dynamics, kernels and engines of one's own in runs on disk: known again, or said to be lost, never confused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sphereflow as sf
from sphereflow.dynamics.specification import Lost, describe, rebuild
from sphereflow.interaction import Harmonic
from sphereflow.sphere import project

STRENGTH = 0.5


class Wind(sf.Dynamics):
    """Tokens driven by a small network."""

    network: eqx.nn.MLP
    towards: jax.Array

    def field(self, t, x):
        return project(x, STRENGTH * self.towards + jax.vmap(self.network)(x))

    def energy(self, x, weights=None):
        return jnp.mean(x @ self.towards)


class Flat(sf.Dynamics):
    """Tokens of the plane that turn."""

    def field(self, t, x):
        return x @ jnp.array([[0.0, 1.0], [-1.0, 0.0]])

    @property
    def traits(self):
        return sf.dynamics.Traits(space="euclidean", masses="any")


def square(s, beta):
    return 1 + beta * s**2


def wind():
    return Wind(eqx.nn.MLP(3, 3, 4, 1, key=jax.random.key(0)), jnp.array([1.0, 0.0, 0.0]))


MODELS = {
    "dynamics": lambda: wind() + 2.0 * sf.SA(2.0),
    "kernel": lambda: sf.SA(2.0, kernel=square),
    "engine": lambda: sf.USA(2.0, engine=Harmonic(20)),
    "function of time": lambda: sf.dynamics.LayerNormAttention(2.0, "ngpt", alpha=jnp.cos),
}


@pytest.mark.fast_cases("dynamics", "kernel", "function of time")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_ones_own_is_kept_and_known_again(name):
    model = MODELS[name]()
    again = rebuild(*describe(model))
    assert not isinstance(again, Lost)
    assert eqx.tree_equal(again, model)
    x = sf.draw("uniform", 4, 3, 0)
    np.testing.assert_array_equal(again.field(jnp.zeros(()), x), model.field(jnp.zeros(()), x))


@pytest.mark.slow
def test_a_run_with_a_changed_class_is_another_run(tmp_path, monkeypatch):
    x0, out = sf.draw("uniform", 4, 3, 0), tmp_path / "run.zarr"
    first = sf.evolve(wind(), x0, 1.0, saveat=3, out=out)
    assert sf.evolve(wind(), x0, 1.0, saveat=3, out=out).steps == first.steps
    np.testing.assert_allclose(sf.load(out).energy, first.energy)
    monkeypatch.setattr(f"{__name__}.STRENGTH", 0.7)
    with pytest.raises(sf.SphereflowError, match="exists"):
        sf.evolve(wind(), x0, 1.0, saveat=3, out=out)
    loaded = sf.load(out)
    np.testing.assert_array_equal(loaded.xs, first.xs)
    for ask in (lambda: loaded.energy, lambda: loaded.extend(2.0), lambda: loaded.error_estimate):
        with pytest.raises(sf.SphereflowError, match=r"code of 'Wind'.* is not what it was"):
            ask()
    loaded.save(tmp_path / "copy.zarr")
    monkeypatch.undo()
    np.testing.assert_allclose(sf.load(tmp_path / "copy.zarr").energy, first.energy)


def test_what_has_no_name_is_read_without_its_model(tmp_path):
    x0, out = sf.draw("uniform", 4, 3, 0), tmp_path / "run.zarr"
    run = sf.evolve(sf.SA(2.0, kernel=lambda s, beta: 1 + s**2), x0, 1.0, saveat=3, out=out)
    assert run.energy.shape == (3,)  # the run that was just made has its model
    with pytest.raises(sf.SphereflowError, match=r"import or define '.*lambda"):
        _ = sf.load(out).energy


def test_the_space_is_known_without_the_class(tmp_path, monkeypatch):
    run = sf.evolve(Flat(), np.array([[2.0, 0.0]]), 1.0, saveat=3)
    run.save(tmp_path / "run.zarr")
    monkeypatch.delattr(f"{__name__}.Flat")
    assert sf.load(tmp_path / "run.zarr").model.traits.space == "euclidean"


@pytest.mark.parametrize("named", ["os:system", "subprocess:run", "numpy:save"])
def test_a_file_cannot_name_what_it_likes(named):
    module, name = named.split(":")
    description, arrays = describe(sf.SA(2.0, kernel=square))
    description["fields"]["kernel"]["fields"]["function"]["function"] |= {"module": module, "name": name}
    assert isinstance(rebuild(description, arrays), Lost)
    description["kind"] = {"module": module, "name": name, "digest": ""}
    assert isinstance(rebuild(description, arrays), Lost)
