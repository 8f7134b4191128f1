r"""Regular maps at random: a velocity that averages neurons, played one neuron at a time, in 2, 8 and 32 dimensions.

$$v(x)=\frac1{64}\sum_{j=1}^{64}w_j(a_j\cdot x+b_j)_+,\quad|a_j|=1,\ |w_j|=2,\ b_j\sim N(0,1),\qquad X\sim N(0,I).$$
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import jackknife
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.papers.diffeomorphism_pushforward.sources import REGULAR
from sphereflow.transport.conditional.maurey import Neurons, VelocityFit, ensemble, fit_velocities

DIMENSIONS = (2, 8, 32)
PLAYS = (64, 256, 1024, 4096)
POINTS = 12
REPETITIONS = 40


@cache
def field(d: int, seed: int) -> Neurons:
    rng = np.random.default_rng(seed + d)
    a, w = rng.standard_normal((64, d)), rng.standard_normal((64, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    w *= 2 / np.linalg.norm(w, axis=1, keepdims=True)
    return Neurons(w / 64, a, rng.standard_normal(64))


@cache
def reference(d: int, seed: int, steps: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(start, end, log-determinant) of the flow of the field for a unit of time, by Runge and Kutta's method."""
    chosen = field(d, seed)
    x = start = np.random.default_rng(seed + 100 + d).standard_normal((POINTS, d))
    log_det = np.zeros(POINTS)
    h = 1 / steps
    for _ in range(steps):
        log_det += h * chosen.divergence(x) / 2
        one = chosen.velocity(x)
        two = chosen.velocity(x + h / 2 * one)
        three = chosen.velocity(x + h / 2 * two)
        x = x + h / 6 * (one + 2 * two + 2 * three + chosen.velocity(x + h * three))
        log_det += h * chosen.divergence(x) / 2
    return start, x, log_det


@cache
def played(d: int, n: int, repetitions: int, sampling: str, seed: int) -> tuple[float, float]:
    """Root mean square errors of the map and of the log-determinant, over points and repetitions."""
    start, end, volume = reference(d, seed)
    y, log_det = ensemble(field(d, seed), n, start, repetitions, sampling=sampling, seed=n)
    return _rms(y - end), _rms((log_det - volume)[..., None])


def _rms(gap: np.ndarray) -> float:
    return float(np.sqrt((gap**2).sum(axis=-1).mean()))


def slopes(d: int, plays: tuple[int, ...], repetitions: int, sampling: str, seed: int) -> np.ndarray:
    """Log-log slopes of both errors against the number of pieces."""
    errors = np.array([played(d, n, repetitions, sampling, seed) for n in plays])
    return np.polyfit(np.log(plays), np.log(errors), 1)[0]


@PAPER.claim(
    "maurey-slope",
    says="Neurons drawn independently and played one at a time leave an error of the map and of the log-determinant "
    "that falls like one over the root of the number of pieces, in 2, 8 and 32 dimensions alike.",
    basis=REGULAR,
    formula=r"E|X^n-X|^2\le\frac Cn,\qquad E|L^n-L|^2\le\frac Cn",
)
def maurey_slope(run: Run) -> Check:
    repetitions = REPETITIONS if run.quick else 256
    check = Check(parameters={"n": list(PLAYS), "repetitions": repetitions, "points": POINTS})
    blown = {}
    for done, d in enumerate(DIMENSIONS):
        run.notify(done / len(DIMENSIONS), f"d = {d}")
        found = slopes(d, PLAYS, repetitions, "iid", run.seed)
        # A root mean square over R repetitions of a Gaussian error is uncertain by 1 / sqrt(2R), the slope over a
        # factor of 64 in n by half of that, and the first correction is of order 1 / sqrt(n).
        because = "four fitted sizes with this many repetitions, and the first correction to the root"
        for name, slope, tolerance in (("map", found[0], 0.08), ("log-determinant", found[1], 0.12)):
            check.row(f"{name}, $d={d}$", predicted=-0.5, measured=slope, tolerance=tolerance, because=because)
            blown[f"{name}, $d={d}$"] = -1 / max(d, 3)
    check.rival("a rate $n^{-1/d}$, as for general maps", blown)
    check.rival("a rate $1/n$, as deterministic play has", -1.0)
    return check


