r"""Modes of density estimates in the plane and in space.

$$\hat P(t)=\frac1n\sum_ie^{-\beta|t-X_i|^2/2},\qquad
  \varrho_2=\frac{\beta}{4\sqrt3\,\pi},\quad \varrho_3=\frac{29-6\sqrt6}{48\sqrt6\,\pi^2}\beta^{3/2}$$

modes per area or volume where samples are dense and the slope of their density does not matter: the maxima of a
Gaussian field with covariance $e^{-\beta r^2/4}$. For normal samples the slope suppresses modes by $e^{-q}$,
$q=n(2/\beta)^{d/2}\beta^{-1}|t|^2e^{-|t|^2/2}$.

Maxima of the estimate on a grid (four nodes per bandwidth) are refined by Newton's method on the exact sums; each mode
is then proved by Kantorovich's condition. That no mode lies between the nodes unseen is not proved.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad
from scipy.ndimage import maximum_filter
from scipy.spatial import cKDTree

from sphereflow.errors import SphereflowError, enough_memory, real_number, whole_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

_PER_BANDWIDTH = 4
_MARGIN = 8.0
_REACH = 6.5
# Sums in proofs go further: what is left out of them must be small even if all other samples were just there.
_PROOF_REACH = 8.0
# Proofs hold in a ball of this radius around a mode.
_BALL = 0.1
_STEPS = 24
_RATES = {
    1: math.sqrt(1.5) / (2 * math.pi),
    2: 1 / (4 * math.sqrt(3) * math.pi),
    3: (29 - 6 * math.sqrt(6)) / (48 * math.sqrt(6) * math.pi**2),
}


def peak_rate(beta: float, d: int) -> float:
    """Modes per unit volume in dimension 1, 2 or 3, where samples are dense and their density is flat."""
    beta = real_number("beta", beta, above=0)
    return _RATES[whole_number("d", d, least=1, most=3)] * beta ** (d / 2)


def expected_peaks(n: float, beta: float, d: int, radius: float) -> float:
    """Modes with |t| below the radius for n standard normal samples in R^d, where samples are dense."""
    n, radius = real_number("n", n, least=1), real_number("radius", radius, above=0, most=40)
    rate, surface = peak_rate(beta, d), 2 * math.pi ** (d / 2) / math.gamma(d / 2)

    def shell(t: float) -> float:
        q = n * (2 / beta) ** (d / 2) / beta * t**2 * math.exp(-(t**2) / 2)
        return surface * t ** (d - 1) * math.exp(-q)

    return rate * float(quad(shell, 0, radius, limit=200)[0])


@dataclass(frozen=True, eq=False, repr=False)
class SpaceModes(Result):
    """Modes (m, d) of one sample, the height of n times the estimate there, and the smallest curvature in size.

    `proved`: for how many of them existence and isolation are proved.
    """

    beta: float
    positions: Float[np.ndarray, "m d"]
    heights: Float[np.ndarray, " m"]
    curvatures: Float[np.ndarray, " m"]
    proved: int

    def __len__(self) -> int:
        return len(self.positions)

    def variables(self) -> Variables:
        return {
            "position": (("mode", "component"), self.positions),
            "height": ("mode", self.heights),
            "curvature": ("mode", self.curvatures),
        }

    def facts(self) -> list[str]:
        return [f"{len(self)} modes in dimension {self.positions.shape[1]}, {self.proved} of them proved"]


@recorded_call
def find_modes_in_space(samples: ArrayLike, beta: float) -> SpaceModes:
    """The modes of the density estimate of samples in the plane or in space, shape (n, 2) or (n, 3).

    ```python
    find_modes_in_space(np.random.default_rng(0).normal(size=(10_000, 2)), beta=300.0)
    ```
    """
    beta = real_number("beta", beta, above=0)
    x = real_array("samples", samples)
    if x.ndim != 2 or x.shape[1] not in (2, 3) or len(x) == 0:
        raise SphereflowError(f"samples must have shape (n, 2) or (n, 3) with n >= 1, got shape {x.shape}.")
    y = x * math.sqrt(beta)
    modes, heights, bends, proved = _refined(y, _candidates(y))
    return SpaceModes(beta, modes / math.sqrt(beta), heights, beta * bends, proved)


def _candidates(y: np.ndarray) -> np.ndarray:
    """Local maxima of the estimate on a grid, in bandwidths."""
    d, spacing = y.shape[1], 1 / _PER_BANDWIDTH
    low = y.min(axis=0) - _MARGIN
    shape = tuple(int(k) for k in np.ceil((y.max(axis=0) + _MARGIN - low) / spacing).astype(int))
    enough_memory(8 * 6 * math.prod(shape), f"a grid of {' x '.join(map(str, shape))} nodes")
    place = (y - low) / spacing
    first = np.floor(place).astype(int)
    u = place - first
    weights = ((1 - u) ** 3 / 6, (3 * u**3 - 6 * u**2 + 4) / 6, (-3 * u**3 + 3 * u**2 + 3 * u + 1) / 6, u**3 / 6)
    grid = np.zeros(math.prod(shape))
    for corner in itertools.product(range(4), repeat=d):
        index = np.ravel_multi_index(tuple(first[:, i] - 1 + corner[i] for i in range(d)), shape)
        grid += np.bincount(index, np.prod([weights[c][:, i] for i, c in enumerate(corner)], axis=0), grid.size)
    waves = np.fft.rfftn(grid.reshape(shape))
    for axis, count in enumerate(shape):
        k = 2 * np.pi * (np.fft.rfftfreq if axis == d - 1 else np.fft.fftfreq)(count, spacing)
        kernel = np.exp(-(k**2) / 2) * math.sqrt(2 * math.pi) / spacing / np.sinc(k * spacing / (2 * np.pi)) ** 4
        waves *= kernel.reshape([-1 if i == axis else 1 for i in range(d)])
    estimate = np.fft.irfftn(waves, shape, axes=range(d))
    # A mode has a sample within sqrt(d) bandwidths: it is at least that high.
    tops = (estimate == maximum_filter(estimate, 3)) & (estimate > 0.8 * math.exp(-d / 2))
    return low + spacing * np.argwhere(tops)


def _refined(y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    d, start, tree = y.shape[1], at, cKDTree(y)
    around = _neighbours(tree, at, _REACH + 1)
    for step in range(_STEPS):
        height, slope, bend = _sums(around, y, at)
        ascending = np.linalg.eigvalsh(bend)[:, -1] < 0
        safe = np.where(ascending[:, None, None], bend, -np.eye(d))
        newton = -np.linalg.solve(safe, slope[..., None])[..., 0]
        move = np.where(ascending[:, None] & (step > 1), newton, slope / height[:, None])
        if np.abs(move).max(initial=0.0) < 1e-13:
            break
        at = at + move * np.minimum(1.0, 0.5 / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-300))
        # A maximum of the grid has its mode nearby; what wanders off climbs to another one.
        away = at - start
        at = start + away * np.minimum(1.0, 1 / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-300))
    height, slope, bend = _sums(around, y, at)
    still = np.linalg.norm(slope, axis=1) < 1e-9 * height
    maxima = np.flatnonzero(still & (np.linalg.eigvalsh(bend)[:, -1] < 0))
    # Two candidates may have climbed to one mode.
    pairs = cKDTree(at[maxima]).query_pairs(1e-5, output_type="ndarray") if len(maxima) else np.zeros((0, 2), dtype=int)
    maxima = np.delete(maxima, np.unique(pairs[:, 1])) if len(pairs) else maxima
    modes = at[maxima][np.lexsort(at[maxima].T[::-1])]
    return modes, *_proved(tree, y, modes)


def _proved(tree: cKDTree, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    r"""Heights, curvatures, and how many have $\|H^{-1}\|^2\,|\nabla|\,\sup_{\rm ball}\|D^3\|\le\tfrac12$."""
    # Kantorovich: then a critical point lies in the ball, and only one.
    around = _neighbours(tree, at, _PROOF_REACH)
    height, slope, bend = _sums(around, y, at)
    curvature = -np.linalg.eigvalsh(bend)[:, -1]
    left_out = len(y) * math.exp(-(_PROOF_REACH**2) / 2)
    sure = curvature - left_out * _PROOF_REACH**2
    unknown = np.linalg.norm(slope, axis=1) + left_out * _PROOF_REACH + 1e-13 * height
    distance = np.linalg.norm(y[around[1]] - at[around[0]], axis=1)
    third = np.bincount(around[0], _third(distance - _BALL), minlength=len(at)) + len(y) * _third(_PROOF_REACH - _BALL)
    proved = (sure > 0) & (2 * unknown <= _BALL * sure) & (2 * unknown * third <= sure**2)
    return height, curvature, int(np.sum(proved))


def _third(distance: Float[np.ndarray, "*n"] | float) -> Float[np.ndarray, "*n"]:
    """The most that a third derivative of exp(-|u|^2/2) can be at this distance or beyond."""
    s = np.maximum(distance, math.sqrt(3 - math.sqrt(6)))  # largest there, then again at sqrt(3 + sqrt 6)
    size = np.where(s <= 1, 3 * s - s**3, np.where(s <= 2, 2.0, s**3 - 3 * s)) * np.exp(-(s**2) / 2)
    return np.where(s < math.sqrt(3 + math.sqrt(6)), np.maximum(size, 0.376), size)


def _neighbours(tree: cKDTree, at: np.ndarray, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """(place, sample) of all pairs within reach."""
    lists = tree.query_ball_point(at, reach)
    owner = np.repeat(np.arange(len(at)), [len(each) for each in lists])
    return owner, np.concatenate([np.zeros(0, dtype=int), *(np.asarray(each, dtype=int) for each in lists)])


def _sums(
    around: tuple[np.ndarray, np.ndarray], y: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n times the estimate, with gradient and Hessian."""
    (m, d), owner = at.shape, around[0]
    u = y[around[1]] - at[owner]
    weight = np.exp(-np.sum(u**2, axis=1) / 2)

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(owner, values, minlength=m)

    height = total(weight)
    slope = np.stack([total(weight * u[:, i]) for i in range(d)], axis=1)
    bend = np.empty((m, d, d))
    for i, j in itertools.product(range(d), repeat=2):
        bend[:, i, j] = total(weight * (u[:, i] * u[:, j] - (i == j)))
    return height, slope, bend
