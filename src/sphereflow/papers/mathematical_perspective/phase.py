r"""The (t, beta) phase diagram: the fraction of pairs of tokens with inner product above 0.999.

$$F(t,\beta)=\frac{1}{n(n-1)}\,\#\{i\ne j:\langle x_i(t),x_j(t)\rangle>0.999\},\ \text{averaged over starts}.$$

Replicas are advanced a chunk at a time, and only the fraction is kept. The tolerance is what the
statistic needs: a pair crosses at distance 0.045, so an error of 1e-4 moves the crossing by a fraction of a per cent.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run
from sphereflow.dynamics import SA
from sphereflow.observables import gram
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.high_dimension import tokens_in_span
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import uniform_tokens
from sphereflow.progress import Progress, reporting
from sphereflow.solving import FORWARD, SOLVERS, solve

THRESHOLD = 0.999
TOLERANCE = 1e-4
_CHUNK = 64


@dataclass(frozen=True)
class PhaseDiagram:
    """Fractions of close pairs, shape (betas, times)."""

    n: int
    d: int
    replicas: int
    betas: np.ndarray
    times: np.ndarray
    fractions: np.ndarray


@partial(jax.jit, static_argnames="solver")
def close_history(
    x0: Float[Array, "b n d"],
    beta: Float[Array, ""],
    times: Float[Array, " T"],
    tol: Float[Array, ""] | float = TOLERANCE,
    solver: str = "tsit5",
) -> Float[Array, " T"]:
    """Fraction of close pairs at the given times under SA, over a chunk of replicas."""
    found = solve(
        SA(beta), x0, times, tol=tol, solver=SOLVERS[solver][0], adjoint=FORWARD, observe=_close_pairs, max_steps=10**6
    )
    return jnp.mean(found.xs, axis=0)


def _close_pairs(x: Float[Array, "n d"]) -> Float[Array, ""]:
    n = len(x)
    return (jnp.sum(gram(x) > THRESHOLD) - n) / (n * (n - 1))


def phase_diagram(
    n: int,
    d: int,
    betas: np.ndarray,
    times: np.ndarray,
    replicas: int,
    seed: int = 0,
    progress: Progress = None,
) -> PhaseDiagram:
    """Average the fraction of close pairs over uniform starts, for every beta; all processor cores take part.

    If d > n, tokens are followed in their span.
    """
    chunks = [min(_CHUNK, replicas - first) for first in range(0, replicas, _CHUNK)]
    total = np.zeros((len(betas), len(times)))
    moments = jnp.asarray(times)

    def cell(row: int, chunk: int) -> tuple[int, np.ndarray]:
        start = tokens_in_span(np.random.default_rng([seed, row, chunk]), chunks[chunk], n, d)[..., :d]
        return row, chunks[chunk] * np.asarray(close_history(jnp.asarray(start), jnp.asarray(betas[row]), moments))

    cells = [(row, chunk) for row in range(len(betas)) for chunk in range(len(chunks))]
    with reporting("phase diagram", progress) as report, ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, future in enumerate(as_completed([pool.submit(cell, *item) for item in cells]), start=1):
            row, history = future.result()
            total[row] += history
            report(done / len(cells), f"phase diagram in dimension {d}: {done} of {len(cells)} chunks")
    return PhaseDiagram(n, d, replicas, np.asarray(betas), np.asarray(times), total / replicas)


def save_times(run: Run) -> np.ndarray:
    """The checkpoints of the diagrams up to t = 30: the paper's 200, or fewer."""
    return np.linspace(0, 30, 61 if run.quick else 201)


def diagram(run: Run, d: int) -> PhaseDiagram:
    """The diagram of a preset: the paper's 32 tokens and 90 temperatures, or fewer.

    The paper averages 2048 starts on the circle; with 128 the standard error of a fraction is below 0.045.
    """
    if run.quick:
        betas, replicas = np.linspace(0.1, 9, 18), 64 if d == 2 else 32
    else:
        betas, replicas = np.linspace(0.1, 9, 90), 128
    return phase_diagram(32, d, betas, save_times(run), replicas, run.seed, run.notify)


def circle_close_history(theta0: np.ndarray, beta: float, times: np.ndarray) -> np.ndarray:
    r"""The same for one system on the circle, from its angles: $\dot\theta_i=-\sum_jP_{ij}\sin(\theta_i-\theta_j)$."""

    def field(t: float, theta: np.ndarray) -> np.ndarray:
        apart = theta[:, None] - theta[None, :]
        kernel = np.exp(beta * (np.cos(apart) - 1))
        return -np.sum(kernel * np.sin(apart), axis=1) / kernel.sum(axis=1)

    span = (0.0, float(times[-1]))
    angles = solve_ivp(field, span, theta0, method="DOP853", t_eval=times, rtol=1e-9, atol=1e-9).y.T
    n = len(theta0)
    close = np.cos(angles[:, :, None] - angles[:, None, :]) > THRESHOLD
    return (close.sum(axis=(1, 2)) - n) / (n * (n - 1))


@PAPER.claim(
    "phase-diagram-accuracy",
    says="On the circle the fractions of close pairs of 32 tokens that the phase diagram shows agree with a precise "
    "solve in angles up to $t=30$, at three temperatures; a change of $\\beta$ by 5 % is seen.",
    basis=sources.DIAGRAMS,
    formula=r"F(t,\beta)",
)
def phase_diagram_accuracy(run: Run) -> Check:
    replicas, times = 4, save_times(run)
    x0 = uniform_tokens(run.seed, replicas, 32, 2)
    angles = [np.arctan2(x[:, 1], x[:, 0]) for x in x0]
    copies = jnp.asarray(np.tile(x0, (_CHUNK // replicas, 1, 1)))  # the shape that the diagram compiles
    check, other = Check(parameters={"n": 32, "d": 2, "starts": replicas}), {}
    for beta in (0.1, 5.0, 9.0):
        exact = np.mean([circle_close_history(theta, beta, times) for theta in angles], axis=0)
        fast, off = (np.asarray(close_history(copies, jnp.asarray(b), jnp.asarray(times))) for b in (beta, 1.05 * beta))
        row = f"largest difference, beta={beta:g}"
        because = "errors of 1e-4 move a crossing at distance 0.045 by a fraction of a per cent, so few pairs by any"
        check.at_most(row, bound=0.005, measured=np.abs(fast - exact).max(), because=because)
        if beta > 1:
            other[row] = float(np.abs(off - exact).max())
    check.null("beta off by 5 %", other)
    return check
