r"""On the circle the uniform measure is unstable, and the fastest growing mode counts the first clusters.

A density $(1+\epsilon\cos k\theta)/2\pi$ grows at the rate

$$\lambda_k=\frac{k^2I_k(\beta)}{\beta}\ \text{(USA, raw kernel)},\qquad
  \lambda_k=\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\ \text{(SA)}.$$
"""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.evolution import evolve
from sphereflow.observables import cluster_count
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import GRID, Model, follow, weighted_velocities

_AMPLITUDE = 1e-6


def growth_rate(k: np.ndarray | int, beta: float, model: Model) -> np.ndarray:
    r"""$\lambda_k$ by Bessel functions; for USA with the raw kernel."""
    scale = special.ive(0, beta) if model == "sa" else np.exp(-beta)
    return np.asarray(np.asarray(k) ** 2 * special.ive(k, beta) / (beta * scale))


def measured_growth_rate(k: int, beta: float, model: Model) -> float:
    r"""$\lambda_k$ from the velocities of grid tokens with masses $\propto1+\epsilon\cos k\theta$.

    By the continuity equation $\frac{d}{dt}\int\cos k\theta\,d\mu=-k\int v\sin k\theta\,d\mu$; at the start the
    integral on the left is $\epsilon/2$.
    """
    theta = 2 * np.pi * np.arange(GRID) / GRID
    x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    masses = (1 + _AMPLITUDE * np.cos(k * theta)) / GRID
    moved = weighted_velocities(model, beta, x, masses)
    angular = moved[:, 1] * x[:, 0] - moved[:, 0] * x[:, 1]
    return float(-2 * k / _AMPLITUDE * np.sum(masses * angular * np.sin(k * theta)))


def kuramoto(theta0: np.ndarray, times: np.ndarray) -> np.ndarray:
    r"""Kuramoto oscillators with equal frequencies: $\dot\theta_i=-\frac1n\sum_j\sin(\theta_i-\theta_j)$."""

    def field(t: float, theta: np.ndarray) -> np.ndarray:
        mean = np.exp(1j * theta).mean()
        return np.imag(mean * np.exp(-1j * theta))

    span = (0.0, float(times[-1]))
    return solve_ivp(field, span, theta0, method="DOP853", t_eval=times, rtol=1e-12, atol=1e-12).y.T


MODELS: tuple[Model, Model] = ("sa", "usa")
STABILITY = basis.Derived("the continuity equation linearised at the uniform measure of the circle")


@PAPER.claim(
    "growth-rates",
    says="A small wave on the uniform density of the circle grows at a rate given by Bessel functions: wave numbers "
    "1 to 6, $\\beta=2$ and 8, SA and USA.",
    basis=STABILITY,
    formula=r"\lambda_k=\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\ \mathrm{(SA)},"
    r"\qquad\frac{k^2I_k(\beta)}{\beta}\ \mathrm{(USA)}",
)
def growth_rates(run: Run) -> Check:
    check = Check()
    shifted, without = {}, {}
    for model in MODELS:
        for beta in (2.0, 8.0):
            for k in range(1, 7):
                row = f"{model.upper()}, beta={beta:g}, k={k}"
                check.row(
                    row,
                    predicted=growth_rate(k, beta, model),
                    measured=measured_growth_rate(k, beta, model),
                    relative=1e-8,
                    because="second order in the amplitude 1e-6, and rounding 1e-16 / 1e-6 over rates down to 0.01",
                )
                shifted[row] = float(k**2 * growth_rate(k + 1, beta, model) / (k + 1) ** 2)
                without[row] = float(growth_rate(k, beta, model) / k)
    check.rival("the Bessel function of the next order", shifted)
    check.rival("a factor k for k^2", without)
    check.rival("no normaliser I_0 under SA", {f"SA, beta=2, k={k}": float(growth_rate(k, 2.0, "usa")) for k in (1, 2)})
    return check


@PAPER.claim(
    "fastest-mode",
    says="The fastest growing wave number, from velocities of tokens on a grid, is that of the Bessel rates, which is "
    "$\\sqrt{2\\beta}$ to the nearest whole number for six $\\beta$ from 5 to 400.",
    basis=STABILITY,
    formula=r"k_{\max}\approx\sqrt{2\beta}",
)
def fastest_mode(run: Run) -> Check:
    check = Check()
    smaller, larger = {}, {}
    for model in MODELS:
        for beta in (5.0, 10.0, 25.0, 50.0, 100.0, 400.0):
            if model == "usa" and beta > 50:
                continue
            waves = np.arange(1, int(2 * np.sqrt(2 * beta)) + 2)
            found = waves[np.argmax([measured_growth_rate(int(k), beta, model) for k in waves])]
            row = f"{model.upper()}, beta={beta:g}"
            check.same(row, predicted=round(np.sqrt(2 * beta)), measured=float(found), because="a wave number")
            smaller[row], larger[row] = round(np.sqrt(beta)), round(np.sqrt(2 * beta) + 1)
    check.rival("the root of beta", smaller)
    check.rival("one wave more", larger)
    return check


