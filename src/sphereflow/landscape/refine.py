r"""From nodes of a grid to the atoms themselves: merge, Newton, and insert where optimality is violated.

A stationary point of the energy in positions and masses solves

$$\nabla g(x_i)=0,\qquad g(x_i)=\lambda,\qquad\sum_im_i=1,$$

and Newton's method doubles its digits at every step. If the first variation is below lambda somewhere else, an atom is
born there, masses are solved for again, and so on: a conditional gradient method with sliding atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Int
from scipy import optimize
from scipy.sparse.csgraph import connected_components

from sphereflow.landscape.active_set import solve_on_points
from sphereflow.landscape.space import Jet, PointMasses, Space, centred_energy, first_variation

_MOST_ROUNDS = 4
_MOST_SLIDES = 800
_MOST_NEWTON_STEPS = 30
_PATIENCE = 12  # steps after which a start that is still far from any solution is given up
_RANK = 1e-14

# An atom lighter than this during Newton's method has left: whether one is missing is checked afterwards.
_NO_MASS = 1e-9

# Newton has converged when a step is smaller than this, in radians and in mass.
_STEP_DONE = 2e-15

# Violations of optimality this small, relative to the first variation, are rounding.
_VIOLATION = 2e-14
_MOST_DIPS = 400


def merged(
    space: Space, points: Float[np.ndarray, "k q"], masses: Float[np.ndarray, " k"], reach: float
) -> tuple[PointMasses, Int[np.ndarray, " k"]]:
    """Chains of points nearer than `reach` as one atom each, at their mean; and the atom of every point."""
    labels = connected_components(space.distance(points, points) <= reach, directed=False)[1]
    count = labels.max() + 1
    weights = np.bincount(labels, masses, count)
    centres = np.stack([np.bincount(labels, masses * column, count) for column in points.T], axis=1)
    return PointMasses(space.place(centres / weights[:, None]), weights), labels


def optimal_masses(space: Space, points: Float[np.ndarray, "k q"]) -> PointMasses:
    """The best masses on these points; points that get none are left out."""
    solved = solve_on_points(
        lambda i: space.kernel(points, points[i : i + 1])[:, 0], space.half_potential(points).value
    )
    return PointMasses(points[solved.active], solved.masses)


def newton(space: Space, atoms: PointMasses) -> tuple[PointMasses, bool]:
    """Atoms made stationary in positions and masses, those that lose their mass left out; and whether it converged."""
    points, masses = atoms
    trust = 0.25 / np.sqrt(1 + space.beta)
    last = np.inf
    for turn in range(_MOST_NEWTON_STEPS):
        shift, change = _newton_step(space, PointMasses(points, masses))
        longest = float(np.linalg.norm(shift, axis=1).max())
        fraction = min(1.0, trust / max(longest, 1e-300))
        falling = change < 0
        if falling.any():
            fraction = min(fraction, 0.9 * float(np.min(masses[falling] / -change[falling])))
        points = space.move(points, fraction * shift)
        masses = masses + fraction * change
        size = max(longest, float(np.abs(change).max()))
        if not np.isfinite(size) or (turn >= _PATIENCE and size > 1e-2):
            return atoms, False
        if masses.min() < _NO_MASS:
            massive = masses >= _NO_MASS
            points, masses, last = points[massive], masses[massive], np.inf
        elif size <= _STEP_DONE or (size < 1e-9 and size >= last / 2):
            return PointMasses(points, masses / masses.sum()), True
        last = size
    return PointMasses(points, masses / masses.sum()), last < 1e-9


def _newton_step(space: Space, atoms: PointMasses) -> tuple[np.ndarray, np.ndarray]:
    """The joint step in positions and masses that makes the energy stationary to first order."""
    points, masses = atoms
    k, p = len(atoms), space.p
    jet = first_variation(space, atoms, points)
    slope = space.kernel_slope(points, points)
    cross = space.kernel_cross(points, points) * masses[None, None, :, None]
    cross[np.arange(k), :, np.arange(k), :] += jet.hessian
    # The derivative of g(x_i) in position x_j, and in its own position.
    lift = slope.transpose(2, 0, 1) * masses[None, :, None]
    lift[np.arange(k), np.arange(k), :] += jet.gradient
    system = np.zeros((k * p + k + 1, k * p + k + 1))
    system[: k * p, : k * p] = cross.reshape(k * p, k * p)
    system[: k * p, k * p : -1] = slope.reshape(k * p, k)
    system[k * p : -1, : k * p] = lift.reshape(k, k * p)
    system[k * p : -1, k * p : -1] = space.kernel(points, points)
    system[k * p : -1, -1] = -1.0
    system[-1, k * p : -1] = 1.0
    multiplier = float(masses @ jet.value)
    target = -np.concatenate([jet.gradient.ravel(), jet.value - multiplier, [masses.sum() - 1]])
    step = np.linalg.lstsq(system, target, rcond=_RANK)[0]
    return step[: k * p].reshape(k, p), step[k * p : -1]


def descend(
    space: Space,
    function: Callable[[Float[np.ndarray, "n q"]], Jet],
    points: Float[np.ndarray, "n q"],
    reach: float,
    steps: int = 6,
) -> Float[np.ndarray, "n q"]:
    """Damped Newton steps downhill from each point on its own, none longer than half of `reach`."""
    for _ in range(steps):
        jet = function(points)
        trial = space.move(points, _downhill(jet, reach))
        better = function(trial).value < jet.value
        points = np.where(better[:, None], trial, points)
    return points


def _downhill(jet: Jet, reach: float) -> Float[np.ndarray, "n p"]:
    """A Newton step with the modulus of the Hessian: it goes downhill also where the function is not convex."""
    values, vectors = np.linalg.eigh(jet.hessian)
    modulus = np.maximum(np.abs(values), 1e-10)
    inverse = (vectors / modulus[:, None, :]) @ vectors.transpose(0, 2, 1)
    step = -np.einsum("npq,nq->np", inverse, jet.gradient)
    length = np.linalg.norm(step, axis=1, keepdims=True)
    return step * np.minimum(1.0, 0.5 * reach / np.maximum(length, 1e-300))


def violations(
    space: Space, atoms: PointMasses, nodes: Float[np.ndarray, "n q"], spacing: float
) -> Float[np.ndarray, "s q"]:
    """Where atoms are missing: minima of the first variation below lambda by more than rounding, one for each dip."""
    held = first_variation(space, atoms, atoms.points).value
    slack = _VIOLATION * max(1e-3, float(np.abs(held).max()))
    values = first_variation(space, atoms, nodes).value
    low = np.flatnonzero(values < float(atoms.masses @ held) - slack)
    low = low[np.argsort(values[low])][:_MOST_DIPS]
    seeds: list[int] = []
    for i in low:
        if not seeds or space.distance(nodes[[i]], nodes[seeds]).min() > 2.5 * spacing:
            seeds.append(int(i))
    return descend(space, lambda points: first_variation(space, atoms, points), nodes[seeds], spacing)


def settle(
    space: Space, atoms: PointMasses, nodes: Float[np.ndarray, "n q"], spacing: float
) -> tuple[PointMasses, bool]:
    """Atoms refined off the grid until no node violates optimality, and whether that succeeded.

    How near two active nodes of one atom lie depends on how flat the first variation is there, not on the grid alone,
    so several distances are tried for joining them; what is accepted is optimal, whichever distance led to it.
    """
    widest = 0.5 / np.sqrt(1 + space.beta)
    finest = 1.5 * spacing if space.p == 1 else 2.2 * spacing
    for joined in _joinings(space, atoms, finest, max(widest, finest)):
        moved, converged = newton(space, joined)
        if converged and len(violations(space, moved, nodes, spacing)) == 0:
            return moved, True
    for _ in range(_MOST_ROUNDS):
        atoms = slide(space, atoms)
        best, best_gap = atoms, np.inf
        for joined in _joinings(space, atoms, 1e-3 * widest, widest):
            moved, converged = newton(space, joined)
            if not converged:
                continue
            fresh = violations(space, moved, nodes, spacing)
            if len(fresh) == 0:
                return moved, True
            gap = -float(first_variation(space, moved, fresh).value.min()) + centred_energy(space, moved)
            if gap < best_gap:
                best, best_gap = PointMasses(np.concatenate([moved.points, fresh]), moved.masses), gap
        if best_gap == np.inf:
            break
        atoms = min(atoms, optimal_masses(space, best.points), key=lambda each: centred_energy(space, each))
    return atoms, False


def _joinings(space: Space, atoms: PointMasses, finest: float, widest: float) -> Iterator[PointMasses]:
    """Atoms joined at growing distances, each different outcome once."""
    reach, count = finest, 0
    while reach <= widest * 1.0001:
        joined, _ = merged(space, atoms.points, atoms.masses, reach)
        if len(joined) != count:
            yield joined
        reach, count = 2.5 * reach, len(joined)


def slide(space: Space, atoms: PointMasses) -> PointMasses:
    """Positions and masses of all atoms moved downhill together, masses as squares, by a quasi-Newton method.

    Where atoms start out near the minimiser but are too many, those that belong together meet.
    """
    k, q = atoms.points.shape

    def read(state: np.ndarray) -> tuple[PointMasses, np.ndarray, np.ndarray]:
        coordinates, roots = state[: k * q].reshape(k, q), state[k * q :]
        return PointMasses(space.place(coordinates), roots**2 / np.sum(roots**2)), coordinates, roots

    def objective(state: np.ndarray) -> tuple[float, np.ndarray]:
        here, coordinates, roots = read(state)
        potential = space.half_potential(here.points)
        value = space.kernel(here.points, here.points) @ here.masses + potential.value
        slope = space.kernel_slope(here.points, here.points) @ here.masses + potential.gradient
        energy = float(here.masses @ (value + potential.value)) / 2
        by_place = space.ambient(coordinates, slope) * here.masses[:, None]
        by_root = 2 * roots * (value - here.masses @ value) / np.sum(roots**2)
        return energy, np.concatenate([by_place.ravel(), by_root])

    start = np.concatenate([atoms.points.ravel(), np.sqrt(atoms.masses)])
    options = {"maxiter": _MOST_SLIDES, "maxfun": 2 * _MOST_SLIDES, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 40}
    minimum = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return read(minimum.x)[0]
