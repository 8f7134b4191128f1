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
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from sphereflow.drifting.fields import Drift, Field
from sphereflow.drifting.friction import Friction, left_by_adam
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.samplers import Sampler
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.progress import progress_bar

# Without the learning rate, which is multiplied in: runs that differ only in numbers share one compilation.
OPTIMISERS: dict[str, optax.GradientTransformation] = {"adam": optax.scale_by_adam(), "sgd": optax.identity()}

SCHEDULES = ("constant", "linear", "felt")
# A batch has its square of pairs: 10^5 are 10^10 of them a step, which takes minutes.
MOST_BATCH = 10**5
MOST_SEED = 2**62  # neighbouring seeds draw the network, the noise and the held-out data
_CHUNK = 50  # steps per compiled call: the host looks in between


def drift_loss(
    field: Field,
    data: Float[Array, "m D"],
    generated: Float[Array, "n D"],
    gain: float | Array = 1.0,
    pull: Float[Array, "n D"] | float | Array = 0.0,
) -> tuple[Float[Array, ""], Drift]:
    """Mean over samples and coordinates of the squared distance to the drifted samples, and the drift itself.

    Friction enters as a `gain` on the drift, or as a `pull` taken from it.

    The value of the loss says little: it is tiny for a generator that has collapsed far from the data. Watch the raw
    drift, or a distance between laws.
    """
    drift = jax.lax.stop_gradient(field(data, jax.lax.stop_gradient(generated)))
    goal = jax.lax.stop_gradient(generated + (gain * drift.value - pull).astype(generated.dtype))
    return jnp.mean((generated - goal) ** 2), drift


@dataclass(frozen=True)
class Recipe:
    """How to train.

    `schedule` is what "gain" friction must be compared with: a learning rate times 1 - t/T ("linear", the same run
    under plain gradient descent), or times what Adam leaves of that factor ("felt").
    """

    steps: int = 2000
    batch: int = 512
    rate: float = 1e-3
    optimiser: str = "adam"
    decay: float = 0.999
    friction: Friction = field(default_factory=lambda: Friction("none"))
    schedule: str = "constant"
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        whole_number("batch", self.batch, least=2, most=MOST_BATCH)
        real_number("rate", self.rate, above=0, most=1e3)
        real_number("decay", self.decay, least=0, most=1)
        one_of("optimiser", self.optimiser, tuple(OPTIMISERS))
        one_of("schedule", self.schedule, SCHEDULES)
        whole_number("seed", self.seed, least=0, most=MOST_SEED)
        if self.friction.mode == "viscous":
            raise SphereflowError("viscous friction moves particles; training takes gain, restoring or none.")

    def rate_at(self, t: np.ndarray) -> np.ndarray:
        """The learning rate of the steps t."""
        if self.schedule == "constant":
            return np.full(len(t), self.rate)
        friction = Friction("gain", 0.0, 1.0, self.steps)
        return self.rate * (friction.gain(t) if self.schedule == "linear" else left_by_adam(friction)[t])


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
    memory = OPTIMISERS[recipe.optimiser].init(eqx.filter(model, eqx.is_inexact_array))
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
    if recipe.friction.mode == "restoring" and not state.model.residual:
        raise SphereflowError("restoring friction pulls back to the source point: it needs a residual network.")
    every = recipe.steps // 4 or 1 if every is None else whole_number("every", every)
    rows: list[tuple[int, float, float]] = []
    measured: list[dict[str, float]] = []
    began = time.perf_counter()
    with progress_bar("training", progress, total=recipe.steps, completed=int(state.step)) as bar:
        while int(state.step) < recipe.steps:
            done = int(state.step)
            # Chunks end where something is looked at, so that a run resumed from there takes the same chunks.
            chunk = min(_CHUNK, recipe.steps - done, every - done % every)
            state, losses, drifts = _advance(
                state, _numbers(recipe, done, chunk), field, source, target, recipe.optimiser, recipe.batch
            )
            rows.append((int(state.step), float(losses.mean()), float(drifts.mean())))
            if int(state.step) % every == 0 or int(state.step) == recipe.steps:
                if measure is not None:
                    measured.append({"step": int(state.step), **measure(state.average)})
                if keep is not None:
                    with bar.aside():  # it may print
                        keep(state)
            bar.advance(chunk)
    table = np.array(rows).reshape(-1, 3)
    return state, History(table[:, 0], table[:, 1], table[:, 2], measured, time.perf_counter() - began)


class _Numbers(NamedTuple):
    """What changes from step to step."""

    rate: Float[Array, "k"]
    gain: Float[Array, "k"]
    pull: Float[Array, "k"]
    decay: Float[Array, "k"]


def _numbers(recipe: Recipe, done: int, chunk: int) -> _Numbers:
    t, friction = np.arange(done, done + chunk), recipe.friction
    pull = friction.at(t) if friction.mode == "restoring" else np.zeros(chunk)
    # The average forgets its start: early on it is a plain mean.
    decay = np.minimum(recipe.decay, (1.0 + t) / (10.0 + t))
    return _Numbers(*(jnp.asarray(a, jnp.float32) for a in (recipe.rate_at(t), friction.gain(t), pull, decay)))


@eqx.filter_jit
def _advance(
    state: State, numbers: _Numbers, field: Field, source: Sampler, target: Sampler, optimiser: str, batch: int
) -> tuple[State, Array, Array]:
    update = OPTIMISERS[optimiser].update
    model, static = eqx.partition(state.model, eqx.is_inexact_array)
    average = eqx.filter(state.average, eqx.is_inexact_array)

    def step(carry: tuple, now: _Numbers) -> tuple[tuple, tuple[Array, Array]]:
        model, average, memory, key, t = carry
        here, there = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(key), t))
        x, data = source(here, batch).astype(jnp.float32), target(there, batch).astype(jnp.float32)

        def loss(parameters: Any) -> tuple[Array, Drift]:
            g = eqx.combine(parameters, static)(x)
            # Only a translator has a source point to be pulled back to.
            back = jax.lax.stop_gradient(g) - x if x.shape == g.shape else 0.0
            return drift_loss(field, data, g, now.gain, now.pull * back)

        (value, drift), gradient = jax.value_and_grad(loss, has_aux=True)(model)
        updates, memory = update(gradient, memory, model)
        model = jax.tree.map(lambda p, u: p - now.rate * u, model, updates)
        average = jax.tree.map(lambda a, b: now.decay * a + (1 - now.decay) * b, average, model)
        return (model, average, memory, key, t + 1), (value, jnp.mean(drift.raw**2))

    carry = (model, average, state.memory, state.key, state.step)
    (model, average, memory, key, t), (losses, drifts) = jax.lax.scan(step, carry, numbers)
    return State(eqx.combine(model, static), eqx.combine(average, static), memory, key, t), losses, drifts
