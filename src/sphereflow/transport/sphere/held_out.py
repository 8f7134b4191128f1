r"""How a schedule does on points it was not built from: the only score that speaks about the laws.

A fresh sample is a measure of its own and feels its own mean. If k of n fresh points end within tol of an atom of
mass $m_a$, at least a share $l_a$ of the law does with confidence $1-\delta$ (Clopper and Pearson). So much of it can
stay, and what an atom lacks comes from no farther than $\pi$:

$$W_2\Big(\mu(T),\sum_am_a\delta_a\Big)^2\le\text{tol}^2+\pi^2p,\qquad p=\sum_a(m_a-l_a)_+ .$$

For a target of one point p is the mass that does not arrive; for several atoms it has the wrong shares of them as well.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy.stats import beta

from sphereflow.numerics.unit_vectors import angle_table
from sphereflow.results import Result, Variables
from sphereflow.transport.sphere.inputs import Measure

_ASSIGNED = 2000  # points of each side for the distance to a density


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HeldOut(Result):
    """Scores of fresh samples, one per measure.

    `w2` to the target, `missed` the share of points that end farther than `tol` from every atom of it, `misplaced` the
    mass that atoms lack of what they should have, `mass_bound` what that is in the law at most with this `confidence`
    for all atoms of all measures together, and `w2_bound` the bound on W2 to the atoms that follows. If the shares are
    right, the mass in excess at atoms, `misplaced` less `missed`, is at most `chance` in such a sample, with this
    confidence for each.
    """

    w2: Float[np.ndarray, " N"]
    missed: Float[np.ndarray, " N"]
    misplaced: Float[np.ndarray, " N"]
    mass_bound: Float[np.ndarray, " N"]
    w2_bound: Float[np.ndarray, " N"]
    chance: Float[np.ndarray, " N"]
    points: int
    tol: float
    confidence: float

    def variables(self) -> Variables:
        names = ("w2", "missed", "misplaced", "mass_bound", "w2_bound", "chance")
        return {name: ("measure", getattr(self, name)) for name in names}

    def facts(self) -> list[str]:
        return [
            f"{self.points} fresh points of {len(self.w2)} measures: max W2 {self.w2.max():.2g}, share that ends "
            f"farther than {self.tol:g} {self.missed.max():.2g}",
            f"mass that does not arrive where it should at most {self.mass_bound.max():.2g}, so W2 to the atoms at "
            f"most {self.w2_bound.max():.2g} ({self.confidence:.0%} confidence)",
            *self._wrong_shares(),
        ]

    def _wrong_shares(self) -> list[str]:
        """A sentence where atoms got other shares than asked for by more than the sample explains."""
        excess = self.misplaced - self.missed
        wrong = np.flatnonzero(excess > self.chance)
        if not len(wrong):
            return []
        worst = int(wrong[excess[wrong].argmax()])
        return [
            f"the shares of atoms are not those asked for in {len(wrong)} of {len(self.w2)} measures: measure {worst} "
            f"has {excess[worst]:.2g} of its mass at atoms that have too much; more points of its source come closer"
        ]


def score(ends: list[np.ndarray], atoms: list[Measure], goals: list[Measure], tol: float, confidence: float) -> HeldOut:
    """Images of fresh points against the atoms and the targets themselves."""
    atoms_of_all = sum(len(a) for a in atoms)
    missed, misplaced, bound, chance = [], [], [], []
    for x, goal in _zip(ends, atoms):
        away = angle_table(x, goal.points)
        near = away.argmin(axis=1)
        arrived = away[np.arange(len(x)), near] <= tol
        counts = np.bincount(near[arrived], minlength=len(goal))
        # The least share that gives so many points with probability (1 - confidence)/(number of atoms).
        risk = (1 - confidence) / atoms_of_all
        least = np.where(counts > 0, beta.ppf(risk, np.maximum(counts, 1), len(x) - counts + 1), 0)
        missed.append(1 - arrived.mean())
        misplaced.append(np.maximum(goal.masses - counts / len(x), 0).sum())
        bound.append(np.maximum(goal.masses - least, 0).sum())
        # The excess has mean at most sqrt(atoms/n)/2, and one point moves it by 1/n (McDiarmid).
        chance.append((np.sqrt(len(goal) - 1) + np.sqrt(-2 * np.log(1 - confidence))) / (2 * np.sqrt(len(x))))
    lacking = np.array(bound)
    return HeldOut(
        w2=np.array([_distance(x, goal) for x, goal in _zip(ends, goals)]),
        missed=np.array(missed),
        misplaced=np.array(misplaced),
        mass_bound=lacking,
        w2_bound=np.sqrt(tol**2 + np.pi**2 * lacking),
        chance=np.array(chance),
        points=min(map(len, ends)),
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
