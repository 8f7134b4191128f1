r"""The theory's profile fitted to a measured one, beside rivals that know no theory.

$$y(s)=A+B\,k_\lambda(1,s)\,\psi_c(Y(s)),\qquad B\ge0,\qquad Y=\log\frac{e^\lambda-1}{e^{\lambda s}-1}.$$

Inverse temperature and time enter through $c=a_n(\beta)\,t$ alone, so one profile cannot distinguish them: c and the
slope $\lambda$ are fitted, and $(\beta,t)$ is a curve. The profile has recency (rises at its end) as long as
$c<2(1-e^{-\lambda})$. Rivals: constant, line, parabola, an exponential from the first place or from the last one, and
both. All by least squares on the mean over units; with p numbers fitted (the variance is one of them) to m positions,

$$\mathrm{AICc}=m\log\frac{\mathrm{SSE}}m+2p+\frac{2p(p+1)}{m-p-1}.$$

Intervals come from units drawn with replacement; c and the slope are searched for in a box, and `at_edge` says when the
best ones lie on its edge, which means that no such profile fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares, minimize

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.retrieval.bessel import graphon, growth_rates, psi, separation
from sphereflow.retrieval.shape_test import measured_rows
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVALS = ("constant", "linear", "quadratic", "primacy", "recency", "two exponentials")
# How many numbers each curve fits, the variance among them.
NUMBERS = {
    "theory": 5,
    "constant": 2,
    "linear": 3,
    "quadratic": 4,
    "primacy": 4,
    "recency": 4,
    "two exponentials": 6,
}
C_BOX, SLOPE_BOX, LENGTH_BOX = (0.01, 12.0), (0.1, 50.0), (0.005, 5.0)
_GRID, _LENGTHS = 48, 40
_INTERVAL = (16.0, 84.0)


@dataclass(frozen=True, eq=False, repr=False)
class FittedProfile(Result):
    """The mean profile, the theory's curve with c and slope, and sums of squares and AICc of it and its rivals.

    `c_draws` and `slope_draws` are the fits of units drawn with replacement.
    """

    places: Float[np.ndarray, " positions"]
    mean: Float[np.ndarray, " positions"]
    error: Float[np.ndarray, " positions"]
    c: float
    slope: float
    offset: float
    scale: float
    at_edge: bool
    curves: dict[str, Float[np.ndarray, " positions"]]
    aicc: dict[str, float]
    c_draws: Float[np.ndarray, " draws"]
    slope_draws: Float[np.ndarray, " draws"]

    derived = ("best", "recency", "c_interval", "slope_interval")

    @property
    def sse(self) -> dict[str, float]:
        """Sum of squares that each curve leaves."""
        return {name: float(np.sum((self.mean - curve) ** 2)) for name, curve in self.curves.items()}

    @property
    def noise(self) -> float:
        """The sum of squares that the errors of the mean alone would leave."""
        return float(np.sum(self.error**2))

    @property
    def best(self) -> str:
        """The curve of least AICc."""
        return min(self.aicc, key=lambda name: self.aicc[name])

    @property
    def recency(self) -> bool:
        """Whether the fitted curve of theory rises at its end."""
        return bool(self.scale > 0 and self.c < -2 * np.expm1(-self.slope))

    @property
    def c_interval(self) -> tuple[float, float]:
        """16 and 84 per cent of the draws."""
        low, high = np.percentile(self.c_draws, _INTERVAL)
        return float(low), float(high)

    @property
    def slope_interval(self) -> tuple[float, float]:
        low, high = np.percentile(self.slope_draws, _INTERVAL)
        return float(low), float(high)

    def times(self, beta: ArrayLike) -> Float[np.ndarray, " betas"]:
        r"""The curve $t(\beta)=c/\max_na_n(\beta)$ on which temperature and time cannot be distinguished."""
        betas = np.atleast_1d(real_array("beta", beta))
        return np.array([self.c / growth_rates(float(b)).max() for b in betas])

    def facts(self) -> list[str]:
        loss = self.aicc["theory"] - min(v for k, v in self.aicc.items() if k != "theory")
        rank = "best of all curves" if loss < 0 else f"loses to {self.best} by {loss:.1f} of AICc"
        edge = "; at the edge of the box: no profile of the theory fits" if self.at_edge else ""
        return [
            f"theory's curve {rank}{edge}",
            f"c = {self.c:.3g} ({self.c_interval[0]:.3g} to {self.c_interval[1]:.3g}), slope {self.slope:.3g} "
            f"({self.slope_interval[0]:.3g} to {self.slope_interval[1]:.3g}), 16 to 84 %; "
            f"{'with' if self.recency else 'without'} recency",
            "sums of squares: "
            + ", ".join(f"{name} {value:.3g}" for name, value in self.sse.items())
            + f" (noise {self.noise:.3g})",
        ]

    def variables(self) -> Variables:
        curves: Variables = {name.replace(" ", "_"): ("place", curve) for name, curve in self.curves.items()}
        return curves | {
            "place": ("place", self.places),
            "mean": ("place", self.mean),
            "error": ("place", self.error),
            "c_draws": ("draw", self.c_draws),
            "slope_draws": ("draw", self.slope_draws),
        }

    def plot(self) -> Figure:
        """The measured profile with standard errors, the theory's curve and its rivals."""
        from sphereflow.pictures import PALETTE, styled_figure

        with styled_figure(6.4, 3.8) as figure:
            ax = figure.subplots()
            ax.errorbar(self.places, self.mean, self.error, fmt="o", ms=4, capsize=2, color="0.3", label="measured")
            for name, colour in (("theory", PALETTE[1]), ("quadratic", PALETTE[2]), ("two exponentials", PALETTE[0])):
                ax.plot(self.places, self.curves[name], color=colour, label=name)
            ax.set(xlabel="place of the source", xlim=(0, 1))
            ax.legend(loc="best")
        return figure


