r"""The whole construction for a general map: error of the map and of the push-forward against the number of pieces.

$\varphi$ is a quarter turn about the centre of the unit square after $x\mapsto x+0.12\sin(2\pi x_{\mathrm{swapped}})$,
$\det D\varphi=1-(0.24\pi)^2\cos2\pi x_1\cos2\pi x_2$, and $\rho=(1+\frac12\cos2\pi x_1)(1+\frac12\sin2\pi x_2)$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import jackknife
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.papers.diffeomorphism_pushforward.sources import BOTH, GENERAL
from sphereflow.transport.maps.diffeomorphism import MapErrors, MapFit, fit_map
from sphereflow.transport.maps.lagrange import lagrange_interpolant
from sphereflow.transport.maps.smooth_map import SmoothMap

PAIRS = ((4, 2), (8, 2), (4, 4), (6, 4), (8, 4), (12, 3))  # N and kappa
QUICK = ((4, 2), (8, 2), (4, 4), (8, 4))


def swirl(x: np.ndarray) -> np.ndarray:
    moved = x + 0.12 * np.sin(2 * np.pi * x[:, ::-1])
    return np.stack([1 - moved[:, 1], moved[:, 0]], axis=1)


def density(x: np.ndarray) -> np.ndarray:
    return (1 + 0.5 * np.cos(2 * np.pi * x[:, 0])) * (1 + 0.5 * np.sin(2 * np.pi * x[:, 1]))


@cache
def built(n: int, kappa: int) -> MapFit:
    return fit_map(swirl, cells=n, refine=kappa)


@cache
def errors(n: int, kappa: int, points: int, seed: int) -> MapErrors:
    return built(n, kappa).errors(density, points=points, seed=seed)


def rows(run: Run) -> dict[tuple[int, int], MapErrors]:
    """The rows of the table that this run looks at."""
    chosen = QUICK if run.quick else PAIRS
    found = {}
    for done, key in enumerate(chosen):
        run.notify(done / len(chosen), f"N = {key[0]}, kappa = {key[1]}")
        found[key] = errors(*key, 6000 if run.quick else 100_000, run.seed)
    return found


def column_slopes(n: int, kappa: int) -> np.ndarray:
    """q_k / kappa from the closed form of the cells' mean Jacobians."""
    edge = np.sin(2 * np.pi * np.arange(n + 1) / n)
    mean_cos = np.diff(edge) * n / (2 * np.pi)
    jacobian = 1 - (0.24 * math.pi) ** 2 * np.outer(mean_cos, mean_cos)
    ranked = np.sort(np.round(jacobian.ravel(), 10)).reshape(n, n)
    return np.maximum(1, np.round(kappa * ranked.mean(axis=1))) / kappa


@PAPER.claim(
    "map-rate",
    says="The error of the map is about the side of a fine cell, so it falls like one over the root of the number of "
    "pieces, the order that $d=2$ allows.",
    basis=basis.Summary("texts about the paper, which say that switches grow at best like $\\varepsilon^{-d}$"),
    formula=r"\|\varphi_\theta-\varphi\|_{L^2}\approx h_f=\frac1{\kappa N}\propto\text{pieces}^{-1/2}",
)
def map_rate(run: Run) -> Check:
    found = rows(run)
    check = Check()
    for (n, k), errors in found.items():
        check.row(
            f"$L^2$ error over the side of a fine cell, $N={n}$, $\\kappa={k}$",
            predicted=1.0,
            measured=errors.l2 * n * k,
            tolerance=0.3,
            because="a point is off by its place in the cell (0.41 h) and by the assignment, up to one cell",
        )
    pieces = np.log([built(*key).schedule.n_pieces for key in found])
    slope = np.polyfit(pieces, np.log([errors.l2 for errors in found.values()]), 1)[0]
    because = "the scatter of the assignment, 20 %, over a factor of 14 in pieces"
    check.row("slope against pieces", predicted=-0.5, measured=slope, tolerance=0.1, because=because)
    check.rival("falls like one over the pieces", {"slope against pieces": -1.0})
    check.rival("falls like the third root", {"slope against pieces": -1 / 3})
    check.rival("the side of a coarse cell", {row.name: k for row, (_, k) in zip(check.rows, found, strict=False)})
    return check


