"""Constructed or trained? Schedules side by side: switches, size of the weights, and all three errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed
from sphereflow.transport.euclidean.divergences import Divergences, divergences
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.schedule import Schedule


@dataclasses.dataclass(frozen=True)
class Row:
    """One schedule of a comparison; `sup_norm` is the largest weight in the normal form of duration 1."""

    name: str
    switches: int
    sup_norm: float
    errors: Divergences

    def __str__(self) -> str:
        told = f"{self.name:<28} {self.switches:>6} switches, weights up to {self.sup_norm:<9.3g}"
        return f"{told} KL(target||image) {self.errors.forward}, TV {self.errors.tv}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ScheduleTable(Result):
    """Schedules side by side, fewest switches first."""

    rows: list[Row]

    def variables(self) -> Variables:
        columns = {"switches": [row.switches for row in self.rows], "sup_norm": [row.sup_norm for row in self.rows]}
        for name in ("forward", "reverse", "tv"):
            value, error = np.array([getattr(row.errors, name) for row in self.rows], dtype=float).T
            columns |= {name: value, f"{name}_error": error}
        found: Variables = {name: ("schedule", np.array(column)) for name, column in columns.items()}
        return {"schedule": ("schedule", np.array([row.name for row in self.rows]))} | found

    def facts(self) -> list[str]:
        few = [f"{row.name}: {row.switches} switches, KL(target||image) {row.errors.forward}" for row in self.rows[:4]]
        return [f"{len(self.rows)} schedules", *few, *(["..."] if len(self.rows) > 4 else [])]

    def plot(self) -> Figure:
        """Error against switches."""
        with look():
            figure = blank(5.4, 3.6)
            draw_frontier(figure.add_subplot(), {"schedules": self.rows})
        return figure


@recorded_call
def compare(
    schedules: Mapping[str, Schedule], base: Law, target: Law, *, samples: int = 40_000, seed: Seed = 0
) -> ScheduleTable:
    """The rows of a table, fewest switches first; all are judged on the same samples."""
    for name, schedule in schedules.items():
        if not isinstance(schedule, Schedule):
            raise SphereflowError(f"schedules must be schedules, but '{name}' is a {type(schedule).__name__}.")
    rows = [
        Row(
            name,
            schedule.n_switches,
            schedule.sup_norm(),
            divergences(schedule, base, target, samples=samples, seed=seed),
        )
        for name, schedule in schedules.items()
    ]
    return ScheduleTable(sorted(rows, key=lambda row: row.switches))


def draw_frontier(axes: Axes, families: Mapping[str, list[Row]]) -> None:
    """Error against switches, one curve per family."""
    for colour, marker, (name, rows) in zip(PALETTE, "osD^vP", families.items(), strict=False):
        errors = [row.errors.forward for row in rows]
        axes.errorbar(
            [row.switches for row in rows],
            [float(e.value) for e in errors],
            [float(e.error) for e in errors],
            fmt=f"-{marker}",
            color=colour,
            ms=4,
            label=name,
        )
    axes.set(xscale="log", yscale="log", xlabel="switches", ylabel=r"$\mathrm{KL}(\rho_*\|\rho_\theta)$")
    axes.legend()
