r"""Is a measured profile U-shaped? A test against every decreasing and every increasing profile.

Rows are units (prompts, sets of words) that are independent of each other, columns positions; y is the mean over rows.
With the sums of squares of the best decreasing, increasing and valley-shaped (first decreasing, then increasing) fits,

$$T_{\downarrow}=\mathrm{SSE}_{\downarrow}-\mathrm{SSE}_{\vee},\qquad
  T_{\uparrow}=\mathrm{SSE}_{\uparrow}-\mathrm{SSE}_{\vee}.$$

Null: the monotone fit plus the mean of whole rows of residuals, $\sqrt{R/(R-1)}\,(y_r-y)$, drawn with replacement;
$p=(1+\#\{T^*\ge T\})/(1+\text{repeats})$. The profile is called U-shaped if both p are below the level and the lowest
part of the valley touches neither end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class ShapeTest(Result):
    """The mean profile, its three fits, and how seldom a monotone profile would look as little monotone as it does."""

    mean: Float[np.ndarray, " positions"]
    error: Float[np.ndarray, " positions"]
    decreasing: Float[np.ndarray, " positions"]
    increasing: Float[np.ndarray, " positions"]
    valley: Float[np.ndarray, " positions"]
    p_decreasing: float
    p_increasing: float
    level: float
    units: int

    derived = ("shape", "u_shaped", "interior", "valley_at")

    def misfit(self, fit: str) -> float:
        """Sum of squares of what the fit "decreasing", "increasing" or "valley" leaves."""
        return float(np.sum((self.mean - getattr(self, fit)) ** 2))

    @property
    def valley_at(self) -> tuple[int, int]:
        """First and last position of the lowest part of the valley, from 0."""
        low = np.flatnonzero(self.valley <= self.valley.min() + 1e-12 * (np.ptp(self.valley) + 1e-300))
        return int(low[0]), int(low[-1])

    @property
    def interior(self) -> bool:
        """Whether the lowest part of the valley touches neither end."""
        first, last = self.valley_at
        return first > 0 and last < len(self.mean) - 1

    @property
    def u_shaped(self) -> bool:
        return self.interior and max(self.p_decreasing, self.p_increasing) < self.level

    @property
    def shape(self) -> str:
        """In words: U-shaped, or which monotone profiles are not excluded."""
        if self.u_shaped:
            return "U-shaped"
        open_ = [name for name in ("decreasing", "increasing") if getattr(self, f"p_{name}") >= self.level]
        if not open_:
            return "neither monotone nor a valley with two ends"
        return " or ".join(open_) + " is not excluded"

    def facts(self) -> list[str]:
        first, last = self.valley_at
        where = f"position {first + 1}" if first == last else f"positions {first + 1} to {last + 1}"
        return [
            f"{self.shape}: p = {self.p_decreasing:.2g} for a decreasing profile, {self.p_increasing:.2g} for an "
            f"increasing one (level {self.level:g})",
            f"lowest at {where} of {len(self.mean)}; {self.units} units",
        ]

    def variables(self) -> Variables:
        names = ("mean", "error", "decreasing", "increasing", "valley")
        return {name: ("position", getattr(self, name)) for name in names}

    def plot(self) -> Figure:
        """The mean profile with standard errors, and the three fits."""
        from sphereflow.pictures import PALETTE, styled_figure

        at = np.arange(1, len(self.mean) + 1)
        with styled_figure(6.0, 3.6) as figure:
            ax = figure.subplots()
            ax.errorbar(at, self.mean, self.error, fmt="o", ms=4, capsize=2, color="0.3", label="measured")
            for name, colour in zip(("valley", "decreasing", "increasing"), PALETTE, strict=False):
                ax.plot(at, getattr(self, name), color=colour, label=name)
            ax.set(xlabel="position", title=self.shape)
            ax.legend(loc="best")
        return figure


@recorded_call
def u_shape(rows: ArrayLike, *, level: float = 0.01, repeats: int = 1999, seed: Seed = 0) -> ShapeTest:
    """Test a profile measured by independent units against all decreasing and all increasing profiles.

    **Arguments:** `rows` of shape (units, positions), at least three of each; `repeats` draws of units.

    ```python
    rows = np.random.default_rng(0).normal([3, 1, 0, 0, 1, 2], 1.0, size=(20, 6))
    print(sf.retrieval.u_shape(rows).shape)
    ```
    """
    rng = rng_from(seed)
    table = measured_rows(rows)
    level = real_number("level", level, above=0.0, most=0.5)
    repeats = whole_number("repeats", repeats, least=99)
    units = len(table)
    mean = table.mean(axis=0)
    residuals = (table - mean) * np.sqrt(units / (units - 1))
    fits = {"decreasing": _decreasing(mean), "increasing": _decreasing(mean[::-1])[::-1]}
    noise = rng.multinomial(units, np.full(units, 1 / units), size=repeats) @ residuals / units
    p = {}
    measured = _excess(mean[None])
    for k, (name, fit) in enumerate(fits.items()):
        drawn = _excess(fit + noise)[k]
        # A draw that is as extreme up to rounding counts as one.
        p[name] = (1 + int(np.sum(drawn >= measured[k, 0] - 1e-12 * np.sum(mean**2)))) / (1 + repeats)
    return ShapeTest(
        mean,
        table.std(axis=0, ddof=1) / np.sqrt(units),
        fits["decreasing"],
        fits["increasing"],
        _valley(mean),
        p["decreasing"],
        p["increasing"],
        level,
        units,
    )


def measured_rows(rows: ArrayLike) -> Float[np.ndarray, "units positions"]:
    """Rows of finite numbers by unit and position, enough of both."""
    table = real_array("rows (units by positions)", rows, shape=("units", "positions"))
    if table.shape[0] < 3 or table.shape[1] < 3:
        raise SphereflowError(f"rows must hold at least 3 units and 3 positions, got shape {table.shape}.")
    return np.asarray(table, dtype=float)


def _excess(y: Float[np.ndarray, "b m"]) -> Float[np.ndarray, "2 b"]:
    """Sums of squares of the decreasing and the increasing fit, less that of the valley, for every row."""
    falls = prefix_misfits(y)
    rises = prefix_misfits(y[:, ::-1])[:, ::-1]  # entry k: the increasing fit of y[k:]
    valley = (falls + rises).min(axis=1)
    return np.stack([falls[:, -1] - valley, rises[:, 0] - valley])


def prefix_misfits(y: Float[np.ndarray, "b m"]) -> Float[np.ndarray, "b k"]:
    """Sums of squares of the best decreasing fits of y[:0], y[:1], ..., y[:m], for every row of y.

    Neighbouring blocks that rise are pooled as the row is read, so every prefix is fitted on the way.
    """
    rows, m = y.shape
    y = y - y.mean(axis=1, keepdims=True)  # sums of squares then cancel little
    totals, counts, top = np.zeros((rows, m + 1)), np.zeros((rows, m + 1)), np.zeros(rows, dtype=int)
    every = np.arange(rows)
    squares, explained = np.zeros(rows), np.zeros(rows)
    misfits = np.zeros((rows, m + 1))
    for k in range(m):
        top += 1
        totals[every, top], counts[every, top] = y[:, k], 1
        squares += y[:, k] ** 2
        explained += y[:, k] ** 2
        while True:
            below = top - 1
            at = every[
                (below > 0) & (totals[every, top] * counts[every, below] > totals[every, below] * counts[every, top])
            ]
            if not len(at):
                break
            a, b = top[at], top[at] - 1
            explained[at] -= totals[at, a] ** 2 / counts[at, a] + totals[at, b] ** 2 / counts[at, b]
            totals[at, b] += totals[at, a]
            counts[at, b] += counts[at, a]
            explained[at] += totals[at, b] ** 2 / counts[at, b]
            top[at] = b
        misfits[:, k + 1] = np.maximum(squares - explained, 0.0)
    return misfits


def _decreasing(y: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """The best decreasing fit, neighbours pooled."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(y, increasing=False).x) if len(y) else np.zeros(0)


def _valley(y: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """The best fit that first decreases and then increases."""
    falls, rises = prefix_misfits(y[None])[0], prefix_misfits(y[None, ::-1])[0][::-1]
    k = int(np.argmin(falls + rises))
    return np.concatenate([_decreasing(y[:k]), _decreasing(y[k:][::-1])[::-1]])
