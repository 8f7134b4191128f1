r"""What a schedule costs: pieces and weights against the number of measures, the dimension and the accuracy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.transport.sphere.interpolation import interpolate
from sphereflow.transport.sphere.laws import SphereLaw


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CostTable(Result):
    """One schedule per row: `pieces`, and `norm`, the largest weight once the schedule is played in unit time."""

    N: np.ndarray
    d: np.ndarray
    tol: np.ndarray
    pieces: np.ndarray
    bound: np.ndarray
    norm: np.ndarray
    w2: np.ndarray

    def variables(self) -> Variables:
        return {name: ("row", getattr(self, name)) for name in ("N", "d", "tol", "pieces", "bound", "norm", "w2")}

    def facts(self) -> list[str]:
        rows = zip(self.N, self.d, self.tol, self.pieces, self.norm, strict=True)
        told = [f"N = {N}, d = {d}, tol = {tol:g}: {k} pieces, weights up to {norm:.3g}" for N, d, tol, k, norm in rows]
        return [*told[:6], *(["..."] if len(told) > 6 else [])]


@recorded_call
def interpolation_costs(
    N: Sequence[int], d: Sequence[int], tol: Sequence[float], *, n: int = 60, radius: float = 0.9, seed: Seed = 0
) -> CostTable:
    """Pieces and weights of `interpolate` for N overlapping caps of this radius to N points, for all combinations."""
    for name, values in (("N", N), ("d", d), ("tol", tol)):
        if not real_array(name, values, shape=("k",)).size:
            raise SphereflowError(f"{name} must be a list of numbers, and it is empty.")
    n = whole_number("n", n, least=2)
    real_number("radius", radius, above=0, most=1.5)
    first = int(rng_from(seed).integers(2**31))
    rows = []
    for count in N:
        for dimension in d:
            many, space = whole_number("N", count, least=1), whole_number("d", dimension, least=3)
            rng = np.random.default_rng([first, many, space])
            middle = unit(rng.normal(size=space))
            centres = unit(middle + 0.5 * rng.normal(size=(many, space)) / np.sqrt(space))
            clouds = [SphereLaw.cap(c, radius).drawn(n, rng) for c in centres]
            goals = list(unit(rng.normal(size=(many, space))))
            for accuracy in tol:
                found = interpolate(clouds, goals, tol=accuracy, seed=first)
                norm = found.schedule.rescaled(1.0).sup_norm()
                rows.append((many, space, accuracy, found.n_pieces, found.bound, norm, found.w2.max()))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return CostTable(*columns)
