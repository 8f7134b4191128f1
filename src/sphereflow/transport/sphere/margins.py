r"""Clustering with margins: what is built from a sample also carries every law whose mean is close to the sample's.

Attention sees a measure through its mean alone, and a sample's mean is off by $\sigma/\sqrt n$. So everything is first
drawn into a tiny cap of radius $\rho$, where a measure is a point but for its mean. With $a=m_j/|m_j|$,
$\alpha\perp a$ and $u_i=\langle\alpha,m_i\rangle$, attention along alpha for time t shifts measure i by
$\sinh\tau_i\approx u_ie^t$, and for every measure in the cap, whatever its shape,

$$\operatorname{sech}(|\tau|+Y)\cos2\rho\le\langle a,x\rangle\le\operatorname{sech}(|\tau|-Y),\qquad
Y=\operatorname{artanh}\sin2\rho .$$

A gate about a whose level lies between what $|u_j|\le e$ leaves and what $|u_i|\ge1.1e$ allows moves measure j alone,
to a fixed point p outside the cap: the error of the mean is forgotten, and j is never in the way again ($p\perp\alpha$,
so that attention back leaves it there). The last measure is alone in the cap and needs no mean. e is made as large as
the sample permits, and z = e over the standard error of $u_j$ is the safety of the step: two laws with means D apart
and standard errors s have $z=D/(2.1s)$, so that n must grow like $1/D^2$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.numerics.unit_vectors import angles, tangent_frames, unit
from sphereflow.transport.sphere.cap import RADIUS, free_point
from sphereflow.transport.sphere.construction import ConstructionState, random_orthogonal_units
from sphereflow.transport.sphere.disentangling import COLINEAR, part_barycentres, smallest_sine
from sphereflow.transport.sphere.flows import attention_shift, cap_times, gate_times, log_tan_half_angle
from sphereflow.transport.sphere.pieces import Drift, Gate, RankOne

_TINY = 0.005  # radius of the cap in which measures are told apart by their means
_APART = 1.1  # the mean of every other measure along alpha, in units of the error allowed for measure j's
_OUTWARDS = 0.25  # of the way from the outermost point to the free point: how far points may still come from
_WIDER = 1.1  # a cap of its own, over the one that the points of a measure fill
_DIRECTIONS = 400
_PARKING = (0.2, 0.3, 0.4, 0.5)  # how far from the tiny cap measures are put; the gate opens to 0.78
_IN_SIGHT = 0.02  # of a parked measure along alpha: attention carries it out of the gate at once
_AS_GOOD = 0.95  # of the largest safety: among such directions the one with most room to park is taken
_LOOKED_AT = 20


@dataclass(frozen=True, eq=False)
class Margin:
    r"""For one measure: its law may have the mean $\langle\alpha,m\rangle$ within `allowed` of zero.

    `safety` is that in standard errors of the mean of the points given, infinite where no mean is used.
    """

    allowed: float
    safety: float


@dataclass(frozen=True, eq=False)
class Clusters:
    """Where each measure is now, and what was guaranteed on the way.

    Every point within `reach` of `centres` at the start has come within `radius` of its `places`.
    """

    places: Float[np.ndarray, "N d"]
    radius: float
    centres: Float[np.ndarray, "N d"]
    reach: Float[np.ndarray, " N"]
    margins: tuple[Margin, ...]

    def marks(self) -> ConstructionState:
        """The rim of each cluster, as measures of their own: what carries these carries all that is inside."""
        d = self.places.shape[1]
        size = self.radius * np.sqrt(d - 1)  # the crosspolytope holds the ball
        clouds = []
        for place, frame in zip(self.places, tangent_frames(self.places), strict=True):
            rim = np.concatenate([frame.T, -frame.T])
            clouds.append(np.concatenate([place[None], np.cos(size) * place + np.sin(size) * rim]))
        return ConstructionState(clouds, [np.full(len(x), 1 / len(x)) for x in clouds])


def cluster(route: ConstructionState, wanted: float, rng: np.random.Generator) -> Clusters:
    """Emit the pieces after which every measure is in a ball of this radius about a point fixed by the schedule."""
    own = _caps_of_their_own(route)
    return _by_gates(route, wanted, *own) if own is not None else _by_attention(route, wanted, rng)


def _caps_of_their_own(route: ConstructionState) -> tuple[np.ndarray, np.ndarray] | None:
    """Centres and radii of caps, a little wider than the measures and pairwise disjoint; None if they are not."""
    means = route.means
    if np.linalg.norm(means, axis=1).min() < 1e-6:
        return None
    centres = unit(means)
    widths = np.array([angles(x, c).max() for x, c in zip(route.clouds, centres, strict=True)])
    wider = _WIDER * widths + 1e-9
    between = angles(centres[:, None], centres)
    np.fill_diagonal(between, np.inf)
    if (wider >= 1.2).any() or (wider[:, None] + wider >= 0.98 * between).any():
        return None
    return centres, wider


def _by_gates(route: ConstructionState, wanted: float, centres: np.ndarray, radii: np.ndarray) -> Clusters:
    """One gate per measure about its own centre: one map, the same for every measure, and no mean is felt."""
    route.enter("cluster")
    for i, (centre, radius) in enumerate(zip(centres, radii, strict=True)):
        others = np.arange(len(radii)) != i
        room = (angles(centres[others], centre) - radii[others]).min(initial=np.pi / 2)
        level = float(np.cos(radius + 0.9 * (room - radius)))
        _draw(route, centre, level, float(radius), wanted)
    return Clusters(centres, wanted, centres, radii, tuple(Margin(np.inf, np.inf) for _ in radii))


def _draw(route: ConstructionState, centre: np.ndarray, level: float, start: float, wanted: float) -> None:
    """The gate that brings everything within `start` of the centre within `wanted` of it."""
    time = float(cap_times(np.array(log_tan_half_angle(start)), np.array(level), wanted)) if start > wanted else 0.0
    if time > 0:
        route.emit(Gate(duration=time, a=centre, beta=-level, omega=centre))


def _by_attention(route: ConstructionState, wanted: float, rng: np.random.Generator) -> Clusters:
    """All into a tiny cap, and one measure after another out of it to a point of its own; the last one stays."""
    N = len(route.clouds)
    middle, reach = _tiny_cap(route, _TINY if N > 1 else wanted, rng)
    places, margins = np.tile(middle, (N, 1)), [Margin(np.inf, np.inf)] * N
    waiting, parked = list(range(N)), list[int]()
    if N > 1:
        route.enter("disentangle")
    while len(waiting) > 1:  # the safest first: a measure that has left is told from all others at sight
        found = {j: _direction(route, j, waiting, places[parked], rng) for j in waiting}
        j = max(waiting, key=lambda k: found[k].margin.safety)
        places[j] = _told_apart(route, j, found[j], wanted / 2.1)  # coming back displaces by as much again
        margins[j] = found[j].margin
        waiting.remove(j)
        parked.append(j)
    route.enter("cluster")
    if parked:
        _draw(route, middle, float(np.cos(angles(places[parked], middle).min() / 2)), _TINY, wanted)
    return Clusters(places, wanted, np.tile(middle, (N, 1)), np.full(N, reach), tuple(margins))


def _tiny_cap(route: ConstructionState, radius: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Drift away from a point outside all supports; (middle of the cap, from how far points still come into it).

    If two barycentres are colinear, gates part them on the way.
    """
    route.enter("cap")
    omega = -free_point(route, rng)
    outermost = float(angles(route.pooled, omega).max())
    reach = start = outermost + _OUTWARDS * (np.pi - outermost)
    halfway = Drift(duration=max(log_tan_half_angle(start) - log_tan_half_angle(RADIUS), 0.0), omega=omega)
    trial = route.branch()
    trial.emit(halfway)
    if smallest_sine(trial.means) < COLINEAR:
        route.adopt(trial)
        part_barycentres(route, rng)
        # A gate draws towards its own point: what it moves stays between the cap and that point.
        aims = [float(angles(piece.omega, omega)) for piece in route.pieces if isinstance(piece, Gate)]
        start = max([min(start, RADIUS), *aims])
        route.enter("cap")
    if start > radius:
        route.emit(Drift(duration=log_tan_half_angle(start) - log_tan_half_angle(radius), omega=omega))
    return omega, reach


