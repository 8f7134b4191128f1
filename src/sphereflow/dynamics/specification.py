"""A model as plain data, so that a saved result can rebuild it without executing anything it contains.

A model is a tree of small records: the class name, static fields as JSON, arrays by name, sub-models recursively. Only
the classes listed here can be rebuilt.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.dynamics.attention import Attention
from sphereflow.dynamics.base import Dynamics
from sphereflow.dynamics.combinations import Scaled, Sum
from sphereflow.dynamics.euclidean import EuclideanAttention, RescaledAttention, RescaledFeedForward
from sphereflow.dynamics.layernorm import LayerNormAttention
from sphereflow.dynamics.perceptron import Perceptron
from sphereflow.dynamics.piecewise import PiecewiseConstant
from sphereflow.errors import SphereflowError
from sphereflow.interaction import DIRECT, Alibi, Causal, Engine, Product
from sphereflow.kernels import EXPONENTIAL, FunctionKernel, Kernel

_KNOWN: dict[str, type[eqx.Module]] = {
    kind.__name__: kind
    for kind in (
        Alibi,
        Attention,
        Causal,
        EuclideanAttention,
        LayerNormAttention,
        Perceptron,
        PiecewiseConstant,
        Product,
        RescaledAttention,
        RescaledFeedForward,
        Scaled,
        Sum,
    )
}

# Fields that are not written down where they have their usual value.
_USUAL: dict[str, Any] = {"engine": DIRECT, "kernel": EXPONENTIAL}


def describe(model: Dynamics) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(JSON-able description, arrays by path) of a model."""
    arrays: dict[str, np.ndarray] = {}
    return _describe(model, "", arrays), arrays


def rebuild(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Dynamics:
    """The model described, or a sentence about what is missing."""
    model = _rebuild(description, arrays)
    if not isinstance(model, Dynamics):
        raise SphereflowError("the saved model is not a dynamics; the file is damaged or was made by something else.")
    return model


def _describe(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, eqx.Module):
        kind = type(value).__name__
        if kind not in _KNOWN:
            raise SphereflowError(f"a model with a part of type {kind} cannot be saved.")
        parts = {
            f.name: _describe(getattr(value, f.name), f"{path}/{f.name}", arrays) for f in dataclasses.fields(value)
        }
        return {"kind": kind, "fields": parts}
    if isinstance(value, tuple):
        return {"tuple": [_describe(item, f"{path}/{i}", arrays) for i, item in enumerate(value)]}
    if isinstance(value, (jax.Array, np.ndarray)):
        name = path.strip("/").replace("/", ".")
        arrays[name] = np.asarray(value)
        return {"array": name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"plain": value}
    if isinstance(value, (Engine, Kernel)) and value in _USUAL.values():
        return {"plain": None}
    if isinstance(value, FunctionKernel):
        raise SphereflowError(f"a model with a kernel of one's own ({value.name}) cannot be saved.")
    raise SphereflowError(f"a model that contains {type(value).__name__} at '{path}' cannot be saved.")


def _rebuild(description: Any, arrays: dict[str, np.ndarray]) -> Any:
    try:
        if "plain" in description:
            return description["plain"]
        if "array" in description:
            return jnp.asarray(arrays[description["array"]])
        if "tuple" in description:
            return tuple(_rebuild(item, arrays) for item in description["tuple"])
        kind = _KNOWN[description["kind"]]
        fields = {name: _rebuild(part, arrays) for name, part in description["fields"].items()}
    except (KeyError, TypeError) as error:
        raise SphereflowError(f"the saved model cannot be read: {error!r} is missing or unknown.") from None
    # Fields are restored as they were, without running constructors, so that arrays come back bit for bit.
    module = object.__new__(kind)
    for f in dataclasses.fields(kind):
        if f.name in _USUAL and fields.get(f.name) is None:
            fields[f.name] = _USUAL[f.name]
        if f.name not in fields:
            raise SphereflowError(f"the saved model cannot be read: {kind.__name__} lacks the field {f.name}.")
        object.__setattr__(module, f.name, fields[f.name])
    return module
