r"""One piece at a time: the closed form of the flow against an integrator, its inverse and its volume.

$$\phi(x)=x+w\,s_+\frac{e^{\lambda\tau}-1}{\lambda},\qquad \log\det D\phi=\lambda\tau\,1\{s>0\},\qquad
\lambda=a\cdot w,\ s=a\cdot x+b.$$
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Measurement, Run, agreement, at_most
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
    statement="The flow of every piece has a closed form: it agrees with an adaptive integrator, the reversed schedule "
    "with flipped weights undoes it, and its log-determinant is that of the derivative.",
    source="Characteristics of the continuity equation",
    formula=r"s\le0:\ \phi(x)=x;\qquad s>0:\ \phi(x)=x+w\,s\,\frac{e^{\lambda\tau}-1}{\lambda},\ "
    r"\log\det D\phi=\lambda\tau",
    falsifier="a log-determinant at points that do not move; no branch for lambda = 0",
)
def exact_flow(run: Run) -> Measurement:
    count = 12 if run.quick else 200
    found = np.array([errors(d, run.seed, count) for d in DIMENSIONS]).T
    bounds = np.repeat([1e-10, 1e-10, 1e-5], len(DIMENSIONS))
    names = ("integrator", "round trip", "log-determinant by differences")
    return at_most(
        bounds,
        found.ravel(),
        because="tolerance of the integrator, rounding times the product of the Jacobians, error of the differences",
        labels=tuple(f"{name}, d={d}" for name in names for d in DIMENSIONS),
        parameters={"pieces": 10, "points": count},
    )


@PAPER.claim(
    "volume",
    statement="Pieces with a.w = 0 move points without changing volume: the log-determinant is zero everywhere, and "
    "relative entropy to the base is the mean change of the base's log-density.",
    source="Shears",
    formula=r"\mathrm{KL}(\rho_\theta\|\rho_B)=E[\log\rho_B(X)-\log\rho_B(\phi_\theta(X))]",
    falsifier="any log-determinant other than zero",
)
def volume(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    turns = rng.integers(-4, 5, (20, 2)).astype(float)  # small integers: a.w vanishes without rounding
    schedule = Schedule(0.25 * turns[:, ::-1] * [-1, 1], 0.25 * turns, rng.standard_normal(20))
    base = gaussian(2)
    samples = 10_000 if run.quick else 200_000
    x = base.sample(samples, 2 * run.seed)
    y, log_det = schedule.carry(x)
    by_hand = float(np.mean((y**2).sum(axis=1) - (x**2).sum(axis=1)) / 2)
    found = divergences(schedule, base, base, samples=samples, seed=run.seed).reverse
    return agreement(
        [0.0, by_hand],
        [float(np.abs(log_det).max()), float(found.value)],
        absolute=[0.0, 1e-12 * (1 + by_hand)],
        because="a.w is exactly zero; the two means are taken over the same points",
        labels=("largest log-determinant", "KL to the base"),
        parameters={"pieces": 20, "samples": samples},
    )


@PAPER.claim(
    "rest",
    statement="Where nothing flows, relative entropy and total variation are those of base and target.",
    source="The plane with three modes, before the flow",
    formula=r"\mathrm{KL}(\rho_*\|\rho_B),\quad \mathrm{KL}(\rho_B\|\rho_*),\quad \mathrm{TV}",
    falsifier="directions of the relative entropy exchanged",
)
def rest(run: Run) -> Measurement:
    found = divergences(Schedule.empty(2), gaussian(2), three_modes(), samples=40_000, seed=run.seed)
    measured = [found.forward, found.reverse, found.tv]
    return agreement(
        [0.688611, 0.898796, 0.494266],
        [e.value for e in measured],
        absolute=[4 * e.error for e in measured],
        because="four standard errors of the sample means; the prediction is by quadrature",
        labels=("KL(target||base)", "KL(base||target)", "TV"),
        parameters={"samples": 40_000},
    )
