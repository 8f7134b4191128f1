"""A model as plain data (see `plain_objects`), so that a saved run can rebuild it.

Where the code of a model of one's own is not there, the tokens can be read all the same: the model is then `Lost`, and
says so when it is asked.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import equinox as eqx
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
from sphereflow.interaction import (
    DIRECT,
    Adaptive,
    Alibi,
    Causal,
    Clustered,
    Direct,
    Fourier,
    Harmonic,
    Polynomial,
    Product,
)
from sphereflow.kernels import EXPONENTIAL, Exponential, FunctionKernel
from sphereflow.plain_objects import Describer, MissingCode
from sphereflow.shapes import AnyArray

_KNOWN: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Adaptive,
        Alibi,
        Attention,
        Causal,
        Clustered,
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
_MODELS = Describer("a model", _KNOWN, {"engine": DIRECT, "kernel": EXPONENTIAL})


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


def describe(model: Dynamics) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(JSON-able description, arrays by path) of a model."""
    if isinstance(model, Lost):
        return json.loads(model.description), {name: np.asarray(array) for name, array in model.arrays.items()}
    arrays: dict[str, np.ndarray] = {}
    return _MODELS.describe(model, "", arrays) | {"space": model.traits.space}, arrays


def rebuild(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> Dynamics:
    """The model described, or a sentence about what is missing."""
    try:
        model = _MODELS.rebuild(description, arrays)
    except MissingCode as missing:
        fields = {name: jnp.asarray(array) for name, array in arrays.items()}
        space: Literal["sphere", "euclidean"] = "euclidean" if description.get("space") == "euclidean" else "sphere"
        return Lost(f"the model of this run is not known here: {missing}.", space, json.dumps(description), fields)
    if not isinstance(model, Dynamics):
        raise SphereflowError("the saved model is not a dynamics; the file is damaged or was made by something else.")
    return model
