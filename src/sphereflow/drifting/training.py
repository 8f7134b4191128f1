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
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from sphereflow.drifting.fields import DriftField, Field
from sphereflow.drifting.friction import TRAINED, Friction, adam_effective_gain
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.samplers import Sampler
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.fitting import Descent, descend, own, rate_or
from sphereflow.progress import Progress, progress_bar
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, checked, key_from, recorded

# Without the learning rate, which is multiplied in: runs that differ only in numbers share one compilation.
OPTIMISERS: dict[str, optax.GradientTransformation] = {"adam": optax.scale_by_adam(), "sgd": optax.identity()}

SCHEDULES = ("constant", "linear", "effective")
# A batch has its square of pairs: 10^5 are 10^10 of them a step, which takes minutes.
MOST_BATCH = 10**5
MOST_SEED = 2**62  # neighbouring seeds draw the network, the noise and the held-out data
_RATE = 1e-3
_CHUNK = 50  # steps per compiled call: the host looks in between


def drift_loss(
    field: Field,
    data: Float[Array, "m D"],
    generated: Float[Array, "n D"],
    gain: float | Array = 1.0,
    pull: Float[Array, "n D"] | float | Array = 0.0,
) -> tuple[Float[Array, ""], DriftField]:
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

    `rate` is 1e-3 unless given. `schedule` is what "gain" friction must be compared with: a learning rate times 1 - t/T
    ("linear", the same run under plain gradient descent), or times what Adam leaves of that factor ("effective").

    `optimiser` is "adam", "sgd", or one of optax, which has a rate and a schedule of its own. Nothing can tell two of
    those apart: a run that is to be kept on disk and continued needs a `version`, a word that you change with it.
    """

    steps: int = 2000
    batch: int = 512
    rate: float | None = None
    optimiser: str | optax.GradientTransformation = "adam"
    decay: float = 0.999
    friction: Friction = field(default_factory=lambda: Friction("none"))
    schedule: str = "constant"
    seed: Seed = 0
    version: str | None = None

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        whole_number("batch", self.batch, least=2, most=MOST_BATCH)
        real_number("decay", self.decay, least=0, most=1)
        one_of("schedule", self.schedule, SCHEDULES)
        if isinstance(self.optimiser, optax.GradientTransformation):
            own(self.optimiser, rate=self.rate, schedule=self.schedule != "constant" and self.schedule)
        elif self.optimiser not in tuple(OPTIMISERS):
            known = f"{', '.join(OPTIMISERS)} or one of optax, such as optax.adam(1e-3)"
            raise SphereflowError(f"optimiser must be {known}; got {self.optimiser!r}.")
        elif self.version is not None:
            raise SphereflowError(f"version names an optimiser of your own, but {self.optimiser!r} has a name.")
        rate_or(_RATE, self.rate, most=1e3)
        checked(self.seed, most=MOST_SEED)
        if self.friction.mode not in TRAINED:
            raise SphereflowError(
                f"{self.friction.mode} friction moves particles; training takes {', '.join(TRAINED)}."
            )

    def rate_at(self, t: np.ndarray) -> np.ndarray:
        """The learning rate of the steps t, where it is not the business of an optimiser of one's own."""
        rate = rate_or(_RATE, self.rate)
        if self.schedule == "constant":
            return np.full(len(t), rate)
        friction = Friction("gain", 0.0, 1.0, self.steps)
        return rate * (friction.gain(t) if self.schedule == "linear" else adam_effective_gain(friction)[t])

    @property
    def rule(self) -> optax.GradientTransformation:
        """What takes the steps; it leaves the rate to `rate_at` if it has a name."""
        return OPTIMISERS[self.optimiser] if isinstance(self.optimiser, str) else self.optimiser

    @property
    def optimiser_name(self) -> str | None:
        """What the optimiser is known by, if anything."""
        return self.optimiser if isinstance(self.optimiser, str) else self.version and f"version {self.version}"


class State(eqx.Module):
    """Everything a run needs to go on: network, its running average, optimiser, random key, number of the next step.

    `optimiser` is the name of the one whose memory this is, None for one without a name.
    """

    model: Generator
    average: Generator
    memory: optax.OptState
    key: Array
    step: Array
    optimiser: str | None = eqx.field(static=True, default="adam")