@PAPER.claim(
    "fall-together",
    says="The error of the map and the error of the push-forward fall together as the lattice is refined.",
    basis=BOTH,
    formula=r"\|\varphi_\theta-\varphi\|_{L^2}\le\varepsilon\quad\text{and}\quad"
    r"\mathrm{TV}(\varphi_{\theta\#}\mu,\varphi_\#\mu)\le\varepsilon",
)
def fall_together(run: Run) -> Check:
    points = 2400 if run.quick else 6250
    coarse, middle, fine = (
        batches(built(*key), density, points, run.seed, BATCHES) for key in ((4, 2), (8, 2), (8, 4))
    )
    check = Check(parameters={"points": BATCHES * points})
    because = "a quarter of the fine side leaves about a quarter of the map's error; error bar over batches of points"
    falls(check, "$L^2$, (8,4) over (4,2)", 0.35, fine[0], coarse[0], because)
    because = "total variation also feels the rounding of the Jacobian, and has to fall at every refinement; error bar"
    falls(check, "TV, (8,4) over (4,2)", 0.8, fine[1], coarse[1], because)
    falls(check, "TV, (8,2) over (4,2)", 0.8, middle[1], coarse[1], because)
    falls(check, "TV, (8,4) over (8,2)", 0.8, fine[1], middle[1], because)
    check.rival("the map's error falls fivefold", {"$L^2$, (8,4) over (4,2)": 0.2})
    check.null("the map's error falls like the root of the side", {"$L^2$, (8,4) over (4,2)": 0.5})
    return check


BATCHES = 16


def batches(
    made: MapFit, density: Callable[[np.ndarray], np.ndarray] | None, points: int, seed: int, count: int
) -> np.ndarray:
    """(squared error of the map, error of the push-forward) of batches of so many points."""
    found = [made.errors(density, points=points, seed=count * seed + k) for k in range(count)]
    return np.array([[each.l2**2 for each in found], [each.tv for each in found]])


def falls(check: Check, name: str, bound: float, fine: np.ndarray, coarse: np.ndarray, because: str) -> None:
    """The ratio of two errors is at most a bound; errors that stall have the ratio 1."""
    root = 0.5 if name.startswith("$L^2$") else 1.0
    ratio = jackknife(lambda a, b: float((a.mean() / b.mean()) ** root), fine, coarse)
    check.at_most(name, bound=bound, measured=ratio.value, error=ratio.error, repeats=len(fine), because=because)
    check.null(f"an error that stalls: {name}", {name: 1.0})


@PAPER.claim(
    "volume-bookkeeping",
    says=r"All change of volume sits in the compressible part: the Jacobian takes the values $q_k/\kappa$ and no "
    "other, and its integral is their mean.",
    basis=GENERAL,
    formula=r"e^{L}\in\{q_k/\kappa\},\qquad \int_\Omega e^{L}dx=\frac1N\sum_k\frac{q_k}\kappa",
)
def volume_bookkeeping(run: Run) -> Check:
    keys = [(4, 4), (8, 2)] if run.quick else [(4, 4), (8, 2), (8, 4), (12, 3)]
    check = Check()
    exact = {}
    for n, kappa in keys:
        known = column_slopes(n, kappa)
        per_cell = 5
        at = (np.arange(n * per_cell) + 0.5) / (n * per_cell)
        x = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2)
        jacobian = np.exp(np.asarray(built(n, kappa).schedule.log_det(x)))
        because = "rounding: no midpoint of the grid lies in a collar, of relative width 1e-5"
        values = np.sort(np.unique(np.round(jacobian, 9)))
        check.same(
            f"values, $N={n}$, $\\kappa={kappa}$",
            predicted=len(np.unique(known)),
            measured=len(values),
            because="a count",
        )
        for level, wanted in zip(values, np.unique(known), strict=False):
            name = f"value {wanted:g}, $N={n}$, $\\kappa={kappa}$"
            check.row(name, predicted=wanted, measured=level, tolerance=1e-8, because=because)
        name = f"integral, $N={n}$, $\\kappa={kappa}$"
        check.row(name, predicted=known.mean(), measured=jacobian.mean(), tolerance=1e-12, because=because)
        # det D phi = 1 - (0.24 pi)^2 cos cos: between its extremes there are as many values as points.
        true = 1 - (0.24 * math.pi) ** 2 * np.cos(2 * np.pi * x[:, 0]) * np.cos(2 * np.pi * x[:, 1])
        exact[f"values, $N={n}$, $\\kappa={kappa}$"] = float(len(np.unique(np.round(true, 9))))
    check.rival("the Jacobian of the map itself", exact)
    return check