@dataclass(frozen=True, eq=False)
class _Direction:
    a: Float[np.ndarray, " d"]
    alpha: Float[np.ndarray, " d"]
    place: Float[np.ndarray, " d"]
    margin: Margin


def _told_apart(route: ConstructionState, j: int, way: _Direction, small: float) -> Float[np.ndarray, " d"]:
    """Emit attention, gate, and attention back, which bring measure j alone within `small` of its place."""
    allowed, sine = way.margin.allowed, np.sin(2 * _TINY)
    least = _APART * allowed
    time = -float(np.log(allowed * least)) / 2
    half = float(np.arctanh(sine))
    # The largest shift with this mean is that of one point, the smallest that of two points at the ends of the cap.
    own = abs(attention_shift(np.array([-np.arctanh(allowed)]), np.ones(1), 1.0, time))
    ends = np.array([1 + least / sine, 1 - least / sine]) / 2
    other = abs(attention_shift(np.array([-half, half]), ends, 1.0, time))
    inside, outside = np.cos(2 * _TINY) / np.cosh(own + half), 1 / np.cosh(max(other - half, 0.0))
    if not inside > outside:
        raise SphereflowError(
            f"measure {j} cannot be told from the others by its mean (smallest sine of two barycentres "
            f"{smallest_sine(route.means):.1e})."
        )
    level = float((inside + outside) / 2)
    away = RankOne(duration=time, alpha=way.alpha)
    for piece in (away, _into(way.a, level, float(np.arccos(inside)), way.place, small), away.inverse()):
        route.emit(piece)
    return way.place


