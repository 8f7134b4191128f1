"""A stored sweep goes on only by the function that began it: every way in which two functions can differ."""

import cmath
import dataclasses
import functools
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.fingerprints import fingerprint, library
from sphereflow.sweeps import sweep

GRID = {"x": [1.0, 2.0]}


def module(name, text, folder, monkeypatch):
    """A module of the user, from a file of its own."""
    (folder / f"{name}.py").write_text(text)
    made = types.ModuleType(name)
    made.__file__ = str(folder / f"{name}.py")
    monkeypatch.setitem(sys.modules, name, made)
    exec(text, made.__dict__)
    return made


def defined(text, **names):
    """The function f of a program text."""
    space = {"__name__": "a_users_script", "np": np, "math": math, "functools": functools, **names}
    exec(text, space)
    return space["f"]


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def times(self, x):
        return self.factor * x

    __call__ = times


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


@dataclasses.dataclass
class Record:
    factor: float

    def __call__(self, x):
        return self.factor * x


class Model(eqx.Module):
    weight: jax.Array
    power: int = eqx.field(static=True, default=1)

    def __call__(self, x):
        return jnp.sum(self.weight) * x**self.power


def product(x, factor):
    return x * factor


def closed_over(held):
    def f(x):
        return x * np.sum(held)

    return f


def a_class(text):
    return defined(f"class Made:\n    k = 2\n    def __call__(self, x):\n        return {text}\nf = Made()")


ROOT = "def f(x): return m.sqrt(x - 2).real"
LOOKED_UP = "def f(x): return k['a'] * x"
COUNTED = "def helper(x):\n    return {} * x\n"
# Name: (the function that began, the one that goes on). The values of every pair differ somewhere.
PAIRS = {
    "names": (defined("def f(x): return math.floor(x / 1.5)"), defined("def f(x): return math.ceil(x / 1.5)")),
    "constants": (defined("def f(x): return 2 * x"), defined("def f(x): return 3 * x")),
    "kinds of constants": (defined("def f(x): return 1 / x // 1"), defined("def f(x): return 1.5 / x // 1")),
    "variables": (defined("def f(x, **k): a, b = x, 3; return a"), defined("def f(x, **k): b, a = x, 3; return a")),
    "inner functions": (
        defined("def f(x): return [math.sin(a) for a in [x]][0]"),
        defined("def f(x): return [math.cos(a) for a in [x]][0]"),
    ),
    "defaults": (defined("def f(x, k=2): return k * x"), defined("def f(x, k=3): return k * x")),
    "keyword defaults": (defined("def f(x, *, k=2): return k * x"), defined("def f(x, *, k=3): return k * x")),
    "closures": (closed_over(2), closed_over(3)),
    "arrays in closures": (closed_over(np.array([1.0, 2.0])), closed_over(np.array([1.0, 2.5]))),
    "kinds of arrays": (closed_over(np.array([1.0, 2.0])), closed_over(np.array([1.0, 2.0], np.float32))),
    "long arrays": (closed_over(np.zeros(5000)), closed_over(np.eye(1, 5000, 2500)[0])),
    "JAX arrays": (closed_over(jnp.arange(3.0)), closed_over(jnp.arange(3.0) + 1)),
    "self": (Scaled(2.0).times, Scaled(3.0).times),
    "callable objects": (Scaled(2.0), Scaled(3.0)),
    "slots": (Slotted(2.0), Slotted(3.0)),
    "dataclasses": (Record(2.0), Record(3.0)),
    "the class of an object": (a_class("self.k * x"), a_class("x / self.k")),
    "models": (Model(jnp.ones(2)), Model(jnp.ones(2) * 2)),
    "static fields": (Model(jnp.ones(2)), Model(jnp.ones(2), 2)),
    "globals": (defined("def f(x): return k * x", k=2), defined("def f(x): return k * x", k=3)),
    "dictionaries": (defined(LOOKED_UP, k={"a": 2}), defined(LOOKED_UP, k={"a": 3})),
    "helpers": (
        defined(COUNTED.format(2) + "def f(x): return helper(x)"),
        defined(COUNTED.format(3) + "def f(x): return helper(x)"),
    ),
    "helpers of helpers": (
        defined(COUNTED.format("k") + "def f(x): return helper(x)", k=2),
        defined(COUNTED.format("k") + "def f(x): return helper(x)", k=3),
    ),
    "modules": (defined(ROOT, m=math), defined(ROOT, m=cmath)),
    "decorated helpers": (
        defined("@functools.cache\n" + COUNTED.format(2) + "def f(x): return helper(x)"),
        defined("@functools.cache\n" + COUNTED.format(3) + "def f(x): return helper(x)"),
    ),
    "partials by keyword": (functools.partial(product, factor=2), functools.partial(product, factor=3)),
    "partials of functions": (functools.partial(closed_over(2)), functools.partial(closed_over(3))),
    "jax.jit": (jax.jit(closed_over(2)), jax.jit(closed_over(3))),
    "equinox.filter_jit": (eqx.filter_jit(closed_over(2)), eqx.filter_jit(closed_over(3))),
    "jax.vmap": (jax.vmap(closed_over(2)), jax.vmap(closed_over(3))),
    "numpy.vectorize": (np.vectorize(closed_over(2)), np.vectorize(closed_over(3))),
    "library functions": (np.sin, np.cos),
}


@pytest.mark.parametrize("name", PAIRS)
def test_functions_that_differ_have_different_digests(name):
    first, second = PAIRS[name]
    assert fingerprint(first, "f") != fingerprint(second, "f")
    assert fingerprint(first, "f") == fingerprint(first, "f")


