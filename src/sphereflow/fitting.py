r"""Gradient descent with any optimiser of optax, the one loop of everything that is trained here.

$$ g_k=\nabla_\theta\,\mathrm{loss}(\theta_k, \text{batch}_k),\qquad \theta_{k+1}=\theta_k+u_k,\quad
   u_k=\text{update}(g_k,\text{memory}_k,\theta_k). $$
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import optax
from jaxtyping import Array, Float, PyTree

from sphereflow.errors import SphereflowError, real_number


class Descent(NamedTuple):
    """Weights, what the optimiser remembers, and a running average of the weights, where one is kept."""

    weights: PyTree
    memory: optax.OptState
    average: PyTree = None


@functools.cache  # a compiled program is known by its optimiser: equal ones must be the same object
def adam(rate: float, falling_over: int | None = None) -> optax.GradientTransformation:
    """Adam at this rate, or at one that falls from it to zero along a cosine over so many steps."""
    return optax.adam(rate if falling_over is None else optax.cosine_decay_schedule(rate, falling_over))


def own(optimiser: optax.GradientTransformation | None, **usual: object) -> optax.GradientTransformation | None:
    """The user's own optimiser, if there is one; `usual` are arguments that it would leave without meaning."""
    if optimiser is None:
        return None
    if not isinstance(optimiser, optax.GradientTransformation):
        raise SphereflowError(f"optimiser must be one of optax, such as optax.adam(1e-3), got {optimiser!r}.")
    for name, value in usual.items():
        if value is not None and value is not False:
            raise SphereflowError(f"give {name} or an optimiser, not both: got {name}={value!r}, and it has its own.")
    return optimiser


def rate_or(usual: float, rate: float | None, *, most: float = float("inf")) -> float:
    """The learning rate that was given, or the usual one."""
    return usual if rate is None else real_number("rate", rate, above=0, most=most)


def descend(
    loss: Callable[[Any, Any], tuple[Float[Array, ""], Any]],
    at: Descent,
    batches: PyTree,
    optimiser: optax.GradientTransformation,
    *,
    rates: Float[Array, " k"] | None = None,
    decays: Float[Array, " k"] | None = None,
) -> tuple[Descent, tuple[Float[Array, " k"], Any]]:
    """One step for every entry along the leading axis of `batches`: where it led, and what `loss` said at each.

    `loss(weights, batch)` returns its value and whatever else is to be seen. With `rates` the optimiser only says a
    direction, which is subtracted at that rate: the rate may then change from step to step without compiling again.
    `decays` are the weights of the running average's past.
    """
    update = optax.with_extra_args_support(optimiser).update

    def step(at: Descent, now: tuple[Any, Any, Any]) -> tuple[Descent, tuple[Array, Any]]:
        batch, rate, decay = now
        (value, aside), slope = jax.value_and_grad(loss, has_aux=True)(at.weights, batch)
        value_fn = functools.partial(_value, loss, batch)  # line searches ask for it
        updates, memory = update(slope, at.memory, at.weights, value=value, grad=slope, value_fn=value_fn)
        if rate is None:
            weights = optax.apply_updates(at.weights, updates)
        else:
            weights = jax.tree.map(lambda p, u: p - rate * u, at.weights, updates)
        average = at.average
        if decay is not None:
            average = jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, weights)
        return Descent(weights, memory, average), (value, aside)

    return jax.lax.scan(step, at, (batches, rates, decays))


def _value(loss: Callable[[Any, Any], tuple[Array, Any]], batch: Any, weights: Any) -> Array:
    return loss(weights, batch)[0]
