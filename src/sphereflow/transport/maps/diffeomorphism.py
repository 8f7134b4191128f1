r"""A diffeomorphism of a rectangle and its push-forward, by one schedule: $\varphi\approx s_2\circ\nabla\psi\circ s_1$.

$s_1$ sorts the cells of a lattice of side h by their Jacobian into columns; the compressible part
$\nabla\psi(x)=(T(x_1),x_2)$, T increasing and piecewise linear, stretches column k by $q_k/\kappa$; and $s_2$ permutes
the fine cells of side $h/\kappa$ to where $\varphi$ wants them. $s_1$ and $s_2$ are products of 3-cycles of cells and
keep volume exactly, so the log-determinant is $\log(q_k/\kappa)$ and nothing else: the error of the map and the total
variation between the push-forwards fall together. Whole numbers $q_k$ make the stretched columns end on the fine
lattice; with other slopes fine cells straddle unrelated columns and the error does not fall at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.affine import affine_schedule
from sphereflow.transport.euclidean.monotone import piecewise_linear
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps.cell_permutations import route, route_schedule
from sphereflow.transport.maps.smooth_map import SmoothMap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESOLUTION = 8  # points per side of a cell in averages over it
_LARGEST_ASSIGNMENT = 2500  # beyond this the exact assignment takes minutes, and sorting by rows takes over
_UNIT = ((0.0, 1.0), (0.0, 1.0))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MapFit(Result):
    """A schedule whose map is close to phi on the box and whose push-forward is close to that of phi.

    `parts` are s_1, T and s_2; `slopes` the q_k / kappa of the columns; `assigned` the root mean square distance from
    where phi wants a fine cell to the cell it is sent to; `rounding` the mean of |det D phi - slope|.
    """

    schedule: Schedule
    parts: tuple[Schedule, Schedule, Schedule]
    phi: SmoothMap
    box: tuple[tuple[float, float], tuple[float, float]]
    slopes: Float[np.ndarray, " n"]
    assigned: float
    rounding: float
    cycles: tuple[int, int]

    def errors(self, density: Callable[[Any], Any] | None = None, *, points: int = 12_000, seed: Seed = 0) -> MapErrors:
        """Error of the map and of the push-forward of `density` (uniform unless given), from points of the box."""
        (low_1, high_1), (low_2, high_2) = self.box
        unit = rng_from(seed).uniform(size=(whole_number("points", points), 2))
        x = np.array([low_1, low_2]) + unit * np.array([high_1 - low_1, high_2 - low_2])
        return map_errors(self.schedule, self.phi, x, self.box, density)

    @property
    def pieces(self) -> int:
        return self.schedule.n_pieces

    derived = ("pieces",)

    def variables(self) -> Variables:
        rows = self.schedule.arrays()
        found: Variables = {n: (("piece", *(("component",) * (v.ndim - 1))), v) for n, v in rows.items()}
        return found | {"slope": ("column", self.slopes)}

    def facts(self) -> list[str]:
        sizes = " + ".join(str(part.n_pieces) for part in self.parts)
        return [
            f"{self.schedule.n_pieces} pieces ({sizes}), {self.schedule.n_switches} switches, weights up to "
            f"{self.schedule.sup_norm():.3g}",
            f"assignment distance {self.assigned:.3g}, rounding of the Jacobian {self.rounding:.3g}",
        ]

    def plot(self) -> Figure:
        """A grid of the box, and where the schedule carries it."""
        from sphereflow.transport.pictures import draw_map

        return draw_map(self.schedule, self.box)


@dataclasses.dataclass(frozen=True)
class MapErrors:
    """Root mean square and median of |phi_theta - phi| over the box, and total variation between the push-forwards."""

    l2: float
    median: float
    tv: float

    def __str__(self) -> str:
        return f"map error {self.l2:.4g} (median {self.median:.4g}), total variation {self.tv:.4g}"


@recorded_call
def fit_map(
    phi: SmoothMap | Callable[[Any], Any],
    *,
    cells: int = 8,
    refine: int = 4,
    ramp: float = 1e-5,
    box: ArrayLike = _UNIT,
) -> MapFit:
    """The construction for a map of the plane, on `box` = ((low, high), (low, high)).

    `cells` per axis (N), `refine` (kappa) fine cells per side of a cell; the error is about 0.9/(N kappa) of the box,
    with about 16 (N kappa)^2 pieces times the area of the image. `ramp` is the width of the ramps over that of a fine
    cell. An affine map is made exactly, with 29 pieces or fewer.
    """
    n, kappa = whole_number("cells", cells, least=1), whole_number("refine", refine, least=1)
    ramp = real_number("ramp", ramp, least=1e-6, most=0.1)
    corner, size = _checked_box(box)
    given = phi if isinstance(phi, SmoothMap) else SmoothMap(phi)
    unit = SmoothMap(lambda u: (given(corner + size * u) - corner) / size)
    fine = _midpoints(n * kappa * _RESOLUTION)
    images, volume = unit(fine), unit.det(fine)
    if (volume <= 0).any():
        raise SphereflowError(
            "the map does not keep orientation everywhere on the box: its determinant falls to "
            f"{volume.min():.3g}, and a flow can only make maps with a positive one."
        )
    bounds = ((corner[0], corner[0] + size[0]), (corner[1], corner[1] + size[1]))
    matrix = _affine(fine, images)
    if matrix is not None:
        whole = _rescaled(affine_schedule(matrix[:2].T, matrix[2]), corner, size)
        nothing = Schedule.empty(2)
        return MapFit(whole, (nothing, whole, nothing), given, bounds, np.ones(0), 0.0, 0.0, (0, 0))
    columns, means = _columns(_cell_means(volume, n))
    q = np.maximum(1, np.round(kappa * means)).astype(int)
    sorting = route(columns)
    first = route_schedule(sorting, 1 / n, ramp / kappa)
    knots = np.arange(n + 1) / n
    stretch = piecewise_linear(knots, np.append(0.0, np.cumsum(q / (kappa * n))), 1.0, 1.0, direction=np.eye(2)[0])
    h = 1 / (n * kappa)
    blocks = np.stack(np.meshgrid(np.arange(q.sum()), np.arange(n * kappa), indexing="ij"), axis=-1).reshape(-1, 2)
    wanted = unit(np.asarray((first + stretch).pullback((blocks + 0.5) * h)[0]))
    homes = _candidates(images, volume, h, len(blocks))
    chosen = homes[_assignment(wanted / h - 0.5, homes)]
    placing = route({(int(a), int(b)): (int(c), int(d)) for (a, b), (c, d) in zip(blocks, chosen, strict=True)})
    second = route_schedule(placing, h, ramp)
    parts = _rescaled(first, corner, size), _rescaled(stretch, corner, size), _rescaled(second, corner, size)
    distance = float(np.sqrt((((wanted - (chosen + 0.5) * h) * size) ** 2).sum(axis=1).mean()))
    slope_of_cell = np.array([[q[columns[i, j][0]] / kappa for j in range(n)] for i in range(n)])
    rounding = float(np.abs(volume - _refined(slope_of_cell, len(volume))).mean())
    return MapFit(
        Schedule.join(parts), parts, given, bounds, q / kappa, distance, rounding, (len(sorting), len(placing))
    )


def map_errors(
    schedule: Schedule, phi: SmoothMap, x: Float[np.ndarray, "n d"], box: Any, density: Callable[[Any], Any] | None
) -> MapErrors:
    """Errors over points x that are uniform on the box; TV = mean of (rho(x) - rho_phi(phi_theta(x)) e^L)_+."""
    y, log_det = (np.asarray(part) for part in schedule.carry(x))
    gap = np.linalg.norm(y - phi(x), axis=1)
    low, high = np.array(box, dtype=float).T
    volume = float(np.prod(high - low))
    rho = density or (lambda points: np.full(len(points), 1 / volume))
    lattice = low + (high - low) * _midpoints(64)
    back = phi.inverse(y, lattice[cKDTree(phi(lattice)).query(y)[1]])
    inside = ((back > low) & (back < high)).all(axis=1)
    image = np.zeros(len(x))
    image[inside] = np.asarray(rho(back[inside])) / phi.det(back[inside])
    tv = volume * np.mean(np.maximum(np.asarray(rho(x)) - image * np.exp(log_det), 0.0))
    return MapErrors(float(np.sqrt(np.mean(gap**2))), float(np.median(gap)), float(tv))


def _checked_box(box: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        sides = np.array(box, dtype=float)
    except (TypeError, ValueError):
        sides = np.zeros(0)
    if sides.shape != (2, 2) or not np.isfinite(sides).all() or not (sides[:, 1] > sides[:, 0]).all():
        raise SphereflowError(f"a box is ((low, high), (low, high)) with low below high, got {box!r}.")
    return sides[:, 0], sides[:, 1] - sides[:, 0]


def _midpoints(count: int) -> Float[np.ndarray, "m 2"]:
    at = (np.arange(count) + 0.5) / count
    return np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)


def _cell_means(volume: np.ndarray, n: int) -> Float[np.ndarray, "n n"]:
    side = round(np.sqrt(len(volume))) // n
    return volume.reshape(n, side, n, side).mean(axis=(1, 3))


def _refined(cells: Float[np.ndarray, "n n"], count: int) -> np.ndarray:
    """The value of its cell for each of `count` midpoints."""
    side = round(np.sqrt(count)) // len(cells)
    return np.kron(cells, np.ones((side, side))).ravel()


def _affine(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The matrix of the map and its shift below it, if the map is affine up to rounding."""
    ones = np.column_stack([x, np.ones(len(x))])
    matrix = np.linalg.lstsq(ones, y, rcond=None)[0]
    return matrix if np.abs(ones @ matrix - y).max() < 1e-12 * (1 + np.abs(y).max()) else None


