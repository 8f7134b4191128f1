r"""On the circle the uniform measure is unstable, and the fastest growing mode counts the first clusters.

A density $(1+\epsilon\cos k\theta)/2\pi$ grows at the rate

$$\lambda_k=\frac{k^2I_k(\beta)}{\beta}\ \text{(USA, raw kernel)},\qquad
  \lambda_k=\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\ \text{(SA)}.$$
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.integrate import solve_ivp

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.dynamics import SA
from sphereflow.evolution import evolve
from sphereflow.observables import cluster_count
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import Model, attention, follow, velocity
from sphereflow.sphere import circle_grid

_GRID = 512
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
    theta = 2 * np.pi * np.arange(_GRID) / _GRID
    x = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    masses = (1 + _AMPLITUDE * np.cos(k * theta)) / _GRID
    moved = np.asarray(velocity(attention(model, beta, weights=masses), jnp.asarray(x)))
    angular = moved[:, 1] * x[:, 0] - moved[:, 0] * x[:, 1]
    return float(-2 * k / _AMPLITUDE * np.sum(masses * angular * np.sin(k * theta)))


def kuramoto(theta0: np.ndarray, times: np.ndarray) -> np.ndarray:
    r"""Kuramoto oscillators with equal frequencies: $\dot\theta_i=-\frac1n\sum_j\sin(\theta_i-\theta_j)$."""

    def field(t: float, theta: np.ndarray) -> np.ndarray:
        mean = np.exp(1j * theta).mean()
        return np.imag(mean * np.exp(-1j * theta))

    span = (0.0, float(times[-1]))
    return solve_ivp(field, span, theta0, method="DOP853", t_eval=times, rtol=1e-12, atol=1e-12).y.T


@PAPER.claim(
    "growth-rates",
    statement="A small wave on the uniform density of the circle grows at a rate given by Bessel functions.",
    source="Linear stability of the uniform measure on the circle",
    formula=r"\lambda_k=\frac{k^2I_k(\beta)}{\beta I_0(\beta)}\ \mathrm{(SA)},"
    r"\qquad\frac{k^2I_k(\beta)}{\beta}\ \mathrm{(USA)}",
    falsifier="A missing factor k^2, 1/beta or I_0, or a mode index off by one.",
)
def growth_rates(run: Run) -> Measurement:
    models: tuple[Model, Model] = ("sa", "usa")
    cases = [(model, beta, k) for model in models for beta in (2.0, 8.0) for k in range(1, 7)]
    return agreement(
        [growth_rate(k, beta, model) for model, beta, k in cases],
        [measured_growth_rate(k, beta, model) for model, beta, k in cases],
        relative=1e-8,
        because="terms of second order in the amplitude 1e-6, and rounding 1e-16 / 1e-6 over rates down to 0.01",
        labels=tuple(f"{model.upper()} beta={beta:g} k={k}" for model, beta, k in cases),
    )


@PAPER.claim(
    "fastest-mode",
    statement="The fastest growing wave number is close to the square root of 2 beta, for SA and for USA.",
    source="Linear stability of the uniform measure on the circle",
    formula=r"k_{\max}\approx\sqrt{2\beta}",
)
def fastest_mode(run: Run) -> Measurement:
    known = {5.0: 3, 10.0: 4, 25.0: 7, 50.0: 10, 100.0: 14, 400.0: 28}
    cases: list[tuple[Model, float]] = [("sa", beta) for beta in known] + [
        ("usa", beta) for beta in known if beta <= 50
    ]
    measured = []
    for model, beta in cases:
        waves = np.arange(1, int(2 * np.sqrt(2 * beta)) + 2)
        measured.append(waves[np.argmax([measured_growth_rate(int(k), beta, model) for k in waves])])
    return agreement(
        [known[beta] for _, beta in cases],
        measured,
        absolute=0.0,
        because="whole numbers",
        labels=tuple(f"{model.upper()} beta={beta:g}" for model, beta in cases),
        note="sqrt(2 beta): " + ", ".join(f"{np.sqrt(2 * beta):.1f}" for beta in known) + ".",
    )


@PAPER.claim(
    "kuramoto-limit",
    statement="On the circle at beta = 0, SA and USA are the Kuramoto model with equal frequencies.",
    source="Section on the circle",
    formula=r"\dot\theta_i=-\frac1n\sum_j\sin(\theta_i-\theta_j)",
)
def kuramoto_limit(run: Run) -> Measurement:
    theta0 = np.random.default_rng(run.seed).uniform(-np.pi, np.pi, 24)
    times = np.array([1.0, 3.0, 6.0])
    exact = kuramoto(theta0, times)
    points = np.stack([np.cos(exact), np.sin(exact)], axis=-1)
    x0 = np.stack([np.cos(theta0), np.sin(theta0)], axis=-1)
    models: tuple[Model, Model] = ("sa", "usa")
    worst = [np.abs(follow(model, 0.0, x0, times) - points).max() for model in models]
    return at_most(1e-9, np.array(worst), because="both sides are solved to 1e-10 or better", labels=("SA", "USA"))


@PAPER.claim(
    "uniform-grid-is-fixed",
    statement="Equally spaced tokens on the circle do not move.",
    source="Section on the circle",
    formula=r"x_i=(\cos\tfrac{2\pi i}n,\sin\tfrac{2\pi i}n)\ \Rightarrow\ \dot x_i=0",
)
def uniform_grid_is_fixed(run: Run) -> Measurement:
    betas, grid = (1.0, 10.0, 50.0), circle_grid(256)
    measured = [np.linalg.norm(velocity(SA(beta), grid), axis=1).max() for beta in betas]
    return at_most(
        0.0,
        np.array(measured),
        slack=[1e-15 * (1 + beta) for beta in betas],
        because="coordinates are rounded to 1e-16, and the field amplifies that by 1 + beta",
        labels=tuple(f"beta={beta:g}" for beta in betas),
    )


def noisy_grid(seed: int, n: int, amplitude: float = 1e-4) -> np.ndarray:
    """Equally spaced angles with small Gaussian noise, as points of the circle."""
    theta = 2 * np.pi * np.arange(n) / n + amplitude * np.random.default_rng(seed).normal(size=n)
    return np.stack([np.cos(theta), np.sin(theta)], axis=1)


def clusters_from_noise(beta: float, seeds: range, n: int = 256) -> np.ndarray:
    r"""Clusters at t = 25 for each seed; gaps above $0.5/\sqrt\beta$ separate clusters."""
    x0 = np.stack([noisy_grid(seed, n) for seed in seeds])
    final = evolve(SA(beta), x0, saveat=[0.0, 25.0], tol=1e-5, solver="tsit5", progress=False).final
    return np.array([cluster_count(x, float(np.cos(0.5 / np.sqrt(beta)))) for x in final])


@PAPER.claim(
    "clusters-from-noise",
    statement="Noise on equally spaced tokens grows into about sqrt(2 beta) clusters.",
    source="Metastability on the circle, numerical experiments",
    formula=r"\#\mathrm{clusters}\approx\sqrt{2\beta}",
)
def clusters_from_noise_claim(run: Run) -> Measurement:
    expected = {10.0: (4, 5), 25.0: (6, 7), 50.0: (9, 10)}
    seeds = range(run.seed, run.seed + (1 if run.quick else 6))
    counts = np.array([clusters_from_noise(beta, seeds) for beta in expected])
    middle = np.array([np.mean(bounds) for bounds in expected.values()])
    return agreement(
        np.repeat(middle, len(seeds)),
        counts.ravel(),
        absolute=0.5,
        because="neighbouring modes grow at nearly the same rate: 4-5, 6-7 and 9-10 clusters are possible",
        labels=tuple(f"beta={beta:g} seed={seed}" for beta in expected for seed in seeds),
    )
