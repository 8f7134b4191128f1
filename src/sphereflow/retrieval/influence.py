r"""The influence of one token on another, with the noise of all others taken out.

A source token at position k changes the expectation of what is seen at the target by O(1/N), while a plain average
over S samples has noise $S^{-1/2}$. Instead, for each environment (all tokens but the source) the source runs through a
quadrature of its law, all else equal,

$$\widehat m=\frac1E\sum_{e=1}^E\ \sum_q w_q\,h\big(x^{(e,q)}_{target}(t),\,x^{(e,q)}_{source}(0)\big).$$

If h averages to zero over the quadrature whenever the target does not depend on the source, the inner sum is exactly
zero without influence: what is left is the influence, and its noise is as small as itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.numerics.unit_vectors import unit
from sphereflow.progress import Progress, reporting
from sphereflow.retrieval.circle import CausalCircle, flow
from sphereflow.retrieval.decoding import decoder
from sphereflow.retrieval.positions import CausalWeights
from sphereflow.seeds import Seed, rng_from
from sphereflow.solving import FORWARD, solve

Advance = Callable[[np.ndarray], np.ndarray]
Draw = Callable[[np.random.Generator, int], np.ndarray]
Points = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
Observable = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Columns of a simulation that run together: their waves fit the processor's cache, and the loop is worth its turns.
_COLUMNS = 256

# Sequences asked for at a time; on the circle they are several such blocks, which different processor cores can share.
_BATCH = 1024


def source_average(
    advance: Advance,
    draw: Draw,
    points: Points,
    observable: Observable,
    *,
    source: int,
    target: int | tuple[int, ...] = -1,
    repeats: int,
    seed: Seed = 0,
    columns: int = _BATCH,
    progress: Progress = None,
) -> Estimate:
    """The average of an observable, with the source's law integrated out exactly in every environment.

    **Arguments:**

    - `advance`: initial tokens (B, n, ...) to final tokens, B sequences at a time.
    - `draw(rng, E)`: E environments (E, n, ...). `points(rng, E)`: a quadrature of the source's law for each of them,
      values (E, Q, ...) and weights (Q,) or (E, Q) summing to one.
    - `observable(target, source)`: from final target tokens and initial source tokens (E, Q, ...) to numbers
      (m, E, Q).
    - `source`, `target`: positions, from zero; negative ones count from the end. Several targets make one more axis.
    """
    repeats = whole_number("repeats", repeats, least=2)
    copies = points(rng_from(seed), 1)[0].shape[1]
    batch = max(1, columns // copies)
    rng = rng_from(seed)
    samples: list[np.ndarray] = []
    with reporting("environments", progress) as report:
        for done in range(0, repeats, batch):
            values, weights = points(rng, batch)
            tokens = np.repeat(draw(rng, batch)[:, None], copies, axis=1)
            tokens[:, :, source] = values
            final = np.asarray(advance(tokens.reshape(batch * copies, *tokens.shape[2:])))
            reached = final.reshape(tokens.shape)[:, :, list(target) if isinstance(target, tuple) else target]
            samples.append(np.sum(observable(reached, values) * weights, axis=-1))
            finished = min(done + batch, repeats)
            report(finished / repeats, f"{finished} of {repeats} environments")
    return mean(np.concatenate(samples, axis=1)[:, :repeats].T)


def wave_influence(
    n: int,
    source: int,
    t: float,
    *,
    beta: float,
    weights: CausalWeights | float,
    normalise: str = "mean",
    waves: tuple[int, ...] = (1, 2, 3),
    repeats: int = 500,
    copies: int = 8,
    padded_length: int | None = None,
    modes: int | None = None,
    seed: Seed = 0,
    progress: Progress = None,
) -> Estimate:
    r"""$N\,E\cos m(\theta_N(t)-\theta_k(0))$ for the waves m and independent uniform tokens; `source` is k - 1.

    Quadrature: `copies` equidistant angles with a random shift; all waves below their number average to zero. Runs with
    the same `padded_length` and `modes` share one compiled program.
    """
    source = whole_number("source", source, least=0, most=whole_number("n", n, least=2) - 2)
    if max(waves) >= whole_number("copies", copies, least=2):
        raise SphereflowError(f"waves up to {max(waves)} need more than {max(waves)} copies, got {copies}.")
    m = np.asarray(waves, dtype=float)[:, None, None]
    model = CausalCircle(beta, weights, normalise, length=n, modes=modes)
    estimate = source_average(
        circle_advance(model, t, padded_length),
        uniform_angles(n),
        equidistant(copies),
        lambda target, start: np.cos(m * (target - start)),
        source=source,
        repeats=repeats,
        seed=seed,
        progress=progress,
    )
    return estimate.scaled(n)


def sphere_influence(
    n: int,
    source: int,
    t: float,
    *,
    beta: float,
    slope: float,
    d: int,
    normalise: str = "mean",
    repeats: int = 500,
    seed: Seed = 0,
    tol: float = 1e-6,
    progress: Progress = None,
) -> Estimate:
    r"""$N\,E\,s$ and $N\,E\frac{ds^2-1}{d-1}$ with $s=\langle x_N(t),x_k(0)\rangle$ on S^{d-1}: zonal modes 1 and 2.

    Quadrature: the 2d ends of a randomly rotated orthonormal frame, exact for polynomials up to degree 3.
    """
    model = decoder(beta, slope, n, d, normalise)
    times = np.array([0.0, real_number("t", t, above=0)])

    def advance(tokens: np.ndarray) -> np.ndarray:
        return np.asarray(solve(model, tokens, times, tol=tol, adjoint=FORWARD).final)

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        return unit(rng.normal(size=(count, n, d)))

    def frame(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        axes = np.linalg.qr(rng.normal(size=(count, d, d)))[0].swapaxes(1, 2)
        return np.concatenate([axes, -axes], axis=1), np.full(2 * d, 1 / (2 * d))

    def zonal(target: np.ndarray, start: np.ndarray) -> np.ndarray:
        inner = np.sum(target * start, axis=-1)
        return np.stack([inner, (d * inner**2 - 1) / (d - 1)])

    estimate = source_average(
        advance,
        draw,
        frame,
        zonal,
        source=source,
        repeats=repeats,
        seed=seed,
        columns=_COLUMNS,
        progress=progress,
    )
    return estimate.scaled(n)


def circle_advance(model: CausalCircle, t: float, padded_length: int | None = None) -> Advance:
    """Sequences of angles (B, n) at time 0 to those at time t, by fixed steps with errors of about 1e-5.

    Sequences are filled up to `padded_length` tokens, which changes nothing for the first ones (the model must know its
    length), and batches to a fixed size: programs are compiled for few shapes.
    """

    def advance(angles: np.ndarray) -> np.ndarray:
        count, n = angles.shape
        missing = -count % _COLUMNS, (n if padded_length is None else padded_length) - n
        wide = np.pad(angles, ((0, missing[0]), (0, missing[1])))
        parts = [flow(model, part.T, t, dt=2.5 * model.time_step) for part in np.split(wide, len(wide) // _COLUMNS)]
        return np.concatenate([np.asarray(part)[:n].T for part in parts])[:count]

    return advance


def uniform_angles(n: int) -> Draw:
    """Independent uniform tokens."""
    return lambda rng, count: rng.uniform(0, 2 * np.pi, (count, n))


def equidistant(copies: int) -> Points:
    """Equidistant angles with a random shift per environment."""

    def points(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        shift = rng.uniform(0, 2 * np.pi, (count, 1))
        return shift + 2 * np.pi * np.arange(copies) / copies, np.full(copies, 1 / copies)

    return points