def _columns(jacobian: Float[np.ndarray, "n n"]) -> tuple[dict[tuple[int, int], tuple[int, int]], np.ndarray]:
    """Cells sorted by Jacobian into columns, each in the order of its source rows; and the mean of every column."""
    n = len(jacobian)
    # Symmetric maps have many ties, which rounding would order at random.
    order = np.argsort(np.round(jacobian.ravel(), 10), kind="stable").reshape(n, n)
    wanted: dict[tuple[int, int], tuple[int, int]] = {}
    for k, ranks in enumerate(order):
        for row, cell in enumerate(sorted(ranks, key=lambda c: (c % n, c // n))):
            wanted[int(cell // n), int(cell % n)] = (k, row)
    return wanted, jacobian.ravel()[order].mean(axis=1)


def _candidates(images: np.ndarray, volume: np.ndarray, h: float, count: int) -> np.ndarray:
    """The cells of the fine lattice that the image of the box covers most; ties go to the nearest."""
    index = np.floor(images / h).astype(int)
    low, high = index.min(axis=0) - 2, index.max(axis=0) + 3
    coverage = np.zeros(high - low)
    np.add.at(coverage, tuple((index - low).T), volume / len(volume) / h**2)
    cells = np.stack(np.meshgrid(*[np.arange(*ends) for ends in zip(low, high, strict=True)], indexing="ij"), axis=-1)
    cells = cells.reshape(-1, 2)
    distance = np.asarray(cKDTree(images).query((cells + 0.5) * h)[0])
    return cells[np.lexsort(np.stack([distance, -np.round(coverage.ravel(), 2)]))[:count]]


def _assignment(wanted: np.ndarray, homes: np.ndarray) -> np.ndarray:
    """For every wanted place the index of its cell: least sum of squares, or row by row where there are too many."""
    if len(wanted) <= _LARGEST_ASSIGNMENT:
        cost = ((wanted[:, None] - homes[None]) ** 2).sum(axis=-1)
        return linear_sum_assignment(cost)[1]
    by_row = np.lexsort((homes[:, 0], homes[:, 1]))
    _, sizes = np.unique(homes[:, 1], return_counts=True)
    chosen = np.empty(len(wanted), dtype=int)
    start = 0
    height = np.argsort(wanted[:, 1], kind="stable")
    for size in sizes:
        row = height[start : start + size]
        chosen[row[np.argsort(wanted[row, 0], kind="stable")]] = by_row[start : start + size]
        start += size
    return chosen


def _rescaled(schedule: Schedule, corner: np.ndarray, size: np.ndarray) -> Schedule:
    """The same map in the coordinates corner + size u: weights are rescaled, no piece is added."""
    a = schedule.a / size
    return Schedule(schedule.w * size, a, schedule.b - a @ corner, schedule.tau)