def twist(x: np.ndarray) -> np.ndarray:
    """A quarter turn in the first two coordinates after x_k += 0.1 sin(2 pi x_{k-1}); its determinant is known."""
    moved = x + 0.1 * np.sin(2 * np.pi * np.roll(x, 1, axis=1))
    return np.column_stack([1 - moved[:, 1], moved[:, 0], moved[:, 2:]])


@cache
def built_in_space(n: int, kappa: int) -> MapFit:
    return fit_map(twist, cells=n, refine=kappa, box=((0, 1),) * 3)


@PAPER.claim(
    "map-in-space",
    says="In three dimensions too the error of the map is about the side of a fine cell, and it falls together with "
    "the total variation between the push-forwards.",
    basis=GENERAL,
    formula=r"\|\varphi_\theta-\varphi\|_{L^2}\approx h_f=\frac1{\kappa N}",
)
def map_in_space(run: Run) -> Check:
    sizes = ((2, 2), (4, 2)) if run.quick else ((2, 2), (3, 2), (4, 2), (3, 3), (5, 2))
    found = {}
    for done, key in enumerate(sizes):
        run.notify(done / len(sizes), f"N = {key[0]}, kappa = {key[1]}")
        found[key] = built_in_space(*key).errors(points=10_000, seed=run.seed)
    check = Check()
    coarse = {}
    for (n, kappa), each in found.items():
        name = f"$L^2$ error over the side of a fine cell, $N={n}$, $\\kappa={kappa}$"
        because = "a point is off by its place in the cell (0.5 h) and by the assignment, up to one cell"
        check.row(name, predicted=1.0, measured=each.l2 * n * kappa, tolerance=0.35, because=because)
        coarse[name] = float(kappa)
    first, last = (batches(built_in_space(*key), None, 1250, run.seed, BATCHES) for key in ((2, 2), (4, 2)))
    because = "half the fine side, and the collars, which hold 0.6 % of the mass; error bar over batches of points"
    falls(check, "$L^2$, (4,2) over (2,2)", 0.7, last[0], first[0], because)
    falls(check, "TV, (4,2) over (2,2)", 0.8, last[1], first[1], because)
    check.rival("the side of a coarse cell", coarse)
    return check


@PAPER.claim(
    "lagrange-interpolant",
    says="The Lagrange interpolant on simplices is off by the square of the side of a cell, and its Jacobian by the "
    "side, in the plane and in space.",
    basis=basis.Derived("Taylor's formula on a simplex"),
    formula=r"\|\varphi_h-\varphi\|_{L^2}\propto h^2,\qquad \|\det D\varphi_h-\det D\varphi\|_{L^2}\propto h",
)
def lagrange(run: Run) -> Check:
    sizes = (16, 32, 64)
    check = Check(parameters={"cells per axis": list(sizes)})
    low, high = {}, {}
    for d, phi in ((2, swirl), (3, twist)):
        x = np.random.default_rng(run.seed).uniform(size=(4000 if run.quick else 40_000, d))
        made = [lagrange_interpolant(phi, cells=n, box=((0, 1),) * d) for n in sizes]
        det = SmoothMap(phi).det(x)
        for what, power, gaps in (
            ("map", 2.0, [np.linalg.norm(phi_h(x) - phi(x)) for phi_h in made]),
            ("Jacobian", 1.0, [np.linalg.norm(phi_h.det(x) - det) for phi_h in made]),
        ):
            name = f"order of the {what}, $d={d}$"
            order = -np.polyfit(np.log(sizes), np.log(gaps), 1)[0]
            because = "corrections of order h^2, and points at random places in their cells"
            check.row(name, predicted=power, measured=float(order), tolerance=0.1, because=because)
            low[name], high[name] = power - 0.5, power + 1
    check.rival("half an order less", low)
    check.rival("one order more, as at the middles of cells", high)
    return check
