r"""`solve`: $\dot x = f(t, x)$ from given tokens, as a pure function that composes with the transformations of JAX.

On the sphere the field is evaluated at $y/|y|$, $\dot y = f(t, y/|y|)$ with $f$ tangent, so that |y| is conserved by
the equation itself; any Runge-Kutta method keeps its order, and tokens are normalised when they are saved. Steps are
adapted to the largest error of any token (not to the average), between steps as well as at their ends. Fixed steps end
on the sphere, one by one. For float32 tokens time is counted from the start, so that a late start costs no precision.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jaxtyping import Array, Bool, Float, Int

from sphereflow.dynamics import Dynamics
from sphereflow.errors import SphereflowError, whole_number
from sphereflow.parameters import known, positive
from sphereflow.shapes import AnyArray, ArrayLike
from sphereflow.solving.explicit import explicit_solve
from sphereflow.solving.kinks import Kinked, has_kinks
from sphereflow.solving.methods import SOLVERS, check_method, clock_origin, local_tolerance, step_controller
from sphereflow.solving.wrapped import Dense, Projected
from sphereflow.sphere import normalise

Event = Callable[[Float[Array, "n d"]], Float[Array, ""]]
Observable = Callable[[Float[Array, "n d"]], Any]

_DEFAULT_SOLVER = SOLVERS["dopri8"][0]
# For solves that are not differentiated: their programs are lighter to compile.
FORWARD = diffrax.ForwardMode()


class Solution(eqx.Module):
    """Tokens `xs` (T, n, d) at times `ts`, where the solve ended, and what it took; axes in front are replicas.

    `final` are the tokens at `final_time`: the last time, or that of the event. Frames that were not reached, because
    of an event or because the steps ran out (`hit_limit`), are not finite.
    """

    ts: Float[Array, " T"]
    xs: Any
    final_time: Float[Array, "..."]
    final: Float[Array, "... n d"]
    steps: Int[Array, "..."]
    event_met: Bool[Array, "..."]
    hit_limit: Bool[Array, "..."]


def solve(
    model: Dynamics,
    x0: ArrayLike,
    ts: ArrayLike,
    *,
    tol: ArrayLike | None = None,
    solver: diffrax.AbstractSolver = _DEFAULT_SOLVER,
    controller: diffrax.AbstractStepSizeController | None = None,
    first_step: ArrayLike | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    event: Event | None = None,
    observe: Observable | None = None,
    max_steps: int = 100_000,
) -> Solution:
    r"""Solve $\dot x = f(t,x)$, $x(t_0)=x_0$, at times $t_0 < t_1 < \dots$; a pure function.

    It can be compiled, mapped and differentiated with `jax.jit`, `jax.vmap`, `jax.grad`, and keeps the precision and
    the sharding of x0.

    **Arguments:**

    - `model`: a dynamics; `x0`: tokens (n, d) at time ts[0], or (..., n, d) for independent replicas. On the sphere
      they are normalised.
    - `ts`: increasing times; tokens are returned at each of them, the first included.
    - `tol`: the error aimed at, absolute and relative, for every token (default 1e-8; 1e-5 for float32 tokens).
    - `solver`: a Runge-Kutta method of diffrax. `controller`: how diffrax chooses steps, instead of by `tol`; a
      constant step is `controller=diffrax.ConstantStepSize(), first_step=0.1`.
    - `adjoint`: how derivatives are taken. The default serves `jax.grad`; `diffrax.ForwardMode()` serves `jax.jvp`.
    - `event`: stop where event(x) crosses zero. `max_steps`: give up after so many.
    - `observe`: a function of the tokens (n, d), of which then the values are kept as `xs`, not the tokens.

    **Returns:** a `Solution`.

    ```python
    def overlap(beta):
        x = sf.solve(sf.SA(beta), x0, jnp.array([0.0, 5.0])).final
        return jnp.mean(x @ x.T)

    jax.grad(overlap)(4.0)
    ```
    """
    if not isinstance(model, Dynamics):
        raise SphereflowError(f"model must be a dynamics such as SA(beta), got {type(model).__name__}.")
    start, times = _tokens(x0), _times(ts)
    model.check(*start.shape[-2:])
    usual = 1e-5 if start.dtype == jnp.float32 else 1e-8
    check_method(solver, controller, first_step, adjoint)
    for name, function in (("event", event), ("observe", observe)):
        if function is not None and not callable(function):
            raise SphereflowError(f"{name} must be a function of the tokens, got {function!r}.")
    if event is not None:
        found = jax.tree.leaves(jax.eval_shape(event, jax.ShapeDtypeStruct(start.shape[-2:], start.dtype)))
        if [leaf.shape for leaf in found] != [()]:
            raise SphereflowError(f"event must return one number, got {[leaf.shape for leaf in found] or None}.")
    if isinstance(adjoint, diffrax.BacksolveAdjoint):  # a solve backwards that fails must not pass for a derivative
        adjoint = diffrax.BacksolveAdjoint(**({"throw": True} | adjoint.kwargs))
    return _solve(
        model,
        start,
        jnp.asarray(times),
        positive("tol", usual if tol is None else tol, start.dtype),
        None if first_step is None else positive("first_step", first_step, start.dtype),
        solver,
        controller,
        diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
        event,
        observe,
        whole_number("max_steps", max_steps),
    )


def _tokens(x0: Any) -> Array:
    try:
        start = x0 if isinstance(x0, jax.Array) else jnp.asarray(x0)
    except (TypeError, ValueError):
        raise SphereflowError(f"x0 must be an array of shape (n, d), got {type(x0).__name__}.") from None
    if start.ndim < 2 or 0 in start.shape or jnp.iscomplexobj(start):
        raise SphereflowError(f"x0 must be real with shape (n, d), n, d >= 1, got {start.dtype}{list(start.shape)}.")
    if not jnp.issubdtype(start.dtype, jnp.floating):
        return start.astype(float)
    if start.dtype not in (jnp.float32, jnp.float64):
        raise SphereflowError(f"x0 must be float32 or float64, got {start.dtype}.")
    return start


def _times(ts: Any) -> Float[AnyArray, " T"]:
    try:
        times = np.asarray(ts, dtype=float) if known(ts) else jnp.asarray(ts, dtype=float)
    except jax.errors.TracerArrayConversionError:  # some of the times in a list are being traced
        times = jnp.asarray(ts, dtype=float)
    except (TypeError, ValueError):
        times = np.zeros(0)
    good = times.ndim == 1 and len(times) >= 2
    if isinstance(times, np.ndarray):  # what is being traced is looked at by diffrax, which gives NaN
        good = good and bool(np.isfinite(times).all() and (np.diff(times) > 0).all())
    if not good:
        raise SphereflowError("ts must be two or more increasing finite times.")
    return times


def solve_forward(
    model: Dynamics,
    x0: Float[AnyArray, "*batch n d"],
    ts: Float[np.ndarray, " T"],
    tol: float,
    *,
    first_step: float | None = None,
    max_steps: int = 100_000,
) -> Solution:
    """`solve` by the usual method, not to be differentiated, of arguments that have been checked.

    A small run takes as long as the checks of `solve` and the call of a program whose arguments may be of any kind.
    Here numbers go to the program as they are, and a model that is arrays and what is fixed is one of its arguments.
    """
    if all(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree.leaves(model)):
        return _forward(model, x0, ts, tol, first_step, max_steps)
    step = None if first_step is None else jnp.asarray(first_step, x0.dtype)
    promise = jnp.asarray(tol, x0.dtype)
    return _solve(
        model, jnp.asarray(x0), jnp.asarray(ts), promise, step, _DEFAULT_SOLVER, None, FORWARD, None, None, max_steps
    )


@partial(jax.jit, static_argnames="max_steps")
def _forward(
    model: Dynamics,
    x0: Float[Array, "*batch n d"],
    times: Float[Array, " T"],
    tol: Float[ArrayLike, ""],
    first_step: Float[ArrayLike, ""] | None,
    max_steps: int,
) -> Solution:
    step = None if first_step is None else jnp.asarray(first_step, x0.dtype)
    promise = jnp.asarray(tol, x0.dtype)
    return _solve_traced(model, x0, times, promise, step, _DEFAULT_SOLVER, None, FORWARD, None, None, max_steps)


def _solve_traced(
    model: Dynamics,
    x0: Float[Array, "*batch n d"],
    times: Float[Array, " T"],
    tol: Float[Array, ""],
    first_step: Float[Array, ""] | None,
    solver: diffrax.AbstractSolver,
    chosen: diffrax.AbstractStepSizeController | None,
    adjoint: diffrax.AbstractAdjoint,
    event: Event | None,
    observe: Observable | None,
    max_steps: int,
) -> Solution:
    # diffrax promotes tokens to the precision of the times, so the clock takes the precision of the tokens.
    origin = clock_origin(times, x0.dtype)
    clock = (times - origin).astype(x0.dtype)
    chosen = jax.tree.map(lambda leaf: leaf.astype(x0.dtype) if eqx.is_inexact_array(leaf) else leaf, chosen)
    traits = model.traits
    on_sphere = traits.space == "sphere"
    fixed = isinstance(chosen, (diffrax.StepTo, diffrax.ConstantStepSize))
    # Explicit methods are read between their steps. The interpolants of implicit ones are of low order, and their
    # defect is large where the equation is stiff: their steps end at the times that are saved.
    between = len(times) > 2 and not fixed
    dense = between and isinstance(solver, diffrax.AbstractERK)
    method = Projected(solver) if on_sphere and fixed else Dense(solver) if dense else solver
    kinked = not fixed and has_kinks(model, origin, jax.ShapeDtypeStruct(x0.shape[-2:], x0.dtype))
    local = local_tolerance(tol, solver, kinked)
    if kinked:
        if isinstance(adjoint, diffrax.BacksolveAdjoint):
            raise SphereflowError("a field with kinks has no continuous adjoint: leave out adjoint.")
        method = Kinked(method, model, origin, local)
    steps = step_controller(chosen, traits, local, origin, clock if between and not dense else None, kinked)
    usual = type(solver) is diffrax.Dopri8 and chosen is None and event is None
    lighter = usual and isinstance(adjoint, diffrax.ForwardMode) and traits.jump_times is None and not kinked

    def unit(y: Array) -> Array:
        return normalise(y) if on_sphere else y

    kept = observe if observe is not None else lambda x: x

    # What the field depends on travels as an argument: the continuous adjoint sees no variable of another function.
    def vector_field(t: Any, y: Any, args: tuple[Dynamics, Array]) -> Array:
        of, start_of_clock = args
        return of.field(start_of_clock + t, unit(y)).astype(y.dtype)

    when: dict[str, Any] = {"ts": clock} if len(times) > 2 else {"t0": True, "t1": True}
    saveat = diffrax.SaveAt(**when)
    # Tokens where the solve ends are the last frame, unless it ends early or keeps something else.
    apart = event is not None or observe is not None
    if apart:
        frames = diffrax.SubSaveAt(**when, fn=lambda t, y, args: kept(unit(y)))
        saveat = diffrax.SaveAt(subs=[frames, diffrax.SubSaveAt(t1=True)])

    def one_lighter(start: Float[Array, "n d"]) -> tuple[Any, ...]:
        frames, end, final, taken, in_time = explicit_solve(
            lambda t, y: vector_field(t, y, (model, origin)),
            unit(start),
            clock,
            local,
            first_step,
            None if traits.max_step is None else jnp.asarray(traits.max_step, x0.dtype),
            lambda y: kept(unit(y)),
            max_steps,
        )
        final = unit(final) if apart else frames[-1]
        return frames, origin + end, final, taken, jnp.zeros((), bool), ~in_time

    def one(start: Float[Array, "n d"]) -> tuple[Any, ...]:
        with _no_callbacks():
            found = diffrax.diffeqsolve(
                diffrax.ODETerm(vector_field),
                method,
                clock[0],
                clock[-1],
                first_step,
                unit(start),
                (model, origin),
                saveat=saveat,
                stepsize_controller=steps,
                adjoint=adjoint,
                event=None if event is None else _diffrax_event(event, unit),
                max_steps=max_steps,
                throw=False,
            )
        clocks, saved, end = found.ts, found.ys, None
        if apart:
            (_, clocks), (saved, (end,)) = found.ts, found.ys  # type: ignore[misc]
        else:
            saved = unit(saved)  # type: ignore[arg-type]
        if len(times) == 2:  # the second frame is where the solve ended, which may be before its time
            in_time = found.result == diffrax.RESULTS.successful
            saved = jax.tree.map(lambda a: a.at[-1].set(jnp.where(in_time, a[-1], jnp.inf)), saved)
        return (
            saved,
            origin + clocks[-1],  # type: ignore[index]
            saved[-1] if end is None else unit(end),  # type: ignore[index]
            found.stats["num_steps"],
            found.result == diffrax.RESULTS.event_occurred,
            found.result == diffrax.RESULTS.max_steps_reached,
        )

    if lighter:
        one = one_lighter
    for _ in range(x0.ndim - 2):
        one = jax.vmap(one)
    return Solution(times, *one(x0))


_solve = eqx.filter_jit(_solve_traced)


@contextlib.contextmanager
def _no_callbacks() -> Iterator[None]:
    """Let a check of diffrax that fails while a program runs give NaN, instead of an error.

    Raising is a call from the program back to Python, and a program with such calls cannot be kept on disk. All times
    that can be seen have been checked before.
    """
    errors: Any = sys.modules.get("equinox._errors")
    before = getattr(errors, "EQX_ON_ERROR", None)
    try:
        if before == "raise":
            errors.EQX_ON_ERROR = "nan"
        yield
    finally:
        if before == "raise":
            errors.EQX_ON_ERROR = before


def _diffrax_event(event: Event, unit: Callable[[Array], Array]) -> diffrax.Event:
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
