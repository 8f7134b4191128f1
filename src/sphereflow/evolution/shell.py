"""`evolve`: solve the equation of a model from given tokens, with error control."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import Dynamics
from sphereflow.errors import SphereflowError, enough_memory, one_of, real_number, whole_number
from sphereflow.evolution.devices import Devices, chosen_mesh, fetched, start_tokens
from sphereflow.evolution.settings import Settings
from sphereflow.evolution.status import Status
from sphereflow.evolution.trajectory import FIXED_STEP_TOL, Trajectory
from sphereflow.interaction import DIRECT, Adaptive, Engine, Sharded
from sphereflow.interaction.choice import METHODS
from sphereflow.progress import Progress, progress_bar
from sphereflow.provenance import versions
from sphereflow.runtime import forget_programs
from sphereflow.seeds import Seed, recorded
from sphereflow.shapes import ArrayLike
from sphereflow.solving import FORWARD, SOLVERS, Solution, solve, step_grid
from sphereflow.solving.initial_value import solve_forward

FRAMES = 101

# Below this many pairs per field evaluation a whole run is one compiled call; above it the run goes frame by frame,
# so that it can show progress, be interrupted, and keep only what fits in memory.
_ONE_CALL_PAIRS = 300_000
# Frames that stay in memory are solved for several at a time, in so many spans or more, if they take no more room.
_SPANS, _SPAN_BYTES = 10, 2**28
_BOOKKEEPING_BYTES = 64  # of every saved time, wherever its frame goes


def evolve(
    model: Dynamics,
    x0: ArrayLike,
    t1: float | None = None,
    *,
    t0: float = 0.0,
    saveat: int | Sequence[float] | Array | np.ndarray | None = None,
    tol: float | None = None,
    solver: str = "dopri8",
    dt: float | None = None,
    event: Callable[[Array], Array] | None = None,
    max_steps: int = 100_000,
    method: str | Engine = "auto",
    devices: Devices = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = None,
    seed: Seed | None = None,
    parameters: dict[str, Any] | None = None,
) -> Trajectory:
    r"""Solve $\dot x = f(t,x)$, $x(t_0)=x_0$, with error control.

    **Arguments:**

    - `model`: a dynamics; `x0`: tokens (n, d) at time t0, or (..., n, d) for independent replicas.
    - `t1`: final time. `saveat`: number of equally spaced saved times (101 by default), or the times themselves, from
      t0 on; the last of them is then the final time.
    - `tol`: the error aimed at, absolute and relative, for every token (default 1e-8; 1e-5 for float32 tokens).
    - `solver`: one of dopri8, tsit5, bosh3, heun, euler, or kvaerno5, kvaerno3 for stiff problems.
    - `dt`: a fixed step instead of adaptive ones, with no error control. Frames are saved at whole numbers of steps;
      steps are shortened only to end at t1 and at times at which the field jumps.
    - `event`: stop where event(x) crosses zero. `max_steps`: give up after so many.
    - `method`: how sums over tokens are done: "direct", "fourier" (circle), "harmonic" (S^2), "polynomial", or "auto",
      the fastest that keeps the tolerance; or an engine such as `Fourier(60)`, which then belongs to the model of the
      run. `Trajectory.engine` says which it was.
    - `devices`: "all", a number or a list of devices, over which the tokens of one system are split; by default those
      on which x0 lies. Several processes joined by `jax.distributed` make the same call.
    - `out`: a zarr folder; frames go there as they come, memory stays that of one frame, a killed run can be resumed. A
      finished run that is asked for again is read; another one is replaced if `overwrite`.
    - `progress`: show a bar; by default on terminals for runs that take long.
    - `seed`, `parameters`: from what x0 was drawn, to be kept with the run.

    **Returns:** a `Trajectory`; its `status` says how the run ended.
    """
    if not isinstance(model, Dynamics):
        raise SphereflowError(f"model must be a dynamics such as SA(beta), got {type(model).__name__}.")
    traits = model.traits
    mesh = chosen_mesh(devices, x0)
    start = start_tokens(x0, mesh, on_sphere=traits.space == "sphere")
    n, d = start.shape[-2:]
    # Of a method that is bound Equinox makes an object each time, for which a small run would wait.
    type(model).check(model, n, d)
    dtype = str(start.dtype)
    begin = real_number("t0", t0)
    in_memory = start.size * start.dtype.itemsize if out is None else 0
    fixed = None if dt is None else real_number("dt", dt, above=0)
    times = _save_times(begin, t1, saveat, in_memory)
    if fixed is not None:
        times = _at_whole_steps(times, begin, fixed, named=np.ndim(saveat) > 0)  # type: ignore[arg-type]
    points = times if times[0] == begin else np.append(begin, times)
    if not (np.diff((points - begin).astype(dtype)) > 0).all():
        raise SphereflowError(f"saveat has times that {dtype} cannot tell apart, counted from t0={begin:g}.")
    if isinstance(method, Engine):
        model, method = _with_engine(model, method, n, d)
    one_of("method", method, METHODS)
    one_of("solver", solver, tuple(SOLVERS))
    tol = _tolerance(tol, solver, dt, dtype)
    limit = whole_number("max_steps", max_steps)
    if not isinstance(overwrite, bool):
        raise SphereflowError(f"overwrite must be True or False, got {overwrite!r}.")

    began = time.perf_counter()
    fast = type(model).tuned(model, n, d, tol or FIXED_STEP_TOL, dtype, method)
    if method not in ("auto", "direct", fast.engine_name):
        raise SphereflowError(f"method='{method}' cannot serve this model: its sums are done as '{fast.engine_name}'.")
    if mesh is not None:
        fast = fast.sharded(mesh)
    settings = Settings(
        model=model,
        t0=begin,
        tol=tol,
        solver=solver,
        dt=fixed,
        max_steps=limit,
        method=method,
        devices=1 if mesh is None else mesh.size,
        engine=fast.engine_name,
        engine_error=fast.engine_error,
        seed=None if seed is None else recorded(seed),
        parameters=parameters or {},
        versions=versions(),
    )
    if out is not None and jax.process_count() > 1:
        raise SphereflowError("a run of several processes keeps its frames in memory: leave out `out`.")
    jumps = None if traits.jump_times is None else np.asarray(traits.jump_times, dtype=float)
    run = _Run(fast, start, points, times, settings, jumps)
    pairs = n * int(np.prod(start.shape[:-1]))
    if out is None and (pairs <= _ONE_CALL_PAIRS or event is not None):
        return run.in_one_call(event, began)
    if event is not None:
        raise SphereflowError("a run that is written to disk as it goes cannot stop at an event.")
    return run.frame_by_frame(out, overwrite, progress, began)


def _with_engine(model: Dynamics, engine: Engine, n: int, d: int) -> tuple[Dynamics, str]:
    """The model with an engine that was given, and the method that keeps it there."""
    if isinstance(engine, Sharded):
        raise SphereflowError("method must be an engine of one device: devices= splits the tokens.")
    if engine == DIRECT:
        return model, "direct"
    given = model.tuned(n, d, FIXED_STEP_TOL, method=engine)
    if given.engine_name != engine.name:
        raise SphereflowError(f"method={engine} cannot serve this model: its sums are done as '{given.engine_name}'.")
    return given, "auto"


def _tolerance(tol: float | None, solver: str, dt: float | None, dtype: str) -> float | None:
    """The tolerance, None for fixed steps, which have none."""
    if dt is not None:
        if tol is not None:
            raise SphereflowError("give tol or dt, not both: fixed steps control no error.")
        return None
    if solver == "euler":
        raise SphereflowError("the euler solver has no error estimate: give it a fixed step dt.")
    usual, least = (1e-5, 1e-6) if dtype == "float32" else (1e-8, 1e-13)
    return real_number("tol", usual if tol is None else tol, least=least, most=0.1)


def _save_times(t0: float, t1: float | None, saveat: Any, frame_bytes: int) -> np.ndarray:
    """The times to save at, if that many frames, each with so many bytes in memory, fit there."""
    if saveat is None or (isinstance(saveat, (int, np.integer)) and not isinstance(saveat, bool)):
        count = FRAMES if saveat is None else whole_number("saveat", saveat, least=2)
        enough_memory(count * (frame_bytes + _BOOKKEEPING_BYTES), f"saving {count} frames", "save fewer of them")
        if t1 is None:
            raise SphereflowError("give the final time t1, or the times to save at.")
        return np.linspace(t0, real_number("t1", t1, above=t0), count)
    try:
        times = np.asarray(saveat, dtype=float)
    except (TypeError, ValueError):
        times = np.empty(0)
    if times.ndim != 1 or len(times) < 1 or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        raise SphereflowError("saveat must be a number of frames, or increasing finite times.")
    if times[0] < t0 or times[-1] <= t0:
        raise SphereflowError(f"saveat must lie after the start t0={t0:g}, got times from {times[0]:g}.")
    if t1 is not None and real_number("t1", t1) != times[-1]:
        raise SphereflowError(f"the last time of saveat is the final time: {times[-1]:g}, but t1={t1:g} was given.")
    enough_memory(len(times) * (frame_bytes + _BOOKKEEPING_BYTES), f"saving {len(times)} frames", "save fewer of them")
    return times


def _at_whole_steps(times: np.ndarray, t0: float, dt: float, named: bool) -> np.ndarray:
    """The saved times of a run with fixed steps: those nearest to the ones wanted, or exactly those that were named."""
    nearest = np.append(t0 + dt * np.round((times[:-1] - t0) / dt), times[-1])
    if not named:
        return np.unique(np.clip(nearest, t0, times[-1]))
    if not np.allclose(nearest, times, rtol=0, atol=1e-6 * dt):
        at = times[np.argmax(np.abs(nearest - times))]
        raise SphereflowError(f"saveat must be whole numbers of steps dt={dt:g} from t0={t0:g}, got {at:g}.")
    return times


class _Run:
    """A run that has been checked: from `points[0]`, where the tokens are `start`, over all `points`."""

    def __init__(
        self,
        model: Dynamics,
        start: Float[Array, "... n d"],
        points: np.ndarray,
        times: np.ndarray,
        settings: Settings,
        jumps: np.ndarray | None,
    ):
        self.model, self.start, self.points, self.times, self.settings = model, start, points, times, settings
        self.jumps = jumps
        # Where the start is no saved frame, it is kept beside them: the run could not be made again without it.
        self.x0 = fetched(start) if len(points) > len(times) else None

    def _solve(
        self,
        x: Array,
        points: np.ndarray,
        first_step: float | None = None,
        event: Callable[[Array], Array] | None = None,
    ) -> Solution:
        s = self.settings
        dtype = str(self.start.dtype)
        grid = None if s.dt is None else jnp.asarray(step_grid(points, self.jumps, s.dt, dtype, s.max_steps))
        forget_programs()
        # What tokens have gathered into may be summed faster: one system on one device, between the spans of a run.
        model = self.model.gathered(x) if x.ndim == 2 and s.devices == 1 else self.model
        if grid is None and event is None and s.solver == "dopri8" and s.tol is not None:
            return solve_forward(model, x, points, s.tol, first_step=first_step, max_steps=s.max_steps)
        return solve(
            model,
            x,
            points,
            tol=s.tol,
            solver=SOLVERS[s.solver][0],
            controller=None if grid is None else diffrax.StepTo(ts=grid),
            first_step=first_step if grid is None else None,
            adjoint=FORWARD,
            event=event,
            max_steps=s.max_steps,
        )

    def _solve_span(self, x: Array, points: np.ndarray, first_step: float | None) -> Solution:
        """`_solve`; to the next frame in several parts if that is far and tokens may gather on the way."""
        parts, (begin, end) = 1, points[[0, -1]]
        if len(points) == 2 and x.ndim == 2 and self.settings.dt is None and self.settings.engine == Adaptive.name:
            parts = round(_SPANS * (end - begin) / (self.points[-1] - self.points[0]))
        if parts <= 1:
            return self._solve(x, points, first_step)
        taken = 0
        for part in pairwise(np.linspace(begin, end, parts + 1)):
            solved = self._solve(x, np.array(part), first_step)
            steps = int(solved.steps)
            x, taken, first_step = solved.final, taken + steps, (part[1] - part[0]) / max(steps, 1)
            if bool(solved.hit_limit) or not bool(jnp.isfinite(x).all()):
                break
        return dataclasses.replace(solved, steps=jnp.asarray(taken))

    def _trajectory(self, ts: np.ndarray, xs: np.ndarray, status: Status, steps: int, began: float) -> Trajectory:
        return Trajectory(
            ts=ts,
            xs=xs,
            status=status,
            steps=steps,
            seconds=time.perf_counter() - began,
            x0=self.x0,
            **vars(self.settings),
        )

    def in_one_call(self, event: Callable[[Array], Array] | None, began: float) -> Trajectory:
        frames = self._solve(self.start, self.points, event=event)
        xs, taken, hit_limit = fetched((frames.xs, frames.steps, frames.hit_limit))
        xs = np.moveaxis(xs, -3, 0)[-len(self.times) :]  # time first, then replicas
        good = np.isfinite(xs).reshape(len(xs), -1).all(axis=1)
        kept = len(self.times) if good.all() else int(np.argmin(good))
        steps = int(taken.max())
        if bool(hit_limit.any()):
            return self._trajectory(self.times[:kept], xs[:kept], Status.STEP_LIMIT, steps, began)
        frames = frames if event is None else fetched(frames)
        if event is None or not bool(frames.event_met.any()):
            status = Status.REACHED_END if good.all() else Status.NOT_FINITE
            return self._trajectory(self.times[:kept], xs[:kept], status, steps, began)
        self._check_event(event, frames)
        ts, xs = self.times[:kept], xs[:kept]
        if xs.ndim == 3:  # one system: close the trajectory with the moment of the event
            ts = np.append(ts, frames.final_time)
            xs = np.concatenate([xs, frames.final[None]])
        stopped_at = np.where(frames.event_met, frames.final_time, np.inf)
        run = self._trajectory(ts, xs, Status.EVENT, steps, began)
        return dataclasses.replace(run, stopped_at=stopped_at)

    def _check_event(self, event: Callable[[Array], Array], frames: Solution) -> None:
        """A function that becomes NaN changes its sign as well, in the eyes of the solver."""
        met = np.ravel(frames.event_met)
        ends = frames.final.reshape(-1, *frames.final.shape[-2:])[met]
        for x, t in zip(ends, np.ravel(frames.final_time)[met], strict=True):
            if np.isnan(float(event(jnp.asarray(x)))):
                raise SphereflowError(f"event must return a number for all tokens of the run, got NaN near t={t:g}.")

    def _frames_at_once(self, frames: int) -> int:
        """A tenth of those to come, in equal spans: a step need not end at every frame, and programs are few."""
        room = _SPAN_BYTES // (self.start.size * self.start.dtype.itemsize)
        most = max(1, min(-(-frames // _SPANS), room))
        even = max(size for size in range(1, most + 1) if frames % size == 0)
        return even if 2 * even > most else most

    def frame_by_frame(self, out: str | Path | None, overwrite: bool, progress: Progress, began: float) -> Trajectory:
        writer = None
        if out is not None:
            from sphereflow.evolution.storage import FrameWriter, finished_run

            if not overwrite and (found := finished_run(out, self.times, self.start, self.settings)) is not None:
                return found
            writer = FrameWriter.open(out, self.times, self.start, self.x0, self.settings, overwrite)
        extra = len(self.points) - len(self.times)  # 1 if the start is not a frame
        frames: list[np.ndarray] = [] if extra or writer is not None else [fetched(self.start)]
        done, x, steps, taken = (1 - extra, self.start, 0, 0) if writer is None else writer.resume_point(self.start)
        status = Status.REACHED_END
        at_once = self._frames_at_once(len(self.times) - done) if writer is None else 1
        try:
            with progress_bar("evolving", progress, total=len(self.times), completed=done) as bar:
                while done < len(self.times):
                    first = done + extra - 1
                    span = self.points[first : min(done + at_once, len(self.times)) + extra]
                    # The step to begin with is the mean one of the span before, which a resumed run knows as well.
                    before = self.points[first] - self.points[max(first - at_once, 0)]
                    solved = self._solve_span(x, span, float(before / taken) if taken else None)
                    taken = int(np.max(solved.steps))
                    if bool(solved.hit_limit.any()) or steps + taken > self.settings.max_steps:
                        status = Status.STEP_LIMIT
                        break
                    if at_once > 1:
                        new = np.moveaxis(fetched(solved.xs), -3, 0)[1:]
                    else:
                        new = [fetched(solved.final)] if writer is None else [np.asarray(solved.final)]
                    good = next((i for i, frame in enumerate(new) if not np.isfinite(frame).all()), len(new))
                    frames += [] if writer is not None else list(new[:good])
                    if good < len(new):
                        status = Status.NOT_FINITE
                        break
                    x, steps, done = solved.final, steps + taken, done + len(new)
                    if writer is not None:
                        writer.append(new[0], steps)
                    bar.advance(len(new))
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        if writer is not None:
            return writer.finish(self.settings.model, status, steps, time.perf_counter() - began)
        xs = np.stack(frames) if frames else np.empty((0, *self.start.shape), self.start.dtype)
        return self._trajectory(self.times[: len(frames)], xs, status, steps, began)
