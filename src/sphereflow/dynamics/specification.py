"""A model as plain data, so that a saved result can rebuild it without executing anything it contains.

A model is a tree of small records: the class name, static fields as JSON, arrays by name, sub-models recursively. What
the library ships is rebuilt by name. Classes and functions of one's own are kept by module, name and the digest of
their code; they are looked for among what the program has imported already, and taken only if their code is what it
was. If they are not there the tokens can be read all the same: the model is then `Lost`, and says so when it is asked.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics.attention import Attention
from sphereflow.dynamics.base import Dynamics
from sphereflow.dynamics.combinations import Scaled, Sum
from sphereflow.dynamics.euclidean import EuclideanAttention, RescaledAttention, RescaledFeedForward
from sphereflow.dynamics.layernorm import LayerNormAttention
from sphereflow.dynamics.perceptron import Perceptron
from sphereflow.dynamics.piecewise import PiecewiseConstant
from sphereflow.dynamics.traits import Traits
from sphereflow.errors import SphereflowError
from sphereflow.fingerprints import Unidentified, fingerprint, library
from sphereflow.interaction import (
    DIRECT,
    Alibi,
    Causal,
    Direct,
    Engine,
    Fourier,
    Harmonic,
    Polynomial,
    Product,
    Sharded,
)
from sphereflow.kernels import EXPONENTIAL, Exponential, FunctionKernel, Kernel
from sphereflow.shapes import AnyArray

_KNOWN: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Alibi,
        Attention,
        Causal,
        Direct,
        EuclideanAttention,
        Exponential,
        Fourier,
        FunctionKernel,
        Harmonic,
        LayerNormAttention,
        Perceptron,
        PiecewiseConstant,
        Polynomial,
        Product,
        RescaledAttention,
        RescaledFeedForward,
        Scaled,
        Sum,
    )
}
# What a class of one's own may be, to be rebuilt from its fields.
_KINDS = (eqx.Module, Engine, Kernel)
# Fields that are not written down where they have their usual value.
_USUAL: dict[str, Any] = {"engine": DIRECT, "kernel": EXPONENTIAL}
# Libraries whose names mean the same in every release.
_STEADY = ("jax", "equinox", "sphereflow")


class Lost(Dynamics):
    """The model of a saved run whose code is not there any more; `why` says which. What needs the field refuses."""

    why: str = eqx.field(static=True)
    geometry: Literal["sphere", "euclidean"] = eqx.field(static=True)
    description: str = eqx.field(static=True)
    arrays: dict[str, Array]

    @property
    def traits(self) -> Traits:
        return Traits(space=self.geometry)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        raise SphereflowError(self.why)

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        raise SphereflowError(self.why)

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        raise SphereflowError(self.why)

    def with_masses(self, masses: Float[AnyArray, " n"]) -> Dynamics:
        raise SphereflowError(self.why)


class _Missing(Exception):
    """The code of a class or function is not there, or is not what it was."""


def describe(model: Dynamics) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(JSON-able description, arrays by path) of a model."""
    if isinstance(model, Lost):
        return json.loads(model.description), {name: np.asarray(array) for name, array in model.arrays.items()}
    arrays: dict[str, np.ndarray] = {}
    return _describe(model, "", arrays) | {"space": model.traits.space}, arrays


def rebuild(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Dynamics:
    """The model described, or a sentence about what is missing."""
    try:
        model = _rebuild(description, arrays)
    except _Missing as missing:
        kept = {name: jnp.asarray(array) for name, array in arrays.items()}
        space: Literal["sphere", "euclidean"] = "euclidean" if description.get("space") == "euclidean" else "sphere"
        return Lost(f"the model of this run is not known here: {missing}.", space, json.dumps(description), kept)
    if not isinstance(model, Dynamics):
        raise SphereflowError("the saved model is not a dynamics; the file is damaged or was made by something else.")
    return model


def _describe(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, Sharded):
        return _describe(value.engine, path, arrays)  # over which devices tokens are split is no part of the model
    if isinstance(value, _KINDS) and dataclasses.is_dataclass(value):
        if isinstance(value, (Engine, Kernel)) and value in _USUAL.values():
            return {"plain": None}
        kind = type(value)
        shipped = _KNOWN.get(kind.__name__) is kind
        parts = {
            f.name: _describe(getattr(value, f.name), f"{path}/{f.name}", arrays) for f in dataclasses.fields(value)
        }
        return {"kind": kind.__name__ if shipped else _reference(kind, path), "fields": parts}
    for name, sequence in (("tuple", tuple), ("list", list)):
        if type(value) is sequence:
            return {name: [_describe(item, f"{path}/{i}", arrays) for i, item in enumerate(value)]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: _describe(item, f"{path}/{key}", arrays) for key, item in value.items()}}
    if isinstance(value, (jax.Array, np.ndarray)):
        name = path.strip("/").replace("/", ".")
        arrays[name] = np.asarray(value)
        return {"array": name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"plain": value}
    if callable(value):
        return {"function": _reference(value, path)}
    raise SphereflowError(f"a model that contains {type(value).__name__} at '{path}' cannot be saved.")


