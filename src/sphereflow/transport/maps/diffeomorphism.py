r"""A diffeomorphism of a box and its push-forward, by one schedule: $\varphi\approx s_2\circ\nabla\psi\circ s_1$.

The Lagrange interpolant $\varphi_h$ has a constant Jacobian on every simplex. $s_1$ sorts the cells of a lattice of
side h by it into columns (sheets of cells where d > 2); the compressible part $\nabla\psi(x)=(T(x_1),x_2,..,x_d)$, T
increasing and piecewise linear and so $\psi$ convex, stretches column k by $q_k/\kappa$; and $s_2$ permutes the fine
cells of side $h/\kappa$ to where $\varphi$ wants them. $s_1$ and $s_2$ are products of 3-cycles of cells and
keep volume exactly, so the log-determinant is $\log(q_k/\kappa)$ and nothing else: the error of the map and the total
variation between the push-forwards fall together. Whole numbers $q_k$ make the stretched columns end on the fine
lattice; with other slopes fine cells straddle unrelated columns and the error hardly falls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
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
from sphereflow.transport.maps.lagrange import checked_box, lagrange_interpolant
from sphereflow.transport.maps.smooth_map import SmoothMap
from sphereflow.transport.maps.space_cycles import cycle_schedule, space_route

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESOLUTION = {2: 8, 3: 4, 4: 2}  # cells of the interpolant per side of a fine cell, by dimension
_RAMP, _RAMP_IN_SPACE = 1e-5, 1e-3  # lifts in space multiply rounding by the square of one over the ramp
_LARGEST_ASSIGNMENT = 2500  # beyond this the exact assignment takes minutes, and sorting by rows takes over
_UNIT = ((0.0, 1.0), (0.0, 1.0))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MapFit(Result):
    """A schedule whose map is close to phi on the box and whose push-forward is close to that of phi.

    `parts` are s_1, T and s_2, also called `sorting`, `gradient` and `placing`: schedules that one can apply by
    themselves, in this order; `potential` is the convex function whose gradient the second makes. `slopes` are the
    q_k / kappa of the columns; `assigned` the root mean square distance from where phi wants a fine cell to the cell
    it is sent to; `rounding` the mean of |det D phi - slope|.
    """

    schedule: Schedule
    parts: tuple[Schedule, Schedule, Schedule]
    phi: SmoothMap
    box: tuple[tuple[float, float], ...]
    slopes: Float[np.ndarray, " n"]
    assigned: float
    rounding: float
    cycles: tuple[int, int]

    def errors(self, density: Callable[[Any], Any] | None = None, *, points: int = 12_000, seed: Seed = 0) -> MapErrors:
        """Error of the map and of the push-forward of `density` (uniform unless given), from points of the box."""
        low, high = np.array(self.box).T
        x = low + rng_from(seed).uniform(size=(whole_number("points", points), len(low))) * (high - low)
        return map_errors(self.schedule, self.phi, x, self.box, density)

    @property
    def sorting(self) -> Schedule:
        """s_1, which keeps volume: cells of nearly equal Jacobian are brought together."""
        return self.parts[0]

    @property
    def gradient(self) -> Schedule:
        """The compressible part, the gradient of a convex function; the only part that changes volume."""
        return self.parts[1]

    @property
    def placing(self) -> Schedule:
        """s_2, which keeps volume: fine cells are brought to where the map wants them."""
        return self.parts[2]

    def potential(self, x: ArrayLike) -> Float[np.ndarray, " n"]:
        r"""$\psi(x)=\int T\,dx_1+\frac12\sum_{k\ge2}x_k^2$ of the middle part, zero at the lowest corner in $x_1$."""
        if not len(self.slopes):
            raise SphereflowError("an affine map is made exactly by itself: there is no middle part with a potential.")
        at = np.asarray(x, dtype=float)
        (low, high), *_ = self.box
        knots = low + (high - low) * np.arange(len(self.slopes) + 1) / len(self.slopes)
        rises = np.append(low, low + np.cumsum(self.slopes * np.diff(knots)))
        areas = np.append(0.0, np.cumsum(0.5 * (rises[1:] + rises[:-1]) * np.diff(knots)))
        k = np.clip(np.searchsorted(knots, at[:, 0], side="right") - 1, 0, len(knots) - 1)
        slope = np.append(self.slopes, 1.0)[k]
        below = at[:, 0] < low
        k, slope = np.where(below, 0, k), np.where(below, 1.0, slope)
        step = at[:, 0] - knots[k]
        return areas[k] + rises[k] * step + 0.5 * slope * step**2 + 0.5 * (at[:, 1:] ** 2).sum(axis=1)

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
        """A grid of the box, and where the schedule carries it; of the plane only."""
        if len(self.box) > 2:
            raise SphereflowError(f"only maps of the plane are drawn, this one is of dimension {len(self.box)}.")
        from sphereflow.transport.pictures import draw_map

        return draw_map(self.schedule, (self.box[0], self.box[1]))


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
    ramp: float | None = None,
    box: ArrayLike = _UNIT,
) -> MapFit:
    """The construction for a map of R^d, d >= 2, on `box` = ((low, high), (low, high), ...), one pair per dimension.

    `cells` per axis (N), `refine` (kappa) fine cells per side of a cell; the error is about 0.9/(N kappa) of the box,
    with about 16 (N kappa)^2 pieces times the area of the image in the plane, and at most 8 d ceil(d/2) for each of the
    (N kappa)^d cells beyond. `ramp` is the width of the ramps over that of a fine cell, 1e-5 in the plane and 1e-3
    beyond unless given. An affine map is made exactly, in the plane with 29 pieces or fewer.
    """
    n, kappa = whole_number("cells", cells, least=1), whole_number("refine", refine, least=1)
    corner, size = checked_box(box)
    d = len(corner)
    ramp = (_RAMP if d == 2 else _RAMP_IN_SPACE) if ramp is None else real_number("ramp", ramp, least=1e-6, most=0.1)
    if d > 2 and (n * kappa) ** d > _LARGEST_ASSIGNMENT:
        raise SphereflowError(
            f"(cells * refine)^{d} must be at most {_LARGEST_ASSIGNMENT} in dimension {d}, got {(n * kappa) ** d}."
        )
    given = phi if isinstance(phi, SmoothMap) else SmoothMap(phi)
    unit = SmoothMap(lambda u: (given(corner + size * u) - corner) / size)
    count = n * kappa * _RESOLUTION[min(d, 4)]
    interpolant = lagrange_interpolant(unit, cells=count, box=((0.0, 1.0),) * d)
    jacobians = interpolant.jacobians()
    if (jacobians <= 0).any():
        raise SphereflowError(
            "the map does not keep orientation everywhere on the box: its determinant falls to "
            f"{jacobians.min():.3g}, and a flow can only make maps with a positive one."
        )
    fine, volume = midpoints(count, d), jacobians.mean(axis=0).ravel()
    images = interpolant(fine)
    bounds = tuple((float(low), float(low + length)) for low, length in zip(corner, size, strict=True))
    matrix = _affine(fine, images)
    if matrix is not None:
        whole = _rescaled(affine_schedule(matrix[:d].T, matrix[d]), corner, size)
        nothing = Schedule.empty(d)
        return MapFit(whole, (nothing, whole, nothing), given, bounds, np.ones(0), 0.0, 0.0, (0, 0))
    columns, means = _columns(_cell_means(volume, n, d))
    q = np.maximum(1, np.round(kappa * means)).astype(int)
    sorted_by, first = _routed(columns, 1 / n, ramp / kappa if d == 2 else ramp)
    knots = np.arange(n + 1) / n
    stretch = piecewise_linear(knots, np.append(0.0, np.cumsum(q / (kappa * n))), 1.0, 1.0, direction=np.eye(d)[0])
    h = 1 / (n * kappa)
    blocks = _lattice([int(q.sum())] + [n * kappa] * (d - 1))
    wanted = unit(np.asarray((first + stretch).pullback((blocks + 0.5) * h)[0]))
    homes = _candidates(images, volume, h, len(blocks))
    chosen = homes[_assignment(wanted / h - 0.5, homes)]
    placed_by, second = _routed(
        {tuple(a): tuple(b) for a, b in zip(blocks.tolist(), chosen.tolist(), strict=True)}, h, ramp
    )
    parts = _rescaled(first, corner, size), _rescaled(stretch, corner, size), _rescaled(second, corner, size)
    distance = float(np.sqrt((((wanted - (chosen + 0.5) * h) * size) ** 2).sum(axis=1).mean()))
    slope_of_cell = np.array([q[columns[tuple(cell)][0]] / kappa for cell in _lattice([n] * d).tolist()])
    rounding = float(np.abs(volume - _refined(slope_of_cell.reshape((n,) * d), count)).mean())
    return MapFit(Schedule.join(parts), parts, given, bounds, q / kappa, distance, rounding, (sorted_by, placed_by))


def _routed(wanted: dict[tuple[int, ...], tuple[int, ...]], side: float, ramp: float) -> tuple[int, Schedule]:
    """(number of 3-cycles, their pieces) of a route: 16 pieces a cycle in the plane, 8d beyond."""
    d = len(next(iter(wanted)))
    if d == 2:
        plane = route(wanted)  # type: ignore[arg-type]
        return len(plane), route_schedule(plane, side, ramp)
    cycles = space_route(wanted)
    return len(cycles), cycle_schedule(cycles, side, ramp) if cycles else Schedule.empty(d)


def map_errors(
    schedule: Schedule, phi: SmoothMap, x: Float[np.ndarray, "n d"], box: Any, density: Callable[[Any], Any] | None
) -> MapErrors:
    """Errors over points x that are uniform on the box; TV = mean of (rho(x) - rho_phi(phi_theta(x)) e^L)_+."""
    y, log_det = (np.asarray(part) for part in schedule.carry(x))
    gap = np.linalg.norm(y - phi(x), axis=1)
    low, high = np.array(box, dtype=float).T
    volume = float(np.prod(high - low))
    rho = density or (lambda points: np.full(len(points), 1 / volume))
    lattice = low + (high - low) * midpoints(64 if len(low) == 2 else 16, len(low))
    back = phi.inverse(y, lattice[cKDTree(phi(lattice)).query(y)[1]])
    inside = ((back > low) & (back < high)).all(axis=1)
    image = np.zeros(len(x))
    image[inside] = np.asarray(rho(back[inside])) / phi.det(back[inside])
    tv = volume * np.mean(np.maximum(np.asarray(rho(x)) - image * np.exp(log_det), 0.0))
    return MapErrors(float(np.sqrt(np.mean(gap**2))), float(np.median(gap)), float(tv))


def midpoints(count: int, d: int) -> Float[np.ndarray, "m d"]:
    """The middles of count^d cells of the unit cube."""
    return (_lattice([count] * d) + 0.5) / count


def _lattice(sizes: list[int]) -> Int[np.ndarray, "m d"]:
    return np.stack(np.meshgrid(*[np.arange(size) for size in sizes], indexing="ij"), axis=-1).reshape(-1, len(sizes))


def _cell_means(volume: np.ndarray, n: int, d: int) -> Float[np.ndarray, "..."]:
    side = round(len(volume) ** (1 / d)) // n
    return volume.reshape((n, side) * d).mean(axis=tuple(range(1, 2 * d, 2)))


def _refined(cells: Float[np.ndarray, "..."], count: int) -> np.ndarray:
    """The value of its cell for each of the midpoints, `count` of them per axis."""
    for axis in range(cells.ndim):
        cells = np.repeat(cells, count // cells.shape[axis], axis=axis)
    return cells.ravel()


def _affine(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The matrix of the map and its shift below it, if the map is affine up to rounding."""
    ones = np.column_stack([x, np.ones(len(x))])
    matrix = np.linalg.lstsq(ones, y, rcond=None)[0]
    return matrix if np.abs(ones @ matrix - y).max() < 1e-12 * (1 + np.abs(y).max()) else None


