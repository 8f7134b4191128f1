r"""Training by drifting: the swiss roll, a loss that says little, and what friction is under Adam."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.drifting import Friction, TwoSidedField
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.metrics import energy_distance
from sphereflow.drifting.samplers import law
from sphereflow.drifting.training import OPTIMISERS, Recipe, beginning, drift_loss, train
from sphereflow.papers.drifting_with_friction import PAPER

NOISE, WIDTH, FRESH = 32, 0.05, 2000


def noise(key: PRNGKeyArray, n: int) -> Float[Array, "n k"]:
    return jax.random.normal(key, (n, NOISE), dtype=jnp.float32)


@cache
def toy(name: str, steps: int, batch: int, seed: int) -> tuple[Generator, Generator, tuple[tuple[int, float], ...]]:
    """The untrained and the trained generator, and energy distances to fresh data along the way."""
    recipe = Recipe(steps=steps, batch=batch, decay=0.99, seed=seed)
    model = Generator(NOISE, 2, key=jax.random.key(seed + 1))
    begin = beginning(model, recipe)
    state, history = train(
        begin, recipe, TwoSidedField(WIDTH), noise, law(name), every=min(100, steps), progress=False,
        measure=lambda generator: {"energy": from_fresh(generator, name, seed)},
    )  # fmt: skip
    return (
        model,
        state.average,
        ((0, from_fresh(model, name, seed)), *((int(m["step"]), m["energy"]) for m in history.measured)),
    )


def samples(generator: Generator, n: int, seed: int) -> Float[np.ndarray, "n D"]:
    return np.asarray(generator(noise(jax.random.key(seed + 2), n)), float)


def from_fresh(generator: Generator, name: str, seed: int) -> float:
    fresh = np.asarray(law(name)(jax.random.key(seed + 3), FRESH), float)
    return energy_distance(samples(generator, FRESH, seed), fresh)


def sizes(run: Run) -> tuple[int, int]:
    return (200, 256) if run.quick else (2000, 512)


@PAPER.claim(
    "swiss-roll",
    statement="A generator that maps noise in one pass approaches the swiss roll: the unbiased energy distance to "
    "fresh data falls from 0.3 to below 0.01 within 500 steps (here 200), and to below 0.002 in 2000.",
    source="Toy experiment of the base paper",
    formula=r"\mathcal{E}=2E|X-Y|-E|X-X'|-E|Y-Y'|",
    falsifier="mode dropping: a generator that leaves out a part of the roll",
)
def swiss_roll(run: Run) -> Measurement:
    steps, batch = sizes(run)
    _, _, told = toy("swiss-roll", steps, batch, run.seed)
    energies = dict(told)
    data = [np.asarray(law("swiss-roll")(jax.random.key(run.seed + k), FRESH), float) for k in (3, 6)]
    blob = np.random.default_rng(run.seed).multivariate_normal(data[1].mean(0), np.cov(data[1].T), size=FRESH)
    bound, value = ([0.01], [energies[200]]) if run.quick else ([0.01, 0.002], [energies[500], energies[2000]])
    return at_most(
        bound, value, because="reference run at batch 512: 0.0039 after 500 steps, 0.00015 after 2000",
        labels=("energy distance after 200 steps",) if run.quick else ("after 500 steps", "after 2000 steps"),
        note=f"A Gaussian with the moments of the roll is at {energy_distance(blob, data[0]):.4f}: "
        "a distance above that says nothing about the shape.",
        parameters={"steps": steps, "batch": batch},
    )  # fmt: skip


@PAPER.claim(
    "loss-says-little",
    statement="The loss is small before training, when the generator has collapsed far from the data, and grows while "
    "the samples approach it.",
    source="Toy experiment of the base paper",
    falsifier="a loss that falls together with the distance",
)
def loss_says_little(run: Run) -> Measurement:
    steps, batch = sizes(run)
    before, after, told = toy("swiss-roll", steps, batch, run.seed)
    data = jnp.asarray(law("swiss-roll")(jax.random.key(run.seed + 5), batch), jnp.float32)
    losses = [
        float(drift_loss(TwoSidedField(WIDTH), data, g(noise(jax.random.key(run.seed + 4), batch)))[0])
        for g in (before, after)
    ]
    distances = [told[0][1], told[-1][1]]
    return at_least(
        [2.0, 20.0], [losses[1] / losses[0], distances[0] / distances[1]],
        because="reference run: the loss grows from 9e-6 to 7e-5 while the energy distance falls from 0.3 to 0.0002",
        labels=("loss after over before", "distance before over after"),
        note=f"Loss {losses[0]:.2g} before and {losses[1]:.2g} after; energy distance {distances[0]:.3g} and "
        f"{distances[1]:.3g}.",
        parameters={"steps": steps, "batch": batch},
    )  # fmt: skip


@PAPER.claim(
    "friction-under-adam",
    statement="Under Adam friction as a gain all but cancels in long runs, and is a falling learning rate in short "
    "ones: the moments remember how large gradients were.",
    source="Friction and the optimiser",
    formula=r"\frac{\hat m_t}{\sqrt{\hat v_t}}\ \text{for gradients}\ 1-\lambda_t",
    falsifier="updates that fall like 1 - lambda_t, as with plain gradient descent",
)
def friction_under_adam(run: Run) -> Measurement:
    horizons = (100, 20_000)
    predicted, measured = [], []
    for horizon in horizons:
        half = horizon // 2
        gains = np.asarray(Friction("gain", 0.0, 1.0, horizon).gain(np.arange(half + 1)))
        measured.append(adam_update(gains))
        # Weighted means over the past, in closed form: weights b^k, k steps back, summing to one.
        past = np.arange(half + 1)[::-1]
        means = [np.sum(b**past * (1 - np.arange(half + 1) / horizon) ** p) / np.sum(b**past)
                 for b, p in ((0.9, 1), (0.999, 2))]  # fmt: skip
        predicted.append(means[0] / np.sqrt(means[1]))
    return agreement(
        predicted, measured, relative=1e-4, because="float32 accumulation in the optimiser",
        labels=tuple(f"update at half of {horizon} steps, friction 0.5" for horizon in horizons),
        note="Plain gradient descent would give 0.5 in both.",
    )  # fmt: skip


def adam_update(gains: Float[np.ndarray, "k"]) -> float:
    """The size of the last update of the trainer's Adam when the gradient is the gain itself."""
    adam = OPTIMISERS["adam"]

    def step(memory: tuple, gradient: Array) -> tuple:
        update, memory = adam.update(gradient, memory)
        return memory, update

    values = jnp.asarray(gains, jnp.float32)
    return float(jax.lax.scan(step, adam.init(values[0]), values)[1][-1])
