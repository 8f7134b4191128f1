r"""Pairs of tokens in the cold diffuse network, exactly in law, at a handful of random numbers per layer.

$$x_i\to N\big(x_i+\sqrt h\,V\,n_A(x_i)\big),\qquad n_A(x)=Ax/|Ax|,\quad V_{ab}\sim N(0,1/d).$$

The pair is kept as (cosine, sine) of its angle; a Gaussian matrix and the step act on them through a few normal and
chi-square variables, whatever d. Nothing cancels when the tokens meet or become opposite: the sine keeps its digits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sphereflow.errors import real_number, whole_number
from sphereflow.random_transformers.time_scales import layer_time
from sphereflow.seeds import Seed, rng_from


class PairPaths(NamedTuple):
    """Pairs at the saved times: `times` tau, cosine and sine of the angle, of shape (R, T)."""

    times: Float[np.ndarray, " T"]
    cosine: Float[np.ndarray, "R T"]
    sine: Float[np.ndarray, "R T"]

    @property
    def log_gap(self) -> Float[np.ndarray, "R T"]:
        r"""$\log(1-r)$, without cancellation."""
        near = self.sine**2 / np.maximum(1 + self.cosine, 1e-300)
        return np.log(np.where(self.cosine > 0, near, 1 - self.cosine))

    @property
    def artanh(self) -> Float[np.ndarray, "R T"]:
        r"""$x=\mathrm{artanh}\,r$."""
        return np.sign(self.cosine) * np.log((1 + np.abs(self.cosine)) / self.sine)


def cold_pairs(
    d: int,
    factors: int,
    start: float,
    step: float,
    layers: int,
    repeats: int,
    *,
    every: int = 1,
    seed: Seed = 0,
    corrected_clock: bool = True,
    gap: float | None = None,
) -> PairPaths:
    r"""Pairs from overlap `start` (or from $1-r=$ `gap`, if given), `step` $=\sqrt h$, saved every few layers.

    Every token moves by noise of the same size, so one token's exact clock dates the layers (`corrected_clock`); the
    nominal clock is $h$ per layer.
    """
    whole_number("d", d, least=4)
    whole_number("factors", factors, least=0, most=2)
    real_number("step", step, above=0)
    rng = rng_from(seed, d, factors)
    c = np.full(repeats, start if gap is None else 1 - gap, dtype=float)
    q = np.full(repeats, np.sqrt((1 - start) * (1 + start)) if gap is None else np.sqrt(gap * (2 - gap)))
    saved = [(c, q)]
    for layer in range(layers):
        c, q = _move(rng, c, q, *_images(rng, c, q, d, factors), d, step)
        if (layer + 1) % every == 0:
            saved.append((c, q))
    pace = layer_time(d, step) if corrected_clock else step**2
    times = pace * every * np.arange(len(saved))
    return PairPaths(times, np.stack([s[0] for s in saved], axis=1), np.stack([s[1] for s in saved], axis=1))


def _images(
    rng: np.random.Generator, c: np.ndarray, q: np.ndarray, d: int, factors: int
) -> tuple[np.ndarray, np.ndarray]:
    """(cosine, sine) of the angle between the images of the pair."""
    for _ in range(factors):
        length = np.sqrt(rng.chisquare(d, c.shape))
        along = c * length + q * rng.standard_normal(c.shape)
        across = q * np.sqrt(rng.chisquare(d - 1, c.shape))
        size = np.hypot(along, across)
        c, q = along / size, across / size
    return c, q


def _move(
    rng: np.random.Generator, c: np.ndarray, q: np.ndarray, ci: np.ndarray, qi: np.ndarray, d: int, step: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""One layer: $y_1=e_1+\sqrt hg$, $y_2=ce_1+qe_2+\sqrt h(c'g+q'k)$; four directions suffice."""
    size = step / np.sqrt(d)
    g = size * rng.standard_normal((2, *c.shape))
    k = size * rng.standard_normal((3, *c.shape))
    g_rest = size * np.sqrt(rng.chisquare(d - 2, c.shape))
    k_rest = size * np.sqrt(rng.chisquare(d - 3, c.shape))
    y1 = np.stack([1 + g[0], g[1], g_rest])
    turned = _difference(ci, qi, c, q)  # c' - c without cancellation
    w = np.stack([turned * g[0] + qi * k[0], q + turned * g[1] + qi * k[1], turned * g_rest + qi * k[2]])
    length = np.sqrt(np.sum(y1**2, axis=0))
    along = np.sum(w * y1, axis=0) / length
    across = w - along / length * y1
    sine = np.sqrt(np.sum(across**2, axis=0) + (qi * k_rest) ** 2)
    cosine = c * length + along
    total = np.hypot(cosine, sine)
    return cosine / total, sine / total


def _difference(a: np.ndarray, qa: np.ndarray, b: np.ndarray, qb: np.ndarray) -> np.ndarray:
    """a - b for cosines a, b with sines qa, qb >= 0: (qb - qa)(qb + qa)/(a + b) where the cosines are large."""
    total = a + b
    large = np.abs(total) > 1
    return np.where(large, (qb - qa) * (qb + qa) / np.where(large, total, 1.0), a - b)
