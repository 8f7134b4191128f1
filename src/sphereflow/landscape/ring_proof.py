r"""A ring distinguished from atoms on it, where energies in double precision are equal.

Let a uniform ring lie at polar angle $\delta$ about one neuron, $x=\beta\sin^2\delta$. M equal atoms, equally spaced on
it, have

$$\mathsf E-\mathsf E_{\mathrm{ring}}=\frac1\beta\sum_{j\ge1}e^{-x}I_{jM}(x)>0,\qquad
  g''\big|_{\mathrm{atom}}=-\frac2\beta\sum_{j\ge1}(jM)^2e^{-x}I_{jM}(x)<0$$

along the ring: g is largest at the atoms, so that they are no minimiser, by a sign and not by a size. The numbers fall
like $(x/2)^M/M!$ and are kept as logarithms. The ring itself is the minimiser if the other neurons are silent on it and
$g\ge\lambda$ everywhere; energies being strictly convex, nothing else is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.landscape.active_set import solve_on_points
from sphereflow.landscape.certificate import duality_gap
from sphereflow.landscape.problem import Problem
from sphereflow.landscape.refine import settle
from sphereflow.landscape.rings import ring_points, ring_size
from sphereflow.landscape.space import PointMasses
from sphereflow.landscape.sphere_space import SphereSpace
from sphereflow.landscape.zonal import ZonalSpace
from sphereflow.numerics.bessel import log_ive
from sphereflow.numerics.unit_vectors import unit
from sphereflow.results import Result, Variables, recorded_call

_NODES = 361
_TERMS = 40


@dataclass(frozen=True, eq=False, repr=False)
class RingCertificate(Result):
    r"""The rings about one neuron, and what proves that they, and not atoms, are the minimiser (peak convention).

    - `polar`, `masses`: of the rings that minimise the energy with this neuron alone; a pole is a ring of radius zero.
    - `silence`: the largest argument of any other neuron on the rings; below zero, relu neurons are off there.
    - `gap`: a proved bound of the distance of the energy to its minimum, all neurons taken together.
    """

    problem: Problem
    neuron: int
    polar: Float[np.ndarray, " k"]
    masses: Float[np.ndarray, " k"]
    silence: float
    gap: float

    @property
    def single(self) -> bool:
        """Whether there is one ring, and not a pole."""
        return len(self.polar) == 1 and float(np.sin(self.polar[0])) > 1e-9

    def log_excess(self, count: int) -> float:
        """The logarithm of the energy of so many equal atoms less that of the ring."""
        return self._sum(count, 0) - np.log(self.problem.beta)

    def log_curvature(self, count: int) -> float:
        """The logarithm of minus the second derivative of g along the ring, at so many equal atoms."""
        return self._sum(count, 2) + np.log(2 / self.problem.beta)

    def _sum(self, count: int, power: int) -> float:
        if not self.single:
            raise SphereflowError("atoms are compared with one ring; here there are several, or a pole.")
        orders = whole_number("count", count, least=2) * np.arange(1.0, _TERMS)
        strength = self.problem.beta * float(np.sin(self.polar[0])) ** 2
        return float(np.logaddexp.reduce(log_ive(orders, strength) + power * np.log(orders)))

    derived = ("single",)

    def variables(self) -> Variables:
        return {"polar": ("ring", self.polar), "mass": ("ring", self.masses)}

    def facts(self) -> list[str]:
        many = f"{len(self.polar)} ring{'s' * (len(self.polar) != 1)} about neuron {self.neuron}"
        other = (
            f"the other neurons are at most {self.silence:.3g} there"
            if np.isfinite(self.silence)
            else "no other neuron"
        )
        return [f"{many}, gap {self.gap:.1e}", other]


@recorded_call
def ring_certificate(problem: Problem, neuron: int = 0) -> RingCertificate:
    """Whether uniform rings about one neuron are the global minimiser on S^2, with what distinguishes them from atoms.

    ```python
    ring = landscape.ring_certificate(landscape.Problem(5.0, [-0.6], [[1.0, 0.0, 0.0]]))
    ring.gap, ring.log_excess(24)   # 24 atoms are worse by e^-98: no double shows it, the sign of g'' does
    ```
    """
    if problem.d != 3:
        raise SphereflowError(f"rings are certified on S^2, d=3, got d={problem.d}.")
    j = whole_number("neuron", neuron, least=0, most=problem.neurons - 1)
    peak = problem.converted("peak")
    alone = ZonalSpace(peak.replaced(outer=peak.outer[[j]], inner=peak.inner[[j]], bias=peak.bias[[j]]))
    grid = alone.grid(_NODES)
    solved = solve_on_points(
        lambda i: alone.kernel(grid, grid[i : i + 1])[:, 0],
        alone.half_potential(grid).value,
    )
    rings, refined = settle(alone, PointMasses(grid[solved.active], solved.masses), grid, alone.spacing(_NODES))
    if not refined:
        raise SphereflowError(f"the rings about neuron {j} are not isolated: there is no certificate.")
    axis = unit(peak.inner[j])
    parts = [ring_points(axis, polar, ring_size(peak.beta, polar)) for polar in rings.points[:, 0]]
    masses = [np.full(len(part), mass / len(part)) for part, mass in zip(parts, rings.masses, strict=True)]
    points = np.concatenate(parts)
    others = [k for k in problem.active if k != j]
    silence = float(np.max(points @ peak.inner[others].T + peak.bias[others])) if others else -np.inf
    gap = duality_gap(SphereSpace(peak), PointMasses(points, np.concatenate(masses)), 1e-7 / peak.beta)
    return RingCertificate(peak, j, rings.points[:, 0], rings.masses, silence, gap)
