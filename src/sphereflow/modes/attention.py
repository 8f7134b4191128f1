r"""Modes of the density estimate beside the clusters that attention forms, on the circle.

Uniform tokens are noise with spectrum $I_k(\beta)^2$ in the density estimate with kernel $e^{\beta(\cos-1)}$; as a
Gaussian field it has (Rice)

$$N_0=\sqrt{\frac{\sum_kk^4I_k^2}{\sum_kk^2I_k^2}}\ \longrightarrow\ \sqrt{3\beta/2}$$

modes. Self-attention amplifies its k-th harmonic at rate $\lambda_k=k^2I_k/(\beta I_0)$, so that while the motion is
linear there are $N(t)$ modes, the same ratio with $I_k^2e^{2\lambda_kt}$; the fastest harmonic has
$k\approx\sqrt{2\beta}$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ive

from sphereflow.dynamics import SA
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.evolution import Status, evolve
from sphereflow.modes.find import find_modes
from sphereflow.observables import cluster_count
from sphereflow.results import Result, Variables, recorded_call, span
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Runs are evolved together up to this many pairs of tokens: small enough for one compiled call from start to end.
_PAIRS = 1 << 18


def circle_modes(beta: float, t: float = 0.0) -> float:
    """N(t): expected modes for many uniform tokens, after attention has acted for a (short) time t."""
    beta, t = real_number("beta", beta, above=0, most=1e10), real_number("t", t, least=0, most=1e6)
    k = np.arange(1, math.ceil(12 * math.sqrt(beta)) + 40)
    bessel = ive(k, beta) / ive(0, beta)
    growth = 2 * k**2 * bessel / beta * t
    power = k**2.0 * (bessel / bessel[0]) ** 2 * np.exp(growth - growth.max())
    return float(np.sqrt(np.sum(k**2 * power) / np.sum(power)))


def fastest_harmonic(beta: float) -> int:
    """The k with the largest rate k^2 I_k(beta) / (beta I_0(beta)), near sqrt(2 beta)."""
    beta = real_number("beta", beta, above=0, most=1e10)
    k = np.arange(1, math.ceil(4 * math.sqrt(beta)) + 10)
    return int(k[np.argmax(k**2 * ive(k, beta))])


@dataclass(frozen=True, eq=False, repr=False)
class ModesAndClusters(Result):
    """Along runs of attention: modes of the density estimate, and clusters, shape (t, runs), at each time."""

    beta: float
    times: Float[np.ndarray, " t"]
    modes: Int[np.ndarray, "t runs"]
    clusters: Int[np.ndarray, "t runs"]
    certain: bool

    def mean_modes(self, index: int) -> Estimate:
        return mean(self.modes[index])

    def mean_clusters(self, index: int) -> Estimate:
        return mean(self.clusters[index])

    def _places(self) -> tuple[str, Float[np.ndarray, "t runs n"]]:
        """What a place is called, and the places of all tokens."""
        raise NotImplementedError

    def variables(self) -> Variables:
        name, places = self._places()
        return {
            "t": ("t", self.times),
            name: (("t", "run", "token"), places),
            "modes": (("t", "run"), self.modes),
            "clusters": (("t", "run"), self.clusters),
        }

    def facts(self) -> list[str]:
        _, runs, n = self._places()[1].shape
        modes, clusters = self.modes.mean(axis=1), self.clusters.mean(axis=1)
        return [
            f"{runs} run{'s' if runs > 1 else ''} of {n} tokens, beta = {self.beta:g}, {span(self.times)}",
            f"modes {modes[0]:.4g} to {modes[-1]:.4g}{'' if self.certain else ' (not certain)'}",
            f"clusters {clusters[0]:.4g} to {clusters[-1]:.4g}",
        ]

    def plot(self) -> Figure:
        """Modes and clusters against time."""
        from sphereflow.modes.pictures import draw_modes_and_clusters

        return draw_modes_and_clusters(self)


@dataclass(frozen=True, eq=False, repr=False)
class CircleAttention(ModesAndClusters):
    """The same on the circle from uniform tokens, with their angles."""

    angles: Float[np.ndarray, "t runs n"]

    def _places(self) -> tuple[str, Float[np.ndarray, "t runs n"]]:
        return "angle", self.angles


@recorded_call
def modes_and_clusters(
    n: int,
    beta: float,
    repeats: int,
    times: Float[np.ndarray, " t"],
    *,
    seed: Seed = 0,
    closeness: float = 0.25,
    tol: float = 1e-5,
    dt: float | None = None,
) -> CircleAttention:
    """Evolve uniform tokens under self-attention and count both, at each of the times.

    Tokens are in one cluster when a chain of them has steps below `closeness` bandwidths. With `dt` the motion goes in
    fixed Euler steps, the layers of a Transformer, instead of keeping the error below `tol`.
    """
    whole_number("n", n)
    whole_number("repeats", repeats, least=2)
    rng = rng_from(seed)
    first_angles = rng.uniform(0, 2 * math.pi, (repeats, n))
    start = np.stack([np.cos(first_angles), np.sin(first_angles)], axis=-1)
    solver = "tsit5" if dt is None else "euler"
    at_once = max(_PAIRS // n**2, 1)
    parts = []
    for first in range(0, repeats, at_once):
        part = evolve(
            SA(beta),
            start[first : first + at_once],
            saveat=np.asarray(times, dtype=float),
            tol=tol if dt is None else None,
            solver=solver,
            dt=dt,
        )
        if part.status is not Status.REACHED_END:
            raise SphereflowError(f"attention did not reach the last time: {part.status.value}")
        parts.append(np.asarray(part.xs))
    tokens = np.concatenate(parts, axis=1)
    angles = np.mod(np.arctan2(tokens[..., 1], tokens[..., 0]), 2 * math.pi)
    modes = [find_modes(frame, beta, space="circle") for frame in angles]
    threshold = math.cos(closeness / math.sqrt(beta))
    clusters = [[cluster_count(x, threshold) for x in frame] for frame in tokens]
    return CircleAttention(
        beta,
        np.asarray(times, dtype=float),
        np.array([f.counts for f in modes]),
        np.array(clusters),
        all(f.certain for f in modes),
        angles,
    )
