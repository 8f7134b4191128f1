"""The result of a sweep: a dataset with named dimensions, what made it, and pictures of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereflow.errors import SphereflowError, one_of, real_number
from sphereflow.reading import distrusted, plain_data
from sphereflow.results import Result, Variables, plain
from sphereflow.sweeps.store import FAILED, STATE, check_coordinates, damaged, header, verified

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Result):
    """A dataset over the axes of the sweep; cells that were not computed are missing values."""

    dataset: xr.Dataset
    specification: dict[str, Any]
    complete: bool
    path: Path | None = field(default=None, compare=False)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the swept axes, in order."""
        return tuple(self.specification["axes"])

    @property
    def cells_done(self) -> int:
        """How many cells were computed, failed ones included."""
        return int((self.dataset[STATE] > 0).sum())

    @property
    def cells_failed(self) -> int:
        """How many cells found no solution and have no values; `dataset["cell_state"] == 2` says which."""
        return int((self.dataset[STATE] == FAILED).sum())

    def in_memory(self) -> Sweep:
        """The same with all values read."""
        with distrusted(self.path or "the dataset", "sweep"):
            self.dataset.load()
        return replace(self, path=None)

    def plot(self, variable: str | None = None, **options: Any) -> Figure:
        """Heat map of two axes, or a curve with its confidence band of one; see `sphereflow.sweeps.plots.plot`."""
        from sphereflow.sweeps.plots import plot

        return plot(self, variable, **options)

    def variables(self) -> Variables:
        return {str(name): (tuple(map(str, v.dims)), v) for name, v in self.dataset.variables.items()}

    def to_xarray(self) -> xr.Dataset:
        """The dataset itself."""
        return self.dataset

    def record(self) -> dict[str, Any]:
        """What was asked and how much of it is there; the values are in the dataset."""
        record = {"specification": self.specification, "complete": self.complete, "path": self.path and str(self.path)}
        record |= {"cells_done": self.cells_done, "cells_failed": self.cells_failed, "seed": self.seed}
        record |= {"variables": [str(name) for name in self.dataset], "parameters": self.parameters}
        return plain({"result": "Sweep"} | record | {"versions": self.versions})

    def facts(self) -> list[str]:
        sizes = ", ".join(f"{name}: {len(values)}" for name, values in self.specification["axes"].items())
        failed = [f"{self.cells_failed} cells failed and have no values"] if self.cells_failed else []
        return [
            f"{self.specification['quantity']} over ({sizes})",
            ", ".join(map(str, self.dataset)) or "no values yet",
            "complete" if self.complete else f"{self.cells_done} cells so far",
            *failed,
        ]


def open_sweep(path: str | Path) -> Sweep:
    """Open a sweep on disk, finished or not, if its values are still those that were written."""
    return opened(path, trusted=False)


def opened(path: str | Path, *, trusted: bool) -> Sweep:
    """Open a sweep; `trusted` is one whose values were written or checked a moment ago.

    Values of a complete sweep are read when they are used. Of one that is not, cells count only if their block agrees
    with its line in the journal.
    """
    import xarray as xr
    import zarr

    about, folder = header(path), Path(path)
    with distrusted(path, "sweep"):
        specification = _checked(plain_data(str(about["specification"])))
        group, names = zarr.open_group(folder, mode="r"), list(about.get("variables", []))
        check_coordinates(group, about, specification["axes"])
        complete = about.get("complete") is True
        spoiled = damaged(group, about) if complete and not trusted else None
        if spoiled is not None:
            raise SphereflowError(
                f"{path} is damaged: '{spoiled}' is not what was written; the same sweep computes it again."
            )
        whole = xr.open_zarr(folder, consolidated=False, chunks=None)
        dataset = whole[names]
        if complete:
            dataset = dataset.assign_coords({STATE: whole[STATE]})
        else:
            axes = specification["axes"]
            known = verified(folder, group, names, tuple(map(len, axes.values())))
            dataset = dataset.assign({name: (dataset[name].dims, known[name]) for name in names})
            dataset = dataset.assign_coords({STATE: (tuple(axes), known[STATE])})
        made = dict(about.get("versions", {}))
        return Sweep(dataset, specification, complete, folder, parameters=specification, versions=made)


def _checked(specification: Any) -> dict[str, Any]:
    """What a sweep's folder says was asked for, if it has the shape of it."""
    if any(not isinstance(values, list) for values in specification["axes"].values()):
        raise ValueError("the specification is damaged")
    return dict(specification) | {"quantity": str(specification["quantity"])}


def values_of(sweep: Sweep, variable: str | None) -> xr.DataArray:
    """The variable of this name, or the only or first one."""
    names = [str(name) for name in sweep.dataset.data_vars]
    if not names:
        raise SphereflowError("the sweep has no values yet.")
    if variable is None:
        variable = names[0]
    if variable not in names:
        raise SphereflowError(f"the sweep has no variable '{variable}'; it has {', '.join(names)}.")
    with distrusted(sweep.path or "the dataset", "sweep"):
        return sweep.dataset[variable].load()


def fixed_at(values: xr.DataArray, name: str, value: Any) -> xr.DataArray:
    """The values where an axis of numbers is nearest to `value`, or an axis of words is that word."""
    if name not in values.dims:
        raise SphereflowError(
            f"'{name}' is not an axis of this variable; its axes are {', '.join(map(str, values.dims))}."
        )
    places = values[name].values
    if not np.issubdtype(places.dtype, np.number):
        word = one_of(f"the value of '{name}'", str(value), [str(place) for place in places])
        return values.isel({name: [str(place) for place in places].index(word)})
    number = real_number(f"the value of '{name}'", value)
    return values.isel({name: int(np.abs(places - number).argmin())})


def seeds_averaged(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray | None]:
    """Mean and standard error over the axis `seed`, if there is one."""
    if "seed" not in values.dims:
        return values, None
    if STATE in values.coords:  # a mean over the seeds that happened to succeed would be one of another law
        values = values.where(~(values[STATE] == FAILED).any("seed"))
    count = values.notnull().sum("seed")
    error = values.std("seed", ddof=1) / np.sqrt(count) if values.sizes["seed"] > 1 else None
    return values.mean("seed"), error