def _columns(jacobian: Float[np.ndarray, "..."]) -> tuple[dict[tuple[int, ...], tuple[int, ...]], np.ndarray]:
    """Cells sorted by Jacobian into columns, each in the order of its source rows; and the mean of every column."""
    n, d = len(jacobian), jacobian.ndim
    # Symmetric maps have many ties, which rounding would order at random.
    order = np.argsort(np.round(jacobian.ravel(), 10), kind="stable").reshape(n, -1)
    cells = [tuple(cell) for cell in _lattice([n] * d).tolist()]
    rows = [tuple(row)[::-1] for row in _lattice([n] * (d - 1)).tolist()]
    wanted: dict[tuple[int, ...], tuple[int, ...]] = {}
    for k, ranks in enumerate(order):
        for row, cell in zip(rows, sorted((cells[c] for c in ranks), key=lambda c: c[::-1]), strict=True):
            wanted[cell] = (k, *row)
    return wanted, jacobian.ravel()[order].mean(axis=1)


def _candidates(images: np.ndarray, volume: np.ndarray, h: float, count: int) -> np.ndarray:
    """The cells of the fine lattice that the image of the box covers most; ties go to the nearest."""
    index = np.floor(images / h).astype(int)
    low, high = index.min(axis=0) - 2, index.max(axis=0) + 3
    coverage = np.zeros(high - low)
    np.add.at(coverage, tuple((index - low).T), volume / len(volume) / h**2)
    cells = np.stack(np.meshgrid(*[np.arange(*ends) for ends in zip(low, high, strict=True)], indexing="ij"), axis=-1)
    cells = cells.reshape(-1, images.shape[1])
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
