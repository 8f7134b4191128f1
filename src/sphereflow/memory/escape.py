r"""How long a pattern is kept: mean escape times from the retrieval basin of LSE, by quadrature at any N.

$$h(\phi)=1-\frac1{\beta N}\ln(e^{\beta N\phi}+e^{\beta N\phi_{noise}}),\qquad
  \tau=\int_{\phi_b}^{\phi_0}\frac{dy}{D(y)p(y)}\int_y^1p(z)\,dz,\qquad D=\frac{T(1-\phi^2)}N,$$

with the stationary density $p\propto(1-\phi^2)^{(N-3)/2}e^{-Nh/T}$. Times are in the unit of the Langevin equation.

With $\phi=\cos\theta$, $L=(N-2)\ln\sin\theta-Nh/T$ it is $\tau=\frac NT\int r\,d\theta$, $r=e^{-L}\int_0^\theta e^L$.
Both integrals take L as linear within a cell, so nothing overflows and nothing is lost in a steep cell; the error,
second order in the cells, is removed by one extrapolation.
"""

from __future__ import annotations

import numpy as np

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.memory.overlaps import Broadcast, Values
from sphereflow.memory.spherical import noise_overlap
from sphereflow.memory.state import lse_overlap
from sphereflow.reading import real_array

CELLS = 3000
_LONGEST = float(np.log(np.finfo(float).max))


def potential(phi: Broadcast, n: Broadcast, beta: float, noise: Broadcast) -> Values:
    r"""h(phi): the energy density of a state with this overlap, all other patterns entering by their noise floor."""
    return 1 - np.logaddexp(beta * n * np.asarray(phi), beta * n * np.asarray(noise)) / (beta * n)


def log_escape_time(
    n: Broadcast,
    beta: float,
    temperature: Broadcast,
    noise: Broadcast,
    *,
    start: Broadcast | None = None,
    stop: Broadcast | None = None,
    cells: int = CELLS,
    extrapolate: bool = True,
) -> Values:
    r"""$\ln\tau$ from the overlap `start` (the retrieval overlap by default) down to `stop` (half of `noise`).

    All arguments but `beta`, `cells` and `extrapolate` may be arrays; they broadcast. `noise` is $\phi_{noise}$.
    Without the extrapolation the error is second order in the cells, enough for a map.
    """
    beta, cells = real_number("beta", beta, above=0, most=1e6), whole_number("cells", cells, least=12, most=10**7)
    n, temperature, noise = real_array("n", n), real_array("temperature", temperature), real_array("noise", noise)
    if not (np.all(temperature > 0) and np.all(n >= 4) and np.all(n <= 1e9) and np.all(np.abs(noise) <= 1)):
        raise SphereflowError("an escape time needs a temperature above 0, N from 4 to 1e9 and noise within [-1, 1].")
    start = lse_overlap(temperature) if start is None else real_array("start", start)
    stop = noise / 2 if stop is None else real_array("stop", stop)
    try:
        n, temperature, noise, start, stop = np.broadcast_arrays(n, temperature, noise, start, stop)
    except ValueError:
        raise SphereflowError("n, temperature, noise, start and stop must have shapes that broadcast.") from None
    if not (np.all(start > stop) and np.all(start < 1) and np.all(stop > -1)):
        raise SphereflowError("an escape time needs start above stop, both between -1 and 1.")
    args = [a[..., None] for a in (n, temperature, noise, start, stop)]
    coarse = _log_time(beta, cells, *args)
    if not extrapolate:
        return coarse
    fine = _log_time(beta, 2 * cells, *args)
    return fine + np.log1p(np.clip(-np.expm1(coarse - fine) / 3, -0.5, 0.5))


def escape_time(
    n: int,
    alpha: float,
    temperature: float,
    beta: float = 1.0,
    *,
    start: float | None = None,
    stop: float | None = None,
    cells: int = CELLS,
) -> float:
    """The mean escape time at load alpha, with the noise floor of the spherical layer.

    With the default number of cells the relative error is below 1e-6; it falls with their square or faster.
    """
    whole_number("n", n, least=4, most=10**9)
    real_number("alpha", alpha, above=0)
    real_number("temperature", temperature, above=0, most=1e6)
    noise = float(noise_overlap(alpha, real_number("beta", beta, above=0, most=1e6)))
    if noise >= 1:
        raise SphereflowError(
            f"alpha must lie below the capacity at this beta, got {alpha!r}: there is no basin to leave."
        )
    log_time = float(log_escape_time(n, beta, temperature, noise, start=start, stop=stop, cells=cells))
    if log_time > _LONGEST:
        raise SphereflowError(f"the escape time is e^{log_time:.6g}, too long for a number: use log_escape_time.")
    return float(np.exp(log_time))


def _log_time(
    beta: float, cells: int, n: np.ndarray, t: np.ndarray, noise: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    first, last = np.arccos(start), np.arccos(stop)
    inner = np.concatenate(
        [_graded(1e-6 * first, first, n, noise, cells // 3)[..., :-1], _graded(first, last, n, noise, cells)], axis=-1
    )
    log_p = (n - 2) * np.log(np.sin(inner)) - n / t * potential(np.cos(inner), n, beta, noise)
    begin = log_p[..., :1] + np.log(inner[..., :1] / (n - 1))  # e^L grows like a power of the angle before the grid
    mass = np.logaddexp.accumulate(np.concatenate([begin, _log_cells(log_p, inner)], axis=-1), axis=-1)
    ratio = (mass - log_p)[..., cells // 3 :]
    pieces = _log_cells(ratio, inner[..., cells // 3 :])
    top = pieces.max(axis=-1, keepdims=True)
    return (np.log(np.sum(np.exp(pieces - top), axis=-1, keepdims=True)) + top + np.log(n / t))[..., 0]


def _graded(low: np.ndarray, high: np.ndarray, n: np.ndarray, noise: np.ndarray, cells: int) -> np.ndarray:
    """Points from low to high, half of them equally spaced, half crowded where the potential bends over 1/N."""
    even = low + (high - low) * np.linspace(0, 1, cells // 2 + 1)
    bend = np.clip(np.arccos(np.minimum(noise, 1.0)), low, high)
    reach = np.arcsinh((high - low) * n)
    offsets = np.sinh(reach * np.linspace(-1, 1, cells - cells // 2 + 2)[1:-1]) / n
    crowded = np.clip(bend + offsets, low, high)
    return np.sort(np.concatenate([even, crowded], axis=-1), axis=-1)


def _log_cells(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """ln of the integral of exp(values) over each cell, values being linear there."""
    rise = np.abs(np.diff(values, axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(rise > 1e-8, -np.expm1(-rise) / rise, 1 - rise / 2)
        width = np.log(np.diff(points, axis=-1))
    return np.maximum(values[..., 1:], values[..., :-1]) + np.log(mean) + width
