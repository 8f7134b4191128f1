r"""The staircase: energy against a clock in which every merger takes a time of order one.

The theorem glues two particles of USA on the circle once they are within $r_c=1/\sqrt{\beta\log\beta}$ and runs on
$d\tau=e^{-\beta(1-\cos)}dt/\log\beta$, the cosine being that of the nearest pair farther apart than $r_c$. The unglued
dynamics is the same without gluing (tokens within $10^{-3}/\sqrt\beta$ are one atom, see `coarsen`). As
$\beta\to\infty$ both energies become a staircase, and $\log t/\beta$ of the mergers tends to the heights
$\max(1-\cos\mathrm{gap})$ of repeated merging of the closest pair.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.metastability.coarsen import coarsen_to_one
from sphereflow.metastability.history import CURVE, MergeHistory
from sphereflow.metastability.modes import UnstableModes, slow_modes
from sphereflow.metastability.slow import clock_radius
from sphereflow.numerics.unit_vectors import angles, on_the_way
from sphereflow.progress import Progress
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = ("clock", "log_t", "log_t_over_beta", "length")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Staircase(Result):
    """The unglued run, the run with the gluing of the theorem, and the limit for large beta."""

    unglued: MergeHistory
    glued: MergeHistory
    limit_heights: Float[np.ndarray, " m"]
    limit_levels: Float[np.ndarray, " m"]
    modes: tuple[UnstableModes, ...]

    def curve(self, axis: str = "log_t_over_beta", *, glued: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(abscissa, normalised energy) with the abscissa asked for."""
        one_of("axis", axis, AXES)
        run = self.glued if glued else self.unglued
        rows = run.curve[np.isfinite(run.curve[:, 0])]
        column = {"clock": rows[:, 2], "length": rows[:, 3]}
        return column.get(axis, rows[:, 0] / (run.beta if axis == "log_t_over_beta" else 1.0)), rows[:, 1]

    def plot(self) -> Figure:
        """Energy against log t / beta and against the clock, unglued and glued, with the limit."""
        from sphereflow.metastability.pictures import plot_staircase

        return plot_staircase(self)

    def variables(self) -> Variables:
        curves: Variables = {
            f"{name}_{axis}": (f"{name}_step", run.curve[:, k])
            for name, run in (("unglued", self.unglued), ("glued", self.glued))
            for k, axis in enumerate(CURVE)
        }
        limits: Variables = {
            "limit_height": ("merger", self.limit_heights),
            "limit_level": ("merger", self.limit_levels),
        }
        unstable = [modes.unstable for modes in self.modes]
        return limits | {"unstable_directions": ("plateau", np.array(unstable, dtype=int))} | curves

    def facts(self) -> list[str]:
        return self.unglued.facts()

    def summary(self) -> str:
        """The mergers of the unglued run, the slow ones last."""
        return self.unglued.summary()


@recorded_call
def staircase(
    n: int = 5,
    beta: float = 200.0,
    seed: Seed = 0,
    *,
    model: str | Dynamics = "sa",
    d: int = 2,
    x0: ArrayLike | None = None,
    progress: Progress = None,
) -> Staircase:
    """The staircase of n tokens (uniform on S^{d-1} from `seed`, or `x0`) from one call.

    `model` "sa" is softmax attention, as in `simulate`; "usa" is the model of the theorem.
    """
    kind = attention_name(model, beta)
    real_number("beta", beta, above=math.e, most=1e6)
    drawn = draw("uniform", whole_number("n", n, least=2, most=10**4), whole_number("d", d, least=2), seed)
    start = np.asarray(drawn if x0 is None else x0, dtype=float)
    unglued = coarsen_to_one(kind, start, beta, seed=seed, progress=progress)
    glued = coarsen_to_one(
        kind, start, beta, radius=min(clock_radius(beta), 0.5), errors=False, seed=seed, progress=progress
    )
    if not (unglued.outcome.complete and glued.outcome.complete):
        raise KeyboardInterrupt  # half a staircase is none
    heights, levels = limit(start, kind)
    return Staircase(unglued, glued, heights, levels, tuple(_modes(unglued, start)))


def limit(
    x0: Float[np.ndarray, "n d"], model: str | Dynamics = "usa", masses: Float[np.ndarray, " n"] | None = None
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    r"""Repeated merging of the closest pair: heights $\lim\log t/\beta$ and plateau levels after each merger.

    Clusters meet at their mean weighted by mass (USA) or by squared mass (SA): at large beta the lighter one moves by
    $(\alpha_2/\alpha_1)$ or $(\alpha_2/\alpha_1)^2$ times as much as the heavier.
    """
    x, kind = np.asarray(x0, dtype=float).copy(), attention_name(model)
    a = np.full(len(x), 1 / len(x)) if masses is None else np.asarray(masses, dtype=float).copy()
    gaps = 1 - x @ x.T
    np.fill_diagonal(gaps, np.inf)
    height, heights, levels, level = 0.0, [], [], float(np.sum(a**2))
    for _ in range(len(x) - 1):
        i, j = sorted(divmod(int(np.argmin(gaps)), len(x)))
        height = max(height, float(gaps[i, j]))
        x[i] = meeting_point(x[i], x[j], float(a[i]), float(a[j]), kind)
        level += 2 * float(a[i] * a[j])
        a[i] += a[j]
        gaps[j, :] = gaps[:, j] = np.inf
        alive = np.isfinite(gaps[i])
        gaps[i, alive] = gaps[alive, i] = 1 - x[alive] @ x[i]
        heights.append(height)
        levels.append(level)
    return np.array(heights), np.array(levels)


def well_prepared(angles: Float[np.ndarray, " n"], beta: float) -> float:
    r"""The largest c with $\cos(\theta_i-\theta_1)\ge\cos(\theta_k-\theta_i)+c\log\beta/\beta$, $2\le i\le n-1$, $k>i$.

    The staircase theorem asks for increasing angles in $[0,\pi]$ and c > 1.
    """
    theta = real_array("angles", angles, shape=("n",))
    beta = real_number("beta", beta, above=1, most=1e300)
    if not len(theta) or not (np.diff(theta) > 0).all() or theta[0] < 0 or theta[-1] > np.pi:
        raise SphereflowError("angles must increase and lie in [0, pi].")
    if len(theta) < 3:
        return math.inf
    slack = [np.cos(theta[i] - theta[0]) - np.cos(theta[i + 1] - theta[i]) for i in range(1, len(theta) - 1)]
    return float(min(slack) * beta / math.log(beta))


def meeting_point(x: np.ndarray, y: np.ndarray, a: float, b: float, kind: str) -> np.ndarray:
    """Where two clusters meet in the limit of large beta: the mean by mass (USA) or by squared mass (SA)."""
    first, second = (a, b) if kind == "usa" else (a * a, b * b)
    return on_the_way(x, y, float(angles(x, y)) * second / (first + second))


def _modes(run: MergeHistory, start: np.ndarray) -> list[UnstableModes]:
    """Slow modes right after each merger, at the configuration that the merge tree gives."""
    places = {i: start[i] for i in range(run.n)}
    masses = dict(enumerate(run.masses))
    modes = []
    for m in run.merges:
        places.pop(m.left), places.pop(m.right)
        masses[m.node] = masses.pop(m.left) + masses.pop(m.right)
        places[m.node] = np.array(m.position)
        if 2 <= len(places) <= 64:
            x = np.stack(list(places.values()))
            modes.append(slow_modes(x, np.array([masses[node] for node in places]), run.beta, run.kind))
    return modes
