r"""A rough run in NumPy, for the time in which the accurate one is compiled and computed.

$$\hat x=N\big(x+h\,v(x)\big),\qquad x(h)\approx N\big(x+h\,v(N(x+\tfrac h2v(x)))\big),\qquad N(x)=x/|x| .$$

The midpoint rule, with steps for which $|x(h)-\hat x|\le$ `ROUGH` at every token. Many tokens are pulled by the means
of the cells of a grid, which is fine where the kernel is narrow; tokens within `NEAR` of each other go on as one, so
that clusters at rest allow long steps. Layers of random weights are those of the accurate run. Nothing is exported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from sphereflow.evolution.webpage.groups import groups
from sphereflow.explorer.models import NEURONS, Layers
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.numerics.unit_vectors import unit
from sphereflow.sphere import draw

ROUGH = 0.02
NEAR = 1e-3
_CELLS_FROM = 800  # tokens
_CELL = 0.4  # width of a cell in units of the width of the kernel, which changes sums by about a hundredth
_BLOCK = 2**20  # pairs at once
_LEAST_STEP = 1e-6
_LONGEST_EUCLIDEAN = 0.05  # attention weights switch within times e^(-2t)

# Time, tokens, energy; None between two frames, so that others have their turn in between.
Rough = Iterator[tuple[float, np.ndarray, float] | None]
Sums = tuple[np.ndarray, np.ndarray]  # the pull of each token, and its partition function (a mean over tokens)


def rough_frames(s: Settings, x0: Float[np.ndarray, "n d"]) -> Rough:
    """The frames after the first one, roughly."""
    yield from (_layers if s.noisy else _steps)(s, x0.astype(float))


def _steps(s: Settings, x: np.ndarray) -> Rough:
    crowd, step = _Crowd(s, x), math.inf
    t, velocity = 0.0, crowd.velocity(0.0, crowd.points)
    for end in map(float, s.times[1:]):
        while t < end:
            last = t + step >= end
            h = min(end - t, crowd.longest) if last else step
            first = crowd.moved(h * velocity)
            second = crowd.moved(h * crowd.velocity(t + h / 2, crowd.moved(h / 2 * velocity)))
            error = float(np.abs(second - first).max())
            if error > ROUGH and h > _LEAST_STEP:
                step = h * max(0.2, 0.8 * math.sqrt(ROUGH / error))
            else:
                grown = min(h * min(2.0, 0.8 * math.sqrt(ROUGH / max(error, 1e-12))), crowd.longest)
                step = max(step, grown) if last and step < math.inf else grown
                t = end if last and h == end - t else t + h
                crowd.points = second
                if t == end:
                    crowd.gather()
                velocity = crowd.velocity(t, crowd.points)
            yield None
        yield t, crowd.points[crowd.labels], crowd.energy()


class _Crowd:
    """Points with masses, each of them one token or several that have met."""

    def __init__(self, s: Settings, x: np.ndarray):
        self._s, self.points = s, x
        self.labels, self.masses = np.arange(len(x)), np.full(len(x), 1 / len(x))
        self.on_sphere = s.model != "euclid"
        self.longest = math.inf if self.on_sphere else _LONGEST_EUCLIDEAN
        self._pull = _pulls(s)
        self._partition = np.ones(len(x))

    def moved(self, by: np.ndarray) -> np.ndarray:
        return unit(self.points + by) if self.on_sphere else self.points + by

    def velocity(self, t: float, x: np.ndarray) -> np.ndarray:
        if not self.on_sphere:
            return _hull_average(self._s.beta * math.exp(2 * t), x) - x
        pull, self._partition = self._pull(x, self.masses)
        return pull - np.sum(pull * x, axis=1, keepdims=True) * x

    def gather(self) -> None:
        """Tokens that have met go on as one, at their mean; in a decoder they do not see the same."""
        if self._s.model in ("causal", "euclid"):
            return
        group = groups(self.points, NEAR)
        count = int(group.max()) + 1
        if count < len(self.points):
            masses = np.bincount(group, weights=self.masses)
            sums = [np.bincount(group, weights=self.masses * column) for column in self.points.T]
            self.points, self.masses, self.labels = unit(np.stack(sums, axis=1)), masses, group[self.labels]

    def energy(self) -> float:
        """What the accurate run calls the energy of these tokens, up to the width of cells."""
        if self._s.model not in ("sa", "usa", "perceptron"):
            self._partition = attention(self._s.beta, self.points, self.masses)[1]
        return _energy(self._s, self.points, self.masses, self._partition)


def _layers(s: Settings, x: np.ndarray) -> Rough:
    """The layers of the accurate run, with the same weights."""
    layers, key = Layers.of(s), jax.random.key(s.seed)
    masses = np.full(s.n, 1 / s.n)
    for index in range(INTERVALS):
        for layer in range(index * layers.each, (index + 1) * layers.each):
            # Weights that all tokens share do not depend on n, for which their program would be compiled again.
            drawn = layers.field.draw(jax.random.fold_in(key, layer), 1, s.n if s.model == "own" else 1, s.d)
            move = math.sqrt(layers.step) * max(s.noise, 1e-6) * _noise(s.model, drawn, x)
            if s.pull > 0:
                move += layers.step * s.pull * attention(s.beta, x, masses)[0]
            x = unit(x + move)
            yield None
        yield float(s.times[index + 1]), x, _energy(s, x, masses, attention(s.beta, x, masses)[1])


def _noise(model: str, weights: Any, x: np.ndarray) -> np.ndarray:
    if model == "own":
        return np.asarray(weights[1])
    out, inner = np.asarray(weights[0][0]), np.asarray(weights[1][0])
    return np.maximum(x @ inner.T, 0) @ out / math.sqrt(len(out))


def _pulls(s: Settings) -> Callable[[np.ndarray, np.ndarray], Sums]:
    """The pull of each point before it is projected, and the partition functions."""
    if s.model != "perceptron":
        how = {"mean": s.model == "usa", "causal": s.model == "causal"}
        return lambda x, masses: attention(s.beta, x, masses, **how)
    inner = _neurons(s)

    def with_neurons(x: np.ndarray, masses: np.ndarray) -> Sums:
        pull, partition = attention(s.beta, x, masses, mean=True)
        return pull + s.push * np.maximum(x @ inner.T, 0) @ inner, partition

    return with_neurons


def _neurons(s: Settings) -> np.ndarray:
    return np.asarray(draw("uniform", NEURONS, s.d, s.seed + 1))


def _energy(s: Settings, x: np.ndarray, masses: np.ndarray, partition: np.ndarray) -> float:
    energy = float(np.sum((masses @ x) ** 2)) / 2 if s.beta == 0 else float(masses @ partition) / (2 * s.beta)
    if s.model == "perceptron":
        energy += s.push * float(masses @ np.sum(np.maximum(x @ _neurons(s).T, 0) ** 2, axis=1)) / 2
    return energy


def attention(beta: float, x: np.ndarray, masses: np.ndarray, *, mean: bool = False, causal: bool = False) -> Sums:
    r"""$A_i=\sum_jw_je^{\beta(\langle x_i,x_j\rangle-1)}x_j$, divided by $Z_i$ (the same sum of ones) unless `mean`."""
    keys, shares = (x, masses) if causal else cells(x, masses, beta)
    # One product gives the whole exponent: beta <x, y> - beta.
    queries = np.column_stack([beta * x, np.full(len(x), -beta)]).astype(np.float32)
    columns = np.column_stack([keys, np.ones(len(keys))])
    values, columns = (columns * shares[:, None]).astype(np.float32), columns.astype(np.float32)
    sums = np.empty((len(x), x.shape[1] + 1))
    rows = max(1, _BLOCK // len(keys))
    for first in range(0, len(x), rows):
        kernel = queries[first : first + rows] @ columns.T
        np.exp(kernel, out=kernel)
        if causal:
            kernel *= np.arange(len(keys)) <= np.arange(first, first + len(kernel))[:, None]
        sums[first : first + rows] = kernel @ values
    partition = sums[:, -1]
    return (sums[:, :-1] if mean else sums[:, :-1] / np.maximum(partition, 1e-300)[:, None]), partition


def cells(x: np.ndarray, masses: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Means and masses of the points in each cell of a grid; the points themselves where that saves little."""
    n, d = x.shape
    if n < _CELLS_FROM or d > 4:
        return x, masses
    width = _CELL / math.sqrt(max(beta, 1.0))
    side = int(2 / width) + 2
    places = ((x + 1) / width).astype(np.int64) @ (side ** np.arange(d))
    _, cell = np.unique(places, return_inverse=True)
    mass = np.bincount(cell, weights=masses)
    if len(mass) > 0.6 * n:
        return x, masses
    return np.stack([np.bincount(cell, weights=masses * column) for column in x.T], axis=1) / mass[:, None], mass


def _hull_average(sharpness: float, z: np.ndarray) -> np.ndarray:
    """Softmax averages of tokens in space."""
    averages, rows = np.empty_like(z), max(1, _BLOCK // len(z))
    for first in range(0, len(z), rows):
        scores = sharpness * z[first : first + rows] @ z.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        averages[first : first + rows] = weights @ z / weights.sum(axis=1, keepdims=True)
    return averages
