r"""The whole (load, temperature) plane of a kernel from closed forms and quadratures, in seconds.

Regions are those of the exact spherical layer; the lines of the published Gaussian layer are drawn beside them.

A boundary seen in a finite system after a finite time is kinetic: it is where the escape time equals the length of the
run, $\ln\tau_N(\alpha,T)=\ln t$, and it moves with both. Such curves are called crossovers here and carry N and t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.memory import compact, gaussian, spherical
from sphereflow.memory.escape import log_escape_time
from sphereflow.memory.lines import Line, check_plane, named_lines
from sphereflow.memory.state import lse_free_energy, lsr_free_energy
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sphereflow.memory.monte_carlo import MonteCarloSweep

CAUTION = (
    "Boundaries seen at finite N in a finite time are kinetic: they are where the escape time equals the length of the "
    "run and move with N and with the time. Only the lines named static, spinodal, capacity and threshold are limits."
)
REGIONS: dict[str, tuple[str, ...]] = {
    "lse": (
        "no retrieval state",
        "retrieval metastable",
        "retrieval in equilibrium, by the union of basins",
        "one basin outweighs the noise",
    ),
    "lsr": (
        "retrieval lost",
        "retrieval in equilibrium, hops between neighbours",
        "no neighbour within reach",
    ),
}
_CELLS = 500  # of an escape-time quadrature in a map: a few 1e-3 in ln(tau)


@dataclass(frozen=True, eq=False, repr=False)
class PhaseDiagram(Result):
    """Regions, lines, escape times and crossovers; grids have shape (temperatures, loads)."""

    kernel: str
    sharpness: float
    loads: Float[np.ndarray, " a"]
    temperatures: Float[np.ndarray, " t"]
    region: Int[np.ndarray, "t a"]
    published: Bool[np.ndarray, "t a"]
    lines: list[Line]
    sizes: tuple[int, ...]
    duration: float
    log_escape: dict[int, Float[np.ndarray, "t a"]] = field(default_factory=dict)

    def crossover(self, n: int) -> Float[np.ndarray, " t"]:
        r"""The largest load at which $\ln\tau_N$ is at least the logarithm of the duration, for every temperature."""
        wanted = np.log(self.duration)
        found = np.full(len(self.temperatures), np.nan)
        for row, values in enumerate(self.log_escape[n]):
            above = np.flatnonzero(values >= wanted)
            if above.size == 0:
                continue
            last = int(above[-1])
            if last + 1 == len(self.loads):
                found[row] = self.loads[-1]
                continue
            high, low = min(values[last], 1e6), values[last + 1]
            found[row] = self.loads[last] + (self.loads[last + 1] - self.loads[last]) * (high - wanted) / (high - low)
        return found

    def line(self, name: str) -> Line:
        """The line of this name."""
        for each in self.lines:
            if each.name == name:
                return each
        raise SphereflowError(
            f"there is no line '{name}'; the lines are {', '.join(each.name for each in self.lines)}."
        )

    def variables(self) -> Variables:
        """Regions of the spherical layer, retrieval in the Gaussian one, escape times, lines and crossovers."""
        plane, sizes = ("temperature", "load"), [str(n) for n in self.sizes]
        lines = np.array([np.interp(self.temperatures, x.temperatures, x.loads, np.nan, np.nan) for x in self.lines])
        return {
            "load": ("load", self.loads),
            "temperature": ("temperature", self.temperatures),
            "size": ("size", np.array(self.sizes)),
            "line": ("line", np.array([f"{line.name} ({line.layer})" for line in self.lines])),
            "region": (plane, self.region),
            "published": (plane, self.published),
            "log_escape": (("size", *plane), np.array([self.log_escape[int(n)] for n in sizes])),
            "line_load": (("line", "temperature"), lines),
            "crossover": (("size", "temperature"), np.array([self.crossover(int(n)) for n in sizes])),
        }

    def record(self) -> dict[str, Any]:
        """The numbers, with the names of the regions and what a crossover is."""
        told = {
            "regions": list(REGIONS[self.kernel]),
            "layer of the regions": "spherical",
            "criterion of a crossover": "escape time equal to the duration, in Langevin time",
            "caution": CAUTION,
        }
        return super().record() | told

    def facts(self) -> list[str]:
        symbol = "beta" if self.kernel == "lse" else "b"
        limits = f"loads up to {self.loads[-1]:.4g}, temperatures up to {self.temperatures[-1]:.4g}"
        return [
            f"{self.kernel} kernel, {symbol} = {self.sharpness:.5g}, {limits}",
            f"lines: {', '.join(dict.fromkeys(line.name for line in self.lines))}",
            f"crossovers for N = {', '.join(map(str, self.sizes))} and a run of {self.duration:g}",
        ]

    def plot(self, sweep: MonteCarloSweep | None = None) -> Figure:
        """Regions, lines and crossovers; beside them escape times, or a Monte Carlo sweep."""
        from sphereflow.memory.pictures import draw

        return draw(self, sweep)


@recorded_call
def phase_diagram(
    kernel: str = "lse",
    sharpness: float = 1.0,
    *,
    loads: Float[np.ndarray, " a"] | None = None,
    temperatures: Float[np.ndarray, " t"] | None = None,
    sizes: tuple[int, ...] = (50, 100, 300),
    duration: float = 1e5,
) -> PhaseDiagram:
    """The plane of one kernel: `sharpness` is beta of lse or b of lsr.

    `sizes` are the N for which escape times and crossovers are given, `duration` the length of a run in Langevin time.
    """
    sharpness = check_plane(kernel, sharpness)
    real_number("duration", duration, above=1)
    sizes = tuple(whole_number("each of sizes", n, least=5) for n in np.atleast_1d(np.asarray(sizes, object)))
    if loads is None:
        top = 1.25 * float(spherical.capacity(sharpness)) if kernel == "lse" else 1.6 * compact.threshold(sharpness)
        loads = np.linspace(top / 100, top, 100)
    if temperatures is None:
        temperatures = np.linspace(0.025, 2.0, 80)
    loads, temperatures = _axis("loads", loads), _axis("temperatures", temperatures)
    lines = named_lines(kernel, sharpness, temperatures, sizes)
    plane = _lse_plane if kernel == "lse" else _lsr_plane
    region, published, log_escape = plane(sharpness, loads, temperatures, sizes)
    return PhaseDiagram(kernel, sharpness, loads, temperatures, region, published, lines, sizes, duration, log_escape)


def _axis(name: str, values: np.ndarray) -> np.ndarray:
    """One axis of the plane."""
    axis = real_array(name, values, shape=("k",))
    if not len(axis) or not (axis > 0).all() or (axis > 1e6).any():
        raise SphereflowError(f"{name} must be at least one number, each above 0 and at most 1e6.")
    return axis


Plane = tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]


def _lse_plane(beta: float, loads: np.ndarray, t: np.ndarray, sizes: tuple[int, ...]) -> Plane:
    limits = [line(t, beta)[:, None] for line in (spherical.spinodal, spherical.static, spherical.equal_depth)]
    region = sum((loads < limit).astype(int) for limit in limits)
    published = lse_free_energy(t)[:, None] <= gaussian.lse_noise_floor(loads, beta)
    noise = spherical.noise_overlap(loads, beta)
    inside = noise < 1
    escape = {}
    for n in sizes:
        values = np.zeros((len(t), len(loads)))  # beyond capacity nothing has to be overcome
        values[:, inside] = log_escape_time(
            n, beta, t[:, None], noise[inside], start=_start(t, noise[inside]), cells=_CELLS, extrapolate=False
        )
        escape[n] = np.where(loads < limits[0], values, np.minimum(values, 0.0))
    return np.asarray(region), published, escape


def _start(t: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Walkers begin at the retrieval overlap, or where it would be, just above the noise, if there is none."""
    return np.maximum(spherical.lse_overlap(t)[:, None], noise)


def _lsr_plane(b: float, loads: np.ndarray, t: np.ndarray, sizes: tuple[int, ...]) -> Plane:
    region = (loads < compact.threshold(b)).astype(int) + (loads < compact.absolute_stability(t, b)[:, None])
    published = lsr_free_energy(t, b)[:, None] <= gaussian.lsr_noise_floor(loads, b)
    exponent = np.array([[compact.escape_exponent(a, temperature, b) for a in loads] for temperature in t])
    exponent = np.where(loads < compact.threshold(b), exponent, 0.0)
    # Only the exponential rate is known for the hops of the compact kernel, no prefactor.
    return np.minimum(region, 2), published, {n: n * exponent for n in sizes}