@pytest.mark.parametrize("name", ["names", "closures", "defaults", "self", "globals", "helpers", "callable objects"])
def test_another_function_does_not_go_on(tmp_path, name):
    first, second = PAIRS[name]
    out = tmp_path / "s.zarr"
    values = sweep(first, GRID, out=out, progress=False).in_memory()
    with pytest.raises(SphereflowError, match=r"the function, or something that it uses, is not the one|quantity was"):
        sweep(second, GRID, out=out, progress=False)
    assert sweep(first, GRID, out=out, progress=False).dataset.identical(values.dataset)


def test_what_a_function_uses_may_not_change_between_two_calls(tmp_path, monkeypatch):
    settings = module("my_settings", "scale = 2.0\ndef helper(x):\n    return scale * x\n", tmp_path, monkeypatch)
    scaled = Scaled(2.0)
    through_module = defined("def f(x): return my_settings.scale * x", my_settings=settings)
    through_import = defined("def f(x):\n    from my_settings import helper\n    return helper(x)")
    for number, function in enumerate((through_module, through_import, scaled, scaled.times)):
        out = tmp_path / f"{number}.zarr"
        monkeypatch.setattr(settings, "scale", 2.0)
        scaled.factor = 2.0
        sweep(function, GRID, out=out, progress=False)
        monkeypatch.setattr(settings, "scale", 3.0)
        scaled.factor = 3.0
        with pytest.raises(SphereflowError, match="is not the one that began it"):
            sweep(function, GRID, out=out, progress=False)


def test_a_compiled_sweep_sees_globals_and_states_as_they_are():
    """Also in memory: a program compiled for an older state of the same function must not be run."""
    scaled = Scaled(2.0)
    assert sweep(scaled.times, GRID, vmap=True).dataset["value"].values.tolist() == [2.0, 4.0]
    scaled.factor = 3.0
    assert sweep(scaled.times, GRID, vmap=True).dataset["value"].values.tolist() == [3.0, 6.0]


@pytest.mark.slow
def test_digests_are_the_same_in_another_process(tmp_path):
    """Sets have another order there, and objects other addresses."""
    (tmp_path / "mine.py").write_text(
        "import functools, math, numpy as np, jax\nfrom jax.nn import relu\nimport sphereflow as sf\n"
        "table = {'a': np.arange(3.0), 'b': {1, 2, 'c'}}\n"
        "@functools.cache\ndef helper(x): return x in {'one', 'two', 'three'}\n"
        "class Thing:\n    def __init__(self): self.model, self.names = sf.SA(2.0), {'x', 'y', 'z'}\n"
        "    def __call__(self, x): return table['a'].sum() * helper(x) + relu(x) + math.sin(x)\n"
        "f = jax.jit(functools.partial(Thing()))\n"
    )
    line = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mine; "
        "from sphereflow.fingerprints import fingerprint; print(fingerprint(mine.f, 'f'))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", line],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def generator():
    yield 1


UNKNOWN = {
    "an open file": lambda: closed_over(sys.__stdout__),
    "a random generator": lambda: closed_over(np.random.default_rng(0)),
    "a running generator": lambda: closed_over(generator()),
    "a lock": lambda: closed_over(__import__("threading").Lock()),
    "a module of the user as a whole": lambda: closed_over(sys.modules[__name__]),
    "a text that is executed": lambda: defined("def f(x): return eval('k * x')", k=2),
    "an import inside": lambda: defined("def f(x):\n    import test_identity\n    return test_identity.GRID['x'][0]"),
    "a foreign C function": lambda: __import__("ctypes").CDLL(None).abs,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_identified_is_refused_unless_it_has_a_version(tmp_path, name):
    function, out = UNKNOWN[name](), tmp_path / "s.zarr"
    with pytest.raises(SphereflowError, match=r'cannot be identified.*version="1"') as refused:
        sweep(lambda x: 0 * x if function is None else x, GRID, out=out, progress=False)
    assert str(refused.value).count(". ") == 0
    assert not list(tmp_path.iterdir())


def test_a_version_stands_for_the_function(tmp_path):
    out, held = tmp_path / "s.zarr", np.random.default_rng(0)

    def drawn(x, start):
        return x + (start is held)

    options = {"fixed": {"start": held}, "out": out, "progress": False}
    with pytest.raises(SphereflowError, match="random generator in 'start' of fixed"):
        sweep(drawn, GRID, **options)
    sweep(drawn, GRID, version="1", **options)
    sweep(drawn, GRID, version="1", **options)
    with pytest.raises(SphereflowError, match="its version is not the one that began it"):
        sweep(drawn, GRID, version="2", **options)
    with pytest.raises(SphereflowError, match="'start' was"):
        sweep(drawn, GRID, version="1", out=out, fixed={"start": 3})
    with pytest.raises(SphereflowError, match="version is a word"):
        sweep(drawn, GRID, version="", **options)
    with pytest.raises(SphereflowError, match="version is a word"):
        sweep("retrieval", {"beta": [1.0]}, fixed={"t": 1.0}, version="1")


def test_packages_are_known_by_their_versions():
    assert library("numpy.linalg") == f"numpy {np.__version__}"
    assert library("json").startswith("python 3")
    assert library("sphereflow.sweeps").startswith("sphereflow ")
    assert library(__name__) is None
    assert library("__main__") is None
    assert Path(__file__).stem == __name__
