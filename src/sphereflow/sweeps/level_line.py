r"""Where a variable crosses a level, with error bars.

On a line of computed points the crossing is interpolated linearly between the two neighbours on either side of the
level. Its error has two parts, added in squares: the spread over seeds (a bootstrap of the mean) and, because between
two points only the crossing itself is known, the width of their interval over $\sqrt{12}$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.estimates import Estimate
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.sweeps.result import Sweep, fixed_at, values_of

_RESAMPLES = 200


@dataclass(frozen=True, eq=False, repr=False)
class Boundary(Result):
    """Positions of the crossing along one axis for each value of another; missing where there is none."""

    axis: str
    along: str
    values: np.ndarray
    position: Float[np.ndarray, " m"]
    error: Float[np.ndarray, " m"]
    level: float

    def variables(self) -> Variables:
        axis = "place" if self.axis == "-" else self.axis
        return {axis: (axis, self.values), "position": (axis, self.position), "error": (axis, self.error)}

    def facts(self) -> list[str]:
        crossed = int(np.isfinite(self.position).sum())
        if self.axis == "-":
            return [f"the level {self.level:g} is crossed at {self.along} = {Estimate(self.position, self.error)}"]
        return [
            f"{self.along} crosses the level {self.level:g} for {crossed} of {len(self.values)} values of {self.axis}"
        ]


@recorded_call
def boundary(
    sweep: Sweep,
    level: float,
    along: str,
    *,
    variable: str | None = None,
    at: dict[str, float] | None = None,
    seed: Seed = 0,
) -> Boundary:
    """The first crossing of `level` along one axis, for every value of the one other axis that is left.

    `at` fixes further axes, such as {"t": 30.0}; without it their last value is taken. Seeds are averaged.
    """
    level = real_number("level", level)
    table = values_of(sweep, variable)
    if along not in table.dims:
        raise SphereflowError(f"along must be one of {', '.join(map(str, table.dims))}; got '{along}'.")
    for name, value in (at or {}).items():
        table = fixed_at(table, name, value)
    others = [str(name) for name in table.dims if name not in (along, "seed")]
    table = table.isel({name: -1 for name in others[1:]})
    axis = others[0] if others else "-"
    order = ([axis] if others else []) + [along] + (["seed"] if "seed" in table.dims else [])
    cube = table.transpose(*order).values
    cube = cube if others else cube[None]
    cube = cube if "seed" in table.dims else cube[..., None]
    x = np.asarray(table[along].values, float)
    rng = rng_from(seed)
    crossings = [_crossing(x, row, level, rng) for row in cube]
    values = np.asarray(table[axis].values) if others else np.zeros(1)
    return Boundary(
        axis, along, values, np.array([f[0] for f in crossings]), np.array([f[1] for f in crossings]), level
    )


def _crossing(x: np.ndarray, row: np.ndarray, level: float, rng: np.random.Generator) -> tuple[float, float]:
    known = np.isfinite(row).all(axis=1)
    x, row = x[known], row[known]
    if len(x) < 2:
        return np.nan, np.nan
    position, width = _first(x, row.mean(axis=1), level)
    if not np.isfinite(position):
        return np.nan, np.nan
    drawn = [
        _first(x, row[:, rng.integers(0, row.shape[1], row.shape[1])].mean(axis=1), level)[0]
        for _ in range(_RESAMPLES if row.shape[1] > 1 else 0)
    ]
    spread = float(np.nanstd(drawn)) if len(drawn) else 0.0
    return position, float(np.hypot(spread, width / np.sqrt(12)))


def _first(x: np.ndarray, y: np.ndarray, level: float) -> tuple[float, float]:
    above = y >= level
    turns = np.flatnonzero(above[1:] != above[:-1])
    if turns.size == 0:
        return np.nan, np.nan
    i = int(turns[0])
    return float(x[i] + (x[i + 1] - x[i]) * (level - y[i]) / (y[i + 1] - y[i])), float(x[i + 1] - x[i])
