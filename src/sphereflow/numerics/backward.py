r"""The backward equation of a diffusion on an interval, by central differences and an L-stable Runge-Kutta method.

$$\partial_tf=\mu\,\partial_zf+\tfrac12q\,\partial_z^2f,\qquad f(0,\cdot)=\phi,\qquad E\,\phi(z(t))=f(t,z_0).$$

The ends of the grid reflect: they are put where the diffusion does not come, or where it is even.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.interpolate import make_interp_spline
from scipy.linalg.lapack import dgttrf, dgttrs

Bands = tuple[np.ndarray, np.ndarray, np.ndarray]

# Hairer and Wanner, Solving ODEs II, table IV.6.5: five stages, order four, the same diagonal 1/4, L-stable.
_SDIRK = np.array(
    [
        [1 / 4, 0, 0, 0, 0],
        [1 / 2, 1 / 4, 0, 0, 0],
        [17 / 50, -1 / 25, 1 / 4, 0, 0],
        [371 / 1360, -137 / 2720, 15 / 544, 1 / 4, 0],
        [25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4],
    ]
)


def generator(drift: Float[np.ndarray, " m"], squared: Float[np.ndarray, " m"], step: float) -> Bands:
    r"""The tridiagonal matrix of $\mu\partial_z+\frac12q\partial_z^2$ at points a `step` apart: below, on, above."""
    up, down = squared / (2 * step**2) + drift / (2 * step), squared / (2 * step**2) - drift / (2 * step)
    diagonal = -(up + down)
    up[0], down[-1] = -diagonal[0], -diagonal[-1]  # reflection: the mirror image of the neighbour
    return down[1:], diagonal, up[:-1]


def cell_means(payoff: Callable[[np.ndarray], np.ndarray], z: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Means of a function over the cells around the points, so that a jump counts where it is."""
    within = (np.arange(8) - 3.5) / 8 * (z[1] - z[0])
    return np.mean(np.asarray(payoff(z[:, None] + within), dtype=float), axis=1)


def advance(bands: Bands, f: Float[np.ndarray, " m"], duration: float, steps: int) -> Float[np.ndarray, " m"]:
    """The solution after `duration`, in equal steps."""
    h = duration / steps
    factors = dgttrf(*(-h / 4 * bands[0], 1 - h / 4 * bands[1], -h / 4 * bands[2]))[:5]
    for _ in range(steps):
        rates: list[np.ndarray] = []
        for row in range(5):
            known = f + h * sum((_SDIRK[row, j] * rates[j] for j in range(row)), start=np.zeros_like(f))
            rates.append(_apply(bands, dgttrs(*factors, known)[0]))
        f = f + h * sum((_SDIRK[4, j] * rates[j] for j in range(5)), start=np.zeros_like(f))
    return f


def solve_tridiagonal(bands: Bands, right: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """x with Lx = `right`."""
    return dgttrs(*dgttrf(*bands)[:5], right)[0]


def read_between(z: Float[np.ndarray, " m"], f: Float[np.ndarray, " m"], at: float) -> float:
    """The value between grid points, by a spline of degree five."""
    near = np.abs(z - at) < 20 * (z[1] - z[0])
    return float(make_interp_spline(z[near], f[near], k=5)(at))


def _apply(bands: Bands, f: np.ndarray) -> np.ndarray:
    down, diagonal, up = bands
    out = diagonal * f
    out[:-1] += up * f[1:]
    out[1:] += down * f[:-1]
    return out
