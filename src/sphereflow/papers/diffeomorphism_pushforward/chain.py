r"""A Knothe-Rosenblatt map in ten dimensions, played at random, in which errors pass from one coordinate to the next.

$$y_1=x_1,\qquad y_k=x_k+f(y_{k-1}),\qquad f(y)=\tfrac45(1-\cos y)=\int_0^Rf''(s)(y-s)_+ds+\int_{-R}^0f''(s)(s-y)_+ds,$$

is triangular with ones on the diagonal: the Knothe-Rosenblatt map of N(0, I) to its image. With m neurons for each
coordinate, drawn in proportion to $|f''|$, the error of coordinate k is $f'(y_{k-1})$ times the one before plus a fresh
one, so that to first order in 1/m, for the expectation $V_k/m$ of its square at a given x,

$$V_k=f'(y_{k-1})^2\,V_{k-1}+v(y_{k-1}),\qquad v(y)=M\int|f''(s)|\,\sigma_s(y)^2ds-f(y)^2,\quad M=\int|f''|.$$
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.estimates import mean
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.papers.diffeomorphism_pushforward.sources import REGULAR
from sphereflow.transport.conditional.maurey import Neurons, ensemble

DIMENSIONS = (2, 5, 10)
REACH = 6.0
SIZE = 0.8
POINTS = 16
_OFFSETS = 480


def profile(y: np.ndarray) -> np.ndarray:
    return SIZE * (1 - np.cos(y))


def chain(x: np.ndarray) -> np.ndarray:
    """The map itself."""
    y = x.copy()
    for k in range(1, x.shape[1]):
        y[:, k] += profile(y[:, k - 1])
    return y


def _neurons() -> tuple[np.ndarray, np.ndarray]:
    """Places s in the middles of equal intervals, and f''(s) times their width."""
    s = -REACH + 2 * REACH * (np.arange(_OFFSETS) + 0.5) / _OFFSETS
    return s, SIZE * np.cos(s) * 2 * REACH / _OFFSETS


def fields(d: int) -> list[Neurons]:
    """One field for each coordinate after the first; each has its share, 1/(d - 1), of the unit of time."""
    s, weight = _neurons()
    axes = np.eye(d)
    side = np.sign(s)
    return [Neurons((d - 1) * weight[:, None] * axes[k], side[:, None] * axes[k - 1], -side * s) for k in range(1, d)]


def points(d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 17).standard_normal((POINTS, d))


def constants(x: np.ndarray, passed_on: str = "slope") -> float:
    """Sum over k of the mean over x of V_k, by the recursion; what is passed on may be replaced by a rival's."""
    y = chain(x)
    s, weight = _neurons()
    total, held = 0.0, np.zeros(len(x))
    for before in y.T[:-1]:
        active = np.maximum(np.sign(s) * (before[:, None] - s), 0.0)
        fresh = np.abs(weight).sum() * (active**2 @ np.abs(weight)) - profile(before) ** 2
        factor = {"slope": (SIZE * np.sin(before)) ** 2, "nothing": 0.0, "steepest": SIZE**2}[passed_on]
        held = factor * held + fresh
        total += float(held.mean())
    return total


@cache
def squares(d: int, plays: int, repeats: int, seed: int) -> np.ndarray:
    """Mean squared error of the map times the number of plays for each coordinate, one value per playback."""
    x = points(d, seed)
    y, _ = ensemble(fields(d), (d - 1) * plays, x, repeats, seed=seed + plays)
    return plays * ((y - chain(x)) ** 2).sum(axis=-1).mean(axis=1)


@PAPER.claim(
    "knothe-rosenblatt-rate",
    says="A Knothe-Rosenblatt map in which every coordinate depends on the one before is played at random in 2, 5 and "
    "10 dimensions: the root mean square error falls like one over the root of the number of switches in each, and "
    "its constant is the one that errors passed on from coordinate to coordinate give.",
    basis=REGULAR,
    formula=r"E|X^n-\varphi(X)|^2=\frac{d-1}n\sum_{k=2}^dE\,V_k,\qquad V_k=f'(y_{k-1})^2V_{k-1}+v(y_{k-1})",
)
def knothe_rosenblatt_rate(run: Run) -> Check:
    plays, repeats = ((16, 64, 256), 128) if run.quick else ((16, 64, 256, 1024), 480)
    check = Check(parameters={"plays per coordinate": list(plays), "repetitions": repeats, "points": POINTS})
    rates: dict[str, dict[str, float]] = {"-1/d": {}, "-2/d": {}}
    rivals: dict[str, dict[str, float]] = {"nothing": {}, "steepest": {}}
    size = np.log(plays) - np.mean(np.log(plays))
    for done, d in enumerate(DIMENSIONS):
        run.notify(done / len(DIMENSIONS), f"d = {d}")
        each = [squares(d, m, repeats, run.seed) for m in plays]
        found = [mean(values) for values in each]
        logs = np.array([0.5 * math.log(e.value / m) for e, m in zip(found, plays, strict=True)])
        noise = np.array([0.5 * e.error / e.value for e in found])
        slope = f"exponent, $d={d}$"
        check.row(
            slope,
            predicted=-0.5,
            measured=float(size @ logs / (size @ size)),
            error=float(np.linalg.norm(size * noise) / (size @ size)),
            repeats=repeats,
            tolerance=0.01,
            because="standard errors of the sizes, propagated; corrections of relative order 1/16",
        )
        rates["-1/d"][slope], rates["-2/d"][slope] = -1 / d, -2 / d
        pooled = mean(np.concatenate(each))
        constant = f"constant, $d={d}$"
        x = points(d, run.seed)
        check.row(
            constant,
            predicted=constants(x),
            measured=pooled.value,
            error=pooled.error,
            repeats=repeats * len(plays),
            relative=0.02,
            because="standard error over playbacks; corrections of relative order 1/16 for the fewest plays",
        )
        for name, values in rivals.items():
            values[constant] = constants(x, name)
    check.rival("a rate $n^{-1/d}$, as for general maps", rates["-1/d"])
    check.rival("a rate $n^{-2/d}$, as cells have for a map with two derivatives", rates["-2/d"])
    check.rival("errors that are not passed on", rivals["nothing"])
    check.rival("errors passed on with the largest slope", rivals["steepest"])
    return check