@PAPER.claim(
    "without-replacement",
    says="Playing every neuron once per round in a new random order is better than the random draw: in the plane "
    "the error of the map falls faster than $1/n$, that of the log-determinant about like $1/n$.",
    basis=basis.Extension("sampling without replacement, an observed rate"),
    formula=r"e_n\approx n^{-3/2},\qquad |L^n-L|\approx n^{-1}",
)
def without_replacement(run: Run) -> Check:
    found = slopes(2, (64, 256, 1024), REPETITIONS if run.quick else 64, "shuffled", run.seed)
    check = Check()
    because = "three fitted sizes over a factor of 16; corrections of relative order n^(-1/2)"
    check.row("map", predicted=-1.5, measured=found[0], tolerance=0.25, because=because)
    check.row("log-determinant", predicted=-1.0, measured=found[1], tolerance=0.25, because=because)
    check.rival("as for independent draws", -0.5)
    check.rival("the map like $1/n$", {"map": -1.0})
    return check


def regular(x: np.ndarray) -> np.ndarray:
    """A triangular increasing map, as Knothe and Rosenblatt's are."""
    first, second = x[:, 0], x[:, 1]
    return np.stack(
        [first + 0.4 * np.sin(first), second * np.exp(0.4 * np.tanh(first)) + 0.6 * (np.cos(first) - 0.6)], axis=1
    )


@cache
def fitted(seed: int) -> VelocityFit:
    x = np.random.default_rng(seed).standard_normal((3000, 2))
    return fit_velocities(x, regular(x), neurons=150, times=10, seed=seed)


@cache
def map_error(n: int, sampling: str, repetitions: int, seed: int) -> np.ndarray:
    """The mean square error of the map in each of the playbacks."""
    x = np.random.default_rng(seed + 1).standard_normal((100, 2))
    y, _ = ensemble(fitted(seed).fields, n, x, repetitions, sampling=sampling, seed=n)
    return np.asarray(((y - regular(x)) ** 2).sum(axis=-1).mean(axis=1))


def _log_ratio(a: np.ndarray, b: np.ndarray) -> float:
    return 0.5 * math.log(a.mean() / b.mean())


@PAPER.claim(
    "fitted-neurons",
    says="A triangular map known by its values only: its velocity is fitted by 150 neurons at ten moments and played; "
    "drawing each neuron its share instead of independently reduces the error of the map, faster than one over the "
    "root of the number of plays.",
    basis=basis.Extension("a map known by its values, and another way to draw than the independent one"),
    formula=r"v_t((1-t)x+t\varphi(x))=\varphi(x)-x\approx\sum_jc_j(a_j\cdot x+b_j)_+",
)
def fitted_neurons(run: Run) -> Check:
    plays = (640, 2560) if run.quick else (640, 2560, 10240)
    repetitions = 192
    even = [map_error(n, "systematic", repetitions, run.seed) for n in plays]
    free = [map_error(n, "iid", repetitions, run.seed) for n in plays]
    check = Check(note=f"Barron mass {fitted(run.seed).mass:.3g}; residual of the fit {fitted(run.seed).residual:.2g}.")
    because = "jackknife over playbacks"
    for n, share, draw in zip(plays[1:], even[1:], free[1:], strict=True):  # with few plays the gain is small
        gain = jackknife(_log_ratio, draw, share)
        row = f"draw over shares, logarithm, $n={n}$"
        check.positive(row, measured=gain.value, error=gain.error, repeats=repetitions, because=because)
    for k in range(1, len(plays)):
        gain = jackknife(_log_ratio, even[k - 1], even[k])
        row = f"shares, $n={plays[k - 1]}$ over four times that, logarithm, beyond $\\log 2$"
        beyond = gain.value - math.log(2)
        check.positive(row, measured=beyond, error=gain.error, repeats=repetitions, because=because)
    return check
