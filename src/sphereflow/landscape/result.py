"""What `minimise`, `maximise` and `inspect` return: atoms, masses, energy, certificate and second-order condition."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.landscape.problem import Problem
from sphereflow.landscape.space import PointMasses, Space, centred_energy, first_variation, hessian, strict_margin
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.zonal import ZonalSpace
from sphereflow.results import Result, Variables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class CriticalPoint(Result):
    r"""A measure with everything that says what kind of critical point it is, in the convention of its problem.

    - `points`, `masses`: unit vectors (k, d), or polar angles (k, 1) of rings about the axis of the weights.
    - `kind`: "atoms", "density", "rings", "unresolved", or "given".
    - `energy`; `multiplier` $\lambda=\int g\,d\mu$; `gap`: a proved bound of the distance of the energy to the optimum.
    - `spectrum`: eigenvalues of the Hessian of the objective (E when minimised, -E when maximised), smallest first.
    - `margin`: the strict second-order margin kappa, Hess >= kappa times the mean of |xi|^2.
    - `curvature`: smallest eigenvalue of the second derivative of g at the atoms (of -g when maximised).
    - `stationarity`: largest |grad g| at the atoms. `spread`: largest |g - lambda| there.
    """

    problem: Problem
    sign: str
    kind: str
    points: Float[np.ndarray, "k q"]
    masses: Float[np.ndarray, " k"]
    energy: float
    multiplier: float
    gap: float
    spectrum: Float[np.ndarray, " kp"]
    margin: float
    curvature: float
    stationarity: float
    spread: float
    nodes: int
    seconds: float = field(compare=False)
    note: str = ""

    @classmethod
    def of(
        cls,
        problem: Problem,
        space: Space,
        sign: str,
        kind: str,
        atoms: PointMasses,
        gap: float,
        nodes: int,
        seconds: float,
        note: str = "",
    ) -> CriticalPoint:
        """Measure everything at the given atoms; `gap` is that of the peak form."""
        order = np.lexsort((atoms.points[:, -1], _sort_key(atoms.points)))
        atoms = PointMasses(atoms.points[order], atoms.masses[order])
        factor, objective = problem.factor, 1.0 if sign == "minimise" else -1.0
        jet = first_variation(space, atoms, atoms.points)
        multiplier = float(atoms.masses @ jet.value)
        spectrum = np.linalg.eigvalsh(objective * hessian(space, atoms))
        # The margin of -E is minus the largest eigenvalue, which for one atom is its own.
        margin = strict_margin(space, atoms) if objective > 0 else float(spectrum[0] / atoms.masses[0])
        return cls(
            problem,
            sign,
            kind,
            atoms.points,
            atoms.masses,
            energy=factor * (1 / (2 * problem.beta) + centred_energy(space, atoms)),
            multiplier=factor * (1 / problem.beta + multiplier),
            gap=factor * gap,
            spectrum=factor * spectrum,
            margin=factor * margin,
            curvature=factor * float(np.linalg.eigvalsh(objective * jet.hessian).min()),
            stationarity=factor * float(np.linalg.norm(jet.gradient, axis=1).max()),
            spread=factor * float(np.abs(jet.value - multiplier).max()),
            nodes=nodes,
            seconds=seconds,
            note=note,
        )

    def __len__(self) -> int:
        return len(self.masses)

    @property
    def count(self) -> int:
        """How many atoms, or rings."""
        return len(self.masses)

    @property
    def atoms(self) -> PointMasses:
        return PointMasses(self.points, self.masses)

    @property
    def rings(self) -> bool:
        """Whether each entry is a uniform ring about the axis of the weights instead of one point."""
        return self.points.shape[1] == 1

    @cached_property
    def space(self) -> Space:
        """Where the points lie, in the peak convention."""
        peak = self.problem.converted("peak")
        return ZonalSpace(peak) if self.rings else SphereSpace(peak)

    @property
    def place(self) -> str:
        """circle, sphere or rings."""
        return "rings" if self.rings else "circle" if self.problem.d == 2 else "sphere"

    @property
    def angles(self) -> Float[np.ndarray, " k"]:
        """Angles in [0, 2 pi) on the circle, polar angles of rings."""
        if self.rings:
            return self.points[:, 0]
        return np.mod(np.arctan2(self.points[:, 1], self.points[:, 0]), 2 * np.pi)

    @property
    def heights(self) -> Float[np.ndarray, " k"]:
        """Cosines of the polar angles of rings; inner products with the first axis otherwise."""
        return np.cos(self.points[:, 0]) if self.rings else self.points[:, 0]

    @property
    def second_order(self) -> bool:
        """Whether the second-order condition holds, up to rounding (a rotation may cost nothing)."""
        return bool(self.spectrum[0] >= -1e-12 * self.problem.factor)

    def first_variation(self, points: Float[np.ndarray, "n q"]) -> Float[np.ndarray, " n"]:
        r"""$g=\delta\mathsf E/\delta\mu$ at points of the same kind as the atoms."""
        centred = first_variation(self.space, self.atoms, points).value
        return self.problem.factor * (centred + 1 / self.problem.beta)

    # --- views ---------------------------------------------------------------------------------------------------

    def variables(self) -> Variables:
        """Coordinates and masses of the atoms or rings, and the spectrum of the Hessian."""
        if self.rings:
            where = {"polar_angle": self.points[:, 0], "height": self.heights}
        elif self.problem.d == 2:
            where = {"angle": self.angles}
        else:
            where = {f"x{i + 1}": column for i, column in enumerate(self.points.T)}
        atoms: Variables = {name: ("atom", column) for name, column in (where | {"mass": self.masses}).items()}
        return atoms | {"hessian_spectrum": ("direction", self.spectrum)}

    derived = ("count", "place", "second_order")

    def plot(self) -> Figure:
        """Potential, first variation and atoms."""
        from sphereflow.landscape.pictures import draw

        return draw(self)

    def facts(self) -> list[str]:
        what = "ring" if self.rings else "atom"
        name = {"minimise": "minimiser", "maximise": "maximiser"}[self.sign] if self.kind != "given" else "measure"
        problem = self.problem
        return [
            f"{name} of {len(self)} {what}{'s' * (len(self) != 1)} ({self.kind}), energy {self.energy:.10g}",
            f"gap {self.gap:.1e}, smallest Hessian eigenvalue {self.spectrum[0]:.3e}",
            f"{problem.neurons} neuron{'s' * (problem.neurons != 1)} ({problem.activation}), d = {problem.d}, "
            f"beta = {problem.beta:g} ({problem.kernel_scale} kernel)",
            *([self.note] if self.note else []),
        ]


def _sort_key(points: np.ndarray) -> np.ndarray:
    """By angle on the circle, by the first coordinate elsewhere."""
    if points.shape[1] == 2:
        return np.mod(np.arctan2(points[:, 1], points[:, 0]), 2 * np.pi)
    return points[:, 0]
