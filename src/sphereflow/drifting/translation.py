r"""Unpaired translation of one law into another, by several methods, with quality against compute.

Every method is stopped at a ladder of budgets, and what it has learned by then is measured on points it has not seen:
Frechet distance, MMD and sliced Wasserstein distance to the target, and transport cost $E|f(x)-x|^2$. Compute is
counted in passes of a network over one sample (a forward and a backward pass are one each; a product with a Hessian
is two), as measured, not bounded; in multiply-adds (passes times parameters, and the kernel or the matching of pairs);
and in seconds, compilation excluded.

"affine" trains nothing: it is the optimal map between the Gaussians with the moments of the two samples. The Frechet
distance sees only those moments, so this is the score that a method must be read against; MMD sees more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from sphereflow.drifting.fields import Field, TwoSidedField
from sphereflow.drifting.flow_matching import train_flow_matching
from sphereflow.drifting.friction import Friction
from sphereflow.drifting.generators import Generator
from sphereflow.drifting.inputs import moderate
from sphereflow.drifting.lightsb import train_light_bridge
from sphereflow.drifting.optima import fitted_gaussian_map
from sphereflow.drifting.samplers import from_rows
from sphereflow.drifting.training import MOST_SEED, Recipe, beginning, train
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.observables import frechet, mmd, sliced_wasserstein
from sphereflow.progress import Progress, progress_bar
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Record, Seed, checked, following, key_from, recorded, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRIFTS = ("drift", "drift-friction", "drift-restoring", "drift-schedule", "drift-effective")
METHODS = (*DRIFTS, "ofm", "lightsb", "affine")
_TESTED = 1000
_FEWEST = 10
_RESTORED = 0.5  # restoring friction at the end of training: at 1 what is learned is held at the source
_AGAIN = 40  # draws of the held-out rows for the standard error of the affine map
_CHUNK = 50  # steps of all methods that are one compiled program
# The better of two rates tried for each on digits and on other Fashion-MNIST images, one seed: drifting 1e-3 and 3e-3,
# flow matching 1e-2 and 3e-2, bridge 3e-2 and 1e-1. The same effort for all, and not a search.
RATES = {**dict.fromkeys(DRIFTS, 3e-3), "ofm": 3e-2, "lightsb": 1e-1}


@dataclass(frozen=True)
class Point:
    """One method at one budget with one seed."""

    method: str
    seed: Record
    steps: int
    passes: float
    operations: float
    seconds: float
    frechet: float
    mmd: float
    sliced: float
    cost: float


@dataclass(frozen=True, eq=False, repr=False)
class Quality(Result):
    """Every method at every budget with every seed.

    `affine_error` is the standard error, over held-out rows, of the sliced distance of the affine map.
    """

    points: list[Point]
    affine_error: float = math.nan

    def variables(self) -> Variables:
        names = [f.name for f in fields(Point)]
        columns = {name: [getattr(p, name) for p in self.points] for name in names if name != "seed"}
        variables: Variables = {name: ("point", np.array(column)) for name, column in columns.items()}
        return variables | {"seed": ("point", np.array([str(p.seed) for p in self.points]))}

    def facts(self) -> list[str]:
        seeds = len({p.seed for p in self.points})
        last = max(p.steps for p in self.points)
        best = {m: [p.frechet for p in self.points if (p.method, p.steps) == (m, last)] for m in self.methods}
        means = [f"{method} {np.mean(values):.4g}" for method, values in best.items()]
        return [
            f"Frechet distance after {last} steps: {', '.join(means)}",
            f"means of {seeds} seed{'s' * (seeds != 1)}",
        ]

    @property
    def methods(self) -> list[str]:
        """The methods that were compared, in order."""
        return list(dict.fromkeys(p.method for p in self.points))

    def compute_to_reach(self, method: str, level: float, measure: str = "operations") -> Float[np.ndarray, " seeds"]:
        """What every seed spent by the first budget with a Frechet distance of at most `level`; infinite if none.

        `measure` is "passes", "operations" or "seconds". `compute_ratios` compares two methods, with an interval.
        """
        one_of("method", method, tuple(self.methods))
        one_of("measure", measure, ("passes", "operations", "seconds"))
        own = [p for p in self.points if p.method == method]
        reached = {p.seed: [q for q in own if q.seed == p.seed and q.frechet <= level] for p in own}
        spent = [min((getattr(p, measure) for p in each), default=np.inf) for each in reached.values()]
        return np.array(spent, dtype=float)

    def plot(self) -> Figure:
        """Two distances to held-out data against three counts of compute, and friction alone."""
        from sphereflow.drifting.pictures import quality

        return quality(self.points)


def median_width(target: Float[np.ndarray, "n D"], share: float = 0.5, seed: Seed = 0) -> float:
    """A kernel width as a share of the median distance between points of the target."""
    rng = rng_from(seed)
    a, b = (target[rng.integers(0, len(target), 2000)] for _ in range(2))
    return float(share * np.median(np.linalg.norm(a - b, axis=1)))


@recorded_call
def quality_against_compute(
    source: Float[np.ndarray, "n D"],
    target: Float[np.ndarray, "m D"],
    *,
    methods: Sequence[str] = METHODS,
    budgets: Sequence[int] = (50, 150, 500),
    seeds: Sequence[Seed] = (0, 1, 2),
    batch: int = 256,
    width: float | None = None,
    rates: Mapping[str, float] | None = None,
    epsilon: float = 0.05,
    hidden: int = 256,
    held_out: int = _TESTED,
    show: Callable[[Point, Float[np.ndarray, "k D"]], None] | None = None,
    progress: Progress = None,
) -> Quality:
    """Train every method from scratch for every budget of steps and every seed, and measure it on held-out points.

    A fifth of both samples is held out, at most `held_out` rows. "drift-friction" has gain friction 0 to 1 over the
    budget, "drift-restoring" a restoring force 0 to 0.5 towards the source point; "drift-schedule" is the run without
    friction whose learning rate falls the same way, "drift-effective" one whose rate falls as Adam lets friction act:
    controls that friction must beat. `rates` replaces those of `RATES`. `show` is called with every point and where the
    held-out rows of the source went, in their order.
    """
    source, target = (
        moderate(name, given, shape=("n", "D")) for name, given in (("source", source), ("target", target))
    )
    if source.shape[1] != target.shape[1]:
        raise SphereflowError(
            f"source and target must have one dimension; got {source.shape[1]} and {target.shape[1]}."
        )
    for seed in seeds:
        checked(seed, most=MOST_SEED)
    for method in methods:
        one_of("each of methods", method, METHODS)
    most = whole_number("held_out", held_out, least=2)
    if min(len(source), len(target)) < _FEWEST:
        raise SphereflowError(
            f"source and target need at least {_FEWEST} rows each, a fifth being held out; got {len(source)} and "
            f"{len(target)}."
        )
    learn_x, test_x = split(source, most)
    learn_y, test_y = split(target, most)
    width = median_width(learn_y) if width is None else real_number("width", width, above=0)
    settings = _Settings(
        whole_number("batch", batch, least=2),
        width,
        {**RATES, **(rates or {})},
        real_number("epsilon", epsilon, above=0),
        whole_number("hidden", hidden, least=2),
    )
    points: list[Point] = []
    with progress_bar("translation", progress, total=len(methods) * len(seeds) * len(budgets)) as bar:
        for method in methods:
            # For nothing, so that seconds are those of the work and not of the compiler: a whole chunk and the rest.
            for steps in {min(steps, _CHUNK + steps % _CHUNK) for steps in budgets} if method != "affine" else ():
                _trained(method, learn_x, learn_y, steps, seeds[0], settings).move(jnp.asarray(test_x))
            for seed in seeds:
                for steps in budgets:
                    if method == "affine" and points and points[-1].method == method:
                        point = replace(
                            points[-1], seed=recorded(seed), steps=steps
                        )  # neither seed nor budget changes it
                    else:
                        began = time.perf_counter()
                        trained = _trained(method, learn_x, learn_y, steps, seed, settings)
                        moved = np.asarray(jax.block_until_ready(trained.move(jnp.asarray(test_x))), float)
                        took = time.perf_counter() - began
                        point = Point(
                            method,
                            recorded(seed),
                            steps,
                            trained.passes,
                            trained.operations,
                            took,
                            frechet(moved, test_y),
                            mmd(moved, test_y),
                            sliced_wasserstein(moved, test_y),
                            float(np.mean(np.sum((moved - test_x) ** 2, axis=1))),
                        )
                    points.append(point)
                    if show is not None:
                        show(point, moved)
                    bar.advance()
    return Quality(points, _affine_error(learn_x, learn_y, test_x, test_y) if "affine" in methods else math.nan)


def _affine_error(x: np.ndarray, y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray) -> float:
    moved, rng = fitted_gaussian_map(x, y)(test_x), np.random.default_rng(0)

    def drawn(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows[rng.integers(0, len(rows), len(rows))])

    drawn_again = [sliced_wasserstein(drawn(moved), drawn(test_y)) for _ in range(_AGAIN)]
    return float(np.std(drawn_again, ddof=1))


def translator(
    source: np.ndarray, target: np.ndarray, recipe: Recipe, field: Field, hidden: int = 256, depth: int = 3
) -> tuple[Generator, Float[np.ndarray, " steps"]]:
    """A residual network trained by drifting, averaged, and the history of its raw drift."""
    dimension = source.shape[1]
    model = Generator(
        dimension, dimension, width=hidden, depth=depth, residual=True, key=key_from(following(recipe.seed, 1))
    )
    trained = train(
        beginning(model, recipe),
        recipe,
        field,
        from_rows(source),
        from_rows(target),
        every=recipe.steps,
        progress=False,
    )
    return trained.generator, trained.drift


class _Settings(NamedTuple):
    batch: int
    width: float
    rates: Mapping[str, float]
    epsilon: float
    hidden: int


class _Trained(NamedTuple):
    """A map, the passes over single samples that learning it took, and the multiply-adds."""

    move: Callable
    passes: float
    operations: float


def _trained(method: str, x: np.ndarray, y: np.ndarray, steps: int, seed: Seed, settings: _Settings) -> _Trained:
    batch, rate, dimension = settings.batch, settings.rates.get(method, 0.0), x.shape[1]
    if method == "affine":
        fitted = fitted_gaussian_map(x, y)
        return _Trained(lambda z: fitted(np.asarray(z)), 0.0, float((len(x) + len(y)) * dimension**2))
    if method == "ofm":
        widths = (settings.hidden // 2, settings.hidden // 2)
        learned = train_flow_matching(
            from_rows(x), from_rows(y), dimension, widths=widths, steps=steps, batch=batch, rate=rate, seed=seed
        )
        matching = steps * batch**2 * dimension
        return _Trained(
            learned.potential.map, learned.passes, learned.passes * _parameters(learned.potential) + matching
        )
    if method == "lightsb":
        bridge, _ = train_light_bridge(
            from_rows(x),
            from_rows(y),
            steps=steps,
            batch=batch,
            rate=rate,
            epsilon=settings.epsilon,
            falling=True,
            seed=seed,
        )
        passes = 4.0 * steps * batch  # the normaliser at one sample, the potential at the other, and both back
        return _Trained(lambda z: bridge.sample(z, key_from(seed)), passes, passes * _parameters(bridge))
    friction = {
        "drift-friction": Friction("gain", 0.0, 1.0, steps),
        "drift-restoring": Friction("restoring", 0.0, _RESTORED, steps),
    }.get(method, Friction("none"))
    recipe = Recipe(
        steps=steps,
        batch=batch,
        rate=rate,
        decay=0.99,
        seed=seed,
        friction=friction,
        schedule={"drift-schedule": "linear", "drift-effective": "effective"}.get(method, "constant"),
    )
    model, _ = translator(x, y, recipe, TwoSidedField(width=settings.width), settings.hidden)
    passes = 2.0 * steps * batch
    kernel = steps * 2 * batch * (2 * batch) * dimension  # distances, and weights times samples
    return _Trained(model, passes, passes * _parameters(model) + kernel)


def _parameters(model: PyTree) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def split(rows: Float[np.ndarray, "n D"], most: int = _TESTED) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows held out, in an order that does not depend on how the file was sorted."""
    order = np.random.default_rng(0).permutation(len(rows))
    held = min(len(rows) // 5, most)
    return rows[order[held:]], rows[order[:held]]
