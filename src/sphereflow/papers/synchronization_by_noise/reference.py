"""Stored reference values, each with the function that computes it; a slow test computes them again."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.sparse import diags_array

# (strength, start): E(1-r) of two tokens at t = 1, 2, 4, constant noise in dimension 6, beta = 1; by
# `mean_gaps` on 2000 and 4000 cells, extrapolated.
MEAN_GAPS: dict[tuple[float, float], tuple[float, float, float]] = {
    (0.0, 0.0): (0.03078619, 0.00131484, 0.00000290),
    (0.0, 0.9): (0.00448084, 0.00020779, 0.00000048),
    (-1.0, 0.0): (0.08727700, 0.01554944, 0.00082329),
    (-1.0, 0.9): (0.02257704, 0.00506164, 0.00031275),
    (-1.5, 0.0): (0.13394623, 0.04085873, 0.00682205),
    (-1.5, 0.9): (0.04518692, 0.01826161, 0.00367537),
    (-2.5, 0.0): (0.26427076, 0.16478410, 0.10473065),
    (-2.5, 0.9): (0.13952232, 0.11834477, 0.08936845),
    (-3.0, 0.0): (0.34264178, 0.26141117, 0.21890688),
    (-3.0, 0.9): (0.21524439, 0.21764354, 0.20719489),
}


def mean_gaps(v: float, starts: tuple[float, ...], cells: int) -> np.ndarray:
    r"""The same by the method of lines in $y=\log\tan(\varphi/2)$, on one grid.

    With $g=1-r=2e^{2y}/(1+e^{2y})$ the generator is $(1-r)\,\partial_\varphi^2-[4(1-r)/\sin\varphi+2vp\sin\varphi]
    \partial_\varphi$ where $\partial_\varphi=\partial_y/\sin\varphi$.
    """
    y = np.linspace(-24, 8, cells + 1)
    step = y[1] - y[0]
    square = np.exp(2 * y)
    gap, cosine = 2 * square / (1 + square), (1 - square) / (1 + square)
    over = (1 + square) / 2  # (1-r)/sin^2 = 1/(1+r)
    p = 1 / (1 + np.exp(gap))
    # (1-r) d_phi^2 = over (d_y^2 - cos d_y); the drift over sin is 4 (1-r)/sin^2 + 2 v p.
    second, first = over, -over * cosine - 4 * over - 2 * v * p
    # The upper end, where tokens are nearly antipodal, drifts inwards faster than the grid: taken at once.
    down, up = second / step**2 - first / (2 * step), second / step**2 + first / (2 * step)
    down, up = np.maximum(down, 0.0), np.maximum(up, 0.0)
    down[0], up[-1] = 0.0, 0.0
    matrix = diags_array([down[1:], -(down + up), up[:-1]], offsets=[-1, 0, 1], format="csc")
    found = solve_ivp(lambda _, f: matrix @ f, (0, 4), gap, "BDF", t_eval=[1, 2, 4], jac=matrix, rtol=1e-9, atol=1e-13)
    at = np.log(np.tan(np.arccos(np.array(starts)) / 2))
    return np.array([CubicSpline(y, f)(at) for f in found.y.T]).T
