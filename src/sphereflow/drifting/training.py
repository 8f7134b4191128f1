r"""Regress a generator onto its own drifted samples.

$$ \mathcal L(\theta)=E_\epsilon\big\|g-\mathrm{sg}\big(g+V(g)\big)\big\|^2,\qquad g=f_\theta(\epsilon), $$

with the stop-gradient sg on the whole target: the gradient with respect to a sample is $-2V$ over the number of
entries, and nothing is differentiated through the kernel. Friction acts on the target: as a gain on $V$, or as a pull
back to the source point, $V-\lambda_t(g-x)$, in translation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from sphereflow.drifting.fields import Drift, Field
from sphereflow.drifting.friction import Friction
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.samplers import Sampler
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.progress import progress_bar

_CHUNK = 50  # steps per compiled call: the host looks in between


def drift_loss(
    field: Field, data: Float[Array, "m D"], generated: Float[Array, "n D"], gain: float | Array = 1.0
) -> tuple[Float[Array, ""], Drift]:
    """Mean over samples and coordinates of the squared distance to the drifted samples, and the drift itself.

    The value of the loss says little: it is tiny for a generator that has collapsed far from the data. Watch the raw
    drift, or a distance between laws.
    """
    drift = jax.lax.stop_gradient(field(data, jax.lax.stop_gradient(generated)))
    goal = jax.lax.stop_gradient(generated + gain * drift.value)
    return jnp.mean((generated - goal) ** 2), drift


@dataclass(frozen=True)
class Recipe:
    """How to train. `rate_schedule` multiplies the learning rate by 1 - t/T: what "gain" friction must be beaten by."""

    steps: int = 2000
    batch: int = 512
    rate: float = 1e-3
    optimiser: str = "adam"
    decay: float = 0.999
    friction: Friction = field(default_factory=lambda: Friction("none"))
    rate_schedule: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        whole_number("batch", self.batch, least=2)
        real_number("rate", self.rate, above=0)
        real_number("decay", self.decay, least=0, most=1)
        if self.optimiser not in ("adam", "sgd"):
            raise SphereflowError(f"optimiser must be adam or sgd; got {self.optimiser!r}.")
        if self.friction.mode == "viscous":
            raise SphereflowError("viscous friction moves particles; training takes gain, restoring or none.")

    def optimiser_of(self) -> optax.GradientTransformation:
        rate: Any = self.rate
        if self.rate_schedule:
            rate = lambda t: self.rate * (1 - t / self.steps)  # noqa: E731
        return optax.adam(rate) if self.optimiser == "adam" else optax.sgd(rate)


class State(eqx.Module):
    """Everything a run needs to go on: network, its running average, optimiser, random key, number of the next step."""

    model: Generator
    average: Generator
    memory: optax.OptState
    key: Array
    step: Array


@dataclass(frozen=True, eq=False)
class History:
    """What was seen after every chunk of steps: the loss, the mean squared raw drift, and what was measured."""

    steps: np.ndarray
    loss: np.ndarray
    drift: np.ndarray
    measured: list[dict[str, float]]
    seconds: float


def beginning(model: Generator, recipe: Recipe) -> State:
    """The state before the first step."""
    memory = recipe.optimiser_of().init(eqx.filter(model, eqx.is_inexact_array))
    return State(model, model, memory, jax.random.key_data(jax.random.key(recipe.seed)), jnp.asarray(0))


def train(
    state: State,
    recipe: Recipe,
    field: Field,
    source: Sampler,
    target: Sampler,
    *,
    measure: Callable[[Generator], dict[str, float]] | None = None,
    every: int | None = None,
    keep: Callable[[State], None] | None = None,
    progress: bool | None = None,
) -> tuple[State, History]:
    """Train to the end of the recipe from wherever the state is.

    `source` draws what enters the generator (noise, or samples of the first law), `target` the data. `measure` is
    called with the averaged network and `keep` with the state every so many steps (500).
    """
    every = recipe.steps // 4 or 1 if every is None else whole_number("every", every)
    rows: list[tuple[int, float, float]] = []
    measured: list[dict[str, float]] = []
    began = time.perf_counter()
    with progress_bar("training", progress, total=recipe.steps, completed=int(state.step)) as bar:
        while int(state.step) < recipe.steps:
            done = int(state.step)
            # Chunks end where something is looked at, so that a run resumed from there takes the same chunks.
            chunk = min(_CHUNK, recipe.steps - done, every - done % every)
            state, losses, drifts = _advance(state, recipe, field, source, target, chunk)
            rows.append((int(state.step), float(losses.mean()), float(drifts.mean())))
            if int(state.step) % every == 0 or int(state.step) == recipe.steps:
                if measure is not None:
                    measured.append({"step": int(state.step), **measure(state.average)})
                if keep is not None:
                    keep(state)
            bar.advance(chunk)
    table = np.array(rows).reshape(-1, 3)
    return state, History(table[:, 0], table[:, 1], table[:, 2], measured, time.perf_counter() - began)


@eqx.filter_jit
def _advance(
    state: State, recipe: Recipe, field: Field, source: Sampler, target: Sampler, steps: int
) -> tuple[State, Array, Array]:
    optimiser, friction = recipe.optimiser_of(), recipe.friction
    model, static = eqx.partition(state.model, eqx.is_inexact_array)
    average = eqx.filter(state.average, eqx.is_inexact_array)

    def step(carry: tuple, _: None) -> tuple[tuple, tuple[Array, Array]]:
        model, average, memory, key, t = carry
        here, there = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(key), t))
        x, data = source(here, recipe.batch), target(there, recipe.batch).astype(jnp.float32)

        def loss(parameters: Any) -> tuple[Array, Drift]:
            g = eqx.combine(parameters, static)(x)
            drift = jax.lax.stop_gradient(field(data, jax.lax.stop_gradient(g)))
            force = friction.gain(t) * drift.value
            if friction.mode == "restoring":
                force = force - friction.at(t) * (jax.lax.stop_gradient(g) - x.astype(g.dtype))
            goal = jax.lax.stop_gradient(g + force.astype(g.dtype))
            return jnp.mean((g - goal) ** 2), drift

        (value, drift), gradient = jax.value_and_grad(loss, has_aux=True)(model)
        updates, memory = optimiser.update(gradient, memory, model)
        model = optax.apply_updates(model, updates)
        # The average forgets its start: early on it is a plain mean.
        decay = jnp.minimum(recipe.decay, (1.0 + t) / (10.0 + t)).astype(jnp.float32)
        average = jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, average, model)
        return (model, average, memory, key, t + 1), (value, jnp.mean(drift.raw**2))

    carry = (model, average, state.memory, state.key, state.step)
    (model, average, memory, key, t), (losses, drifts) = jax.lax.scan(step, carry, None, length=steps)
    return State(eqx.combine(model, static), eqx.combine(average, static), memory, key, t), losses, drifts