@recorded_call
def fit_profile(
    rows: ArrayLike, positions: ArrayLike | None = None, *, repeats: int = 200, seed: Seed = 0
) -> FittedProfile:
    """Fit the theory's profile and its rivals to one measured by independent units.

    **Arguments:** `rows` of shape (units, positions), at least eight positions; `positions` their places in (0, 1),
    centres of equal cells by default; `repeats` draws of units for the intervals.
    """
    rng = rng_from(seed)
    table = measured_rows(rows)
    units, m = table.shape
    if m < 8:
        raise SphereflowError(f"a fit of six numbers needs at least 8 positions, got {m}.")
    repeats = whole_number("repeats", repeats, least=2)
    places = (np.arange(m) + 0.5) / m if positions is None else real_array("positions", positions, shape=(m,))
    if (places <= 0).any() or (places >= 1).any() or (np.diff(places) <= 0).any():
        raise SphereflowError("positions must increase inside (0, 1).")
    mean, error = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(units)
    if np.ptp(mean) <= 1e-12 * np.abs(mean).max():
        raise SphereflowError("rows have the same mean at every position: any curve fits them, so none is chosen.")
    grid = _Grid(places)
    drawn = rng.multinomial(units, np.full(units, 1 / units), size=repeats) @ table / units
    c_draws, slope_draws = np.array([grid.refined(y) for y in drawn]).T
    c, slope = grid.refined(mean)
    offset, scale = _line(mean, wave(places, c, slope))
    curves = {"theory": offset + scale * wave(places, c, slope)} | rival_curves(places, mean)
    aicc = {name: corrected_aic(float(np.sum((mean - curve) ** 2)), m, NUMBERS[name]) for name, curve in curves.items()}
    edge = any(value <= low * 1.01 or value >= high / 1.01 for value, (low, high) in ((c, C_BOX), (slope, SLOPE_BOX)))
    return FittedProfile(
        places, mean, error, c, slope, offset, scale, edge or scale == 0.0, curves, aicc, c_draws, slope_draws
    )


def wave(places: ArrayLike, c: ArrayLike, slope: float) -> Float[np.ndarray, "*any positions"]:
    r"""$k_\lambda(1,s)\,\psi_c(Y)$."""
    return np.asarray(graphon(1.0, places, slope) * psi(c, separation(1.0, places, slope)))


