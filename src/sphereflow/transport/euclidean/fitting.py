"""`fit`: a schedule of so many pieces from one law to another, constructed or trained, with its divergences."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.observables import energy_distance
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.abstract import MOST_PIECES
from sphereflow.transport.euclidean.by_accuracy import schedule_for_kl
from sphereflow.transport.euclidean.certificates import KLBounds
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.divergences import Divergences, divergences
from sphereflow.transport.euclidean.gaussianisation import gaussianise
from sphereflow.transport.euclidean.grid import CellGrid, grid_schedule
from sphereflow.transport.euclidean.laws import Law, Mixture
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.learned.schedules import train_schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("construct", "train")
_SAMPLES = 40_000
_HELD_OUT = 5  # one point of a cloud in five is kept for judging


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Fit(Result):
    """A schedule from source to target and what is known about its error.

    `divergences` where both sides have densities; `cross_entropy`, the mean of -log rho_theta over target points not
    used for the fit, where the source has one; `energy` the energy distance between image and target points.
    `route` says how the schedule was found, and `bound` what the number of switches allows at best or needs at most.
    `source` and `target` are points of both that were used for judging only. `certificate` bounds the relative entropy
    where one was asked for.
    """

    schedule: Schedule
    method: str
    route: str
    bound: str
    divergences: Divergences | None
    cross_entropy: Estimate | None
    energy: float
    source: Float[np.ndarray, "n d"]
    target: Float[np.ndarray, "m d"]
    certificate: KLBounds | None = None

    @property
    def pieces(self) -> int:
        return self.schedule.n_pieces

    @property
    def switches(self) -> int:
        return self.schedule.n_switches

    derived = ("pieces", "switches")

    def variables(self) -> Variables:
        rows: Variables = {
            name: (("piece", *(("component",) * (values.ndim - 1))), values)
            for name, values in self.schedule.arrays().items()
        }
        return rows | {
            "source": (("source_point", "component"), self.source),
            "image": (("source_point", "component"), self.schedule.apply(self.source)),
            "target": (("target_point", "component"), self.target),
        }

    def facts(self) -> list[str]:
        told = [f"{self.route}: {self.pieces} pieces, {self.switches} switches"]
        told += [self.bound] if self.bound else []
        told += self.divergences.facts() if self.divergences else []
        if self.cross_entropy:
            told.append(f"mean of -log density at held-out target points: {self.cross_entropy}")
        return [*told, f"energy distance between image and target points: {self.energy:.3g}"]

    def plot(self, source: Law | None = None, target: Law | None = None) -> Figure:
        """The schedule at work on points kept for judging, or on laws, if they are given."""
        from sphereflow.transport.pictures import draw

        return draw(self.schedule, self.source if source is None else source, self.target if target is None else target)


@recorded_call
def fit(
    source: Law | ArrayLike,
    target: Law | ArrayLike,
    pieces: int | None = None,
    method: str = "construct",
    *,
    kl: float | None = None,
    seed: Seed = 0,
    steps: int = 1500,
) -> Fit:
    """A schedule of at most `pieces` pieces that carries `source` to `target`; each is a law or an array of points.

    With `kl` instead of `pieces`, as few pieces as it takes for KL(target||image) <= kl, both sides being laws; how
    sure that is stands in `.certificate`. What no schedule can reach is refused with the reason.
    """
    one_of("method", method, METHODS)
    if (pieces is None) == (kl is None):
        raise SphereflowError("fit takes either pieces or kl, the relative entropy to be reached.")
    if kl is not None and method == "train":
        raise SphereflowError("kl is for schedules that are constructed; give pieces to train one.")
    most = MOST_PIECES if pieces is None else whole_number("pieces", pieces, least=3, most=MOST_PIECES)
    number = number_from(seed, most=2**62 - 2)
    whole_number("steps", steps)
    start, start_held = _sides(source, "source")
    goal, goal_held = _sides(target, "target")
    d = goal_held.shape[1]
    if start_held.shape[1] != d:
        raise SphereflowError(f"source and target must share one dimension, got {start_held.shape[1]} and {d}.")
    certificate = None
    if kl is not None:
        schedule, route, certificate = schedule_for_kl(start, goal, kl, number)
        bound = str(certificate)
    elif method == "train":
        if not _standard(start):
            raise SphereflowError("training starts from a standard Gaussian: use the source 'gaussian', or construct.")
        schedule = train_schedule(goal, most, seed=number, steps=steps).schedule
        route, bound = "trained by gradient descent with the boundary term", ""
    elif d == 1:
        schedule, route, bound = _on_the_line(start, goal, most)
    else:
        schedule, route, bound = _in_space(start, goal, most, number)
    both = isinstance(start, Law) and isinstance(goal, Law)
    return Fit(
        schedule,
        method,
        route,
        bound,
        divergences(schedule, start, goal, seed=number + 1) if both else None,
        _cross_entropy(schedule, start, goal_held) if isinstance(start, Law) and not both else None,
        energy_distance(np.asarray(schedule.apply(start_held)), goal_held, unbiased=False, most=3000),
        start_held,
        goal_held,
        certificate,
    )


def _sides(law: Any, name: str) -> tuple[Any, np.ndarray]:
    """(law, or the points to fit; points to judge with, used for nothing else)."""
    if isinstance(law, Law):
        return law, law.sample(4000, 12345)
    cloud = checked_cloud(law, name)
    if len(cloud) < 40:
        raise SphereflowError(f"{name} has {len(cloud)} points: too few to fit and to judge, give at least 40.")
    order = np.random.default_rng(0).permutation(len(cloud))
    held = np.arange(len(cloud)) % _HELD_OUT == 0
    return cloud[order[~held]], cloud[order[held]]


def _standard(law: Any) -> bool:
    return isinstance(law, Mixture) and law.is_standard


def _on_the_line(start: Any, goal: Any, pieces: int) -> tuple[Schedule, str, str]:
    knots = pieces - 2
    if isinstance(start, Law) and isinstance(goal, Law):
        line = Rearrangement(start, goal)
        jumps = len(start.breaks) + len(goal.breaks)
        schedule = line.schedule(max(knots - jumps, 1))
        best = line.kl_constant / max(schedule.n_switches, 1) ** 2
        return (
            schedule,
            "monotone rearrangement at its best knots",
            (
                f"no schedule of {schedule.n_switches} switches does better than about {best:.3g} nats, "
                f"C/S^2 with C = {line.kl_constant:.4g}"
            ),
        )
    levels = (np.arange(knots) + 0.5) / knots
    x, y = (_quantiles(side, levels) for side in (start, goal))
    if not ((np.diff(x) > 0).all() and (np.diff(y) > 0).all()):
        raise SphereflowError("the points repeat so often that neighbouring quantiles coincide; ask for fewer pieces.")
    slopes = (np.diff(y) / np.diff(x))[[0, -1]] if knots > 1 else np.ones(2) * _spread(goal) / _spread(start)
    return piecewise_linear(x, y, *map(float, slopes)), "quantile to quantile", ""


def _quantiles(side: Any, levels: np.ndarray) -> np.ndarray:
    if isinstance(side, Law):
        return side.quantile(np.log(levels), np.log1p(-levels))
    return np.quantile(side[:, 0], levels)


def _spread(side: Any) -> float:
    low, high = _quantiles(side, np.array([0.1, 0.9]))
    return float(high - low)


def _in_space(start: Any, goal: Any, pieces: int, seed: int) -> tuple[Schedule, str, str]:
    """Gaussianisation of whatever is not a standard Gaussian; the grid where it applies and does better."""
    if _standard(start):
        found = _gaussianised(goal, pieces, seed), "Gaussianisation, direction by direction", ""
        return _better(found, _on_grid(goal, pieces), start, goal)
    if _standard(goal):
        return _gaussianised(start, pieces, seed).inverse(), "Gaussianisation of the source, backwards", ""
    half = pieces // 2
    schedule = _gaussianised(start, half, seed).inverse() + _gaussianised(goal, half, seed)
    return schedule, "Gaussianisation of both sides, through N(0, I)", ""


def _gaussianised(side: Any, pieces: int, seed: int) -> Schedule:
    cloud = side.sample(_SAMPLES, seed) if isinstance(side, Law) else side
    d = cloud.shape[1]
    # Knots and frames grow together; four knots and one frame are the least that make sense.
    knots = int(np.clip(math.sqrt(pieces / d), 4, 24))
    frames = pieces // (d * (knots + 2))
    if frames < 1:
        raise SphereflowError(f"Gaussianisation in dimension {d} needs at least {d * 6} pieces per side, got {pieces}.")
    return gaussianise(cloud, frames=frames, knots=knots, seed=seed).schedule


def _on_grid(goal: Any, pieces: int) -> tuple[Schedule, str, str] | None:
    if not isinstance(goal, Law):
        return None
    fitting = [n for n in range(1, 65) if CellGrid(n, 2 * n).most_pieces(goal.d) <= pieces]
    if not fitting:
        return None
    reach = np.abs(goal.sample(_SAMPLES, 0)).max()
    grid = CellGrid(fitting[-1], 2 * fitting[-1], box=float(max(5.0, 1.2 * reach)))
    schedule = grid_schedule(goal, grid)
    told = f"grid of {grid.cells} cells per axis and {grid.knots} knots, behind isolating shears"
    return schedule, told, f"the construction needs at most {grid.most_pieces(goal.d)} pieces"


def _better(
    first: tuple[Schedule, str, str], second: tuple[Schedule, str, str] | None, start: Law, goal: Any
) -> tuple[Schedule, str, str]:
    if second is None:
        return first
    points = goal.sample(10_000, 1)
    costs = [-schedule.density(start).log_density(points).mean() for schedule, *_ in (first, second)]
    return second if costs[1] < costs[0] else first


def _cross_entropy(schedule: Schedule, start: Law, held: np.ndarray) -> Estimate:
    return mean(-np.asarray(schedule.density(start).log_density(held)))