def _into(a: np.ndarray, level: float, radius: float, place: np.ndarray, small: float) -> Gate:
    """The gate about a that brings all within `radius` of a within `small` of a place inside it.

    Who starts inside the rim is met by somebody who comes from it, and the time from the rim depends on one angle.
    """
    towards = unit(place - (place @ a) * a)
    across = random_orthogonal_units(np.random.default_rng(0), 1, np.stack([a, towards]))[0]
    turn = np.linspace(0, np.pi, 181)[:, None]
    rim = np.cos(radius) * a + np.sin(radius) * (np.cos(turn) * towards + np.sin(turn) * across)
    time = 1.01 * float(gate_times(unit(rim), a, -level, place, small).max())
    return Gate(duration=time, a=a, beta=-level, omega=place)


def _direction(
    route: ConstructionState, j: int, waiting: list[int], parked: Float[np.ndarray, "k d"], rng: np.random.Generator
) -> _Direction:
    r"""Of many directions orthogonal to a the one with the largest safety.

    With standard errors s and the factor c between the means, all $|u_i|-zs_i\ge czs_j$ for
    $z=\min_i|u_i|/(cs_j+s_i)$. Beside random directions stand those that tell measure j best from one other,
    $(S_i+S_j)^{-1}(m_i-m_j)$: in many dimensions chance does not find them.
    """
    means = route.means[waiting]
    own = waiting.index(j)
    a, others = unit(means[own]), np.arange(len(waiting)) != own
    spreads = [_covariance(route.clouds[i], route.masses[i]) for i in waiting]
    best_of_two = [_fisher(means[i] - means[own], spreads[i] + spreads[own], a) for i in np.flatnonzero(others)]
    alphas = np.concatenate([random_orthogonal_units(rng, _DIRECTIONS, a[None]), best_of_two])
    alphas = unit(alphas - np.outer(alphas @ a, a))
    if len(parked):  # who has left must be seen at once
        clear = np.abs(alphas @ parked.T).min(axis=1)
        alphas = alphas[clear >= min(_IN_SIGHT, float(clear.max()))]
    error = np.sqrt(np.maximum([np.einsum("ki,ij,kj->k", alphas, s, alphas) for s in spreads], 0))
    along = np.abs(means[others] @ alphas.T)
    # A measure of one point has no error: a tenth of the others' is kept.
    allowance = np.maximum(error[own], 0.1 * error.max(axis=0) + 1e-9)
    safety = (along / (_APART * allowance + error[others])).min(axis=0)
    good = np.flatnonzero(safety >= _AS_GOOD * safety.max())[:_LOOKED_AT]
    best, place = max(((int(k), _place(a, alphas[k], parked, rng)) for k in good), key=lambda found: found[1][0])
    known = error[:, best].max() < 1e-12
    margin = Margin(float(safety[best] * allowance[best]), np.inf if known else float(safety[best]))
    return _Direction(a, alphas[best], place[1], margin)


def _covariance(x: np.ndarray, mass: np.ndarray) -> Float[np.ndarray, "d d"]:
    """Of the mean of a measure."""
    off = mass[:, None] * (x - mass @ x)
    return off.T @ off


def _fisher(apart: np.ndarray, spread: np.ndarray, a: np.ndarray) -> np.ndarray:
    least = 1e-6 * np.trace(spread) + 1e-300
    way = np.linalg.solve(spread + least * np.eye(len(a)), apart - (apart @ a) * a)
    return unit(way - (way @ a) * a)


def _place(
    a: np.ndarray, alpha: np.ndarray, parked: Float[np.ndarray, "k d"], rng: np.random.Generator
) -> tuple[float, Float[np.ndarray, " d"]]:
    """Of the points orthogonal to alpha, outside the tiny cap and inside the gate, the one farthest from the others."""
    across = random_orthogonal_units(rng, 20, np.stack([a, alpha]))
    tried = np.concatenate([np.cos(r) * a + np.sin(r) * side * across for r in _PARKING for side in (1.0, -1.0)])
    room = angles(tried[:, None], np.concatenate([a[None], parked])).min(axis=1)
    best = int(np.argmax(room))
    return float(room[best]), unit(tried[best])