@dataclass(frozen=True, eq=False, repr=False)
class Training(Result):
    """The state at the end, and what was seen after every chunk of steps: loss, mean squared drift, measurements."""

    state: State
    steps: np.ndarray
    loss: np.ndarray
    drift: np.ndarray
    measured: list[dict[str, float]]
    seconds: float = field(compare=False)

    @property
    def generator(self) -> Generator:
        """The running average of the network, which is what samples are drawn with."""
        return self.state.average

    def variables(self) -> Variables:
        curves: Variables = {"step": ("step", self.steps), "loss": ("step", self.loss), "drift": ("step", self.drift)}
        names = dict.fromkeys(name for row in self.measured for name in row if name != "step")
        measured: Variables = {"measured_step": ("measured_step", np.array([row["step"] for row in self.measured]))}
        measured |= {f"measured_{n}": ("measured_step", np.array([row[n] for row in self.measured])) for n in names}
        return curves | (measured if self.measured else {})

    def facts(self) -> list[str]:
        last = [f"{name} {value:.4g}" for name, value in (self.measured[-1] if self.measured else {}).items()]
        drifted = f", mean squared drift {self.drift[0]:.3g} -> {self.drift[-1]:.3g}" if len(self.drift) else ""
        return [
            f"{int(self.state.step)} steps of {self.state.optimiser or 'an optimiser of its own'}{drifted}",
            *([f"at the last measurement {', '.join(last)}"] if last else []),
            f"{self.seconds:.2f} s",
        ]


def beginning(model: Generator, recipe: Recipe) -> State:
    """The state before the first step."""
    memory = recipe.rule.init(eqx.filter(model, eqx.is_inexact_array))
    key, usual = key_from(recipe.seed), jax.random.key(0)
    if key.dtype != usual.dtype:  # words alone, which are what a file holds, do not say whose they are
        raise SphereflowError(f"seed must be a key of the generator in use, {usual.dtype}; got one of {key.dtype}.")
    return State(model, model, memory, jax.random.key_data(key), jnp.asarray(0), recipe.optimiser_name)


@recorded_call
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
    progress: Progress = None,
) -> Training:
    """Train to the end of the recipe from wherever the state is.

    `source` draws what enters the generator (noise, or samples of the first law), `target` the data. `measure` is
    called with the averaged network and `keep` with the state every so many steps (500).
    """
    if recipe.friction.mode == "restoring" and not state.model.residual:
        raise SphereflowError("restoring friction pulls back to the source point: it needs a residual network.")
    if state.optimiser != recipe.optimiser_name:
        raise SphereflowError(
            f"this run was begun by the optimiser {state.optimiser!r}, the recipe has {recipe.optimiser_name!r}."
        )
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
                state, _numbers(recipe, done, chunk), field, source, target, recipe.rule, recipe.batch
            )
            rows.append((int(state.step), float(losses.mean()), float(drifts.mean())))
            if int(state.step) % every == 0 or int(state.step) == recipe.steps:
                if measure is not None:
                    measured.append({"step": int(state.step), **measure(state.average)})
                if keep is not None:
                    with bar.aside():  # it may print
                        keep(state)
            bar.advance(chunk)
    took = time.perf_counter() - began
    steps, loss, drift = np.array(rows).reshape(-1, 3).T
    return Training(state, steps, loss, drift, measured, took, seed=recorded(recipe.seed))


class _Numbers(NamedTuple):
    """What changes from step to step."""

    rate: Float[Array, " k"] | None
    gain: Float[Array, " k"]
    pull: Float[Array, " k"]
    decay: Float[Array, " k"]


def _numbers(recipe: Recipe, done: int, chunk: int) -> _Numbers:
    t, friction = np.arange(done, done + chunk), recipe.friction
    pull = friction.at(t) if friction.mode == "restoring" else np.zeros(chunk)
    # The average forgets its start: early on it is a plain mean.
    decay = np.minimum(recipe.decay, (1.0 + t) / (10.0 + t))
    rate, *others = (jnp.asarray(a, jnp.float32) for a in (recipe.rate_at(t), friction.gain(t), pull, decay))
    return _Numbers(rate if isinstance(recipe.optimiser, str) else None, *others)


@eqx.filter_jit
def _advance(
    state: State,
    numbers: _Numbers,
    field: Field,
    source: Sampler,
    target: Sampler,
    optimiser: optax.GradientTransformation,
    batch: int,
) -> tuple[State, Array, Array]:
    model, static = eqx.partition(state.model, eqx.is_inexact_array)
    average = eqx.filter(state.average, eqx.is_inexact_array)

    def loss(parameters: PyTree, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        t, gain, pull = now
        here, there = jax.random.split(jax.random.fold_in(key, t))
        x, data = source(here, batch).astype(jnp.float32), target(there, batch).astype(jnp.float32)
        g = eqx.combine(parameters, static)(x)
        # Only a translator has a source point to be pulled back to.
        back = jax.lax.stop_gradient(g) - x if x.shape == g.shape else 0.0
        value, drift = drift_loss(field, data, g, gain, pull * back)
        return value, jnp.mean(drift.raw**2)

    key, ends = jax.random.wrap_key_data(state.key), state.step + len(numbers.gain)
    at, (losses, drifts) = descend(
        loss,
        Descent(model, state.memory, average),
        (jnp.arange(len(numbers.gain)) + state.step, numbers.gain, numbers.pull),
        optimiser,
        rates=numbers.rate,
        decays=numbers.decay,
    )
    model, average = (eqx.combine(part, static) for part in (at.weights, at.average))
    return State(model, average, at.memory, state.key, ends, state.optimiser), losses, drifts
