r"""Concentration on the circle for any V and B: weighted tokens, graded towards the divide, and $W_p$ itself.

$$\dot x=P_xV\,\frac{\int y\,e^{\beta x^\top By}\mu(dy)}{\int e^{\beta x^\top By}\mu(dy)},\qquad
  W_p(\mu_\beta(t),\Pi_\#\mu_0),\quad \Pi(x)=\frac{P_Ex}{|P_Ex|},$$

with the masses of the push-forward enforced: at finite temperature the divide $\{P_Ex=0\}$ between the two basins
moves, by a mass of order $1/\beta$ that equal tokens do not resolve and that counts in $W_2$ as much as the width of
the clusters. So the law is held by Gauss panels, graded from the divides outwards: $W_2$ to about a percent.
Three numbers are not to be confused:
the distance D to the support of the push-forward, $W_p$, and the distance L in which every token goes to its own limit;
$D\le W_p\le L$.

At zero temperature (`beta` infinite) a token attends to the direction in the support of the law that is nearest to
$B^\top x$: for a law on an arc that may be the end of the arc, and the limit is then another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from sphereflow.errors import SphereflowError, real_number
from sphereflow.meanfield.circle_density import save_times
from sphereflow.meanfield.concentrating import ConcentratingLaw, fill_two_atoms
from sphereflow.meanfield.zero_temperature import Concentration, concentration
from sphereflow.numerics.quadrature import panels
from sphereflow.numerics.unit_vectors import unit
from sphereflow.observables.circle_distance import circle_wasserstein
from sphereflow.reading import density_values, real_array
from sphereflow.results import Variables, recorded_call, span
from sphereflow.shapes import ArrayLike

_ORDERS = (2, 4)  # of Gauss: in narrow panels, whose mass is small, and in wide ones
_WIDEST = 0.2
# The divide moves by about 1/(2 beta): up to six times as far panels grow slowly, from a small one at the divide.
_FINEST, _SLOW, _FAST, _MOVES = 1e-4, 1.15, 1.8, 3.0


@dataclass(frozen=True, eq=False, repr=False)
class CircleConcentration(ConcentratingLaw):
    """Angles (T, n) of weighted tokens at the times `ts`; `limit` knows the projection, `beta` may be infinite."""

    beta: float
    limit: Concentration
    angles: Float[np.ndarray, "T n"]
    masses: Float[np.ndarray, " n"]

    @property
    def places(self) -> Float[np.ndarray, " n"]:
        r"""The angle of $\Pi(x)$ for every token as it started."""
        return _angles(self.limit.limit(_points(self.angles[0])))

    @property
    def first_mass(self) -> float:
        """The mass of the push-forward at the direction of `limit.basis`, where it has two atoms."""
        return float(self.masses[self._side() > 0].sum())

    def wasserstein(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """W_p to the push-forward of the initial law, exact for these tokens."""
        p = real_number("p", p, least=1)
        if self.limit.k == 2:  # the push-forward is the initial law
            weights = {"theta_weights": self.masses, "phi_weights": self.masses}
            return np.array([circle_wasserstein(row, self.places, p, **weights) for row in self.angles])
        near = np.abs(_wrapped(self.angles - _angles(self.limit.basis.T)))
        return np.array([fill_two_atoms(row, np.pi - row, self.masses, self.first_mass, p) for row in near])

    def support_distance(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """D: the distance to the support of the push-forward, its masses not asked for."""
        p = real_number("p", p, least=1)
        if self.limit.k == 2:
            raise SphereflowError("the push-forward is the initial law: its support is not a few points.")
        return self._to_axis(self.limit.basis[:, 0], p)

    def label_distance(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """L: every token to its own limit."""
        p = real_number("p", p, least=1)
        return np.asarray((np.abs(_wrapped(self.angles - self.places)) ** p @ self.masses) ** (1 / p))

    def top_distance(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """The distance to the leading axis of V; zero if V is a multiple of the identity."""
        p = real_number("p", p, least=1)
        values, vectors = np.linalg.eig(self.limit.value)
        slack = 1e-9 * max(1.0, float(np.abs(values).max()))
        if abs(values[0] - values[1]) < slack:
            return np.zeros(len(self.ts))
        if np.abs(values.imag).max() > slack:
            raise SphereflowError("the eigenvalues of V are complex: clusters turn for ever and have no last place.")
        return self._to_axis(vectors[:, int(np.argmax(values.real))].real, p)

    def _to_axis(self, e: np.ndarray, p: float) -> np.ndarray:
        off = np.mod(self.angles - math.atan2(e[1], e[0]) + np.pi / 2, np.pi) - np.pi / 2
        return np.asarray((np.abs(off) ** p @ self.masses) ** (1 / p))

    def _side(self) -> np.ndarray:
        return np.asarray(_points(self.angles[0]) @ self.limit.projector.T @ self.limit.basis[:, 0])

    def variables(self) -> Variables:
        return {
            "t": ("t", self.ts),
            "angle": (("t", "token"), self.angles),
            "mass": ("token", self.masses),
            "W_1": ("t", self.wasserstein(1)),
            "W_2": ("t", self.wasserstein(2)),
            "label_distance": ("t", self.label_distance()),
        }

    def facts(self) -> list[str]:
        many = f"{len(self.masses)} weighted tokens on the circle, beta = {self.beta:g}, {span(self.ts)}"
        return [many, *self.phases("W_2 to the push-forward")]


@recorded_call
def concentrate(
    value: ArrayLike,
    form: ArrayLike | None = None,
    beta: float = 100.0,
    density: Callable[[np.ndarray], np.ndarray] | None = None,
    t1: float | None = None,
    *,
    support: Sequence[float] | None = None,
    saveat: int | Sequence[float] | np.ndarray = 81,
    tol: float = 1e-6,
) -> CircleConcentration:
    r"""Follow a law on the circle at low temperature and measure its distance to the push-forward at all saved times.

    **Arguments:**

    - `value`, `form`: V and B (the identity by default), 2 x 2; `beta` may be infinite.
    - `density`: a function of the angle, not normalised; uniform by default. `support`: the two ends of an arc outside
      of which there is nothing, the circle by default.
    - `t1`: final time, 10 by default; `saveat`: as for `evolve_density`.

    ```python
    import numpy as np
    import sphereflow as sf
    run = sf.meanfield.concentrate(np.diag([1.0, 0.5]), np.diag([0.2, 1.0]), beta=30.0, t1=12.0)
    run.best(2), run.exit_time()
    ```
    """
    limit = concentration(real_array("value", value), None if form is None else real_array("form", form))
    if limit.value.shape != (2, 2):
        raise SphereflowError(f"value and form must be 2 x 2 on the circle, got {limit.value.shape}.")
    beta = math.inf if beta == math.inf else real_number("beta", beta, above=0, most=1e5)
    tol, times = real_number("tol", tol, least=1e-12, most=1e-2), save_times(t1, saveat, usual=10.0)
    arc = None if support is None else _arc(support)
    sharp = beta * float(np.linalg.norm(limit.form, 2)) if math.isfinite(beta) else 100.0
    theta, masses = _nodes(limit, density, arc, sharp)
    turn = limit.value.T
    if math.isinf(beta) and arc is not None:  # its two ends follow as tokens without mass
        theta, masses = np.concatenate([theta, arc]), np.append(masses, [0.0, 0.0])

    def speed(t: float, at: np.ndarray) -> np.ndarray:
        x = _points(at)
        attended = _attended(x, at, masses, limit.form, beta, arc is not None)
        out = attended @ turn
        return np.asarray(out[:, 1] * x[:, 0] - out[:, 0] * x[:, 1])

    solution = solve_ivp(speed, (0.0, times[-1]), theta, method="DOP853", t_eval=times, rtol=tol, atol=tol)
    if not solution.success:
        raise SphereflowError("the law could not be followed to the end: try a smaller t1 or a larger tol.")
    return CircleConcentration(times, beta, limit, solution.y.T, masses)


def _attended(
    x: np.ndarray, theta: np.ndarray, masses: np.ndarray, form: np.ndarray, beta: float, on_arc: bool
) -> np.ndarray:
    """The attention average of every token; at zero temperature the nearest direction of the support."""
    keys = x @ form
    if math.isfinite(beta):
        # Outer products and sums by rows: matrix products as thin as these are slower, threads and all.
        scores = np.multiply.outer(beta * keys[:, 0], x[:, 0]) + np.multiply.outer(beta * keys[:, 1], x[:, 1])
        scores -= scores.max(axis=1, keepdims=True)
        weights = np.exp(scores, out=scores)
        total, *moments = (np.einsum("ij,j->i", weights, masses * column) for column in (1.0, x[:, 0], x[:, 1]))
        return np.stack(moments, axis=1) / total[:, None]
    if not on_arc:
        return unit(keys)
    low, high = theta[-2], theta[-1]
    middle = (low + high) / 2
    off = _wrapped(_angles(keys) - middle)
    return _points(middle + np.clip(off, low - middle, high - middle))


def _nodes(
    limit: Concentration, density: Callable[[np.ndarray], np.ndarray] | None, arc: np.ndarray | None, sharp: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss panels on the circle or on the arc, graded towards the divides and towards the ends of an arc."""
    start, stop = (-np.pi, np.pi) if arc is None else (float(arc[0]), float(arc[1]))
    cuts = [start, stop]
    if limit.k == 1:
        left = limit.projector[int(np.argmax(np.abs(limit.basis[:, 0])))]  # a multiple of the left eigenvector
        divide = math.atan2(left[0], -left[1])
        turns = divide + np.pi * np.arange(-6, 7)
        cuts += [float(t) for t in turns if start < t < stop]
        if arc is None:  # begin at a divide
            cuts = sorted(float(t) for t in turns)[6:9]
    borders = np.unique(np.concatenate([_graded(a, b, sharp) for a, b in pairwise(sorted(cuts))]))
    widths = np.diff(borders)
    narrow = widths < 0.25 * widths.max()
    ends = np.stack([borders[:-1], borders[1:]], axis=1)
    parts = [panels(ends[chosen], order) for chosen, order in zip((narrow, ~narrow), _ORDERS, strict=True)]
    theta, masses = (np.concatenate([part[k].ravel() for part in parts]) for k in (0, 1))
    masses = masses * (1.0 if density is None else density_values("density", density, theta))
    occupied = masses > 0
    return theta[occupied], masses[occupied] / masses.sum()


def _graded(a: float, b: float, sharp: float) -> np.ndarray:
    """Borders from a to b: fine at both ends, growing to the widest panel in the middle, half a kernel's width."""
    widest = min(_WIDEST, 1.5 / math.sqrt(sharp))
    width, steps, total = min(_FINEST, 0.02 / sharp, (b - a) / 8), [], 0.0
    while total + width < (b - a) / 2:
        steps.append(width)
        total += width
        width = min(width * (_SLOW if total < _MOVES / sharp else _FAST), widest)
    left = a + np.concatenate([[0.0], np.cumsum(steps)])
    return np.concatenate([left, (a + b) - left])


def _arc(support: Sequence[float]) -> np.ndarray:
    ends = real_array("support", support, shape=(2,))
    if not 0 < ends[1] - ends[0] < 2 * np.pi:
        raise SphereflowError(f"support must be two increasing angles less than a turn apart, got {support!r}.")
    return ends


def _points(theta: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


def _angles(x: np.ndarray) -> np.ndarray:
    return np.arctan2(x[..., 1], x[..., 0])


def _wrapped(angle: np.ndarray) -> np.ndarray:
    return np.mod(angle + np.pi, 2 * np.pi) - np.pi
