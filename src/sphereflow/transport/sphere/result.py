"""What `interpolate` returns: the schedule, and certificates computed by running it again from the sources."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.special import ndtr

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.transport.sphere.certificates import separated_pairs
from sphereflow.transport.sphere.held_out import HeldOut, score
from sphereflow.transport.sphere.inputs import Measure, distinct, measure
from sphereflow.transport.sphere.laws import SphereLaw
from sphereflow.transport.sphere.margins import Clusters
from sphereflow.transport.sphere.schedule import SphereSchedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SAFE = 3.0  # standard errors


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Interpolation(Result):
    """One schedule for all measures.

    `atoms` stand for the targets, `arrived` is where the construction saw the particles end. All below comes from
    running the schedule again from the sources, one measure at a time.
    """

    schedule: SphereSchedule
    phases: tuple[tuple[str, int], ...]
    sources: tuple[Measure, ...]
    targets: tuple[Measure, ...]
    atoms: tuple[Measure, ...]
    arrived: tuple[Float[np.ndarray, "_ d"], ...]
    tol: float
    clusters: Clusters | None = None
    laws: tuple[SphereLaw | None, ...] = ()
    target_laws: tuple[SphereLaw | None, ...] = ()

    @cached_property
    def stages(self) -> list[list[Float[np.ndarray, "_ d"]]]:
        """For each measure its particles at the start and after every piece."""
        return [self.schedule.stages(m.points, m.masses) for m in self.sources]

    @property
    def final(self) -> list[Measure]:
        """Where the sources end."""
        return [Measure(seen[-1], m.masses) for seen, m in zip(self.stages, self.sources, strict=True)]

    @cached_property
    def w2(self) -> Float[np.ndarray, " N"]:
        """W2 (geodesic) of each measure at the end to the target it was asked to become."""
        return np.array([end.distance(goal) for end, goal in zip(self.final, self.targets, strict=True)])

    @cached_property
    def w2_atoms(self) -> Float[np.ndarray, " N"]:
        """W2 to the atoms that stand for the target; the same as `w2` unless a target was a dense cloud."""
        return np.array([end.distance(goal) for end, goal in zip(self.final, self.atoms, strict=True)])

    @cached_property
    def quantisation(self) -> Float[np.ndarray, " N"]:
        """W2 from each target to the atoms that stand for it: zero for atomic targets."""
        kept = zip(self.atoms, self.targets, strict=True)
        return np.array([0.0 if atoms is goal else atoms.distance(goal) for atoms, goal in kept])

    @property
    def replay_error(self) -> float:
        """How far the schedule, run again, ends from where the construction ended: zero, to the last digit."""
        seen = zip(self.stages, self.arrived, strict=True)
        return max(float(np.abs(stages[-1] - end).max()) for stages, end in seen)

    @property
    def limited_by(self) -> str:
        """Why a measure ends farther from its target than `tol`, or nothing."""
        reasons = []
        if (self.w2_atoms > 2 * self.tol).any():
            reasons.append("the masses: no grouping of the particles of a source gives those of its target's atoms")
        if (self.quantisation > self.tol).any():
            reasons.append("the atoms: a dense target is approached by few points")
        return "; ".join(reasons)

    @property
    def safety(self) -> Float[np.ndarray, " N"] | None:
        """By how many standard errors the mean of each law may differ from that of its points; None without margins.

        Infinite for the last measure, which is told from the others by their absence.
        """
        if self.clusters is None:
            return None
        first = sorted(set(own := distinct(self.sources)))
        return np.array([self.clusters.margins[first.index(i)].safety for i in own])

    @property
    def certified(self) -> bool:
        """Whether every measure has a safety of at least 3."""
        return self.safety is not None and bool((self.safety >= _SAFE).all())

    @property
    def astray(self) -> float | None:
        r"""The chance, at most, that a law is taken for another; None without margins.

        $(1+N)\sum_j(1-\Phi(z_j))$ with the safety z of each step, the means taken as Gaussian: one measure may be off
        to either side, the others to one. Then W2 can be as large as pi; else only what `held_out` bounds is left.
        """
        if self.safety is None:
            return None
        return min(1.0, float((1 + len(self.safety)) * ndtr(-self.safety).sum()))

    @property
    def points_needed(self) -> int:
        """How many points of each source, about, would give a safety of 3; the number there is where it is reached."""
        most = max(map(len, self.sources))
        least = np.inf if self.safety is None else float(self.safety.min())
        return most if least >= _SAFE else int(np.ceil(most * (_SAFE / max(least, 0.05)) ** 2))

    @recorded_call
    def held_out(self, sources: Any = None, *, n: int = 10_000, confidence: float = 0.95, seed: Seed = 1) -> HeldOut:
        """The schedule on fresh points: `n` of every source, or these clouds in the place of sources given as points.

        Each fresh sample is a measure of its own, with its own mean in the attention.
        """
        n = whole_number("n", n, least=2)
        real_number("confidence", confidence, above=0, most=1 - 1e-12)
        rng = rng_from(seed)
        given = list(self.laws) if sources is None else _listed(sources)
        if len(given) != len(self.sources) or any(law is None for law in given):
            raise SphereflowError(
                "held_out needs a law or fresh points for each source: those of interpolate were not all laws; give "
                f"sources, {len(self.sources)} of them."
            )
        fresh = [law.drawn(n, rng) if isinstance(law, SphereLaw) else _sample(law, i) for i, law in enumerate(given)]
        goals = [
            goal if law is None else measure(law.drawn(n, rng), "targets")
            for goal, law in zip(self.targets, self.target_laws or (None,) * len(self.targets), strict=True)
        ]
        return score(self.schedule.apply(fresh), list(self.atoms), goals, self.tol, confidence)

    def clouds_at(self, piece: int) -> list[Float[np.ndarray, "_ d"]]:
        """All measures after this many pieces."""
        return [seen[piece] for seen in self.stages]

    def hulls_at(self, piece: int) -> tuple[int, int]:
        """(pairs of different measures with disjoint hulls, all such pairs) after this many pieces."""
        clouds = self.clouds_at(piece)
        return separated_pairs([c for i, c in enumerate(clouds) if not any(np.array_equal(c, b) for b in clouds[:i])])

    @cached_property
    def hulls(self) -> dict[str, tuple[int, int]]:
        """Pairs with disjoint hulls at the start and once disentangled."""
        return {"at the start": self.hulls_at(0), "disentangled": self.hulls_at(self._separated_after)}

    @property
    def _separated_after(self) -> int:
        later = [start for name, start in self.phases if name in ("cluster", "split")]
        return later[0]

    @property
    def n_pieces(self) -> int:
        return len(self.schedule)

    @property
    def pieces_of(self) -> dict[str, int]:
        """How many pieces each phase has."""
        ends = [start for _, start in self.phases[1:]] + [self.n_pieces]
        return {name: end - start for (name, start), end in zip(self.phases, ends, strict=True)}

    @property
    def bound(self) -> int:
        """1 + 3N + 1 + 5N for one atom each, 1 + 3N + 6 (number of atoms) in general, and the gates of Lemma 3.4.

        Detours (a cluster parked or sent round another one) and target atoms in common are not counted.
        """
        N = len(set(distinct(self.sources)))
        total = sum(len(self.atoms[i]) for i in set(distinct(self.sources)))
        extra = self.pieces_of.get("part barycentres", 0)
        return extra + (8 * N + 2 if total == N else 1 + 3 * N + 6 * total)

    @cached_property
    def history(self) -> dict[str, Float[np.ndarray, "N pieces"]]:
        """Radius of each measure and distance of its nearest foreign particle, after every piece."""
        radii, gaps = [], []
        for i, (seen, m) in enumerate(zip(self.stages, self.sources, strict=True)):
            others = [other for k, other in enumerate(self.stages) if k != i]
            radii.append([float(angles(x, unit(m.masses @ x)).max()) for x in seen])
            gaps.append([min((_nearest(x, o[k]) for o in others), default=np.pi) for k, x in enumerate(seen)])
        return {"radius": np.array(radii), "gap": np.array(gaps)}

    def plot(self) -> Figure:
        """Stages on the sphere (d = 3), and radius and separation of the measures against the pieces."""
        from sphereflow.transport.sphere.pictures import draw_interpolation

        return draw_interpolation(self)

    derived = ("safety", "astray", "n_pieces", "pieces_of", "bound", "limited_by")

    def variables(self) -> Variables:
        """Errors of every measure, and its radius and distance to the others after every piece."""
        errors = {"w2": self.w2, "w2_atoms": self.w2_atoms, "quantisation": self.quantisation}
        found: Variables = {name: ("measure", values) for name, values in errors.items()}
        return found | {name: (("piece", "measure"), values.T) for name, values in self.history.items()}

    def facts(self) -> list[str]:
        parted, pairs = self.hulls["disentangled"]
        return [
            f"{len(self.sources)} measures, d = {self.schedule.d}, {self.n_pieces} pieces, "
            f"{self.schedule.n_switches} switches",
            f"max W2 {self.w2.max():.1e}, {parted} of {pairs} pairs of hulls disjoint once disentangled",
            *([] if self.safety is None else [self._safety_told()]),
            *([f"W2 limited by {self.limited_by}"] if self.limited_by else []),
        ]

    def _safety_told(self) -> str:
        least = np.inf if self.safety is None else float(self.safety.min())
        if np.isinf(least):
            return "the schedule does not depend on the means of the measures"
        told = f"the means of the laws may be {least:.1f} standard errors from those of the points"
        if least >= _SAFE:
            return told
        return (
            f"{told}: not certified, with a chance of up to {self.astray:.2g} a law is taken for another; "
            f"about {self.points_needed} points of each would do"
        )


def _listed(sources: Any) -> list[Any]:
    try:
        return list(sources)
    except TypeError:
        raise SphereflowError(f"sources must be a list of laws or of clouds, got {type(sources).__name__}.") from None


def _sample(given: Any, i: int) -> np.ndarray:
    """Fresh points count one by one: with masses of their own they would be no sample."""
    cloud = measure(given, f"sources[{i}]")
    if np.ptp(cloud.masses) > 1e-12:
        raise SphereflowError(
            f"sources[{i}] of held_out has points of different masses; a fresh sample is of equal ones: draw from it."
        )
    return cloud.points


def _nearest(x: np.ndarray, y: np.ndarray) -> float:
    """Least angle between two clouds, from the least chord."""
    chords, _ = cKDTree(y).query(x)
    return float(2 * np.arcsin(min(np.min(chords) / 2, 1.0)))