def _reference(code: Any, path: str) -> dict[str, str]:
    """Where a class or function lives, and the digest of its code."""
    try:
        name = getattr(code, "__qualname__", type(code).__qualname__)
        return {
            "module": str(getattr(code, "__module__", "")),
            "name": name,
            "digest": fingerprint(code, f"'{name}'"),
        }
    except Unidentified as error:
        raise SphereflowError(
            f"a model with '{path.strip('/') or 'itself'}' of one's own cannot be saved: {error}"
        ) from None


def _found(reference: dict[str, str], holder: type | None = None) -> Any:
    """The class or function of that name, if the program has it and its code is what it was.

    A function without a name of its own may be what the class that holds it takes by default.
    """
    module, name, digest = (str(reference[key]) for key in ("module", "name", "digest"))
    owner = library(module) or ""
    if owner.startswith("python "):
        raise _Missing(f"'{name}' of {module} is no part of a model")  # it might open files
    defaults = [] if holder is None else inspect.signature(holder.__init__).parameters.values()  # type: ignore[misc]
    candidates = [each.default for each in defaults if getattr(each.default, "__qualname__", None) == name]
    try:
        candidates.append(functools.reduce(getattr, name.split("."), sys.modules[module]))
    except (AttributeError, KeyError):
        if not candidates:
            raise _Missing(f"import or define '{name}' of {module} before loading it") from None
    for each in candidates:
        if owner.split(" ")[0] in _STEADY or _digest(each) == digest:
            return each
    raise _Missing(f"the code of '{name}' of {module} is not what it was then")


def _digest(code: Any) -> str:
    try:
        return fingerprint(code, "it")
    except Unidentified:
        return "unknown"


def _rebuild(description: Any, arrays: dict[str, np.ndarray], holder: type | None = None) -> Any:
    try:
        if "plain" in description:
            return description["plain"]
        if "array" in description:
            return jnp.asarray(arrays[description["array"]])
        if "tuple" in description:
            return tuple(_rebuild(item, arrays) for item in description["tuple"])
        if "list" in description:
            return [_rebuild(item, arrays) for item in description["list"]]
        if "dict" in description:
            return {str(key): _rebuild(item, arrays) for key, item in description["dict"].items()}
        if "function" in description:
            return _found(description["function"], holder)
        kind = description["kind"]
        kind = _found(kind) if isinstance(kind, dict) else _KNOWN[kind]
        fields = {name: _rebuild(part, arrays, kind) for name, part in description["fields"].items()}
    except (KeyError, TypeError) as error:
        raise SphereflowError(f"the saved model cannot be read: {error!r} is missing or unknown.") from None
    if not (isinstance(kind, type) and issubclass(kind, _KINDS) and dataclasses.is_dataclass(kind)):
        raise SphereflowError(f"the saved model cannot be read: {kind!r} is no part of a model.")
    # Fields are restored as they were, without running constructors, so that arrays come back bit for bit.
    module = object.__new__(kind)
    for f in dataclasses.fields(kind):
        if f.name in _USUAL and fields.get(f.name) is None:
            fields[f.name] = _USUAL[f.name]
        if f.name not in fields:
            raise SphereflowError(f"the saved model cannot be read: {kind.__name__} lacks the field {f.name}.")
        object.__setattr__(module, f.name, fields[f.name])
    return module
