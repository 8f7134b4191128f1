r"""What a run at low temperature shows: the best moment of concentration, the exit, the terminal phase.

A law that concentrates gives its distance $W_p$ to the push-forward $\Pi_\#\mu_0$ at all saved times; the rest is read
off. Minima are taken by a parabola through the three lowest samples, passages by straight lines.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class ConcentratingLaw(Result):
    """What flows at low temperature share; they have times `ts` and know their distances."""

    ts: Float[np.ndarray, " T"]

    def wasserstein(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """W_p to the push-forward of the initial law."""
        raise NotImplementedError

    def top_distance(self, p: float = 2.0) -> Float[np.ndarray, " T"]:
        """The distance to the leading eigenspace of V."""
        raise NotImplementedError

    def best(self, p: float = 2.0) -> tuple[float, float]:
        """(smallest W_p, the time of it)."""
        w = self.wasserstein(p)
        i = int(np.argmin(w))
        if i in (0, len(w) - 1):
            return float(w[i]), float(self.ts[i])
        near = slice(i - 1, i + 2)
        a, b, c = np.polyfit(self.ts[near] - self.ts[i], w[near], 2)
        return float(c - b * b / (4 * a)), float(self.ts[i] - b / (2 * a))

    def exit_time(self, level: float = 0.5, p: float = 2.0) -> float:
        """When W_p exceeds the level after its smallest value; infinite if it never does."""
        level = real_number("level", level, above=0)
        w = self.wasserstein(p)
        i = int(np.argmin(w))
        after = np.flatnonzero(w[i:] > level)
        if not after.size or not after[0]:
            return math.inf
        j = i + int(after[0])
        share = (level - w[j - 1]) / (w[j] - w[j - 1])
        return float(self.ts[j - 1] + share * (self.ts[j] - self.ts[j - 1]))

    def terminal_rates(self, p: float = 2.0) -> Float[np.ndarray, " m"]:
        """-d log(distance to the leading eigenspace of V)/dt between saved times."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(-np.diff(np.log(self.top_distance(p))) / np.diff(self.ts))

    def phases(self, name: str) -> list[str]:
        """The three phases as facts."""
        value, at = self.best()
        leave = self.exit_time()
        phases = [f"smallest {name} {value:.4g} at t = {at:.4g}"]
        if math.isfinite(leave):
            phases.append(f"left at t = {leave:.4g}")
            with contextlib.suppress(SphereflowError):  # a V that turns the clusters has no leading space
                phases.append(f"{self.top_distance()[-1]:.3g} from the axis of V at the end")
        return phases

    def plot(self) -> Figure:
        """W_1 and W_2 to the push-forward, and the distance to the leading eigenspace of V, against time."""
        from sphereflow.meanfield.pictures import plot_concentrating

        return plot_concentrating(self)


def fill_two_atoms(
    near: Float[np.ndarray, " n"],
    far: Float[np.ndarray, " n"],
    masses: Float[np.ndarray, " n"],
    first_mass: float,
    p: float,
) -> float:
    """W_p from weighted tokens to two atoms, by distances to the first and the second; one token may be divided.

    The optimal plan fills the first atom, of mass `first_mass`, with the tokens that gain most by going there.
    """
    first, second = near**p, far**p
    gain = first - second
    order = np.argsort(gain)
    begun = np.cumsum(masses[order]) - masses[order]
    filled = np.clip(first_mass - begun, 0, masses[order])
    return float((masses @ second + filled @ gain[order]) ** (1 / p))
