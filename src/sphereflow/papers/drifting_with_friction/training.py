r"""Training by drifting: the swiss roll, a loss that says little, and what friction is under Adam."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.drifting import Friction, TwoSidedField
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.samplers import from_rows, law
from sphereflow.drifting.training import OPTIMISERS, Recipe, beginning, drift_loss, train
from sphereflow.observables import energy_distance, gaussian_like, sampling_floor
from sphereflow.papers.drifting_with_friction import PAPER

NOISE, WIDTH, FRESH, TABLE = 32, 0.05, 2000, 100_000
RATE = 8e-3  # falling to zero along a line: with the published constant 1e-3 the roll is not reached at batch 512


def noise(key: PRNGKeyArray, n: int) -> Float[Array, "n k"]:
    return jax.random.normal(key, (n, NOISE), dtype=jnp.float32)


class Toy(NamedTuple):
    """The untrained and the trained generator, energy distances to fresh data along the way, and two samples."""

    before: Generator
    after: Generator
    told: dict[int, float]
    fresh: Float[np.ndarray, "n 2"]
    again: Float[np.ndarray, "n 2"]


@cache
def toy(name: str, steps: int, batch: int, seed: int) -> Toy:
    """Learn a law of the plane from a table of its samples; nothing it is compared with is in the table."""
    drawn = np.asarray(law(name)(jax.random.key(seed + 3), 2 * FRESH + TABLE), float)
    fresh, again, table = drawn[:FRESH], drawn[FRESH : 2 * FRESH], drawn[2 * FRESH :]
    recipe = Recipe(steps=steps, batch=batch, rate=RATE, schedule="linear", decay=0.99, seed=seed)
    model = Generator(NOISE, 2, key=jax.random.key(seed + 1))

    def measure(generator: Generator) -> dict[str, float]:
        return {"energy": energy_distance(samples(generator, FRESH, seed), fresh)}

    found = train(
        beginning(model, recipe),
        recipe,
        TwoSidedField(WIDTH),
        noise,
        from_rows(table.astype(np.float32)),
        every=steps // 4,
        progress=False,
        measure=measure,
    )
    told = {0: measure(model)["energy"], **{int(m["step"]): m["energy"] for m in found.measured}}
    return Toy(model, found.generator, told, fresh, again)


def samples(generator: Generator, n: int, seed: int) -> Float[np.ndarray, "n D"]:
    return np.asarray(generator(noise(jax.random.key(seed + 2), n)), float)


def sizes(run: Run) -> tuple[int, int]:
    return (600, 256) if run.quick else (2000, 512)


@PAPER.claim(
    "swiss-roll",
    statement="A generator that maps noise in one pass learns the swiss roll: the unbiased energy distance to fresh "
    "data falls from 0.3 to below 0.01 within 500 steps, and to below 0.002 in 2000 (below a Gaussian in 600).",
    source="Toy experiment of the base paper",
    formula=r"\mathcal{E}=2E|X-Y|-E|X-X'|-E|Y-Y'|",
    falsifier="mode dropping: a generator that leaves out a part of the roll, or one that fits its moments only",
)
def swiss_roll(run: Run) -> Measurement:
    steps, batch = sizes(run)
    seen = toy("swiss-roll", steps, batch, run.seed)
    floor, blob = sampling_floor(seen.fresh, seen.again), energy_distance(gaussian_like(seen.again, FRESH), seen.fresh)
    return at_most(
        [0.01, blob] if run.quick else [0.01, 0.002],
        [seen.told[steps // 4], seen.told[steps]],
        because="reference run at batch 512: 0.0039 after 500 steps, 0.00015 after 2000",
        labels=tuple(f"energy distance after {n} steps" for n in (steps // 4, steps)),
        note=f"A Gaussian with the moments of the roll is at {blob:.4f}: a distance above that says nothing about the "
        f"shape. Two samples of the roll differ by 0 ± {floor:.5f}.",
        parameters={"steps": steps, "batch": batch, "rate": RATE},
    )


@PAPER.claim(
    "loss-says-little",
    statement="The loss is small before training, when the generator has collapsed far from the data, and grows while "
    "the samples approach it.",
    source="Toy experiment of the base paper",
    falsifier="a loss that falls together with the distance",
)
def loss_says_little(run: Run) -> Measurement:
    steps, batch = sizes(run)
    seen = toy("swiss-roll", steps, batch, run.seed)
    data = jnp.asarray(seen.fresh[:batch], jnp.float32)
    losses = [
        float(drift_loss(TwoSidedField(WIDTH), data, g(noise(jax.random.key(run.seed + 4), batch)))[0])
        for g in (seen.before, seen.after)
    ]
    distances = [seen.told[0], seen.told[steps]]
    floor = sampling_floor(seen.fresh, seen.again)
    return at_least(
        [2.0, 20.0],
        [losses[1] / losses[0], distances[0] / max(distances[1], floor)],
        because="reference run: the loss grows from 9e-6 to 7e-5 while the energy distance falls from 0.3 to 0.0002",
        labels=("loss after over before", "distance before over after, or over what chance makes of equal laws"),
        note=f"Loss {losses[0]:.2g} before and {losses[1]:.2g} after; energy distance {distances[0]:.3g} and "
        f"{distances[1]:.3g}.",
        parameters={"steps": steps, "batch": batch},
    )


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
        means = [
            np.sum(b**past * (1 - np.arange(half + 1) / horizon) ** p) / np.sum(b**past)
            for b, p in ((0.9, 1), (0.999, 2))
        ]
        predicted.append(means[0] / np.sqrt(means[1]))
    return agreement(
        predicted,
        measured,
        relative=1e-4,
        because="float32 accumulation in the optimiser",
        labels=tuple(f"update at half of {horizon} steps, friction 0.5" for horizon in horizons),
        note="Plain gradient descent would give 0.5 in both.",
    )


def adam_update(gains: Float[np.ndarray, " k"]) -> float:
    """The size of the last update of the trainer's Adam when the gradient is the gain itself."""
    adam = OPTIMISERS["adam"]

    def step(memory: tuple, gradient: Array) -> tuple:
        update, memory = adam.update(gradient, memory)
        return memory, update

    values = jnp.asarray(gains, jnp.float32)
    return float(jax.lax.scan(step, adam.init(values[0]), values)[1][-1])
