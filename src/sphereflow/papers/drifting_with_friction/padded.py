"""The fields of the library on small samples, in arrays of one shape: all claims share a program for each kernel.

Rows that fill an array up weigh nothing, and coordinates that fill it up are zero: neither changes the field.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.drifting import PopulationField

_ROWS, _COORDINATES = 40, 3


def field_at(
    field: PopulationField,
    places: Float[np.ndarray, "k D"],
    data: Float[np.ndarray, "m D"],
    generated: Float[np.ndarray, "n D"],
    data_weights: Float[np.ndarray, " m"] | None = None,
    generated_weights: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "k D"]:
    """The field at any places."""
    weights = _weights(data_weights, len(data)), _weights(generated_weights, len(generated))
    value = field.at(_rows(places), _rows(data), _rows(generated), *weights).value
    return np.asarray(value)[: len(places), : places.shape[1]]


def drift_of(
    field: PopulationField,
    data: Float[np.ndarray, "m D"],
    generated: Float[np.ndarray, "n D"],
    data_weights: Float[np.ndarray, " m"] | None = None,
    generated_weights: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n D"]:
    """The drift of the generated samples themselves."""
    weights = _weights(data_weights, len(data)), _weights(generated_weights, len(generated))
    value = field(_rows(data), _rows(generated), *weights).value
    return np.asarray(value)[: len(generated), : generated.shape[1]]


def _rows(given: np.ndarray) -> jnp.ndarray:
    return jnp.asarray(np.pad(given, ((0, _ROWS - len(given)), (0, _COORDINATES - given.shape[1]))))


def _weights(given: np.ndarray | None, count: int) -> jnp.ndarray:
    return jnp.asarray(np.pad(np.ones(count) if given is None else given, (0, _ROWS - count)))
