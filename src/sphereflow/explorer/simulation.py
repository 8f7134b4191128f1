"""A run that goes on in short turns: the first tokens at once, then a few frames per turn, until the final time.

Every turn continues where the last one ended, so that a run can be stopped between any two of them and many runs can
share the processor fairly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.compilation import compiled
from sphereflow.dynamics import Dynamics
from sphereflow.explorer.models import SOLVER, TOL, Layers, dynamics, energy_model, engine, first_tokens, float64_scalar
from sphereflow.explorer.settings import Settings
from sphereflow.solving import FORWARD, SOLVERS, solve
from sphereflow.synchronisation.network import advance
from sphereflow.synchronisation.random_fields import RandomField

Frame = tuple[float, np.ndarray, float]  # time, tokens, energy

# Frames per turn: several where they are cheap, one where a turn would keep others waiting.
_FRAMES_PER_TURN, _CHEAP = 4, 1000
_MOST_STEPS = 20_000

_energy = eqx.filter_jit(lambda model, x: model.energy(x))


class Stuck(Exception):
    """The equation could not be continued; the message is for the visitor."""


def frames(s: Settings, x0: Float[np.ndarray, "n d"] | None = None) -> Iterator[list[Frame]]:
    """The frames of a run, a few at a time.

    The first turn holds the first tokens without their energy: nothing has to be compiled before they are seen.
    """
    start = first_tokens(s) if x0 is None else x0
    yield [(0.0, start, float("nan"))]
    measured = energy_model(s).tuned(s.n, s.d, TOL, str(start.dtype), engine(s))
    for turn in _noisy(s, start) if s.noisy else _smooth(s, start):
        yield [(t, x, float(_energy(measured, jnp.asarray(x)))) for t, x in turn]


def _per_turn(s: Settings) -> int:
    return _FRAMES_PER_TURN if s.n <= _CHEAP else 1


def _smooth(s: Settings, start: np.ndarray) -> Iterator[list[tuple[float, np.ndarray]]]:
    model: Dynamics = dynamics(s).tuned(s.n, s.d, TOL, str(start.dtype), engine(s))
    times, x = s.times, jnp.asarray(start)
    steps = 2.0  # between two frames, as the last turn needed them
    for first in range(0, len(times) - 1, _per_turn(s)):
        span = times[first : first + _per_turn(s) + 1]
        # A little longer than in the last turn: where that is too much the step is made again, where not it is won.
        step = (span[1] - span[0]) / max(0.7 * steps, 1)
        solution = solve(
            model, x, span, tol=TOL, solver=SOLVERS[SOLVER][0], first_step=step, adjoint=FORWARD, max_steps=_MOST_STEPS
        )
        if bool(solution.hit_limit) or not bool(jnp.isfinite(solution.final).all()):
            raise Stuck(f"the run stopped at t = {span[0]:.3g}: too many steps were needed; try a smaller β or t₁")
        x = solution.final
        steps = int(solution.steps) / (len(span) - 1)
        yield list(zip(map(float, span[1:]), np.asarray(solution.xs)[1:], strict=True))


def _noisy(s: Settings, start: np.ndarray) -> Iterator[list[tuple[float, np.ndarray]]]:
    layers, times = Layers.of(s), s.times
    attention: Any = dynamics(s) if s.pull > 0 else None
    strength = jnp.asarray(np.full(1, s.pull))
    key, x = jax.random.key(s.seed), jnp.asarray(start)[None]
    move: Callable[[Array, int], Array] = lambda x, index: _layers(  # noqa: E731
        layers.field,
        attention,
        strength,
        x,
        key,
        float64_scalar(layers.step),
        float64_scalar(layers.size),
        jnp.asarray(np.int64(index * layers.each)),
        jnp.asarray(np.int64(layers.each)),
    )
    for first in range(0, len(times) - 1, _per_turn(s)):
        turn = []
        for index in range(first, first + _per_turn(s)):
            x = move(x, index)
            turn.append((float(times[index + 1]), np.asarray(x[0])))
        yield turn


@compiled
def _layers(
    field: RandomField,
    attention: Any,
    strength: Array,
    x: Array,
    key: Array,
    step: Array,
    size: Array,
    first: Array,
    count: Array,
) -> Array:
    """Layers number first, ..., first + count - 1 of the network, with the noise that `run_network` would draw."""

    def layer(index: Array, x: Array) -> Array:
        first_weights, *others = field.draw(jax.random.fold_in(key, index), *x.shape)
        return advance(field, (size * first_weights, *others), x, step, attention, strength)

    return jax.lax.fori_loop(first, first + count, layer, x)
