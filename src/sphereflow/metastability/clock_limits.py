r"""Merging times in the rescaled clock of the staircase as $\beta\to\infty$.

With the gluing of the theorem, at $r_c=1/\sqrt{\beta\log\beta}$, USA merges in the clock
$d\tau=e^{-\beta(1-\cos)}dt/\log\beta$ of the nearest pair at times

$$T_k-T_{k-1}=\frac{\log\big(\tan(u_k/2)/\tan(r_c/2)\big)}{c_k\log\beta}
  =\frac1{2c_k}\Big(1+\frac{\log\log\beta}{\log\beta}\Big)+\frac{\log(2\tan(u_k/2))}{c_k\log\beta}+\dots,$$

$u_k$ the gap and $c_k$ the mass of the pair, up to $e^{-\beta\Delta}$ with $\Delta$ the lead of the pair in cosine. The
limits $\sum_l1/2c_l$ are reached as slowly as $\log\log\beta/\log\beta$: at $\beta=4000$ a time may still be a third
off, and it need not even approach from one side. So limits are extrapolated, by least squares in $1$,
$-2\log\tan(r_c/2)/\log\beta-1$ and $1/\log\beta$; the error is the most that leaving out one $\beta$, or the two
smallest, changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.metastability.coarsen import coarsen_to_one
from sphereflow.metastability.slow import clock_radius
from sphereflow.reading import brief_value, real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

_LEAST_BETA, _MOST_BETA = 20.0, 1e6  # below, the gluing distance is no longer small


@dataclass(frozen=True, eq=False, repr=False)
class ClockTimes(Result):
    r"""`clocks[b, k]` is $T_{k+1}(\beta_b)$; `limits` with their `errors` the extrapolated ones.

    `pair_limits` are $\sum_l1/2c_l$, with the masses of the pairs that met at the largest beta, `energies[b, k]` is the
    normalised energy a third into plateau k, between $T_k$ and $T_{k+1}$.
    """

    betas: Float[np.ndarray, " b"]
    clocks: Float[np.ndarray, "b k"]
    limits: Float[np.ndarray, " k"]
    errors: Float[np.ndarray, " k"]
    pair_limits: Float[np.ndarray, " k"]
    energies: Float[np.ndarray, "b k"]

    def variables(self) -> Variables:
        return {
            "beta": ("beta", self.betas),
            "clock": (("beta", "merger"), self.clocks),
            "energy": (("beta", "merger"), self.energies),
            "limit": ("merger", self.limits),
            "error": ("merger", self.errors),
            "pair_limit": ("merger", self.pair_limits),
        }

    def facts(self) -> list[str]:
        limits = ", ".join(f"{v:.5g} +- {e:.1g}" for v, e in zip(self.limits, self.errors, strict=True))
        return [
            f"{self.clocks.shape[1]} mergers, beta = {self.betas[0]:g} to {self.betas[-1]:g}",
            f"limits {limits}",
        ]


@recorded_call
def clock_times(
    x0: ArrayLike,
    betas: Sequence[float] | np.ndarray = (100.0, 200.0, 500.0, 1000.0, 2000.0, 4000.0),
    *,
    masses: ArrayLike | None = None,
    tol: float = 1e-9,
) -> ClockTimes:
    r"""Merging times of tokens x0 under USA in the rescaled clock, for at least four betas, and their limits.

    The pairs must meet in the same order at every beta: choose betas large enough for that.
    """
    values = np.unique(real_array("betas", betas))
    if len(values) < 4 or values[0] < _LEAST_BETA or values[-1] > _MOST_BETA:
        raise SphereflowError(
            f"betas must be at least four different numbers between 20 and 1e6, got {brief_value(values.tolist())}."
        )
    radii = [2 * math.sin(clock_radius(float(b)) / 2) for b in values]
    runs = [
        coarsen_to_one("usa", x0, float(b), masses=masses, radius=r, errors=False, tol=tol)
        for b, r in zip(values, radii, strict=True)
    ]
    last = runs[-1]
    for b, run in zip(values, runs, strict=True):
        if run.count > 1 or run.sequence() != last.sequence():
            raise SphereflowError(
                f"at beta={b:g} other pairs meet than at beta={values[-1]:g}, or not all: give larger betas, "
                f"or move a token a little."
            )
    clocks = np.array([[m.clock for m in run.merges] for run in runs])
    if not (clocks > 0).all():
        raise SphereflowError(
            f"tokens of x0 must be farther apart than {radii[0]:.3g}, where the least beta glues them."
        )
    limits = _extrapolated(values, clocks)
    dropped = [[k] for k in range(len(values))] + ([[0, 1]] if len(values) > 4 else [])
    without = [_extrapolated(np.delete(values, k), np.delete(clocks, k, axis=0)) for k in dropped]
    errors = np.max(np.abs(np.array(without) - limits), axis=0)
    pair_limits = np.cumsum([1 / (2 * (m.mass_left + m.mass_right)) for m in last.merges])
    energies = np.array([_a_third_in(run.curve, row) for run, row in zip(runs, clocks, strict=True)])
    return ClockTimes(values, clocks, limits, errors, pair_limits, energies)


def _extrapolated(betas: np.ndarray, clocks: np.ndarray) -> Float[np.ndarray, " k"]:
    log = np.log(betas)
    glued = -2 * np.log(np.tan(0.5 / np.sqrt(betas * log))) / log - 1
    design = np.stack([np.ones_like(log), glued, 1 / log], axis=1)
    return np.asarray(np.linalg.lstsq(design, clocks, rcond=None)[0][0])


def _a_third_in(curve: np.ndarray, clocks: np.ndarray) -> Float[np.ndarray, " k"]:
    """The energy a third into every plateau, from the rows (log t, energy, clock, length, count) of a run."""
    starts = np.concatenate([[0.0], clocks[:-1]])
    return np.interp(starts + (clocks - starts) / 3, curve[:, 2], curve[:, 1])
