r"""Disentangling: measures that overlap are given disjoint hulls, each shrunk towards its own barycentre.

For each j, with $a=m_j/|m_j|$ and one unit vector $\alpha\perp m_j$, three pieces:

1. attention $V=\alpha\alpha^\top$: measure j, whose mean is orthogonal to alpha, does not move; every other one goes
   towards $\pm\alpha$ until $\langle a,x\rangle<\delta$ on it;
2. the gate $(\langle a,x\rangle-\delta)_+P_x^\perp a$: only measure j is inside, and shrinks towards a;
3. attention $V=-\alpha\alpha^\top$: the others return exactly.

The paper uses an orthonormal basis of $m_j^\perp$, 2(d-1)+1 pieces; one generic alpha is enough. Barycentres that are
colinear are first moved apart by a perceptron gate, accepted by measurement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.transport.sphere.certificates import separated_pairs
from sphereflow.transport.sphere.construction import ConstructionState, random_orthogonal_units
from sphereflow.transport.sphere.flows import gate_times, polar
from sphereflow.transport.sphere.pieces import Gate, RankOne

COLINEAR = 0.004  # sine of the angle of two barycentres below which attention would need too long
_DRAWS = 400
_TRIED = 5
_GATES = 200
_WIDE = 0.15  # a sine with which the search for a gate ends early
# Restoring multiplies rounding by e^|tau|: beyond this the others would come back to fewer than ten digits.
_LONGEST_SHIFT = 14.0
_SHIFTS = np.append(0.0, np.geomspace(1e-3, _LONGEST_SHIFT, 100))


def smallest_sine(means: Float[np.ndarray, "N d"]) -> float:
    """Smallest sine of the angle of two barycentres."""
    a = unit(means)
    sines = [np.linalg.norm(a[i] - (a[i] @ a[j]) * a[j]) for i in range(len(a)) for j in range(i)]
    return float(min(sines, default=1.0))


def disentangle(route: ConstructionState, rng: np.random.Generator) -> None:
    """Emit 3 pieces per measure (and gates for colinear barycentres) until all hulls are disjoint."""
    if len(route.clouds) == 1:
        return
    part_barycentres(route, rng)
    route.enter("disentangle")
    share = 0.4
    for _ in range(5):
        radius = share * float(np.arcsin(min(smallest_sine(route.means), 1.0)))
        trial = route.branch()
        for j in range(len(route.clouds)):
            shrink(trial, j, radius, rng)
        separated, pairs = separated_pairs(trial.clouds)
        if separated == pairs:
            route.adopt(trial)
            return
        share /= 2
    raise SphereflowError(
        f"only {separated} of {pairs} pairs of measures could be disentangled; give inputs that differ by more."
    )


def shrink(route: ConstructionState, j: int, radius: float, rng: np.random.Generator) -> None:
    """Lemma 3.3 with one alpha: measure j into the ball of this radius about its barycentre, the others as before."""
    alpha, time, a, level = choose_direction(route, j, rng)
    cleared = _cleared(route, j, alpha, time, a, level)
    while cleared is None:
        time *= 1.05
        cleared = _cleared(route, j, alpha, time, a, level)
    route.adopt(cleared)
    aim = radius
    for _ in range(8):  # the last piece displaces measure j a little: a smaller ball makes up for it
        trial = route.branch()
        needed = float(gate_times(trial.clouds[j], a, -level, a, aim).max())
        if needed > 0:
            trial.emit(Gate(duration=needed, a=a, beta=-level, omega=a))
        trial.emit(RankOne(duration=time, alpha=alpha, sign=-1.0))
        if angles(trial.clouds[j], a).max() <= radius:
            break
        aim *= 0.9
    route.adopt(trial)


def _cleared(
    route: ConstructionState, j: int, alpha: np.ndarray, time: float, a: np.ndarray, level: float
) -> ConstructionState | None:
    """Attention for this time, if it takes every other measure out of the gate."""
    trial = route.branch()
    trial.emit(RankOne(duration=time, alpha=alpha))
    others = [x for i, x in enumerate(trial.clouds) if i != j]
    return trial if all((x @ a).max() < level for x in others) else None


def choose_direction(
    route: ConstructionState, j: int, rng: np.random.Generator
) -> tuple[np.ndarray, float, np.ndarray, float]:
    """(alpha, time, a, delta): among directions orthogonal to m_j the one that clears the cap soonest."""
    means = route.means
    a = unit(means[j])
    level = float((route.clouds[j] @ a).min()) / 2
    if level <= 0:
        raise SphereflowError(f"measure {j} does not lie in an open hemisphere about its barycentre.")
    others = [i for i in range(len(means)) if i != j]
    alphas = random_orthogonal_units(rng, _DRAWS, a[None])
    reach = np.abs(alphas @ means[others].T).min(axis=1)
    best: tuple[float, float, np.ndarray] | None = None
    for alpha in alphas[np.argsort(-reach)[:_TRIED]]:
        alpha = unit(alpha - (alpha @ a) * a)
        time, farthest = clearing_time(route, others, alpha, a, level)
        if farthest <= _LONGEST_SHIFT and (best is None or farthest < best[0]):
            best = (farthest, time, alpha)
    if best is None:
        raise SphereflowError(
            f"the barycentre of measure {j} is too close to that of another measure to be told apart in float64 "
            f"(smallest sine {smallest_sine(means):.1e})."
        )
    return best[2], best[1], a, level


def clearing_time(
    route: ConstructionState, others: Sequence[int], alpha: np.ndarray, a: np.ndarray, level: float
) -> tuple[float, float]:
    r"""First time with $\langle a,x\rangle<\delta$ on all other measures, and the longest shift $|\tau|$ it takes.

    Both by the trapezoidal rule for $t(\tau)=\int_0^\tau d\tau'/F_i(\tau')$; `shrink` checks the outcome exactly.
    """
    needed, clocks = 0.0, []
    for i in others:
        y, e = polar(route.clouds[i], alpha)
        shifted = y[:, None] - np.sign(route.masses[i] @ np.tanh(-y)) * _SHIFTS
        pace = np.abs(route.masses[i] @ np.tanh(shifted))
        clear = np.flatnonzero(((e @ a)[:, None] / np.cosh(shifted)).max(axis=0) < 0.98 * level)
        if not len(clear) or pace[0] == 0:
            return np.inf, np.inf
        clocks.append(np.append(0.0, np.cumsum(np.diff(_SHIFTS) * (1 / pace[1:] + 1 / pace[:-1]) / 2)))
        needed = max(needed, float(clocks[-1][clear[0]]))
    farthest = max(float(np.interp(needed, clock, _SHIFTS, right=np.inf)) for clock in clocks)
    return needed, farthest


def part_barycentres(route: ConstructionState, rng: np.random.Generator) -> None:
    """While two barycentres are colinear, emit the random gate that opens the smallest angle most (Lemma 3.4)."""
    for attempt in range(4):
        best, found = smallest_sine(route.means), None
        if best >= COLINEAR:
            return
        if attempt == 0:
            route.enter("part barycentres")
        ends = np.cumsum([len(cloud) for cloud in route.clouds])[:-1]
        for gate in _random_gates(route, rng):
            moved = gate.flow(route.pooled, np.concatenate(route.masses))
            parts = np.split(moved, ends)
            opened = smallest_sine(np.stack([m @ x for m, x in zip(route.masses, parts, strict=True)]))
            if opened > best and all(angles(x, unit(moved.mean(axis=0))).max() < np.pi / 4 for x in parts):
                best, found = opened, gate
            if best > _WIDE:
                break
        if found is None or best < 1e-9:
            break
        route.emit(found)
    if smallest_sine(route.means) < COLINEAR:
        raise SphereflowError(
            "two measures keep colinear barycentres under every gate tried: they are (nearly) the same measure."
        )


def _random_gates(route: ConstructionState, rng: np.random.Generator) -> list[Gate]:
    pooled, gates = route.pooled, []
    for _ in range(_GATES):
        radius = rng.uniform(0.1, 0.5)
        centre = unit(pooled[rng.integers(len(pooled))] + 0.1 * rng.normal(size=route.d))
        tangent = random_orthogonal_units(rng, 1, centre[None])[0]
        off = 0.8 * radius * rng.uniform()
        omega = np.cos(off) * centre + np.sin(off) * tangent
        level = float(np.cos(radius))
        gates.append(Gate(duration=10 / (1 - level), a=centre, beta=-level, omega=omega))
    return gates
