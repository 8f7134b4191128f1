r"""One leg of a run: from here to the next collision, however long it takes.

Two ways, chosen by how the pairs compete.

Arclength: the path is followed in its own length s, and time comes along as one more unknown,

$$\frac{dx}{ds}=\frac{v}{|v|},\qquad \frac{dt}{ds}=\frac1{|v|}=e^{-\ell(s)},\qquad \ell=\log|v|,$$

so a plateau of length e^1000 costs no more steps than one of length 10. The unknown for time is
$w=(1+\beta)\int e^{\ell(0)-\ell(s)}ds$, of order one, and $t=e^{-\ell(0)}w/(1+\beta)$ is only ever formed as a
logarithm. Steps are those of an eighth-order Runge-Kutta method with error control on positions and on w alike.

Pair: if the nearest pair outruns all others by more than 40 e-folds, the others stand still to e^{-40} while it
closes, and the quadrature of `pair` gives time and landing place at once.

The rescaled clock of the staircase, $d\tau = e^{C_{\rm far}}dt/\log\beta$ with $C_{\rm far}$ the largest exponent of
pairs farther apart than $1/\sqrt{\beta\log\beta}$, is integrated beside time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq

from sphereflow.metastability.atoms import Atoms, close_pairs, exponents, normalised_energy, scaled_field
from sphereflow.metastability.pair import merge_pair
from sphereflow.numerics.unit_vectors import angles, on_the_way, unit

# Freezing everything but the nearest pair is a relative error of this many e-folds.
DOMINANT = 40.0
# A leg ends, to begin again with a fresh time unit, when the speed has fallen by this many e-folds.
_SLOWED = 300.0
_MOST_STEPS = 20_000


@dataclass(frozen=True, eq=False)
class Collision:
    """Rows i < j of the atoms meet when `log_elapsed` (log of the time since the leg began) has passed."""

    i: int
    j: int
    log_elapsed: float
    uncertainty: float = 0.0


@dataclass(frozen=True, eq=False)
class Leg:
    """Where a leg ended: positions, log of its duration, clock and length added, and who collided.

    `curve` has a row (log elapsed, energy, clock, length) per step; `way` says how it was followed; `stopped` says
    that the stop condition was met, `balanced` that the atoms stand on a saddle and the leg could not begin.
    """

    positions: Float[np.ndarray, "k d"]
    log_elapsed: float
    clock: float
    length: float
    collisions: tuple[Collision, ...]
    curve: Float[np.ndarray, "m 4"]
    way: str
    stopped: bool = False
    balanced: bool = False


def nearest_pair(atoms: Atoms, beta: float) -> tuple[int, int, float]:
    """The pair with the largest exponent, and by how many e-folds it outruns every other pair, masses included."""
    table = exponents(atoms.positions, beta)
    i, j = divmod(int(np.argmax(table)), len(atoms))
    largest = table[i, j]
    table[i, j] = table[j, i] = -np.inf
    second = float(table.max()) if len(atoms) > 2 else -np.inf
    spread = 2 * math.log(float(atoms.masses.max() / atoms.masses.min()))
    return min(i, j), max(i, j), float(largest - second - spread)


def clock_radius(beta: float) -> float:
    r"""$r_c = 1/\sqrt{\beta\log\beta}$, the gluing distance of the theorem; infinite where it makes no sense."""
    return 1 / math.sqrt(beta * math.log(beta)) if beta > math.e else math.inf


def jump(atoms: Atoms, beta: float, kind: str, radius: float, i: int, j: int) -> Leg:
    """The pair i, j closes to `radius` while all others stand still."""
    x = atoms.positions
    theta = float(angles(x[i], x[j]))
    end = 2 * math.asin(radius / 2)
    masses = (float(atoms.masses[i]), float(atoms.masses[j]))
    met = merge_pair(theta, beta, masses, kind, end=end, clock_stops=min(clock_radius(beta), theta))
    positions = x.copy()
    positions[i] = on_the_way(x[i], x[j], met.moved[0])
    positions[j] = on_the_way(x[j], x[i], met.moved[1])
    mutual = 2 * masses[0] * masses[1]
    others = normalised_energy(x, atoms.masses, beta) - mutual * math.exp(-2 * beta * math.sin(theta / 2) ** 2)
    energies = others + mutual * np.exp(-2 * beta * np.sin(met.thetas / 2) ** 2)
    clocks = met.clocks / math.log(beta) if beta > math.e else np.zeros_like(met.clocks)
    curve = np.stack([met.log_times, energies, clocks, met.lengths], axis=1)
    collision = Collision(i, j, met.log_time)
    return Leg(positions, met.log_time, float(clocks[-1]), float(met.lengths[-1]), (collision,), curve, "pair")


def follow(
    atoms: Atoms,
    beta: float,
    kind: str,
    radius: float,
    tol: float,
    stop: Callable[[np.ndarray], float] | None = None,
) -> Leg:
    """Follow all atoms in arclength until two are nearer than `radius`, or until stop(positions) falls below 0."""
    start = scaled_field(atoms.positions, atoms.masses, beta, kind)
    if start.balanced or not math.isfinite(start.log_speed):
        return _standing(atoms)
    path = _Path(atoms, beta, kind, start.log_speed)
    solver = DOP853(path.slope, 0.0, path.begin, math.inf, rtol=tol, atol=tol)
    rows: list[tuple[float, float, float, float]] = []
    for _ in range(_MOST_STEPS):
        message = solver.step()
        if solver.status == "failed":
            raise ArithmeticError(f"the arclength solver failed: {message}")
        x = path.positions(solver.y)
        hits = close_pairs(x, radius)
        if stop is not None and stop(x) < 0:
            s = _located(_on_path(path, stop), solver)
            return path.leg(solver.dense_output()(s), s, (), rows, stopped=True)
        if hits:
            return _first_hit(path, solver, hits, radius, rows)
        rows.append(path.row(solver.y, solver.t))
        if path.slowed(x):
            return path.leg(solver.y, solver.t, (), rows)
    raise ArithmeticError(f"no collision within {_MOST_STEPS} steps: loosen tol.")


class _Path:
    """The unknowns along the arclength: positions, scaled time w, clock."""

    def __init__(self, atoms: Atoms, beta: float, kind: str, log_speed: float):
        self.atoms, self.beta, self.kind = atoms, beta, kind
        self._first = log_speed
        self._stretch = 1 + beta
        self._ticks = math.isfinite(clock_radius(beta))
        self._near = -beta * clock_radius(beta) ** 2 / 2 if self._ticks else 0.0
        self.begin = np.concatenate([atoms.positions.ravel(), [0.0, 0.0]])

    def positions(self, y: np.ndarray) -> np.ndarray:
        return unit(y[:-2].reshape(self.atoms.positions.shape))

    def slope(self, s: float, y: np.ndarray) -> np.ndarray:
        x = self.positions(y)
        field = scaled_field(x, self.atoms.masses, self.beta, self.kind)
        size = math.sqrt(float(np.vdot(field.velocity, field.velocity)))
        out = np.empty_like(y)
        out[:-2] = (field.velocity / size).ravel()
        out[-2] = self._stretch * math.exp(min(self._first - field.scale - math.log(size), 700.0))
        out[-1] = self._tick(field.exponents, field.scale) / size
        return out

    def _tick(self, exponents: np.ndarray, scale: float) -> float:
        """Clock per scaled time, e^{C_far - C} / log beta."""
        if not self._ticks:
            return 0.0
        far = float(exponents.max(where=exponents < self._near, initial=-np.inf))
        return math.exp(far - scale) / math.log(self.beta)

    def log_elapsed(self, y: np.ndarray) -> float:
        return math.log(y[-2] / self._stretch) - self._first if y[-2] > 0 else -math.inf

    def row(self, y: np.ndarray, s: float) -> tuple[float, float, float, float]:
        energy = normalised_energy(self.positions(y), self.atoms.masses, self.beta)
        return self.log_elapsed(y), energy, float(y[-1]), float(s)

    def slowed(self, x: np.ndarray) -> bool:
        now = scaled_field(x, self.atoms.masses, self.beta, self.kind)
        return now.balanced or self._first - now.log_speed > _SLOWED

    def leg(
        self, y: np.ndarray, s: float, collisions: tuple[Collision, ...], rows: list, *, stopped: bool = False
    ) -> Leg:
        curve = np.asarray([*rows, self.row(y, s)])
        return Leg(
            self.positions(y), self.log_elapsed(y), float(y[-1]), float(s), collisions, curve, "arclength", stopped
        )


def _first_hit(path: _Path, solver: DOP853, hits: list, radius: float, rows: list) -> Leg:
    """Locate the first of the collisions inside the last step."""
    dense = solver.dense_output()

    def distance(i: int, j: int) -> Callable[[np.ndarray], float]:
        def measured(y: np.ndarray) -> float:
            x = path.positions(y)
            return float(np.linalg.norm(x[i] - x[j])) - radius

        return measured

    s, i, j = min((_located(distance(i, j), solver, dense), i, j) for _, i, j in hits)
    y = dense(s)
    return path.leg(y, s, (Collision(i, j, path.log_elapsed(y)),), rows)


def _on_path(path: _Path, stop: Callable[[np.ndarray], float]) -> Callable[[np.ndarray], float]:
    return lambda y: stop(path.positions(y))


def _located(function: Callable[[np.ndarray], float], solver: DOP853, dense: DenseOutput | None = None) -> float:
    """The s in the last step at which function(y(s)) changes sign."""
    dense = solver.dense_output() if dense is None else dense
    along = lambda s: function(dense(s))  # noqa: E731
    if along(solver.t_old) <= 0:
        return float(solver.t_old)
    return float(brentq(along, solver.t_old, solver.t, xtol=1e-15, rtol=1e-13))


def _standing(atoms: Atoms) -> Leg:
    return Leg(atoms.positions, -math.inf, 0.0, 0.0, (), np.empty((0, 4)), "arclength", balanced=True)
