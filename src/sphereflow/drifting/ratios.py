r"""How many times the compute of one method another takes to the same quality, with an interval.

$$ R(\ell)=\frac{\mathrm{median}_s\,C_{\rm other}(\ell,s)}{\mathrm{median}_s\,C_{\rm method}(\ell,s)} $$

where $C(\ell,s)$ is what seed s has spent when its distance to held-out data is first at most $\ell$, by a
power law between two budgets. A seed that never gets there has spent infinitely much: it is counted, not left out. The
interval comes from drawing seeds anew, the same for both methods.

A ratio says something only at a level better than the untrained affine map, which is why levels begin there: three
standard errors below it. The ratio depends on the level and on what is counted, so all of them are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from sphereflow.drifting.translation import Point, Quality
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = ("passes", "operations", "seconds")
QUALITIES = ("sliced", "mmd", "frechet")
_BEYOND = 3.0  # standard errors below the affine map
_SHARE = 95.0  # of the interval, per cent


@dataclass(frozen=True, eq=False, repr=False)
class ComputeRatios(Result):
    """Ratios (M, L) of compute for M measures at L levels, with the ends of their intervals.

    `reached` (2, L) is how many seeds of the method and of the other one got to each level, out of `seeds`.
    """

    method: str
    other: str
    quality: str
    levels: Float[np.ndarray, " L"]
    value: Float[np.ndarray, "M L"]
    low: Float[np.ndarray, "M L"]
    high: Float[np.ndarray, "M L"]
    reached: Int[np.ndarray, "2 L"]
    seeds: int

    def variables(self) -> Variables:
        over = ("measure", "level")
        ends: Variables = {"value": (over, self.value), "low": (over, self.low), "high": (over, self.high)}
        names: Variables = {"measure": ("measure", np.array(MEASURES)), "level": ("level", self.levels)}
        return names | ends | {"reached": (("side", "level"), self.reached)}

    def facts(self) -> list[str]:
        facts = [f"{self.other} against {self.method}, {self.seeds} seeds"]
        for k, level in enumerate(self.levels):
            each = [
                f"{self.value[m, k]:.3g} [{self.low[m, k]:.3g}, {self.high[m, k]:.3g}] times the {name}"
                for m, name in enumerate(MEASURES)
                if not np.isnan(self.value[m, k])
            ]
            facts.append(f"to {self.quality} {level:.3g}: {', '.join(each) or 'neither gets there'}")
        return facts

    def verdict(self, factor: float, measure: str = "operations", level: int = 0) -> str:
        """ "inside", "below" or "above": where a factor that somebody states lies to the interval at a level."""
        factor, row = real_number("factor", factor, above=0), MEASURES.index(one_of("measure", measure, MEASURES))
        column = whole_number("level", level, least=0, most=len(self.levels) - 1)
        if factor < self.low[row, column]:
            return "below"
        return "above" if factor > self.high[row, column] else "inside"

    def plot(self) -> Figure:
        """Ratios and intervals against the level."""
        from sphereflow.pictures import PALETTE, styled_figure

        with styled_figure(5.4, 3.8) as figure:
            axes = figure.subplots()
            for m, name in enumerate(MEASURES):
                shown = np.isfinite(self.value[m]) & (self.value[m] > 0)
                if not shown.any():
                    continue
                ends = np.clip([self.low[m], self.high[m]], self.value[m] / 100, self.value[m] * 100)
                gaps = np.abs(ends - self.value[m])[:, shown]
                places = self.levels[shown] * 1.01 ** (m - 1)
                axes.errorbar(places, self.value[m][shown], gaps, fmt="o", capsize=3, color=PALETTE[m], label=name)
            axes.axhline(1, color="0.5", lw=0.8)
            axes.set(xscale="log", yscale="log", xlabel=f"{self.quality} distance to reach")
            axes.set_ylabel(f"compute of {self.other} over {self.method}")
            if axes.get_legend_handles_labels()[0]:
                axes.legend()
        return figure


@recorded_call
def compute_ratios(
    quality: Quality,
    method: str = "drift-friction",
    other: str = "ofm",
    *,
    levels: Sequence[float] | np.ndarray | None = None,
    measured: str = "sliced",
    repeats: int = 2000,
    seed: Seed = 0,
) -> ComputeRatios:
    """How many times the compute of `method` the `other` one takes, for passes, operations and seconds.

    **Arguments:**

    - `quality`: what `quality_against_compute` returned, with two seeds or more (ten are better).
    - `levels`: distances to reach; by default three standard errors below the affine map, and the best median that the
      other method reaches.
    - `measured`: the distance, "sliced", "mmd" or "frechet"; `repeats`: draws of seeds for the interval.
    """
    if not isinstance(quality, Quality):
        raise SphereflowError("quality must be what quality_against_compute returns.")
    for name, each in (("method", method), ("other", other)):
        one_of(name, each, tuple(quality.methods))
    one_of("measured", measured, QUALITIES)
    places = _usual(quality, other, measured) if levels is None else real_array("levels", levels, shape=("L",))
    if not len(places) or places.min() <= 0:
        raise SphereflowError(f"levels must be positive distances, got {places}.")
    curves = [_by_seed(quality.points, name) for name in (method, other)]
    if curves[0].keys() != curves[1].keys() or len(curves[0]) < 2:
        raise SphereflowError("a ratio needs two seeds or more, the same for both methods.")
    spent = np.array(
        [
            [[[spent_at(own, level, unit, measured) for own in each.values()] for level in places] for unit in MEASURES]
            for each in curves
        ]
    )  # side, measure, level, seed
    rng, seeds = rng_from(seed), len(curves[0])
    drawn = rng.integers(0, seeds, (whole_number("repeats", repeats), seeds))
    again = _ratio(np.median(spent[..., drawn], axis=-1))
    tail = (100 - _SHARE) / 2
    low, high = (
        np.percentile(np.where(np.isnan(again), hidden, again), end, axis=-1, method="nearest")
        for hidden, end in ((0.0, tail), (np.inf, 100 - tail))  # where neither gets there, anything is possible
    )
    reached = np.isfinite(spent[:, 0]).sum(axis=-1)
    value = _ratio(np.median(spent, axis=-1))
    return ComputeRatios(method, other, measured, places, value, low, high, reached, seeds)


def spent_at(own: Sequence[Point], level: float, measure: str, measured: str) -> float:
    """What a run had spent when its distance was first at most `level`, between its budgets by a power law."""
    before: Point | None = None
    for point in sorted(own, key=lambda p: p.steps):
        distance = max(getattr(point, measured), 0.0)
        if distance <= level:
            cost = float(getattr(point, measure))
            if before is None or distance <= 0:
                return cost
            first, earlier = getattr(before, measured), getattr(before, measure)
            share = np.log(first / level) / np.log(first / distance)
            return float(earlier * (cost / earlier) ** share)
        before = point
    return np.inf


def _usual(quality: Quality, other: str, measured: str) -> np.ndarray:
    floor = [getattr(p, measured) for p in quality.points if p.method == "affine"]
    if not floor or measured != "sliced":
        raise SphereflowError('give levels, or methods with "affine" and measured="sliced".')
    last = max(p.steps for p in quality.points)
    best = np.median([getattr(p, measured) for p in quality.points if (p.method, p.steps) == (other, last)])
    start = floor[0] - _BEYOND * quality.affine_error
    return np.array([start, min(best, start)])


def _by_seed(points: list[Point], method: str) -> dict[str, list[Point]]:
    points_of: dict[str, list[Point]] = {}
    for point in points:
        if point.method == method:
            points_of.setdefault(str(point.seed), []).append(point)
    return points_of


def _ratio(spent: Float[np.ndarray, "2 ..."]) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # infinity over infinity
        return np.asarray(spent[1] / spent[0])
