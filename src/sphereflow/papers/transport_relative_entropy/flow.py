r"""One piece at a time: the closed form of the flow against an integrator, its inverse and its volume.

$$\phi(x)=x+w\,s_+\frac{e^{\lambda\tau}-1}{\lambda},\qquad \log\det D\phi=\lambda\tau\,1\{s>0\},\qquad
\lambda=a\cdot w,\ s=a\cdot x+b.$$
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.transport_relative_entropy import PAPER
from sphereflow.transport.euclidean.divergences import divergences
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.named_laws import three_modes
from sphereflow.transport.euclidean.schedule import Schedule

DIMENSIONS = (1, 2, 5)


def random_schedule(d: int, seed: int, pieces: int = 10) -> Schedule:
    """Random pieces, among them a translation (a = 0), a shear (lambda = 0) and one with a tiny lambda."""
    rng = np.random.default_rng(seed)
    w, a = 0.5 * rng.standard_normal((pieces, d)), rng.standard_normal((pieces, d))
    b, tau = rng.standard_normal(pieces), rng.uniform(0.3, 1.2, pieces)
    a[0], b[0] = 0.0, 1.0
    if d > 1:
        w[1], a[1] = 0.5 * np.eye(d)[0], np.eye(d)[1]
    w[2] = 1e-9 * a[2]
    return Schedule(w, a, b, tau)


def integrated(schedule: Schedule, x: np.ndarray) -> np.ndarray:
    """The same flow by an adaptive Runge-Kutta method of order 8, piece by piece."""

    def field(t: float, state: np.ndarray, w: np.ndarray, a: np.ndarray, b: float) -> np.ndarray:
        return (np.maximum(state.reshape(-1, schedule.d) @ a + b, 0.0)[:, None] * w).ravel()

    state = x.ravel()
    for w, a, b, tau in zip(schedule.w, schedule.a, schedule.b, schedule.tau, strict=True):
        state = solve_ivp(field, (0, tau), state, "DOP853", args=(w, a, b), rtol=1e-12, atol=1e-13).y[:, -1]
    return state.reshape(x.shape)


@cache
def errors(d: int, seed: int, count: int) -> tuple[float, float, float]:
    """Largest errors, relative to 1 + |y|, of the flow, of the round trip, and of the log-determinant."""
    schedule = random_schedule(d, seed)
    x = 1.5 * np.random.default_rng(seed + 1).standard_normal((count, d))
    y, log_det = schedule.carry(x)
    size = 1 + np.linalg.norm(y, axis=1)
    solver = np.linalg.norm(y - integrated(schedule, x), axis=1) / size
    back = np.linalg.norm(schedule.pullback(y)[0] - x, axis=1) / (1 + np.linalg.norm(x, axis=1))
    step = 1e-6
    columns = [(schedule.apply(x + step * e) - schedule.apply(x - step * e)) / (2 * step) for e in np.eye(d)]
    by_differences = np.linalg.slogdet(np.stack(columns, axis=-1))[1]
    # A difference quotient across a hyperplane means nothing: points closer to one than the step are left out.
    smooth = np.abs(_distances(schedule, x)).min(axis=0) > 1e-4
    volume = np.abs(log_det - by_differences)[smooth]
    return float(solver.max()), float(back.max()), float(volume.max())


def _distances(schedule: Schedule, x: np.ndarray) -> np.ndarray:
    """s of every piece on the way of every point."""
    return np.stack([schedule[:k].apply(x) @ schedule.a[k] + schedule.b[k] for k in range(schedule.n_pieces)])


@PAPER.claim(
    "exact-flow",
    says="The flow of every piece has a closed form: it agrees with an adaptive integrator, the reversed schedule with "
    "flipped weights undoes it, and its log-determinant is that of the derivative.",
    basis=basis.AuthorCode("antonioalvarezl/relu-flow-simulator", "the version of 2025", "index.html"),
    formula=r"s\le0:\ \phi(x)=x;\qquad s>0:\ \phi(x)=x+w\,s\,\frac{e^{\lambda\tau}-1}{\lambda},\ "
    r"\log\det D\phi=\lambda\tau",
)
def exact_flow(run: Run) -> Check:
    count = 12 if run.quick else 200
    check = Check(parameters={"pieces": 10, "points": count})
    still = {}
    for d in DIMENSIONS:
        solver, back, volume = errors(d, run.seed, count)
        name = f"log-determinant by differences, $d={d}$"
        for row, measured, tolerance, because in (
            (f"against the integrator, $d={d}$", solver, 1e-10, "tolerance of the integrator"),
            (f"round trip, $d={d}$", back, 1e-10, "rounding times the product of the Jacobians"),
            (name, volume, 1e-5, "error of the differences"),
        ):
            check.row(row, predicted=0.0, measured=measured, tolerance=tolerance, because=because)
        schedule = random_schedule(d, run.seed)
        x = 1.5 * np.random.default_rng(run.seed + 1).standard_normal((count, d))
        total = float(np.sum(np.sum(schedule.a * schedule.w, axis=1) * schedule.tau))
        still[name] = float(np.abs(schedule.carry(x)[1] - total).max())
    check.null("the log-determinant also where nothing moves", still)
    check.null(
        "Euler steps of a tenth of a piece",
        {f"against the integrator, $d={d}$": _euler(d, run.seed) for d in DIMENSIONS},
    )
    return check


def _euler(d: int, seed: int) -> float:
    """How far ten Euler steps per piece are from the closed form."""
    schedule = random_schedule(d, seed)
    start = 1.5 * np.random.default_rng(seed + 1).standard_normal((12, d))
    x = start.copy()
    for w, a, b, tau in zip(schedule.w, schedule.a, schedule.b, schedule.tau, strict=True):
        for _ in range(10):
            x = x + tau / 10 * np.maximum(x @ a + b, 0.0)[:, None] * w
    y = schedule.apply(start)
    return float((np.linalg.norm(y - x, axis=1) / (1 + np.linalg.norm(y, axis=1))).max())


@PAPER.claim(
    "shears-keep-volume",
    says="Pieces with $a\\cdot w=0$ move points without changing volume; pieces with $a\\parallel w$ change it by "
    r"$e^{\lambda\tau}$.",
    basis=basis.Derived("the determinant of one piece"),
    formula=r"\log\det D\phi=\lambda\tau\,1\{s>0\}",
)
def shears(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    turns = rng.integers(-4, 5, (20, 2)).astype(float)  # small integers: a.w vanishes without rounding
    along = 0.25 * turns[:, ::-1] * [-1, 1]
    schedule = Schedule(along, 0.25 * turns, rng.standard_normal(20))
    x = gaussian(2).sample(2000, 2 * run.seed)
    check = Check(parameters={"pieces": 20})
    # The area of a small triangle, carried by the flow: no derivative and no determinant is taken from the library.
    step, corners = 1e-7, np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    smooth = x[np.abs(_distances(schedule, x)).min(axis=0) > 1e-3]
    moved = np.stack([schedule.apply(smooth + step * corner) for corner in corners])
    area = np.linalg.det(np.stack([moved[1] - moved[0], moved[2] - moved[0]], axis=-1)) / step**2
    check.at_most(
        "change of area of small triangles, shears",
        bound=0.0,
        measured=np.abs(area - 1).max(),
        tolerance=1e-5,
        because="rounding of differences of 1e-7",
    )
    check.same(
        "largest log-determinant, shears", predicted=0.0, measured=np.abs(schedule.carry(x)[1]).max(), because="exact"
    )
    direction, tau = np.array([[0.5, -0.25]]), 0.8
    one = Schedule(direction, direction, np.array([0.3]), np.array([tau]))
    active = smooth[smooth @ direction[0] + 0.3 > 1e-3]
    moved = np.stack([one.apply(active + step * corner) for corner in corners])
    area = np.linalg.det(np.stack([moved[1] - moved[0], moved[2] - moved[0]], axis=-1)) / step**2
    grown, rate = "area of small triangles behind one piece that stretches", float(direction[0] @ direction[0]) * tau
    check.row(grown, predicted=np.exp(rate), measured=area.mean(), tolerance=1e-5, because="rounding, as above")
    check.rival("growth in both directions", {grown: np.exp(2 * rate)})
    check.rival("growth by the field at the start, without the exponential", {grown: 1 + rate})
    stretch = Schedule(0.25 * turns, 0.25 * turns, schedule.b)
    check.null(
        "pieces that stretch instead", {"largest log-determinant, shears": float(np.abs(stretch.carry(x)[1]).max())}
    )
    return check


def plane_divergences(base, target) -> tuple[float, float, float]:
    """KL(target||base), KL(base||target) and total variation by the trapezoidal rule on a grid of the plane."""
    axis = np.linspace(-8, 8, 801)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    one, other = target.log_density(points), base.log_density(points)
    cell = (axis[1] - axis[0]) ** 2
    p, q = np.exp(one), np.exp(other)
    return (
        float(np.sum(p * (one - other)) * cell),
        float(np.sum(q * (other - one)) * cell),
        float(np.sum(np.abs(p - q)) * cell / 2),
    )


@PAPER.claim(
    "no-flow",
    says="Without a flow the sampled relative entropies and total variation are those of base and target, by "
    "quadrature.",
    basis=basis.Derived("the definitions, for three modes in the plane"),
    formula=r"\mathrm{KL}(\rho_*\|\rho_B),\quad \mathrm{KL}(\rho_B\|\rho_*),\quad \mathrm{TV}",
)
def no_flow(run: Run) -> Check:
    samples = 40_000
    found = divergences(Schedule.empty(2), gaussian(2), three_modes(), samples=samples, seed=run.seed)
    forward, reverse, tv = plane_divergences(gaussian(2), three_modes())
    check = Check(parameters={"samples": samples})
    for name, predicted, estimate in (
        ("KL(target||base)", forward, found.forward),
        ("KL(base||target)", reverse, found.reverse),
        ("total variation", tv, found.tv),
    ):
        because = "standard error of the sample mean; 1e-4 for the grid"
        check.row(
            name, predicted=predicted, measured=estimate.value, error=estimate.error, tolerance=1e-4, because=because
        )
    check.rival("the directions exchanged", {"KL(target||base)": reverse, "KL(base||target)": forward})
    check.rival("total variation without the half", {"total variation": 2 * tv})
    return check
