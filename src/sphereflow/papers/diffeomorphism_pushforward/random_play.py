r"""Regular maps at random: a velocity that averages neurons, played one neuron at a time, in 2, 8 and 32 dimensions.

$$v(x)=\frac1{64}\sum_{j=1}^{64}w_j(a_j\cdot x+b_j)_+,\quad|a_j|=1,\ |w_j|=2,\ b_j\sim N(0,1),\qquad X\sim N(0,I).$$
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.papers.diffeomorphism_pushforward import PAPER
from sphereflow.transport.conditional.maurey import Neurons, VelocityFit, ensemble, fit_velocities

DIMENSIONS = (2, 8, 32)
PLAYS = (64, 256, 1024, 4096)
POINTS = 12
REPETITIONS = 64


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
    statement="Neurons drawn independently and played one at a time leave an error of the map and of the "
    "log-determinant that falls like one over the root of the number of pieces, in 2, 8 and 32 dimensions alike.",
    source="Theorem for regular maps",
    formula=r"E|X^n-X|^2\le\frac Cn,\qquad E|L^n-L|^2\le\frac Cn",
    falsifier="a slope that depends on the dimension; a steeper one, as deterministic play has",
)
def maurey_slope(run: Run) -> Measurement:
    repetitions = REPETITIONS if run.quick else 4 * REPETITIONS
    found = []
    for done, d in enumerate(DIMENSIONS):
        run.notify(done / len(DIMENSIONS), f"d = {d}")
        found.append(slopes(d, PLAYS, repetitions, "iid", run.seed))
    return agreement(
        np.full(6, -0.5),
        np.ravel(found),
        absolute=np.tile([0.05, 0.08], 3),
        because="spread of a slope fitted to four sizes with 64 repetitions, and the first correction to the root",
        labels=tuple(f"{name}, d={d}" for d in DIMENSIONS for name in ("map", "log-determinant")),
        parameters={"n": list(PLAYS), "repetitions": repetitions, "points": POINTS},
    )


@PAPER.claim(
    "maurey-dimension",
    statement="At every number of pieces the error in 32 dimensions is within a factor of two of that in 2 dimensions.",
    source="Theorem for regular maps",
    formula=r"\frac12\le\frac{e_{32}(n)}{e_2(n)}\le2",
    falsifier="an error that grows with the dimension",
)
def maurey_dimension(run: Run) -> Measurement:
    repetitions = REPETITIONS if run.quick else 4 * REPETITIONS
    ratio = [
        np.log2(played(32, n, repetitions, "iid", run.seed)[0] / played(2, n, repetitions, "iid", run.seed)[0])
        for n in PLAYS
    ]
    return at_most(
        1.0,
        np.abs(ratio),
        because="a factor of two for the draw of the two fields",
        labels=tuple(f"|log2 of the ratio|, n={n}" for n in PLAYS),
    )


@PAPER.claim(
    "without-replacement",
    statement="Playing every neuron once per round in a new random order is better than the random draw: the error "
    "of the map falls faster than 1/n, that of the log-determinant about like 1/n.",
    source="Sampling without replacement (observed rate)",
    formula=r"e_n\approx n^{-3/2},\qquad |L^n-L|\approx n^{-1}",
    falsifier="slopes of one half",
)
def without_replacement(run: Run) -> Measurement:
    found = slopes(2, (64, 256, 1024), REPETITIONS, "shuffled", run.seed)
    return at_most(
        [-1.2, -0.8],
        found,
        because="observed slopes are -1.4 to -1.5 and -1; between them and the next half",
        labels=("map", "log-determinant"),
    )


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
def map_error(n: int, sampling: str, repetitions: int, seed: int) -> float:
    x = np.random.default_rng(seed + 1).standard_normal((100, 2))
    y, _ = ensemble(fitted(seed).fields, n, x, repetitions, sampling=sampling, seed=n)
    return _rms(y - regular(x))


@PAPER.claim(
    "fitted-neurons",
    statement="A triangular map known by its values only: its velocity is fitted by 150 neurons at ten moments and "
    "played; drawing each neuron its share instead of independently reduces the error of the map.",
    source="Knothe-Rosenblatt maps",
    formula=r"v_t((1-t)x+t\varphi(x))=\varphi(x)-x\approx\sum_jc_j(a_j\cdot x+b_j)_+",
    falsifier="an error that does not fall with the number of pieces",
)
def fitted_neurons(run: Run) -> Measurement:
    plays = (640, 2560) if run.quick else (640, 2560, 10240)
    repetitions = 4 if run.quick else 32
    even = [map_error(n, "systematic", repetitions, run.seed) for n in plays]
    free = [map_error(n, "iid", repetitions, run.seed) for n in plays]
    predicted = np.sqrt(fitted(run.seed).spread / np.array(plays))
    return at_most(
        [0.03, *(0.8 * np.array(free)), *(0.6 * np.array(even[:-1])), *(3 * predicted)],
        [fitted(run.seed).residual, *even, *even[1:], *free],
        because="what 150 neurons can miss; shares must beat the draw; four times the pieces at most 0.6 of the "
        "error; three predicted errors of the draw, the growth of the flow included",
        labels=(
            "residual of the fit",
            *[f"shares against draw, n={n}" for n in plays],
            *[f"shares, n={n} against a quarter of it" for n in plays[1:]],
            *[f"draw, n={n}" for n in plays],
        ),
        note=f"Barron mass {fitted(run.seed).mass:.3g}; residual of the fit {fitted(run.seed).residual:.2g}.",
    )