def corrected_aic(misfit: float, m: int, p: int) -> float:
    """Akaike's criterion with its correction for few data; minus infinity where nothing is left."""
    if misfit <= 0:
        return float("-inf")
    return float(m * np.log(misfit / m) + 2 * p + 2 * p * (p + 1) / (m - p - 1))


def rival_curves(s: Float[np.ndarray, " m"], y: Float[np.ndarray, " m"]) -> dict[str, Float[np.ndarray, " m"]]:
    """Least squares of every rival; lengths of exponentials are searched for on a grid, then refined."""
    lengths = np.geomspace(*LENGTH_BOX, _LENGTHS)
    one = np.ones_like(s)

    def first(length: ArrayLike) -> np.ndarray:
        return np.asarray(np.exp(-s / np.asarray(length)[..., None]))

    def last(length: ArrayLike) -> np.ndarray:
        return np.asarray(np.exp(-(1 - s) / np.asarray(length)[..., None]))

    def search(columns: list[Callable[[ArrayLike], np.ndarray]]) -> np.ndarray:
        """The best lengths, one per exponential."""
        grids = np.meshgrid(*[lengths] * len(columns), indexing="ij")
        shape = grids[0].shape
        design = np.stack(
            [np.broadcast_to(one, (*shape, len(s))), *[f(g) for f, g in zip(columns, grids, strict=True)]], -1
        )
        q = np.linalg.qr(design.reshape(-1, len(s), len(columns) + 1))[0]
        explained = np.sum(np.einsum("gmk,m->gk", q, y) ** 2, axis=1)
        at = np.unravel_index(int(np.argmax(explained)), shape)
        start = np.log([lengths[k] for k in at])

        def misfit(logs: np.ndarray) -> float:
            inside = np.clip(np.exp(logs), *LENGTH_BOX)
            matrix = np.stack([one, *[f(v) for f, v in zip(columns, inside, strict=True)]], axis=-1)
            return float(np.sum((y - _solved(matrix, y)) ** 2))

        minimum = minimize(
            misfit, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-15, "maxiter": 2000}
        )
        return np.clip(np.exp(minimum.x), *LENGTH_BOX)

    (a,), (b,), (c, d) = search([first]), search([last]), search([first, last])
    designs = {
        "constant": [one],
        "linear": [one, s],
        "quadratic": [one, s, s**2],
        "primacy": [one, first(a)],
        "recency": [one, last(b)],
        "two exponentials": [one, first(c), last(d)],
    }
    return {name: _solved(np.stack(columns, axis=-1), y) for name, columns in designs.items()}


def _solved(matrix: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The projection of y on the columns."""
    return np.asarray(matrix @ np.linalg.lstsq(matrix, y, rcond=None)[0])


def _line(y: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """Offset and scale >= 0 of the least squares of y on x."""
    centred = x - x.mean()
    scale = max(0.0, float(centred @ y / (centred @ centred)))
    return float(y.mean() - scale * x.mean()), scale


class _Grid:
    """Curves of the theory over the box, centred and of length one."""

    def __init__(self, places: np.ndarray):
        self._places = places
        self._c, self._slopes = np.geomspace(*C_BOX, _GRID), np.geomspace(*SLOPE_BOX, _GRID)
        rows = np.stack([wave(places[None], self._c[:, None], float(slope)) for slope in self._slopes], axis=1)
        rows = rows - rows.mean(axis=-1, keepdims=True)
        self._units = unit(rows).reshape(-1, len(places))

    def refined(self, y: Float[np.ndarray, " m"]) -> tuple[float, float]:
        """(c, slope) of the best curve: the best node of the grid, and on from there."""
        at = int(np.argmax(self._units @ y))  # the scale is not negative
        low, high = np.log([C_BOX, SLOPE_BOX]).T

        def left(logs: np.ndarray) -> np.ndarray:
            curve = wave(self._places, *(float(v) for v in np.exp(logs)))
            offset, scale = _line(y, curve)
            return np.asarray(y - offset - scale * curve)

        start = np.log([self._c[at // _GRID], self._slopes[at % _GRID]])
        minimum = least_squares(
            left, np.clip(start, low + 1e-6, high - 1e-6), bounds=(low, high), xtol=1e-10, ftol=1e-10
        )
        c, slope = np.exp(minimum.x)
        return float(c), float(slope)
