r"""Attention between tokens on the line, from any start, with modes and clusters at every time.

$$\dot x_i=\frac{\sum_jw_{ij}x_j}{\sum_jw_{ij}}-x_i=\frac{P'(x_i)}{\beta P(x_i)},\qquad
  w_{ij}=e^{-\beta(x_i-x_j)^2/2},\quad P=\sum_je^{-\beta(\cdot-x_j)^2/2}.$$

This is softmax attention with weights $e^{-\beta x_j^2/2}$ on its keys, or on a sphere of large radius. Where tokens
are locally uniform, the wave k of their noise grows at rate $(k^2/\beta)e^{-k^2/2\beta}$, so that while the motion is
linear the modes of P per length are

$$\frac{\sqrt\beta}{2\pi}\sqrt{\frac{m_4}{m_2}},\qquad m_p=\int k^pe^{-k^2+2tk^2e^{-k^2/2}}dk .$$

P is found in linear time on a grid of six nodes per bandwidth: tokens are spread and read by cubic splines, whose
transform is divided out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.modes.attention import ModesAndClusters
from sphereflow.modes.find import find_modes
from sphereflow.modes.sparse import DENSE_RATE
from sphereflow.reading import real_array
from sphereflow.results import recorded_call
from sphereflow.shapes import ArrayLike

_PER_BANDWIDTH = 6
_MARGIN = 9.0
_MOST_NODES = 1 << 24


def linear_growth(t: float) -> float:
    """Modes per length at time t over those at the start, while the motion is linear: from 1 to sqrt(4/3)."""
    t = real_number("t", t, least=0, most=1e4)
    k = np.linspace(0, 12, 6001)
    exponent = -(k**2) + 2 * t * k**2 * np.exp(-(k**2) / 2)
    power = np.exp(exponent - exponent.max())
    moments = [np.trapezoid(k**p * power, k) for p in (2, 4)]
    return float(math.sqrt(moments[1] / moments[0]) / (2 * math.pi) / DENSE_RATE)


@dataclass(frozen=True, eq=False, repr=False)
class LineAttention(ModesAndClusters):
    """Tokens (t, runs, n) on the line under attention; modes of their density estimate and clusters (t, runs)."""

    tokens: Float[np.ndarray, "t runs n"]

    def _places(self) -> tuple[str, Float[np.ndarray, "t runs n"]]:
        return "token", self.tokens


@recorded_call
def line_attention(
    samples: ArrayLike,
    beta: float,
    times: ArrayLike,
    *,
    closeness: float = 0.25,
    dt: float = 0.1,
) -> LineAttention:
    """Attention between the samples as tokens, and the modes and clusters at each of the times.

    **Arguments:** `samples`: shape (n,) or (runs, n); `closeness`: tokens nearer than so many bandwidths are in one
    cluster; `dt`: the longest step (fourth order).

    ```python
    line_attention(np.random.default_rng(0).normal(size=(20, 1000)), 300.0, [0, 1, 4]).modes.mean(axis=1)
    ```
    """
    beta, dt = real_number("beta", beta, above=0, most=1e12), real_number("dt", dt, above=0, most=1)
    closeness = real_number("closeness", closeness, above=0)
    ts = real_array("times", times, shape=("t",))
    if not len(ts) or ts[0] < 0 or np.any(np.diff(ts) <= 0):
        raise SphereflowError("times must be at least one, not negative and increasing.")
    x = np.atleast_2d(real_array("samples", samples)).copy()
    if x.ndim != 2 or x.size == 0:
        raise SphereflowError(f"samples must have shape (n,) or (runs, n) with n >= 1, got shape {x.shape}.")
    whole_number("the steps to the last time", math.ceil(ts[-1] / dt), least=0, most=1_000_000)
    field = _Field(x, beta)
    frames, now = [], 0.0
    for t in ts:
        steps = math.ceil((t - now) / dt - 1e-9)
        for _ in range(steps):
            step = (t - now) / steps
            k1 = field(x)
            k2 = field(x + step / 2 * k1)
            k3 = field(x + step / 2 * k2)
            x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + field(x + step * k3))
        now = float(t)
        frames.append(x.copy())
    modes = [find_modes(frame, beta) for frame in frames]
    gap = closeness / math.sqrt(beta)
    clusters = [1 + np.sum(np.diff(np.sort(frame, axis=1), axis=1) > gap, axis=1) for frame in frames]
    return LineAttention(
        beta,
        ts,
        np.array([f.counts for f in modes]),
        np.array(clusters),
        all(f.certain for f in modes),
        np.array(frames),
    )


class _Field:
    """P' / (beta P) at the tokens of every run; attention never leaves the hull of the start."""

    def __init__(self, x: np.ndarray, beta: float):
        self.beta, self.spacing = beta, beta**-0.5 / _PER_BANDWIDTH
        self.low = float(x.min()) - _MARGIN * beta**-0.5
        nodes = math.ceil((float(x.max()) + _MARGIN * beta**-0.5 - self.low) / self.spacing)
        self.nodes = 1 << max(nodes - 1, 1).bit_length()
        whole_number("the nodes of the grid", self.nodes * len(x), most=_MOST_NODES)
        k = 2 * np.pi * np.fft.rfftfreq(self.nodes, self.spacing)
        spline = np.sinc(k * self.spacing / (2 * np.pi)) ** 8  # spread and read
        self.value = np.exp(-(k**2) / (2 * beta)) / np.maximum(spline, 1e-12)
        self.slope = 1j * k * self.value

    def __call__(self, x: np.ndarray) -> np.ndarray:
        runs = len(x)
        place = (x - self.low) / self.spacing
        first = np.floor(place).astype(int)
        u = place - first
        weights = ((1 - u) ** 3 / 6, (3 * u**3 - 6 * u**2 + 4) / 6, (-3 * u**3 + 3 * u**2 + 3 * u + 1) / 6, u**3 / 6)
        base = first - 1 + self.nodes * np.arange(runs)[:, None]
        grid = np.zeros(runs * self.nodes)
        for j, weight in enumerate(weights):
            grid += np.bincount((base + j).ravel(), weight.ravel(), minlength=grid.size)
        waves = np.fft.rfft(grid.reshape(runs, self.nodes), axis=1)
        height = np.fft.irfft(waves * self.value, self.nodes, axis=1).ravel()
        slope = np.fft.irfft(waves * self.slope, self.nodes, axis=1).ravel()
        above = sum(weight * height[base + j] for j, weight in enumerate(weights))
        along = sum(weight * slope[base + j] for j, weight in enumerate(weights))
        return np.asarray(along / (self.beta * above))
