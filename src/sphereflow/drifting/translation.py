r"""Unpaired translation of one law into another, by several methods, with quality against compute.

Every method is stopped at a ladder of budgets, and what it has learned by then is measured on points it has not seen:
Frechet distance, MMD and sliced Wasserstein distance to the target, and transport cost $E|f(x)-x|^2$. Compute is
counted in passes of a network over one sample (a forward and a backward pass are one each; a product with a Hessian
is two; evaluating a Gaussian mixture is one), and in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.drifting.fields import Field, TwoSidedField
from sphereflow.drifting.flow_matching import PASSES_PER_STEP, train_flow_matching
from sphereflow.drifting.friction import Friction
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.lightsb import train_light_bridge
from sphereflow.drifting.metrics import frechet, mmd, sliced_wasserstein
from sphereflow.drifting.samplers import from_rows
from sphereflow.drifting.training import Recipe, beginning, train
from sphereflow.errors import one_of
from sphereflow.progress import progress_bar

METHODS = ("drift", "drift-friction", "drift-schedule", "ofm", "lightsb")
_TESTED = 1000


@dataclass(frozen=True)
class Point:
    """One method at one budget with one seed."""

    method: str
    seed: int
    steps: int
    passes: float
    seconds: float
    frechet: float
    mmd: float
    sliced: float
    cost: float

    def row(self) -> dict[str, float | str]:
        return asdict(self)


def median_width(target: Float[np.ndarray, "n D"], share: float = 0.5, seed: int = 0) -> float:
    """A kernel width as a share of the median distance between points of the target."""
    rng = np.random.default_rng(seed)
    a, b = (target[rng.integers(0, len(target), 2000)] for _ in range(2))
    return float(share * np.median(np.linalg.norm(a - b, axis=1)))


def quality_against_compute(
    source: Float[np.ndarray, "n D"],
    target: Float[np.ndarray, "m D"],
    *,
    methods: Sequence[str] = METHODS,
    budgets: Sequence[int] = (50, 150, 500),
    seeds: Sequence[int] = (0, 1, 2),
    batch: int = 256,
    width: float | None = None,
    rate: float = 1e-3,
    epsilon: float = 0.05,
    hidden: int = 256,
    progress: bool | None = None,
) -> list[Point]:
    """Train every method from scratch for every budget of steps and every seed, and measure it on held-out points.

    A fifth of both samples is held out. "drift-friction" has gain friction 0 to 1 over the budget; "drift-schedule" the
    same run without friction whose learning rate falls the same way: the control that friction must beat.
    """
    for method in methods:
        one_of("each of methods", method, METHODS)
    learn_x, test_x = _split(source)
    learn_y, test_y = _split(target)
    width = median_width(learn_y) if width is None else width
    points: list[Point] = []
    with progress_bar("translation", progress, total=len(methods) * len(seeds) * len(budgets)) as bar:
        for method in methods:
            for seed in seeds:
                for steps in budgets:
                    began = time.perf_counter()
                    move, passes = _trained(method, learn_x, learn_y, steps, seed, batch, width, rate, epsilon, hidden)
                    moved = np.asarray(jax.block_until_ready(move(jnp.asarray(test_x))), float)
                    took = time.perf_counter() - began
                    points.append(Point(
                        method, seed, steps, passes, took, frechet(moved, test_y), mmd(moved, test_y),
                        sliced_wasserstein(moved, test_y), float(np.mean(np.sum((moved - test_x) ** 2, axis=1))),
                    ))  # fmt: skip
                    bar.advance()
    return points


def translator(
    source: np.ndarray, target: np.ndarray, recipe: Recipe, field: Field, hidden: int = 256, depth: int = 3
) -> tuple[Generator, Float[np.ndarray, "steps"]]:
    """A residual network trained by drifting, averaged, and the history of its raw drift."""
    dimension = source.shape[1]
    model = Generator(
        dimension, dimension, width=hidden, depth=depth, residual=True, key=jax.random.key(recipe.seed + 1)
    )
    state, history = train(
        beginning(model, recipe), recipe, field, from_rows(source), from_rows(target), progress=False
    )
    return state.average, history.drift


def _trained(
    method: str, x: np.ndarray, y: np.ndarray, steps: int, seed: int, batch: int, width: float, rate: float,
    epsilon: float, hidden: int,
) -> tuple[Callable, float]:  # fmt: skip
    """A map, and the passes over single samples that learning it took."""
    if method == "ofm":
        potential, _ = train_flow_matching(
            from_rows(x), from_rows(y), x.shape[1], widths=(hidden // 2, hidden // 2), steps=steps, batch=batch,
            rate=3 * rate, seed=seed,
        )  # fmt: skip
        return potential.map, float(steps * batch * PASSES_PER_STEP)
    if method == "lightsb":
        bridge, _ = train_light_bridge(
            from_rows(x), from_rows(y), steps=steps, batch=batch, rate=10 * rate, epsilon=epsilon, seed=seed
        )
        return lambda z: bridge.sample(z, jax.random.key(seed)), float(steps * batch * 4)
    friction = Friction("gain", 0.0, 1.0, steps) if method == "drift-friction" else Friction("none")
    recipe = Recipe(
        steps=steps, batch=batch, rate=rate, decay=0.99, seed=seed, friction=friction,
        rate_schedule=method == "drift-schedule",
    )  # fmt: skip
    model, _ = translator(x, y, recipe, TwoSidedField(width), hidden)
    return model, float(steps * batch * 2)


def _split(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = min(len(rows) // 5, _TESTED)
    return rows[held:], rows[:held]
