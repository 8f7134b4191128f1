r"""How a schedule does on points it was not built from: the only score that speaks about the laws.

A fresh sample is a measure of its own and feels its own mean. With k of n fresh points missed, the mass that does not
arrive is at most p with confidence 1 - delta (Clopper and Pearson), and then

$$W_2(\mu(T),\delta_y)^2\le\text{tol}^2+\pi^2p .$$
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.stats import beta

from sphereflow.numerics.unit_vectors import angles
from sphereflow.results import Result, Variables
from sphereflow.transport.sphere.inputs import Measure

_ASSIGNED = 2000  # points of each side for the distance to a density


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HeldOut(Result):
    """Scores of fresh samples, one per measure.

    `w2` to the target, `missed` the share of points that end farther than `tol` from every atom of it, `mass_bound`
    what the share in the law is at most with this `confidence` for all measures together, and `w2_bound` the bound on
    W2 to the atoms that follows, where the target is one point (infinite elsewhere: shares of atoms are not bounded).
    """

    w2: Float[np.ndarray, " N"]
    missed: Float[np.ndarray, " N"]
    mass_bound: Float[np.ndarray, " N"]
    w2_bound: Float[np.ndarray, " N"]
    points: int
    tol: float
    confidence: float

    def variables(self) -> Variables:
        names = ("w2", "missed", "mass_bound", "w2_bound")
        return {name: ("measure", getattr(self, name)) for name in names}

    def facts(self) -> list[str]:
        return [
            f"{self.points} fresh points of {len(self.w2)} measures: max W2 {self.w2.max():.2g}, share that ends "
            f"farther than {self.tol:g} {self.missed.max():.2g}",
            f"mass that does not arrive at most {self.mass_bound.max():.2g} ({self.confidence:.0%} confidence)",
        ]


def score(ends: list[np.ndarray], atoms: list[Measure], goals: list[Measure], tol: float, confidence: float) -> HeldOut:
    """Images of fresh points against the atoms and the targets themselves."""
    away = [
        angles(x[:, None], a.points).min(axis=1) if len(a) > 1 else angles(x, a.points[0]) for x, a in _zip(ends, atoms)
    ]
    counts = np.array([int((far > tol).sum()) for far in away])
    sizes = np.array([len(x) for x in ends])
    risk = (1 - confidence) / len(ends)
    bound = np.where(counts == sizes, 1.0, beta.ppf(1 - risk, counts + 1, np.maximum(sizes - counts, 1)))
    single = np.array([len(a) == 1 for a in atoms])
    return HeldOut(
        w2=np.array([_distance(x, goal) for x, goal in _zip(ends, goals)]),
        missed=counts / sizes,
        mass_bound=bound,
        w2_bound=np.where(single, np.sqrt(tol**2 + np.pi**2 * bound), np.inf),
        points=int(sizes.min()),
        tol=tol,
        confidence=confidence,
    )


def _zip(first: list[np.ndarray], second: list[Measure]) -> list[tuple[np.ndarray, Measure]]:
    return list(zip(first, second, strict=True))


def _distance(x: np.ndarray, goal: Measure) -> float:
    """W2; a density stands as a cloud, and then as many points of both sides are paired."""
    if len(goal) <= 64:
        return Measure(x, np.full(len(x), 1 / len(x))).distance(goal)
    count = min(len(x), len(goal), _ASSIGNED)
    first, second = x[:: len(x) // count][:count], goal.points[:: len(goal) // count][:count]
    equal = np.full(count, 1 / count)
    return Measure(first, equal).distance(Measure(second, equal))
