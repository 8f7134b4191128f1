"""`evolve`: solve the equation of a model from given tokens, with error control."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sphereflow.dynamics import Dynamics
from sphereflow.errors import SphereflowError, enough_memory, one_of, real_number, whole_number
from sphereflow.evolution.solver import SOLVERS, Stepping, solve
from sphereflow.evolution.status import Status
from sphereflow.evolution.trajectory import Trajectory
from sphereflow.progress import progress_bar
from sphereflow.provenance import versions
from sphereflow.sphere import tokens

FRAMES = 101

# Below this many pairs per field evaluation a whole run is one compiled call; above it the run goes frame by frame,
# so that it can show progress, be interrupted, and keep only what fits in memory.
_ONE_CALL_PAIRS = 300_000
_BOOKKEEPING_BYTES = 64  # of every saved time, wherever its frame goes


def evolve(
    model: Dynamics,
    x0: Any,
    t1: float | None = None,
    *,
    t0: float = 0.0,
    saveat: int | Sequence[float] | Array | np.ndarray | None = None,
    tol: float | None = None,
    solver: str = "dopri8",
    dt: float | None = None,
    event: Callable[[Array], Array] | None = None,
    max_steps: int = 100_000,
    method: str = "auto",
    out: str | Path | None = None,
    progress: bool | None = None,
    seed: int | None = None,
    parameters: dict[str, Any] | None = None,
) -> Trajectory:
    r"""Solve $\dot x = f(t,x)$, $x(t_0)=x_0$, with error control.

    **Arguments:**

    - `model`: a dynamics; `x0`: tokens (n, d), or (..., n, d) for independent replicas.
    - `t1`: final time. `saveat`: number of equally spaced saved times (101 by default), or the times themselves.
    - `tol`: the error aimed at, absolute and relative, for every token (default 1e-8; 1e-5 for float32 tokens).
    - `solver`: one of dopri8, tsit5, bosh3, heun, euler, or kvaerno5, kvaerno3 for stiff problems.
    - `dt`: a fixed step instead of an adaptive one. `event`: stop where event(x) crosses zero.
    - `method`: how sums over tokens are done: "direct", "fourier" (circle), "harmonic" (S^2), "polynomial", or "auto",
      the fastest that keeps the tolerance. `Trajectory.engine` says which it was.
    - `out`: a zarr folder; frames go there as they come, memory stays that of one frame, a killed run can be resumed.
    - `progress`: show a bar; by default on terminals for runs that take long.

    **Returns:** a `Trajectory`; its `status` says how the run ended.
    """
    start = tokens(x0, "x0", on_sphere=model.space == "sphere")
    in_memory = start.size * start.dtype.itemsize if out is None else 0
    times = _save_times(t0, t1, saveat, in_memory)
    single = start.dtype == jnp.float32
    least = 1e-6 if single else 1e-13
    tol = real_number("tol", (1e-5 if single else 1e-8) if tol is None else tol, least=least, most=0.1)
    one_of("solver", solver, tuple(SOLVERS))
    if dt is None and solver == "euler":
        raise SphereflowError("the euler solver has no error estimate: give it a fixed step dt.")
    step = None if dt is None else jnp.asarray(real_number("dt", dt, above=0))
    stepping = Stepping(jnp.asarray(tol), step, solver, whole_number("max_steps", max_steps))

    began = time.perf_counter()
    common: dict[str, Any] = {"model": model, "tol": tol, "solver": solver, "seed": seed, "versions": versions()}
    common["parameters"] = parameters or {}
    fast = model.tuned(start.shape[-2], start.shape[-1], tol, str(start.dtype), method)
    common |= {"engine": fast.engine_name, "engine_error": fast.engine_error}
    pairs = start.shape[-2] * int(np.prod(start.shape[:-1]))
    if out is None and (pairs <= _ONE_CALL_PAIRS or event is not None):
        return _in_one_call(fast, start, times, stepping, event, began, common)
    if event is not None:
        raise SphereflowError("a run that is written to disk as it goes cannot stop at an event.")
    return _frame_by_frame(fast, start, times, stepping, out, progress, began, common)


def _save_times(t0: float, t1: float | None, saveat: Any, frame_bytes: int) -> np.ndarray:
    """The times to save at, if that many frames, each with so many bytes in memory, fit there."""
    if saveat is None or isinstance(saveat, (int, np.integer)):
        count = FRAMES if saveat is None else whole_number("saveat", saveat, least=2)
        enough_memory(count * (frame_bytes + _BOOKKEEPING_BYTES), f"saving {count} frames", "save fewer of them")
        if t1 is None:
            raise SphereflowError("give the final time t1, or the times to save at.")
        first = real_number("t0", t0)
        return np.linspace(first, real_number("t1", t1, above=first), count)
    times = np.asarray(saveat, dtype=float)
    if times.ndim != 1 or len(times) < 2 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        raise SphereflowError("saveat must be a number of frames, or at least two increasing finite times.")
    return times


def _in_one_call(
    model: Dynamics,
    start: Array,
    times: np.ndarray,
    stepping: Stepping,
    event: Callable[[Array], Array] | None,
    began: float,
    common: dict[str, Any],
) -> Trajectory:
    frames = solve(model, start, jnp.asarray(times), stepping, None, event)
    xs = np.moveaxis(np.asarray(frames.saved), -3, 0)  # time first, then replicas
    good = np.isfinite(xs).all(axis=tuple(range(1, xs.ndim)))
    stopped_at = None
    if bool(frames.hit_limit.any()):
        status = Status.STEP_LIMIT
    elif event is not None and bool(frames.event_met.any()):
        status, stopped_at = Status.EVENT, np.where(frames.event_met, frames.final_time, np.inf)
    else:
        status = Status.REACHED_END if good.all() else Status.NOT_FINITE
    kept = len(times) if good.all() else int(np.argmin(good))
    if status is Status.EVENT and xs.ndim == 3:  # one system: close the trajectory with the moment of the event
        ts = np.append(times[:kept], np.asarray(frames.final_time))
        xs = np.concatenate([xs[:kept], np.asarray(frames.final)[None]])
        kept = len(ts)
    else:
        ts = times[:kept]
    return Trajectory(
        ts=ts, xs=xs[:kept], status=status, steps=int(np.max(frames.steps)), stopped_at=stopped_at,
        seconds=time.perf_counter() - began, **common,
    )  # fmt: skip


def _frame_by_frame(
    model: Dynamics,
    start: Array,
    times: np.ndarray,
    stepping: Stepping,
    out: str | Path | None,
    progress: bool | None,
    began: float,
    common: dict[str, Any],
) -> Trajectory:
    writer = None
    if out is not None:
        from sphereflow.evolution.storage import FrameWriter

        writer = FrameWriter.open(out, times, start, common)
    kept = [] if writer is not None else [np.asarray(start)]
    done, x, steps = (1, start, 0) if writer is None else writer.resume_point(start)
    status, first_step = Status.REACHED_END, None
    try:
        with progress_bar("evolving", progress, total=len(times) - 1, completed=done - 1) as bar:
            for index in range(done, len(times)):
                span = jnp.asarray(times[index - 1 : index + 1])
                frames = solve(model, x, span, stepping, first_step)
                x = frames.final
                taken = int(np.max(frames.steps))
                if bool(frames.hit_limit.any()) or not bool(jnp.isfinite(x).all()):
                    status = Status.STEP_LIMIT if bool(frames.hit_limit.any()) else Status.NOT_FINITE
                    break
                steps += taken
                first_step = jnp.asarray((times[index] - times[index - 1]) / max(taken, 1))
                if writer is None:
                    kept.append(np.asarray(x))
                else:
                    writer.append(np.asarray(x), steps)
                done = index + 1
                bar.advance()
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    seconds = time.perf_counter() - began
    if writer is not None:
        return writer.finish(status, steps, seconds)
    return Trajectory(ts=times[:done], xs=np.stack(kept), status=status, steps=steps, seconds=seconds, **common)
