r"""The one place where a differential equation is solved: diffrax, compiled once per shape.

On the sphere the field is evaluated at $y/|y|$, $\dot y = f(t, y/|y|)$ with $f$ tangent, so that |y| is conserved by
the equation itself; any Runge-Kutta method keeps its order, and tokens are normalised when they are saved. Steps are
adapted to the largest error of any token (not to the average), and land exactly on the times that are saved, so no
interpolation error is added. Fixed steps end on the sphere, one by one. For float32 tokens time is counted from the
start, so that a late start costs no precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jaxtyping import Array, Bool, Float, Int

from sphereflow.dynamics import Dynamics, Traits
from sphereflow.evolution.projection import Projected
from sphereflow.sphere import normalise

# Name: (solver, order of convergence). The last two are implicit, for stiff problems.
SOLVERS: dict[str, tuple[diffrax.AbstractSolver, int]] = {
    "dopri8": (diffrax.Dopri8(), 8),
    "tsit5": (diffrax.Tsit5(), 5),
    "bosh3": (diffrax.Bosh3(), 3),
    "heun": (diffrax.Heun(), 2),
    "euler": (diffrax.Euler(), 1),
    "kvaerno5": (diffrax.Kvaerno5(), 5),
    "kvaerno3": (diffrax.Kvaerno3(), 3),
}

# A local tolerance below the one promised: measured global errors then stay below the promise.
SAFETY = 0.1


class Frames(NamedTuple):
    """Saved tokens, where the solve ended, and what it took."""

    saved: Float[Array, "... T n d"]
    final_time: Float[Array, "..."]
    final: Float[Array, "... n d"]
    steps: Int[Array, "..."]
    event_met: Bool[Array, "..."]
    hit_limit: Bool[Array, "..."]


class Stepping(eqx.Module):
    """How to step: adaptively to a tolerance, with a constant step `dt`, or on a grid of times (see `step_grid`)."""

    tol: Float[Array, ""]
    dt: Float[Array, ""] | None
    solver: str = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    grid: Float[Array, "S"] | None = None


@eqx.filter_jit
def solve(
    model: Dynamics,
    x0: Float[Array, "*batch n d"],
    times: Float[Array, "T"],
    stepping: Stepping,
    first_step: Float[Array, ""] | None = None,
    event: Callable[[Float[Array, "n d"]], Float[Array, ""]] | None = None,
) -> Frames:
    """Tokens at `times`, starting from x0 at times[0]; leading axes of x0 are independent replicas.

    Stops early where `event(x)` crosses zero. A pure function: it can be differentiated and composed.
    """
    one = lambda x: _solve_one(model, x, times, stepping, first_step, event)  # noqa: E731
    for _ in range(x0.ndim - 2):
        one = jax.vmap(one)
    return one(x0)


def _solve_one(
    model: Dynamics,
    x0: Float[Array, "n d"],
    times: Float[Array, "T"],
    stepping: Stepping,
    first_step: Float[Array, ""] | None,
    event: Callable[[Array], Array] | None,
) -> Frames:
    # diffrax promotes tokens to the precision of the times, so the clock takes the precision of the tokens.
    origin = _origin(times, x0.dtype)
    clock, stepping, first_step = jax.tree.map(lambda a: a.astype(x0.dtype), (times - origin, stepping, first_step))
    traits = model.traits
    on_sphere = traits.space == "sphere"

    def unit(y: Array) -> Array:
        return normalise(y) if on_sphere else y

    def vector_field(t: Any, y: Any, args: Any) -> Array:
        return model.field(origin + t, unit(y)).astype(y.dtype)

    chosen = SOLVERS[stepping.solver][0]
    subs = [diffrax.SubSaveAt(ts=clock), diffrax.SubSaveAt(t1=True)]
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(vector_field),
        Projected(chosen) if on_sphere and stepping.grid is not None else chosen,
        clock[0],
        clock[-1],
        None if stepping.grid is not None else first_step if stepping.dt is None else stepping.dt,
        x0,
        saveat=diffrax.SaveAt(subs=subs),
        stepsize_controller=_controller(traits, origin, clock, stepping),
        event=None if event is None else _diffrax_event(event, unit),
        max_steps=stepping.max_steps,
        throw=False,
    )
    (_, saved), (final_times, finals) = zip(solution.ts, solution.ys, strict=True)
    return Frames(
        unit(saved),
        origin + final_times[0],
        unit(finals[0]),
        solution.stats["num_steps"],
        solution.result == diffrax.RESULTS.event_occurred,
        solution.result == diffrax.RESULTS.max_steps_reached,
    )


def step_grid(
    times: Float[np.ndarray, "T"], jumps: Float[np.ndarray, "k"] | None, dt: float, dtype: str
) -> Float[np.ndarray, "S"]:
    """Times dt apart on the clock of the solver, from each saved time to the next, which surround every jump.

    A jump of the field lies between two neighbours of it on the grid, so that no step sees much of both sides.
    """
    origin = _origin(times, dtype)
    clock = (times - origin).astype(dtype)
    sides = (
        []
        if jumps is None
        else [np.nextafter(s, end) for s in (jumps - origin).astype(dtype) for end in clock[[0, -1]]]
    )
    stops = np.unique(np.concatenate([clock, np.clip(sides, clock[0], clock[-1])]).astype(dtype))
    counts = np.maximum(np.ceil(np.diff(stops) / dt * (1 - 1e-9)), 1).astype(int)
    pieces = [a + dt * np.arange(k) for a, k in zip(stops[:-1], counts, strict=True)]
    return np.unique(np.append(np.concatenate(pieces), stops[-1]).astype(dtype))


def _controller(traits: Traits, origin: Array, clock: Array, stepping: Stepping) -> diffrax.AbstractStepSizeController:
    if stepping.grid is not None:
        return diffrax.StepTo(ts=stepping.grid)
    if stepping.dt is not None:
        return diffrax.ConstantStepSize()
    local = stepping.tol * SAFETY
    adaptive = diffrax.PIDController(
        rtol=local, atol=local, norm=optimistix.max_norm, dtmax=_as(clock, traits.max_step)
    )
    jumps = None if traits.jump_times is None else _as(clock, traits.jump_times - origin)
    return diffrax.ClipStepSizeController(adaptive, step_ts=clock, jump_ts=jumps)


def _origin(times: Any, dtype: Any) -> Any:
    """Where the clock of the solver starts: at zero if it is as precise as the times, else at the first of them."""
    return times[0] if times.dtype != dtype else times[0] * 0


def _as(clock: Array, value: float | Array | None) -> Array | None:
    return None if value is None else jnp.asarray(value, clock.dtype)


def _diffrax_event(event: Callable[[Array], Array], unit: Callable[[Array], Array]) -> diffrax.Event:
    finder: Any = _Crossing(rtol=1e-12, atol=1e-12)  # type: ignore[call-arg]
    return diffrax.Event(lambda t, y, args, **_: event(unit(y)), root_finder=finder)


class _Crossing(optimistix.Bisection):
    """Bisection that may be asked in vain: of replicas solved together, those that meet no event are asked as well."""

    def init(self, fn: Any, y: Any, args: Any, options: Any, f_struct: Any, aux_struct: Any, tags: Any) -> Any:
        plain: Any = optimistix.Bisection(self.rtol, self.atol, flip=False)  # type: ignore[call-arg]
        state = plain.init(fn, y, args, options, f_struct, aux_struct, tags)
        falling = fn(state.lower, args)[0] > fn(state.upper, args)[0]
        return eqx.tree_at(lambda s: s.flip, state, falling)

    def terminate(self, fn: Any, y: Any, args: Any, options: Any, state: Any, tags: Any) -> Any:
        narrow = jnp.abs(state.lower - state.upper) < self.atol + self.rtol * jnp.abs(y)
        return narrow, optimistix.RESULTS.successful
