"""The numbers that define a model, checked when they are given: kind, shape, finite, sign.

Arrays that are being traced have a shape but no values yet; of them only the shape is checked.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, one_of
from sphereflow.shapes import ArrayLike

# Masses are often computed in single precision or printed with a few digits; beyond this they are not normalised.
_MASS_SLACK = 1e-6


def known(value: object) -> bool:
    """Whether the numbers can be looked at: not while a function around them is being traced."""
    return not isinstance(value, jax.core.Tracer)


def array(name: str, given: ArrayLike, *shapes: str) -> Float[Array, "..."]:
    """`given` as finite numbers of one of the shapes, written as in "h d d": equal letters are equal lengths."""
    if known(given) and not isinstance(given, jax.Array):
        try:
            given = np.asarray(given)
        except (TypeError, ValueError):
            raise SphereflowError(f"{name} must be {_allowed(shapes)}, got {type(given).__name__}.") from None
    kind = getattr(given, "dtype", None)
    if kind is None or not (jnp.issubdtype(kind, np.floating) or jnp.issubdtype(kind, np.integer)):
        raise SphereflowError(f"{name} must be {_allowed(shapes)}, got values of type {kind}.")
    shape = np.shape(given)  # type: ignore[arg-type]
    if not any(_fits(shape, pattern.split()) for pattern in shapes):
        raise SphereflowError(f"{name} must be {_allowed(shapes)}, got shape {shape}.")
    if known(given) and not np.isfinite(np.asarray(given, dtype=float)).all():
        raise SphereflowError(f"{name} must be finite, got {_first_bad(np.asarray(given, dtype=float))}.")
    return jnp.asarray(given, dtype=float)  # type: ignore[arg-type]


def number(
    name: str, given: ArrayLike, *, least: float = -math.inf, most: float = math.inf, why: str = ""
) -> Float[Array, ""]:
    """`given` as one finite number between `least` and `most`."""
    if type(given) in (int, float) and least <= given <= most and abs(given) < 1e300:  # type: ignore[operator, arg-type]
        return jnp.asarray(np.asarray(given, dtype=float))  # a small run would notice the way below
    value = array(name, given, "")
    if known(value) and float(value) < least:
        raise SphereflowError(f"{name} must be at least {least:g}, got {float(value):g}.")
    if known(value) and float(value) > most:
        raise SphereflowError(f"{name} must be at most {most:g}, got {float(value):g}{why}.")
    return value


MODELS = ("sa", "usa")


def model_name(given: str) -> str:
    """The name of softmax attention (sa) or of unnormalised attention (usa), in any case."""
    return one_of("model", given.lower() if isinstance(given, str) else given, MODELS)


def positive(name: str, given: ArrayLike, dtype: DTypeLike = float) -> Float[Array, ""]:
    """`given` as one finite number above zero."""
    if type(given) is float and 0 < given < math.inf:
        return jnp.asarray(given, dtype)  # a small solve would notice the way below
    value = array(name, given, "")
    if known(value) and not float(value) > 0:
        raise SphereflowError(f"{name} must be above 0, got {float(value):g}.")
    return value.astype(dtype)


def masses(given: ArrayLike | None) -> Float[Array, " n"] | None:
    """Masses of tokens: not negative, summing to one; None for 1/n each."""
    if given is None:
        return None
    w = array("weights", given, "n")
    if known(w):
        if float(w.min()) < 0:
            raise SphereflowError(f"weights must not be negative: they are masses; the least is {float(w.min()):g}.")
        if abs(float(w.sum()) - 1) > _MASS_SLACK:
            raise SphereflowError(f"weights must sum to one: they are masses; they sum to {float(w.sum()):.9g}.")
    return w


def _fits(shape: tuple[int, ...], names: list[str]) -> bool:
    lengths: dict[str, int] = {}
    return len(shape) == len(names) and all(
        length > 0 and lengths.setdefault(name, length) == length for name, length in zip(names, shape, strict=True)
    )


def _allowed(shapes: tuple[str, ...]) -> str:
    words = [
        "one number" if not s else f"numbers of shape ({', '.join(s.split())}{',' * (' ' not in s)})" for s in shapes
    ]
    return " or ".join(words)


def _first_bad(values: np.ndarray) -> str:
    return str(values[~np.isfinite(values)][0])