@PAPER.claim(
    "kuramoto-limit",
    says="On the circle at $\\beta=0$ 24 tokens under SA and USA are Kuramoto oscillators with equal frequencies: "
    "the same order parameter at three times, and the same positions.",
    basis=basis.Derived("attention at beta = 0 on the circle"),
    formula=r"\dot\theta_i=-\frac1n\sum_j\sin(\theta_i-\theta_j)",
)
def kuramoto_limit(run: Run) -> Check:
    theta0 = np.random.default_rng(run.seed).uniform(-np.pi, np.pi, 24)
    times, check = np.array([0.5, 1.0, 3.0]), Check()
    points = np.exp(1j * kuramoto(theta0, times))
    other = np.abs(np.exp(1j * kuramoto(theta0, times * 24 / 23)).mean(axis=1))
    x0 = np.stack([np.cos(theta0), np.sin(theta0)], axis=-1)
    rival: dict[str, float] = {}
    for model in MODELS:
        found = follow(model, 0.0, x0, times) @ np.array([1, 1j])
        rows = [f"{model.upper()}, order parameter, t={t:g}" for t in times]
        check.series(
            rows,
            predicted=np.abs(points.mean(axis=1)),
            measured=np.abs(found.mean(axis=1)),
            tolerance=1e-9,
            because="both sides are solved to 1e-10 or better",
        )
        worst = np.abs(found - points).max()
        check.row(f"{model.upper()}, positions", predicted=0.0, measured=worst, tolerance=1e-9, because="as above")
        rival.update(zip(rows, other, strict=True))
    check.rival("the coupling 1/(n-1)", rival)
    return check


@PAPER.claim(
    "uniform-grid-is-fixed",
    says="256 equally spaced tokens on the circle do not move under SA; with noise of $10^{-6}$ they do.",
    basis=STABILITY,
    formula=r"x_i=(\cos\tfrac{2\pi i}n,\sin\tfrac{2\pi i}n)\ \Rightarrow\ \dot x_i=0",
)
def uniform_grid_is_fixed(run: Run) -> Check:
    check, noisy, masses = Check(), {}, np.full(256, 1 / 256)
    grids = noisy_grid(run.seed, 256, 0.0), noisy_grid(run.seed, 256, 1e-6)
    for beta in (1.0, 10.0, 50.0):
        row = f"beta={beta:g}"
        speed, moved = (np.linalg.norm(weighted_velocities("sa", beta, x, masses), axis=1).max() for x in grids)
        slack = 1e-15 * (1 + beta)
        check.at_most(row, bound=0.0, measured=speed, tolerance=slack, because="rounded coordinates, times 1 + beta")
        noisy[row] = float(moved)
    check.null("noise of 1e-6", noisy)
    return check


def noisy_grid(seed: int, n: int, amplitude: float = 1e-4) -> np.ndarray:
    """Equally spaced angles with small Gaussian noise, as points of the circle."""
    theta = 2 * np.pi * np.arange(n) / n + amplitude * np.random.default_rng(seed).normal(size=n)
    return np.stack([np.cos(theta), np.sin(theta)], axis=1)


def clusters_from_noise(beta: float, seeds: range, n: int = 256) -> np.ndarray:
    r"""Clusters at t = 25 for each seed; gaps above $0.5/\sqrt\beta$ separate clusters."""
    x0 = np.stack([noisy_grid(seed, n) for seed in seeds])
    final = evolve(SA(beta), x0, saveat=[0.0, 25.0], tol=1e-5, progress=False).final
    return np.array([cluster_count(x, float(np.cos(0.5 / np.sqrt(beta)))) for x in final])


@PAPER.claim(
    "clusters-from-noise",
    says="Noise of $10^{-4}$ on 256 equally spaced tokens has grown at $t=25$ into $\\sqrt{2\\beta}$ clusters, give "
    "or take one, for $\\beta=10$, 25 and 50.",
    basis=basis.Derived("the fastest growing mode counts the first clusters"),
    formula=r"\#\mathrm{clusters}\approx\sqrt{2\beta}",
)
def clusters_from_noise_claim(run: Run) -> Check:
    seeds = range(run.seed, run.seed + (1 if run.quick else 6))
    check, smaller, larger = Check(), {}, {}
    for beta in (10.0, 25.0, 50.0):
        for seed, count in zip(seeds, clusters_from_noise(beta, seeds), strict=True):
            row = f"beta={beta:g}, seed {seed}"
            because = "neighbouring modes grow at nearly the same rate"
            check.row(row, predicted=round(np.sqrt(2 * beta)), measured=count, tolerance=1.0, because=because)
            smaller[row], larger[row] = np.sqrt(beta), 2 * np.sqrt(beta)
    check.rival("the root of beta", smaller)
    check.rival("twice the root of beta", larger)
    return check
